"""Estimators as TensorFlow 2.15 runs them, the last release that has them."""

import os

import runs
import tensorflow as tf


def run(program, arguments):
    return getattr(runs, program)(tf, **arguments)


def events(directory):
    """Return what TensorFlow's own reader finds in the event files: kinds, scalars and steps."""
    found = []
    for name in sorted(os.listdir(directory)):
        if "tfevents" not in name:
            continue
        for event in tf.compat.v1.train.summary_iterator(os.path.join(directory, name)):
            kind = event.WhichOneof("what")
            if kind == "summary":
                found += [[kind, event.step, one.tag, one.simple_value] for one in event.summary.value]
            elif kind == "session_log":
                found.append([kind, event.step, event.session_log.status, event.session_log.checkpoint_path])
            else:
                found.append([kind, event.step, event.file_version, None])
    return found
