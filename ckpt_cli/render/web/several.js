// The page of several checkpoints: how far each is from each other one, and their tensors in a column each.

const percent = (value) => (value == null ? "" : typeof value === "string" ? value : `${figure(100 * value, 3)}%`);

// The distances of rows from columns as a table, the stronger the farther.
function distanceTable(page, distances, caption, hasNames = true) {
  const names = new Names(() => page.names), most = Math.max(0, ...distances.flat().map(number).filter(Number.isFinite));
  const cell = (value, at, to) => {
    const share = number(value), td = h("td", { class: "num" }, at === to ? "–" : percent(value));
    if (at !== to && share > 0 && most) td.style.background = `color-mix(in srgb, var(--variable) ${Math.round(8 + 40 * Math.min(1, share / most))}%, var(--panel))`;
    return td;
  };
  // The width of its names does not depend on how they are cut: they would stay cut in a window that becomes wider.
  const table = h("table", { class: "distances" }, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, h("td"), page.names.map((title, at) => h("th", { scope: "col", title: visible(title) }, counted(at + 1))))),
    h("tbody", {}, distances.map((row, at) => h("tr", {}, h("th", { scope: "row" }, h("span", { class: "dim" }, `${counted(at + 1)} `), hasNames ? name(page.names[at], names) : null), row.map((value, to) => cell(value, at, to))))));
  table.style.setProperty("--letters", Math.max(...page.names.map((text) => short(text).length)) + 1);
  return table;
}

// Rows of so many columns scroll sideways where there is no room for them; their names stay.
function widen(rows, grid, least) {
  const make = rows.make.bind(rows);
  rows.make = (at) => { const row = make(at); row.style.gridTemplateColumns = grid; return row; };
  rows.element.classList.add("wide-rows");
  for (const each of [rows.inside, rows.head]) each.style.minWidth = `calc(var(--name) + ${least + 24}px)`;
}

const ROOM = 270; // pixels for a name beside its cells

function layerSection(page) {
  const place = h("aside", { class: "detail", "aria-live": "polite" }, h("p", { class: "empty" }, "Choose a layer to see its distances."));
  const farthest = (group) => Math.max(...group.rel_l2.flat().map(number).map((value) => (Number.isNaN(value) ? Infinity : value ?? 0)));
  const groups = page.groups.map((group) => ({ ...group, most: farthest(group) })).sort((one, other) => other.most - one.most);
  const first = page.names.map((_, at) => at).slice(1), prefixes = new Names(() => groups.map((group) => group.prefix));
  const grid = `minmax(var(--name), 1fr) repeat(${first.length}, minmax(56px, 84px))`;
  const head = h("div", { class: "head", role: "presentation" }, h("button", { type: "button", disabled: true }, "layer"),
    first.map((at) => h("button", { type: "button", disabled: true, class: "num", title: visible(page.names[at]) }, `${counted(at + 1)} from 1`)));
  head.style.gridTemplateColumns = grid;
  const rows = new Rows("layers", "listbox", (at) => ({ attributes: { "data-layer": at, style: null }, children: [name(groups[at].prefix || TOP, prefixes),
    first.map((other) => h("span", { class: "num" }, percent(groups[at].rel_l2[other][0])))].flat() }),
    { select: (at) => place.replaceChildren(h("div", { class: "long" }, breakable(groups[at].prefix || TOP)), distanceTable(page, groups[at].rel_l2, "‖row − column‖ / ‖column‖", page.names.length < 5),
      ...[curve("norm of its weights", page.norms[groups[at].prefix]?.map((value, x) => [page.xs[x], value]) ?? [])].filter(Boolean)) }, head, { most: 420, narrow: 66 * first.length + ROOM });
  widen(rows, grid, 66 * first.length);
  const { whole, body } = section("By layer", "layers", h("span", { class: "dim" }, several(groups.length, "layer")));
  body.append(h("div", { class: "split low" }, h("div", {}, rows.element), place));
  return { whole, start: () => rows.show(groups.length) };
}

const SEVERAL_FIELDS = { l2: "norm", mean: "mean", std: "std", min: "min", max: "max", nan: "NaN" };

function tensorTable(page) {
  const search = h("input", { type: "search", placeholder: "search names   /", "aria-label": "search tensors", spellcheck: "false", autocomplete: "off", oninput: () => update(),
    onkeydown: (event) => { if (event.key === "ArrowDown" || event.key === "Enter") { rows.element.focus(); event.preventDefault(); } } });
  const told = h("span", { class: "dim num" }), place = h("aside", { class: "detail", "aria-live": "polite" }, h("p", { class: "empty" }, "Choose a tensor to see it in each checkpoint."));
  const shown = { field: "l2" }, names = new Names(() => page.tensors.map((tensor) => tensor.name));
  const leaf = separatorOf(page.tensors.map((tensor) => tensor.name));
  const grid = `minmax(var(--name), 1fr) minmax(60px, 100px) repeat(${page.names.length}, minmax(56px, 72px))`;
  const head = h("div", { class: "head", role: "presentation" }, [["tensor", ""], ["shape", ""], ...page.names.map((title, at) => [counted(at + 1), "num", title])].map(([label, kind, title]) =>
    h("button", { type: "button", disabled: true, class: kind, title: title ? visible(title) : null }, label)));
  head.style.gridTemplateColumns = grid;
  let found = page.tensors;
  const rows = new Rows("tensors", "listbox", (at) => ({ attributes: {}, children: [h("span", { class: "named variable" }, h("span", { class: "dot" }), name(found[at].name, names, { leaf })),
    h("span", { class: "dim" }, found[at].shape.join("×")), found[at][shown.field].map((value) => h("span", { class: "num" }, value == null ? "" : figure(value, 4)))].flat() }),
    { select: (at) => describeSeveral(page, found[at], place) }, head, { most: 603, narrow: 70 + 66 * page.names.length + ROOM });
  widen(rows, grid, 70 + 66 * page.names.length);
  const field = toggle(SEVERAL_FIELDS, "l2", (chosen) => { shown.field = chosen; rows.again(); });
  const { whole, body } = section("Tensors", "tensors", search, field, told);
  body.append(h("div", { class: "split low" }, h("div", {}, rows.element), place));

  function update() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = page.tensors.filter((tensor) => words.every((word) => tensor.name.toLowerCase().includes(word)));
    told.textContent = several(found.length, "tensor");
    rows.element.scrollTop = 0;
    rows.show(found.length);
  }

  function choose(tensor) {
    search.value = "";
    update();
    rows.select(found.indexOf(tensor));
    whole.scrollIntoView({ block: "start" });
  }

  const follow = followLinks(page.tensors, (tensor) => [tensor.name], choose, place, "No tensor that was compared has this name");
  return { whole, search, start: () => { update(); follow(); } };
}

// A tensor in each checkpoint: a column of statistics each, and its norm as a curve.
function describeSeveral(page, tensor, place) {
  const fields = Object.entries(SEVERAL_FIELDS);
  place.replaceChildren(...titled(tensor.name, tensor.name), pairs([["dtype", visible(tensor.dtype), true], ["shape", `[${tensor.shape.join(", ")}]`, true]]),
    h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "statistics by checkpoint" }, h("table", { class: "distances" },
      h("thead", {}, h("tr", {}, h("td"), page.names.map((title, at) => h("th", { scope: "col", title: visible(title) }, counted(at + 1))))),
      h("tbody", {}, fields.map(([field, label]) => h("tr", {}, h("th", { scope: "row" }, label),
        tensor[field].map((value) => h("td", { class: `num ${field === "nan" && value ? "bad" : ""}` }, figure(value, 4)))))))),
    ...[curve("norm", tensor.l2.map((value, at) => [page.xs[at], value]))].filter(Boolean));
}

function showSeveral(page, body) {
  body.append(heading(page, page.others.map((path) => h("div", { class: "path" }, breakable(path)))));
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
