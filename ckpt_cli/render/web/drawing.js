// The page of an object graph: like objects in one row, slots below their variable, everything to be unfolded.

class Hanging {
  constructor(page) {
    Object.assign(this, { below: page.below, slots: page.slots, aliases: page.aliases });
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
    const numbers = [...row.name.matchAll(/\{([\d.,]+)\}/g)].at(-1);
    const each = numbers[1].split(",").flatMap((run) => {
      const [first, last = first] = run.split("..").map(Number);
      return Array.from({ length: last - first + 1 }, (_, at) => first + at);
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
        left.push(...this.rowsBelow(row));
      }
    }
    return this.homes.get(node);
  }
}

function showGraph(page, body) {
  const model = new Hanging(page);
  const tree = new TreeRows("object graph", { below: (row) => model.rowsBelow(row), draw });
  const told = h("span", { class: "dim num" }, several(page.reached, "object"));
  const search = h("input", { type: "search", placeholder: "search names", "aria-label": "search names", oninput: () => find(0), onkeydown: (event) => { if (event.key === "Enter") find(1); } });
  const fold = h("button", { class: "plain", type: "button", onclick: () => start() }, "Fold");
  const unfold = h("button", { class: "plain", type: "button", onclick: () => unfoldAll() }, "Unfold all");
  const smaller = h("button", { class: "plain", type: "button", "aria-label": "smaller", onclick: () => zoom(1 / 1.2) }, "−");
  const larger = h("button", { class: "plain", type: "button", "aria-label": "larger", onclick: () => zoom(1.2) }, "+");
  const legend = h("span", { class: "legend" }, ["variable", "slot", "optimizer"].map((kind) => h("span", { class: kind }, h("i"), kind)));
  const { whole, body: inside } = section("Object graph", "graph", search, fold, unfold, smaller, larger, legend, told);
  inside.append(tree.element);
  tree.element.style.height = "calc(100vh - 190px)";
  body.append(heading(page), whole);
  let scale = 1, hits = [], hit = 0, wanted = "";

  function draw(row, indent) {
    indent.classList.add(row.isAlias ? "unknown" : GRAPH_COLORS[page.palette[page.colors[row.node]]] ?? "unknown");
    const slots = page.slots[row.node]?.length ?? 0;
    const count = row.members.length > 1 ? `(${counted(row.members.length)} alike)` : slots && !row.isAlias && !tree.opened.has(row) ? `+${several(slots, "slot")}` : "";
    const what = row.isAlias ? ` → ${short(model.path(model.home(row.node) ?? model.root()))}` : page.told[row.node];
    const found = hits.includes(row) ? "found" : null;
    indent.append(h("span", { class: "dot" }), h("bdi", { class: found }, short(row.name)), h("span", { class: "dim" }, `  ${visible(what)}  ${count}`));
    return { children: [indent], attributes: { title: short(page.keys[row.node].join("; ")) } };
  }

  // Level by level, as long as all that is unfolded can be seen at once; slots and what is alike stay folded.
  function start() {
    const opened = new Set(), room = Math.max(20, Math.floor(tree.element.clientHeight / ROW));
    let level = [model.root()], seen = 1;
    while (level.length) {
      const unfolding = level.filter((row) => row.members.length === 1 && model.rowsBelow(row).some((each) => !each.isSlot));
      const next = unfolding.flatMap((row) => model.rowsBelow(row));
      if (seen > 1 && seen + next.length > room) break;
      for (const row of unfolding) opened.add(row);
      seen += next.length;
      level = next;
    }
    tree.show([model.root()], opened);
  }

  function unfoldAll() {
    const opened = new Set(), left = [model.root()];
    while (left.length) {
      const row = left.pop(), below = model.rowsBelow(row);
      if (below.length) opened.add(row);
      left.push(...below);
    }
    tree.show([model.root()], opened);
  }

  function find(step) {
    const text = search.value.toLowerCase();
    if (text !== wanted) {
      wanted = text;
      hit = 0;
      model.home(0);
      // What hangs below a hit has its name in the way to it, too, and is none.
      const has = (row) => row != null && model.path(row).toLowerCase().includes(text);
      hits = text ? [...model.homes.values()].filter((row) => has(row) && !has(model.above(row))).slice(0, 1000) : [];
    } else if (hits.length) hit = (hit + step) % hits.length;
    told.textContent = text ? `${several(hits.length, "hit")}${hits.length ? `, ${hit + 1} shown` : ""}` : several(page.reached, "object");
    if (!hits.length) { tree.rows.again(); return; }
    for (let row = model.up.get(hits[hit]); row; row = model.up.get(row)) tree.opened.add(row);
    tree.show([model.root()], tree.opened);
    tree.rows.select(tree.flat.findIndex(({ node }) => node === hits[hit]));
  }

  function zoom(by) {
    scale = Math.max(0.4, Math.min(3, scale * by));
    inside.style.zoom = scale;
    tree.element.style.height = `calc((100vh - 190px) / ${scale})`;
    tree.rows.again();
  }

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input");
    if (event.key === "Escape" && typing) { search.blur(); return; }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const does = { "/": () => search.focus(), t: toggleTheme, "?": () => helpDialog().showModal(), "+": () => zoom(1.2), "-": () => zoom(1 / 1.2) }[event.key];
    if (does) { does(); event.preventDefault(); }
  });
  start();
}
