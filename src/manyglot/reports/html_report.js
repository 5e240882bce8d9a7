"use strict";
// Renders the JSON data of the page. Text from the data is only ever set as text, never as HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { languages, runs, source, target, zero_shot: isZeroShot } = data;
  const allDirections = source.map((_, i) => i);
  const MAX_SVG_LANGUAGES = 80; // more languages are drawn on a canvas, see large_heatmap.js
  const isLarge = languages.length > MAX_SVG_LANGUAGES;
  const state = { run: 0, baseline: -1, metric: "bleu", order: isLarge ? "family" : "code", selected: -1, // -1: none
    show: "directions", query: "" };
  const METRIC_LABELS = {
    bleu: "BLEU", chrf: "chrF++", language_accuracy: "LangAcc",
    relative_language_accuracy: "relative LangAcc",
  };
  const segmentMetrics = new Map(data.segment_metrics.map((metric) => [metric.key, metric]));
  for (const { key, label, lower_is_better: lower } of segmentMetrics.values()) METRIC_LABELS[key] = lower ? `${label} (lower is better)` : label;
  const METRIC_NOTES = {
    language_accuracy: "LangAcc: the percentage of outputs identified as the target language.",
    relative_language_accuracy: "Relative LangAcc: LangAcc of the outputs as a percentage of LangAcc of the references. " +
      "At 100, the identifier recognizes the outputs as often as perfect translations.",
  };
  const PERCENT_METRICS = new Set(["language_accuracy", "relative_language_accuracy"]);

  // ---- helpers ------------------------------------------------------------------------------------------------------

  const initialize = (node, attributes, children) => {
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null));
    return node;
  };
  const element = (tag, attributes = {}, ...children) => initialize(document.createElement(tag), attributes, children);
  const svgElement = (tag, attributes = {}, ...children) =>
    initialize(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  const formatNumber = (value, digits = 1) => (value === null || value === undefined ? "–" : value.toFixed(digits));
  /** A number of any scale in at most four characters: .83, −.02, 3.1, 85. */
  const shortNumber = (value) => (Math.abs(value) < 1 ? value.toFixed(2).replace("0.", ".") : value.toFixed(Math.abs(value) < 10 ? 1 : 0)).replace("-", "−");
  const formatSigned = (value) => (value === null ? "–" : (value > 0 ? "+" : value < 0 ? "−" : "±") + Math.abs(value).toFixed(1));
  const mean = (values) => {
    const known = values.filter((value) => value !== null);
    return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
  };
  const languageName = (code) => (code === "" ? "no language" : data.language_names[code] || code);
  const directionTitle = (i) => `${languages[source[i]].name} → ${languages[target[i]].name}`;
  const isSupervisionKnown = isZeroShot.some((value) => value !== null);
  const GROUP_LABELS = isSupervisionKnown ? { supervised: "supervised", zero_shot: "zero-shot" } : { all: "all" };
  const groupOf = (i) => (isZeroShot[i] === null ? "all" : isZeroShot[i] ? "zero_shot" : "supervised");
  const groupLabel = (i) => GROUP_LABELS[groupOf(i)];
  const isLowerBetter = (metric) => Boolean(segmentMetrics.get(metric)?.lower_is_better);
  const difference = (a, b) => (a === null || b === null ? null : a - b);
  const selectControl = (label, options, value, onChange) =>
    element("label", {}, label, element("select", { onchange: (event) => onChange(event.target.value) },
      ...options.map(([key, text]) => element("option", { value: key, selected: String(key) === String(value) }, text))));

  const availableMetrics = Object.entries(METRIC_LABELS).filter(([key]) => runs.some((run) => run[key].some((value) => value !== null)));

  // ---- heat map -------------------------------------------------------------------------------------------------

  const directionIndices = new Int32Array(languages.length ** 2).fill(-1);
  allDirections.forEach((i) => { directionIndices[source[i] * languages.length + target[i]] = i; });
  /** The index of a direction, or undefined. */
  const directionAt = (s, t) => {
    const i = directionIndices[s * languages.length + t];
    return i < 0 ? undefined : i;
  };
  const tooltip = element("div", { id: "tooltip", role: "tooltip", hidden: true });
  document.body.append(tooltip);

  const directionsInto = languages.map(() => []), directionsFrom = languages.map(() => []);
  allDirections.forEach((i) => { directionsFrom[source[i]].push(i); directionsInto[target[i]].push(i); });
  const GROUPINGS = ["family", "script"];
  const groupNames = Object.fromEntries(GROUPINGS.map((key) => [key, key === "family" ? data.families : [...new Set(languages.map((language) => language[key]))].sort()]));
  const groupRank = (code) => groupNames[state.order].indexOf(languages[code][state.order]);

  const cellValue = (i) => {
    const value = runs[state.run][state.metric][i];
    return state.baseline < 0 ? value : difference(value, runs[state.baseline][state.metric][i]);
  };

  const languageOrder = () => {
    const codes = languages.map((_, i) => i);
    const into = (code) => mean(directionsInto[code].map(cellValue)) ?? (isLowerBetter(state.metric) ? Infinity : -Infinity);
    if (GROUPINGS.includes(state.order)) codes.sort((a, b) => groupRank(a) - groupRank(b) || languages[a].name.localeCompare(languages[b].name));
    if (state.order === "name") codes.sort((a, b) => languages[a].name.localeCompare(languages[b].name));
    if (state.order === "value") {
      const means = codes.map(into);
      codes.sort((a, b) => (isLowerBetter(state.metric) ? means[a] - means[b] : means[b] - means[a]));
    }
    if (state.order === "data") codes.sort((a, b) => languages[b].num_training_sentences - languages[a].num_training_sentences);
    return codes;
  };

  /** The end of the color scale. For differences it ignores the most extreme 1%, which would make others look pale. */
  const scaleMaximum = () => {
    const values = allDirections.map(cellValue).filter((value) => value !== null);
    if (state.baseline >= 0) {
      const sizes = values.map(Math.abs).sort((a, b) => a - b);
      if (segmentMetrics.has(state.metric)) return sizes[Math.floor(0.99 * (sizes.length - 1))] || 1;
      return Math.max(Math.ceil(sizes[Math.floor(0.99 * (sizes.length - 1))] || 0), 1);
    }
    const highest = values.reduce((a, b) => Math.max(a, b), 0);
    if (segmentMetrics.has(state.metric)) return highest || 1;
    return PERCENT_METRICS.has(state.metric) ? 100 : Math.max(Math.ceil(highest / 5) * 5, 5);
  };
  /** How a cell looks: its color scale, and the place of its value on the scale. */
  const cellStyle = (value, top) => {
    const isLower = isLowerBetter(state.metric), size = value === null ? 0 : Math.min(Math.abs(value) / top, 1);
    const share = value !== null && isLower && state.baseline < 0 ? 1 - size : size;
    return { kind: value === null ? "none" : state.baseline < 0 ? "cell" : (isLower ? -value : value) < 0 ? "minus" : "plus", share };
  };
  const cellText = (value) => (value === null ? "–" : segmentMetrics.has(state.metric) ? shortNumber(value)
    : state.baseline < 0 ? value.toFixed(0) : formatSigned(Math.round(value)).replace(".0", ""));

  const formatScale = (top) => (segmentMetrics.has(state.metric) ? top.toFixed(2) : top);

  const directionFacts = (i) => {
    const run = runs[state.run];
    const lines = [`BLEU ${formatNumber(run.bleu[i])}, chrF++ ${formatNumber(run.chrf[i])}`];
    if (run.language_accuracy[i] !== null)
      lines.push(`LangAcc ${formatNumber(run.language_accuracy[i])}% (references ${formatNumber(run.reference_language_accuracy[i])}%)`);
    if (run.top_off_target_language[i]) lines.push(`${formatNumber(run.top_off_target_rate[i])}% in ${languageName(run.top_off_target_language[i])}`);
    if (run.copy_rate[i] || run.empty_rate[i]) lines.push(`copied ${formatNumber(run.copy_rate[i])}%, empty ${formatNumber(run.empty_rate[i])}%`);
    for (const { key, label } of segmentMetrics.values()) if (run[key][i] !== null) lines.push(`${label} ${formatNumber(run[key][i], 4)}`);
    runs.forEach((other, k) => {
      if (k !== state.run) lines.push(`${other.name}: BLEU ${formatNumber(other.bleu[i])}, LangAcc ${formatNumber(other.language_accuracy[i])}%`);
    });
    return [isSupervisionKnown ? `${directionTitle(i)}, ${groupLabel(i)}` : directionTitle(i), ...lines, `${data.num_sentences[i].toLocaleString("en")} sentences`];
  };

  // On a wide page the detail is beside the map, otherwise below the row of the selected cell. Sizes are in pixels.
  const MIN_WIDTH_BESIDE = 1100, DETAIL_WIDTH = 400, PHONE_WIDTH = 600;
  let layout = { codes: [], rects: [], labels: [[], []], rowParts: [], frame: null };

  const renderHeatmap = (pageWidth, isPrint = false) => {
    const box = document.getElementById("direction-heatmap"), isBeside = pageWidth >= MIN_WIDTH_BESIDE;
    const width = isBeside ? pageWidth - DETAIL_WIDTH : pageWidth, top = scaleMaximum();
    const note = METRIC_NOTES[state.metric], map = isLarge ? largeHeatmap.node : svgHeatmap(width, pageWidth, top, isBeside, isPrint);
    box.replaceChildren(...[heatmapControls(), heatmapScale(top), note ? element("p", { class: "quiet" }, note) : null,
      element("div", { class: isBeside ? "matrix beside" : "matrix" }, map, directionDetail()),
    ].filter(Boolean));
    if (isLarge) return drawLargeHeatmap(width, top, isPrint);
    drawFrame(false);
    placeDetail();
  };

  const svgHeatmap = (width, pageWidth, top, isBeside, isPrint) => {
    const codes = languageOrder(), n = codes.length;
    const longest = Math.max(...languages.map((language) => language.code.length));
    const gutter = 12 + 7 * longest;
    const smallest = pageWidth < PHONE_WIDTH ? 18 : 11; // a cell must be large enough for a finger
    const cell = Math.max(smallest, Math.min(54, Math.floor((width - gutter - 6) / n)));
    const gap = cell > 20 ? 2 : 1, size = n * cell, font = Math.min(12, Math.max(9, cell - 3));
    const rows = svgElement("svg", { class: "rows", width: gutter, height: gutter + size + 2, style: `font-size:${font}px` });
    const grid = svgElement("svg", {
      class: "grid", width: size + 4, height: gutter + size + 2, tabindex: 0, role: "application", "aria-roledescription": "heat map",
      "aria-label": "Heat map: rows are source languages, columns target languages. The arrow keys select a direction; its sentences follow.",
    });
    const cells = svgElement("g", { transform: "translate(2 0)" }); // room for the frame of the first column
    grid.append(cells);
    layout = { codes, rects: new Array(allDirections.length), labels: [[], []], rowParts: [], frame: null, grid, rows, isBeside, isPrint,
      height: gutter + size + 2, rowEnd: (row) => gutter + (row + 1) * cell + 2 };
    codes.forEach((code, k) => {
      const middle = gutter + (k + 0.5) * cell, text = languages[code].code;
      const row = svgElement("text", { x: gutter - 5, y: middle + font / 3, "text-anchor": "end" }, text,
        svgElement("title", {}, languages[code].name));
      const x = (k + 0.5) * cell, upright = cell >= 9 * longest;
      const column = svgElement("text", upright ? { x, y: gutter - 5, "text-anchor": "middle" } :
        { x: 4, y: font / 3, transform: `translate(${x} ${gutter}) rotate(-90)` }, text,
        svgElement("title", {}, languages[code].name));
      column.setAttribute("font-size", font);
      const part = svgElement("g", {}, row);
      rows.append(part); cells.append(column);
      layout.rowParts.push([part, svgElement("g")]);
      layout.labels[0][code] = row; layout.labels[1][code] = column;
    });
    cells.append(...layout.rowParts.map(([, part]) => part));
    codes.forEach((s, r) => codes.forEach((t, c) => {
      const rowCells = layout.rowParts[r][1];
      const i = directionAt(s, t);
      if (i === undefined) return;
      const value = cellValue(i), { kind, share } = cellStyle(value, top);
      const isFramed = isZeroShot[i] === 0, inset = isFramed ? 0.5 : 0;
      const rect = svgElement("rect", {
        class: kind + (isFramed ? " supervised" : ""), "data-i": i,
        x: c * cell + gap / 2 + inset, y: gutter + r * cell + gap / 2 + inset,
        width: cell - gap - 2 * inset, height: cell - gap - 2 * inset, rx: cell > 20 ? 3 : 1,
        style: `--p:${(100 * share).toFixed(0)}%`,
      });
      layout.rects[i] = rect;
      rowCells.append(rect);
      if (cell >= 22) {
        rowCells.append(svgElement("text", {
          class: `value on-${kind}`, style: `--p:${(100 * share).toFixed(0)}%`, x: (c + 0.5) * cell, y: gutter + (r + 0.5) * cell + 4,
          "text-anchor": "middle", "font-size": cell >= 26 ? 11 : 10,
        }, cellText(value)));
      }
    }));
    layout.frame = svgElement("rect", { class: "frame" });
    cells.append(layout.frame);
    grid.addEventListener("pointermove", (event) => hover(event));
    grid.addEventListener("pointerleave", () => hideTooltip());
    grid.addEventListener("click", (event) => {
      hideTooltip();
      const i = event.target.dataset.i === undefined ? -1 : Number(event.target.dataset.i);
      if (i >= 0) selectDirection(i === state.selected ? -1 : i);
    });
    grid.addEventListener("keydown", moveSelection);
    grid.addEventListener("focus", () => drawFrame(grid.matches(":focus-visible")));
    grid.addEventListener("blur", () => drawFrame(false));
    return element("div", { class: "map" }, rows, grid);
  };

  const heatmapScale = (top) => {
    const scale = state.baseline < 0
      ? element("div", { class: "scale" }, isLowerBetter(state.metric) ? formatScale(top) : "0", element("i"), isLowerBetter(state.metric) ? "0" : `${formatScale(top)}${PERCENT_METRICS.has(state.metric) ? "%" : ""}`)
      : element("div", { class: "scale both" }, `−${formatScale(top)} worse`, element("i"), `+${formatScale(top)} better than ${runs[state.baseline].name}`);
    const sign = isLowerBetter(state.metric) ? -1 : 1, values = allDirections.map(cellValue).map((v) => (v === null ? null : sign * v));
    const wins = state.baseline < 0 ? "" :
      `${sign < 0 ? "lower" : "higher"} in ${values.filter((v) => v > 0).length.toLocaleString("en")} of ${values.length.toLocaleString("en")} directions`;
    if (isSupervisionKnown) scale.append(element("b"), "supervised directions");
    scale.append(element("span", {}, "rows: source, columns: target"), element("span", {}, wins));
    return scale;
  };

  const heatmapControls = () => {
    const onChange = (key) => (value) => {
      state[key] = key === "run" || key === "baseline" ? Number(value) : value;
      if (state.baseline === state.run) state.baseline = -1;
      key === "run" ? renderAll() : renderHeatmap(availableWidth());
    };
    const orders = [["code", "code"], ["name", "name"], ["value", "best target first"]];
    if (languages.every((language) => language.num_training_sentences !== null)) orders.push(["data", "most training data first"]);
    if (isLarge) orders.unshift(["family", "family"], ["script", "script"]);
    const names = runs.map((run, i) => [i, run.name]);
    return element("div", { class: "controls" },
      runs.length > 1 ? selectControl("run", names, state.run, onChange("run")) : null,
      selectControl("metric", availableMetrics, state.metric, onChange("metric")),
      runs.length > 1
        ? selectControl("difference from", [[-1, "none"], ...names.filter(([i]) => i !== state.run)], state.baseline, onChange("baseline")) : null,
      selectControl("order", orders, state.order, onChange("order")),
      ...(isLarge ? largeHeatmapControls(onChange) : []));
  };

  // ---- heat map of many languages -----------------------------------------------------------------------------------

  const resetButton = element("button", { type: "button", onclick: () => largeHeatmap.reset() }, "whole map");
  const searchNote = element("span", { class: "quiet", "aria-live": "polite" });
  const largeHeatmap = !isLarge ? null : makeLargeHeatmap({
    element,
    onHover: (place, event) => {
      tooltip.hidden = !place;
      if (!place) return;
      tooltip.textContent = layout.facts(...place).join("\n");
      placeTooltip(event);
    },
    onSelect: (place) => layout.select(...place),
    onZoom: (isZoomed) => { resetButton.disabled = !isZoomed; },
  });

  const largeHeatmapControls = (onChange) => {
    const zoomButton = (text, label, zoom) => element("button", { type: "button", "aria-label": label, title: label, onclick: zoom }, text);
    const search = element("input", { type: "search", placeholder: "deu, German, deu>fra …", value: state.query, oninput: (event) => {
      state.query = event.target.value;
      searchLargeHeatmap();
    } });
    const isGrouped = GROUPINGS.includes(state.order);
    return [isGrouped ? selectControl("show", [["directions", "directions"], ["means", `means by ${state.order}`]], state.show, onChange("show")) : null,
      element("label", {}, "find in the map", search),
      element("div", { class: "zoom" }, zoomButton("−", "Zoom out", () => largeHeatmap.zoomOut()), zoomButton("+", "Zoom in", () => largeHeatmap.zoomIn()), resetButton),
      searchNote].filter(Boolean);
  };

  /** The rows of the map: languages in their order, and the groups they form. */
  const groupsOf = (codes) => {
    const groups = [];
    if (!GROUPINGS.includes(state.order)) return groups;
    codes.forEach((code, k) => {
      const name = languages[code][state.order] || "unknown";
      if (groups.at(-1)?.name === name) groups.at(-1).end = k + 1;
      else groups.push({ name, start: k, end: k + 1 });
    });
    return groups;
  };

  const drawLargeHeatmap = (width, top, isPrint) => {
    const size = isPrint ? width : Math.floor(Math.min(width, Math.max(innerHeight - 150, 420)));
    const codes = languageOrder(), groups = groupsOf(codes), showsMeans = state.show === "means" && groups.length > 0;
    const longest = Math.max(...languages.map(({ code }) => 7 * code.length), ...groups.map(({ name }) => 5.5 * name.length));
    const gutter = Math.ceil(Math.min(12 + longest, 128, size * 0.26));
    layout = { codes, groups, ...(showsMeans ? meansLayout(groups, codes, top) : directionsLayout(codes, top)) };
    const model = { ...layout.model, groups: showsMeans ? [] : groups, matched: null };
    largeHeatmap.update(model, size, gutter);
    layout.model = model;
    searchLargeHeatmap(false);
  };

  const directionsLayout = (codes, top) => {
    const rank = new Int32Array(codes.length);
    codes.forEach((code, k) => { rank[code] = k; });
    const placeOf = (i) => [rank[source[i]], rank[target[i]]];
    const facts = (r, c) => {
      const i = directionAt(codes[r], codes[c]), [heading, ...lines] = directionFacts(i);
      const group = (code) => GROUPINGS.map((key) => languages[code][key]).filter(Boolean).join(", ");
      return [heading, `${languages[source[i]].code} → ${languages[target[i]].code}`, ...lines, `${group(source[i])} → ${group(target[i])}`];
    };
    const select = (r, c) => {
      const i = directionAt(codes[r], codes[c]);
      selectDirection(i === state.selected ? -1 : i);
    };
    const cell = (r, c) => {
      const i = directionAt(codes[r], codes[c]);
      if (i === undefined) return null;
      const value = cellValue(i);
      return { ...cellStyle(value, top), framed: isZeroShot[i] === 0, text: cellText(value) };
    };
    return { placeOf, facts, select, model: {
      labels: codes.map((code) => languages[code].code), cell, selected: () => (state.selected < 0 ? null : placeOf(state.selected)),
    } };
  };

  /** One cell per pair of groups: the mean of its directions. A click shows these. */
  const meansLayout = (groups, codes, top) => {
    const members = groups.map(({ start, end }) => codes.slice(start, end));
    const cells = members.map((from) => members.map((into) => {
      const values = from.flatMap((s) => into.map((t) => directionAt(s, t))).filter((i) => i !== undefined).map(cellValue);
      return { count: values.length, value: mean(values) };
    }));
    const select = (r, c) => {
      state.show = "directions";
      renderHeatmap(availableWidth());
      const [rows, columns] = [groups[r], groups[c]], extent = Math.max(rows.end - rows.start, columns.end - columns.start);
      largeHeatmap.show([(rows.start + rows.end - 1) / 2, (columns.start + columns.end - 1) / 2], (0.8 * availableWidth() / 2) / Math.max(extent, 8));
    };
    return { select, placeOf: () => null,
      facts: (r, c) => [`${groups[r].name} → ${groups[c].name}`, `mean ${METRIC_LABELS[state.metric]} ${cellText(cells[r][c].value)}`,
        `${cells[r][c].count.toLocaleString("en")} directions`],
      model: { labels: groups.map(({ name }) => name), selected: () => null, cell: (r, c) => (cells[r][c].count ?
        { ...cellStyle(cells[r][c].value, top), framed: false, text: cellText(cells[r][c].value) } : null) } };
  };

  /** Highlight the languages that are searched for; a direction such as deu>fra is selected, too. */
  const searchLargeHeatmap = (moves = true) => {
    const { model, codes } = layout, words = state.query.toLowerCase().replace(/→/g, ">").split(">").map((word) => word.trim());
    const found = words.map((word) => (word ? codes.flatMap((code, k) => (matchesLanguage(languages[code], word) ? [k] : [])) : []));
    searchNote.textContent = words.some(Boolean) && !found.flat().length ? "No language matches." : "";
    model.matched = null;
    if (found.flat().length && state.show === "directions") {
      const [from, into = from] = found, [r, c] = [from[0], into[0]];
      model.matched = [new Set(from), new Set(into)];
      if (moves && words.length > 1 && r !== undefined && c !== undefined && model.cell(r, c)) {
        selectDirection(directionAt(codes[r], codes[c]));
        largeHeatmap.show([r, c], 14);
      }
    }
    largeHeatmap.redraw();
  };

  const highlight = (i, on) => {
    layout.labels[0][source[i]]?.classList.toggle("on", on);
    layout.labels[1][target[i]]?.classList.toggle("on", on);
  };
  let hovered = -1;
  const hideTooltip = () => {
    if (hovered >= 0) highlight(hovered, false);
    hovered = -1;
    tooltip.hidden = true;
  };
  const hover = (event) => {
    const i = event.target.dataset.i === undefined ? -1 : Number(event.target.dataset.i);
    if (i !== hovered) hideTooltip();
    if (i < 0) return;
    if (i !== hovered) {
      highlight(i, true);
      tooltip.textContent = directionFacts(i).join("\n");
      tooltip.hidden = false;
      hovered = i;
    }
    placeTooltip(event);
  };
  const placeTooltip = (event) => {
    const { width, height } = tooltip.getBoundingClientRect();
    tooltip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 4))}px`;
    tooltip.style.top = `${event.clientY + 18 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 18}px`;
  };
  const firstDirection = () => layout.codes.flatMap((s) => layout.codes.map((t) => directionAt(s, t))).find((i) => i !== undefined);
  /** The frame marks the selected cell, or the one where the arrow keys start. */
  const drawFrame = (isFocused) => {
    const start = state.selected < 0 && isFocused ? firstDirection() : state.selected;
    const rect = layout.rects[start];
    layout.frame.setAttribute("class", `frame${rect ? " selected" : ""}${rect && isFocused ? " focused" : ""}`);
    if (rect) for (const key of ["x", "y", "width", "height", "rx"]) layout.frame.setAttribute(key, rect.getAttribute(key));
    return start;
  };
  /** Move the rows below the selected one down, and put the detail in the gap; beside the map it needs none. */
  const placeDetail = () => {
    const detail = document.getElementById("detail"), { rowParts, grid, rows, isBeside, isPrint, height, rowEnd, codes } = layout;
    const row = state.selected < 0 || isBeside || isPrint ? -1 : codes.indexOf(source[state.selected]);
    detail.classList.toggle("inserted", row >= 0);
    detail.style.top = row >= 0 ? `${rowEnd(row) + 4}px` : "";
    const gap = row >= 0 ? detail.offsetHeight + 10 : 0;
    rowParts.forEach((parts, k) => parts.forEach((part) => part.setAttribute("transform", `translate(0 ${row >= 0 && k > row ? gap : 0})`)));
    for (const svg of [grid, rows]) svg.setAttribute("height", height + gap);
  };
  const selectDirection = (i) => {
    if (isLarge) {
      state.selected = i;
      document.getElementById("detail").replaceWith(directionDetail());
      largeHeatmap.redraw();
      return;
    }
    const rect = layout.rects[i >= 0 ? i : state.selected], before = rect?.getBoundingClientRect().top;
    state.selected = i;
    document.getElementById("detail").replaceWith(directionDetail());
    drawFrame(layout.grid.matches(":focus-visible"));
    placeDetail();
    if (rect) scrollBy(0, rect.getBoundingClientRect().top - before); // a gap that closes above must not move the cell
  };
  const moveSelection = (event) => {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Escape") selectDirection(-1);
    if (event.key === "Enter" || event.key === " ") selectDirection(isLarge ? firstDirection() : drawFrame(true));
    if (!steps && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    if (!steps) return;
    const { codes } = layout, n = codes.length;
    if (state.show === "means") return;
    let row = state.selected < 0 ? 0 : codes.indexOf(source[state.selected]);
    let column = state.selected < 0 ? 0 : codes.indexOf(target[state.selected]);
    for (let tries = 0; tries < n; tries++) {
      row += steps[0]; column += steps[1];
      if (row < 0 || column < 0 || row >= n || column >= n) return;
      const i = directionAt(codes[row], codes[column]);
      if (i === undefined) continue;
      selectDirection(i);
      if (isLarge) return largeHeatmap.show([row, column]);
      layout.rects[i].scrollIntoView({ block: "nearest", inline: "nearest" });
      return;
    }
  };

  const directionDetail = () => {
    const i = state.selected;
    if (i < 0) return element("div", { id: "detail", class: "quiet" }, isLarge
      ? "Select a cell to see the scores of its direction. Zoom with the buttons, with + and −, by pinching, or with Ctrl and the mouse wheel; drag to move. The arrow keys select another direction."
      : "Select a cell to see the scores and sentences of its direction.");
    const [heading, ...lines] = directionFacts(i), entries = data.examples[i] || [];
    const close = element("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => selectDirection(-1) }, "×");
    return element("div", { id: "detail", "aria-live": "polite" }, close, element("h3", {}, heading), element("p", { class: "quiet" }, lines.join(" · ")),
      ...(entries.length ? entries.map((entry) => exampleList(i, entry)) : [element("p", { class: "quiet" }, "The page has no sentences of this direction; translations.jsonl has them.")]));
  };
  const rankLabel = (i, rank, chrf) => {
    if (rank === null) return null;
    const count = `of ${data.num_sentences[i].toLocaleString("en")} sentences`;
    const position = rank === 0 ? "Median" : rank === 1 ? "Worst" : `No. ${rank} of the worst`;
    return element("p", { class: "rank" }, `${position} ${rank > 1 ? "" : count}, chrF++ ${formatNumber(chrf)}`.replace(" ,", ","));
  };
  const exampleList = (i, [text, output, reference, identified, others, rank, chrf]) => {
    const line = (label, textIndex, code, offTarget) => [
      element("dt", {}, label, offTarget ? element("em", {}, ` ${offTarget}`) : null),
      element("dd", { dir: "auto", lang: code || null }, data.texts[textIndex] || "(empty)"),
    ];
    const code = languages[target[i]].code;
    const offTarget = (label) => (label === code || runs[0].language_accuracy[i] === null ? "" : languageName(label));
    const otherOutputs = others.flatMap((other, k) =>
      other ? line(`output of ${runs[k + 1].name}`, other[0], other[1], offTarget(other[1])) : []);
    const list = element("dl", { class: "sentence" }, ...line("source", text, languages[source[i]].code),
      ...line(runs.length > 1 ? `output of ${runs[0].name}` : "output", output, identified, offTarget(identified)), ...otherOutputs,
      ...line("reference", reference, code));
    return element("div", { class: "example" }, rankLabel(i, rank, chrf), list);
  };

  // ---- tables -------------------------------------------------------------------------------------------------------

  const MAX_MORE_ROWS = 5000; // a table of more rows would be slow
  /** A table with sortable columns ({title, value, text, number}), a search field and filters. */
  const sortableTable = (box, columns, all, { sort, descending, matches, filters = [], maxRows, unit, explanation }) => {
    const view = { sort, descending, maxRows, query: "" };
    const head = element("tr", {}, ...columns.map((column, k) => element("th", { scope: "col", class: column.number ? "number" : null },
      element("button", { type: "button", title: column.hint || null, onclick: () => {
        view.descending = view.sort === k ? !view.descending : Boolean(column.number);
        view.sort = k;
        show();
      } }, column.title))));
    const body = element("tbody"), note = element("span", { class: "quiet", "aria-live": "polite" });
    const more = element("button", { type: "button", onclick: () => {
      view.maxRows = view.numHidden > MAX_MORE_ROWS ? view.maxRows + MAX_MORE_ROWS : Infinity;
      show();
    } });
    const search = element("input", { type: "search", placeholder: "de, German, de>fr …", oninput: (event) => {
      view.query = event.target.value;
      show();
    } });
    const compare = (a, b) => {
      const column = columns[view.sort], x = column.value(a), y = column.value(b);
      if (x === null || y === null) return (x === null) - (y === null); // unknown values come last
      const order = column.number ? x - y : String(x).localeCompare(String(y));
      return view.descending ? -order : order;
    };
    const show = () => {
      const words = view.query.toLowerCase().replace(/→/g, ">").split(/[\s,]+/).filter(Boolean);
      const matching = all.filter((row) => words.every((word) => matches(row, word)) && filters.every(({ accepts }) => accepts(row)));
      matching.sort(compare);
      const visible = matching.slice(0, view.maxRows), count = (rows) => rows.length.toLocaleString("en");
      body.replaceChildren(...visible.map((row) => element("tr", {}, ...columns.map((column) =>
        element("td", { class: column.number ? "number" : null, dir: column.number ? null : "auto" }, column.text(row))))));
      [...head.children].forEach((th, k) => {
        if (k === view.sort) th.setAttribute("aria-sort", view.descending ? "descending" : "ascending");
        else th.removeAttribute("aria-sort");
      });
      note.textContent = [visible.length < matching.length ? `first ${count(visible)} of` : "",
        matching.length < all.length ? `${count(matching)} of` : "", `${count(all)} ${unit}`].filter(Boolean).join(" ");
      view.numHidden = matching.length - visible.length;
      more.textContent = view.numHidden > MAX_MORE_ROWS ? `show ${MAX_MORE_ROWS.toLocaleString("en")} more` : `show all ${count(matching)}`;
      more.hidden = matching.length <= view.maxRows;
    };
    box.replaceChildren(
      element("div", { class: "controls" }, element("label", {}, "search", search), ...filters.map(({ control }) => control(show))),
      element("div", { class: "scroll" }, element("table", { class: "sorted" }, element("thead", {}, head), body)),
      element("div", { class: "more" }, more, note), element("p", { class: "quiet" }, explanation));
    show();
  };
  const numberColumn = (title, value, digits = 1, hint = "") => ({
    title, value, hint, number: true, text: (row) => formatNumber(value(row), digits),
  });
  const matchesLanguage = ({ code, name }, word) =>
    code.toLowerCase() === word || code.split(/[-_]/)[0].toLowerCase() === word || name.toLowerCase().startsWith(word);

  const renderDirections = () => {
    const run = runs[state.run], view = { group: "all" };
    const from = (i) => languages[source[i]], into = (i) => languages[target[i]];
    // A phone has room for the code only.
    const languageCell = ({ name, code }) =>
      element("span", { title: name }, element("span", { class: "long" }, `${name} (`), code, element("span", { class: "long" }, ")"));
    const columns = [
      { title: "from", value: (i) => from(i).name, text: (i) => languageCell(from(i)) },
      { title: "into", value: (i) => into(i).name, text: (i) => languageCell(into(i)) },
      numberColumn("BLEU", (i) => run.bleu[i]),
      ...runs.flatMap((other, k) => (k === state.run ? [] : [{
        title: `− ${other.name}`, hint: `BLEU minus the BLEU of ${other.name}`, number: true,
        value: (i) => difference(run.bleu[i], other.bleu[i]), text: (i) => formatSigned(difference(run.bleu[i], other.bleu[i])),
      }])),
      numberColumn("chrF++", (i) => run.chrf[i]),
      ...[...segmentMetrics.values()].map(({ key, label, lower_is_better: lower }) =>
        numberColumn(lower ? `${label} ↓` : label, (i) => run[key][i], 4, lower ? "lower is better" : "")),
      numberColumn("LangAcc", (i) => run.language_accuracy[i], 1, "percentage of outputs identified as the target language"),
      numberColumn("relative LangAcc", (i) => run.relative_language_accuracy[i], 1, "LangAcc divided by the LangAcc of the references, in percent"),
      { title: "off-target", hint: "the most frequent wrong language of the outputs", value: (i) => run.top_off_target_language[i] && languageName(run.top_off_target_language[i]),
        text: (i) => (run.top_off_target_language[i] ? languageName(run.top_off_target_language[i]) : "") },
      numberColumn("share", (i) => run.top_off_target_rate[i], 1, "percentage of outputs in the off-target language"),
      numberColumn("copied", (i) => run.copy_rate[i], 1, "percentage of outputs that copy the source"),
      numberColumn("empty", (i) => run.empty_rate[i], 1, "percentage of outputs that are empty"),
      numberColumn("length", (i) => run.length_ratio[i], 2, "words in the outputs per word in the references"),
      numberColumn("sentences", (i) => data.num_sentences[i], 0),
      ...(isSupervisionKnown ? [{ title: "group", value: groupLabel, text: groupLabel }] : []),
    ];
    const matches = (i, word) => {
      if (!word.includes(">")) return matchesLanguage(from(i), word) || matchesLanguage(into(i), word);
      const [left, right] = word.split(">");
      return (!left || matchesLanguage(from(i), left)) && (!right || matchesLanguage(into(i), right));
    };
    const groups = [["all", "all"], ...Object.entries(GROUP_LABELS)];
    const filter = {
      accepts: (i) => view.group === "all" || groupOf(i) === view.group,
      control: (show) => selectControl("group", groups, "all", (value) => { view.group = value; show(); }),
    };
    sortableTable(document.getElementById("direction-table"), columns, [...allDirections],
      { sort: 2, descending: false, matches, filters: isZeroShot.includes(1) ? [filter] : [], maxRows: 50, unit: "directions",
        explanation: `${METRIC_NOTES.language_accuracy} ${METRIC_NOTES.relative_language_accuracy} Off-target: the most frequent wrong ` +
          "language, and its share of the outputs in percent. Copied, empty: percentage of outputs that copy the source or are empty. " +
          "Length: words in the outputs per word in the references." });
  };

  const renderLanguages = () => {
    const run = runs[state.run];
    const select = (directions, zeroShot) => directions.filter((i) => Number(isZeroShot[i]) === zeroShot);
    const rows = languages.map((language, code) => {
      const [into, intoZeroShot] = [select(directionsInto[code], 0), select(directionsInto[code], 1)];
      const [from, fromZeroShot] = [select(directionsFrom[code], 0), select(directionsFrom[code], 1)];
      const meanOf = (metric, directions) => mean(directions.map((i) => run[metric][i]));
      const [topOffTarget] = outputLanguages(run, language.code, Object.keys(GROUP_LABELS)).offTarget;
      return { language, into: meanOf("bleu", into), intoZeroShot: meanOf("bleu", intoZeroShot), from: meanOf("bleu", from),
        fromZeroShot: meanOf("bleu", fromZeroShot), accuracy: meanOf("language_accuracy", into),
        accuracyZeroShot: meanOf("language_accuracy", intoZeroShot),
        reference: meanOf("reference_language_accuracy", [...into, ...intoZeroShot]),
        offTarget: topOffTarget ? `${languageName(topOffTarget[0])} ${formatNumber(topOffTarget[1])}%` : "" };
    });
    const has = (key) => rows.some((row) => row[key] !== null);
    const columns = [
      { title: "language", value: (row) => row.language.name, text: (row) => `${row.language.name} (${row.language.code})` },
      languages.some((language) => language.num_training_sentences !== null) ? { title: "training sentences", number: true,
        value: (row) => row.language.num_training_sentences, text: (row) => row.language.num_training_sentences?.toLocaleString("en") ?? "–" } : null,
      numberColumn("BLEU into", (row) => row.into, 1, "supervised"),
      has("intoZeroShot") ? numberColumn("zero-shot", (row) => row.intoZeroShot, 1, "zero-shot BLEU into the language") : null,
      numberColumn("BLEU from", (row) => row.from, 1, "supervised"),
      has("fromZeroShot") ? numberColumn("zero-shot", (row) => row.fromZeroShot, 1, "zero-shot BLEU from the language") : null,
      numberColumn("LangAcc into", (row) => row.accuracy, 1, "supervised"),
      has("accuracyZeroShot") ? numberColumn("zero-shot", (row) => row.accuracyZeroShot, 1, "zero-shot LangAcc into the language") : null,
      numberColumn("references", (row) => row.reference),
      Object.keys(run.output_language_counts).length ? { title: "off-target", value: (row) => row.offTarget, text: (row) => row.offTarget } : null,
    ].filter(Boolean);
    sortableTable(document.getElementById("language-table"), columns, rows,
      { sort: 0, descending: false, matches: (row, word) => matchesLanguage(row.language, word), maxRows: Infinity, unit: "languages",
        explanation: `${METRIC_NOTES.language_accuracy} References: LangAcc of the reference translations into the language. ` +
          "All values are means over directions." });
  };

  // ---- off-target languages -----------------------------------------------------------------------------------------

  /** The percentages of outputs into a language that are in this language and in others, most frequent first. */
  const outputLanguages = (run, code, groups) => {
    const counts = {};
    for (const group of groups)
      for (const [label, count] of Object.entries(run.output_language_counts[group]?.[code] || {})) counts[label] = (counts[label] || 0) + count;
    const total = Object.values(counts).reduce((a, b) => a + b, 0);
    const offTarget = Object.entries(counts).filter(([label]) => label !== code)
      .map(([label, count]) => [label, (100 * count) / total]).sort((a, b) => b[1] - a[1]);
    return { total, onTarget: total ? (100 * (counts[code] || 0)) / total : null, offTarget };
  };

  const offTargetState = { group: runs.some((run) => run.output_language_counts.zero_shot) ? "zero_shot" : Object.keys(GROUP_LABELS)[0] };
  const renderOffTarget = () => {
    const box = document.getElementById("off-target-chart");
    if (!box) return;
    const run = runs[state.run], groups = Object.keys(run.output_language_counts);
    const rows = languages.map(({ code, name }) => ({ code, name, ...outputLanguages(run, code, [offTargetState.group]) }))
      .filter(({ total }) => total).sort((a, b) => a.onTarget - b.onTarget);
    const sums = {};
    for (const { offTarget } of rows) for (const [label, share] of offTarget) sums[label] = (sums[label] || 0) + share;
    const topLanguages = Object.entries(sums).sort((a, b) => b[1] - a[1]).slice(0, 6).map(([label]) => label);
    const color = (label) => (topLanguages.includes(label) ? `d${topLanguages.indexOf(label)}` : "rest");
    const segment = (share, text, style, title) =>
      element("span", { class: style + (share < Math.max(4, 0.7 * text.length) ? " narrow" : share < 12 ? " slim" : ""), style: `width:${share.toFixed(2)}%`, title }, text);
    const lines = rows.flatMap(({ name, code, onTarget, offTarget }) => {
      const large = offTarget.filter(([, share]) => share >= 0.5);
      const rest = offTarget.filter(([, share]) => share < 0.5).reduce((sum, [, share]) => sum + share, 0);
      return [element("span", {}, `${name} (${code})`),
        element("div", { class: "bar" }, segment(onTarget, code, "on-target", `${name} ${formatNumber(onTarget)}%`),
          ...large.map(([label, share]) => segment(share, label || "–", color(label), `${languageName(label)} ${formatNumber(share)}%`)),
          rest > 0 ? segment(rest, "…", "rest", `other languages ${formatNumber(rest)}%`) : null),
        element("span", { class: "number" }, `${formatNumber(onTarget)}%`)];
    });
    box.replaceChildren(
      element("div", { class: "controls" }, groups.length > 1
        ? selectControl("directions", groups.map((group) => [group, GROUP_LABELS[group]]), offTargetState.group,
          (value) => { offTargetState.group = value; renderOffTarget(); })
        : null),
      element("div", { class: "swatches" }, element("span", {}, element("i", { class: "on-target" }), "target language"),
        ...topLanguages.map((label) => element("span", {}, element("i", { class: color(label) }), languageName(label))),
        element("span", {}, element("i", { class: "rest" }), "others")),
      element("div", { class: "off-target" }, ...lines));
  };

  // ---- rendering ----------------------------------------------------------------------------------------------------

  const availableWidth = () => document.getElementById("direction-heatmap").clientWidth;
  const renderLanguageMap = makeLanguageMap(data.language_maps, { element, svgElement, selectControl, tooltip, placeTooltip });
  const renderMaps = (width, isPrint) => { renderHeatmap(width, isPrint); renderLanguageMap(width); };
  const renderAll = () => { renderHeatmap(availableWidth()); renderOffTarget(); renderDirections(); renderLanguages(); };
  if (isLarge) {
    largeHeatmap.canvas.addEventListener("keydown", moveSelection);
    largeHeatmap.canvas.addEventListener("focus", () => largeHeatmap.redraw());
  }
  renderAll();
  renderLanguageMap(availableWidth());
  performance.mark("report-ready");
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) renderMaps(availableWidth()); // scrolling changes the height on a phone
    width = innerWidth;
  });
  addEventListener("beforeprint", () => renderMaps(700, true));
  addEventListener("afterprint", () => renderMaps(availableWidth()));
})();
