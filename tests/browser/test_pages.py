"""Pages of `ckpt report` in a real browser."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.cli.running import run_ckpt
from tests.operations.origin.test_verdicts import source
from tests.pages import HOSTILE, shown
from tests.support import data_path, shard_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

MANY = 100_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def made(folder: Path) -> Callable[..., str]:
    """Write the page of a checkpoint, once, and return its path."""

    def make(name: str, *arguments: object, code: int = 0) -> str:
        target = str(folder / f"{name}.html")
        if not os.path.exists(target):
            done = run_ckpt("report", *arguments, "-o", target)
            assert done.code == code, done.err
        return target

    return make


class Opened:
    """A page in a browser; its log and its requests are kept."""

    def __init__(self, page: Page, path: str) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: self.asked.append(request.url.partition("#")[0]))
        page.goto(f"file://{path}")
        page.wait_for_function("document.documentElement.dataset.ready")
        self.ready = int(page.evaluate("document.documentElement.dataset.ready"))

    def rows(self, within: str = "#tensors") -> list[str]:
        """Return the names of the rows that are drawn, from top to bottom."""
        rows = self.page.locator(f"{within} .row").all()
        told = [
            (row.evaluate("row => parseFloat(row.style.top)"), row.locator(":scope > *").first)
            for row in rows
        ]
        return [
            re.sub(r"^[▶▼]", "", name.inner_text()).replace("\n", "")
            for _, name in sorted(told, key=lambda one: one[0])
        ]

    @property
    def detail(self) -> str:
        return self.page.locator(".detail").first.inner_text()  # a run's page has one of tensors below


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Opened]]:
    """Open a page; at the end, it has logged no error and requested nothing but the file."""
    found: list[tuple[Opened, str]] = []

    def open_page(path: str, **settings: Any) -> Opened:
        context = browser.new_context(**{"viewport": {"width": 1400, "height": 1000}, **settings})
        found.append((Opened(context.new_page(), path), path))
        return found[-1][0]

    yield open_page
    for page, path in found:
        page.page.context.close()
        assert page.said == []
        assert page.asked == ["file://" + path.partition("#")[0]]


@pytest.fixture
def guide(made: Callable[..., str]) -> str:
    return made("guide", data_path("guide_adam_legacy/tf_ckpts/ckpt-10"))


WEIGHTS = ["net/l1/bias", "net/l1/bias (m of optimizer)", "net/l1/bias (v of optimizer)"]


def test_tensors_are_searched_sorted_and_filtered(guide: str, opened: Callable[..., Opened]) -> None:
    one = opened(guide)
    page = one.page
    assert len(one.rows()) == 15
    page.keyboard.press("/")
    page.keyboard.type("L1 bias")
    assert one.rows() == WEIGHTS
    assert "3 tensors of 15, 60 B" in page.locator("#tensors .bar").inner_text()
    page.locator("[data-kind=slot]").click()
    assert one.rows() == WEIGHTS[1:]
    page.locator("#tensors .head button", has_text="name").first.click()
    assert one.rows() == WEIGHTS[:0:-1]
    page.locator("[data-kind=slot]").click()
    page.locator("input[type=search]").fill("")
    page.locator("#tensors .head [data-column=size]").first.click()
    assert one.rows()[:2] == ["_CHECKPOINTABLE_OBJECT_GRAPH", "iterator"]
    page.locator("#tensors .head [data-column=max]").first.click()
    assert one.rows()[:2] == ["step", "optimizer/iter"]
    page.locator("#tensors select").select_option("int64")
    assert one.rows() == ["optimizer/iter", "save_counter"]


def test_layers_are_in_their_order_and_names_end_where_they_end(
    folder: Path, made: Callable[..., str], opened: Callable[..., Opened]
) -> None:
    names = [f"bert/encoder/layer_{number}/attention/output/LayerNorm/beta" for number in range(12)]
    prefix = str(folder / "model.ckpt-1")
    tensors = {name + slot: np.zeros((8, 8), np.float32) for name in names for slot in ("", "/adam_m")}
    write_bundle(prefix, {**tensors, "bert/embeddings": np.zeros((64, 64), np.float32)})
    path = made("layers", prefix)
    page = opened(path, viewport={"width": 1280, "height": 900}).page
    tiles = page.locator(".tile").all_inner_texts()
    assert [int(text[6:].split("/")[0]) for text in tiles if text.startswith("layer_")] == list(range(12))
    shown = page.locator("#tensors .row .name")
    assert shown.count() > 20
    assert shown.evaluate_all("all => all.every(each => each.scrollWidth <= each.clientWidth)")
    narrow = opened(path, viewport={"width": 420, "height": 900}).page
    head = narrow.locator("#tensors .head").first
    assert head.evaluate("head => head.scrollWidth <= head.clientWidth")


def test_a_tensor_is_reported_for(guide: str, opened: Callable[..., Opened]) -> None:
    one = opened(guide)
    one.page.locator("#tensors .row", has_text="kernel").first.click()
    for text in (
        "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE",
        "[1, 5]",
        "4.7186714",
        "distribution of its values",
    ):
        assert text in one.detail
    assert one.page.locator(".detail svg rect").count() == 5
    assert one.page.locator(".detail canvas").count() == 1
    shades = "canvas => canvas.toDataURL()"
    light = one.page.locator(".detail canvas").evaluate(shades)
    one.page.keyboard.press("t")
    assert one.page.locator(".detail canvas").evaluate(shades) != light
    one.page.get_by_role("button", name="log").click()
    assert one.page.locator(".detail svg rect").count() == 5


def test_keys_go_through_the_tree(guide: str, opened: Callable[..., Opened]) -> None:
    one = opened(guide)
    page = one.page
    page.keyboard.press("r")
    assert one.rows() == [
        "_CHECKPOINTABLE_OBJECT_GRAPH",
        "iterator",
        "net/l1",
        "optimizer",
        "save_counter",
        "step",
    ]
    page.locator("#tensors [role=tree]").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert one.rows()[2:9] == [
        "net/l1",
        *(
            f"{name}{slot}"
            for name in ("bias", "kernel")
            for slot in ("", " (m of optimizer)", " (v of optimizer)")
        ),
    ]
    assert page.locator("#tensors [aria-selected=true]").inner_text().startswith("bias (m of optimizer)")
    assert "net/l1/bias (m of optimizer)" in one.detail
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert len(one.rows()) == 6
    page.keyboard.press("End")
    assert "step" in one.detail.splitlines()[0]
    page.keyboard.press("l")
    assert len(one.rows()) == 15
    page.keyboard.press("?")
    assert page.locator("dialog").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("dialog").is_visible()


def test_the_object_graph_folds_and_unfolds(guide: str, opened: Callable[..., Opened]) -> None:
    one = opened(guide)
    page = one.page
    assert {"net", "l1", "kernel  float32 [1, 5]  20 B  +2 slots"} <= set(one.rows("#graph"))
    page.locator("#graph").get_by_role("button", name="Unfold all").click()
    rows = one.rows("#graph")
    assert rows[:2] == ["(root)", "iterator  variant [5]  993 B"]
    assert {"m  float32 [1, 5]  20 B", "optimizer  4 slots"} <= set(rows)
    page.locator("#graph .row", has_text="(root)").locator(".twist").click()
    assert one.rows("#graph") == ["(root)  +13 nodes"]
    page.locator("#graph").get_by_role("button", name="Fold", exact=True).click()
    page.locator("#graph .row", has_text="learning_rate").get_by_role("button").click()
    assert "optimizer/learning_rate" in one.detail


def test_layers_that_are_alike_are_one_row_that_unfolds(
    folder: Path, made: Callable[..., str], opened: Callable[..., Opened]
) -> None:
    import ckpt_cli.runtime as tf

    names = [f"block_{number:02d}" for number in range(8, 13)]
    blocks = {name: tf.train.Checkpoint(kernel=tf.Variable(tf.zeros([2]))) for name in names}
    scales = {f"scale{number}": tf.Variable(1.0) for number in range(3)}
    saved = tf.train.Checkpoint(**blocks, **scales, tied=blocks["block_09"].kernel)
    one = opened(made("blocks", saved.save(str(folder / "blocks" / "ckpt"))))
    alike = "block_{08,10..12}  (4 alike)"
    assert {f"{alike}  +1 node", "block_09", "tied  float32 [2]  8 B"} <= set(one.rows("#graph"))
    if not one.page.locator("#graph .edge").count():
        one.page.locator("#graph .row", has_text="block_09").locator(".twist").click()
    one.page.locator("#graph .edge").first.click()
    assert one.page.locator("#graph .row[aria-selected=true]").inner_text().startswith("tied")
    scale = one.page.locator("#graph .row", has_text="scale{0..2}  float32 []  (3 alike)")
    assert scale.get_by_role("button").count() == 0  # it would show only one
    one.page.locator("#graph .row", has_text=alike).locator(".twist").click()
    assert {f"block_{number}  +1 node" for number in ("08", "10", "11", "12")} <= set(one.rows("#graph"))
    one.page.locator("#graph .row", has_text="block_10").locator(".twist").click()
    one.page.locator("#graph .row", has_text="kernel  float32").first.get_by_role("button").click()
    assert "block_10/kernel" in one.detail


def test_sizes_are_gone_into(guide: str, opened: Callable[..., Opened]) -> None:
    one = opened(guide)
    page = one.page
    page.locator(".tile.frame", has_text="net/l1").click()
    assert page.locator(".crumbs button").all_inner_texts() == ["all", "net/l1"]
    assert page.locator(".tile").count() == 6
    page.locator(".tile", has_text="kernel").first.click()
    assert "net/l1/kernel" in one.detail
    page.locator(".crumbs button").first.click()
    assert page.locator(".tile", has_text="iterator").count() == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 700])
def test_both_themes_can_be_read(theme: str, width: int, guide: str, opened: Callable[..., Opened]) -> None:
    one = opened(guide, color_scheme=theme, viewport={"width": width, "height": 900})
    one.page.locator("#tensors .row", has_text="kernel").first.click()
    colors = (
        "node => [getComputedStyle(node).color, getComputedStyle(document.documentElement).backgroundColor]"
    )
    for selector in ("h1", ".facts dt", "#tensors .row .dim", "#tensors .head button"):
        ink, back = one.page.locator(selector).first.evaluate(colors)
        assert _contrast(ink, back) >= 4.5, (selector, ink, back)
    assert (_light(one.page.locator("h1").first.evaluate(colors)[1]) > 0.5) == (theme == "light")
    assert one.page.evaluate("document.documentElement.scrollWidth") <= width
    one.page.locator("#theme").click()
    assert (_light(one.page.locator("h1").first.evaluate(colors)[1]) > 0.5) == (theme == "dark")


@pytest.fixture(scope="module")
def pages(folder: Path, made: Callable[..., str]) -> dict[str, str]:
    """Return a page of each sort."""
    run = data_path("guide_adam_legacy", "tf_ckpts")
    paths = [f"{run}/ckpt-{step}" for step in (8, 9, 10)]
    found = {
        "checkpoint": made("guide", paths[2]),
        "two": made("sides", *paths[1:]),
        "several": made("several", *paths),
        "origins": made(
            "origins", data_path("origin/llama.Q4_0.gguf"), data_path("origin/llama.safetensors")
        ),
        "run": made("whole", run),
    }
    drawing = str(folder / "drawing.html")
    assert run_ckpt("graph", paths[2], "-o", drawing).code == 0
    return {**found, "graph": drawing}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("sort", ["checkpoint", "two", "several", "origins", "run", "graph"])
def test_axe_finds_nothing(
    sort: str, width: int, theme: str, pages: dict[str, str], opened: Callable[..., Opened]
) -> None:
    """axe-core checks WCAG 2, with a row selected if rows are selectable."""
    import axe_playwright_python

    folder = os.path.dirname(axe_playwright_python.__file__)
    with open(os.path.join(folder, "axe.min.js"), encoding="utf-8") as file:
        axe = file.read()
    one = opened(pages[sort], color_scheme=theme, viewport={"width": width, "height": 900})
    rows = one.page.locator("#tensors .row, #changes .row[data-entry], #weights .row, #graph .row")
    if rows.count():
        rows.first.click()
    one.page.evaluate(axe)
    found = one.page.evaluate("axe.run()")["violations"]
    told = [
        f"{each['id']}: {node['html'][:150]}: {node['failureSummary'][:250]}"
        for each in found
        for node in each["nodes"][:2]
    ]
    assert not told, "\n".join(told)
    assert one.page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_link_leads_to_a_tensor(guide: str, opened: Callable[..., Opened]) -> None:
    one = opened(guide)
    one.page.locator("#tensors .row", has_text="kernel").first.click()
    link = one.page.evaluate("location.hash")
    assert link.startswith("#tensor=net/l1/kernel")
    assert one.page.locator(".detail a.link").get_attribute("href") == link
    other = opened(guide + link)
    assert "net/l1/kernel" in other.detail
    assert "kernel" in other.page.locator("#tensors .row[aria-selected=true]").inner_text()
    other.page.evaluate("location.hash = '#tensor=net/l1/bias'")
    other.page.wait_for_function("document.querySelector('.detail .long').innerText.includes('bias')")
    assert "has no tensor of this name: nothing" in opened(f"{guide}#tensor=nothing").detail
    assert "has no tensor of this name: %" in opened(f"{guide}#tensor=%").detail


LINKED = (
    "net/l1.a/kernel",
    "a b#c%d&e?f",
    "100%25/w",
    "<script>alert(1)</script>",
    "層/重み🚀",
    "עברית/kernel",
    "it's (m of x)",
    "plus+sign",
    "x" * 300,
)


@pytest.mark.parametrize("sort", ["#tensors", "#changes", "#tensors of several"])
def test_a_copied_link_opens_scrolls_to_and_marks_its_row(
    sort: str, folder: Path, made: Callable[..., str], opened: Callable[..., Opened]
) -> None:
    """On each kind of page, also if the row is filtered out, folded, or far from what is drawn."""
    paths = [str(folder / f"linked-{at}") for at in range(3)]
    keys = [f"block_{at:03}/{name}" for at in range(300) for name in "ab"]
    for number, path in enumerate(paths):
        write_bundle(path, {key: np.full(2, number + 1, np.float32) for key in (*keys, *LINKED)})
    section = sort.partition(" ")[0]
    names = {"#tensors": paths[:1], "#changes": paths[:2], "#tensors of several": paths}
    file = made(f"linked-{section[1:]}-{len(names[sort])}", *names[sort])
    one = opened(file)
    chosen = f"{section} .row[aria-selected=true]"
    search = one.page.locator(f"{section} input[type=search]")
    for key in (*LINKED, keys[-1]):
        search.fill(shown(key)[:40])
        title = json.dumps(_title(key), ensure_ascii=False)
        one.page.locator(
            f"{section} .row[title={title}], {section} .row:has(.name[title={title}])"
        ).first.click()
        link = one.page.locator(f"{section} .detail a.link").get_attribute("href") or ""
        assert one.page.evaluate("location.hash") == link
        assert not re.search(r"[\s()'<>&]", link)
        search.fill("nothing of this name")
        other = keys[0] if key != keys[0] else keys[1]
        one.page.evaluate(f"location.hash = '#tensor={other}'")  # found, although a search hides it
        one.page.wait_for_function(f"document.querySelector('{section} .long').innerText === '{other}'")
        assert search.input_value() == ""
        fresh = opened(file + link)
        assert fresh.page.locator(f"{section} .long").inner_text() == shown(key)
        assert fresh.page.locator(chosen).count() == 1
        row, rows = (
            fresh.page.locator(chosen).bounding_box(),
            fresh.page.locator(f"{section} .rows").bounding_box(),
        )
        assert rows["y"] <= row["y"] < rows["y"] + rows["height"]
        assert 0 <= row["y"] < 1000 - row["height"]
        fresh.page.context.close()


def _title(key: str) -> str:
    told = shown(key)
    return told if len(told) <= 400 else f"{told[:200]}…{told[-200:]}"


def test_a_link_works_with_the_key_of_another_page(
    pages: dict[str, str], opened: Callable[..., Opened]
) -> None:
    for sort in ("checkpoint", "two", "several", "run"):
        for key in ("net/l1/kernel", "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"):
            one = opened(f"{pages[sort]}#tensor={key}")
            assert "kernel" in one.page.locator(".row[aria-selected=true]").inner_text()


BERT = [
    *(f"embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type")),
    *(
        f"encoder.layer.{layer}.{part}.{name}"
        for layer in range(12)
        for part in (
            *(f"attention.self.{each}" for each in ("query", "key", "value")),
            *("attention.output.dense", "attention.output.LayerNorm", "intermediate.dense"),
            *("output.dense", "output.LayerNorm"),
        )
        for name in ("weight", "bias")
    ),
    *("pooler.dense.weight", "pooler.dense.bias"),
]


@pytest.fixture(scope="module")
def berts(folder: Path, made: Callable[..., str]) -> dict[str, str]:
    """Pages of one, two, three and a run of checkpoints with the names of BERT-base."""
    (folder / "berts").mkdir()
    paths = [str(folder / "berts" / f"ckpt-{at}") for at in range(3)]
    for number, path in enumerate(paths):
        write_bundle(path, {name: np.full(2, at + number + 1, np.float32) for at, name in enumerate(BERT)})
    sorts = {"one": paths[:1], "two": paths[:2], "several": paths, "run": [str(folder / "berts")]}
    return {sort: made(f"bert-{sort}", *names) for sort, names in sorts.items()}


@pytest.mark.parametrize("width", [390, 768, 1440])
@pytest.mark.parametrize(
    ("sort", "section"),
    [
        *(("one", "#tensors"), ("two", "#changes"), ("several", "#tensors"), ("several", "#layers")),
        *(("run", "#layers"), ("run", "#tensors")),
    ],
)
def test_names_are_cut_in_the_middle_and_differ(
    sort: str, section: str, width: int, berts: dict[str, str], opened: Callable[..., Opened]
) -> None:
    page = opened(berts[sort], viewport={"width": width, "height": 900}).page
    found = page.locator(f"{section} .row:has(.name)").evaluate_all(
        """rows => rows.map((row) => {
            const name = row.querySelector(".name"), inside = name.querySelector("bdi");
            const whole = name.querySelector(".unseen")?.innerText ?? inside.innerText;
            const isWide = inside.getBoundingClientRect().width > name.getBoundingClientRect().width + 1;
            return [inside.innerText, whole, name.title, isWide];
        })"""
    )
    assert len(found) > 5
    for cut, whole, title, is_wide in found:
        assert not is_wide
        assert whole == title
        pattern = ".*".join(map(re.escape, cut.split("…")))
        assert re.fullmatch(pattern, whole), (cut, whole)
        assert (cut == whole) == ("…" not in cut)
    if section != "#changes":  # there, a tensor has its last part alone, below its layer
        assert len({cut for cut, *_ in found}) == len({whole for _, whole, *_ in found})


def test_names_of_a_table_grow_with_the_window(pages: dict[str, str], opened: Callable[..., Opened]) -> None:
    page = opened(pages["several"], viewport={"width": 60, "height": 900}).page
    text = page.locator("#distances th[scope=row] .name bdi").first
    page.wait_for_function("document.querySelector('#distances .name .unseen')")
    page.set_viewport_size({"width": 1400, "height": 900})
    page.wait_for_function("!document.querySelector('#distances .name .unseen')")
    assert text.inner_text() == "ckpt-8"


def test_what_differs_in_a_name_stays(berts: dict[str, str], opened: Callable[..., Opened]) -> None:
    """As many letters as the rows of a phone, or of a column, have."""
    page = opened(berts["one"]).page
    cut = """([names, room]) => {
        const all = new Names(() => names);
        return names.map((name) => fitted(name, room, (text) => text.length, all));
    }"""
    told = page.evaluate(cut, [BERT, 36])
    assert len(set(told)) == len(BERT)
    assert max(map(len, told)) <= 36
    assert "…layer.10.…output.LayerNorm.bias" in told
    tight = page.evaluate(cut, [BERT, 26])
    assert len(set(tight)) >= len(BERT) - 2
    assert max(map(len, tight)) <= 26
    odd = [f"{'z' * 150}{letter}{'z' * 150}" for letter in "AB"]
    assert [("A" in text, "B" in text) for text in page.evaluate(cut, [odd, 30])] == [
        (True, False),
        (False, True),
    ]
    assert page.evaluate(cut, [["rockets/🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀"], 20])[
        0
    ].encode()  # no half of one


def test_labels_of_an_axis_differ(pages: dict[str, str], opened: Callable[..., Opened]) -> None:
    one = opened(pages["run"])
    for plot in one.page.locator("#curves svg").all():
        labels = [text.text_content() for text in plot.locator("text[text-anchor=end]").all()][:3]
        assert len(set(labels)) == 3, labels


FIGURES = {
    "checkpoint": ("format", "parameters", "tensors"),
    "two": ("left", "right", "‖a\u2212b‖/‖b‖", "cosine", "changed values", "unchanged"),
    "several": ("checkpoints", "tensors compared", "layers"),
    "run": ("checkpoints", "latest", "update ratio", "norm of the weights"),
    "graph": (),
}
"""Figures in the head of each kind of page, on a screen and on paper."""


@pytest.mark.parametrize("sort", FIGURES)
def test_what_is_printed_has_the_head_and_the_tables(
    sort: str, pages: dict[str, str], folder: Path, opened: Callable[..., Opened]
) -> None:
    one = opened(pages[sort])
    one.page.evaluate("document.documentElement.dataset.theme = 'dark'")
    one.page.emulate_media(media="print")
    one.page.wait_for_selector(f"#print {'svg' if sort == 'graph' else 'table'} >> visible=true")
    assert not one.page.locator("#page .rows").first.is_visible()
    head = [part.inner_text() for part in one.page.locator("h1, .made").all() if part.is_visible()]
    assert len(head) == 2
    assert f" · ckpt {'graph' if sort == 'graph' else 'report'} " in head[1]
    figures = [part.inner_text() for part in one.page.locator("#page .facts dt").all() if part.is_visible()]
    assert set(FIGURES[sort]) <= set(figures)
    assert all(figures.count(name) == 1 for name in FIGURES[sort])
    assert (
        one.page.evaluate("getComputedStyle(document.body).color") == "rgb(30, 34, 39)"
    )  # ink of light pages
    one.page.emulate_media(media="screen")
    assert not one.page.locator("#print").is_visible()


def test_all_of_the_tables_is_printed(
    made: Callable[..., str], folder: Path, opened: Callable[..., Opened]
) -> None:
    """The PDF of a page that a screen shows has all of its tables, not only what fits on one sheet."""
    tensors = {f"layer_{number}/{'kernel' * 9}": np.float32([number]) for number in range(300)}
    write_bundle(str(folder / "long"), tensors)
    document = opened(made("long", str(folder / "long"))).page.pdf()
    assert max(map(int, re.findall(rb"/Count (\d+)", document))) > 5


def test_several_checkpoints_are_next_to_each_other(
    pages: dict[str, str], opened: Callable[..., Opened]
) -> None:
    one = opened(pages["several"])
    cells = one.page.locator("#distances tbody tr").nth(0).locator("td").all_inner_texts()
    assert cells[0] == "\u2013"
    assert all(cell.endswith("%") for cell in cells[1:])
    one.page.locator("#layers .row").first.click()
    assert one.page.locator("#layers .detail table").count() == 1
    one.page.keyboard.press("/")
    one.page.keyboard.type("kernel")
    assert all("kernel" in row for row in one.rows())


def _light(color: str) -> float:
    """Return the relative luminance of a colour (WCAG 2)."""
    parts = [float(part) / 255 for part in re.findall(r"[\d.]+", color)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_light(one), _light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_hostile_names_are_shown_and_do_nothing(
    folder: Path, made: Callable[..., str], opened: Callable[..., Opened]
) -> None:
    prefix = str(folder / "hostile-1")
    write_bundle(prefix, {key: np.ones((2, 2), np.float32) for key in HOSTILE})
    one = opened(made("hostile", prefix))
    page = one.page
    assert page.title() == "hostile-1 - ckpt report"
    assert len(one.rows()) == len(HOSTILE)
    seen = set()
    page.locator("#tensors .row").first.click()
    for _ in HOSTILE:
        seen.add(page.locator(".detail .long").inner_text())
        page.keyboard.press("ArrowDown")
    assert seen == {shown(key) for key in HOSTILE}
    page.keyboard.press("r")
    page.locator("input[type=search]").fill("a/a")
    assert len(one.rows()) == 1  # a chain of five thousand is one row
    assert page.locator("img, iframe, object, embed, [onerror]").count() == 0
    assert page.evaluate("[...document.querySelectorAll('script')].length") == 2


def test_damage_and_what_is_not_finite_are_found(
    folder: Path, made: Callable[..., str], opened: Callable[..., Opened]
) -> None:
    prefix = str(folder / "damaged-1")
    tensors = {name: np.full((4, 4), 2, np.float32) for name in "abcd"}
    tensors["d"][1, 2] = np.nan
    write_bundle(prefix, tensors)
    with open(shard_path(prefix), "r+b") as file:
        file.seek(70)
        file.write(b"\x07")
    one = opened(made("damaged", prefix, code=3))
    assert "checksum" in one.page.locator(".warnings").first.inner_text()
    one.page.locator("#only-bad").click()
    assert one.rows() == ["b", "d"]
    one.page.locator("#tensors .row").first.click()
    assert "checksum" in one.detail


def test_changes_are_shown_by_layer(
    folder: Path, made: Callable[..., str], opened: Callable[..., Opened]
) -> None:
    sides = [str(folder / "left-1"), str(folder / "right-1")]
    for side, bump in zip(sides, (0, 1), strict=True):
        tensors = {f"net/l{at}/{name}": np.full((4, 4), at, np.float32) for at in range(4) for name in "ab"}
        tensors["net/l1/a"][: bump * 2] += 0.5
        tensors["net/l2/a"] += bump * 7
        tensors["net/l3/a"] = tensors["net/l3/a"][: 4 - bump]
        write_bundle(side, tensors)
    one = opened(made("two", *sides))
    page = one.page
    assert one.rows("#changes") == ["net/l3", "a", "net/l2", "a", "net/l1", "a"]
    shares = page.locator("#changes .row .share .num")
    assert shares.all_inner_texts() == ["77.8%", "77.8%", "27.7%", "27.7%"]
    assert page.locator("#changes .across").first.inner_text() == "1 tensor"
    assert page.locator("#changes [data-entry] .rest").inner_text().startswith("shape float32")
    page.locator("#changes .row").nth(5).click()
    for text in ("net/l1/a", "8 of 16 elements", "at most 0.5", "distribution of its values"):
        assert text in one.detail
    assert page.locator(".detail .bin").count() == 3
    assert page.locator(".detail canvas").count() == 2
    page.locator("[data-change=value]").click()
    assert one.rows("#changes") == ["net/l2", "a", "net/l1", "a"]
    page.keyboard.press("/")
    page.keyboard.type("l1")
    assert one.rows("#changes") == ["net/l1", "a"]


def test_a_phone_shows_distances_and_the_numbers_of_layers(
    folder: Path, made: Callable[..., str], opened: Callable[..., Opened]
) -> None:
    """The distance was the first column to go, and names lost their ends."""
    sides = [str(folder / "phone-1"), str(folder / "phone-2")]
    for side, more in zip(sides, (1, 2), strict=True):
        layers = [f"bert/encoder/layer_{at}/attention/self/query" for at in range(12)]
        tensors = {f"{layer}/kernel": np.full((4, 4), at + more) for at, layer in enumerate(layers)}
        write_bundle(side, {**tensors, "other/w": np.zeros((4, more))})
    page = opened(made("phone", *sides), viewport={"width": 390, "height": 844}).page
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    heads = page.locator("#changes .head button:visible").all_inner_texts()
    assert heads == ["name", "‖a\u2212b‖/‖b‖", "cosine"]
    told = page.locator("#changes .rest")
    assert told.evaluate("told => told.getBoundingClientRect().width") > 150
    for row in page.locator("#changes .row:has(.strong)").all()[1:4]:
        text = row.locator(".name bdi")
        right = row.locator(".name").evaluate("name => name.getBoundingClientRect().right")
        assert re.fullmatch(r"bert/encoder/layer_\d+/attention/self/query", text.inner_text())
        assert text.evaluate("text => text.getBoundingClientRect().right") <= right + 1


def test_a_dozen_checkpoints_scroll_sideways_on_a_phone(
    folder: Path, made: Callable[..., str], opened: Callable[..., Opened]
) -> None:
    """Columns without room were cut off, and nothing scrolled to them."""
    paths = [str(folder / f"dozen-{at}") for at in range(12)]
    for at, path in enumerate(paths):
        write_bundle(path, {"net/w": np.full((4, 4), at + 1, np.float32), "base/b": np.arange(3.0)})
    page = opened(made("dozen", *paths), viewport={"width": 390, "height": 844}).page
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    for section in ("#layers", "#tensors"):
        rows = page.locator(f"{section} .rows")
        assert rows.evaluate("rows => rows.scrollWidth > 2 * rows.clientWidth")
        rows.evaluate("rows => { rows.scrollLeft = rows.scrollWidth; }")
        edges = "cell => { const at = cell.getBoundingClientRect(); return [at.left, at.right]; }"
        last = page.locator(f"{section} .row").first.locator(":scope > *").last.evaluate(edges)
        name = page.locator(f"{section} .row").first.locator(".name").evaluate(edges)
        assert last[1] <= 390
        assert 0 <= name[0] < name[1] <= 390
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 794, "height": 1123})
    assert page.get_by_text("Frozen weights, a common ancestor").filter(visible=True).count() == 1
    table = page.locator("#distances table")
    assert table.evaluate("table => table.getBoundingClientRect().right") <= 794


def test_weights_of_an_export_are_searched_and_filtered_by_verdict(
    folder: Path, made: Callable[..., str], opened: Callable[..., Opened]
) -> None:
    weights = source()
    np.savez(folder / "source.npz", **{**weights, "fc/bias": weights["fc/bias"] + 1})
    one = opened(made("export", data_path("exports/tflite/int8.tflite"), folder / "source.npz"))
    page = one.page
    assert len(one.rows("#weights")) == 6
    assert page.locator("#weights .row").first.get_attribute("data-verdict") == "other"
    page.locator("[data-verdict=within].plain").click()
    assert len(one.rows("#weights")) == 5
    page.keyboard.press("/")
    page.keyboard.type("transposed fc/kernel")
    assert one.rows("#weights") == ["model/fc/MatMul"]
    page.locator("#weights .row").click()
    for text in ("within", "int8", "fc/kernel", "transposed (1, 0)", "allowed"):
        assert text in one.detail
    assert "fc/bias" in page.locator("#unused").inner_text()


def test_a_run_is_shown_over_its_steps(
    folder: Path, made: Callable[..., str], opened: Callable[..., Opened]
) -> None:
    (folder / "run").mkdir()
    for step in range(12):
        tensors = {f"net/l{at}/w": np.full((4, 4), 1 + at * step, np.float32) for at in range(3)}
        if step > 9:
            tensors["net/l2/w"][0] = np.nan
        write_bundle(str(folder / "run" / f"ckpt-{step}"), tensors)
    one = opened(made("run", folder / "run"))
    page = one.page
    assert page.locator("#curves figcaption h3").all_inner_texts() == [
        "update ratio of the weights",
        "norm of the weights",
        "tensors that changed",
        "NaN and infinities",
    ]
    assert "first NaN in ckpt-10: net/l2/w" in page.locator(".warnings").first.inner_text()
    assert one.rows("#layers") == ["net/l0", "net/l1", "net/l2"]
    pressed = page.locator("#layers [aria-pressed=true]")
    assert pressed.inner_text() == "update ratio"  # not what changed, which is everything
    looks = page.locator("#layers canvas").evaluate_all("all => all.map((canvas) => canvas.toDataURL())")
    assert len(set(looks)) == 3
    page.locator("#layers").get_by_role("button", name="norm").click()
    assert (
        page.locator("#layers canvas").evaluate_all("all => all.map((canvas) => canvas.toDataURL())") != looks
    )
    page.locator("#layers .row").nth(1).click()
    assert "net/l1" in one.detail
    assert page.locator(".detail figure").count() == 3
    assert one.rows("#checkpoints") == [f"ckpt-{step}" for step in range(12)]
    assert "net/l0/w" in page.locator("#frozen").inner_text()
    for width in (390, 768, 1100):  # distances stay, and cells are below their headings
        page.set_viewport_size({"width": width, "height": 900})
        right = "all => all.map((each) => Math.round(each.getBoundingClientRect().right))"
        heads = page.locator("#checkpoints .head button:visible")
        assert {"norm", "update ratio", "NaN, inf"} <= set(heads.all_inner_texts())
        cells = page.locator("#checkpoints .row").first.locator(":scope > *:visible")
        edges = heads.evaluate_all(right)
        assert cells.evaluate_all(right) == edges
        assert max(edges) <= width


def test_it_is_readable_without_a_script(guide: str, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"file://{guide}")
    text = page.locator("body").inner_text()
    for word in ("tf-object", "Sizes by layer", "net/l1/kernel", "4.7187", "15 tensors, largest first"):
        assert word in text
    context.close()


def test_the_policy_lets_nothing_in(guide: str, opened: Callable[..., Opened]) -> None:
    one = opened(guide)
    blocked = one.page.evaluate(
        """async () => {
            const found = [];
            document.addEventListener("securitypolicyviolation",
                (event) => found.push(event.effectiveDirective),
            );
            document.body.append(Object.assign(new Image(), { src: "http://127.0.0.1:9/x.png" }));
            const script = document.createElement("script");
            script.append("document.title = 'run'");
            document.body.append(script);
            await fetch("http://127.0.0.1:9/").catch(() => 0);
            await new Promise((done) => setTimeout(done, 50));
            return found;
        }"""
    )
    assert {"img-src", "connect-src"} <= set(blocked)
    assert one.page.title() == "ckpt-10 - ckpt report"
    assert one.said != []
    one.said.clear()  # the attempted violation is reported
    one.asked = [url for url in one.asked if not url.startswith("http://127.0.0.1:9/")]


def test_a_hundred_thousand_tensors(
    folder: Path, made: Callable[..., str], opened: Callable[..., Opened]
) -> None:
    prefix = str(folder / "many-1")
    values = np.random.default_rng(1).normal(size=(MANY, 4)).astype(np.float32)
    names = (
        f"model/block_{at // 1000:03d}/layer_{at % 1000 // 10:03d}/part_{at % 10}/kernel"
        for at in range(MANY)
    )
    write_bundle(prefix, dict(zip(names, values, strict=True)))
    told, made_in = (
        _processor_time("stats", prefix, "--json"),
        _processor_time("report", prefix, "-o", str(folder / "many.html")),
    )
    print(f"stats {told:.2f} s, report {made_in:.2f} s")
    assert made_in <= 2 * told
    path = made("many", prefix)
    assert os.path.getsize(path) < 10_000_000
    one = opened(path)
    print(f"{os.path.getsize(path):,} bytes, ready after {one.ready} ms")
    assert _elements(one) < _MOST_ELEMENTS  # what takes a browser its time
    assert one.page.locator("#tensors .row").count() < 60
    one.page.locator("#tensors [role=listbox]").focus()
    one.page.keyboard.press("End")
    assert "model/block_099/layer_099/part_9/kernel" in one.rows()
    assert one.page.locator("#tensors .row").count() < 60
    one.page.locator("input[type=search]").fill("block_042 part_7")
    assert "100 tensors of 100,000" in one.page.locator("#tensors .bar").inner_text()
    assert _elements(one) < _MOST_ELEMENTS
    one.page.locator("input[type=search]").fill("")
    one.page.keyboard.press("Escape")
    one.page.keyboard.press("r")
    assert one.rows() == ["model"]


SCROLL = """async ([selector, pixels, frames]) => {
    const rows = document.querySelector(selector);
    for (let at = 0; at < frames; at++) {
        rows.scrollTop += pixels;
        await new Promise(requestAnimationFrame);
    }
    return rows.scrollTop;
}"""


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("count", [1, 3])
def test_ten_thousand_tensors_scroll_smoothly(
    count: int, width: int, folder: Path, made: Callable[..., str], opened: Callable[..., Opened]
) -> None:
    """A frame takes less processor time than the 16.7 ms between two; other programs hardly change it."""
    paths = [str(folder / f"thousands-{at}") for at in range(count)]
    names = [f"model/block_{at // 100:03}/layer_{at % 100}/attention/self/kernel" for at in range(10_000)]
    for number, path in enumerate(paths):
        if not os.path.exists(shard_path(path)):
            write_bundle(path, {name: np.full(2, at + number, np.float32) for at, name in enumerate(names)})
    page = opened(made(f"thousands-of-{count}", *paths), viewport={"width": width, "height": 900}).page
    page.locator("#tensors .rows").scroll_into_view_if_needed()
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def busy() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))

    frames, before = 120, busy()
    assert page.evaluate(SCROLL, ["#tensors .rows", 100, frames]) == 100 * frames
    each = 1000 * (busy() - before) / frames
    print(f"{count} checkpoints at {width} px: {each:.1f} ms a frame")
    assert each < 14


_MOST_ELEMENTS = 5_000
"""Elements of a page with any number of tensors; its printed tables have up to 200 rows each."""


def _elements(one: Opened) -> int:
    return int(one.page.evaluate("document.getElementsByTagName('*').length"))


def _processor_time(*arguments: str) -> float:
    """Return the processor's seconds that a command takes, which others' work does not change much."""
    before = os.times()
    done = run_ckpt(*arguments, "-j", "1")
    after = os.times()
    assert done.code == 0, done.err
    return after.children_user + after.children_system - before.children_user - before.children_system


OBJECTS = 2 + 1 + 12 * 3 + 48 * 3 + 5 + 2
"""The root, encoder, optimizer, layers, variables with their slots, settings, what is hostile, a counter."""


# The object graph alone ---------------------------------------------------------------


@pytest.fixture(scope="module")
def drawn(folder: Path) -> str:
    """The page of `ckpt graph` of a model of twelve like layers with Adam."""
    import ckpt_cli.runtime as tf

    def dense() -> Any:
        return tf.train.Checkpoint(kernel=tf.Variable(tf.zeros([2, 2])), bias=tf.Variable(tf.zeros([2])))

    layers = [tf.train.Checkpoint(attention=dense(), output=dense()) for _ in range(12)]
    encoder = tf.train.Checkpoint(**{f"layer_{number}": layer for number, layer in enumerate(layers)})
    optimizer = tf.keras.optimizers.legacy.Adam()
    variables = [
        getattr(part, name)
        for one in layers
        for part in (one.attention, one.output)
        for name in ("kernel", "bias")
    ]
    optimizer.apply_gradients([(tf.zeros(variable.shape), variable) for variable in variables])
    saved = tf.train.Checkpoint(
        **{HOSTILE[0]: tf.Variable(1.0)}, encoder=encoder, head=layers[3].output, optimizer=optimizer
    )
    path = saved.save(str(folder / "like" / "ckpt"))
    target = str(folder / "graph.html")
    done = run_ckpt("graph", path, "-o", target)
    assert done.code == 0, done.err
    return target


def test_a_graph_folds_zooms_and_searches(drawn: str, opened: Callable[..., Opened]) -> None:
    one = opened(drawn)
    rows = one.rows("#graph")
    assert [row for row in rows if "alike" in row] == [
        "layer_{0..2,4..11}  (11 alike)  +6 nodes"
    ]  # one is shared
    assert one.page.locator("#graph .rows").evaluate("rows => rows.scrollHeight <= rows.clientHeight")
    assert f"{OBJECTS} objects" in one.page.locator("#graph .bar").inner_text()
    search = one.page.locator("input[type=search]")
    search.fill("layer_7/output")
    assert "1 hit, 1 shown" in one.page.locator("#graph .bar").inner_text()
    assert {"layer_7", "output"} <= {row.split("  ")[0] for row in one.rows("#graph")}
    one.page.locator("button", has_text="Unfold all").click()
    whole = int(one.page.evaluate("document.querySelector('#graph [aria-setsize]').ariaSetSize"))
    assert (
        whole == OBJECTS + 2
    )  # the row of those that are alike, and that of an edge to what is shown elsewhere
    tall = one.page.locator("#graph .row").first.bounding_box()["height"]
    one.page.locator("[aria-label=larger]").click()
    assert one.page.locator("#graph .row").first.bounding_box()["height"] > 1.1 * tall
    one.page.locator("button", has_text="Fold").first.click()
    assert one.rows("#graph") == rows
    search.fill("script")
    assert any("</script>" in row for row in one.rows("#graph"))


def test_slots_and_aliases_of_a_graph_are_switched(drawn: str, opened: Callable[..., Opened]) -> None:
    one = opened(drawn)
    page, before = one.page, one.rows("#graph")
    overlay = {name: page.locator(f"#graph [data-overlay={name}]") for name in ("slots", "aliases")}
    assert [each.get_attribute("aria-pressed") for each in overlay.values()] == ["false", "true"]
    assert page.locator("#graph .edge").count() == 1
    overlay["aliases"].click()
    assert page.locator("#graph .edge").count() == 0
    assert len(one.rows("#graph")) == len(before) - 1
    overlay["aliases"].click()
    assert one.rows("#graph") == before
    page.locator("input[type=search]").fill("layer_7/output/kernel")
    overlay["slots"].click()
    assert [row for row in one.rows("#graph") if re.match(r"[mv]  float32 \[2, 2\]", row)]
    assert page.locator("#graph .row[aria-selected=true]").inner_text().startswith("▼kernel")
    overlay["slots"].click()
    assert not [row for row in one.rows("#graph") if re.match(r"[mv]  float32", row)]


def test_a_link_leads_to_an_object(drawn: str, opened: Callable[..., Opened]) -> None:
    key = "encoder/layer_7/output/kernel/.ATTRIBUTES/VARIABLE_VALUE"
    one = opened(f"{drawn}#tensor={key}")
    chosen = one.page.locator("#graph .row[aria-selected=true]")
    assert "kernel" in chosen.inner_text()
    assert key in (chosen.get_attribute("title") or "")
    one.page.locator("#graph .row", has_text="bias").first.click()
    assert one.page.evaluate("location.hash").endswith("bias/.ATTRIBUTES/VARIABLE_VALUE")


def test_a_graph_is_a_picture_without_script(
    drawn: str, opened: Callable[..., Opened], browser: Browser
) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    page.goto(f"file://{drawn}")
    text = page.locator("svg text", has_text="layer_{0..2,4..11}")
    assert text.count() == 1
    # Text that is text can be selected; a rejected style would not have this colour.
    assert (
        page.locator("svg .remark").first.evaluate("one => getComputedStyle(one).fill")
        == "rgb(102, 102, 102)"
    )
    assert text.evaluate("one => getComputedStyle(one).userSelect") == "text"
    context.close()
