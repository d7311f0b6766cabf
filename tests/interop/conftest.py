"""TensorFlow as the judge, each release in a virtual environment and a process of its own.

`tensorflow` is a fixture, once for each release: `tensorflow.ask("bundles", "values", path=...)`
calls `values(path=...)` of `oracle_bundles.py`, which TensorFlow's Python imports.  Arguments
and results are JSON.  The process serves all tests, since importing TensorFlow takes seconds;
where it dies, the test that asked fails with its last words and the next one gets another.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

VENVS = {
    "2.15": ("CKPT_TF215", ".venv-tf215"),
    "2.21": ("CKPT_TF221", ".venv-tf221"),
    "torch": ("CKPT_TORCH", ".venv-torch"),
    "orbax": ("CKPT_ORBAX", ".venv-orbax"),
    "orbax-old": ("CKPT_ORBAX_OLD", ".venv-orbax-old"),
    "packs": ("CKPT_PACKS", ".venv-packs"),
    "hub": ("CKPT_HUB", ".venv-hub"),
}
"""By release: the environment variable that says where it is, and where it is by default."""

RELEASES = ("2.15", "2.21")
"""Those of TensorFlow, which most tests ask both."""

LARGE = ("test_packs", "test_hub")
"""Tests of environments with the models of several libraries, which `make packs` runs."""

_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "TF_ENABLE_ONEDNN_OPTS": "0"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if str(item.path).startswith(HERE + os.sep):
            # An environment with the models of several libraries is a large one of its own.
            item.add_marker(pytest.mark.packs if item.path.stem in LARGE else pytest.mark.interop)


class TensorFlow:
    """One release of TensorFlow, asked through a process that is started when first needed."""

    def __init__(self, release: str) -> None:
        variable, directory = VENVS[release]
        self.release = release
        self.python = os.path.join(os.environ.get(variable) or os.path.join(ROOT, directory), "bin", "python")
        self._variable = variable
        self._process: subprocess.Popen[str] | None = None
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  as long as this object

    @property
    def is_old(self) -> bool:
        return self.release == "2.15"

    def ask(self, module: str, function: str, **arguments: Any) -> Any:
        """Return what `function` of `oracle_<module>.py` returns; a failure there is a failure here."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([module, function, arguments]) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            self._process = None
            pytest.fail(
                f"TensorFlow {self.release} died in {module}.{function}:\n{self._last_words()}", pytrace=False
            )
        result = json.loads(answer)
        if "error" in result:
            pytest.fail(f"TensorFlow {self.release}, {module}.{function}:\n{result['error']}", pytrace=False)
        return result["value"]

    def refuses(self, module: str, function: str, **arguments: Any) -> str:
        """Return the error that `function` of `oracle_<module>.py` is expected to end with."""
        with pytest.raises(pytest.fail.Exception) as caught:
            self.ask(module, function, **arguments)
        return str(caught.value)

    def _start(self) -> subprocess.Popen[str]:
        if not os.path.isfile(self.python):
            remedy = f"make interop installs it, or set {self._variable}"
            message = f"TensorFlow {self.release} is not at {self.python}: {remedy}"
            pytest.fail(message, pytrace=False)
        self._process = subprocess.Popen(
            [self.python, os.path.join(HERE, "oracle.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, **_QUIET},
        )
        return self._process

    def _last_words(self) -> str:
        self._log.seek(0)
        return self._log.read()[-2000:]

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()
        self._log.close()


@pytest.fixture(scope="session", params=RELEASES, ids=lambda release: f"tf{release}")
def tensorflow(request: pytest.FixtureRequest) -> Iterator[TensorFlow]:
    judge = TensorFlow(request.param)
    yield judge
    judge.close()


@pytest.fixture(scope="session")
def old_tensorflow() -> Iterator[TensorFlow]:
    """The release that has tf.estimator, Keras 2 and its legacy optimizers."""
    judge = TensorFlow("2.15")
    yield judge
    judge.close()


@pytest.fixture(scope="session")
def new_tensorflow() -> Iterator[TensorFlow]:
    """The release that has Keras 3."""
    judge = TensorFlow("2.21")
    yield judge
    judge.close()


@pytest.fixture(scope="session")
def pytorch() -> Iterator[TensorFlow]:
    """PyTorch, with the same interface."""
    judge = TensorFlow("torch")
    yield judge
    judge.close()


@pytest.fixture(scope="session")
def both_libraries() -> Iterator[TensorFlow]:
    """TensorFlow and PyTorch in one environment, with the models that ckpt's own maps are of."""
    judge = TensorFlow("packs")
    yield judge
    judge.close()


@pytest.fixture(scope="session")
def old_transformers() -> Iterator[TensorFlow]:
    """The transformers that reads TensorFlow's and Flax' weights, with both libraries and PyTorch."""
    judge = TensorFlow("hub")
    yield judge
    judge.close()
