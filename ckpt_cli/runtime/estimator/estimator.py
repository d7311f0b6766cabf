"""Estimator: a model that lives in a directory.

Each call of `train`, `evaluate` and `predict` calls `model_fn` once, in a graph of its own,
restores the most recent checkpoint of `model_dir` into the variables that it made, and
runs what was recorded for batch after batch.

    model_dir/checkpoint              which checkpoints there are
    model_dir/model.ckpt-<step>.*     five of them, unless RunConfig says otherwise
    model_dir/events.out.tfevents.*   what training told
    model_dir/eval/events...          what evaluation told
tensorflow_estimator/python/estimator/estimator.py
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import logging
import os
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from formats.store.local.directories import make_directories

from ..compat.v1.train import create_global_step
from ..graphs import Graph
from ..ops.random import seeded
from ..reader import load_checkpoint
from ..state_file import latest_checkpoint
from .checks import batch_length, check_arguments, check_steps, checked_hooks, chosen, with_directory
from .hooks import LoggingTensorHook, NanTensorHook, StopAfterNStepsHook, StopAtStepHook
from .inputs import Batch, argument_names, batches
from .recording import Recording
from .restoring import Restorer, saver_of
from .saving import CheckpointSaverHook, RunEvents, StepCounterHook, SummaryHook
from .session import Session
from .spec import EstimatorSpec, ModeKeys
from .warm_start import settings_of, warm_start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .run_config import RunConfig

__all__ = ["Estimator"]

logger = logging.getLogger("ckpt_cli.runtime")


class Estimator:
    """Trains, evaluates and predicts with what a `model_fn` makes."""

    def __init__(
        self,
        model_fn: Callable[..., EstimatorSpec],
        model_dir: str | os.PathLike[str] | None = None,
        config: RunConfig | None = None,
        params: dict[str, Any] | None = None,
        warm_start_from: Any = None,
    ) -> None:
        if model_fn is None:
            raise ValueError("model_fn must be provided to Estimator.")
        check_arguments(model_fn, params)
        self._model_fn = model_fn
        self._config = with_directory(config, model_dir)
        assert self._config.model_dir is not None
        self._model_dir = self._config.model_dir
        self._params = copy.deepcopy(params or {})
        self._warm_start = settings_of(warm_start_from)

    @property
    def model_dir(self) -> str:
        return self._model_dir

    @property
    def config(self) -> RunConfig:
        return copy.deepcopy(self._config)

    @property
    def params(self) -> dict[str, Any]:
        return copy.deepcopy(self._params)

    @property
    def model_fn(self) -> Callable[..., EstimatorSpec]:
        """The model_fn, called with `features`, `labels`, `mode` and `config`."""

        def public(features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
            return self._call_model_fn(features, labels, mode, config)

        return public

    def latest_checkpoint(self) -> str | None:
        """Return the prefix of the most recent checkpoint, None where there is none."""
        return latest_checkpoint(self._model_dir)

    def get_variable_names(self) -> list[str]:
        """Return the names of everything in the most recent checkpoint."""
        return sorted(load_checkpoint(self._trained()).get_variable_to_shape_map())

    def get_variable_value(self, name: str) -> Any:
        """Return the value of a variable in the most recent checkpoint."""
        return load_checkpoint(self._trained()).get_tensor(name)

    def _trained(self) -> str:
        path = self.latest_checkpoint()
        if path is None:
            raise ValueError(f"Could not find trained model in model_dir: {self._model_dir}.")
        return path

    def eval_dir(self, name: str | None = None) -> str:
        """Return the directory that an evaluation's events are in."""
        return os.path.join(self._model_dir, f"eval_{name}" if name else "eval")

    def _call_input_fn(self, input_fn: Callable[..., Any], mode: str) -> Iterator[Batch]:
        offered = {"mode": mode, "params": self.params, "config": self.config}
        names = argument_names(input_fn)
        return batches(input_fn(**{name: value for name, value in offered.items() if name in names}))

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
        names = argument_names(self._model_fn)
        offered = {"labels": labels, "mode": mode, "params": self.params, "config": config}
        if labels is not None and "labels" not in names:
            raise ValueError("model_fn does not take labels, but input_fn returns labels.")
        keywords = {name: value for name, value in offered.items() if name in names}
        spec = self._model_fn(features=features, **keywords)
        if not isinstance(spec, EstimatorSpec):
            raise ValueError("model_fn should return an EstimatorSpec.")  # noqa: TRY004  TensorFlow's
        return spec

    def _record(self, graph: Graph, mode: str, batch: Batch) -> Recording:
        """Call the model_fn, in a graph that is open and has its global step."""

        def call(features: Any, labels: Any) -> EstimatorSpec:
            return self._call_model_fn(features, labels, mode, self.config)

        return Recording(graph, mode, call, batch)

    @contextlib.contextmanager
    def _graph(self) -> Iterator[Graph]:
        with seeded(self._config.tf_random_seed), Graph().opened() as graph:
            create_global_step(graph)
            yield graph

    # Training -----------------------------------------------------------------

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Any = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Any = None,
    ) -> Estimator:
        """Train for `steps` more, or until `max_steps` in all, or as long as there is data; return self."""
        check_steps(steps, max_steps)
        if max_steps is not None and self._restorer().trained_steps() >= max_steps:
            logger.info("Skipping training since max_steps has already saved.")
            return self
        hooks = checked_hooks(hooks)
        if steps is not None or max_steps is not None:
            hooks.append(StopAtStepHook(steps, max_steps))
        with self._graph() as graph:
            found = self._call_input_fn(input_fn, ModeKeys.TRAIN)
            first = next(found, None)
            if first is None:
                logger.warning(
                    "Training with estimator made no steps. Perhaps input is empty or misspecified."
                )
                return self
            recording = self._record(graph, ModeKeys.TRAIN, first)
            loss = self._train(recording, first, found, hooks, saving_listeners)
        logger.info("Loss for final step: %s.", loss)
        return self

    def _train(
        self, recording: Recording, first: Batch, found: Iterator[Batch], hooks: list[Any], listeners: Any
    ) -> Any:
        """Restore, and only then write and make steps; return the loss of the last one."""
        spec = recording.spec
        spec.scaffold.saver = saver_of(spec.scaffold, self._config)
        if self._warm_start is not None:
            warm_start(self._warm_start)
        self._restorer().restore(spec.scaffold)
        spec.scaffold.saver.recover(self._model_dir)
        make_directories(self._model_dir)
        events = RunEvents(self._model_dir)
        try:
            hooks = self._training_hooks(recording, hooks, listeners, events)
            session = Session(recording, hooks, first)
            for hook in hooks:
                hook.begin()
            session.open()
            losses = deque(session.steps(itertools.chain([first], found), spec.loss), maxlen=1)
        finally:
            events.close()
        return losses[-1]

    def _training_hooks(
        self, recording: Recording, hooks: list[Any], saving_listeners: Any, events: RunEvents
    ) -> list[Any]:
        """Return the hooks of a training, in TensorFlow's order."""
        spec, config, graph = recording.spec, self._config, recording.graph
        graph.collections.setdefault("losses", []).append(spec.loss)
        hooks = [*hooks, NanTensorHook(spec.loss)]
        if config.log_step_count_steps:
            told = {"loss": spec.loss, "step": graph.global_step}
            hooks.append(LoggingTensorHook(told, every_n_iter=config.log_step_count_steps))
        hooks += spec.training_hooks
        chief = list(spec.training_chief_hooks)
        savers = [hook for hook in (*hooks, *chief) if isinstance(hook, CheckpointSaverHook)]
        if not savers and (config.save_checkpoints_secs or config.save_checkpoints_steps):
            savers = [
                CheckpointSaverHook(
                    self._model_dir,
                    save_secs=config.save_checkpoints_secs or None,
                    save_steps=config.save_checkpoints_steps or None,
                    scaffold=spec.scaffold,
                    events=events,
                )
            ]
            chief = [savers[0], *chief]
        if saving_listeners:
            if not savers:
                raise ValueError(
                    "There should be a CheckpointSaverHook to use saving_listeners. Please set one of the "
                    "RunConfig.save_checkpoints_steps or RunConfig.save_checkpoints_secs."
                )
            savers[0].add_listeners(saving_listeners)
        if config.log_step_count_steps:
            chief.append(StepCounterHook(config.log_step_count_steps, events=events))
        if config.save_summary_steps:
            told = {**dict(graph.collections.get("summaries", ())), "loss": spec.loss}
            chief.append(SummaryHook(events, told, config.save_summary_steps))
        return [*hooks, *chief]

    def _restorer(self) -> Restorer:
        return Restorer(self._model_dir)

    # Evaluating and predicting ------------------------------------------------

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Any = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Return the metrics over the batches, the mean of their losses, and the global step."""
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        hooks = checked_hooks(hooks)
        if steps is not None:
            hooks.append(StopAfterNStepsHook(steps))
        with self._graph() as graph:
            found = self._call_input_fn(input_fn, ModeKeys.EVAL)
            first = next(found, None)
            if first is None:
                raise ValueError("evaluate: input_fn gave no batch, and nothing can be said of none")
            recording = self._record(graph, ModeKeys.EVAL, first)
            if "global_step" in recording.metrics:
                raise ValueError(
                    "Metric with name `global_step` is not allowed, because Estimator already defines a "
                    "default metric with the same name."
                )
            session = self._restored(recording, [*hooks, *recording.spec.evaluation_hooks], checkpoint_path)
            fetches = [recording.spec.loss, dict(recording.metrics)]
            told = list(session.steps(itertools.chain([first], found), fetches))
            losses = [np.float32(loss) for loss, _ in told]
            # A metric's value is that of all batches up to its own.
            _, metrics = told[-1]
            result = {
                **dict(sorted(metrics.items())),
                "loss": sum(losses, np.float32(0)) / np.float32(len(losses)),
            }
            result["global_step"] = graph.global_step.numpy()
        self._tell(result, self.eval_dir(name))
        return result

    def _tell(self, result: dict[str, Any], directory: str) -> None:
        step = int(result["global_step"])
        told = ", ".join(f"{name} = {value}" for name, value in result.items())
        logger.info("Saving dict for global step %d: %s", step, told)
        scalars = {
            name: float(value)
            for name, value in result.items()
            if name != "global_step" and np.ndim(value) == 0 and np.asarray(value).dtype.kind in "fiu"
        }
        events = RunEvents(directory)
        try:
            events.writer.scalars(step, scalars)
        finally:
            events.close()

    def _restored(self, recording: Recording, hooks: list[Any], checkpoint_path: str | None) -> Session:
        """Return a session whose variables have the values of a checkpoint."""
        scaffold = recording.spec.scaffold
        scaffold.saver = saver_of(scaffold, self._config)
        self._restorer().restore(scaffold, checkpoint_path)
        session = Session(recording, hooks, Batch(None))
        for hook in hooks:
            hook.begin()
        session.open()
        return session

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Any = None,
        hooks: Any = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """Yield the predictions for each example, or for each batch."""
        hooks = checked_hooks(hooks)
        with self._graph() as graph:
            # Labels that a dataset has are of no use here.
            found = (Batch(batch.features) for batch in self._call_input_fn(input_fn, ModeKeys.PREDICT))
            first = next(found, None)
            if first is None:
                return
            recording = self._record(graph, ModeKeys.PREDICT, first)
            predictions = chosen(recording.spec.predictions, predict_keys)
            session = self._restored(recording, [*hooks, *recording.spec.prediction_hooks], checkpoint_path)
        # The graph is closed while the caller has its turn.
        for values in session.steps(itertools.chain([first], found), predictions):
            if not yield_single_examples:
                yield values
            elif not isinstance(predictions, dict):
                yield from values
            else:
                for index in range(batch_length(values)):
                    yield {key: value[index] for key, value in values.items()}
