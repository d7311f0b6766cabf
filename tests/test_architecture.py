"""Imports point one way (architecture.md), and listing a checkpoint loads nothing heavy."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING

import pytest

import formats
from formats.find.registry import all_formats
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
assert os.path.dirname(os.path.dirname(os.path.abspath(formats.__file__))) == ROOT, (
    "another formats is imported"
)


@cache
def modules() -> dict[str, str]:
    """Return the path of every module by its dotted name."""
    found = {}
    for package in ("formats", "ckpt_cli"):
        for folder, _, names in os.walk(os.path.join(ROOT, package)):
            for name in names:
                if name.endswith(".py"):
                    path = os.path.join(folder, name)
                    dotted = os.path.relpath(path, ROOT).removesuffix(".py").replace(os.sep, ".")
                    found[dotted.removesuffix(".__init__")] = path
    return found


@cache
def parsed(module: str) -> ast.Module:
    path = modules()[module]
    with open(path, encoding="utf-8") as file:
        return ast.parse(file.read(), path)


@cache
def imports(module: str, *, for_types: bool = False) -> frozenset[str]:
    """Return the modules that a module's import statements name; those for annotations only on request."""
    path = modules()[module]
    package = module if path.endswith("__init__.py") else module.rpartition(".")[0]
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not for_types:
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            submodules = {f"{name}.{alias.name}" for alias in node.names} & set(modules())
            found.update(submodules or {name})
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(parsed(module))
    return frozenset(found)


ROOMS = (
    "errors",
    "wire",
    "core",
    "store",
    "model",
    "keras",
    "tf h5 torch safetensors orbax exports",
    "known",
    "find",
)
"""The rooms of `formats`. Each may import earlier ones; rooms in one entry may not import each other."""

FORMATS = sorted(name for name in modules() if name.startswith("formats.known."))


def named(beginning: str) -> list[str]:
    """Return the modules whose names begin so."""
    found = [module for module in modules() if module.startswith(beginning)]
    assert len(found) > 100
    return found


def room(module: str) -> str:
    """Return the room of a module of `formats`; the package itself is above all.

    A location names its store, and stores take and give locations: they are one room.
    """
    found = module.split(".")[1] if "." in module else ""
    return "store" if found == "location" else found


def floor(name: str) -> int:
    """Return the level of a room."""
    return next((at for at, names in enumerate(ROOMS) if name in names.split()), len(ROOMS))


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the circles of imports: sets of modules that all reach each other (Tarjan)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for other in graph[module]:
            if other not in number:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], number[other])
        if lowest[module] == number[module]:
            at = stack.index(module)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for module in graph:
        if module not in number:
            visit(module)
    return [circle for circle in found if len(circle) > 1]


def test_every_module_is_looked_at() -> None:
    assert {
        "formats",
        "formats.wire.sstable",
        "formats.tf.bundle.index",
        "ckpt_cli",
        "ckpt_cli.cli.main",
    } <= set(modules())
    assert {"formats.known.tf_object", "formats.known.tf_name", "formats.known.tf_v1"} <= set(FORMATS)
    assert "formats.wire.coding" in imports("formats.wire.sstable")
    assert "formats.tf.bundle.index" in imports("formats.known.tf_object")


def test_every_room_has_its_place() -> None:
    assert {room(name) for name in modules() if name.startswith("formats.")} == set(" ".join(ROOMS).split())


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [["a", "b", "c"]]


def test_formats_know_nothing_of_the_command_line() -> None:
    foreign = {"click", "rich", "ckpt_cli", "tensorflow", "keras", "google.protobuf"}
    for module in named("formats"):
        roots = {name.partition(".")[0] for name in imports(module, for_types=True)}
        assert not roots & foreign, module


def test_imports_within_formats_point_one_way() -> None:
    """Those in functions and those for annotations, too."""
    for module in named("formats."):
        for name in imports(module, for_types=True):
            if name.startswith("formats."):
                mine, other = room(module), room(name)
                assert mine == other or floor(other) < floor(mine), f"{module} imports {name}"


def test_formats_do_not_import_each_other() -> None:
    for module in FORMATS:
        assert not imports(module, for_types=True) & set(FORMATS), module


def test_only_the_registry_knows_formats_and_by_name_alone() -> None:
    for module in modules():
        # Salvaging, which is above the formats like the registry, makes their readers from the rest of a
        # file.
        assert module in (*FORMATS, "formats.find.salvage") or not imports(module) & set(FORMATS), module


def test_formats_outside_tensorflow_import_nothing_of_it() -> None:
    """Nor does anything that they import: a listing alone does, for its checksums are those of a bundle."""
    own = {"formats.known.tf_object", "formats.known.tf_name", "formats.known.tf_v1"}
    for module in FORMATS:
        found = {each for each in reached(module) if each.startswith("formats.tf.")}
        allowed = reached("formats.tf.bundle.payload") if module == "formats.known.listing" else set()
        assert module in own or found <= allowed, module


def reached(module: str) -> set[str]:
    """Return a module and all that it imports, itself or by others."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        at = waiting.pop()
        if at not in found:
            found.add(at)
            waiting += imports(at) & set(modules())
    return found


def test_there_is_no_circle_of_more_than_two_files() -> None:
    graph = {module: set(imports(module, for_types=True)) & set(modules()) for module in modules()}
    assert [circle for circle in circles(graph) if len(circle) > 2] == []


def test_there_is_no_circle_of_folders() -> None:
    """Folders of the runtime are faces of one thing, as TensorFlow's namespaces are."""
    folders: dict[str, set[str]] = {}
    for module in modules():
        if not module.startswith("ckpt_cli.runtime") and "." in module:
            named = set(imports(module, for_types=True)) & set(modules())
            others = {_folder(name) for name in named if not name.startswith("ckpt_cli.runtime")}
            folders.setdefault(_folder(module), set()).update(others)
    every = {name: others & set(folders) - {name} for name, others in folders.items()}
    assert circles(every) == []


def _folder(module: str) -> str:
    """Return the folder of a module, which is a room; deeper modules belong to it.

    The folders of the store are one room: files and objects of a bucket stand in for each other.
    """
    is_package = modules()[module].endswith("__init__.py")
    folder = module if is_package else module.rpartition(".")[0]
    is_store = module == "formats.location" or folder.startswith("formats.store.")
    return "formats.store" if is_store else ".".join(folder.split(".")[:3])


def test_a_class_name_has_one_meaning() -> None:
    """The runtime has TensorFlow's names."""
    found: dict[str, set[str]] = {}
    for module in modules():
        if not module.startswith("ckpt_cli.runtime"):
            for node in ast.walk(parsed(module)):
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, set()).add(module)
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


NO_NAMES = {
    "answers", "arriving", "beside", "called_off", "carrying_out", "computed", "ending", "going_on", "hand",
    "held", "interrupted", "layouts", "part", "pieces", "place", "places", "relaid", "sent", "spot", "told",
}  # fmt: skip
"""Words that say nothing of what a module holds."""


def test_modules_are_called_by_words_of_the_field() -> None:
    last = {module.rpartition(".")[2] for module in modules() if not module.startswith("ckpt_cli.runtime")}
    assert last & NO_NAMES == set()


NO_WORDS = frozenset(
    [
        "anew",
        "asked",
        "asking",
        "asks",
        "relaid",
        "said",
        "saying",
        "spoken",
        "spot",
        "stretch",
        "stretches",
        "telling",
        "tells",
        "told",
        "untold",
        "whatever",
        "whichever",
        "whoever",
        "whose",
    ]
)
"""Words that a name does not have: they say neither what a thing is nor what a function does."""


def names(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a module gives: to functions, classes, parameters, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def test_names_say_what_things_are() -> None:
    """The names of the runtime and of Orbax still need this work."""
    found = set()
    for module in modules():
        if not module.startswith(("ckpt_cli.runtime", "formats.orbax")):
            for name in names(parsed(module)):
                words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
                found |= {f"{module}: {name}" for word in words if word.lower() in NO_WORDS}
    assert found == set()


MOST_PARAMETERS = 7


def test_functions_have_few_parameters() -> None:
    """The runtime has TensorFlow's signatures; keyword-only parameters of public functions are free."""
    many = []
    for module in modules():
        if not module.startswith("ckpt_cli.runtime"):
            for node in ast.walk(parsed(module)):
                if isinstance(node, ast.FunctionDef):
                    given = node.args
                    is_free = not node.name.startswith("_") or node.name == "__init__"
                    count = len(given.posonlyargs + given.args) + (0 if is_free else len(given.kwonlyargs))
                    if count > MOST_PARAMETERS:
                        many.append(f"{module}.{node.name}: {count}")
    assert many == []


def test_imports_within_the_command_line_point_one_way() -> None:
    for module in named("ckpt_cli"):
        names = imports(module)
        roots = {name.partition(".")[0] for name in names}
        inside = {name.split(".")[1] for name in names if name.startswith("ckpt_cli.")}
        if module != "ckpt_cli.render.progress":
            assert "rich" not in roots, f"{module}: only render/progress.py imports rich"
        if module == "ckpt_cli":
            own = {"__future__", "_thread", "importlib", "ckpt_cli.memory", "ckpt_cli.own_formats"}
            assert names <= own, "the package imports nothing else"
        if module.startswith(("ckpt_cli.operations", "ckpt_cli.runtime")):
            assert not roots & {"click", "rich"}, module
            assert inside <= {module.split(".")[1]}, module
        if module.startswith("ckpt_cli.render."):
            assert inside <= {"operations", "render"}, module
        if module.startswith("ckpt_cli.api."):
            assert not roots & {"click", "rich"}, module
            assert inside <= {"runtime", "operations", "render", "api"}, module
        if module.startswith("ckpt_cli.commands."):
            others = [name for name in names if name.startswith("ckpt_cli.commands.")]
            assert not others, f"{module}: commands do not import each other"


_SYSTEM = "access fstat fwalk listdir lstat open pread preadv readlink scandir stat walk"
_PATHS = "exists getmtime getsize isdir isfile islink lexists realpath samefile"
ASKING = {f"os.{name}" for name in _SYSTEM.split()} | {f"os.path.{name}" for name in _PATHS.split()}
ASKING |= {"open", "io.open", "io.FileIO", "mmap.mmap", "pathlib", "glob", "tempfile"}
"""Functions that look up or open files."""

MAY_ASK = {
    "ckpt_cli.commands.explain": "reads text, also from a pipe, which no store opens",
    "ckpt_cli.cli.install": "puts a script where a shell looks, on this machine",
    "ckpt_cli.cli.main": "lists its own modules, and opens the null device",
    "ckpt_cli.memory": "looks whether there is memory, which no file has to do with",
    "ckpt_cli.own_formats": "compares the folder of `formats` with the one beside its own",
    "ckpt_cli.operations.look.complaints": "reads its own table",
    "ckpt_cli.operations.runs.state_changes": "is `ckpt state`, which changes directories of this machine",
    "ckpt_cli.render.findings.github": "writes the summary of a step of GitHub Actions",
    "ckpt_cli.runtime.compat.v1.train": "removes files, as TensorFlow does",
    "ckpt_cli.runtime.estimator.checks": "makes a model directory where none is named",
    "ckpt_cli.runtime.keras.callbacks": "writes a CSV file",
    "ckpt_cli.runtime.data.files": "reads lines and records of files, as TensorFlow does",
    "ckpt_cli.runtime.io": "is tf.io, which reads and writes files of this machine",
    "ckpt_cli.cli.guesses": "looks whether a word of the command line is a path",
    "ckpt_cli.render.pager": "asks whether somebody can press a key",
    "ckpt_cli.render.page": "reads its own style and scripts",
    "formats.core.chunks": "keeps what does not fit into memory",
    "formats.h5.weights_writer": "writes a file",
    "formats.h5.writer": "writes a file",
    "formats.known.hdf5": "writes a file",
    "formats.known.keras": "inflates weights to a file without a name",
    "formats.known.npz": "writes a file",
    "formats.model.sharding": "writes a file",
    "formats.tf.bundle.links": "writes a file",
    "formats.tf.bundle.shards": "brings files to their new names",
    "formats.tf.bundle.writer": "writes a file",
    "formats.tf.run.events": "writes a file",
    "formats.tf.run.leftovers": "is `ckpt state`, which removes what lies around on this machine",
}
"""Modules outside the store room that do so, with the reason; readers use a `formats.location.Location`."""


def dotted(node: ast.expr) -> str:
    """Return `os.path.exists` for that expression, and "" for anything but a chain of names."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


@cache
def asks(module: str) -> frozenset[str]:
    """Return what of the above a module names."""
    nodes = list(ast.walk(parsed(module)))
    named = {dotted(node) for node in nodes if isinstance(node, ast.Attribute)}
    called = {
        node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return frozenset((named | called | imports(module)) & ASKING)


def test_only_stores_and_writers_ask_the_system_for_files() -> None:
    asking = {module for module in modules() if asks(module)}
    assert {module for module in asking if not module.startswith("formats.store.")} == set(MAY_ASK)


def test_in_the_store_room_the_local_store_and_those_who_write_ask() -> None:
    store = "formats.store."
    asking = {name.removeprefix(store) for name in modules() if room(name) == "store" and asks(name)}
    elsewhere = {name for name in asking if not name.startswith("local.")}
    # Tests fill memory from files; an object of git is copied to a file that can be read at offsets.
    # How much memory there is, the system says in files of its own.
    assert elsewhere == {"remote.bucket_staging", "remote.upload", "memory", "git", "work.available_memory"}


HEAVY = (
    "numpy",
    "h5py",
    "ml_dtypes",
    "rich",
    "click",
    "cramjam",
    "ckpt_cli",
    "importlib.metadata",
    "difflib",
    "http.client",
    "ssl",
    "asyncio",
    "concurrent.futures",
    "obstore",
    "formats.store.remote.range_cache",
    "formats.store.remote.server",
    "formats.store.remote.transport",
    "formats.store.remote.http",
    "formats.store.remote.hub",
    "formats.store.remote.bucket_objects",
)

LISTING = """
import sys
import formats
with formats.open_checkpoint(sys.argv[1]) as reader:
    listed = [(spec.key, spec.dtype.name, spec.shape, spec.nbytes) for spec in reader.specs.values()]
    kind = set(reader.kinds.values()) if sys.argv[2] == "kinds" else set()
assert listed
print(*sorted(set(sys.argv[3:]) & set(sys.modules)))
"""


@pytest.mark.parametrize(
    "path",
    [
        "name_based/adam/model.ckpt-5",
        "estimator_iris/models/iris",
        "pairs/object_based",
        "keras_mlp/mlp.full.h5",
        "keras3_mlp/mlp.weights.h5",
    ],
)
def test_listing_loads_nothing_heavy(path: str) -> None:
    command = [sys.executable, "-c", LISTING, data_path(path), "specs", *HEAVY]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_kinds_of_a_name_based_checkpoint_need_no_numpy() -> None:
    command = [sys.executable, "-c", LISTING, data_path("name_based/adam/model.ckpt-5"), "kinds", *HEAVY]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("path", ["name_based/adam/model.ckpt-5", "keras_mlp/mlp.full.h5"])
def test_listing_in_a_pipe_starts_with_click_alone(path: str) -> None:
    heavy = [name for name in HEAVY if name not in ("click", "ckpt_cli")]
    command = [sys.executable, "-X", "importtime", "-m", "ckpt_cli", "ls", data_path(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "click" in imported
    assert not imported.intersection(heavy)


LISTS_A_BUNDLE = """
    ckpt_cli ckpt_cli.api ckpt_cli.api.listing ckpt_cli.api.rules ckpt_cli.cli
    ckpt_cli.cli.help ckpt_cli.cli.main ckpt_cli.cli.option_rules ckpt_cli.cli.options
    ckpt_cli.cli.signals ckpt_cli.cli.version ckpt_cli.memory ckpt_cli.operations
    ckpt_cli.operations.look ckpt_cli.operations.look.listing
    ckpt_cli.operations.reporting ckpt_cli.operations.select
    ckpt_cli.operations.select.arguments ckpt_cli.operations.select.columns
    ckpt_cli.operations.select.selection ckpt_cli.own_formats ckpt_cli.render
    ckpt_cli.render.base ckpt_cli.render.listing ckpt_cli.render.listing_tensors
    ckpt_cli.render.report ckpt_cli.render.tables ckpt_cli.render.text
    ckpt_cli.render.workflow_commands formats formats.core formats.core.chunks
    formats.core.collector formats.core.dtypes formats.core.escape formats.core.notices
    formats.core.region formats.core.slicing formats.core.spec formats.core.spec_table
    formats.core.unraisable formats.core.words formats.errors formats.find formats.find.opening
    formats.find.registry formats.find.resolve formats.location formats.model
    formats.model.checkpoint_files formats.model.expansion formats.model.facts
    formats.model.foreign formats.model.object_keys formats.model.orbax_files
    formats.model.probe formats.model.public formats.model.reader formats.model.tensor
    formats.model.verification formats.model.weight_map formats.store formats.store.base
    formats.store.content_cache formats.store.local formats.store.local.files
    formats.store.local.obstacles formats.store.local.removing formats.store.ranges
    formats.store.readahead formats.store.siblings formats.store.urls formats.store.work
    formats.store.work.cancellation formats.store.work.counters
    formats.store.work.single_flight formats.store.work.task_context
    formats.store.work.workers formats.tf formats.tf.bundle formats.tf.bundle.index
    formats.tf.bundle.payload formats.tf.bundle.reader formats.tf.bundle.slices
    formats.wire formats.wire.coding formats.wire.compression formats.wire.crc32c
    formats.wire.limits formats.wire.magic formats.wire.messages
    formats.wire.ordered_code formats.wire.protobuf formats.wire.sstable
"""


def test_listing_a_bundle_imports_these_modules_alone() -> None:
    """Each module costs the start a third of a millisecond: a new one has to be worth it."""
    command = [sys.executable, "-X", "importtime", "-m", "ckpt_cli", "ls", data_path("pairs/object_based")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not imported.intersection(("json", "shutil", "shlex", "unicodedata", "logging", "pkgutil"))
    ours = {name for name in imported if name.partition(".")[0] in ("ckpt_cli", "formats")}
    assert sorted(ours) == sorted(LISTS_A_BUNDLE.split())


def test_no_module_branches_on_the_name_of_a_format() -> None:
    """Formats state their differences themselves (formats.model.reader.Format)."""
    ids = {found.name for found in all_formats()}
    for module in modules():
        for node in ast.walk(parsed(module)):
            if isinstance(node, ast.Compare):
                told = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
            elif isinstance(node, ast.Tuple | ast.List | ast.Set) and len(node.elts) > 1:
                told = {each.value if isinstance(each, ast.Constant) else None for each in node.elts}
                told = told if told <= ids else set()
            else:
                continue
            assert ids.isdisjoint(told), f"{module}:{node.lineno}: {ast.unparse(node)}"
