/** Which languages are alike to models: a plane, and their similarities with the tree that orders them. */
const languagePlaces = (maps, { el, draw, choice, tip, moveTip }) => {
  const SHADES = ["run0", "d0", "d3", "d2", "d1", "d4", "d5"], NEAREST = 5;
  const wanted = { map: 0, by: "" };
  const titled = ({ name, code }) => (name === code ? code : `${name} (${code})`);
  const decimal = (value, digits = 2) => value.toFixed(digits).replace("-", "−");
  const capitalized = (word) => word[0].toUpperCase() + word.slice(1);

  const tell = (event) => {
    const lines = event.target.tells;
    if (lines) tip.textContent = lines.join("\n");
    tip.hidden = !lines;
    if (lines) moveTip(event);
  };
  const telling = (node, lines) => Object.assign(node, { tells: lines });
  const listening = (attributes) => ({ ...attributes, role: "img", onpointermove: tell, onpointerleave: () => { tip.hidden = true; } });

  /** The colour of each family or script: the most frequent have one of their own. */
  const shadesOf = (languages) => {
    const counts = new Map();
    for (const language of languages) if (language[wanted.by]) counts.set(language[wanted.by], (counts.get(language[wanted.by]) || 0) + 1);
    const frequent = [...counts].sort((a, b) => b[1] - a[1]).slice(0, SHADES.length).map(([name]) => name);
    return { frequent, shade: (name) => `--c:var(--${SHADES[frequent.indexOf(name)] || "rest"})` };
  };

  const facts = ({ languages, similarity }, i) => {
    const near = languages.map((_, k) => k).filter((k) => k !== i).sort((a, b) => similarity[i][b] - similarity[i][a]);
    const kinds = ["family", "script"].filter((by) => languages[i][by]).map((by) => `${by}: ${languages[i][by]}`);
    return [titled(languages[i]), ...kinds, "nearest:", ...near.slice(0, NEAREST).map((k) => `${languages[k].name} ${decimal(similarity[i][k])}`)];
  };

  /** The plane. A code stands where it covers no other; the others are told by the tooltip. */
  const plane = (map, shade, width) => {
    const across = Math.min(width, 360 + 9 * map.languages.length, 900), edge = 34;
    const ends = [0, 1].map((k) => map.plane.map((place) => place[k])).map((those) => [Math.min(...those), Math.max(...those)]);
    const span = ends.map(([low, high]) => high - low || 1);
    const scale = Math.min((across - 2 * edge) / span[0], (Math.max(across * 0.62, 300) - 2 * edge) / span[1]);
    const down = scale * span[1] + 2 * edge;
    const svg = draw("svg", listening({ class: "plane", width: across, height: down, "aria-label": "Languages as points: what is near is alike." }));
    const left = (across - scale * span[0]) / 2;
    const points = map.plane.map(([x, y]) => [left + (x - ends[0][0]) * scale, edge + (ends[1][1] - y) * scale]);
    const taken = points.map(([x, y]) => [x - 4, y - 4, x + 4, y + 4]);
    points.forEach(([x, y], i) => {
      const language = map.languages[i], long = 6.5 * language.code.length + 2;
      const free = [[x + 6, y - 6], [x - 6 - long, y - 6], [x - long / 2, y - 18], [x - long / 2, y + 6]]
        .map(([a, b]) => [a, b, a + long, b + 12])
        .find((box) => !taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]));
      svg.append(telling(draw("circle", { cx: x, cy: y, r: 4.5, style: shade(language[wanted.by]) }), facts(map, i)));
      if (!free) return;
      taken.push(free);
      svg.append(telling(draw("text", { x: free[0] + 1, y: free[1] + 10 }, language.code), facts(map, i)));
    });
    return svg;
  };

  /** The tree beside the rows, as far to the left as its branches are unlike; it begins shortly below the first join. */
  const tree = (map, cell, top, wide) => {
    const svg = draw("svg", listening({ class: "tree", width: wide, height: top + map.order.length * cell, "aria-label": "Tree of the languages." }));
    const heights = map.joins.map(([, , height]) => height), highest = Math.max(...heights);
    const lowest = Math.min(...heights), floor = Math.max(0, lowest - 0.15 * (highest - lowest));
    const x = (height) => wide - 2 - ((Math.max(height, floor) - floor) / (highest - floor || 1)) * (wide - 6);
    const at = new Map(map.order.map((language, row) => [language, { y: top + (row + 0.5) * cell, height: 0, leaves: [language] }]));
    map.joins.forEach(([left, right, height], i) => {
      const [one, other] = [at.get(left), at.get(right)], leaves = [...one.leaves, ...other.leaves];
      const d = `M${x(one.height)} ${one.y}H${x(height)}V${other.y}H${x(other.height)}`;
      const names = leaves.length > 12 ? `${leaves.length} languages` : leaves.map((k) => map.languages[k].name).join(", ");
      svg.append(draw("path", { d }), telling(draw("path", { class: "reach", d }), [names, `joined at similarity ${decimal(1 - height)}`]));
      at.set(map.order.length + i, { y: (one.y + other.y) / 2, height, leaves });
    });
    return svg;
  };

  /** Similarities in the order of the tree. The scale ends where the hundredth of the pairs begins that would fade all others. */
  const heat = (map, cell, gutter, low, high) => {
    const n = map.order.length, font = Math.min(12, Math.max(8, cell - 2)), names = map.order.map((i) => map.languages[i]);
    const rows = draw("svg", { class: "rows", width: gutter, height: gutter + n * cell, style: `font-size:${font}px` });
    const grid = draw("svg", listening({ class: "grid", width: n * cell, height: gutter + n * cell, style: `font-size:${font}px`, "aria-label": "Heat map of the similarities of languages." }));
    names.forEach(({ code, name }, k) => {
      const middle = (k + 0.5) * cell;
      rows.append(draw("text", { x: gutter - 5, y: gutter + middle + font / 3, "text-anchor": "end" }, code, draw("title", {}, name)));
      grid.append(draw("text", { x: 4, y: font / 3, transform: `translate(${middle} ${gutter}) rotate(-90)` }, code, draw("title", {}, name)));
    });
    map.order.forEach((i, r) => map.order.forEach((j, c) => {
      if (i === j) return;
      const value = map.similarity[i][j], share = Math.min((value - low) / (high - low || 1), 1);
      grid.append(telling(draw("rect", {
        class: "cell", x: c * cell + 0.5, y: gutter + r * cell + 0.5, width: cell - 1, height: cell - 1, rx: 1, style: `--p:${(100 * share).toFixed(0)}%`,
      }), [`${names[r].name} – ${names[c].name}`, `similarity ${decimal(value, 3)}`]));
    }));
    return [rows, grid];
  };

  const render = (width) => {
    const box = document.getElementById("places");
    if (!box) return;
    const map = maps[wanted.map], n = map.order.length, kinds = ["family", "script"].filter((by) => by in map.languages[0]);
    if (!kinds.includes(wanted.by)) wanted.by = kinds[0];
    const { frequent, shade } = shadesOf(map.languages);
    const again = (key) => (value) => { wanted[key] = key === "map" ? Number(value) : value; render(box.clientWidth); };
    const several = new Set(maps.map(({ run }) => run)).size > 1;
    const names = maps.map(({ run, method }, i) => [i, several ? `${run}, ${method}` : method]);
    const others = map.languages.some((language) => !frequent.includes(language[wanted.by]));
    const swatch = (name, text) => el("span", {}, el("i", { style: `${shade(name)};background:var(--c)` }), text);
    const gutter = 12 + 7 * Math.max(...map.languages.map(({ code }) => code.length)), wide = Math.min(180, Math.max(70, width * 0.16));
    const cell = Math.max(9, Math.min(30, Math.floor((width - gutter - wide - 4) / n)));
    const values = map.similarity.flatMap((row, i) => row.filter((_, j) => i !== j)).sort((a, b) => a - b);
    const low = values[0], high = values[Math.floor(0.99 * (values.length - 1))], beyond = high < values.at(-1) ? " or more" : "";
    box.replaceChildren(
      el("div", { class: "controls" },
        maps.length > 1 ? choice("representation", names, wanted.map, again("map")) : null,
        kinds.length > 1 ? choice("colour", kinds.map((by) => [by, by]), wanted.by, again("by")) : null),
      el("h3", {}, `Map by ${wanted.by}`),
      el("div", { class: "swatches" }, ...frequent.map((name) => swatch(name, capitalized(name))), others ? swatch("", "other or not known") : null),
      plane(map, shade, width),
      el("p", { class: "quiet" }, `The plane has ${(100 * map.spread).toFixed(0)}% of the spread of the distances; the similarities have all of it.`),
      el("h3", {}, "Tree and similarities"),
      el("div", { class: "scale" }, decimal(low), el("i"), decimal(high) + beyond),
      el("div", { class: "map" }, tree(map, cell, gutter, wide), ...heat(map, cell, gutter, low, high)));
  };
  return render;
};
