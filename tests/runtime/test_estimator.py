"""Estimators: the schedule of their checkpoints, what is restored when, and what is rejected."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import ckpt_cli.runtime as tf
import formats
from ckpt_cli.runtime.compat import v1
from ckpt_cli.runtime.estimator import hooks as estimator_hooks
from formats.location import parse_location
from formats.tf.run.events import CHECKPOINT, START, EventReader, event_files, scalars
from tests.runtime.flowers import Losses, classifier, flowers


def slope(features, labels, mode, params=None):
    """A line through the origin, trained by gradient descent; its loss is the mean square."""
    rate = (params or {}).get("rate", 0.1)
    weight = tf.Variable(0.0, name="weight")
    with tf.GradientTape() as tape:
        predictions = features * weight
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions=predictions)
        loss = tf.reduce_mean(tf.square(predictions - labels))
    weight.assign_sub(rate * tape.gradient(loss, weight))
    step = v1.train.get_global_step().assign_add(1)
    errors = v1.metrics.mean(tf.abs(predictions - labels))
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, predictions=predictions, train_op=tf.group(step), eval_metric_ops={"error": errors}
    )


def line(batch=2, count=8):
    x = np.arange(1, count + 1, dtype=np.float32) / count
    return tf.data.Dataset.from_tensor_slices((x, 3 * x)).repeat().batch(batch)


def once():
    x = np.float32([1, 2, 3, 4, 5])
    return tf.data.Dataset.from_tensor_slices((x, 3 * x)).batch(2)


def steps_in(directory):
    found = (name for name in os.listdir(directory) if name.endswith(".index"))
    return sorted(int(name.removeprefix("model.ckpt-").removesuffix(".index")) for name in found)


def values(prefix):
    with formats.open_checkpoint(str(prefix)) as reader:
        return {key: tensor.read() for key, tensor in reader.items()}


def config(**options):
    return tf.estimator.RunConfig(tf_random_seed=1, **options)


class TestSchedule:
    def test_a_run_begins_and_ends_with_a_checkpoint(self, tmp_path):
        found = tf.estimator.Estimator(slope, str(tmp_path))
        assert found.latest_checkpoint() is None
        assert found.train(line, steps=3) is found
        assert steps_in(tmp_path) == [0, 3]
        assert found.latest_checkpoint() == str(tmp_path / "model.ckpt-3")
        assert (tmp_path / "checkpoint").read_text() == (
            'model_checkpoint_path: "model.ckpt-3"\n'
            'all_model_checkpoint_paths: "model.ckpt-0"\n'
            'all_model_checkpoint_paths: "model.ckpt-3"\n'
        )
        assert values(tmp_path / "model.ckpt-0") == {"global_step": 0, "weight": 0.0}
        assert found.get_variable_names() == ["global_step", "weight"]
        assert found.get_variable_value("global_step") == 3

    def test_600_seconds_are_the_default(self, tmp_path, monkeypatch):
        clock = [1000.0]
        monkeypatch.setattr(estimator_hooks.time, "time", lambda: clock[0])

        class Slow(tf.estimator.SessionRunHook):
            def before_run(self, run_context):
                clock[0] += 250.0

        found = tf.estimator.Estimator(slope, str(tmp_path))
        assert found.config.save_checkpoints_secs == 600
        found.train(line, steps=8, hooks=[Slow()])
        assert steps_in(tmp_path) == [0, 3, 6, 8]

    def test_every_so_many_steps_and_so_many_kept(self, tmp_path):
        found = tf.estimator.Estimator(
            slope, str(tmp_path), config(save_checkpoints_steps=2, keep_checkpoint_max=2)
        )
        found.train(line, steps=5)
        assert steps_in(tmp_path) == [4, 5]
        found.train(line, steps=5)  # a second call knows what the first has left
        assert steps_in(tmp_path) == [9, 10]
        assert (tmp_path / "checkpoint").read_text().count("\n") == 3

    def test_five_are_kept(self, tmp_path):
        found = tf.estimator.Estimator(slope, str(tmp_path), config(save_checkpoints_steps=1))
        found.train(line, steps=9)
        assert steps_in(tmp_path) == [5, 6, 7, 8, 9]

    def test_all_are_kept(self, tmp_path):
        options = config(save_checkpoints_steps=1, keep_checkpoint_max=0)
        tf.estimator.Estimator(slope, str(tmp_path), options).train(line, steps=7)
        assert steps_in(tmp_path) == list(range(8))

    def test_no_checkpoints(self, tmp_path):
        options = config(save_checkpoints_steps=None, save_checkpoints_secs=None)
        tf.estimator.Estimator(slope, str(tmp_path), options).train(line, steps=3)
        assert steps_in(tmp_path) == []

    def test_a_checkpoint_that_was_restored_is_not_written_again(self, tmp_path):
        found = tf.estimator.Estimator(slope, str(tmp_path))
        found.train(line, steps=3)
        before = os.stat(tmp_path / "model.ckpt-3.index")
        found.train(line, steps=2)
        after = os.stat(tmp_path / "model.ckpt-3.index")
        assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
        assert steps_in(tmp_path) == [0, 3, 5]

    def test_training_ends_with_the_data(self, tmp_path):
        found = tf.estimator.Estimator(slope, str(tmp_path))
        found.train(once)
        assert steps_in(tmp_path) == [0, 3]

    def test_no_data_is_not_a_run(self, tmp_path, caplog):
        found = tf.estimator.Estimator(slope, str(tmp_path / "run"))
        found.train(lambda: once().take(0), steps=3)
        assert "made no steps" in caplog.text
        assert not (tmp_path / "run").exists()


class TestTraining:
    def test_two_calls_are_one(self, tmp_path):
        """Bit for bit, where the data continues where it stopped."""
        for kind in ("v1", "v2"):
            first = classifier(tmp_path / kind / "one", kind)
            first.train(flowers(100), steps=30)
            second = classifier(tmp_path / kind / "two", kind)
            second.train(flowers(100), steps=17)
            second = classifier(tmp_path / kind / "two", kind)  # a program that is started again
            second.train(flowers(100, skip=1700), steps=13)
            one, two = (values(tmp_path / kind / run / "model.ckpt-30") for run in ("one", "two"))
            assert one.keys() == two.keys()
            assert all(one[key].tobytes() == two[key].tobytes() for key in one)

    def test_shuffling_goes_by_the_seed(self, tmp_path):
        def losses(name, seed, **options):
            hook = Losses()
            run = classifier(tmp_path / name, config=tf.estimator.RunConfig(tf_random_seed=seed))
            run.train(flowers(32, **options), steps=6, hooks=[hook])
            return hook.losses

        assert losses("a", 1, shuffles=True) == losses("b", 1, shuffles=True)
        assert losses("c", 1, shuffles=True) != losses("d", 2, shuffles=True)
        assert losses("e", 1, shuffles=True) != losses("f", 1)

    def test_an_estimator_leaves_the_random_numbers_of_others_alone(self, tmp_path):
        tf.random.set_seed(5)
        expected = tf.random.uniform([3]).numpy()
        tf.random.set_seed(5)
        classifier(tmp_path).train(flowers(32, shuffles=True), steps=2)
        np.testing.assert_array_equal(tf.random.uniform([3]), expected)

    def test_the_model_function_is_called_once_for_each_call(self, tmp_path):
        modes = []

        def model_fn(features, labels, mode):
            modes.append((mode, labels is None))
            return slope(features, labels, mode)

        found = tf.estimator.Estimator(model_fn, str(tmp_path))
        found.train(line, steps=20)
        found.evaluate(line, steps=4)
        assert len(list(found.predict(once))) == 5
        assert modes == [("train", False), ("eval", False), ("infer", True)]

    def test_params_and_config_are_handed_over(self, tmp_path):
        seen = {}

        def model_fn(features, labels, mode, params, config):
            seen["model"] = (params["rate"], config.model_dir)
            return slope(features, labels, mode, params)

        def input_fn(params, mode, config):
            seen["input"] = (params["rate"], mode, config.model_dir)
            return line()

        found = tf.estimator.Estimator(model_fn, str(tmp_path), params={"rate": 0.5})
        found.train(input_fn, steps=1)
        assert seen == {"model": (0.5, str(tmp_path)), "input": (0.5, "train", str(tmp_path))}
        assert found.params == {"rate": 0.5}

    def test_names_are_made_unique_as_in_a_graph(self, tmp_path):
        def model_fn(features, labels, mode):
            parts = [tf.Variable(1.0), tf.Variable(2.0), tf.keras.layers.Dense(1), tf.keras.layers.Dense(1)]
            out = parts[2](features[:, None]) * parts[0] + parts[3](features[:, None]) * parts[1]
            step = v1.train.get_global_step().assign_add(1)
            return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_mean(out), train_op=step)

        found = tf.estimator.Estimator(model_fn, str(tmp_path))
        found.train(line, steps=1)
        found.train(line, steps=1)  # each call counts names again
        assert found.get_variable_names() == [
            "Variable", "Variable_1", "dense/bias", "dense/kernel", "dense_1/bias", "dense_1/kernel",
            "global_step",
        ]  # fmt: skip

    def test_a_loss_that_is_not_a_number_is_not_saved(self, tmp_path):
        def model_fn(features, labels, mode):
            return slope(features * np.float32("nan"), labels, mode)

        with pytest.raises(tf.estimator.NanLossDuringTrainingError, match="NaN loss during training"):
            tf.estimator.Estimator(model_fn, str(tmp_path)).train(line, steps=3)
        assert steps_in(tmp_path) == [0]

    def test_a_step_that_counts_nothing_is_warned_of(self, tmp_path, caplog):
        def model_fn(features, labels, mode):
            loss = tf.reduce_mean(features * tf.Variable(1.0))
            return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=loss)

        tf.estimator.Estimator(model_fn, str(tmp_path)).train(once)
        assert "global step (tf.train.get_global_step) has not been increased" in caplog.text

    def test_tensors_instead_of_a_dataset_are_every_batch(self, tmp_path):
        found = tf.estimator.Estimator(slope, str(tmp_path))
        x = np.float32([1, 2])
        found.train(lambda: (x, 3 * x), steps=40)
        assert found.get_variable_value("weight") == pytest.approx(3, abs=1e-3)


class TestEvaluation:
    def test_metrics_are_of_all_batches(self, tmp_path):
        found = tf.estimator.Estimator(slope, str(tmp_path))
        found.train(line, steps=1)
        weight = found.get_variable_value("weight")
        metrics = found.evaluate(once)
        x = np.arange(1, 6, dtype=np.float32)
        squares = (x * weight - 3 * x) ** 2
        batches = [squares[:2].mean(), squares[2:4].mean(), squares[4:].mean()]
        assert metrics["error"] == pytest.approx(np.abs(x * weight - 3 * x).mean(), rel=1e-6)
        assert metrics["loss"] == pytest.approx(np.mean(batches), rel=1e-6)
        assert metrics["global_step"] == 1
        assert {type(metrics[name]) for name in ("error", "loss")} == {np.float32}

    def test_nothing_is_trained_and_nothing_saved(self, tmp_path):
        """The model_fn of this test changes its variables in every mode."""
        found = tf.estimator.Estimator(slope, str(tmp_path))
        found.train(line, steps=4)
        first = found.evaluate(line, steps=3)
        assert found.evaluate(line, steps=3) == first
        assert steps_in(tmp_path) == [0, 4]
        assert sorted(os.listdir(tmp_path / "eval"))[0].startswith("events.out.tfevents.")

    def test_keras_metrics(self, tmp_path):
        def model_fn(features, labels, mode):
            spec = slope(features, labels, mode)
            right = tf.keras.metrics.Accuracy()
            right.update_state(labels > 6, spec.predictions > -1)
            mean = tf.keras.metrics.Mean()
            mean.update_state(labels)
            return spec._replace(eval_metric_ops={"right": right, "mean": mean})

        found = tf.estimator.Estimator(model_fn, str(tmp_path))
        found.train(line, steps=2)
        metrics = found.evaluate(once)
        assert metrics["right"] == pytest.approx(3 / 5)
        assert metrics["mean"] == pytest.approx(9)
        assert found.get_variable_names() == ["global_step", "weight"]  # what counts is not saved

    def test_an_untrained_model_is_as_it_begins(self, tmp_path):
        found = tf.estimator.Estimator(slope, str(tmp_path))
        assert found.evaluate(once)["global_step"] == 0
        assert [float(one) for one in found.predict(once)] == [0.0] * 5
        with pytest.raises(ValueError, match="Could not find trained model in model_dir"):
            found.get_variable_names()

    def test_a_checkpoint_of_before(self, tmp_path):
        found = tf.estimator.Estimator(slope, str(tmp_path))
        found.train(line, steps=4)
        first = str(tmp_path / "model.ckpt-0")
        assert found.evaluate(once, checkpoint_path=first)["global_step"] == 0
        assert {float(one) for one in found.predict(once, checkpoint_path=first)} == {0.0}
        with pytest.raises(tf.errors.NotFoundError, match=r"model\.ckpt-9"):
            found.evaluate(once, checkpoint_path=str(tmp_path / "model.ckpt-9"))

    def test_no_batch_is_not_an_evaluation(self, tmp_path):
        with pytest.raises(ValueError, match="input_fn gave no batch"):
            tf.estimator.Estimator(slope, str(tmp_path)).evaluate(lambda: once().take(0))

    def test_predictions_go_side_by_side(self, tmp_path):
        found = tf.estimator.Estimator(slope, str(tmp_path))
        found.train(line, steps=4)
        one, two = found.predict(once), found.predict(once, yield_single_examples=False)
        assert next(one) == next(two)[0]
        assert next(one) == pytest.approx(2 * float(found.get_variable_value("weight")))
        assert len(list(two)) == 2

    def test_two_classes_are_counted_as_tensorflow_counts_them(self, tmp_path):
        """The numbers by hand: a model that has just begun says 0.5, and 0 is then its class."""
        found = classifier(tmp_path, n_classes=2, hidden=[1])
        metrics = found.evaluate(flowers(50, repeats=False, classes=2))
        assert sorted(metrics) == sorted((
            "accuracy", "accuracy_baseline", "auc", "auc_precision_recall", "average_loss", "label/mean",
            "loss", "precision", "prediction/mean", "recall", "global_step",
        ))  # fmt: skip
        assert metrics["label/mean"] == metrics["accuracy_baseline"] == pytest.approx(2 / 3)
        told = list(found.predict(flowers(50, repeats=False, classes=2)))
        scores = np.array([one["logistic"][0] for one in told])
        labels = np.arange(120) % 3 > 0
        assert metrics["prediction/mean"] == pytest.approx(scores.mean(), rel=1e-5)
        assert metrics["accuracy"] == pytest.approx(((scores > 0.5) == labels).mean())
        assert [one["class_ids"][0] for one in told] == (scores > 0.5).tolist()


class TestRefused:
    def test_a_state_file_that_is_missing(self, tmp_path):
        """TensorFlow would begin again, and overwrite the run on its way."""
        found = tf.estimator.Estimator(slope, str(tmp_path))
        found.train(line, steps=4)
        (tmp_path / "checkpoint").unlink()
        for use in (lambda: found.train(line, steps=1), lambda: found.evaluate(once)):
            with pytest.raises(tf.errors.FailedPreconditionError) as caught:
                use()
            assert "model.ckpt-4" in str(caught.value)
            assert f"ckpt state --fix {tmp_path}" in str(caught.value)
        assert steps_in(tmp_path) == [0, 4]

    def test_a_latest_checkpoint_that_is_missing(self, tmp_path, caplog):
        found = tf.estimator.Estimator(slope, str(tmp_path))
        found.train(line, steps=4)
        (tmp_path / "model.ckpt-4.index").unlink()
        with pytest.raises(tf.errors.FailedPreconditionError, match=r"model\.ckpt-0 the latest of them"):
            found.train(line, steps=1)
        assert "Couldn't match files for checkpoint" in caplog.text

    def test_damage(self, tmp_path):
        found = tf.estimator.Estimator(slope, str(tmp_path))
        found.train(line, steps=4)
        data = tmp_path / "model.ckpt-4.data-00000-of-00001"
        data.write_bytes(bytes(len(data.read_bytes())))
        with pytest.raises(formats.ChecksumError, match=r"model\.ckpt-4"):
            found.train(line, steps=1)
        assert steps_in(tmp_path) == [0, 4]

    def test_a_variable_from_elsewhere(self, tmp_path):
        weight = tf.Variable(1.0, name="mine")

        def model_fn(features, labels, mode):
            loss = tf.reduce_mean(features * weight)
            return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=loss)

        with pytest.raises(ValueError, match="'mine:0', which was made outside of it"):
            tf.estimator.Estimator(model_fn, str(tmp_path)).train(line, steps=1)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"steps": 1, "max_steps": 2}, "Can not provide both steps and max_steps"),
            ({"steps": 0}, "Must specify steps > 0, given: 0"),
            ({"max_steps": -1}, "Must specify max_steps > 0, given: -1"),
        ],
    )
    def test_steps_that_make_no_sense(self, tmp_path, arguments, message):
        with pytest.raises(ValueError, match=message):
            tf.estimator.Estimator(slope, str(tmp_path)).train(line, **arguments)

    @pytest.mark.parametrize(
        ("fields", "error", "message"),
        [
            ({"mode": "train"}, ValueError, "Missing loss"),
            ({"mode": "train", "loss": tf.constant(1.0)}, ValueError, "Missing train_op"),
            ({"mode": "eval", "loss": tf.constant([1.0, 2.0])}, ValueError, "Loss must be scalar"),
            ({"mode": "eval", "loss": 1.0}, TypeError, "loss must be Tensor"),
            ({"mode": "infer"}, ValueError, "Missing predictions"),
            ({"mode": "infer", "predictions": {"a": 1}}, TypeError, "predictions must be Tensor"),
            (
                {"mode": "eval", "loss": tf.constant(1.0), "eval_metric_ops": {"a": 1}},
                TypeError,
                r"must be \(metric_value, update_op\) tuples",
            ),
        ],
    )
    def test_specs_that_lack_something(self, fields, error, message):
        with pytest.raises(error, match=message):
            tf.estimator.EstimatorSpec(**fields)

    def test_model_functions(self, tmp_path):
        with pytest.raises(ValueError, match="must include features argument"):
            tf.estimator.Estimator(lambda labels: None, str(tmp_path))
        with pytest.raises(ValueError, match="has following not expected args"):
            tf.estimator.Estimator(lambda features, other: None, str(tmp_path))
        with pytest.raises(ValueError, match="does not include params argument"):
            tf.estimator.Estimator(lambda features: None, str(tmp_path), params={"a": 1})
        with pytest.raises(ValueError, match="should return an EstimatorSpec"):
            tf.estimator.Estimator(lambda features, labels: None, str(tmp_path)).train(line, steps=1)
        with pytest.raises(ValueError, match="does not take labels"):
            tf.estimator.Estimator(lambda features: None, str(tmp_path)).train(line, steps=1)

    def test_options_that_are_not_known_here(self, tmp_path):
        with pytest.raises(NotImplementedError, match="WarmStartSettings: argument var_name_to_vocab_info="):
            tf.estimator.WarmStartSettings("elsewhere", var_name_to_vocab_info={"v": "vocabulary"})
        with pytest.raises(NotImplementedError, match="batch_norm"):
            classifier(tmp_path, batch_norm=True)

    def test_optimizers(self, tmp_path):
        with pytest.raises(ValueError, match=r"Please set your optimizer as .*legacy.Adam"):
            classifier(tmp_path, optimizer=tf.keras.optimizers.Adam(0.1))
        with pytest.raises(ValueError, match="Unsupported optimizer name: Momentum"):
            classifier(tmp_path, "v1", optimizer="Momentum")
        with pytest.raises(ValueError, match="The given object is not an Optimizer instance"):
            classifier(tmp_path, "v1", optimizer=tf.keras.optimizers.legacy.Adam(0.1))

    def test_features_and_labels(self, tmp_path):
        x, y = np.float32([[1, 2], [3, 4]]), np.int64([0, 7])
        wide = tf.estimator.DNNClassifier([2], [tf.feature_column.numeric_column("x")], str(tmp_path))
        with pytest.raises(ValueError, match="Feature x has 2 numbers for each example, and its column 1"):
            wide.train(lambda: ({"x": x}, y), steps=1)
        two = tf.estimator.DNNClassifier(
            [2], [tf.feature_column.numeric_column("x", shape=2)], str(tmp_path), n_classes=3
        )
        with pytest.raises(tf.errors.InvalidArgumentError, match="found 7 at place 1"):
            two.train(lambda: ({"x": x}, y), steps=1)
        with pytest.raises(ValueError, match="Feature x is not in features dictionary"):
            two.train(lambda: ({"y": x}, y), steps=1)
        for labels in (np.float32([0, 0.5]), np.int64([0, -1])):
            with pytest.raises(tf.errors.InvalidArgumentError, match="at place 1 of the batch"):
                two.train(lambda given=labels: ({"x": x}, given), steps=1)
        with pytest.raises(ValueError, match="it returned None"):
            two.train(lambda: None, steps=1)
        assert os.listdir(tmp_path) == []


class TestDirectory:
    def test_a_temporary_folder_where_none_is_given(self, caplog, monkeypatch, tmp_path):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        found = tf.estimator.Estimator(slope)
        assert os.path.dirname(found.model_dir) == str(tmp_path)
        assert os.listdir(found.model_dir) == []
        assert f"Using temporary folder as model directory: {found.model_dir}" in caplog.text
        assert tf.estimator.Estimator(slope).model_dir != found.model_dir

    def test_a_directory_of_the_configuration(self, tmp_path):
        found = tf.estimator.Estimator(slope, config=tf.estimator.RunConfig(model_dir=str(tmp_path)))
        assert found.model_dir == found.config.model_dir == str(tmp_path)
        with pytest.raises(ValueError, match="different values"):
            tf.estimator.Estimator(slope, "other", tf.estimator.RunConfig(model_dir=str(tmp_path)))

    def test_a_directory_that_was_moved(self, tmp_path):
        tf.estimator.Estimator(slope, str(tmp_path / "here")).train(line, steps=3)
        os.rename(tmp_path / "here", tmp_path / "there")
        found = tf.estimator.Estimator(slope, str(tmp_path / "there"))
        found.train(line, steps=2)
        assert found.get_variable_value("global_step") == 5

    def test_a_copy_of_a_run_does_not_delete_the_runs_checkpoints(self, tmp_path):
        """Older TensorFlow wrote absolute paths; in a copy they name the original."""
        options = config(save_checkpoints_steps=1, keep_checkpoint_max=2)
        tf.estimator.Estimator(slope, str(tmp_path / "run"), options).train(line, steps=2)
        shutil.copytree(tmp_path / "run", tmp_path / "copy")
        paths = [tmp_path / "run" / f"model.ckpt-{step}" for step in (1, 2)]
        (tmp_path / "copy" / "checkpoint").write_text(
            f'model_checkpoint_path: "{paths[1]}"\n'
            + "".join(f'all_model_checkpoint_paths: "{path}"\n' for path in paths)
        )
        tf.estimator.Estimator(slope, str(tmp_path / "copy"), options).train(line, steps=4)
        assert steps_in(tmp_path / "run") == [1, 2]
        assert steps_in(tmp_path / "copy") == [1, 5, 6]

    def test_one_directory_under_two_names(self, tmp_path):
        """A checkpoint with two names in the state file is not deleted as older than itself."""
        options = config(keep_checkpoint_max=1)
        found = tf.estimator.Estimator(slope, str(tmp_path / "run"), options)
        found.train(line, steps=2)
        (tmp_path / "link").symlink_to(tmp_path / "run")
        path = tmp_path / "run" / "model.ckpt-2"
        (tmp_path / "run" / "checkpoint").write_text(
            f'model_checkpoint_path: "{path}"\nall_model_checkpoint_paths: "{path}"\n'
        )
        linked = tf.estimator.Estimator(slope, str(tmp_path / "link"), options)
        linked.train(line, steps=2)
        assert steps_in(tmp_path / "run") == [4]
        saver = v1.train.Saver([tf.Variable(1.0, name="a")], max_to_keep=1)
        saver.set_last_checkpoints([str(tmp_path / "run" / "other-1")])
        saver.save(None, str(tmp_path / "link" / "other"), global_step=1)
        assert sorted(path.name for path in (tmp_path / "run").glob("other*.index")) == ["other-1.index"]

    def test_a_checkpoint_that_vanishes_while_it_is_opened(self, tmp_path, monkeypatch, caplog):
        """A run next to us saves the next and deletes this one: the next is taken."""
        caplog.set_level(logging.INFO)
        found = tf.estimator.Estimator(slope, str(tmp_path), config(keep_checkpoint_max=1))
        found.train(line, steps=4)
        from ckpt_cli.runtime.estimator import saver

        opened, is_first = saver.opened, [True]

        def while_training(path):
            if is_first.pop() if is_first else False:
                found.train(line, steps=2)
                assert steps_in(tmp_path) == [6]
            return opened(path)

        monkeypatch.setattr(saver, "opened", while_training)
        assert found.evaluate(once)["global_step"] == 6
        assert "model.ckpt-4 is gone; taking" in caplog.text

    def test_events(self, tmp_path):
        """TensorBoard shows losses by the step they lead to, steps per second, saves."""
        hook = Losses()
        options = config(save_checkpoints_steps=10, save_summary_steps=5, log_step_count_steps=10)
        tf.estimator.Estimator(slope, str(tmp_path), options).train(line, steps=20, hooks=[hook])
        (path,) = event_files(parse_location(str(tmp_path)))
        events = list(EventReader(path))
        told = {}
        for event in events:
            for tag, value in scalars(event):
                told.setdefault(tag, {})[event.step] = value
        assert {step: told["loss"][step] for step in told["loss"]} == {
            step: pytest.approx(hook.losses[step - 1]) for step in (1, 6, 11, 16)
        }
        assert list(told["global_step/sec"]) == [11]
        logs = [(event.step, event.session_log.status) for event in events if event.session_log is not None]
        assert logs == [(0, CHECKPOINT), (1, START), (10, CHECKPOINT), (20, CHECKPOINT)]


class TestHooks:
    def test_the_order_of_calls(self, tmp_path):
        calls = []

        class Hook(tf.estimator.SessionRunHook):
            def begin(self):
                self.step = v1.train.get_global_step()
                calls.append("begin")

            def after_create_session(self, session, coord):
                calls.append(("session", int(session.run(self.step))))

            def before_run(self, run_context):
                return tf.estimator.SessionRunArgs({"step": self.step})

            def after_run(self, run_context, run_values):
                now = int(run_context.session.run(self.step))
                calls.append((int(run_values.results["step"]), now))
                if now == 2:
                    run_context.request_stop()

            def end(self, session):
                calls.append("end")

        tf.estimator.Estimator(slope, str(tmp_path)).train(line, steps=5, hooks=[Hook()])
        assert calls == ["begin", ("session", 0), (0, 1), (1, 2), "end"]
        assert steps_in(tmp_path) == [0, 2]

    def test_a_hook_of_the_model_function_sees_its_tensors(self, tmp_path, caplog):
        caplog.set_level(logging.INFO)

        def model_fn(features, labels, mode):
            spec = slope(features, labels, mode)
            told = tf.estimator.LoggingTensorHook({"largest": tf.reduce_max(features)}, every_n_iter=2)
            return spec._replace(training_hooks=(told,))

        tf.estimator.Estimator(model_fn, str(tmp_path)).train(line, steps=4)
        assert "largest = 0.25" in caplog.text  # of the first batch
        assert "largest = 0.75" in caplog.text  # of the third

    def test_no_variables_are_made_while_training(self, tmp_path):
        """They would turn up in checkpoints that no one could restore."""

        class Late(tf.estimator.SessionRunHook):
            def after_run(self, run_context, run_values):
                tf.Variable(1.0, name="late")

        with pytest.raises(RuntimeError, match="Graph is finalized and cannot be modified: late"):
            tf.estimator.Estimator(slope, str(tmp_path)).train(line, steps=3, hooks=[Late()])
        assert values(tmp_path / "model.ckpt-0").keys() == {"global_step", "weight"}

    def test_names_are_not_fetches(self, tmp_path):
        class Named(tf.estimator.SessionRunHook):
            def before_run(self, run_context):
                return tf.estimator.SessionRunArgs("loss:0")

        with pytest.raises(TypeError, match="'loss:0' is neither a tensor nor a variable"):
            tf.estimator.Estimator(slope, str(tmp_path)).train(line, steps=1, hooks=[Named()])

    def test_listeners(self, tmp_path):
        calls = []

        class Listener(tf.estimator.CheckpointSaverListener):
            def begin(self):
                calls.append("begin")

            def before_save(self, session, global_step_value):
                calls.append(("before", global_step_value))

            def after_save(self, session, global_step_value):
                calls.append(("after", global_step_value))
                return global_step_value == 4

            def end(self, session, global_step_value):
                calls.append(("end", global_step_value))

        options = config(save_checkpoints_steps=4)
        tf.estimator.Estimator(slope, str(tmp_path), options).train(
            line, steps=10, saving_listeners=[Listener()]
        )
        assert calls == [
            "begin", ("before", 0), ("after", 0), ("before", 4), ("after", 4), ("end", 4),
        ]  # fmt: skip

    def test_train_and_evaluate(self, tmp_path):
        found = tf.estimator.Estimator(slope, str(tmp_path), config(save_checkpoints_steps=5))
        metrics, exported = tf.estimator.train_and_evaluate(
            found,
            tf.estimator.TrainSpec(line, max_steps=10),
            tf.estimator.EvalSpec(once, steps=None, throttle_secs=0),
        )
        assert exported == []
        assert metrics["global_step"] == 10
        assert metrics == found.evaluate(once)


class TestRunConfig:
    def test_one_schedule_takes_the_place_of_the_other(self):
        assert config().save_checkpoints_secs == 600
        steps = config(save_checkpoints_steps=10)
        assert (steps.save_checkpoints_steps, steps.save_checkpoints_secs) == (10, None)
        seconds = steps.replace(save_checkpoints_secs=60)
        assert (seconds.save_checkpoints_steps, seconds.save_checkpoints_secs) == (None, 60)
        assert steps.replace(keep_checkpoint_max=10).save_checkpoints_steps == 10
        for make in (config, config().replace):
            with pytest.raises(ValueError, match="cannot be both set"):
                make(save_checkpoints_steps=1, save_checkpoints_secs=1)

    def test_what_makes_no_sense(self):
        with pytest.raises(ValueError, match="save_checkpoints_steps should be >= 0"):
            config(save_checkpoints_steps=-1)
        with pytest.raises(ValueError, match="log_step_count_steps should be > 0"):
            config(log_step_count_steps=0)
        with pytest.raises(ValueError, match='Replacing "speed" is not supported'):
            config().replace(speed=1)
        with pytest.raises(ValueError, match="model_dir should be non-empty"):
            tf.estimator.RunConfig("")


def test_estimators_are_imported_when_they_are_requested():
    """The checkpoint guide's programs do without them, and so does the program's start."""
    lines = (
        "import sys, ckpt_cli.runtime as tf",
        "assert not any('estimator' in name for name in sys.modules), sys.modules",
        "tf.estimator.DNNClassifier, tf.feature_column.numeric_column, tf.compat.v1.estimator.DNNClassifier",
        "tf.compat.v1.train.Saver, tf.compat.v1.metrics.mean",
    )
    subprocess.run([sys.executable, "-c", "; ".join(lines)], check=True)
    for module in (tf, v1, v1.train):
        with pytest.raises(AttributeError, match="nothing_of_this_name"):
            module.nothing_of_this_name  # noqa: B018  looked up, not used
