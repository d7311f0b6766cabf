// The data are unpacked here, and what was there without the script makes room; it is what is printed.

const PAGES = { checkpoint: showCheckpoint, two: showTwo, origins: showOrigins, several: showSeveral, run: showRun, graph: showGraph };

async function start() {
  const packed = bytes(document.getElementById("data").textContent);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const page = JSON.parse(await new Response(stream).text());
  const body = h("main", { id: "page" }), still = document.getElementById("still");
  still.replaceWith(body);
  PAGES[page.what](page, body);
  // There from the beginning: what is added when printing begins is on no page but the first.
  body.after(h("div", { id: "print" }, ...still.childNodes));
  document.documentElement.dataset.ready = Math.round(performance.now());
}

start();
