"""Families of models: trained and saved in each form, and taken up again from converted files.

`make` trains a program and records what the uninterrupted run does next; `go_on` loads a file in
another program of the family and says how far it continues as that run does. `judge` does that too, but takes
no steps where the file brings the state, bit for bit, that the program's own file brings.  Run by
TensorFlow's Python.
"""

import contextlib
import json
import os
import traceback

import numpy as np
import tensorflow as tf
from families import layers, training  # noqa: F401  which register their families
from families.program import FAMILIES, FORMS, keras, load, path_of

STEPS, NEXT = 3, 3
OWN_SEED, OTHER_SEED, FRESH_SEED = 1, 2, 3


def names():
    return sorted(FAMILIES)


def _program(name, seed):
    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    return FAMILIES[name](seed)


def make(folder, name):
    """Train a program of the family and save it in each form that it can be; return what is true of it."""
    os.makedirs(f"{folder}/like")
    truth = {"saved": {}, "natively": {}}
    program = _program(name, OTHER_SEED)
    program.train(STEPS)
    _save(program, f"{folder}/like")
    program = _program(name, OWN_SEED)
    program.train(STEPS)
    truth["saved"] = _save(program, folder)
    truth["weights"] = len(program.weights())
    outputs = program.outputs()
    weights = program.weights()
    losses = [program.step() for _ in range(NEXT)]
    np.savez(f"{folder}/truth.npz", outputs, *weights)
    truth["losses"] = losses
    truth["blind"] = _is_blind(name, weights, losses)
    with open(f"{folder}/truth.json", "w") as file:
        json.dump(truth, file)
    for form in truth["saved"]:
        if truth["saved"][form] is None:
            truth["natively"][form] = go_on(folder, name, form, path_of(folder, form))
    with open(f"{folder}/truth.json", "w") as file:
        json.dump(truth, file)
    return truth


def _is_blind(name, weights, losses):
    """Whether a new optimizer continues as the trained one does, so the family cannot test its state."""
    fresh = _program(name, FRESH_SEED)
    for variable, value in zip(fresh.variables(), weights, strict=True):
        variable.assign(tf.cast(value, variable.dtype))
    return _same(np.array([fresh.step() for _ in range(NEXT)]), np.array(losses), 1e-3)


def _save(program, folder):
    """Save in each form; return by form why it cannot be, None for those that are."""
    saved = {}
    for form, (_, save, *_) in FORMS.items():
        try:
            save(program, path_of(folder, form))
            saved[form] = None
        except Exception as error:
            with contextlib.suppress(OSError):
                os.remove(path_of(folder, form))
            saved[form] = f"{type(error).__name__}: {error}"[:300]
    with contextlib.suppress(Exception), open(f"{folder}/config.json", "w") as file:
        file.write(program.model.to_json())
    return saved


def judge(folder, name, form, path):
    """Return [verdict, why] of a converted file."""
    if _LAST[:1] != [folder]:
        _LAST[:] = [folder, _program(name, FRESH_SEED), {}]
        _LAST[1].train(1)
    if _same_as_native(folder, form, path):
        return ["goes on", ""]
    return go_on(folder, name, form, path)


_LAST = []
"""The last family: its folder, a program of it, and by form the values that its own file restores."""


def _same_as_native(folder, form, path):
    _, program, natives = _LAST
    with open(f"{folder}/truth.json") as file:
        natively = json.load(file)["natively"][form][0]
    if natively != "goes on" or not program.is_all_variables():
        return False
    if form not in natives:
        natives[form] = _brought(program, form, path_of(folder, form))
    try:
        found = _brought(program, form, path)
    except Exception:
        return False  # `go_on` says why
    wanted = natives[form]
    return (
        found[0] == wanted[0]
        and len(found[1]) == len(wanted[1])
        and all(map(np.array_equal, found[1], wanted[1]))
    )


def _brought(program, form, path):
    """Return what loading a file brings: the optimizer's configuration, and all variables and the outputs."""
    program.spoil()
    model = program.model
    FORMS[form][2](program, path)
    try:
        return program.settings(), [*program.state(), program.outputs()]
    finally:
        program.model = model


def go_on(folder, name, form, path):
    """Return [verdict, why] of a file of a form."""
    with np.load(f"{folder}/truth.npz") as file:
        outputs, *weights = [file[f"arr_{at}"] for at in range(len(file.files))]
    with open(f"{folder}/truth.json") as file:
        losses = json.load(file)["losses"]
    program = _program(name, FRESH_SEED)
    try:
        before, status = load(program, form, path)
    except Exception:
        return ["not loaded", _last_lines(traceback.format_exc())]
    try:
        found = program.outputs()
    except Exception:
        return ["not loaded", _last_lines(traceback.format_exc())]
    if not _same(found, outputs, 1e-5):
        return _other(program, before, weights, status, found, outputs)
    try:
        reached = [program.step() for _ in range(NEXT)]
    except Exception:
        return ["not loaded", _last_lines(traceback.format_exc())]
    if not _same(np.array(reached), np.array(losses), 1e-4):
        return ["weights alone", f"losses {reached}, not {losses}; {_unmatched(status)}"]
    return ["goes on", ""]


def _other(program, before, weights, status, found, outputs):
    """Weights that are the new program's still were not loaded; others are other weights."""
    why = _unmatched(status)
    if before is not None:
        now = program.weights()
        odd = [
            at
            for at, (is_now, was, wanted) in enumerate(zip(now, before, weights, strict=True))
            if not _same(is_now, wanted, 1e-6) and not _same(is_now, was, 1e-6)
        ]
        left = sum(not _same(is_now, wanted, 1e-6) for is_now, wanted in zip(now, weights, strict=True))
        if left and not odd:
            return ["not loaded", f"{left} of {len(weights)} weights are not restored; {why}"]
        why = f"weights {odd}; {why}"
    return ["other weights", f"outputs {np.ravel(found)[:2]}, not {np.ravel(outputs)[:2]}; {why}"]


def _unmatched(status):
    try:
        if status is not None:
            status.assert_existing_objects_matched()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[-200:]
    return ""


def _same(found, wanted, tolerance):
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.shape != wanted.shape:
        return False
    return bool(np.allclose(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True))


def _last_lines(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    at = max((at for at, line in enumerate(lines) if not line.startswith((" ", "\t"))), default=0)
    return " ".join(line.strip() for line in lines[min(at, len(lines) - 1) :])[:600]


tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
