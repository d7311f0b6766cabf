// What all parts of the page use: elements without markup, names as a terminal shows them, numbers as people read them.

const SVG = "http://www.w3.org/2000/svg";

function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  return filled(node, attributes, children);
}

function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child != null));
  return node;
}

// Half of a character stands for a byte that is not UTF-8; what cannot be seen, or turns the writing around, is spelled.
const UNSEEN = /[\p{C}\p{Z}\\]/gu;

function spelled(character) {
  if (character === " ") return " ";
  if (character === "\\") return "\\\\";
  const code = character.codePointAt(0);
  if (code >= 0xdc80 && code <= 0xdcff) return `\\x${(code - 0xdc00).toString(16)}`;
  const bytes = code >= 0xd800 && code <= 0xdfff
    ? [0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)]
    : [...new TextEncoder().encode(character)];
  return bytes.map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("");
}

const visible = (text) => String(text).replace(UNSEEN, spelled);

function short(text, most = 400) {
  return text.length <= most ? visible(text) : `${visible(text.slice(0, most / 2))}…${visible(text.slice(-most / 2))}`;
}

const counted = (n) => n.toLocaleString("en-US");
const several = (n, what) => `${counted(n)} ${what}${n === 1 ? "" : "s"}`;

function size(nbytes) {
  if (nbytes == null) return "?";
  let left = nbytes;
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (left < 999.5) return unit === "B" || left >= 99.5 ? `${Math.round(left)} ${unit}` : `${left.toFixed(1)} ${unit}`;
    left /= 1000;
  }
  return `${left.toFixed(1)} TB`;
}

function figure(value, digits = 5) {
  if (value == null || typeof value === "string") return value ?? "";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return counted(value);
  const [mantissa, exponent] = (Math.abs(value) < 1e-4 ? value.toExponential(digits - 1) : value.toPrecision(digits)).split("e");
  const trimmed = mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa;
  return exponent ? `${trimmed}e${exponent.replace("+", "")}` : trimmed;
}

const number = (value) => (typeof value === "string" ? { nan: NaN, inf: Infinity, "-inf": -Infinity }[value] : value);

function color(name) {
  const probe = document.documentElement.appendChild(h("i"));
  probe.style.color = `var(--${name})`;
  const found = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
  probe.remove();
  return found;
}

function bytes(base64) {
  const text = atob(base64), found = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) found[at] = text.charCodeAt(at);
  return found;
}

// Whoever paints with colours of its own paints again when they change.
const painters = new Set();
const repaint = () => painters.forEach((paint) => paint());

function toggleTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  repaint();
}

function toggle(names, chosen, choose) {
  const buttons = Object.entries(names).map(([value, label]) =>
    h("button", { class: "plain", type: "button", "data-value": value, onclick: () => press(value) }, label));
  function press(value) {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === value));
    choose(value);
  }
  const group = h("span", { class: "group", role: "group" }, buttons);
  for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === chosen));
  group.press = press;
  return group;
}

function section(title, id, ...bar) {
  const body = h("div");
  const whole = h("section", { id, "aria-label": title }, h("div", { class: "bar" }, h("h2", {}, title), bar), body);
  return { whole, body };
}
