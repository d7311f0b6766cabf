// The object graph as a tree that folds: like objects in one row, slots below their variable, everything to be unfolded.
// An object stands where the shortest way leads to it; elsewhere an arrow does.

const GRAPH_COLORS = { red: "optimizer", blue: "variable", orange: "slot" };

class Hanging {
  constructor(graph) {
    Object.assign(this, { below: graph.below, slots: graph.slots, aliases: graph.aliases });
    this.known = new Map();
    this.up = new Map();
  }

  row(id, name, members, up, more = {}) {
    let row = this.known.get(id);
    if (!row) {
      row = { id, name, members, node: members[0], ...more };
      this.known.set(id, row);
      this.up.set(row, up);
    }
    return row;
  }

  root() { return this.row("0", "(root)", [0], null); }

  // Below a row of several stand those it is for, by their own names; below one of them, what hangs on it.
  rowsBelow(row) {
    if (row.rows) return row.rows;
    row.rows = row.isAlias ? [] : row.members.length > 1 ? this.each(row) : this.hangingOn(row);
    return row.rows;
  }

  each(row) {
    const numbers = [...row.name.matchAll(/\{(\d[\d.,]*)\}/g)].at(-1);
    const digits = numbers[1].match(/\d+/)[0].length; // of the first, and so of all where zeros stand before them
    const each = numbers[1].split(",").flatMap((run) => {
      const [first, last = first] = run.split("..").map(Number);
      return Array.from({ length: last - first + 1 }, (_, at) => String(first + at).padStart(digits, "0"));
    });
    return row.members.map((node, at) =>
      this.row(`${row.id}#${at}`, row.name.slice(0, numbers.index) + each[at] + row.name.slice(numbers.index + numbers[0].length), [node], row));
  }

  hangingOn(row) {
    const make = (kind) => ([name, ...members], at) => this.row(`${row.id}/${kind}${at}`, name, members, row, { isAlias: kind === "a", isSlot: kind === "s" });
    return [
      ...(this.below[row.node] ?? []).map(make("b")),
      ...(this.slots[row.node] ?? []).map(make("s")),
      ...(this.aliases[row.node] ?? []).map(make("a")),
    ];
  }

  path(row) {
    const names = [];
    for (let at = row; this.up.get(at); at = this.up.get(at)) if (at === row || at.members.length === 1) names.unshift(at.name);
    return names.join("/") || "(root)";
  }

  above(row) {
    const up = this.up.get(row);
    return up && up.members.length > 1 ? this.up.get(up) : up;
  }

  // The row where a node is shown, by the way to it: made once, for all nodes.
  home(node) {
    if (!this.homes) {
      this.homes = new Map();
      const left = [this.root()];
      while (left.length) {
        const row = left.pop();
        if (row.isAlias) continue;
        if (row.members.length === 1) this.homes.set(row.node, row);
        for (const below of this.rowsBelow(row)) left.push(below);
      }
    }
    return this.homes.get(node);
  }
}

// `more(row)` gives what else is told of a row, its title, what it ends with, and whether it was searched for.
class GraphTree {
  constructor(graph, more, select = null) {
    this.graph = graph;
    this.model = new Hanging(graph);
    this.more = more;
    this.tree = new TreeRows("object graph", { below: (row) => this.below(row), draw: (row, indent) => this.draw(row, indent), select, narrow: 0 });
    this.element = this.tree.element;
    const button = (name, act) => h("button", { class: "plain", type: "button", onclick: act }, name);
    this.overlays = new Set(["aliases"]);
    const has = (rows) => Object.values(rows).some((each) => each.length);
    const overlay = (name, title) => h("button", { class: "plain", type: "button", "data-overlay": name, title, "aria-pressed": String(this.overlays.has(name)), onclick: (event) => this.lay(event.currentTarget, name) }, name);
    this.buttons = [button("Fold", () => this.start()), button("Unfold all", () => this.unfoldAll()),
      has(graph.slots) ? overlay("slots", "show the slots of each variable") : null,
      has(graph.aliases) ? overlay("aliases", "show other edges to objects") : null].filter(Boolean);
    this.legend = h("span", { class: "legend" }, Object.values(GRAPH_COLORS).map((kind) => h("span", { class: kind }, h("i"), kind)));
    this.count = several(graph.reached, "object");
  }

  below(row) {
    const rows = this.model.rowsBelow(row);
    return this.overlays.has("aliases") ? rows : rows.filter((each) => !each.isAlias);
  }

  // Slots and aliases lie over the tree, or do not; what else is unfolded stays so.
  lay(button, name) {
    const { model, tree } = this, on = !this.overlays.delete(name);
    if (on) this.overlays.add(name);
    button.setAttribute("aria-pressed", String(on));
    if (name === "slots") {
      model.home(0);
      for (const row of model.homes.values()) {
        if (!model.rowsBelow(row).some((each) => each.isSlot)) continue;
        if (on) tree.opened.add(row); else tree.opened.delete(row);
      }
    }
    const chosen = tree.flat[tree.rows.selected]?.node;
    tree.show([model.root()], tree.opened);
    const at = tree.flat.findIndex(({ node }) => node === chosen);
    if (at >= 0) tree.rows.select(at);
  }

  draw(row, indent) {
    const { graph, model } = this, { told, title, found, children } = this.more(row);
    indent.classList.add(row.isAlias ? "unknown" : GRAPH_COLORS[graph.palette[graph.colors[row.node]]] ?? "unknown");
    const slots = graph.slots[row.node]?.length ?? 0;
    const count = row.members.length > 1 ? `(${counted(row.members.length)} alike)` : slots && !row.isAlias && !this.tree.opened.has(row) ? `+${several(slots, "slot")}` : "";
    const hidden = row.isAlias || this.tree.opened.has(row) ? 0 : graph.hidden[row.node] ?? 0;
    const edge = (event) => { event.stopPropagation(); this.go(row.node); };
    const what = row.isAlias ? [] : [visible(graph.words[graph.told[row.node]]), told, count, hidden ? `+${several(hidden, "node")}` : ""];
    indent.append(h("span", { class: "dot" }), h("bdi", { class: found ? "found" : null }, short(row.name)), h("span", { class: "dim" }, ["", ...what.filter(Boolean)].join("  ")));
    if (row.isAlias) indent.append(h("button", { class: "edge", type: "button", tabindex: "-1", onclick: edge }, `→ ${short(model.path(model.home(row.node) ?? model.root()))}`));
    return { children: [indent, children], attributes: { class: "g-grid", title } };
  }

  // Follow an edge to where its object stands.
  go(node) {
    const home = this.model.home(node) ?? this.model.root();
    for (let row = this.model.up.get(home); row; row = this.model.up.get(row)) this.tree.opened.add(row);
    this.tree.show([this.model.root()], this.tree.opened);
    this.tree.rows.select(this.tree.flat.findIndex((each) => each.node === home));
  }

  // Level by level, as long as all that is unfolded can be seen at once; of the first level that has no room, the rows
  // below which most hangs. Slots and what is alike stay folded.
  start() {
    const { model } = this, opened = new Set(), room = Math.max(18, Math.floor(this.element.clientHeight / ROW));
    let level = [model.root()], seen = 1;
    while (level.length) {
      const unfolding = level.filter((row) => row.members.length === 1 && model.rowsBelow(row).some((each) => !each.isSlot));
      const next = unfolding.flatMap((row) => model.rowsBelow(row));
      if (seen > 1 && seen + next.length > room) {
        const hidden = (row) => this.graph.hidden[row.node] ?? 0;
        for (const row of unfolding.sort((a, b) => hidden(b) - hidden(a))) {
          if (seen + model.rowsBelow(row).length > room) continue;
          opened.add(row);
          seen += model.rowsBelow(row).length;
        }
        break;
      }
      for (const row of unfolding) opened.add(row);
      seen += next.length;
      level = next;
    }
    this.tree.show([model.root()], opened);
  }

  unfoldAll() {
    const opened = new Set(), left = [this.model.root()];
    while (left.length) {
      const row = left.pop(), below = this.model.rowsBelow(row);
      if (below.length) opened.add(row);
      for (const each of below) left.push(each);
    }
    this.tree.show([this.model.root()], opened);
  }
}

// The graph on the page of a checkpoint; `choose` shows a tensor there.
function graphSection(graph, tensors, choose) {
  const view = new GraphTree(graph, ({ node, isAlias, members }) => {
    const found = isAlias || members.length > 1 ? [] : graph.tensors[node];
    const show = (event) => { event.stopPropagation(); choose(found[0]); };
    return {
      told: found.length ? size(found.reduce((sum, tensor) => sum + tensors.nbytes[tensor], 0)) : "",
      children: found.length ? h("button", { class: "plain", type: "button", tabindex: "-1", onclick: show }, "show") : null,
    };
  });
  view.element.style.height = `${Math.min(440, Math.max(120, graph.reached * ROW))}px`;
  const { whole, body } = section("Object graph", "graph", view.buttons, view.legend, h("span", { class: "dim num" }, view.count));
  body.append(view.element);
  return { whole, start: () => view.start() };
}
