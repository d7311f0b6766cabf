// The page of an export and its source: what each weight was made from, those that are not proved first.

const ORIGIN_COLUMNS = [["weight", ""], ["made from", "c-from"], ["rule", "c-rule"], ["verdict", ""], ["largest error", "num"], ["allowed", "num c-allowed"]];

function originSection(page) {
  const verdicts = new Set();
  const weights = new Names(() => page.weights.map((each) => each.key)), sources = new Names(() => page.weights.map((each) => each.from.join(" + ")));
  const told = h("span", { class: "dim num" });
  const search = h("input", { type: "search", placeholder: "search names and rules   /", "aria-label": "search weights", spellcheck: "false", autocomplete: "off",
    oninput: () => update(), onkeydown: (event) => { if (event.key === "ArrowDown" || event.key === "Enter") { rows.element.focus(); event.preventDefault(); } } });
  const chips = Object.entries(page.verdicts).map(([verdict, count]) =>
    h("button", { class: `plain mark-${verdict}`, type: "button", "aria-pressed": "false", "data-verdict": verdict, onclick: (event) => {
      if (!verdicts.delete(verdict)) verdicts.add(verdict);
      event.currentTarget.setAttribute("aria-pressed", String(verdicts.has(verdict)));
      update();
    } }, h("span", { class: "dot" }), `${verdict} ${counted(count)}`));
  const detail = h("aside", { class: "detail", "aria-live": "polite" }, h("p", { class: "empty" }, "Choose a weight to see its rule."));
  const head = h("div", { class: "head o-grid", role: "presentation" }, ORIGIN_COLUMNS.map(([label, name]) => h("button", { type: "button", disabled: true, class: name }, label)));
  for (const each of page.weights) each.words = [each.key, ...each.from, each.rule].join("\n").toLowerCase();
  const leaf = separatorOf(page.weights.map((each) => each.key));
  let found = page.weights;
  const rows = new Rows("weights", "listbox", (at) => draw(found[at]), { select: (at) => describeOrigin(found[at], detail) }, head, { most: 603 });
  const { whole, body } = section("Weights", "weights", search, chips, told);
  body.append(h("div", { class: "split low" }, h("div", {}, rows.element), detail));

  function update() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = page.weights.filter((each) => (!verdicts.size || verdicts.has(each.verdict)) && words.every((word) => each.words.includes(word)));
    told.textContent = `${several(found.length, "weight")} of ${counted(page.weights.length)}`;
    rows.element.scrollTop = 0;
    rows.show(found.length);
  }

  function draw(each) {
    const bad = each.verdict === "other" ? "bad" : "";
    return { attributes: { class: `o-grid mark-${each.verdict}`, "data-verdict": each.verdict }, children: [
      h("span", { class: "named" }, h("span", { class: "dot" }), name(each.key, weights, { leaf })),
      each.from.length ? name(each.from.join(" + "), sources, { class: "c-from" }) : h("span", { class: "dim c-from" }, "–"),
      h("span", { class: "dim c-rule" }, short(each.rule)), h("span", { class: "verdict" }, each.verdict),
      h("span", { class: `num ${bad}` }, figure(each.max_error, 3)), h("span", { class: "num c-allowed" }, figure(each.allowed, 3))] };
  }

  function choose(each) {
    search.value = "";
    verdicts.clear();
    for (const chip of chips) chip.setAttribute("aria-pressed", "false");
    update();
    rows.select(found.indexOf(each));
    whole.scrollIntoView({ block: "start" });
  }

  const follow = followLinks(page.weights, (each) => [each.key], choose, detail, "No weight has this name");
  return { whole, search, start: () => { update(); follow(); } };
}

function describeOrigin(each, place) {
  place.replaceChildren(...titled(each.key, each.key, "weight"));
  const rows = [["verdict", each.verdict, each.verdict === "other" ? "bad" : true], ["spec", visible(each.spec), true]];
  if (each.stored) rows.push(["stored as", visible(each.stored), true]);
  for (const source of each.from) rows.push(["made from", visible(source), true]);
  rows.push(["rule", visible(each.rule), true]);
  if (each.max_error != null) rows.push(["error", figure(each.max_error, 8), true]);
  if (each.allowed != null) rows.push(["allowed", figure(each.allowed, 8), true]);
  place.append(pairs(rows));
}

function showOrigins(page, body) {
  body.append(heading(page, h("div", { class: "path" }, h("bdi", {}, `compared with ${visible(page.other)}`))));
  const side = (one) => `${several(one.total.tensors, "tensor")}, ${size(one.total.nbytes)}`;
  body.append(facts([["export", page.export.format, side(page.export)], ["source", page.source.format, side(page.source)],
    ...Object.entries(page.verdicts).map(([verdict, count]) => [verdict, counted(count)]),
    ["source tensors not used", page.unused.length ? counted(page.unused.length) : null], ["constants not compared", page.constants ? counted(page.constants) : null]]));
  const told = warnings([...page.export.findings, ...page.source.findings]);
  if (told) body.append(told);
  const list = originSection(page);
  body.append(list.whole);
  if (page.unused.length) {
    const unused = section("Source tensors that no weight was made from", "unused", h("span", { class: "dim" }, several(page.unused.length, "tensor")));
    unused.body.append(h("ul", { class: "names", tabindex: "0" }, page.unused.slice(0, 1000).map((key) => h("li", {}, short(key)))));
    if (page.unused.length > 1000) unused.body.append(h("p", { class: "empty" }, `and ${counted(page.unused.length - 1000)} more`));
    body.append(unused.whole);
  }
  list.start();
  shortcuts(list);
}
