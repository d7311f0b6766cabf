"""Every hint that ends in a command of ckpt's is run as printed; what it writes is compared with the source.

`PLACES` has the functions that make such hints, each with lines that print one in the folder that
`lay_out` makes.  A hint that is made anywhere else fails the first test.
"""

from __future__ import annotations

import ast
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from formats.wire.messages import BundleHeaderProto, VersionDef
from tests.cli import examples
from tests.cli.running import Starter
from tests.support import data_path, write_bundle
from tests.writing import save

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMANDS = sorted(name.removesuffix(".py") for name in os.listdir(os.path.join(ROOT, "ckpt_cli", "commands")))
_COMMAND = re.compile(rf"\bckpt (?:{'|'.join(COMMANDS)}|help)\b")
_HINT = re.compile(r"^hint: (?:.*[:;] )?(ckpt .*)$", re.MULTILINE)
_TEMPLATE = data_path("bert_template", "other_names", "with_adam", "ckpt-1")
_FOLDER = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")

PLACES = {
    "ckpt_cli/commands/explain.py _explain_text": ["explain notes.txt", "explain run/ckpt-10.index"],
    "ckpt_cli/api/match.py write_proposals": [f"match bert-2 {_TEMPLATE} --save-map there.tsv"],
    "ckpt_cli/commands/verify.py _rescue": ["verify cut-10"],
    "ckpt_cli/cli/install.py install": ["completion bash --install"],
    "ckpt_cli/operations/select/name_map.py packs_hints": [
        "convert bert-2 new.npz --map brt",
        "convert other.npz new.safetensors --layout pytorch",
    ],
    "ckpt_cli/operations/select/selection.py prove_graph": ["convert graphless new.npz --weights-only"],
    "ckpt_cli/operations/select/selection.py nothing_selected": ["ls run/ckpt-10 --kind slot --dtype int8"],
    "ckpt_cli/operations/select/selection.py unmatched": ["show graphless nosuch"],
    "ckpt_cli/operations/select/selection.py close_keys": ["show run/ckpt-10 '0123456789'"],
    "ckpt_cli/operations/compare/match.py ": ["match full.h5 run/ckpt-10", "graph bert-2"],
    "ckpt_cli/operations/look/contract.py listed": ["verify bert-2 --against bert-2"],
    "ckpt_cli/operations/convert/accounting.py look_at_names": [
        f"convert bert-2 new-1 --like {_TEMPLATE}",
        f"convert bert-2 new-1 --like {_TEMPLATE} --weights-only --partial",
        "convert full.h5 new.npz --like other.npz",
    ],
    "ckpt_cli/operations/convert/extract.py _rejection": ["extract run/ckpt-10 iterator -o new.npy"],
    "ckpt_cli/operations/convert/average.py last_of": ["average --last 20 run -o new-1"],
    "ckpt_cli/operations/convert/average.py _check_alike": [
        "average full.h5 bert-2 -o new-1",
        "average left-1 right-1 -o new-1",
    ],
    "ckpt_cli/operations/convert/rename.py _refuse_unread": ["rename objects.npz new.npz --add-prefix x/"],
    "ckpt_cli/operations/runs/state_changes.py plan": ["state stateless --set ckpt-8"],
    "ckpt_cli/operations/look/verify.py _unreadable": ["verify below"],
    "formats/find/directory.py no_checkpoints": ["ls below"],
    "formats/find/directory.py require_latest": ["show gone"],
    "formats/find/resolve.py rebuilding": ["ls run/lost-10", "verify cut-10"],
    "formats/find/resolve.py suggest": ["ls run/zzzzzzzz"],
    "formats/model/reader.py proved_facts": ["rename broken.keras new.keras --sub 'hidden=>h'"],
    "formats/model/shards.py refuse_without_index": ["verify indexless"],
    "formats/model/shards.py _open_shards": ["ls folder"],
    "formats/model/shards.py _error": ["ls contradicting"],
    "formats/safetensors/reader.py _read_header": ["ls metadata.safetensors"],
    "formats/tf/bundle/rename.py _damaged": ["rename graphflipped new-1 --sub 'net=>n'"],
    "formats/tf/bundle/rename.py _note_place": ["rename counted-1 new-1 --sub 'a=>b'"],
}

NO_HINTS = {
    "ckpt_cli/cli/welcome.py next_steps": "three lines of `ckpt` alone",
    "ckpt_cli/commands/convert.py command": "the help of an option",
    "ckpt_cli/commands/diff.py _hint_without_values": "a note; tests/cli/test_diff.py runs it",
    "ckpt_cli/commands/diff.py _judged": "a note; tests/cli/test_distances.py runs it",
    "ckpt_cli/commands/explain.py _list_topics": "a note",
    "ckpt_cli/commands/explain.py _read": "the right side of a pipe",
    "ckpt_cli/commands/graph.py _command": "the command that made a page, in its head",
    "ckpt_cli/commands/ls.py _list_directory": "a note",
    "ckpt_cli/commands/match.py _advise": "a note",
    "ckpt_cli/commands/match.py command": "a note",
    "ckpt_cli/commands/report.py _command": "the command that made a page, in its head",
    "ckpt_cli/commands/state.py _show_flaws": "a note",
    "ckpt_cli/commands/verify.py command": "the help of an option",
    "ckpt_cli/operations/signing/envelope.py read_envelope": "the name of the program that signs",
    "ckpt_cli/cli/resume.py _same_command": "the command as it was given: tests/cli/resume runs it",
    "ckpt_cli/cli/install.py _is_ours": "a mark in a file",
    **dict.fromkeys(
        (
            *("ckpt_cli/cli/guesses.py _filled", "ckpt_cli/cli/guesses.py _option_line"),
            *("ckpt_cli/cli/guesses.py _output_line", "ckpt_cli/cli/guesses.py _as_argument"),
            *("ckpt_cli/cli/guesses.py _of_value", "ckpt_cli/cli/guesses.py _of_missing"),
            *("ckpt_cli/cli/guesses.py _with_output", "ckpt_cli/cli/guesses.py _of_usage"),
            *("ckpt_cli/cli/guesses.py _of_path", "ckpt_cli/cli/guesses.py _of_selection"),
            *("ckpt_cli/cli/guesses.py _compare_shapes", "ckpt_cli/cli/guesses.py _with_stats"),
        ),
        "hints for wrong guesses, which GUESSES runs",
    ),
    "ckpt_cli/cli/guesses.py no_command": "part of a message",
    "ckpt_cli/cli/hints.py _of_own_options": "options of another command, as ADVICE has them",
    "ckpt_cli/operations/compare/thresholds.py _no_document": "a message",
    "ckpt_cli/operations/compare/match.py remedy_for_dtypes": "tests/cli/test_followed_hints.py runs it",
    "ckpt_cli/operations/compare/match.py graph_of": "tests/cli/test_followed_hints.py runs it",
    "ckpt_cli/operations/look/explain.py ": "the head of a page",
    "ckpt_cli/operations/report/build.py _compared": "a page",
    "ckpt_cli/operations/report/build.py _verified": "a page",
    "ckpt_cli/operations/report/build.py of_stats": "a page",
    "ckpt_cli/operations/runs/listing.py _interrupted": "a note",
    "ckpt_cli/operations/runs/listing.py _directory_document": "a note",
    "ckpt_cli/operations/runs/state_changes.py _add": "a warning",
    "ckpt_cli/operations/reporting.py warn_of_findings": "a warning",
    "formats/model/reader.py require_writer": "`ckpt explain formats`, for formats without a writer",
    "formats/store/remote/buckets.py look_without_listing": "`ckpt explain environment`, for buckets alone",
    "formats/store/remote/buckets.py named": "`ckpt explain environment`, for buckets alone",
    "formats/known/listing.py ": "what the format is, in tables",
    "formats/store/remote/object_lock.py _lost": "`ckpt verify` of a bucket, as tests/servers has it",
    "formats/store/local/staging.py remove": "a warning",
    "formats/tf/run/leftovers.py ": "part of a warning",
}
"""Other functions that name a command, and what for."""


GUESSES = {
    "convert run/ckpt-10 new.npz --dtype float16": "ckpt convert run/ckpt-10 new.npz --cast float16",
    "extract run/ckpt-10 -o new.npz --dtype float16": "ckpt extract run/ckpt-10 -o new.npz --cast float16",
    "prune run": "ckpt state --keep 3 -n run",
    "rm run/ckpt-8": "ckpt state --keep 3 -n run",
    "clean run": "ckpt state --fix -n run",
    "status run": "ckpt state run",
    "checkout run/ckpt-8": "ckpt state --set ckpt-8 -n run",
    "strip run/ckpt-10": "ckpt convert run/ckpt-10 DST --weights-only",
    "dump run/ckpt-10 net/l1/kernel": "ckpt show run/ckpt-10 net/l1/kernel",
    "view run/ckpt-10": "ckpt show run/ckpt-10",
    "inspect_checkpoint run/ckpt-10": "ckpt show run/ckpt-10",
    "merge run/ckpt-9 run/ckpt-10": "ckpt average run/ckpt-9 run/ckpt-10 -o mean",
    "merge run/ckpt-9": "ckpt help average",
    "cp run/ckpt-10 copy-10": "ckpt convert run/ckpt-10 copy-10",
    "export run/ckpt-10 new.safetensors": "ckpt convert run/ckpt-10 new.safetensors",
    "restore run/ckpt-9 run/ckpt-10": "ckpt match run/ckpt-9 run/ckpt-10",
    "quantize run/ckpt-10 new.npz": "ckpt convert run/ckpt-10 new.npz --cast float16",
    "h5ls full.h5": "ckpt ls full.h5",
    "tree full.h5": "ckpt ls --tree full.h5",
    "grep kernel run/ckpt-10": "ckpt ls run/ckpt-10 kernel",
    "sha256sum run/ckpt-10": "ckpt ls --digest sha256 run/ckpt-10",
    "fsck run": "ckpt verify run",
    "blame run": "ckpt log run",
    "compare run/ckpt-10 run/ckpt-10": "ckpt diff run/ckpt-10 run/ckpt-10",
    "inspct run/ckpt-10": "ckpt show run/ckpt-10",
    "check": "ckpt help verify",
    "state --keep run": "ckpt state --keep 3 -n run",
    "prune nosuch": "ckpt state --keep 3 -n nosuch",
    "diff nosuch": "ckpt log nosuch",
    "state --keep runA": "ckpt state --keep 3 -n runA",
    "verify -j run": "ckpt verify -j 3 run",
    "diff run": "ckpt log run",
    "diff run/ckpt-10": "ckpt log run",
    "diff run/ckpt-10..run/ckpt-10": "ckpt diff run/ckpt-10 run/ckpt-10",
    "convert run/ckpt-10 --to npz": "ckpt convert run/ckpt-10 --to npz DST",
    "convert run/ckpt-10 -o new.npz": "ckpt convert run/ckpt-10 new.npz",
    "convert --src run/ckpt-10 new.npz": "ckpt convert run/ckpt-10 new.npz",
    "extract run/ckpt-10 net/l1/kernel new.npy": "ckpt extract run/ckpt-10 net/l1/kernel -o new.npy",
    "extract run/ckpt-10": "ckpt extract run/ckpt-10 -o tensors.npz",
    "average run/ckpt-9 run/ckpt-10": "ckpt average run/ckpt-9 run/ckpt-10 -o DST",
    "graph run/ckpt-10 new.svg": "ckpt graph run/ckpt-10 -o new.svg",
    "report run/ckpt-10 new.html": "ckpt report run/ckpt-10 -o new.html",
    "ls run --format json": "ckpt ls run --json",
    "ls run -o new.txt": "ckpt ls run > new.txt",
    "ls s3://bucket/run --no-sign-request": "ckpt explain environment",
    "show run/ckpt-10 --tensor_name=net/l1/kernel": "ckpt show run/ckpt-10 net/l1/kernel",
    "show run/ckpt-10 net/l1/kernel net/l1/bias": "ckpt stats run/ckpt-10 net/l1/kernel net/l1/bias",
    "show full.h5/dense/kernel": "ckpt show full.h5 dense/kernel",
    "show run/ckpt-10:net/l1/kernel": "ckpt show run/ckpt-10 net/l1/kernel",
    "stats run/ckpt-10 full.h5": "ckpt stats --files run/ckpt-10 full.h5",
    "ls 'run/ckpt-10*'": "ckpt ls run/ckpt-10*",
    "verify run/ckpt-10 --against shapes.lock": "ckpt diff shapes.lock run/ckpt-10 --no-values",
    "verify run/ckpt-10 --against shapes.lock --no-values": "ckpt diff shapes.lock run/ckpt-10 --no-values",
}
"""Wrong guesses, and the first command that answers each."""


def _named_in(node: ast.AST, function: str) -> Iterator[str]:
    """Yield the functions below `node` that name a command of ckpt's outside their docstrings."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        inside = child.name if isinstance(child, ast.FunctionDef | ast.ClassDef) else function
        text = child.value if isinstance(child, ast.Constant) else None
        called = child.func.id if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) else ""
        if called == "command_line" or (isinstance(text, str) and _COMMAND.search(text)):
            yield inside
        yield from _named_in(child, inside)


def test_every_place_that_names_a_command_is_known() -> None:
    found = set()
    for package in ("ckpt_cli", "formats"):
        for path in glob.glob(f"{package}/**/*.py", root_dir=ROOT, recursive=True):
            if not path.startswith("ckpt_cli/runtime/"):
                tree = ast.parse(Path(ROOT, path).read_text())
                found |= {f"{path} {function}" for function in _named_in(tree, "")}
    assert found - PLACES.keys() - NO_HINTS.keys() == set()
    assert (PLACES.keys() | NO_HINTS.keys()) - found == set()


# What the lines speak of --------------------------------------------------------------


def lay_out(folder: Path) -> None:
    examples.lay_out(folder)
    (folder / "notes.txt").write_text("nothing that is known\n")
    shutil.copy(data_path("bert_template", "gold_map.tsv"), folder / "there.tsv")
    for suffix in (".index", ".data-00000-of-00001"):
        shutil.copy(folder / "run" / f"ckpt-10{suffix}", folder / f"cut-10{suffix}")
        shutil.copy(data_path("corrupt", "graph_cut", f"ckpt{suffix}"), folder / f"graphless{suffix}")
        shutil.copy(folder / "run" / f"ckpt-10{suffix}", folder / f"graphflipped{suffix}")
    index = bytearray((folder / "cut-10.index").read_bytes())
    index[100] ^= 255
    (folder / "cut-10.index").write_bytes(index)
    _flip_graph(folder / "graphflipped")
    np.savez(folder / "other.npz", **{"x/y": np.zeros((2, 3), np.float32)})
    np.savez(folder / "objects.npz", odd=np.array([{}], object), w=np.arange(3.0))
    (folder / "home" / ".local" / "share" / "bash-completion" / "completions").mkdir(parents=True)
    (folder / "home" / ".local" / "share" / "bash-completion" / "completions" / "ckpt").write_text("mine\n")
    for name in ("stateless", "gone", "below/run"):
        shutil.copytree(folder / "run", folder / name)
    (folder / "stateless" / "checkpoint").write_bytes(b"\xff\x00{")
    (folder / "gone" / "checkpoint").write_text('model_checkpoint_path: "ckpt-77"\n')
    shutil.copy(folder / "run" / "ckpt-10.data-00000-of-00001", folder / "run/lost-10.data-00000-of-00001")
    with (
        zipfile.ZipFile(data_path("keras3_mlp", "mlp.keras")) as sound,
        zipfile.ZipFile(folder / "broken.keras", "w") as broken,
    ):
        for name in sound.namelist():
            broken.writestr(name, b"\xff" if name == "metadata.json" else sound.read(name))
    _lay_out_shards(folder)
    header = BundleHeaderProto(num_shards=1, version=VersionDef(producer=1))
    edit = partial(_move_to_shard, number=4)
    write_bundle(str(folder / "counted-1"), {"a": np.arange(3.0)}, header=header, edit=edit)


def _move_to_shard(entries: dict[bytes, Any], number: int) -> None:
    entries[b"a"].shard_id = number


def _flip_graph(prefix: Path) -> None:
    with formats.open_checkpoint(str(prefix)) as reader:
        place = reader["_CHECKPOINTABLE_OBJECT_GRAPH"].stored
    shard = Path(f"{prefix}.data-00000-of-00001")
    data = bytearray(shard.read_bytes())
    data[(place.offset or 0) + 20] ^= 255
    shard.write_bytes(data)


def _lay_out_shards(folder: Path) -> None:
    first, second = {"a": np.arange(3), "b": np.ones((2, 2), np.float32)}, {"c": np.arange(2.0)}
    for name in ("indexless", "folder", "contradicting"):
        (folder / name).mkdir()
        for shard, arrays in zip(_FOLDER, (first, second), strict=True):
            save(folder / name / shard, arrays, "safetensors")
        places = {"a": _FOLDER[0], "b": _FOLDER[0], "c": _FOLDER[0 if name == "contradicting" else 1]}
        if name != "indexless":
            (folder / name / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    (folder / "folder" / _FOLDER[1]).write_bytes((4).to_bytes(8, "little") + b"{{{{")
    save(folder / "metadata.safetensors", first, "safetensors")
    data = (folder / "metadata.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = {"__metadata__": {"x": "y" * (17 << 20)}, **json.loads(data[8 : 8 + length])}
    text = json.dumps(header).encode()
    (folder / "metadata.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


# Running them -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hints") / "laid out"
    folder.mkdir()
    lay_out(folder)
    return folder


def in_a_shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line in a shell that finds `ckpt`."""
    tools = folder.parent / "bin"
    tools.mkdir(exist_ok=True)
    program = tools / "ckpt"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ckpt_cli "$@"\n')
    program.chmod(0o755)
    home = {"HOME": str(folder / "home"), "XDG_DATA_HOME": ""}
    settings = {**os.environ, **home, "PYTHONPATH": ROOT, "PATH": f"{tools}:{os.environ['PATH']}"}
    return subprocess.run(
        line, shell=True, cwd=folder, env=settings, capture_output=True, text=True, check=False
    )


def weights(path: Path) -> list[bytes]:
    with formats.open_checkpoint(str(path), lenient=True) as reader:
        weights = [key for key, kind in reader.kinds.items() if kind == "variable"]
        keys = [key for key in weights if reader.specs[key].dtype.is_floating]  # less a count of steps
        return sorted(reader[key].read().tobytes() for key in keys)


@pytest.fixture(scope="module")
def starter() -> Iterator[Starter]:
    with Starter() as found:
        yield found


@pytest.mark.parametrize("line", GUESSES)
def test_a_wrong_guess_is_answered_with_a_command_that_runs(
    line: str, laid_out: Path, tmp_path: Path, starter: Starter
) -> None:
    folder = tmp_path / "laid out"
    folder.mkdir()
    for name in ("run", "full.h5"):
        copy = shutil.copytree if (laid_out / name).is_dir() else shutil.copy
        copy(laid_out / name, folder / name)
    shutil.copytree(folder / "run", folder / "runA")
    listing = starter.run("ls", "run/ckpt-10", "--json", cwd=folder).out
    (folder / "shapes.lock").write_text(listing)
    said = starter.run(*shlex.split(line), cwd=folder)
    assert said.code != 0, said.out
    hint = _HINT.findall(said.err)[0]
    assert hint == GUESSES[line]
    assert hint != f"ckpt {line}"
    done = in_a_shell(hint, folder)
    if "nosuch" in line:  # the hint keeps the path of the line, rather than take another directory
        assert "nosuch: no such directory" in done.stderr
    else:
        assert done.returncode in (0, 1), f"{hint}\n{done.stderr}"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("convert run/ckpt-10 new.npz --force", "to replace an existing target, pass --overwrite"),
        ("convert run/ckpt-10 new.npz --half", "to change the dtype, pass --cast float16"),
        (
            "convert run/ckpt-10 new.npz --dtype fp16",
            "to change the dtype of tensors, pass --cast instead of --dtype",
        ),
        (
            "convert run/ckpt-10 new.npz --no-optimizer",
            "to leave out the optimizer state, pass --weights-only",
        ),
        ("convert run/ckpt-10 new --format pytorch", "to choose the format, pass --to"),
        ("ls run/ckpt-10 --filter kernel", "to select tensors by a pattern, pass --match"),
        ("stats run/ckpt-10 --nan", "to look for NaN and infinities, pass --fail-on nan,inf"),
        ("diff run/ckpt-9 run/ckpt-10 --tolerance 1", "to allow small differences, pass --atol"),
        ("verify run --num-workers 2", "to work in parallel, pass --jobs"),
        (
            "ls google/bert",
            "to read a model from the Hugging Face Hub: ckpt ls hf://google/bert",
        ),
    ],
)
def test_an_option_of_another_program_is_answered_with_ours(
    line: str, hint: str, laid_out: Path, starter: Starter
) -> None:
    said = starter.run(*line.split(), cwd=laid_out)
    assert said.code in (2, 3)
    assert said.err.splitlines()[1] == f"hint: {hint}"
    assert "did you mean" not in said.err.lower() or "is not a dtype" in said.err


def test_a_checkpoint_in_a_folder_that_is_missing_is_not_a_model_on_the_hub(
    laid_out: Path, starter: Starter
) -> None:
    for path in ("nosuch/ckpt-10", "nosuch/model.h5", "nosuch/my_weights"):
        assert "Hub" not in starter.run("ls", path, cwd=laid_out).err


_PLAIN = "to verify the tensors by key instead, pass --roundtrip hdf5"
ADVICE = [
    (
        f"verify {data_path('dtypes', 'all')} --roundtrip safetensors",
        "to leave this tensor out, pass --exclude num/complex128 to ckpt convert",
        f"convert {data_path('dtypes', 'all')} new.safetensors --exclude num/complex*",
    ),
    (
        "verify run/ckpt-10 --roundtrip h5",
        _PLAIN,
        "convert run/ckpt-10 --to hdf5 new.h5",
    ),
]
"""Lines whose hints are options that the command does not have, such a hint, and a line that follows it."""


@pytest.mark.parametrize(("line", "hint", "followed"), ADVICE)
def test_options_of_another_command_are_named_as_such(
    line: str, hint: str, followed: str, laid_out: Path, tmp_path: Path, starter: Starter
) -> None:
    folder = tmp_path / "laid out"
    shutil.copytree(laid_out, folder)
    said = starter.run(*line.split(), cwd=folder)
    assert said.code == 3
    assert f"hint: {hint}" in said.err.splitlines()
    assert not [
        text
        for text in said.err.splitlines()
        if re.match(r"hint: (to .*, )?(pass|use) --(exclude|like|to) ", text) and "ckpt convert" not in text
    ]
    done = starter.run(*followed.split(), cwd=folder)
    assert done.code == 0, done.err


def test_options_that_a_command_has_are_its_own(starter: Starter, tmp_path: Path) -> None:
    said = starter.run("convert", data_path("dtypes", "all"), "new.safetensors", cwd=tmp_path)
    assert "hint: to leave this tensor out, pass --exclude num/complex128" in said.err.splitlines()


@pytest.mark.parametrize("line", [line for lines in PLACES.values() for line in lines])
def test_a_hint_runs_as_printed(line: str, laid_out: Path, tmp_path: Path) -> None:
    folder = tmp_path / "laid out"
    shutil.copytree(laid_out, folder)
    said = in_a_shell(f"ckpt {line}", folder)
    assert said.returncode in (1, 3), said.stderr
    hints = _HINT.findall(said.stderr)
    assert hints, said.stderr
    assert shlex.join(["ckpt", *shlex.split(line)]) not in hints
    for hint in hints:
        before = set(os.listdir(folder))
        done = in_a_shell(hint, folder)
        assert done.returncode != 2, done.stderr  # no usage error: nothing is for something else
        assert "no such" not in done.stderr
        assert "Traceback" not in done.stderr
        words = shlex.split(hint)
        made = {path.removesuffix(".index") for path in set(os.listdir(folder)) - before}
        targets = made & set(words)
        if done.returncode == 0 and targets and words[1] in ("convert", "rescue"):
            (target,) = targets
            source = next(word for word in words[2:] if not word.startswith("--") and word != "odd")
            source = source.replace("lost-10", "ckpt-10")  # whose data it is
            assert weights(folder / target) == weights(folder / source)
