// Pictures: treemap, histogram, heat map.

// Squarified rectangles (Bruls, Huizing and van Wijk, 2000) of items by weight, the largest first.
function squarify(items, x, y, width, height) {
  const total = items.reduce((sum, item) => sum + item.weight, 0);
  const places = [];
  if (!total || width <= 0 || height <= 0) return places;
  const scale = (width * height) / total;
  let at = 0;
  while (at < items.length && width > 0.5 && height > 0.5) {
    const side = Math.min(width, height);
    let row = 0, end = at, best = Infinity;
    while (end < items.length) {
      const area = (row + items[end].weight) * scale, largest = items[at].weight * scale, least = items[end].weight * scale;
      const worst = Math.max((side * side * largest) / (area * area), (area * area) / (side * side * least));
      if (worst > best) break;
      best = worst;
      row += items[end++].weight;
    }
    const thick = (row * scale) / side;
    let along = 0;
    for (; at < end; at++) {
      const length = (items[at].weight * scale) / thick;
      places.push(width >= height
        ? { item: items[at], x, y: y + along, width: thick, height: length }
        : { item: items[at], x: x + along, y, width: length, height: thick });
      along += length;
    }
    if (width >= height) { x += thick; width -= thick; } else { y += thick; height -= thick; }
  }
  return places;
}

const BY_NUMBER = new Intl.Collator("en", { numeric: true }); // layer_2 before layer_10, where both are as large

const LETTER = 6.7; // pixels, at most, of a letter in a tile
const TILE = 700; // pixels that a tile should have: more of them than fit are put together

function largest(node, area) {
  // What is a tensor and leads to others, too, as a variable does to its slots, is one among them.
  const below = node.children.reduce((sum, child) => sum + child.nbytes, 0);
  const itself = { ...node, children: [], nbytes: node.nbytes - below, sums: node.own ?? node.sums };
  const items = [...node.children, ...(node.tensor != null ? [itself] : [])].filter((child) => child.nbytes > 0).sort((one, other) => other.nbytes - one.nbytes || BY_NUMBER.compare(one.name, other.name));
  const most = Math.max(8, Math.min(400, Math.floor(area / TILE)));
  const rest = items.length > most + 1 ? items.splice(most) : [];
  if (rest.length) {
    const sums = {};
    for (const child of rest) for (const [kind, nbytes] of Object.entries(child.sums)) sums[kind] = (sums[kind] ?? 0) + nbytes;
    const nbytes = rest.reduce((sum, child) => sum + child.nbytes, 0);
    items.push({ name: `${counted(rest.length)} more`, nbytes, children: rest, sums, parent: node, isRest: true });
  }
  return items.map((child) => ({ node: child, weight: child.nbytes }));
}

// Of what kinds a node is, by bytes, as stripes of their colours.
function stripes(sums, share) {
  const found = Object.entries(sums).filter(([, nbytes]) => nbytes > 0), total = found.reduce((sum, [, nbytes]) => sum + nbytes, 0);
  let at = 0;
  const stops = found.map(([kind, nbytes]) => {
    const tint = `color-mix(in srgb, var(--${kind === "unknown" ? "graph" : kind}) ${share}%, var(--panel))`;
    return `${tint} ${((at / total) * 100).toFixed(2)}% ${(((at += nbytes) / total) * 100).toFixed(2)}%`;
  });
  return `linear-gradient(to right, ${stops.join(", ")})`;
}

// Bytes by layer, as deep as there is room; a click goes into one, the crumbs lead back.
function treemap(root, choose) {
  const crumbs = h("span", { class: "crumbs" });
  const area = h("div", { class: "map", role: "group", "aria-label": "sizes by layer" });
  let node = root;

  function go(to) {
    node = to;
    const way = [];
    for (let up = to; up; up = up.parent) way.unshift(up);
    crumbs.replaceChildren(...way.map((step) =>
      h("button", { type: "button", onclick: () => step !== node && go(step) }, step.parent ? short(step.name, 80) : "all")));
    paint();
  }

  const siblings = ({ parent }) => (parent.names ??= new Names(() => parent.children.map((child) => child.name)));

  function tile(place, isFrame) {
    const { node: shown } = place.item;
    const label = `${short(shown.name, 120)}  ${size(shown.nbytes)}`;
    const made = h("button", { type: "button", class: `tile ${isFrame ? "frame" : ""}`, title: label, "aria-label": label,
      onclick: () => (shown.children.length ? go(shown) : choose(shown)) });
    const wide = area.clientWidth || 1; // in shares of the width, which is another one on paper
    made.style.left = `${(100 * (place.x + 1)) / wide}%`;
    made.style.top = `${place.y + 1}px`;
    made.style.width = `${(100 * Math.max(0, place.width - 2)) / wide}%`;
    made.style.height = `${Math.max(0, place.height - 2)}px`;
    if (!isFrame) made.style.background = stripes(shown.sums, 28);
    if (place.width > 34 && place.height > 17) made.append(isFrame && label.length * LETTER < place.width - 14 ? h("span", {}, label) : name(shown.name, siblings(shown)));
    if (!isFrame && place.width > 60 && place.height > 34) made.append(h("span", {}, size(shown.nbytes)));
    return made;
  }

  function paint() {
    const tiles = [], left = squarify(largest(node, area.clientWidth * area.clientHeight), 0, 0, area.clientWidth, area.clientHeight);
    for (let at = 0; at < left.length && tiles.length < 1200; at++) {
      const place = left[at], inner = place.item.node;
      if (place.width < 2 || place.height < 2) continue;
      const isFrame = inner.children.length > 1 && !inner.isRest && place.width > 70 && place.height > 50;
      tiles.push(tile(place, isFrame));
      if (!isFrame) continue;
      const width = place.width - 6, height = place.height - 24;
      left.push(...squarify(largest(inner, width * height), place.x + 3, place.y + 21, width, height));
    }
    area.replaceChildren(...tiles);
  }

  new ResizeObserver(paint).observe(area);
  go(root);
  return { area, crumbs };
}

// Counts, or their logarithms; each of two tensors, whose bins may differ in width, to its own height.
function histogram(found, log = false) {
  const width = 356, height = 120, foot = 16;
  const all = found.filter(Boolean);
  const low = Math.min(...all.map((one) => one.first * one.width));
  const high = Math.max(...all.map((one) => (one.first + one.counts.length) * one.width));
  const heights = found.map((one) => {
    if (!one) return [];
    const told = one.counts.map((count) => (log ? Math.log1p(count) : count)), most = Math.max(...told);
    return told.map((value) => value / most);
  });
  const at = (value) => ((value - low) / (high - low)) * width;
  const plot = s("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `histogram from ${figure(low)} to ${figure(high)}` });
  found.forEach((one, number) => one && heights[number].forEach((value, bin) => {
    const tall = value * (height - foot - 4);
    if (!one.counts[bin]) return;
    const x = at((one.first + bin) * one.width), wide = (one.width / (high - low)) * width;
    const from = (one.first + bin) * one.width;
    plot.append(s("rect", { class: `bin ${number ? "other" : ""}`, x: x.toFixed(2), y: (height - foot - Math.max(tall, 1)).toFixed(2),
      width: Math.max(wide - 0.6, 0.6).toFixed(2), height: Math.max(tall, 1).toFixed(2), "fill-opacity": all.length > 1 ? 0.55 : 1 },
      s("title", {}, `${figure(from)} to ${figure(from + one.width)}: ${several(one.counts[bin], "value")}`)));
  }));
  plot.append(s("line", { class: "axis", x1: 0, x2: width, y1: height - foot + 0.5, y2: height - foot + 0.5 }));
  if (low < 0 && high > 0) {
    plot.append(s("line", { class: "axis", x1: at(0), x2: at(0), y1: 0, y2: height - foot + 4 }));
    if (at(0) > 60 && at(0) < width - 60) plot.append(s("text", { x: at(0), y: height - 3, "text-anchor": "middle" }, "0"));
  }
  plot.append(s("text", { x: 0, y: height - 3 }, figure(low)), s("text", { x: width, y: height - 3, "text-anchor": "end" }, figure(high)));
  return plot;
}

// Blue is below zero, red above; what is not finite stands out.
function shades() {
  const zero = color("panel"), below = color("variable"), above = color("optimizer"), bad = [255, 0, 220];
  return (step) => {
    if (step === -128) return bad;
    const end = step < 0 ? below : above, share = Math.sqrt(Math.abs(step) / 127);
    return zero.map((part, at) => part + (end[at] - part) * share);
  };
}

function paintCells(canvas, cells, rows, columns) {
  const shade = shades();
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
  for (let at = 0; at < rows * columns; at++) image.data.set([...shade(cells[at]).slice(0, 3), 255], at * 4);
  context.putImageData(image, 0, 0);
}

function heatMap(found, label = "") {
  const cells = new Int8Array(bytes(found.cells).buffer);
  const each = found.rows * found.columns, scale = number(found.scale);
  const large = h("canvas", { class: "heat", role: "img", "aria-label": "heat map of means" });
  const tall = Math.max(14, Math.min(260, (356 * found.rows) / found.columns));
  large.style.height = `${tall}px`;
  const told = h("span", { class: "dim num" }), title = h("h3");
  const [height, width] = found.shape;
  const cell = height === found.rows && width === found.columns
    ? "a cell is a value" : `a cell is a mean of about ${counted(Math.round((height / found.rows) * (width / found.columns)))}`;
  let slice = 0;
  const thumbs = found.slices.length > 1 ? found.slices.map((of, at) => {
    const canvas = h("canvas", { class: "heat" });
    canvas.style.height = "36px";
    return h("button", { type: "button", title: `slice ${of}`, "aria-label": `slice ${of}`, onclick: () => go(at) }, canvas);
  }) : [];

  function go(at) {
    slice = at;
    thumbs.forEach((thumb, other) => thumb.setAttribute("aria-pressed", String(other === at)));
    title.replaceChildren(label && `${label}, `, found.of > 1 ? `slice ${counted(found.slices[at])} of ${counted(found.of)}, ${height} × ${width}` : `${counted(height)} × ${counted(width)}`);
    paint();
  }

  function paint() {
    paintCells(large, cells.subarray(slice * each, (slice + 1) * each), found.rows, found.columns);
    thumbs.forEach((thumb, at) => paintCells(thumb.firstChild, cells.subarray(at * each, (at + 1) * each), found.rows, found.columns));
  }

  large.addEventListener("mousemove", (event) => {
    const box = large.getBoundingClientRect();
    const row = Math.min(found.rows - 1, Math.floor(((event.clientY - box.top) / box.height) * found.rows));
    const column = Math.min(found.columns - 1, Math.floor(((event.clientX - box.left) / box.width) * found.columns));
    const step = cells[slice * each + row * found.columns + column];
    const range = (at, parts, of) => {
      const from = Math.floor((at * of) / parts), to = Math.floor(((at + 1) * of) / parts) - 1;
      return from === to ? `${from}` : `${from}–${to}`;
    };
    told.textContent = `[${range(row, found.rows, height)}, ${range(column, found.columns, width)}] ${step === -128 ? "not finite" : figure((step / 127) * scale, 3)}`;
  });
  large.addEventListener("mouseleave", () => { told.textContent = ""; });
  go(0);
  const box = h("div", {}, h("div", { class: "between" }, title, told), large,
    thumbs.length ? h("div", { class: "slices" }, thumbs) : null,
    h("p", { class: "note" }, `${cell}; blue is below zero, red above, to ±${figure(scale, 3)}`));
  box.paint = paint;
  return box;
}
