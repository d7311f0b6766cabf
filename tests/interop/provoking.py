"""Errors of other programs, provoked: what the oracles of `ckpt explain` share.

A `Provocations` collects functions that do in an empty directory what people do when they get to
read an error.  `text` returns all that the program says to it: traceback, log and warnings.
"""

import gc
import io
import json
import logging
import os
import re
import sys
import tempfile
import traceback
import warnings

_FOREIGN_FRAME = re.compile(r'^  File "(?!.*oracle_explain\w*\.py").*\n(?:    .*\n)*', re.MULTILINE)
_PLACE = re.compile(r'/[^\s"]*?/(site-packages/|oracle_explain\w*\.py)')


class Provocations:
    """Functions by their names; an instance is the decorator that adds one."""

    def __init__(self, *loggers):
        self._functions = {}
        self._loggers = loggers

    def __call__(self, function):
        self._functions[function.__name__] = function
        return function

    def names(self):
        """Return what the program that is installed can be made to say."""
        return list(self._functions)

    def text(self, name, directory):
        """Run the function of this name and return all messages."""
        said = io.StringIO()
        handler = logging.StreamHandler(said)
        levels = [logger.level for logger in self._loggers]
        before = os.getcwd()
        os.chdir(directory)
        for logger in self._loggers:
            logger.addHandler(handler)
            logger.setLevel(logging.WARNING)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                warnings.simplefilter("ignore", DeprecationWarning)
                warnings.simplefilter("ignore", ResourceWarning)
                try:
                    self._functions[name]()
                    gc.collect()
                except Exception:
                    said.write(traceback.format_exc())
        finally:
            os.chdir(before)
            for logger, level in zip(self._loggers, levels, strict=True):
                logger.removeHandler(handler)
                logger.setLevel(level)
        return said.getvalue() + "".join(warnings.formatwarning(*_parts(one)) for one in caught)

    def main(self):
        """Print all texts as one JSON document, for tests without the program (tests/data/explain)."""
        found = {}
        for name in self.names():
            with tempfile.TemporaryDirectory() as directory:
                found[name] = shortened(self.text(name, directory))
        json.dump(found, sys.stdout, indent=1, sort_keys=True)


def _parts(warning):
    return warning.message, warning.category, warning.filename, warning.lineno


def shortened(said):
    """Return messages without the frames of the libraries and without the paths of this machine."""
    return _PLACE.sub(r"\1", _FOREIGN_FRAME.sub("", said))
