// The page of one checkpoint.

function heading(page, ...more) {
  const made = [page.made, `ckpt ${page.version}`, page.command].filter(Boolean).join(" · ");
  const theme = h("button", { class: "plain", type: "button", id: "theme", onclick: toggleTheme, title: "toggle light and dark  (t)" }, "◐ theme");
  const help = h("button", { class: "plain", type: "button", id: "help", onclick: () => helpDialog().showModal(), title: "keys  (?)" }, "? keys");
  return h("header", { class: "top" }, h("div", {}, h("h1", {}, breakable(page.name)), h("div", { class: "path" }, breakable(page.path)), more, h("div", { class: "path made" }, h("bdi", {}, visible(made)))), theme, help);
}

function facts(rows) {
  return h("dl", { class: "facts" }, rows.filter(([, value]) => value != null && value !== "").map(([name, value, more]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, visible(value), more ? h("small", {}, `  ${visible(more)}`) : null))));
}

function warnings(found) {
  if (!found.length) return null;
  const shown = found.slice(0, 100).map((text) => h("li", {}, short(text, 1200)));
  if (found.length > 100) shown.push(h("li", {}, `and ${counted(found.length - 100)} more`));
  return h("ul", { class: "warnings", role: "alert" }, shown);
}

const KEYS = [["/", "search"], ["Esc", "leave the search"], ["↑ ↓ PgUp PgDn Home End", "move through the rows"], ["→ ←", "unfold, fold"], ["Enter", "toggle fold"],
  ["l", "show tensors as a list"], ["r", "show tensors as a tree"], ["t", "toggle light and dark"], ["?", "show this help"]];

function helpDialog() {
  let dialog = document.querySelector("dialog");
  if (!dialog) {
    dialog = h("dialog", { "aria-label": "keys" }, h("h2", {}, "Keys"), h("dl", {}, KEYS.flatMap(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])),
      h("form", { method: "dialog" }, h("button", { class: "plain", type: "button", onclick: () => dialog.close() }, "Close")));
    document.body.append(dialog);
  }
  return dialog;
}

function shortcuts(tensors) {
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (event.key === "Escape" && typing) { tensors?.search.blur(); return; }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const does = { "/": () => tensors?.search.focus(), t: toggleTheme, "?": () => helpDialog().showModal(),
      l: () => tensors?.view?.press("list"), r: () => tensors?.view?.press("tree") }[event.key];
    if (does) { does(); event.preventDefault(); }
  });
}

function kindFacts(page) {
  return Object.entries(page.kinds).map(([kind, found]) => [kind, size(found.nbytes), several(found.tensors, "tensor")]);
}

function showCheckpoint(page, body) {
  body.append(heading(page));
  shortcuts(contents(page, body));
}

// What is in a checkpoint; returns the list of its tensors.
function contents(page, body) {
  const tensors = new Tensors(page);
  const files = page.files.reduce((sum, file) => sum + (file.nbytes ?? 0), 0);
  body.append(facts([["format", page.format, page.title], ["step", page.step == null ? null : counted(page.step)], ["producer", page.producer],
    ["parameters", counted(page.total.parameters)], ["tensors", counted(page.total.tensors), size(page.total.nbytes)],
    ...kindFacts(page), ["dtypes", Object.keys(page.dtypes).join(", ")], [several(page.files.length, "file"), size(files)]]));
  const told = warnings([...page.findings, ...page.missing.map((path) => `${path}: missing`), ...Object.values(page.broken)]);
  if (told) body.append(told);
  const list = tensorSection(tensors);
  const map = treemap(tensors.whole(), (node) => node.tensor != null && list.choose(node.tensor));
  const legend = h("span", { class: "legend" }, Object.keys(page.kinds).map((kind) => h("span", { class: kind }, h("i"), kind)));
  const sizes = section("Sizes by layer", "sizes", map.crumbs, h("span", { class: "dim" }, legend));
  sizes.body.append(map.area);
  body.append(sizes.whole, list.whole);
  if (page.graph) {
    const graph = graphSection(page.graph, tensors, list.choose);
    body.append(graph.whole);
    graph.start();
  }
  list.start();
  return list;
}
