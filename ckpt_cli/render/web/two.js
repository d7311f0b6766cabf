// The page of two checkpoints: what changed, by layer, the largest change first.

const RANKS = { damaged: 6, shape: 5, dtype: 4, removed: 3, added: 3, value: 2, renamed: 1 };

class Changes {
  constructor(page) {
    this.rows = page.entries;
    this.layers = page.layers;
    this.rows.forEach((entry, at) => {
      entry.at = at;
      entry.words = `${entry.name ?? ""}\n${entry.key}`.toLowerCase();
      entry.size = Math.max(entry.left?.[3] ?? 0, entry.right?.[3] ?? 0);
    });
  }

  // Layers with what changed in them, the largest change first.
  grouped(found) {
    const layers = new Map();
    for (const entry of found) {
      if (!layers.has(entry.layer)) layers.set(entry.layer, { ...this.layers[entry.layer], at: entry.layer, entries: [] });
      layers.get(entry.layer).entries.push(entry);
    }
    for (const group of layers.values()) group.entries.sort((one, other) => one.rank - other.rank);
    return [...layers.values()].sort((one, other) => one.at - other.at);
  }
}

// A distance as a number and as a bar, which the farthest tensor fills.
function distanceBar(row) {
  const inside = h("i");
  inside.style.width = `${row.bar ? Math.max(2, row.bar * 100) : 0}%`;
  return h("span", { class: "share" }, h("span", { class: "track" }, inside), h("span", { class: `num ${typeof row.rel_l2 === "string" ? "bad" : ""}` }, percent(row.rel_l2)));
}

// A cosine with as many digits as tell it from 1.
function cosine(value) {
  if (value == null || typeof value === "string" || value === 1) return value == null ? "" : String(value);
  const apart = Math.max(1 - Math.abs(value), 1e-15);
  return value.toFixed(Math.max(4, 1 - Math.floor(Math.log10(apart))));
}

function changedShare(row) {
  const share = row.differing / row.size;
  return share === 1 ? "100%" : share > 0.995 ? ">99%" : share && share < 0.005 ? "<1%" : `${Math.round(share * 100)}%`;
}

const DIFF_COLUMNS = [["name", ""], ["‖a−b‖/‖b‖", "num"], ["cosine", "num"], ["largest |a−b|", "num c-max"], ["elements", "num c-share"]];

function changeSection(page) {
  const changes = new Changes(page), kinds = new Set();
  const layers = new Names(() => page.layers.map((layer) => layer.name)), leaves = new Names(() => page.entries.map((entry) => entry.leaf));
  const told = h("span", { class: "dim num" });
  const search = h("input", { type: "search", placeholder: "search names   /", "aria-label": "search tensors", spellcheck: "false", autocomplete: "off",
    oninput: () => update(), onkeydown: (event) => { if (event.key === "ArrowDown" || event.key === "Enter") { tree.element.focus(); event.preventDefault(); } } });
  const counts = {};
  for (const { change } of page.entries) counts[change] = (counts[change] ?? 0) + 1;
  const chips = Object.keys(counts).sort((one, other) => RANKS[other] - RANKS[one]).map((change) =>
    h("button", { class: `plain mark-${change}`, type: "button", "aria-pressed": "false", "data-change": change, onclick: (event) => {
      if (!kinds.delete(change)) kinds.add(change);
      event.currentTarget.setAttribute("aria-pressed", String(kinds.has(change)));
      update();
    } }, h("span", { class: "dot" }), `${change} ${counted(counts[change])}`));
  const detail = h("aside", { class: "detail", "aria-live": "polite" }, h("p", { class: "empty" }, "Choose a tensor to see both sides."));
  const head = h("div", { class: "head d-grid", role: "presentation" }, DIFF_COLUMNS.map(([label, name]) => h("button", { type: "button", disabled: true, class: name }, label)));
  const tree = new TreeRows("changes by layer", { below: (row) => row.entries ?? [], draw, head,
    select: (row) => (row.entries ? null : describeChange(page, row, detail)) });
  const { whole, body } = section("Changes by layer", "changes", search, chips, told);
  body.append(h("div", { class: "split" }, h("div", {}, tree.element), detail));

  function update() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = changes.rows.filter((entry) => (!kinds.size || kinds.has(entry.change)) && words.every((word) => entry.words.includes(word)));
    const groups = changes.grouped(found);
    told.textContent = `${several(found.length, "tensor")} in ${several(groups.length, "layer")}`;
    tree.element.scrollTop = 0;
    let rows = 0;
    tree.show(groups, new Set(groups.filter((group) => (rows += group.entries.length) <= 500)));
  }

  function draw(row, indent) {
    indent.classList.add("named");
    if (row.entries) {
      indent.append(name(row.name || TOP, layers, { class: "strong" }));
      const measured = row.rel_l2 == null ? [h("span"), h("span")] : [distanceBar(row), h("span", { class: "num" }, cosine(row.cosine))];
      return { children: [indent, ...measured, h("span", { class: "num dim across c-max" }, several(row.entries.length, "tensor"))], attributes: { class: "d-grid", title: short(row.name) } };
    }
    indent.classList.add(`mark-${row.change}`);
    indent.append(h("span", { class: "dot" }), name(row.leaf, leaves));
    const told = row.apart ?? (row.change !== "value" ? [row.change, sides(row)].join(" ") : row.differing == null ? "checksum differs" : null);
    const measures = told != null ? [h("span", { class: "dim rest" }, visible(told))] : [
      row.rel_l2 == null ? h("span") : distanceBar(row), h("span", { class: "num" }, cosine(row.cosine)),
      h("span", { class: `num c-max ${typeof row.max_abs === "string" ? "bad" : ""}` }, figure(row.max_abs, 4)), h("span", { class: "num c-share" }, changedShare(row))];
    return { attributes: { class: "d-grid", "data-entry": row.at, title: short(row.name ?? row.key) }, children: [indent, ...measures] };
  }

  function choose(entry) {
    search.value = "";
    kinds.clear();
    for (const chip of chips) chip.setAttribute("aria-pressed", "false");
    update();
    const layer = tree.flat.findIndex(({ node }) => node.entries?.includes(entry));
    if (!tree.opened.has(tree.flat[layer].node)) tree.unfold(layer);
    tree.rows.select(tree.flat.findIndex(({ node }) => node === entry));
    whole.scrollIntoView({ block: "start" });
  }

  const follow = followLinks(page.entries, (entry) => [entry.key, entry.name], choose, detail, "No tensor of this name changed");
  return { whole, search, start: () => { update(); follow(); } };
}

function sides(row) {
  const found = [row.left, row.right].filter(Boolean).map(([dtype, shape]) => `${dtype} [${shape.join(", ")}]`);
  return [...new Set(found)].join(" → ");
}

function describeChange(page, row, place) {
  const sketches = page.sketches[row.at];
  place.replaceChildren(...titled(row.key, row.name ?? row.key));
  const rows = [["change", row.change, true], ["spec", visible(sides(row)), true]];
  if (row.from) rows.push(["from", visible(row.from), true]);
  if (row.apart) rows.push(["apart", visible(row.apart), true]);
  if (row.rel_l2 != null) rows.push(["‖a−b‖/‖b‖", `${figure(row.rel_l2, 8)} (${percent(row.rel_l2)})`, true]);
  if (row.cosine != null) rows.push(["cosine", figure(row.cosine, 8), true]);
  if (row.max_abs != null) rows.push(["|a−b|", `at most ${figure(row.max_abs, 8)}`, true], ["|a−b|/|b|", `at most ${figure(row.max_rel, 8)}`, true]);
  if (row.differing != null) rows.push(["changed", `${counted(row.differing)} of ${several(row.size, "element")}`, true]);
  place.append(pairs(rows));
  if (row.key in page.broken) place.append(h("p", { class: "warnings" }, visible(page.broken[row.key])));
  painters.clear();
  if (!sketches) return;
  const [left, right] = sketches.map((side) => side ?? {});
  if (left.statistics && right.statistics) {
    place.append(h("table", { class: "sides" }, h("tr", {}, ["", "left", "right"].map((label, at) => h(at ? "th" : "td", { class: ["", "variable", "slot"][at] }, at ? h("span", { class: "dot" }) : null, label))),
      STATISTICS.filter((one) => left.statistics[one] != null || right.statistics[one] != null).map((one) =>
        h("tr", {}, h("th", {}, one === "nan" ? "NaN" : one), [left, right].map((side) => h("td", { class: "num" }, figure(side.statistics[one], 6)))))));
  }
  drawSketch(place, [left.histogram ?? null, right.histogram ?? null].some(Boolean) ? [left.histogram, right.histogram] : [], null);
  for (const [label, side] of [["left", left], ["right", right]]) {
    if (!side.heat) continue;
    const map = heatMap(side.heat, label);
    painters.add(map.paint);
    place.append(map);
  }
}

function showTwo(page, body) {
  const counts = { value: 0, shape: 0, dtype: 0, added: 0, removed: 0, renamed: 0, damaged: 0 };
  for (const entry of page.entries) counts[entry.change]++;
  body.append(heading(page, h("div", { class: "path" }, breakable(page.other))));
  body.append(facts([["left", page.left.format, `${several(page.left.total.tensors, "tensor")}, ${size(page.left.total.nbytes)}`],
    ["right", page.right.format, `${several(page.right.total.tensors, "tensor")}, ${size(page.right.total.nbytes)}`],
    ["‖a−b‖/‖b‖", percent(page.apart.rel_l2) || null, "of the floating-point tensors that changed"], ["cosine", cosine(page.apart.cosine) || null],
    ...Object.entries(counts).filter(([, count]) => count).map(([change, count]) => [change === "value" ? "changed values" : change === "shape" || change === "dtype" ? `different ${change}` : change, counted(count)]),
    ["unchanged", counted(page.same)],
    ["paired by", page.by === "key" ? null : page.by]]));
  const told = warnings([...page.left.findings, ...page.right.findings, ...Object.values(page.broken)]);
  if (told) body.append(told);
  if (!page.entries.length) {
    body.append(h("section", {}, h("p", { class: "empty" }, "Nothing differs.")));
    shortcuts(null);
    return;
  }
  const list = changeSection(page);
  body.append(list.whole);
  list.start();
  shortcuts(list);
}
