// A link that ends in #tensor= and a key leads to that tensor, and each that is chosen puts its own there.

const LINK = "#tensor=";
const ATTRIBUTE = "/.ATTRIBUTES/VARIABLE_VALUE"; // ends keys of TensorFlow, which pages of several leave out

function linked() {
  if (!location.hash.startsWith(LINK)) return null;
  try { return decodeURIComponent(location.hash.slice(LINK.length)); } catch { return location.hash.slice(LINK.length); }
}

// Parentheses and quotes, too: programs that find links in text end them there.
const encoded = (text) => encodeURIComponent(text).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`).replaceAll("%2F", "/");

function link(key) { return LINK + encoded(visible(key)); }

// The head of what is told of a tensor: its name, its own link, which the address now is, and its key.
function titled(key, name, what = "tensor") {
  history.replaceState(null, "", link(key));
  return [h("div", { class: "long" }, breakable(name)), h("a", { href: link(key), class: "link" }, `link to this ${what}`),
    key === name ? null : h("div", { class: "key" }, breakable(key))].filter(Boolean);
}

// `choose(item)` shows one of the items wherever it is hidden; `spellings(item)` are its key and other names.
function followLinks(items, spellings, choose, place, lost) {
  let known = null;

  function find(wanted) {
    if (!known) {
      known = new Map();
      const spelled = items.map((item) => spellings(item).map(visible));
      for (const at of [0, 1]) items.forEach((item, number) => {
        const text = spelled[number][at];
        if (text != null && !known.has(text)) known.set(text, item);
      });
    }
    return known.get(wanted) ?? known.get(wanted.endsWith(ATTRIBUTE) ? wanted.slice(0, -ATTRIBUTE.length) : wanted + ATTRIBUTE);
  }

  function follow() {
    const wanted = linked();
    if (wanted == null) return;
    const item = find(wanted);
    if (item !== undefined) choose(item);
    else place.replaceChildren(h("p", { class: "empty" }, `${lost}: `, breakable(wanted)));
  }

  addEventListener("hashchange", follow);
  return follow;
}
