"""Whether TensorFlow opens and restores checkpoints; run by TensorFlow's Python."""

import os

import tensorflow as tf


def _read_all(path):
    """Open a checkpoint, list it, and read every tensor, as a person who restores it would."""
    reader = tf.train.load_checkpoint(path)
    for key in reader.get_variable_to_shape_map():
        reader.get_tensor(key)


def _restores(path):
    """Whether a program with a variable `v` takes its value; not in a child, where no operation runs."""
    program = tf.train.Checkpoint(v=tf.Variable(0.0))
    try:
        program.restore(path).expect_partial()
    except Exception:
        return False
    return float(program.v) == 1.0


def _dies(work, path):
    """Do it in a process of its own, since some of these files end it; whether it failed."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work(path)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


def refusals(paths):
    """Return, by name, whether opening, listing or reading all of a checkpoint fails, or restoring it."""
    found = {}
    for name, path in paths.items():
        found[name] = _dies(_read_all, path) or ("graph" in name and not _restores(path))
    return found
