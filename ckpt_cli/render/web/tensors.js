// The tensors of a checkpoint: a list and a tree that are searched and filtered alike, and one of them in detail.

const STATISTICS = ["min", "max", "mean", "std", "l2", "zeros", "nan", "inf"];

class Tensors {
  constructor(page) {
    const columns = page.tensors;
    Object.assign(this, columns);
    this.count = columns.keys.length;
    this.sketches = page.sketches;
    this.broken = page.broken;
    this.matches = page.matches;
    this.name = (at) => this.names[at] ?? this.keys[at];
    this.dtype = (at) => this.specs[this.spec[at]][0];
    this.shape = (at) => this.specs[this.spec[at]][1];
    this.kindOf = (at) => this.kinds[this.kind[at]] ?? "unknown";
    this.isBad = (at) => at in this.broken || this.statistics.nan[at] > 0 || this.statistics.inf[at] > 0;
    this.words = null;
    this.spelled = new Names(() => this.all().map(this.name));
  }

  all() { return Array.from({ length: this.count }, (_, at) => at); }

  elements(at) { return this.shape(at).reduce((product, side) => product * side, 1); }

  // What stands between separators; a slot goes with its variable.
  parts(at) {
    const name = this.name(at), kind = this.kindOf(at);
    const behind = kind === "slot" ? name.indexOf(" (") : -1;
    if (behind < 0) return name.split(this.separator);
    const parts = name.slice(0, behind).split(this.separator);
    parts[parts.length - 1] += name.slice(behind);
    return parts;
  }

  find(text, kinds, dtype, bad) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length && !this.words) {
      this.words = this.keys.map((key, at) => (this.names[at] ? `${this.names[at]}\n${key}` : key).toLowerCase());
    }
    const found = [];
    for (let at = 0; at < this.count; at++) {
      if (kinds.size && !kinds.has(this.kindOf(at))) continue;
      if (dtype && (this.dtype(at) ?? "unknown") !== dtype) continue;
      if (bad && !this.isBad(at)) continue;
      if (words.length && !words.every((word) => this.words[at].includes(word))) continue;
      found.push(at);
    }
    return found;
  }

  sorted(found, column, down) {
    if (column === "name") return down ? found.slice().reverse() : found;
    const of = {
      size: (at) => this.nbytes[at], dtype: (at) => this.dtype(at), kind: (at) => this.kindOf(at), shape: (at) => this.elements(at),
      bad: (at) => (at in this.broken ? Infinity : (this.statistics.nan[at] ?? 0) + (this.statistics.inf[at] ?? 0)),
    }[column] ?? ((at) => number(this.statistics[column][at]));
    const keyed = found.map((at) => [of(at), at]);
    const isText = column === "dtype" || column === "kind";
    const unknown = (value) => value == null || Number.isNaN(value);
    keyed.sort(([one, first], [other, second]) => {
      if (unknown(one) || unknown(other)) return unknown(one) - unknown(other) || first - second;
      const order = isText ? (one < other ? -1 : one > other ? 1 : 0) : one - other || 0;
      return (down ? -order : order) || first - second;
    });
    return keyed.map(([, at]) => at);
  }

  whole() { return (this.wholeTree ??= this.tree(this.all())); }

  // Nodes of components: tensors, what leads to them, or both.
  tree(found) {
    const root = { name: "", children: [], parent: null, nbytes: 0, count: 0, by: new Map(), tensor: null };
    for (const at of found) {
      let node = root;
      for (const part of this.parts(at)) {
        let next = node.by?.get(part);
        if (!next) {
          next = { name: part, children: [], parent: node, nbytes: 0, count: 0, by: null, tensor: null };
          (node.by ??= new Map()).set(part, next);
          node.children.push(next);
        }
        node = next;
      }
      node.tensor = at;
    }
    const order = [root];
    for (let at = 0; at < order.length; at++) for (const child of order[at].children) order.push(child);
    for (const node of order.reverse()) this.sum(node);
    return root;
  }

  // Put a node together with a child that is its only one, and count what is below it.
  sum(node) {
    node.by = null;
    if (node.children.length === 1 && node.parent && node.tensor == null) {
      const [child] = node.children;
      Object.assign(node, { name: `${node.name}${this.separator}${child.name}`, children: child.children, tensor: child.tensor });
      for (const grandchild of node.children) grandchild.parent = node;
    }
    if (node.tensor != null) {
      node.nbytes = this.nbytes[node.tensor] ?? 0;
      node.count = 1;
      node.own = { [this.kindOf(node.tensor)]: node.nbytes };
      node.sums = { ...node.own };
    } else node.sums = {};
    for (const child of node.children) {
      node.nbytes += child.nbytes;
      node.count += child.count;
      for (const kind in child.sums) node.sums[kind] = (node.sums[kind] ?? 0) + child.sums[kind];
    }
  }
}

const COLUMNS = [["name", "name"], ["dtype", "dtype"], ["shape", "shape"], ["size", "size"],
  ["min", "min"], ["max", "max"], ["mean", "mean"], ["std", "std"], ["bad", "NaN, inf"]];
const NUMBERS = new Set(["size", "min", "max", "mean", "std", "bad"]);

// The section with all tensors; `choose` shows one of them from elsewhere.
function tensorSection(tensors) {
  const state = { text: "", kinds: new Set(), dtype: "", bad: false, column: "name", down: false, view: "list", found: [] };
  const told = h("span", { class: "dim num" });
  const search = h("input", { type: "search", placeholder: "search names   /", "aria-label": "search tensors", spellcheck: "false", autocomplete: "off",
    oninput: () => { state.text = search.value; update(); },
    onkeydown: (event) => { if (event.key === "ArrowDown" || event.key === "Enter") { current().element.focus(); event.preventDefault(); } } });
  const kinds = [...new Set(tensors.kind)].sort().map((kind) => tensors.kinds[kind] ?? "unknown");
  const chips = kinds.length > 1 ? kinds.map((kind) => h("button", { class: `plain ${kind}`, type: "button", "aria-pressed": "false", "data-kind": kind,
    onclick: (event) => { flip(state.kinds, kind); event.currentTarget.setAttribute("aria-pressed", String(state.kinds.has(kind))); update(); } },
    h("span", { class: "dot" }), kind)) : [];
  const dtypes = [...new Set(tensors.specs.map(([dtype]) => dtype ?? "unknown"))].sort();
  const dtype = h("select", { "aria-label": "dtype", onchange: () => { state.dtype = dtype.value; update(); } },
    h("option", { value: "" }, "every dtype"), dtypes.map((name) => h("option", { value: name }, visible(name))));
  const anyBad = tensors.all().some(tensors.isBad);
  const bad = anyBad ? h("button", { class: "plain bad", type: "button", "aria-pressed": "false", id: "only-bad",
    onclick: () => { state.bad = !state.bad; bad.setAttribute("aria-pressed", String(state.bad)); update(); } }, "NaN, inf, damaged") : null;
  const view = toggle({ list: "List", tree: "Tree" }, "list", (chosen) => { state.view = chosen; update(); });
  const detail = h("aside", { class: "detail", "aria-live": "polite" }, h("p", { class: "empty" }, "Choose a tensor to see its statistics and a histogram."));

  const heads = [true, false].map((sorts) => h("div", { class: "head t-grid", role: "presentation" }, COLUMNS.map(([column, label]) =>
    h("button", { type: "button", class: `c-${column} ${NUMBERS.has(column) ? "num" : ""}`, "data-column": column, disabled: !sorts, onclick: () => sort(column) }, label))));
  const list = new Rows("tensors", "listbox", (row) => drawn(state.found[row]), { select: (row) => describe(tensors, state.found[row], detail) }, heads[0]);
  const tree = new TreeRows("tensors as a tree", {
    below: (node) => node.children,
    select: (node) => node.tensor != null && describe(tensors, node.tensor, detail),
    draw: (node, indent) => drawnNode(node, indent),
    head: heads[1],
  });
  const lists = h("div", { class: dtypes.length > 1 ? "" : "one-dtype" }, list.element);
  const { whole, body } = section("Tensors", "tensors", view, search, chips, dtype, bad, told);
  body.append(h("div", { class: "split" }, lists, detail));

  const current = () => (state.view === "list" ? list : tree);

  function flip(set, value) { if (!set.delete(value)) set.add(value); }

  function sort(column) {
    state.down = state.column === column ? !state.down : NUMBERS.has(column) || column === "shape";
    state.column = column;
    update();
  }

  function update() {
    const found = tensors.find(state.text, state.kinds, state.dtype, state.bad);
    let nbytes = 0;
    for (const at of found) nbytes += tensors.nbytes[at] ?? 0;
    told.textContent = `${several(found.length, "tensor")}${found.length < tensors.count ? ` of ${counted(tensors.count)}` : ""}, ${size(nbytes)}`;
    for (const [at, cell] of [...heads[0].children].entries()) {
      const [column, label] = COLUMNS[at], on = column === state.column;
      cell.classList.toggle("on", on);
      cell.textContent = on ? `${label} ${state.down ? "↓" : "↑"}` : label;
    }
    if (state.view === "list") {
      state.found = tensors.sorted(found, state.column, state.down);
      lists.replaceChildren(list.element);
      list.element.scrollTop = 0;
      list.show(state.found.length);
    } else {
      lists.replaceChildren(tree.element);
      const root = found.length === tensors.count ? tensors.whole() : tensors.tree(found), narrowed = found.length < tensors.count && found.length <= 300;
      tree.element.scrollTop = 0;
      tree.show(root.children, narrowed ? everyNode(root) : new Set());
    }
  }

  function statisticCells(at) {
    const of = tensors.statistics, broken = at in tensors.broken;
    const cells = ["min", "max", "mean", "std"].map((name) => h("span", { class: `num c-${name}` }, figure(of[name][at], 4)));
    const count = (of.nan[at] ?? 0) + (of.inf[at] ?? 0);
    return [...cells, h("span", { class: `num c-bad ${count || broken ? "bad" : "dim"}` }, broken ? "damaged" : count ? counted(count) : "")];
  }

  function cells(first, at) {
    return { attributes: { class: "t-grid", "data-tensor": at }, children: [first, h("span", { class: "dim c-dtype" }, visible(tensors.dtype(at) ?? "unknown")),
      h("span", { class: "dim" }, tensors.shape(at).join("×")), h("span", { class: "num" }, size(tensors.nbytes[at])),
      statisticCells(at)] };
  }

  function drawn(at) {
    return cells(h("span", { class: `named ${tensors.kindOf(at)}` }, h("span", { class: "dot" }), name(tensors.name(at), tensors.spelled, { leaf: tensors.separator })), at);
  }

  function drawnNode(node, indent) {
    if (node.tensor != null) {
      indent.classList.add(tensors.kindOf(node.tensor), "named");
      indent.append(h("span", { class: "dot" }), name(node.name));
      return cells(indent, node.tensor);
    }
    indent.classList.add("named");
    indent.append(name(node.name));
    return { attributes: { class: "t-grid" }, children: [indent, h("span", { class: "c-dtype" }), h("span", { class: "dim" }, several(node.count, "tensor")),
      h("span", { class: "num" }, size(node.nbytes))] };
  }

  function choose(at) {
    search.value = state.text = "";
    state.kinds.clear();
    state.dtype = dtype.value = "";
    state.bad = false;
    for (const chip of whole.querySelectorAll(".bar > .plain")) chip.setAttribute("aria-pressed", "false");
    view.press("list");
    list.select(state.found.indexOf(at));
    whole.scrollIntoView({ block: "start" });
  }

  const follow = followLinks(tensors.all(), (at) => [tensors.keys[at], tensors.name(at)], choose, detail, "This checkpoint has no tensor of this name");
  const start = () => { update(); follow(); };
  return { whole, search, choose, start, view };
}

function everyNode(root) {
  const found = new Set(), left = [root];
  while (left.length) {
    const node = left.pop();
    found.add(node);
    left.push(...node.children);
  }
  return found;
}

function pairs(rows) {
  return h("dl", { class: "pairs" }, rows.flatMap(([name, value, wide]) => {
    const told = h("dd", { class: wide === "bad" ? "bad" : "" }, value);
    if (wide) told.style.gridColumn = "2 / 5";
    return [h("dt", {}, name), told];
  }));
}

let painting = null;

// One tensor: what it is, its statistics, a histogram and a heat map where they were drawn.
function describe(tensors, at, place) {
  const key = tensors.keys[at], name = tensors.name(at), of = tensors.statistics;
  const nbytes = tensors.nbytes[at];
  const spec = [["dtype", visible(tensors.dtype(at) ?? "unknown")], ["kind", tensors.kindOf(at)],
    ["shape", `[${tensors.shape(at).join(", ")}]`, true], ["elements", counted(tensors.elements(at))],
    ["bytes", nbytes == null ? "?" : counted(nbytes)]];
  const told = STATISTICS.filter((one) => of[one][at] != null).map((one) =>
    [one === "nan" ? "NaN" : one, figure(of[one][at], 8), (one === "nan" || one === "inf") && of[one][at] ? "bad" : false]);
  place.replaceChildren(...titled(key, name));
  place.append(pairs(spec));
  if (at in tensors.broken) place.append(h("p", { class: "warnings" }, visible(tensors.broken[at])));
  else if (told.length) place.append(pairs(told));
  else place.append(h("p", { class: "note" }, "Strings and variants have no statistics."));
  painters.delete(painting);
  const sketch = tensors.sketches[at];
  if (sketch) drawSketch(place, sketch.histogram ? [sketch.histogram] : [], sketch.heat);
  else if (told.length) place.append(h("p", { class: "note" }, `The 500 largest tensors are drawn${tensors.matches.length ? `, and those that match ${visible(tensors.matches.join(" or "))}` : "; --match draws more"}.`));
  place.scrollTop = 0;
}

function drawSketch(place, histograms, heat) {
  const [one] = histograms;
  if (histograms.length === 1 && one.counts.length === 1) {
    place.append(h("p", { class: "note" }, "All values are equal, or nearly so."));
  } else if (histograms.length) {
    const plot = h("div", {}, histogram(histograms));
    place.append(h("div", { class: "between" }, h("h3", {}, "distribution of its values"),
      toggle({ count: "count", log: "log" }, "count", (scale) => plot.replaceChildren(histogram(histograms, scale === "log")))), plot);
  }
  if (heat) {
    const map = heatMap(heat);
    painting = map.paint;
    painters.add(painting);
    place.append(map);
  }
}
