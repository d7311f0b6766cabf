// The data are unpacked here, and what was there without the script makes room.

const PAGES = { checkpoint: showCheckpoint, two: showTwo, run: showRun, graph: showGraph };

async function start() {
  const packed = bytes(document.getElementById("data").textContent);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const page = JSON.parse(await new Response(stream).text());
  const body = h("main", { id: "page" });
  document.getElementById("still").replaceWith(body);
  PAGES[page.what](page, body);
  body.append(h("footer", {}, `made by ckpt ${page.version}`));
  document.documentElement.dataset.ready = Math.round(performance.now());
}

start();
