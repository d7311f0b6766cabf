"""Pipelines as TensorFlow runs them, saved and restored by it."""

import numpy as np
import pipelines
import programs
import tensorflow as tf


def given(program, count):
    """Return the first elements."""
    return pipelines.drawn(pipelines.opened(tf, np, program), count)


def save(program, directory, positions):
    """Save after so many elements each, at `DIRECTORY/POSITION`."""
    for position in positions:
        iterator = pipelines.opened(tf, np, program)
        pipelines.drawn(iterator, position)
        tf.train.Checkpoint(iterator=iterator).write(f"{directory}/{position}")


def following(program, directory, positions, count):
    """Return what follows in iterators restored from there."""
    found = []
    for position in positions:
        iterator = pipelines.opened(tf, np, program)
        tf.train.Checkpoint(iterator=iterator).read(f"{directory}/{position}").assert_consumed()
        found.append(pipelines.drawn(iterator, count))
    return found


def save_refused(program, directory):
    """Return the error of saving an iterator after one element."""
    iterator = pipelines.opened(tf, np, program)
    next(iterator)
    try:
        tf.train.Checkpoint(iterator=iterator).write(f"{directory}/refused")
    except Exception as error:
        return type(error).__name__, str(error)
    return None


def guided(directory, steps):
    return programs.guided(tf, None, directory, steps)


def continue_the_guide(directory, steps):
    return programs.continue_the_guide(tf, tf.keras, directory, steps)


def save_with(program, path, options):
    """Save after three elements of a pipeline with options, by dotted names; return the two that follow."""
    chosen = tf.data.Options()
    for name, value in options.items():
        *owners, last = name.split(".")
        owner = chosen
        for part in owners:
            owner = getattr(owner, part)
        setattr(owner, last, value)
    dataset = eval(program, {"D": tf.data.Dataset, "np": np, "tf": tf})
    iterator = iter(dataset.with_options(chosen))
    pipelines.drawn(iterator, 3)
    tf.train.Checkpoint(iterator=iterator).write(path)
    return pipelines.drawn(iterator, 2)
