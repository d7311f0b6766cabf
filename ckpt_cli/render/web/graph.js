// The object graph as a tree that folds: an object stands where the shortest way leads to it; elsewhere an arrow does.

const GRAPH_COLORS = { red: "optimizer", blue: "variable", orange: "slot" };

class ObjectGraph {
  constructor(graph, tensors) {
    Object.assign(this, graph);
    this.tensorsOf = tensors;
    this.home = new Map([[0, null]]);
    const order = [0];
    for (let at = 0; at < order.length; at++) {
      const from = order[at];
      for (const { name, child } of this.edges(from)) {
        if (this.home.has(child)) continue;
        this.home.set(child, { from, name });
        order.push(child);
      }
    }
    this.reached = order.length;
    this.nodes = new Map();
  }

  edges(node) {
    const flat = this.children[node], found = [];
    for (let at = 0; at < flat.length; at += 2) found.push({ name: flat[at], child: flat[at + 1] });
    const slots = this.slots[node] ?? [];
    for (let at = 0; at < slots.length; at += 3) {
      found.push({ name: `${slots[at + 1]} of ${this.path(slots[at])}`, child: slots[at + 2], isSlot: true });
    }
    return found;
  }

  path(node) {
    const parts = [];
    for (let at = node; this.home?.get(at); at = this.home.get(at).from) parts.unshift(this.home.get(at).name);
    return parts.join("/") || (node === 0 ? "(root)" : `node ${node}`);
  }

  // An edge as a row; slots of an optimizer are rows below one of their own.
  row(id, name, child, isHome, isSlot = false) {
    const known = this.nodes.get(id);
    if (known) return known;
    const made = { id, name, child, isHome, isSlot };
    this.nodes.set(id, made);
    return made;
  }

  root() { return this.row("root", "(root)", 0, true); }

  below(row) {
    if (!row.isHome && !row.group) return [];
    if (row.rows) return row.rows;
    const seen = new Set(), plain = [], slots = [];
    for (const { name, child, isSlot } of row.group ?? this.edges(row.child)) {
      const home = this.home.get(child);
      const isHome = home?.from === row.child && home?.name === name && !seen.has(child);
      if (isHome) seen.add(child);
      if (isSlot && !row.group) slots.push({ name, child, isSlot });
      else plain.push(this.row(`${row.id}>${plain.length}`, name, child, isHome, isSlot));
    }
    if (slots.length) plain.push({ id: `${row.id}>slots`, name: several(slots.length, "slot"), child: row.child, isHome: false, group: slots });
    row.rows = plain;
    return plain;
  }
}

function graphSection(graph, tensors, choose) {
  const model = new ObjectGraph(graph, tensors);
  const told = h("span", { class: "dim num" }, several(graph.colors.length, "object"));
  const tree = new TreeRows("object graph", { below: (row) => model.below(row), draw, select: null });
  tree.rows.element.style.height = `${Math.min(440, Math.max(120, graph.colors.length * ROW))}px`;
  const fold = h("button", { class: "plain", type: "button", onclick: () => start() }, "Fold all");
  const unfold = h("button", { class: "plain", type: "button", onclick: () => unfoldAll() }, "Unfold all");
  const legend = h("span", { class: "legend" }, ["variable", "slot", "optimizer"].map((kind) => h("span", { class: kind }, h("i"), kind)));
  const { whole, body } = section("Object graph", "graph", fold, unfold, legend, told);
  body.append(tree.element);

  function draw(row, indent) {
    const kind = row.group ? "slot" : GRAPH_COLORS[graph.palette[graph.colors[row.child]]] ?? "unknown";
    indent.classList.add(kind);
    indent.append(h("span", { class: "dot" }), h("bdi", {}, short(row.name)));
    if (row.group) return { children: [indent], attributes: {} };
    if (!row.isHome) indent.append(h("span", { class: "dim" }, ` → ${short(model.path(row.child))}`));
    const found = graph.tensors[row.child];
    const spec = found.length === 1 ? `${tensors.dtype(found[0]) ?? "unknown"} [${tensors.shape(found[0]).join(", ")}]  ${size(tensors.nbytes[found[0]])}`
      : found.length ? several(found.length, "tensor") : "";
    const link = found.length ? h("button", { class: "plain", type: "button", tabindex: "-1", onclick: (event) => { event.stopPropagation(); choose(found[0]); } }, "show") : null;
    return { children: [indent, h("span", { class: "dim" }, visible(spec)), link], attributes: { class: "g-grid" } };
  }

  function unfoldAll() {
    const opened = new Set(), left = [model.root()];
    while (left.length && opened.size < 20000) {
      const row = left.pop();
      const below = model.below(row);
      if (below.length) opened.add(row);
      left.push(...below);
    }
    tree.show([model.root()], opened);
  }

  // As much is unfolded as can be seen at once.
  function start() {
    const opened = new Set(), left = [model.root()];
    let seen = 1;
    for (let at = 0; at < left.length; at++) {
      const below = model.below(left[at]);
      if (!below.length || left[at].group || (at && seen + below.length > 18)) continue;
      opened.add(left[at]);
      seen += below.length;
      left.push(...below);
      if (seen > 18) break;
    }
    tree.show([model.root()], opened);
  }

  return { whole, start };
}
