"use strict";
// The heat map of many languages, drawn on a canvas: an image with one pixel per cell is scaled to the zoom. It has rows and
// columns of one kind of items, languages or groups of languages.
const makeLargeHeatmap = ({ element, onHover, onSelect, onZoom }) => {
  const MIN_LABEL_CELL = 9, MAX_CELL = 34, ZOOM_STEP = 1.6, FONT = 11, NUM_SHADES = 100, DRAG_PIXELS = 4, TAP_CELL = 6, TAP_ZOOM_CELL = 18;
  const canvas = element("canvas", { class: "grid", tabindex: 0, role: "application", "aria-roledescription": "heat map",
    "aria-label": "Heat map: rows are source languages, columns target languages. The arrow keys select a direction; plus and minus zoom; 0 shows everything." });
  const context = canvas.getContext("2d"), image = document.createElement("canvas");
  const probe = element("span", { hidden: true });
  // The model has labels, groups ({ name, start, end }), cell(r, c) -> { kind, share, framed, text } or null, selected() -> [r, c]
  // or null, and matched: null or the sets of the rows and of the columns to highlight.
  let model = null;
  let size = 0, gutter = 0, view = { cell: 1, x: 0, y: 0 }, colors = {}, hovered = null, isFocused = false, request = 0;

  const count = () => model.labels.length;
  const fitCell = () => (size - gutter) / count();
  const isZoomed = () => view.cell > fitCell() * 1.001;
  const clampView = () => {
    view.cell = Math.min(Math.max(view.cell, fitCell()), Math.max(MAX_CELL, fitCell()));
    const most = Math.max(0, count() * view.cell - (size - gutter));
    view.x = Math.min(Math.max(view.x, 0), most);
    view.y = Math.min(Math.max(view.y, 0), most);
    canvas.style.touchAction = isZoomed() ? "none" : "pan-x pan-y"; // one finger scrolls the page until the map is zoomed
    canvas.style.cursor = isZoomed() ? "grab" : "pointer";
  };

  // ---- drawing ------------------------------------------------------------------------------------------------------

  /** Read the colors of the page's scheme; those of cells are mixed as in the style sheet of the small heat map. */
  const readColors = () => {
    const resolve = (color) => {
      probe.style.color = color;
      return getComputedStyle(probe).color;
    };
    const pixel = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgb = (color) => {
      pixel.fillStyle = color;
      pixel.fillRect(0, 0, 1, 1);
      return [...pixel.getImageData(0, 0, 1, 1).data];
    };
    const scale = (end, start) => Array.from({ length: NUM_SHADES + 1 }, (_, i) =>
      rgb(resolve(`color-mix(in oklab, var(--${end}) ${(100 * i) / NUM_SHADES}%, var(--${start}))`)));
    const named = Object.fromEntries(["paper", "ink", "quiet", "line", "mark", "focus"].map((name) => [name, resolve(`var(--${name})`)]));
    colors = { ...named, cell: scale("high", "low"), plus: scale("up", "even"), minus: scale("down", "even"), none: rgb(resolve("var(--none)")) };
  };

  const cellColor = ({ kind, share }) => (kind === "none" ? colors.none : colors[kind][Math.round(share * NUM_SHADES)]);
  /** Whether black has more contrast to a color than white. */
  const isLight = (rgb) => {
    const [red, green, blue] = rgb.map((v) => (v <= 10 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179;
  };

  const paintImage = () => {
    const n = count(), pixels = new ImageData(n, n);
    for (let r = 0; r < n; r++) for (let c = 0; c < n; c++) {
      const cell = model.cell(r, c);
      if (!cell) continue; // transparent: there is no such direction
      pixels.data.set(cellColor(cell), 4 * (r * n + c));
    }
    image.width = image.height = n;
    image.getContext("2d").putImageData(pixels, 0, 0);
  };

  const visibleRange = (offset) => [Math.max(0, Math.floor(offset / view.cell)), Math.min(count(), Math.ceil((offset + size - gutter) / view.cell))];
  const left = (c) => gutter + c * view.cell - view.x;
  const top = (r) => gutter + r * view.cell - view.y;

  const draw = () => {
    request = 0;
    const ratio = devicePixelRatio || 1, inner = size - gutter;
    if (canvas.width !== Math.round(size * ratio)) {
      canvas.width = canvas.height = Math.round(size * ratio);
      canvas.style.width = canvas.style.height = `${size}px`;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, size, size);
    context.imageSmoothingEnabled = false;
    context.save();
    context.beginPath();
    context.rect(gutter, gutter, inner, inner);
    context.clip();
    context.drawImage(image, view.x / view.cell, view.y / view.cell, inner / view.cell, inner / view.cell, gutter, gutter, inner, inner);
    drawCells();
    drawGroupLines();
    dimOthers();
    drawFrames();
    context.restore();
    drawLabels();
  };
  const redraw = () => { request ||= requestAnimationFrame(draw); };

  /** Draw what only a zoomed map has room for: gaps between cells, frames of supervised directions, and values. */
  const drawCells = () => {
    const [[r0, r1], [c0, c1]] = [visibleRange(view.y), visibleRange(view.x)], { cell: unit } = view;
    if (unit < 5) return;
    context.strokeStyle = colors.paper;
    context.lineWidth = unit > 20 ? 2 : 1;
    context.beginPath();
    for (let r = r0; r <= r1; r++) { context.moveTo(left(c0), top(r)); context.lineTo(left(c1), top(r)); }
    for (let c = c0; c <= c1; c++) { context.moveTo(left(c), top(r0)); context.lineTo(left(c), top(r1)); }
    context.stroke();
    context.strokeStyle = colors.mark;
    context.lineWidth = 1;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.font = `${FONT}px system-ui, sans-serif`;
    for (let r = r0; r < r1; r++) for (let c = c0; c < c1; c++) {
      const cell = model.cell(r, c);
      if (cell?.framed) context.strokeRect(left(c) + 1, top(r) + 1, unit - 2, unit - 2);
      if (!cell || unit < 22) continue;
      context.fillStyle = isLight(cellColor(cell)) ? "#000" : "#fff";
      context.fillText(cell.text, left(c) + unit / 2, top(r) + unit / 2);
    }
  };

  const drawGroupLines = () => {
    if (model.groups.length < 2) return;
    const isSmall = view.cell < MIN_LABEL_CELL, width = view.cell < 5 ? 1 : isSmall ? 2.5 : 1.5; // a dark line would hide small cells
    context.fillStyle = isSmall ? colors.paper : colors.ink;
    for (const { start } of model.groups.slice(1)) {
      context.fillRect(left(start) - width / 2, gutter, width, size - gutter);
      context.fillRect(gutter, top(start) - width / 2, size - gutter, width);
    }
  };

  /** Pale all cells except those of the rows and columns that were searched for. */
  const dimOthers = () => {
    if (!model.matched) return;
    const [rowRuns, columnRuns] = model.matched.map((matched) => {
      const runs = [];
      for (let k = 0; k < count(); k++) {
        if (matched.has(k)) continue;
        if (runs.length && runs.at(-1)[1] === k) runs.at(-1)[1]++;
        else runs.push([k, k + 1]);
      }
      return runs;
    });
    context.globalAlpha = 0.8;
    context.fillStyle = colors.paper;
    for (const [r0, r1] of rowRuns) for (const [c0, c1] of columnRuns) context.fillRect(left(c0), top(r0), (c1 - c0) * view.cell, (r1 - r0) * view.cell);
    context.globalAlpha = 1;
  };

  const drawFrames = () => {
    const frame = (place, color, width) => {
      if (!place) return;
      const [r, c] = place, pad = Math.max(0, 5 - view.cell / 2); // a tiny cell needs a frame around it
      context.strokeStyle = color;
      context.lineWidth = width;
      context.strokeRect(left(c) - pad, top(r) - pad, view.cell + 2 * pad, view.cell + 2 * pad);
    };
    if (hovered) {
      context.fillStyle = colors.ink;
      context.globalAlpha = 0.35;
      const width = Math.min(1, view.cell), [r, c] = hovered.map((k) => (k + 0.5) * view.cell - width / 2);
      context.fillRect(gutter, gutter + r - view.y, size, width);
      context.fillRect(gutter + c - view.x, gutter, width, size);
      context.globalAlpha = 1;
    }
    frame(hovered, colors.ink, 1);
    frame(model.selected(), isFocused ? colors.focus : colors.ink, isFocused ? 4 : 2.5);
  };

  /** Label every item if there is room, else every group, else items at equal distances; highlighted items always. */
  const drawLabels = () => {
    const step = Math.ceil(MIN_LABEL_CELL / view.cell), showsGroups = step > 1 && model.groups.length > 1;
    const highlighted = [0, 1].map((axis) => new Set([hovered?.[axis], model.selected()?.[axis]].filter((k) => k !== undefined)));
    model.matched?.forEach((matched, axis) => matched.forEach((k) => highlighted[axis].add(k)));
    context.textBaseline = "middle";
    for (const axis of [0, 1]) {
      const offset = axis ? view.x : view.y, taken = [];
      const label = (text, middle, isOn) => {
        const at = gutter + middle - offset;
        if (at < gutter - 1 || at > size + 1 || taken.some((other) => Math.abs(other - at) < MIN_LABEL_CELL)) return;
        taken.push(at);
        context.save();
        context.translate(...(axis ? [at, gutter - 4] : [gutter - 5, at]));
        if (axis) context.rotate(-Math.PI / 2);
        context.textAlign = axis ? "left" : "right";
        context.font = `${isOn ? "700 " : ""}${Math.min(FONT, Math.max(9, view.cell))}px system-ui, sans-serif`;
        context.fillStyle = isOn ? colors.ink : colors.quiet;
        context.fillText(text, 0, 0, gutter - 6);
        context.restore();
      };
      for (const k of highlighted[axis]) label(model.labels[k], (k + 0.5) * view.cell, true);
      if (showsGroups) for (const { name, start, end } of [...model.groups].sort((a, b) => b.end - b.start - a.end + a.start)) {
        const [first, last] = [Math.max(start * view.cell, offset), Math.min(end * view.cell, offset + size - gutter)];
        if (last > first) label(name, (first + last) / 2, false);
      }
      else for (let k = 0; k < count(); k += step) label(model.labels[k], (k + 0.5) * view.cell, false);
    }
  };

  // ---- interaction --------------------------------------------------------------------------------------------------

  const placeAt = (event) => {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    if (x < gutter || y < gutter) return null;
    const [r, c] = [Math.floor((y - gutter + view.y) / view.cell), Math.floor((x - gutter + view.x) / view.cell)];
    return r < count() && c < count() && model.cell(r, c) ? [r, c] : null;
  };
  const changeView = () => {
    clampView();
    onZoom(isZoomed());
    hover(null);
  };
  /** Zoom so that the point (x, y) of the canvas keeps its place. */
  const zoomBy = (factor, x = (size + gutter) / 2, y = (size + gutter) / 2) => {
    const before = view.cell;
    view.cell *= factor;
    view.cell = Math.min(Math.max(view.cell, fitCell()), Math.max(MAX_CELL, fitCell()));
    view.x = (view.x + x - gutter) * (view.cell / before) - (x - gutter);
    view.y = (view.y + y - gutter) * (view.cell / before) - (y - gutter);
    changeView();
  };
  const reset = () => {
    view = { cell: 0, x: 0, y: 0 };
    changeView();
  };
  /** Move the map so that a cell is visible; `center` puts it in the middle, with cells of at least some size. */
  const show = ([r, c], minCell = 0) => {
    if (view.cell < minCell) view.cell = minCell;
    const inner = size - gutter, unit = view.cell;
    const into = (offset, k) => (minCell ? (k + 0.5) * unit - inner / 2 : Math.min(Math.max(offset, (k + 1) * unit - inner), k * unit));
    [view.x, view.y] = [into(view.x, c), into(view.y, r)];
    changeView();
  };
  const hover = (place, event) => {
    hovered = place;
    onHover(place, event);
    redraw();
  };

  const pointers = new Map();
  let moved = 0, spread = 0;
  const distance = () => {
    const [a, b] = [...pointers.values()];
    return Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
  };
  canvas.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, event);
    moved = pointers.size > 1 ? Infinity : 0;
    if (pointers.size === 2) spread = distance();
  });
  canvas.addEventListener("pointermove", (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) return hover(placeAt(event), event);
    const [x, y] = [event.clientX - last.clientX, event.clientY - last.clientY];
    pointers.set(event.pointerId, event);
    if (pointers.size === 2) {
      const box = canvas.getBoundingClientRect(), [a, b] = [...pointers.values()];
      zoomBy(distance() / spread, (a.clientX + b.clientX) / 2 - box.left, (a.clientY + b.clientY) / 2 - box.top);
      spread = distance();
      return;
    }
    moved += Math.abs(x) + Math.abs(y);
    if (moved < DRAG_PIXELS || !isZoomed()) return;
    if (!canvas.hasPointerCapture(event.pointerId)) canvas.setPointerCapture(event.pointerId);
    view.x -= x;
    view.y -= y;
    hover(null, event);
    clampView();
  });
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) canvas.addEventListener(name, (event) => {
    pointers.delete(event.pointerId);
    if (name !== "pointerup" || event.pointerType === "touch") hover(null, event);
  });
  canvas.addEventListener("click", (event) => {
    if (moved >= DRAG_PIXELS) return;
    const place = placeAt(event);
    if (!place) return;
    if (event.pointerType === "touch" && view.cell < TAP_CELL) return show(place, TAP_ZOOM_CELL); // a finger cannot hit the cell
    onSelect(place);
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // the wheel alone scrolls the page
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    zoomBy(Math.exp(-event.deltaY / 200), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const zooms = { "+": () => zoomBy(ZOOM_STEP), "=": () => zoomBy(ZOOM_STEP), "-": () => zoomBy(1 / ZOOM_STEP), 0: reset };
    if (!zooms[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    zooms[event.key]();
  });
  canvas.addEventListener("focus", () => { isFocused = canvas.matches(":focus-visible"); redraw(); });
  canvas.addEventListener("blur", () => { isFocused = false; redraw(); });
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", () => {
    if (!model) return;
    readColors();
    paintImage();
    draw();
  });

  return {
    node: element("div", { class: "large" }, canvas, probe),
    canvas,
    redraw, reset, show,
    zoomIn: () => zoomBy(ZOOM_STEP),
    zoomOut: () => zoomBy(1 / ZOOM_STEP),
    /** Draw other items or values; the zoom stays if their number does. The canvas must be in the page. */
    update: (newModel, newSize, newGutter) => {
      const isSame = model && model.labels.length === newModel.labels.length && size === newSize && gutter === newGutter;
      [model, size, gutter] = [newModel, newSize, newGutter];
      hover(null);
      if (!isSame) view = { cell: 0, x: 0, y: 0 };
      clampView();
      readColors();
      paintImage();
      draw();
      onZoom(isZoomed());
    },
  };
};
