"""Helpers of the cases of TensorFlow's tests."""

import contextlib
import logging

import numpy as np


def raises(kinds, function, *arguments, **more):
    """Return the text of the error that a call must end with."""
    try:
        function(*arguments, **more)
    except kinds as error:
        return str(error)
    raise AssertionError(f"no {kinds} from {function}")


def close(found, expected, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance)


def same(found, expected):
    """Assert equal dtypes, shapes and bits."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), (found, expected)
    assert found.tobytes() == expected.tobytes(), (found, expected)


def keys_of(tf, path):
    """Return the keys of a checkpoint, without that of the object graph."""
    return [key for key, _ in tf.train.list_variables(path) if not key.startswith("_")]


@contextlib.contextmanager
def told():
    """Yield a list of what is logged meanwhile."""
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    loggers = [logging.getLogger(name) for name in ("tensorflow", "ckpt_cli.runtime")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield messages
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
