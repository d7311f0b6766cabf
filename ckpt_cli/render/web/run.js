// The page of a run: curves over its steps, and by layer and step what changed.

// Numbers with as many digits as tell them apart.
function distinct(values) {
  for (let digits = 3; digits < 17; digits++) {
    const labels = values.map((value) => figure(value, digits));
    if (new Set(labels).size === new Set(values).size) return labels;
  }
  return values.map(String);
}

// A curve of [x, y]; what is not finite is a mark at the bottom.
function curve(title, points, { log = false, other = [] } = {}) {
  const width = 420, height = 150, left = 64, foot = 18, top = 8;
  const all = [...points, ...other].map(([x, y]) => [x, number(y)]).filter(([, y]) => y != null);
  const finite = all.filter(([, y]) => Number.isFinite(y) && (!log || y > 0));
  if (!finite.length) return null;
  const to = log ? Math.log10 : (value) => value;
  const xs = all.map(([x]) => x), ys = finite.map(([, y]) => to(y));
  let [low, high] = [Math.min(...ys), Math.max(...ys)];
  if (low === high) [low, high] = [low - Math.max(Math.abs(low) * 0.1, 1e-9), high + Math.max(Math.abs(high) * 0.1, 1e-9)];
  const first = Math.min(...xs), last = Math.max(...xs);
  const x = (value) => left + (last === first ? 0.5 : (value - first) / (last - first)) * (width - left - 10);
  const y = (value) => top + (1 - (to(value) - low) / (high - low)) * (height - top - foot - 8);
  const plot = s("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}: ${figure(finite[0][1])} to ${figure(finite.at(-1)[1])}` });
  const from = (value) => (log ? 10 ** value : value);
  const ticks = [low, (low + high) / 2, high].map(from), labels = distinct(ticks);
  ticks.forEach((value, tick) => {
    const at = y(value);
    plot.append(s("line", { class: "axis", x1: left, x2: width, y1: at, y2: at }), s("text", { x: left - 6, y: at + 3.5, "text-anchor": "end" }, labels[tick]));
  });
  const fits = ([, value]) => Number.isFinite(value) && (!log || value > 0);
  const path = (some) => {
    let pen = "M", d = "";
    for (const point of some.map(([one, value]) => [one, number(value)])) {
      if (point[1] == null || !fits(point)) { pen = "M"; continue; }
      d += `${pen}${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`;
      pen = "L";
    }
    return d;
  };
  plot.append(s("path", { class: "line", d: path(points) }));
  if (other.length) plot.append(s("path", { class: "line other", d: path(other) }));
  if (points.length <= 200) {
    for (const [one, value] of points.map(([one, value]) => [one, number(value)])) {
      if (value == null) continue;
      const ok = fits([one, value]);
      plot.append(s("circle", { class: `mark ${ok || value === 0 ? "" : "bad"}`, cx: x(one).toFixed(1), cy: ok ? y(value).toFixed(1) : height - foot - 4, r: points.length > 60 ? 1.5 : 2.5 },
        s("title", {}, `step ${counted(one)}: ${figure(value, 6)}`)));
    }
  }
  plot.append(s("text", { x: x(first), y: height - 3 }, counted(first)), s("text", { x: x(last), y: height - 3, "text-anchor": "end" }, last === first ? "" : counted(last)));
  return h("figure", { class: "curve" }, h("figcaption", {}, h("h3", {}, title), h("span", { class: "dim num" }, figure(points.map(([, value]) => value).filter((value) => value != null).at(-1), 5))), plot);
}

function runMap(page, xs, place) {
  const of = page.by_layer, steps = page.checkpoints.length;
  const known = (field) => of[field].flat().some((value) => value != null);
  const shown = { field: ["ratio", "norm"].find(known) ?? "changed" }; // what changed is often everything
  const layers = new Names(() => page.layers);
  const wide = Math.max(3, Math.min(28, Math.floor(760 / steps)));
  const limits = {};
  for (const field of ["norm", "ratio"]) limits[field] = of[field].map((row) => Math.max(0, ...row.map(number).filter(Number.isFinite)));
  const most = Math.max(0, ...limits.ratio);

  function share(field, row, at) {
    const value = number(of[field][row][at]);
    if (value == null || !Number.isFinite(value)) return null;
    if (field === "changed") return value;
    const limit = field === "norm" ? limits.norm[row] : most;
    return limit ? Math.sqrt(value / limit) : 0;
  }

  function draw(row) {
    const canvas = h("canvas", { width: steps * wide, height: 16, role: "img", "aria-label": `${page.layers[row]} by step` });
    const context = canvas.getContext("2d"), back = color("panel"), ink = color("variable"), line = color("line");
    for (let at = 0; at < steps; at++) {
      const part = share(shown.field, row, at), bad = of.bad[row][at] > 0;
      const shade = part == null ? line : back.map((value, band) => value + (ink[band] - value) * (0.06 + 0.94 * part));
      context.fillStyle = bad ? "rgb(255 0 220)" : `rgb(${shade.slice(0, 3).map(Math.round).join(" ")})`;
      context.fillRect(at * wide, part == null && !bad ? 7 : 0, Math.max(1, wide - 1), part == null && !bad ? 2 : 16);
    }
    canvas.addEventListener("mousemove", (event) => {
      const at = Math.min(steps - 1, Math.floor((event.offsetX / canvas.clientWidth) * steps)), point = page.checkpoints[at];
      canvas.title = `${visible(point.name)}: ${told(shown.field, of[shown.field][row][at])}${of.bad[row][at] ? `, ${counted(of.bad[row][at])} NaN or infinite` : ""}`;
    });
    return { children: [name(page.layers[row] || TOP, layers), h("span", { class: "cells" }, canvas)], attributes: { class: "m-grid", "data-layer": row } };
  }

  function told(field, value) {
    if (value == null) return "unknown";
    return field === "changed" ? `${Math.round(value * 100)}% of its tensors changed` : `${field === "norm" ? "norm" : "update ratio"} ${figure(value, 4)}`;
  }

  const rows = new Rows("layers by step", "listbox", draw, { select: (row) => describeLayer(page, row, xs, place) }, null, { most: 480 });
  rows.element.style.setProperty("--cells", `${steps * wide}px`);
  const field = toggle({ ratio: "update ratio", norm: "norm", changed: "changed" }, shown.field, (chosen) => { shown.field = chosen; rows.again(); });
  painters.add(() => rows.again());
  return { rows, field };
}

function describeLayer(page, row, xs, place) {
  const points = (field) => page.by_layer[field][row].map((value, at) => [xs[at], value]);
  place.replaceChildren(h("div", { class: "long" }, breakable(page.layers[row] || TOP)),
    ...[curve("norm of its weights", points("norm")), curve("update ratio", points("ratio"), { log: true }), curve("share of tensors changed", points("changed"))].filter(Boolean));
}

const RUN_COLUMNS = [["name", ""], ["step", "num"], ["saved", "c-when"], ["changed", "num c-fate"], ["norm", "num"], ["update ratio", "num"], ["NaN, inf", "num"], ["loss", "num"]];

function checkpointRows(page) {
  const names = new Names(() => page.checkpoints.map((point) => point.name));
  const head = h("div", { class: "head r-grid", role: "presentation" }, RUN_COLUMNS.map(([label, name]) => h("button", { type: "button", disabled: true, class: name }, label)));
  const rows = new Rows("checkpoints", "listbox", (at) => {
    const point = page.checkpoints[at], bad = (point.nan ?? 0) + (point.inf ?? 0);
    const told = (point) => (point.global_step != null && point.global_step !== point.step ? `training step ${counted(point.global_step)}` : null);
    const changed = point.changed == null ? "" : `${counted(point.changed)}/${counted(point.changed + point.unchanged)}`;
    return { attributes: { class: "r-grid" }, children: [name(point.name, names, { title: short(point.path) }), h("span", { class: "num", title: told(point) }, point.step ?? ""),
      h("span", { class: "dim c-when" }, (point.modified ?? "").replace("T", " ").replace("Z", "")), h("span", { class: "num c-fate" }, point.format == null ? h("span", { class: "bad" }, "damaged") : changed),
      h("span", { class: "num" }, figure(point.l2)), h("span", { class: "num" }, figure(point.ratio, 3)), h("span", { class: `num ${bad ? "bad" : "dim"}` }, bad ? counted(bad) : ""), h("span", { class: "num" }, figure(point.loss))] };
  }, {}, head, { most: 420, narrow: page.checkpoints.every((point) => point.name.length <= 12) ? 0 : NARROW });
  if (page.checkpoints.every((point) => point.loss == null)) rows.element.style.setProperty("--loss", "0px");
  return rows;
}

function showRun(page, body) {
  const points = page.checkpoints, xs = points.map((point, at) => point.step ?? point.global_step ?? at);
  const bad = points.find((point) => point.nan), last = points.at(-1);
  body.append(heading(page), facts([["checkpoints", counted(points.length)], ["steps", points.length > 1 ? `${counted(xs[0])} to ${counted(xs.at(-1))}` : counted(xs[0])],
    ["latest", last.name], ["update ratio", figure(last.ratio, 3)], ["norm of the weights", figure(last.l2)], ["loss", figure(last.loss)], ["weights that never changed", page.frozen.length ? counted(page.frozen.length) : null]]));
  const told = warnings([...(bad ? [`first NaN in ${bad.name}: ${bad.first_nan}`] : []), ...page.findings]);
  if (told) body.append(told);
  const of = (field) => points.map((point, at) => [xs[at], point[field]]);
  const curves = [page.loss.points.length ? curve(visible(page.loss.tag ?? "loss"), page.loss.points) : null, curve("update ratio of the weights", of("ratio"), { log: true }), curve("norm of the weights", of("l2")),
    curve("norm of moving statistics", of("untrained_l2")),
    curve("tensors that changed", of("changed")), bad || points.some((point) => point.inf) ? curve("NaN and infinities", points.map((point, at) => [xs[at], (point.nan ?? 0) + (point.inf ?? 0)])) : null];
  const charts = section("By step", "curves");
  charts.body.append(h("div", { class: "curves" }, curves));
  const detail = h("aside", { class: "detail" }, h("p", { class: "empty" }, "Choose a layer to see its curves."));
  const map = runMap(page, xs, detail);
  const layers = section("By layer and step", "layers", map.field, h("span", { class: "dim" }, "one column per checkpoint; a stronger colour means more"), h("span", { class: "bad-mark" }, "NaN or infinite"));
  layers.body.append(h("div", { class: "split low" }, h("div", {}, map.rows.element), detail));
  const list = section("Checkpoints", "checkpoints");
  const rows = checkpointRows(page);
  list.body.append(rows.element);
  body.append(charts.whole, layers.whole, list.whole);
  if (page.frozen.length) {
    const frozen = section("Weights that never changed", "frozen");
    frozen.body.append(h("ul", { class: "names" }, page.frozen.slice(0, 500).map((key) => h("li", {}, h("bdi", {}, short(key))))));
    body.append(frozen.whole);
  }
  map.rows.show(page.layers.length);
  rows.show(points.length);
  if (!page.latest) { shortcuts(null); return; }
  body.append(h("h2", { id: "latest" }, "Latest: ", h("bdi", {}, visible(page.latest.name))));
  shortcuts(contents(page.latest, body));
}
