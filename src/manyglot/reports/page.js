"use strict";
// Draws what the JSON of the page says. Text from the data is only ever set as text, never as HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { languages, runs, source, target, unseen } = data;
  const every = source.map((_, i) => i);
  const state = { run: 0, minus: -1, measure: "bleu", order: "code", picked: -1 };
  const MEASURES = {
    bleu: "BLEU", chrf: "chrF++", accuracy: "LangAcc", relative: "LangAcc relative to the references",
  };
  const PERCENT = new Set(["accuracy", "relative"]);

  // ---- small things -------------------------------------------------------------------------------------------------

  const fill = (node, attributes, children) => {
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null));
    return node;
  };
  const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
  const draw = (tag, attributes = {}, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  const shown = (value, digits = 1) => (value === null || value === undefined ? "–" : value.toFixed(digits));
  const signed = (value) => (value === null ? "–" : (value > 0 ? "+" : value < 0 ? "−" : "±") + Math.abs(value).toFixed(1));
  const mean = (values) => {
    const known = values.filter((value) => value !== null);
    return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
  };
  const nameOf = (code) => (code === "" ? "no language" : data.names[code] || code);
  const titled = (i) => `${languages[source[i]].name} → ${languages[target[i]].name}`;
  const KINDS = { supervised: "supervised", zero_shot: "zero-shot" };
  const kindOf = (i) => (unseen[i] ? "zero_shot" : "supervised");
  const kind = (i) => KINDS[kindOf(i)];
  const difference = (a, b) => (a === null || b === null ? null : a - b);
  const choice = (label, options, value, change) =>
    el("label", {}, label, el("select", { onchange: (event) => change(event.target.value) },
      ...options.map(([key, text]) => el("option", { value: key, selected: String(key) === String(value) }, text))));

  const measured = Object.entries(MEASURES).filter(([key]) => runs.some((run) => run[key].some((value) => value !== null)));

  // ---- the heat map -------------------------------------------------------------------------------------------------

  const cells = new Map(every.map((i) => [`${source[i]} ${target[i]}`, i]));
  const tip = el("div", { id: "tip", role: "tooltip", hidden: true });
  document.body.append(tip);

  const valueOf = (i) => {
    const value = runs[state.run][state.measure][i];
    return state.minus < 0 ? value : difference(value, runs[state.minus][state.measure][i]);
  };

  const ordered = () => {
    const codes = languages.map((_, i) => i);
    const into = (code) => mean(every.filter((i) => target[i] === code).map(valueOf)) ?? -Infinity;
    if (state.order === "name") codes.sort((a, b) => languages[a].name.localeCompare(languages[b].name));
    if (state.order === "value") {
      const means = codes.map(into);
      codes.sort((a, b) => means[b] - means[a]);
    }
    if (state.order === "data") codes.sort((a, b) => languages[b].sentences - languages[a].sentences);
    return codes;
  };

  /** The ends of the scale: those of a difference leave out the most extreme hundredth, which would fade all others. */
  const range = () => {
    const values = every.map(valueOf).filter((value) => value !== null);
    if (state.minus >= 0) {
      const sizes = values.map(Math.abs).sort((a, b) => a - b);
      return Math.max(Math.ceil(sizes[Math.floor(0.99 * (sizes.length - 1))] || 0), 1);
    }
    return PERCENT.has(state.measure) ? 100 : Math.max(Math.ceil(Math.max(0, ...values) / 5) * 5, 5);
  };

  const facts = (i) => {
    const run = runs[state.run];
    const lines = [`BLEU ${shown(run.bleu[i])}, chrF++ ${shown(run.chrf[i])}`];
    if (run.accuracy[i] !== null)
      lines.push(`LangAcc ${shown(run.accuracy[i])}% (references ${shown(run.reference[i])}%)`);
    if (run.other[i]) lines.push(`${shown(run.share[i])}% in ${nameOf(run.other[i])}`);
    if (run.copied[i] || run.empty[i]) lines.push(`copied ${shown(run.copied[i])}%, empty ${shown(run.empty[i])}%`);
    runs.forEach((other, k) => {
      if (k !== state.run) lines.push(`${other.name}: BLEU ${shown(other.bleu[i])}, LangAcc ${shown(other.accuracy[i])}%`);
    });
    return [`${titled(i)}, ${kind(i)}`, ...lines, `${data.sentences[i].toLocaleString("en")} sentences`];
  };

  let place = { codes: [], rects: [], labels: [[], []], frame: null };

  const renderMap = (width) => {
    const box = document.getElementById("heatmap");
    const codes = ordered(), n = codes.length, top = range();
    const longest = Math.max(...languages.map((language) => language.code.length));
    const gutter = 12 + 7 * longest;
    const cell = Math.max(11, Math.min(54, Math.floor((width - gutter - 4) / n)));
    const gap = cell > 20 ? 2 : 1, size = n * cell, font = Math.min(12, Math.max(9, cell - 3));
    const rows = draw("svg", { class: "rows", width: gutter, height: gutter + size + 2, style: `font-size:${font}px` });
    const grid = draw("svg", {
      class: "grid", width: size + 2, height: gutter + size + 2, tabindex: 0, role: "img",
      "aria-label": "Heat map: rows are source languages, columns target languages. Arrow keys move.",
    });
    place = { codes, rects: new Array(every.length), labels: [[], []], frame: null };
    codes.forEach((code, k) => {
      const middle = gutter + (k + 0.5) * cell, text = languages[code].code;
      const row = draw("text", { x: gutter - 5, y: middle + font / 3, "text-anchor": "end" }, text,
        draw("title", {}, languages[code].name));
      const x = (k + 0.5) * cell, upright = cell >= 9 * longest;
      const column = draw("text", upright ? { x, y: gutter - 5, "text-anchor": "middle" } :
        { x: 4, y: font / 3, transform: `translate(${x} ${gutter}) rotate(-90)` }, text,
        draw("title", {}, languages[code].name));
      column.setAttribute("font-size", font);
      rows.append(row); grid.append(column);
      place.labels[0][code] = row; place.labels[1][code] = column;
    });
    codes.forEach((s, r) => codes.forEach((t, c) => {
      const i = cells.get(`${s} ${t}`);
      if (i === undefined) return;
      const value = valueOf(i), share = value === null ? 0 : Math.min(Math.abs(value) / top, 1);
      const sort = value === null ? "none" : state.minus < 0 ? "cell" : value < 0 ? "minus" : "plus";
      const inset = unseen[i] ? 0 : 0.5;
      const rect = draw("rect", {
        class: sort + (unseen[i] ? "" : " trained"), "data-i": i,
        x: c * cell + gap / 2 + inset, y: gutter + r * cell + gap / 2 + inset,
        width: cell - gap - 2 * inset, height: cell - gap - 2 * inset, rx: cell > 20 ? 3 : 1,
        style: `--p:${(100 * share).toFixed(0)}%`,
      });
      place.rects[i] = rect;
      grid.append(rect);
      if (cell >= 24) {
        const text = value === null ? "–" : state.minus < 0 ? value.toFixed(0) : signed(Math.round(value)).replace(".0", "");
        grid.append(draw("text", {
          class: `value${share > 0.7 ? " strong" : share > 0.5 ? " middling" : ""}`, x: (c + 0.5) * cell, y: gutter + (r + 0.5) * cell + 4,
          "text-anchor": "middle", "font-size": 11,
        }, text));
      }
    }));
    place.frame = draw("rect", { class: "frame" });
    grid.append(place.frame);
    frame();
    grid.addEventListener("pointermove", (event) => hover(event));
    grid.addEventListener("pointerleave", () => leave());
    grid.addEventListener("click", (event) => event.target.dataset.i && pick(Number(event.target.dataset.i)));
    grid.addEventListener("keydown", move);
    const scale = state.minus < 0
      ? el("div", { class: "scale" }, "0", el("i"), `${top}${PERCENT.has(state.measure) ? "%" : ""}`)
      : el("div", { class: "scale both" }, `−${top} worse`, el("i"), `+${top} better than ${runs[state.minus].name}`);
    const values = every.map(valueOf);
    const wins = state.minus < 0 ? "" :
      `higher in ${values.filter((v) => v > 0).length.toLocaleString("en")} of ${values.length.toLocaleString("en")} directions`;
    scale.append(el("b"), "trained directions", el("span", {}, "rows: source, columns: target"), el("span", {}, wins));
    box.replaceChildren(controls(), scale, el("div", { class: "map" }, rows, grid), detail());
  };

  const controls = () => {
    const again = (key) => (value) => {
      state[key] = key === "run" || key === "minus" ? Number(value) : value;
      if (state.minus === state.run) state.minus = -1;
      key === "run" ? renderAll() : renderMap(room());
    };
    const orders = [["code", "code"], ["name", "name"], ["value", "best target first"]];
    if (languages.every((language) => language.sentences !== null)) orders.push(["data", "most training text first"]);
    const names = runs.map((run, i) => [i, run.name]);
    return el("div", { class: "controls" },
      runs.length > 1 ? choice("run", names, state.run, again("run")) : null,
      choice("measure", measured, state.measure, again("measure")),
      runs.length > 1
        ? choice("minus", [[-1, "nothing"], ...names.filter(([i]) => i !== state.run)], state.minus, again("minus")) : null,
      choice("order", orders, state.order, again("order")));
  };

  const highlight = (i, on) => {
    place.labels[0][source[i]]?.classList.toggle("on", on);
    place.labels[1][target[i]]?.classList.toggle("on", on);
  };
  let under = -1;
  const leave = () => {
    if (under >= 0) highlight(under, false);
    under = -1;
    tip.hidden = true;
  };
  const hover = (event) => {
    const i = event.target.dataset.i === undefined ? -1 : Number(event.target.dataset.i);
    if (i !== under) leave();
    if (i < 0) return;
    if (i !== under) {
      highlight(i, true);
      tip.textContent = facts(i).join("\n");
      tip.hidden = false;
      under = i;
    }
    moveTip(event);
  };
  const moveTip = (event) => {
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 4))}px`;
    tip.style.top = `${event.clientY + 18 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 18}px`;
  };
  const frame = () => {
    const rect = place.rects[state.picked];
    if (!rect) return;
    for (const key of ["x", "y", "width", "height", "rx"]) place.frame.setAttribute(key, rect.getAttribute(key));
    place.frame.classList.add("picked");
  };
  const pick = (i) => {
    state.picked = i;
    frame();
    document.getElementById("detail").replaceWith(detail());
  };
  const move = (event) => {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!steps) return;
    event.preventDefault();
    const { codes } = place, n = codes.length;
    let row = state.picked < 0 ? 0 : codes.indexOf(source[state.picked]);
    let column = state.picked < 0 ? 0 : codes.indexOf(target[state.picked]);
    for (let tries = 0; tries < n; tries++) {
      row += steps[0]; column += steps[1];
      if (row < 0 || column < 0 || row >= n || column >= n) return;
      const i = cells.get(`${codes[row]} ${codes[column]}`);
      if (i !== undefined) return pick(i);
    }
  };

  const detail = () => {
    const i = state.picked;
    if (i < 0) return el("div", { id: "detail", class: "quiet" }, "Choose a cell to see its direction and a sentence of it.");
    const [heading, ...lines] = facts(i);
    return el("div", { id: "detail" }, el("h3", {}, heading), el("p", { class: "quiet" }, lines.join(" · ")),
      ...(data.examples[i] || []).map((entry) => sentence(i, entry)));
  };
  const sentence = (i, [text, output, reference, told, others]) => {
    const line = (label, number, code, wrong) => [
      el("dt", {}, label, wrong ? el("em", {}, ` ${wrong}`) : null),
      el("dd", { dir: "auto", lang: code || null }, data.texts[number] || "(empty)"),
    ];
    const code = languages[target[i]].code;
    const wrong = (label) => (label === code || runs[0].accuracy[i] === null ? "" : nameOf(label));
    const also = others.flatMap((each, k) =>
      each ? line(`output of ${runs[k + 1].name}`, each[0], each[1], wrong(each[1])) : []);
    return el("dl", { class: "sentence" }, ...line("source", text, languages[source[i]].code),
      ...line(runs.length > 1 ? `output of ${runs[0].name}` : "output", output, told, wrong(told)), ...also,
      ...line("reference", reference, code));
  };

  // ---- tables -------------------------------------------------------------------------------------------------------

  /** A table that is sorted by a click on a heading and cut down by what is typed. Columns: title, value, text, number. */
  const table = (box, columns, all, { sort, down, matches, filters = [], most, unit }) => {
    const view = { sort, down, most, words: "" };
    const head = el("tr", {}, ...columns.map((column, k) => el("th", { scope: "col", class: column.number ? "number" : null },
      el("button", { type: "button", title: column.hint || null, onclick: () => {
        view.down = view.sort === k ? !view.down : Boolean(column.number);
        view.sort = k;
        show();
      } }, column.title))));
    const body = el("tbody"), note = el("span", { class: "quiet", "aria-live": "polite" });
    const more = el("button", { type: "button", onclick: () => { view.most = Infinity; show(); } });
    const search = el("input", { type: "search", placeholder: "de, German, de>fr …", oninput: (event) => {
      view.words = event.target.value;
      show();
    } });
    const compare = (a, b) => {
      const column = columns[view.sort], x = column.value(a), y = column.value(b);
      if (x === null || y === null) return (x === null) - (y === null); // what is not known comes last
      const order = column.number ? x - y : String(x).localeCompare(String(y));
      return view.down ? -order : order;
    };
    const show = () => {
      const words = view.words.toLowerCase().replace(/→/g, ">").split(/[\s,]+/).filter(Boolean);
      const found = all.filter((row) => words.every((word) => matches(row, word)) && filters.every(({ keeps }) => keeps(row)));
      found.sort(compare);
      const first = found.slice(0, view.most), count = (rows) => rows.length.toLocaleString("en");
      body.replaceChildren(...first.map((row) => el("tr", {}, ...columns.map((column) =>
        el("td", { class: column.number ? "number" : null, dir: column.number ? null : "auto" }, column.text(row))))));
      [...head.children].forEach((th, k) => {
        if (k === view.sort) th.setAttribute("aria-sort", view.down ? "descending" : "ascending");
        else th.removeAttribute("aria-sort");
      });
      note.textContent = [first.length < found.length ? `the first ${count(first)} of` : "",
        found.length < all.length ? `${count(found)} of` : "", `${count(all)} ${unit}`].filter(Boolean).join(" ");
      more.textContent = `show all ${count(found)}`;
      more.hidden = found.length <= view.most;
    };
    box.replaceChildren(
      el("div", { class: "controls" }, el("label", {}, "only", search), ...filters.map(({ control }) => control(show))),
      el("div", { class: "scroll" }, el("table", { class: "sorted" }, el("thead", {}, head), body)),
      el("div", { class: "more" }, more, note));
    show();
  };
  const number = (title, value, digits = 1, hint = "") => ({
    title, value, hint, number: true, text: (row) => shown(value(row), digits),
  });
  const speaks = (language, word) => language.code.toLowerCase() === word || language.name.toLowerCase().startsWith(word);

  const renderDirections = () => {
    const run = runs[state.run], wanted = { kind: "all" };
    const from = (i) => languages[source[i]], into = (i) => languages[target[i]];
    // A phone has room for the code only.
    const named = ({ name, code }) =>
      el("span", { title: name }, el("span", { class: "long" }, `${name} (`), code, el("span", { class: "long" }, ")"));
    const columns = [
      { title: "from", value: (i) => from(i).name, text: (i) => named(from(i)) },
      { title: "into", value: (i) => into(i).name, text: (i) => named(into(i)) },
      number("BLEU", (i) => run.bleu[i]),
      ...runs.flatMap((other, k) => (k === state.run ? [] : [{
        title: `− ${other.name}`, hint: `BLEU minus that of ${other.name}`, number: true,
        value: (i) => difference(run.bleu[i], other.bleu[i]), text: (i) => signed(difference(run.bleu[i], other.bleu[i])),
      }])),
      number("chrF++", (i) => run.chrf[i]),
      number("LangAcc", (i) => run.accuracy[i], 1, "percent of outputs in the target language"),
      number("relative", (i) => run.relative[i], 1, "LangAcc in percent of that of the references"),
      { title: "goes to", hint: "the language that most of the other outputs are in", value: (i) => run.other[i] && nameOf(run.other[i]),
        text: (i) => (run.other[i] ? nameOf(run.other[i]) : "") },
      number("share", (i) => run.share[i], 1, "percent of outputs in that language"),
      number("copied", (i) => run.copied[i], 1, "percent of outputs that are the source itself"),
      number("empty", (i) => run.empty[i], 1, "percent of outputs that are empty"),
      number("length", (i) => run.ratio[i], 2, "words of the outputs for each word of the references"),
      number("sentences", (i) => data.sentences[i], 0),
      { title: "kind", value: kind, text: kind },
    ];
    const matches = (i, word) => {
      if (!word.includes(">")) return speaks(from(i), word) || speaks(into(i), word);
      const [left, right] = word.split(">");
      return (!left || speaks(from(i), left)) && (!right || speaks(into(i), right));
    };
    const kinds = [["all", "all"], ...Object.entries(KINDS)];
    const filter = {
      keeps: (i) => wanted.kind === "all" || kindOf(i) === wanted.kind,
      control: (show) => choice("kind", kinds, "all", (value) => { wanted.kind = value; show(); }),
    };
    table(document.getElementById("direction-table"), columns, [...every],
      { sort: 2, down: false, matches, filters: unseen.includes(1) ? [filter] : [], most: 50, unit: "directions" });
  };

  const renderLanguages = () => {
    const run = runs[state.run];
    const group = (side, code, zero) => every.filter((i) => side[i] === code && unseen[i] === zero);
    const rows = languages.map((language, code) => {
      const [into, intoUnseen] = [group(target, code, 0), group(target, code, 1)];
      const [from, fromUnseen] = [group(source, code, 0), group(source, code, 1)];
      const of = (key, those) => mean(those.map((i) => run[key][i]));
      const [first] = drift(run, language.code, Object.keys(KINDS)).others;
      return { language, into: of("bleu", into), intoUnseen: of("bleu", intoUnseen), from: of("bleu", from),
        fromUnseen: of("bleu", fromUnseen), accuracy: of("accuracy", into), accuracyUnseen: of("accuracy", intoUnseen),
        reference: of("reference", [...into, ...intoUnseen]), goes: first ? `${nameOf(first[0])} ${shown(first[1])}%` : "" };
    });
    const has = (key) => rows.some((row) => row[key] !== null);
    const columns = [
      { title: "language", value: (row) => row.language.name, text: (row) => `${row.language.name} (${row.language.code})` },
      languages.some((language) => language.sentences !== null) ? { title: "training sentences", number: true,
        value: (row) => row.language.sentences, text: (row) => row.language.sentences?.toLocaleString("en") ?? "–" } : null,
      number("BLEU into it", (row) => row.into, 1, "supervised"),
      has("intoUnseen") ? number("zero-shot", (row) => row.intoUnseen, 1, "BLEU into it, zero-shot") : null,
      number("BLEU from it", (row) => row.from, 1, "supervised"),
      has("fromUnseen") ? number("zero-shot", (row) => row.fromUnseen, 1, "BLEU from it, zero-shot") : null,
      number("LangAcc into it", (row) => row.accuracy, 1, "supervised"),
      has("accuracyUnseen") ? number("zero-shot", (row) => row.accuracyUnseen, 1, "LangAcc into it, zero-shot") : null,
      number("of references", (row) => row.reference),
      Object.keys(run.outputs_in).length ? { title: "drifts to", value: (row) => row.goes, text: (row) => row.goes } : null,
    ].filter(Boolean);
    table(document.getElementById("language-table"), columns, rows,
      { sort: 0, down: false, matches: (row, word) => speaks(row.language, word), most: Infinity, unit: "languages" });
  };

  // ---- drift --------------------------------------------------------------------------------------------------------

  /** Percent of the outputs into a language that are in it, and in others, most of them first. */
  const drift = (run, code, kinds) => {
    const counts = {};
    for (const each of kinds)
      for (const [label, count] of Object.entries(run.outputs_in[each]?.[code] || {})) counts[label] = (counts[label] || 0) + count;
    const total = Object.values(counts).reduce((a, b) => a + b, 0);
    const others = Object.entries(counts).filter(([label]) => label !== code)
      .map(([label, count]) => [label, (100 * count) / total]).sort((a, b) => b[1] - a[1]);
    return { total, right: total ? (100 * (counts[code] || 0)) / total : null, others };
  };

  const wantedDrift = { kind: data.runs.some((run) => run.outputs_in.zero_shot) ? "zero_shot" : "supervised" };
  const renderDrift = () => {
    const box = document.getElementById("drifts");
    if (!box) return;
    const run = runs[state.run], kinds = Object.keys(run.outputs_in);
    const rows = languages.map(({ code, name }) => ({ code, name, ...drift(run, code, [wantedDrift.kind]) }))
      .filter(({ total }) => total).sort((a, b) => a.right - b.right);
    const sums = {};
    for (const { others } of rows) for (const [label, share] of others) sums[label] = (sums[label] || 0) + share;
    const chief = Object.entries(sums).sort((a, b) => b[1] - a[1]).slice(0, 6).map(([label]) => label);
    const colour = (label) => (chief.includes(label) ? `d${chief.indexOf(label)}` : "rest");
    const part = (share, text, style, title) =>
      el("span", { class: style + (share < 4 ? " narrow" : share < 12 ? " slim" : ""), style: `width:${share.toFixed(2)}%`, title }, text);
    const lines = rows.flatMap(({ name, code, right, others }) => {
      const named = others.filter(([, share]) => share >= 0.5);
      const rest = others.filter(([, share]) => share < 0.5).reduce((sum, [, share]) => sum + share, 0);
      return [el("span", {}, `${name} (${code})`),
        el("div", { class: "bar" }, part(right, code, "right", `${name} ${shown(right)}%`),
          ...named.map(([label, share]) => part(share, label || "–", colour(label), `${nameOf(label)} ${shown(share)}%`)),
          rest > 0 ? part(rest, "…", "rest", `other languages ${shown(rest)}%`) : null),
        el("span", { class: "number" }, `${shown(right)}%`)];
    });
    box.replaceChildren(
      el("div", { class: "controls" }, kinds.length > 1
        ? choice("directions", kinds.map((each) => [each, KINDS[each]]), wantedDrift.kind, (value) => { wantedDrift.kind = value; renderDrift(); })
        : null),
      el("div", { class: "swatches" }, el("span", {}, el("i", { class: "right" }), "the target language"),
        ...chief.map((label) => el("span", {}, el("i", { class: colour(label) }), nameOf(label))),
        el("span", {}, el("i", { class: "rest" }), "others")),
      el("div", { class: "drift" }, ...lines));
  };

  // ---- all of it ----------------------------------------------------------------------------------------------------

  const room = () => document.getElementById("heatmap").clientWidth;
  const renderPlaces = languagePlaces(data.places, { el, draw, choice, tip, moveTip });
  const renderMaps = (width) => { renderMap(width); renderPlaces(width); };
  const renderAll = () => { renderMap(room()); renderDrift(); renderDirections(); renderLanguages(); };
  renderAll();
  renderPlaces(room());
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) renderMaps(room()); // on a phone, also scrolling changes the height
    width = innerWidth;
  });
  addEventListener("beforeprint", () => renderMaps(700));
  addEventListener("afterprint", () => renderMaps(room()));
})();
