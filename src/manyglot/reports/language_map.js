/** The language map: a 2-D map of the languages, and their similarities with a dendrogram. Returns its render function. */
const makeLanguageMap = (maps, { element, svgElement, selectControl, tooltip, placeTooltip }) => {
  const CATEGORY_COLORS = ["run0", "d0", "d3", "d2", "d1", "d4", "d5"], NUM_NEAREST = 5;
  const state = { map: 0, category: "" };
  const languageTitle = ({ name, code }) => (name === code ? code : `${name} (${code})`);
  const decimal = (value, digits = 2) => value.toFixed(digits).replace("-", "−");
  const capitalized = (word) => word[0].toUpperCase() + word.slice(1);

  const showTooltip = (event) => {
    const lines = event.target.tooltipLines;
    if (lines) tooltip.textContent = lines.join("\n");
    tooltip.hidden = !lines;
    if (lines) placeTooltip(event);
  };
  const withTooltip = (node, lines) => Object.assign(node, { tooltipLines: lines });
  const tooltipAttributes = (attributes) => ({ ...attributes, role: "img", onpointermove: showTooltip, onpointerleave: () => { tooltip.hidden = true; } });

  /** Colors of families or scripts; only the most frequent have their own. */
  const categoryColors = (languages) => {
    const counts = new Map();
    for (const language of languages) if (language[state.category]) counts.set(language[state.category], (counts.get(language[state.category]) || 0) + 1);
    const frequent = [...counts].sort((a, b) => b[1] - a[1]).slice(0, CATEGORY_COLORS.length).map(([name]) => name);
    return { frequent, colorStyle: (name) => `--c:var(--${CATEGORY_COLORS[frequent.indexOf(name)] || "rest"})` };
  };

  const languageFacts = ({ languages, similarity }, i) => {
    const near = languages.map((_, k) => k).filter((k) => k !== i).sort((a, b) => similarity[i][b] - similarity[i][a]);
    const categories = ["family", "script"].filter((category) => languages[i][category])
      .map((category) => `${category}: ${languages[i][category]}`);
    return [languageTitle(languages[i]), ...categories, "nearest:", ...near.slice(0, NUM_NEAREST).map((k) => `${languages[k].name} ${decimal(similarity[i][k])}`)];
  };

  /** The 2-D map. A code is shown only where it covers nothing else; the tooltip has the rest. */
  const pointMap = (map, colorStyle, width) => {
    const figureWidth = Math.min(width, 360 + 9 * map.languages.length, 900), margin = 34;
    const ranges = [0, 1].map((k) => map.points.map((point) => point[k])).map((values) => [Math.min(...values), Math.max(...values)]);
    const span = ranges.map(([low, high]) => high - low || 1);
    const scale = Math.min((figureWidth - 2 * margin) / span[0], (Math.max(figureWidth * 0.62, 300) - 2 * margin) / span[1]);
    const figureHeight = scale * span[1] + 2 * margin;
    const svg = svgElement("svg", tooltipAttributes({ class: "point-map", width: figureWidth, height: figureHeight, "aria-label": "Map of the languages: similar languages are close." }));
    const left = (figureWidth - scale * span[0]) / 2;
    const points = map.points.map(([x, y]) => [left + (x - ranges[0][0]) * scale, margin + (ranges[1][1] - y) * scale]);
    const occupied = points.map(([x, y]) => [x - 4, y - 4, x + 4, y + 4]);
    points.forEach(([x, y], i) => {
      const language = map.languages[i], labelWidth = 6.5 * language.code.length + 2;
      const free = [[x + 6, y - 6], [x - 6 - labelWidth, y - 6], [x - labelWidth / 2, y - 18], [x - labelWidth / 2, y + 6]]
        .map(([a, b]) => [a, b, a + labelWidth, b + 12])
        .find((box) => !occupied.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]));
      svg.append(withTooltip(svgElement("circle", { cx: x, cy: y, r: 4.5, style: colorStyle(language[state.category]) }), languageFacts(map, i)));
      if (!free) return;
      occupied.push(free);
      svg.append(withTooltip(svgElement("text", { x: free[0] + 1, y: free[1] + 10 }, language.code), languageFacts(map, i)));
    });
    return svg;
  };

  /** The dendrogram beside the rows. The axis starts just below the first merge, so that differences are visible. */
  const dendrogram = (map, cell, top, dendrogramWidth) => {
    const svg = svgElement("svg", tooltipAttributes({ class: "dendrogram", width: dendrogramWidth, height: top + map.leaf_order.length * cell, "aria-label": "Dendrogram of the languages." }));
    const heights = map.merges.map(([, , height]) => height), highest = Math.max(...heights);
    const lowest = Math.min(...heights), floor = Math.max(0, lowest - 0.15 * (highest - lowest));
    const x = (height) => dendrogramWidth - 2 - ((Math.max(height, floor) - floor) / (highest - floor || 1)) * (dendrogramWidth - 6);
    const clusters = new Map(map.leaf_order.map((language, row) => [language, { y: top + (row + 0.5) * cell, height: 0, leaves: [language] }]));
    map.merges.forEach(([left, right, height], i) => {
      const [one, other] = [clusters.get(left), clusters.get(right)], leaves = [...one.leaves, ...other.leaves];
      const d = `M${x(one.height)} ${one.y}H${x(height)}V${other.y}H${x(other.height)}`;
      const names = leaves.length > 12 ? `${leaves.length} languages` : leaves.map((k) => map.languages[k].name).join(", ");
      svg.append(svgElement("path", { d }), withTooltip(svgElement("path", { class: "hit-area", d }), [names, `merged at similarity ${decimal(1 - height)}`]));
      clusters.set(map.leaf_order.length + i, { y: (one.y + other.y) / 2, height, leaves });
    });
    return svg;
  };

  /** Similarities in the order of the dendrogram. The color scale ends at the 99th percentile, or outliers would make the rest look pale. */
  const similarityHeatmap = (map, cell, gutter, low, high) => {
    const n = map.leaf_order.length, font = Math.min(12, Math.max(8, cell - 2)), names = map.leaf_order.map((i) => map.languages[i]);
    const rows = svgElement("svg", { class: "rows", width: gutter, height: gutter + n * cell, style: `font-size:${font}px` });
    const grid = svgElement("svg", tooltipAttributes({ class: "grid", width: n * cell, height: gutter + n * cell, style: `font-size:${font}px`, "aria-label": "Heat map of language similarities." }));
    names.forEach(({ code, name }, k) => {
      const middle = (k + 0.5) * cell;
      rows.append(svgElement("text", { x: gutter - 5, y: gutter + middle + font / 3, "text-anchor": "end" }, code, svgElement("title", {}, name)));
      grid.append(svgElement("text", { x: 4, y: font / 3, transform: `translate(${middle} ${gutter}) rotate(-90)` }, code, svgElement("title", {}, name)));
    });
    map.leaf_order.forEach((i, r) => map.leaf_order.forEach((j, c) => {
      if (i === j) return;
      const value = map.similarity[i][j], share = Math.min((value - low) / (high - low || 1), 1);
      grid.append(withTooltip(svgElement("rect", {
        class: "cell", x: c * cell + 0.5, y: gutter + r * cell + 0.5, width: cell - 1, height: cell - 1, rx: 1, style: `--p:${(100 * share).toFixed(0)}%`,
      }), [`${names[r].name} – ${names[c].name}`, `similarity ${decimal(value, 3)}`]));
    }));
    return [rows, grid];
  };

  const render = (width) => {
    const box = document.getElementById("language-map");
    if (!box) return;
    const map = maps[state.map], n = map.leaf_order.length, categories = ["family", "script"].filter((category) => category in map.languages[0]);
    if (!categories.includes(state.category)) state.category = categories[0];
    const { frequent, colorStyle } = categoryColors(map.languages);
    const onChange = (key) => (value) => { state[key] = key === "map" ? Number(value) : value; render(box.clientWidth); };
    const severalRuns = new Set(maps.map(({ run }) => run)).size > 1;
    const names = maps.map(({ run, method }, i) => [i, severalRuns ? `${run}, ${method}` : method]);
    const hasOthers = map.languages.some((language) => !frequent.includes(language[state.category]));
    const swatch = (name, text) => element("span", {}, element("i", { style: `${colorStyle(name)};background:var(--c)` }), text);
    const gutter = 12 + 7 * Math.max(...map.languages.map(({ code }) => code.length)), dendrogramWidth = Math.min(180, Math.max(70, width * 0.16));
    const cell = Math.max(9, Math.min(30, Math.floor((width - gutter - dendrogramWidth - 4) / n)));
    const values = map.similarity.flatMap((row, i) => row.filter((_, j) => i !== j)).sort((a, b) => a - b);
    const low = values[0], high = values[Math.floor(0.99 * (values.length - 1))], beyond = high < values.at(-1) ? " or more" : "";
    box.replaceChildren(
      element("div", { class: "controls" },
        maps.length > 1 ? selectControl("representation", names, state.map, onChange("map")) : null,
        categories.length > 1 ? selectControl("color by", categories.map((category) => [category, category]), state.category, onChange("category")) : null),
      element("h3", {}, `Map by ${state.category}`),
      element("div", { class: "swatches" }, ...frequent.map((name) => swatch(name, capitalized(name))), hasOthers ? swatch("", "other or unknown") : null),
      pointMap(map, colorStyle, width),
      element("p", { class: "quiet" }, `The map shows ${(100 * map.explained_variance).toFixed(0)}% of the variance of the distances (multidimensional scaling). The heat map below is exact.`),
      element("h3", {}, "Dendrogram and similarities"),
      element("div", { class: "scale" }, decimal(low), element("i"), decimal(high) + beyond),
      element("div", { class: "map" }, dendrogram(map, cell, gutter, dendrogramWidth), ...similarityHeatmap(map, cell, gutter, low, high)));
  };
  return render;
};
