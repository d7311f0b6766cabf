// The page of several checkpoints: how far each is from each other one, and their tensors in a column each.

const percent = (value) => (value == null ? "" : typeof value === "string" ? value : `${figure(100 * value, 3)}%`);

// The distances of rows from columns as a table, the stronger the farther.
function distanceTable(page, distances, caption, hasNames = true) {
  const most = Math.max(0, ...distances.flat().map(number).filter(Number.isFinite));
  const cell = (value, at, to) => {
    const share = number(value), td = h("td", { class: "num" }, at === to ? "–" : percent(value));
    if (at !== to && share > 0 && most) td.style.background = `color-mix(in srgb, var(--variable) ${Math.round(8 + 40 * Math.min(1, share / most))}%, var(--panel))`;
    return td;
  };
  return h("table", { class: "distances" }, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, h("td"), page.names.map((name, at) => h("th", { scope: "col", title: visible(name) }, counted(at + 1))))),
    h("tbody", {}, distances.map((row, at) => h("tr", {}, h("th", { scope: "row" }, h("span", { class: "dim" }, `${counted(at + 1)} `), hasNames ? middle(page.names[at]) : null), row.map((value, to) => cell(value, at, to))))));
}

// Rows of so many columns scroll sideways where there is no room for them; their names stay.
function widen(rows, grid, least) {
  const make = rows.make.bind(rows);
  rows.make = (at) => { const row = make(at); row.style.gridTemplateColumns = grid; return row; };
  rows.element.classList.add("wide-rows");
  for (const each of [rows.inside, rows.head]) each.style.minWidth = `${least + 24}px`;
}

function layerSection(page) {
  const place = h("aside", { class: "detail", "aria-live": "polite" }, h("p", { class: "empty" }, "Choose a layer to see its distances."));
  const farthest = (group) => Math.max(...group.rel_l2.flat().map(number).map((value) => (Number.isNaN(value) ? Infinity : value ?? 0)));
  const groups = page.groups.map((group) => ({ ...group, most: farthest(group) })).sort((one, other) => other.most - one.most);
  const first = page.names.map((_, at) => at).slice(1);
  const grid = `minmax(120px, 1fr) repeat(${first.length}, minmax(56px, 84px))`;
  const head = h("div", { class: "head", role: "presentation" }, h("button", { type: "button", disabled: true }, "layer"),
    first.map((at) => h("button", { type: "button", disabled: true, class: "num", title: visible(page.names[at]) }, `${counted(at + 1)} from 1`)));
  head.style.gridTemplateColumns = grid;
  const rows = new Rows("layers", "listbox", (at) => ({ attributes: { "data-layer": at, style: null }, children: [middle(groups[at].prefix || "(top level)", { title: short(groups[at].prefix) }),
    first.map((other) => h("span", { class: "num" }, percent(groups[at].rel_l2[other][0])))].flat() }),
    { select: (at) => place.replaceChildren(h("div", { class: "long" }, h("bdi", {}, visible(groups[at].prefix) || "(top level)")), distanceTable(page, groups[at].rel_l2, "‖row − column‖ / ‖column‖", page.names.length < 5),
      ...[curve("norm of its weights", page.norms[groups[at].prefix]?.map((value, x) => [page.xs[x], value]) ?? [])].filter(Boolean)) }, head);
  widen(rows, grid, 120 + 66 * first.length);
  rows.element.style.height = `${Math.min(420, groups.length * ROW + 34)}px`;
  const { whole, body } = section("By layer", "layers", h("span", { class: "dim" }, several(groups.length, "layer")));
  body.append(h("div", { class: "split low" }, h("div", {}, rows.element), place));
  return { whole, start: () => rows.show(groups.length) };
}

function tensorTable(page) {
  const search = h("input", { type: "search", placeholder: "search names   /", "aria-label": "search tensors", spellcheck: "false", autocomplete: "off", oninput: () => update() });
  const told = h("span", { class: "dim num" });
  const shown = { field: "l2" };
  const grid = `minmax(110px, 1fr) minmax(60px, 100px) repeat(${page.names.length}, minmax(56px, 72px))`;
  const head = h("div", { class: "head", role: "presentation" }, [["tensor", ""], ["shape", ""], ...page.names.map((name, at) => [counted(at + 1), "num", name])].map(([label, name, title]) =>
    h("button", { type: "button", disabled: true, class: name, title: title ? visible(title) : null }, label)));
  head.style.gridTemplateColumns = grid;
  let found = page.tensors;
  const rows = new Rows("tensors", "listbox", (at) => ({ attributes: {}, children: [h("span", { class: "named variable", title: short(found[at].name) }, h("span", { class: "dot" }), named(found[at].name)),
    h("span", { class: "dim" }, found[at].shape.join("×")), found[at][shown.field].map((value) => h("span", { class: "num" }, value == null ? "" : figure(value, 4)))].flat() }), {}, head);
  widen(rows, grid, 110 + 70 + 66 * page.names.length);
  const field = toggle({ l2: "norm", mean: "mean", std: "std", min: "min", max: "max", nan: "NaN" }, "l2", (chosen) => { shown.field = chosen; rows.again(); });
  const { whole, body } = section("Tensors", "tensors", search, field, told);
  rows.element.style.height = `${Math.min(603, page.tensors.length * ROW + 34)}px`;
  body.append(rows.element);
  function update() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = page.tensors.filter((tensor) => words.every((word) => tensor.name.toLowerCase().includes(word)));
    told.textContent = several(found.length, "tensor");
    rows.show(found.length);
  }
  return { whole, search, start: update };
}

function showSeveral(page, body) {
  body.append(heading(page, page.others.map((path) => h("div", { class: "path" }, h("bdi", {}, visible(path))))));
  body.append(facts([["checkpoints", counted(page.names.length)], ["tensors compared", counted(page.tensors.length)], ["layers", counted(page.groups.length)]]));
  const matrix = section("Distances", "distances", h("span", { class: "dim" }, "‖row − column‖ / ‖column‖, of floating-point tensors"));
  matrix.body.append(h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "table of distances" }, distanceTable(page, page.rel_l2, "how far each checkpoint is from each other one")));
  if (page.remarks.length) matrix.body.append(h("ul", { class: "sentences" }, page.remarks.map((text) => h("li", {}, short(text)))));
  const curves = section("Norms", "curves");
  const total = curve("norm of all tensors", page.total.map((value, at) => [page.xs[at], value]));
  const far = curve("distance from the first", page.rel_l2.map((row, at) => [page.xs[at], row[0]]));
  curves.body.append(h("div", { class: "curves" }, [total, far].filter(Boolean)));
  const layers = layerSection(page), tensors = tensorTable(page);
  body.append(matrix.whole, curves.whole, layers.whole, tensors.whole);
  layers.start();
  tensors.start();
  shortcuts(tensors);
}
