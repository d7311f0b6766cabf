// Names in the room that there is: cut in their middle, so that what tells a name from the others stays.

// A part ends with its separator; what a slot is of is one more.  A number goes with what it counts, where there is room.
const FINE = /(?<=[/.])(?=[^/.])|(?= \()/;
const COARSE = /(?<=[/.])(?!\d+(?:[/.]|$))(?=[^/.])|(?= \()/;
const FEW = 10; // characters of a name that has no room for its parts
const TIGHT = 36; // characters in which a name has no room for most of its parts
const LEAST = 6; // characters of a part that is cut itself

// All names of a list: how many have each part, and where each begins to differ from all others.
class Names {
  constructor(all) { this.all = all; }

  // Counted when the first name does not fit, which may be never.
  count() {
    const names = this.all().map((name) => short(name, LONGEST));
    this.counts = new Map();
    for (const name of names) for (const part of new Set([...name.split(FINE), ...name.split(COARSE)])) this.counts.set(part, (this.counts.get(part) ?? 0) + 1);
    this.apart = new Map();
    const order = [...new Set(names)].sort();
    order.forEach((name, at) => this.apart.set(name, Math.max(alike(name, order[at - 1] ?? ""), alike(name, order[at + 1] ?? ""))));
  }

  // The parts of a name by what they tell, and the character where the name becomes unlike any other.
  telling(name, parts) {
    if (!this.counts) this.count();
    const end = this.apart.get(name) ?? name.length - 1, starts = [];
    let from = 0;
    for (const part of parts) { starts.push(from); from += part.length; }
    const special = starts.findLastIndex((start) => start <= Math.min(end, name.length - 1));
    const rank = (at) => [at === special, -(this.counts.get(parts[at]) ?? 1), /\d/.test(parts[at]), at];
    const order = parts.map((_, at) => at).sort((one, other) => {
      const [first, second] = [rank(one), rank(other)], differs = first.findIndex((value, at) => value !== second[at]);
      return second[differs] - first[differs];
    });
    return { order, special, within: end - starts[special] };
  }
}

const TOP = "(top level)";
const NO_NAMES = new Names(() => []);
const LONGEST = 2000; // characters of a name that are looked at

function alike(one, other) {
  const most = Math.min(one.length, other.length);
  let at = 0;
  while (at < most && one[at] === other[at]) at++;
  return at;
}

// So many characters of a part, with the one at `within`; its middle goes, or what is far from that one.
function trimmed(part, most, within) {
  const characters = Array.from(part), begin = Math.ceil(most / 2), end = most - begin;
  const isEnd = within == null || within < begin || within >= characters.length - end;
  if (isEnd) return `${characters.slice(0, begin).join("")}…${end ? characters.slice(-end).join("") : ""}`;
  const from = Math.max(0, within - begin + 1);
  return `…${characters.slice(from, from + most - 1).join("")}…`;
}

function joined(parts, kept) {
  let text = "";
  parts.forEach((_, at) => { text += kept.get(at) ?? (at && !kept.has(at - 1) ? "" : "…"); });
  return text.replace(/…+/g, "…");
}

// A name in so much room, by a function that measures texts.
function fitted(name, room, measure, names = NO_NAMES) {
  if (measure(name) <= room) return name;
  const letters = Math.floor(room / measure("m"));
  if (letters < FEW) return trimmed(name, Math.max(1, letters - 1));
  const parts = name.split(letters < TIGHT ? FINE : COARSE), { order, special, within } = names.telling(name, parts);
  const kept = new Map(), unit = measure("m");
  const fits = () => measure(joined(parts, kept)) <= room;
  for (const at of order) {
    kept.set(at, parts[at]);
    if (fits()) continue;
    kept.delete(at);
    if (room - measure(joined(parts, kept)) < 2 * unit) break;
    const spare = Math.floor((room - measure(joined(parts, kept))) / unit) - 1;
    for (let most = spare; most >= (kept.size ? LEAST : 1); most--) {
      kept.set(at, trimmed(parts[at], most, at === special ? within : null));
      if (most < parts[at].length - 1 && fits()) break;
      kept.delete(at);
    }
  }
  return joined(parts, kept);
}

const pen = document.createElement("canvas").getContext("2d");

function fit(shown, room) {
  const { whole, names, cut, leaf } = shown.naming;
  if (!room) return;
  pen.font = getComputedStyle(shown).font;
  const text = fitted(whole, room + 0.5, (part) => pen.measureText(part).width, names);
  if (text === cut) return;
  shown.naming.cut = text;
  const inside = h("bdi", {}, ...leafed(text, leaf));
  if (text === whole) shown.replaceChildren(inside);
  else {
    inside.setAttribute("aria-hidden", "true");
    shown.replaceChildren(inside, h("span", { class: "unseen" }, whole));
  }
}

const separatorOf = (names) => (names.some((each) => each.includes("/")) ? "/" : ".");

// The last part of a tensor's name stands out from what leads to it.
function leafed(text, leaf) {
  if (!leaf) return [text];
  const before = text.replace(/ \(.*$/, ""), at = Math.max(before.lastIndexOf(leaf), before.lastIndexOf("…"));
  return [h("span", { class: "lead" }, text.slice(0, at + 1)), text.slice(at + 1)];
}

const fitting = new ResizeObserver((entries) => entries.forEach((entry) => fit(entry.target, entry.contentRect.width)));

// A name that is cut as its room demands; its whole is its title, and what is read aloud.
function name(text, names, { leaf = null, ...attributes } = {}) {
  const whole = short(text, LONGEST);
  const shown = h("span", { title: short(text), ...attributes, class: `name ${attributes.class ?? ""}` }, h("bdi", {}, ...leafed(whole, leaf)));
  shown.naming = { whole, names, leaf, cut: whole };
  fitting.observe(shown);
  return shown;
}

// Text that breaks after its separators where it is longer than a line.
function breakable(text) {
  return h("bdi", {}, visible(text).split(/(?<=[/._,-])/).flatMap((part, at) => (at ? [h("wbr"), part] : [part])));
}
