// The page of an object graph alone: what is shown of it can be searched, and be larger or smaller.

function showGraph(page, body) {
  const view = new GraphTree(page.graph, (row) => ({ title: short(page.graph.keys[row.node].join("; ")), found: hits.includes(row) }), chosen);
  const { model, tree } = view;
  const told = h("span", { class: "dim num" }, view.count);
  const search = h("input", { type: "search", placeholder: "search names", "aria-label": "search names", oninput: () => find(0), onkeydown: (event) => { if (event.key === "Enter") find(1); } });
  const smaller = h("button", { class: "plain", type: "button", "aria-label": "smaller", onclick: () => zoom(1 / 1.2) }, "−");
  const larger = h("button", { class: "plain", type: "button", "aria-label": "larger", onclick: () => zoom(1.2) }, "+");
  const { whole, body: inside } = section("Object graph", "graph", search, view.buttons, smaller, larger, view.legend, told);
  inside.append(tree.element);
  tree.element.style.height = "calc(100vh - 190px)";
  body.append(heading(page), whole);
  const nodes = page.graph.keys.map((_, node) => node);
  const follow = followLinks(nodes, (node) => page.graph.keys[node], (node) => view.go(node), told, "No object has the key");
  let scale = 1, hits = [], hit = 0, wanted = "";

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
    told.textContent = text ? `${several(hits.length, "hit")}${hits.length ? `, ${hit + 1} shown` : ""}` : view.count;
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
  function chosen(row) {
    const [key] = row.isAlias || row.members.length > 1 ? [] : page.graph.keys[row.node];
    if (key) history.replaceState(null, "", link(key));
  }

  view.start();
  follow();
}
