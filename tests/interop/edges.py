"""Programs at the edges of what TensorFlow computes; TensorFlow and the runtime both run them.

A case is a title and a short program whose last expression is its answer; cases are in `edges/*.txt`.
`python -m tests.interop.edges` asks TensorFlow for answers that `tests/data/known_answers/edges` does not
have.

An answer must not depend on what ran before. TensorFlow keeps the tensors of Python's numbers and hands out
the one of 0.0 for -0.0, so -0.0 is an array or NumPy's float32. It leaves the derivative of MaxPooling2D as
the memory was where no window fits, so such a layer is called without a derivative.
"""

import ast
import contextlib
import io
import json
import os
import re
import sys
import tempfile

import numpy as np

try:
    from tests.interop import estimating, layer_edges
except ImportError:  # within TensorFlow's environment this folder is all there is
    import estimating
    import layer_edges

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = os.path.join(HERE, "edges")
ANSWERS = os.path.join(os.path.dirname(HERE), "data", "known_answers", "edges")


VALUES = {
    "int32": np.array([[1, -2, 3], [0, 5, 2**31 - 1]], "i4"),
    "int64": np.array([[1, -2, 3], [0, 5, 7]]),
    "uint8": np.array([[1, 2, 3], [0, 5, 255]], "u1"),
    "bool": np.array([[True, False, True], [False, False, True]]),
    "float16": np.array([[0.5, -1.25, 3], [0, 5, 65504]], "f2"),
    "float32": np.array([[0.5, -1.25, 3], [0, np.nan, np.inf]], "f4"),
    "float64": np.array([[0.5, -1.25, 3], [0, 5, -np.inf]]),
    "complex64": np.array([[0.5 + 1j, -1.25, 3j], [0, 5 - 2j, 1]], "c8"),
    "string": np.array([[b"a", b"b", b"c"], [b"", b"e", b"f"]], object),
    "empty": np.zeros((0, 3), "f4"),
    "one": np.array([[0.25]], "f4"),
}
"""One value of each dtype, and those of extreme shapes."""


def families():
    return sorted(name.removesuffix(".txt") for name in os.listdir(CASES))


def cases(family):
    """Return the programs of a file by title, in their order."""
    found = {}
    with open(os.path.join(CASES, family + ".txt"), encoding="utf-8") as file:
        for block in file.read().strip().split("\n\n"):
            title, _, program = block.partition("\n")
            assert title.startswith("# "), block
            assert title[2:] not in found, title
            found[title[2:]] = program.strip()
    return found


def answer(tf, program):
    """Return what a program's last expression is, or the class and the text of the error that it raises."""
    body = ast.parse(program).body
    scope = {
        "tf": tf,
        "np": np,
        "printed": printed,
        "layers": lambda kind, *makers: [
            _tried(lambda m=make: layer_edges.tried(tf, kind, m)) for make in makers
        ],
        "extremes": lambda kinds, make: [
            _tried(lambda k=kind: layer_edges.tried(tf, k, make)) for kind in kinds
        ],
        "second": lambda kind, make: layer_edges.tried(tf, kind, make, second=True),
        "steps": lambda *makers: [_tried(lambda make=make: ten_steps(tf, make())) for make in makers],
        "rows": lambda *makers: [_tried(lambda make=make: ten_steps(tf, make(), True)) for make in makers],
        "each": lambda *trials: [_tried(trial) for trial in trials],
        "cells": lambda text: run_cells(tf, text),
        "trained": lambda *given, **options: estimating.trained(tf, *given, **options),
        "warm": lambda *given, **options: estimating.warm(tf, *given, **options),
        "looked_up": lambda *given, **options: estimating.looked_up(tf, *given, **options),
        "VALUES": VALUES,
    }
    tf.keras.utils.set_random_seed(7)
    tf.keras.backend.clear_session()
    try:
        exec(compile(ast.Module(body[:-1], []), "case", "exec"), scope)
        return described(eval(compile(ast.Expression(body[-1].value), "case", "eval"), scope))
    except Exception as error:
        return _raised(error)


def ten_steps(tf, optimizer, by_rows=False):
    """Return two variables and what the optimizer keeps of them after ten steps."""
    a, b = tf.Variable([[1.0, -2.0, 3.0], [0.0, 0.5, -1.0], [0.7, 0.1, 0.2]]), tf.Variable([0.5, -0.25])
    for step in range(10):
        gradient = np.cos(np.arange(9.0) * 1.3 + step).reshape(3, 3).astype("f4")
        pairs = [(tf.constant(gradient), a), (tf.constant([0.3 * step, -1.0]), b)]
        if by_rows:
            rows = [step % 3, 1, step % 3]
            pairs[0] = (tf.IndexedSlices(pairs[0][0], tf.constant(rows), tf.constant([3, 3])), a)
        optimizer.apply_gradients(pairs)
    if hasattr(optimizer, "get_slot_names"):
        kept = [
            optimizer.get_slot(one, kind) for kind in sorted(optimizer.get_slot_names()) for one in (a, b)
        ]
    else:
        kept = [[one.name, one] for one in optimizer.variables]
    return [a, b, *kept]


def printed(run):
    """Return the lines that a program prints, those that are overwritten as they first and last were.

    Durations depend on the machine: a T is for each.
    """
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        run()
    found = []
    for line in out.getvalue().split("\n"):
        states = [state.strip("\b").rstrip() for state in line.split("\r") if state.strip("\b")]
        found.append([_untimed(state) for state in dict.fromkeys([*states[:1], *states[-1:]])])
    return found


def run_cells(tf, text):
    """Return what each cell of a notebook prints, and the last expression of each, in a folder of its own.

    Addresses depend on the run, numpy 2 writes np.int64(1), the last digits of floats differ, and how many
    elements TensorFlow's prefetching has ready depends on its threads: none of these is kept.
    """
    scope, found, before = {"tf": tf, "np": np, "os": os, "tf_compat": tf.compat.v1}, [], os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for cell in re.split(r"(?m)^# %%\n", text.strip() + "\n")[1:]:
                found.append(_plain_text(_run_cell(cell, scope)))
        finally:
            os.chdir(before)
    return found


def _run_cell(cell, scope):
    body, out = ast.parse(cell).body, io.StringIO()
    shown = body.pop().value if body and isinstance(body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(out):
        exec(compile(ast.Module(body, []), "cell", "exec"), scope)
        value = eval(compile(ast.Expression(shown), "cell", "eval"), scope) if shown is not None else None
    return out.getvalue() + ("" if value is None else repr(value))


def _plain_text(text):
    text = re.sub(r"<[\w.]*\b(\w+) object at 0x[0-9a-f]+>", r"<\1>", text)
    text = re.sub(r"np\.\w+\(([^()]*)\)", r"\1", text)
    text = re.sub(r"(ITERATOR_STATE', )\[\d+\]", r"\1[n]", text)
    text = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.5g}", text)
    return re.sub(r" +(?=[ ,\]])", "", text)


def _untimed(text):
    text = re.sub(r"(?<= )\d+(s|ms|us)/(step|epoch)", r"T/\2", text)
    return re.sub(r"(?<= - )(ETA: [\d:s]+|\d+s\b)", "T", text)


def _raised(error):
    return {"error": [one.__name__ for one in type(error).__mro__][:-3], "message": str(error)[:120]}


class _Error:
    """An exception of a part of a program."""

    def __init__(self, error):
        self.described = _raised(error)


def _tried(trial):
    try:
        return trial()
    except Exception as error:
        return _Error(error)


def described(value):
    """Return a value as JSON can hold it: what kind of thing it is, and its elements."""
    if isinstance(value, _Error):
        return value.described
    if isinstance(value, dict):
        return {"dict": {str(key): described(one) for key, one in value.items()}}
    if isinstance(value, (list, tuple)):
        return {"list": [described(one) for one in value]}
    if value is None or (isinstance(value, (bool, int, float, str)) and not isinstance(value, np.generic)):
        return {type(value).__name__: value}
    kind = "array" if isinstance(value, (np.ndarray, np.generic)) else "tensor"
    if not hasattr(value, "numpy") and kind == "tensor":
        return {"object": type(value).__name__.lstrip("_")}
    array = np.asarray(value.numpy() if kind == "tensor" else value)
    dtype = value.dtype.name
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag])
    elements = array.ravel().tolist() if array.dtype.kind != "V" else array.astype("f4").ravel().tolist()
    if dtype == "float32" and array.size:
        elements = [float(str(one)) for one in array.ravel()]  # no more digits than tell it apart
    return {kind: [dtype, list(value.shape), [_plain(one) for one in elements]]}


def _plain(element):
    return element.decode("latin-1") if isinstance(element, bytes) else element


def read_answers(family):
    """Return TensorFlow's answers by program."""
    path = os.path.join(ANSWERS, family + ".jsonl")
    if not os.path.isfile(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return dict(map(json.loads, file))


def main():
    sys.path.insert(0, HERE)
    from tests.interop.conftest import TensorFlow

    known = {family: read_answers(family) for family in families()}
    missing = [
        program for family in known for program in cases(family).values() if program not in known[family]
    ]
    judge = TensorFlow("2.15")
    try:
        found = judge.ask("runtime", "edges", programs=missing) if missing else {}
    finally:
        judge.close()
    os.makedirs(ANSWERS, exist_ok=True)
    for family, answers in known.items():
        with open(os.path.join(ANSWERS, family + ".jsonl"), "w", encoding="utf-8") as file:
            for program in cases(family).values():
                file.write(json.dumps([program, {**answers, **found}[program]]) + "\n")


if __name__ == "__main__":
    main()
