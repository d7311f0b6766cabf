// A list of which only what is in view is drawn, however long it is.

const ROW = 24; // pixels; page.css makes rows taller where names have a line of their own
const NARROW = 520; // pixels of a list that has no room for names beside their cells
const TALLEST = 12e6; // pixels that every browser scrolls

class Rows {
  // `draw(i)` gives the children of row i, and its attributes; `act` are functions by what is done to a row.
  // Above them `head` stays where it is.  `most` is the height that all rows may need before they scroll, and in a list
  // of less width than `narrow`, a name has a line of its own above its cells.
  constructor(label, role, draw, act, head = null, { most = null, narrow = NARROW } = {}) {
    this.draw = draw;
    this.act = act;
    this.role = role;
    this.count = 0;
    this.tall = ROW;
    this.most = most;
    this.narrow = narrow;
    this.selected = -1;
    this.pool = new Map();
    this.name = `rows-${Rows.made = (Rows.made ?? 0) + 1}`;
    this.inside = h("div", { tabindex: "0", role, "aria-label": label, onkeydown: (event) => this.key(event) });
    this.inside.style.position = "relative";
    this.element = h("div", { class: "rows", onscroll: () => this.paint() }, head, this.inside);
    this.element.focus = () => this.inside.focus({ preventScroll: true });
    this.head = head;
    new ResizeObserver(() => this.resize()).observe(this.element);
  }

  show(count, selected = -1) {
    this.count = count;
    this.selected = selected;
    this.measure();
    this.again();
  }

  get isNarrow() { return this.element.clientWidth < this.narrow; }

  measure() {
    this.element.classList.toggle("two-lines", this.isNarrow);
    this.element.style.setProperty("--seen", `${this.element.clientWidth}px`);
    this.tall = parseFloat(getComputedStyle(this.element).getPropertyValue("--row")) || ROW;
    this.inside.style.height = `${Math.min(this.count * this.tall, TALLEST)}px`;
    if (this.most) this.element.style.height = `${Math.min(this.most, Math.max(3, this.count) * this.tall + (this.head ? 34 : 6))}px`;
  }

  resize() {
    this.element.style.setProperty("--seen", `${this.element.clientWidth}px`);
    if (this.element.classList.contains("two-lines") === this.isNarrow) this.paint();
    else requestAnimationFrame(() => { this.measure(); this.again(); });
  }

  again() {
    for (const row of this.pool.values()) row.remove();
    this.pool.clear();
    this.paint();
  }

  get view() { return this.element.clientHeight - (this.head?.offsetHeight ?? 0); }

  // Where the list is taller than browsers scroll, a pixel of the bar is more than one of the rows.
  get shift() {
    const tall = this.count * this.tall, view = this.view;
    return tall <= TALLEST ? 0 : (this.element.scrollTop / (TALLEST - view)) * (tall - TALLEST);
  }

  paint() {
    const top = this.element.scrollTop, view = this.view, shift = this.shift;
    const first = Math.max(0, Math.floor((top + shift) / this.tall) - 4);
    const last = Math.min(this.count, Math.ceil((top + shift + view) / this.tall) + 4);
    for (const [at, row] of this.pool) {
      if (at < first || at >= last) { row.remove(); this.pool.delete(at); }
    }
    for (let at = first; at < last; at++) {
      let row = this.pool.get(at);
      if (!row) { row = this.make(at); this.pool.set(at, row); this.inside.append(row); }
      row.style.top = `${at * this.tall - shift}px`;
    }
    if (this.pool.has(this.selected)) this.inside.setAttribute("aria-activedescendant", `${this.name}-${this.selected}`);
    else this.inside.removeAttribute("aria-activedescendant");
  }

  make(at) {
    const { children, attributes } = this.draw(at);
    return h("div", { role: this.role === "tree" ? "treeitem" : "option", id: `${this.name}-${at}`, ...attributes,
      class: `row ${attributes?.class ?? ""}`, "aria-selected": String(at === this.selected), "aria-setsize": this.count,
      "aria-posinset": at + 1, onclick: (event) => this.click(event, at) }, children);
  }

  click(event, at) {
    if (event.target.closest(".twist")) this.act.turn?.(at);
    else this.select(at);
  }

  select(at, scroll = true) {
    if (!this.count) return;
    const now = Math.max(0, Math.min(this.count - 1, at));
    this.pool.get(this.selected)?.setAttribute("aria-selected", "false");
    this.selected = now;
    if (scroll) this.reveal(now);
    this.paint();
    this.pool.get(now)?.setAttribute("aria-selected", "true");
    this.act.select?.(now);
  }

  reveal(at) {
    const view = this.view, y = at * this.tall - this.shift, top = this.element.scrollTop;
    if (y >= top && y + this.tall <= top + view) return;
    const tall = this.count * this.tall, wanted = y < top ? at * this.tall : (at + 1) * this.tall - view;
    this.element.scrollTop = tall <= TALLEST ? wanted : (wanted / (tall - view)) * (TALLEST - view);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.view / this.tall) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.target !== this.inside) return;
    if (event.key in steps) this.select(this.selected < 0 && steps[event.key] > 0 && steps[event.key] < Infinity ? 0 : this.selected + steps[event.key]);
    else if (event.key === "ArrowRight" && this.act.open) this.act.open(this.selected);
    else if (event.key === "ArrowLeft" && this.act.close) this.act.close(this.selected);
    else if ((event.key === "Enter" || event.key === " ") && this.act.turn) this.act.turn(this.selected);
    else return;
    event.preventDefault();
  }
}

// A tree as such a list: `roots` and `below(node)` give nodes, which are folded unless opened.
// A node that has one child alone stands on one row with it where `joins` says so.
class TreeRows {
  constructor(label, { below, draw, select, head, narrow }) {
    this.below = below;
    this.rows = new Rows(label, "tree", (at) => this.make(at, draw), {
      select: (at) => select?.(this.flat[at].node),
      turn: (at) => this.turn(at),
      open: (at) => this.open(at),
      close: (at) => this.close(at),
    }, head, { narrow });
    this.opened = new Set();
    this.flat = [];
  }

  get element() { return this.rows.element; }

  show(roots, opened = new Set()) {
    this.opened = opened;
    this.flat = this.flatten(roots.map((node) => ({ node, level: 0 })));
    this.rows.show(this.flat.length);
  }

  // These rows, and below each that is open its own.
  flatten(rows) {
    const flat = [], left = rows.toReversed();
    while (left.length) {
      const row = left.pop();
      flat.push(row);
      if (this.opened.has(row.node)) for (const node of this.below(row.node).toReversed()) left.push({ node, level: row.level + 1 });
    }
    return flat;
  }

  children(at) {
    const { node, level } = this.flat[at];
    return this.below(node).map((child) => ({ node: child, level: level + 1 }));
  }

  make(at, draw) {
    const { node, level } = this.flat[at];
    const has = this.below(node).length > 0, open = this.opened.has(node);
    const twist = h("span", { class: "twist" }, has ? (open ? "▼" : "▶") : "");
    const indent = h("span");
    indent.style.paddingLeft = `${Math.min(level, 40) * 15}px`;
    indent.append(twist);
    const { children, attributes } = draw(node, indent);
    return { children, attributes: { ...attributes, "aria-level": level + 1, "aria-expanded": has ? String(open) : null } };
  }

  turn(at) {
    if (!this.flat[at]) return;
    if (this.opened.has(this.flat[at].node)) this.fold(at); else this.unfold(at);
  }

  unfold(at) {
    const more = this.children(at);
    if (!more.length) return;
    this.opened.add(this.flat[at].node);
    // What was open below is open again.
    this.flat = [...this.flat.slice(0, at + 1), ...this.flatten(more), ...this.flat.slice(at + 1)];
    this.rows.show(this.flat.length, at);
  }

  fold(at) {
    this.opened.delete(this.flat[at].node);
    let end = at + 1;
    while (end < this.flat.length && this.flat[end].level > this.flat[at].level) end++;
    this.flat = [...this.flat.slice(0, at + 1), ...this.flat.slice(end)];
    this.rows.show(this.flat.length, at);
  }

  open(at) {
    if (!this.flat[at]) return;
    if (this.opened.has(this.flat[at].node)) this.rows.select(at + 1); else this.unfold(at);
  }

  close(at) {
    if (!this.flat[at]) return;
    if (this.opened.has(this.flat[at].node)) { this.fold(at); return; }
    let up = at;
    while (up > 0 && this.flat[up].level >= this.flat[at].level) up--;
    if (this.flat[up].level < this.flat[at].level) this.rows.select(up);
  }
}
