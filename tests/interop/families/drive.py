"""Conversions of every family between the forms that its program saves, and what the program makes of them.

`python -m tests.interop.families` prints the table; `test_families.py` holds a sample of it to `known.json`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections import Counter
from itertools import permutations, product
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.cli.running import Finished, Starter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tests.interop.conftest import TensorFlow

KNOWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "known.json")
HERE = os.path.dirname(os.path.abspath(__file__))
RELEASES = {"keras2": "2.15", "keras3": "2.21"}
"""By generation: the release of TensorFlow that has it."""

FILES = {
    "tf": "ckpt",
    "tfw": "saved",
    "h5": "model.h5",
    "h5w": "weights.h5",
    "wh5": "model.weights.h5",
    "keras": "model.keras",
}
"""By form: what program.py saves it as."""

GOES_ON, WEIGHTS, REJECTED, NOT_LOADED, OTHER, CRASHED = VERDICTS = (
    "goes on",
    "weights alone",
    "rejected",
    "not loaded",
    "other weights",
    "crashed",
)
"""From best to worst: the next losses are those of the uninterrupted run; only the outputs are; exit 3.

Then exit 0 and Keras does not load the file; exit 0 and the outputs differ; neither a result nor an error.
"""

PLAIN, CONFIG, LIKE = WAYS = ("plain", "config", "like")
THROUGH = {"name": "name", "pt": "state.pt"}
"""Ways through a format that holds no objects, and back by --like."""

_CORE = ("tf", "h5", "wh5", "keras")
CASES: dict[str, Sequence[tuple[str, str]]] = {
    LIKE: (*permutations(_CORE, 2), ("tfw", "keras"), ("keras", "tfw"), ("tf", "h5w"), ("h5w", "tf")),
    PLAIN: (*product(("h5",), ("wh5", "tfw")), *product(("keras",), ("wh5", "tfw", "h5"))),
    CONFIG: (
        *product(("tf",), ("h5", "wh5", "keras")),
        *product(("wh5",), ("tfw", "h5", "keras")),
        *product(("h5",), ("wh5", "keras")),
        ("keras", "wh5"),
    ),
    "name": (("tf", "tf"),),
    "pt": (("tf", "tf"), ("keras", "keras")),
}
"""By way: from which form to which.

Without a template an object graph is that of the model alone, and what holds no configuration needs one; that
of a `.h5` file is none for a `.keras` archive.
"""

BLIND = {"sgd", "unstepped"}
"""Families whose optimizer has no state to compare: it has no slots, or has taken no step."""


class Case(NamedTuple):
    generation: str
    family: str
    source: str
    target: str
    way: str

    @property
    def direction(self) -> str:
        arrow = self.target if self.way in WAYS else f"{self.way}>{self.target}"
        return f"{self.generation} {self.source}>{arrow} {self.way if self.way in WAYS else LIKE}"


class Judged(NamedTuple):
    case: Case
    verdict: str
    why: str
    counts: bool
    """Whether the native files of both forms continue; the others can at most bring the weights."""

    @property
    def as_expected(self) -> bool:
        return self.verdict == GOES_ON or (self.verdict == WEIGHTS and not self.counts)


class Truth(NamedTuple):
    """A trained family: where its files are, and how far each form continues that the program wrote."""

    folder: str
    natively: dict[str, tuple[str, str]]
    saved: dict[str, str | None]
    blind: bool

    def path(self, form: str) -> str:
        return os.path.join(self.folder, FILES[form])

    def template(self, form: str) -> str:
        """Return the same form of another run of the program."""
        return os.path.join(self.folder, "like", FILES[form])

    def sound(self, form: str) -> bool:
        return self.natively.get(form, ("", ""))[0] in (GOES_ON, WEIGHTS)


def fingerprint() -> str:
    """Return a digest of what natives are made by."""
    digest = hashlib.sha256()
    names = ("program.py", "layers.py", "training.py", os.path.join("..", "oracle_families.py"))
    for name in names:
        with open(os.path.join(HERE, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()[:12]


class Families:
    """The families of one generation, and the program that judges them."""

    def __init__(self, tensorflow: TensorFlow, generation: str, cache: str) -> None:
        self.tensorflow, self.generation = tensorflow, generation
        self.root = os.path.join(cache, fingerprint(), generation)
        self._truths: dict[str, Truth] = {}

    def names(self) -> list[str]:
        return list(self.tensorflow.ask("families", "names"))

    def truth(self, family: str) -> Truth:
        """Return a family's files, which are made at the first time."""
        if family not in self._truths:
            folder = os.path.join(self.root, family)
            if not os.path.exists(os.path.join(folder, "done")):
                shutil.rmtree(folder, ignore_errors=True)
                self.tensorflow.ask("families", "make", folder=folder, name=family)
                with open(os.path.join(folder, "done"), "w"):
                    pass
            with open(os.path.join(folder, "truth.json"), encoding="utf-8") as file:
                told = json.load(file)
            natively = {form: tuple(found) for form, found in told["natively"].items()}
            self._truths[family] = Truth(folder, natively, told["saved"], told["blind"])
        return self._truths[family]

    def cases(self, family: str) -> Iterator[Case]:
        truth = self.truth(family)
        for way, pairs in CASES.items():
            for source, target in pairs:
                is_for_the_other = way == CONFIG and self.generation == "keras3"
                if target == "wh5" and source in ("h5", "keras") and is_for_the_other:
                    continue
                if truth.sound(source) and truth.sound(target):
                    yield Case(self.generation, family, source, target, way)

    def judge(self, case: Case, starter: Starter) -> Judged:
        truth = self.truth(case.family)
        natively = [truth.natively[form][0] for form in (case.source, case.target)]
        counts = natively == [GOES_ON, GOES_ON]
        folder = os.path.join(truth.folder, "out", f"{case.source}-{case.target}-{case.way}")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        made = os.path.join(folder, FILES[case.target])
        try:
            for command in _commands(case, truth, folder):
                done = _run(starter, command)
                if done.code:
                    verdict = REJECTED if done.code == 3 and "Traceback" not in done.err else CRASHED
                    return Judged(
                        case, verdict, done.err.replace(folder, "").replace(truth.folder, "")[:1500], counts
                    )
            verdict, why = self._go_on(case, truth, made)
            return Judged(case, verdict, why, counts)
        finally:
            if not os.environ.get("CKPT_KEEP"):
                shutil.rmtree(folder, ignore_errors=True)

    def _go_on(self, case: Case, truth: Truth, made: str) -> tuple[str, str]:
        asked = {"folder": truth.folder, "name": case.family, "form": case.target, "path": made}
        try:
            verdict, why = self.tensorflow.ask("families", "judge", **asked)
        except pytest.fail.Exception as error:
            return NOT_LOADED, str(error)[-600:]
        return verdict, why.replace(truth.folder, "")


def _run(starter: Starter, command: Sequence[str]) -> Finished:
    """Run `ckpt`, and again with the optimizer's name if a hint requires it."""
    done = starter.run(*command)
    named = re.search(r"^hint: .*(--optimizer \w+)", done.err, re.MULTILINE)
    return starter.run(*command, *named[1].split()) if done.code == 3 and named else done


def _commands(case: Case, truth: Truth, folder: str) -> Iterable[Sequence[str]]:
    source, made = truth.path(case.source), os.path.join(folder, FILES[case.target])
    options = (
        ["--weights-only"] if case.target == "h5w" else ["--keep-optimizer"] if case.source == "h5w" else []
    )
    if case.way in THROUGH:
        between = os.path.join(folder, THROUGH[case.way])
        yield ["convert", source, between, *(["--to", "name"] if case.way == "name" else [])]
        source = between
    if case.way in (PLAIN, CONFIG):
        config = ["--config", _config(case, truth)] if case.way == CONFIG else []
        yield ["convert", source, made, *(["--to", "object"] if case.target == "tfw" else []), *config]
    else:
        yield ["convert", source, made, "--like", truth.template(case.target), *options]


def _config(case: Case, truth: Truth) -> str:
    """Return the file with the model's configuration that serves the target best."""
    order = ["h5", "keras"] if case.target in ("h5", "h5w") else ["keras", "h5"]
    for form in order:
        if truth.saved.get(form) is None and os.path.exists(truth.template(form)):
            return truth.template(form)
    return os.path.join(truth.folder, "config.json")


# The table ---------------------------------------------------------------------------------


def reason(judged: Judged) -> str:
    """Return a message without what is another in each family."""
    lines = [line for line in judged.why.splitlines() if line.startswith("ckpt: error")]
    text = (lines or judged.why.splitlines() or [""])[0].removeprefix("ckpt: error: ")
    text = re.sub(r"^\S*(/|ckpt|saved|model\.|weights\.)\S*: ", "", text)
    text = re.sub(r"'[^']*'|\"[^\"]*\"|\[[^]]*\]|\([^)]*\)", "…", text)
    text = re.sub(r"\S*/\S*|\S*_\d+\S*", "…", text)
    return re.sub(r"-?\d[\d.e+-]*", "N", text)[:160]


def table(found: Sequence[Judged]) -> str:
    """Return counts by direction and by family, and why what does not continue does not."""
    of_them = [judged for judged in found if judged.counts]
    blocks = [
        _summary(of_them, "native files go on"),
        _summary([j for j in found if not j.counts], "weights only"),
    ]
    blocks.append(_grid("direction", of_them, lambda judged: judged.case.direction))
    blocks.append(_grid("family", of_them, lambda judged: f"{judged.case.generation} {judged.case.family}"))
    lines = ["reasons (verdict, count, reason; an example)"]
    kinds: dict[tuple[str, str], list[Judged]] = {}
    for judged in found:
        if judged.verdict != GOES_ON and (judged.counts or judged.verdict != WEIGHTS):
            kinds.setdefault((judged.verdict, reason(judged)), []).append(judged)
    for (verdict, text), each in sorted(
        kinds.items(), key=lambda item: (VERDICTS.index(item[0][0]), -len(item[1]))
    ):
        families = sorted({judged.case.family for judged in each})
        lines.append(f"{len(each):4} {verdict}: {text}")
        lines.append(
            f"       {', '.join(families[:12])}{' …' if len(families) > 12 else ''}; {each[0].case.direction}"
        )
    return "\n\n".join([*blocks, "\n".join(lines)])


def _summary(found: Sequence[Judged], title: str) -> str:
    counts = Counter(judged.verdict for judged in found)
    shares = [f"{verdict} {counts[verdict]}" for verdict in VERDICTS]
    reached = 100 * counts[GOES_ON] / len(found) if found else 0
    return f"{title}: {len(found)} cases, {reached:.1f} % go on; " + ", ".join(shares)


def _grid(title: str, found: Sequence[Judged], key: Callable[[Judged], str]) -> str:
    rows: dict[str, Counter[str]] = {}
    for judged in found:
        rows.setdefault(key(judged), Counter())[judged.verdict] += 1
    width = max((len(row) for row in rows), default=0)
    lines = [f"{title:{width}} " + " ".join(f"{verdict:>13}" for verdict in VERDICTS)]
    for row, counts in sorted(rows.items()):
        lines.append(f"{row:{width}} " + " ".join(f"{counts[verdict] or '.':>13}" for verdict in VERDICTS))
    return "\n".join(lines)


def read(path: str) -> list[Judged]:
    """Return what `write` has appended to a file; of a case that was judged twice the last time."""
    found = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            case = Case(**{name: row.pop(name) for name in Case._fields})
            found[case] = Judged(case, **row)
    return list(found.values())


def write(path: str, judged: Judged) -> None:
    row = {**judged.case._asdict(), "verdict": judged.verdict, "why": judged.why, "counts": judged.counts}
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def compare(before: Sequence[Judged], after: Sequence[Judged]) -> str:
    """Return which cases have another verdict than in an earlier run."""
    was = {judged.case: judged.verdict for judged in before}
    changed = [judged for judged in after if was.get(judged.case, judged.verdict) != judged.verdict]
    return "\n".join(f"{was[judged.case]} -> {told(judged)}" for judged in changed)


def told(judged: Judged) -> str:
    return f"{judged.case.family} {judged.case.direction}: {judged.verdict}: {judged.why[:400]}"


class Known:
    """known.json: families, and their cases that are worse than the native files."""

    def __init__(self, families: dict[str, list[str]], rows: dict[str, dict[str, list[str]]]) -> None:
        self.families = families
        self._verdicts = {
            (direction, family): verdict
            for verdict, directions in rows.items()
            for direction, names in directions.items()
            for family in names
        }

    @classmethod
    def read(cls) -> Known:
        with open(KNOWN, encoding="utf-8") as file:
            held = json.load(file)
        return cls(held["families"], held["verdicts"])

    def learn(self, found: Iterable[Judged]) -> None:
        for judged in found:
            case = judged.case
            of_generation = self.families.setdefault(case.generation, [])
            self.families[case.generation] = sorted({*of_generation, case.family})
            self._verdicts.pop((case.direction, case.family), None)
            if not judged.as_expected:
                self._verdicts[case.direction, case.family] = judged.verdict

    def as_json(self) -> dict[str, Any]:
        rows: dict[str, dict[str, list[str]]] = {verdict: {} for verdict in VERDICTS}
        for (direction, family), verdict in sorted(self._verdicts.items()):
            rows[verdict].setdefault(direction, []).append(family)
        return {"families": self.families, "verdicts": {verdict: row for verdict, row in rows.items() if row}}

    def write(self) -> None:
        with open(KNOWN, "w", encoding="utf-8") as file:
            file.write(self.text())

    def text(self) -> str:
        """Return a line for each direction."""
        text = json.dumps(self.as_json(), indent=1)
        return re.sub(r"\[\s+([^]]*?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text) + "\n"

    def verdict(self, judged: Judged) -> str:
        """Return what is known of a case: that it goes as far as the native files do, unless it is listed."""
        case = judged.case
        return self._verdicts.get((case.direction, case.family), GOES_ON if judged.counts else WEIGHTS)

    def is_worse(self, judged: Judged) -> bool:
        return VERDICTS.index(judged.verdict) > VERDICTS.index(self.verdict(judged))

    def is_stale(self, judged: Judged) -> bool:
        """Whether the list says of a case that it does worse than it does."""
        listed = self._verdicts.get((judged.case.direction, judged.case.family))
        return listed is not None and listed != judged.verdict


@contextlib.contextmanager
def starting() -> Iterator[Starter]:
    with Starter(stderr=None) as starter:
        yield starter
