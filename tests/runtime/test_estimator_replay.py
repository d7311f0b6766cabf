"""DNNClassifiers next to TensorFlow's own: the same first values, losses, metrics and predictions."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import ckpt_cli.runtime as tf
import formats
from tests.runtime.flowers import DATA, Losses, classifier, flowers

REPLAY = DATA / "estimator_replay"
OPTIMIZERS = {
    "v1": {},
    "v2": {},
    "v2_lr_0.05": {"optimizer": tf.keras.optimizers.legacy.Adagrad(0.05)},
}
CLOSE = {"rtol": 2e-5, "atol": 2e-5}


def values(path):
    with formats.open_checkpoint(str(path)) as reader:
        return {key: tensor.read() for key, tensor in reader.items()}


@pytest.fixture(params=sorted(OPTIMIZERS))
def run(request, tmp_path):
    """A directory with TensorFlow's checkpoint of step 0, its Estimator, and TensorFlow's recorded output."""
    source = REPLAY / request.param
    for file in source.glob("model.ckpt-0.*"):
        shutil.copy(file, tmp_path)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-0"\n')
    config = tf.estimator.RunConfig(save_checkpoints_steps=100, save_summary_steps=50)
    found = classifier(tmp_path, request.param[:2], config=config, **OPTIMIZERS[request.param])
    return found, source, json.loads((source / "training.json").read_text())


def test_the_loss_curve_is_tensorflows(run, tmp_path):
    """So are the checkpoints on the way: their keys, dtypes, shapes, and values to float32 rounding."""
    found, source, told = run
    hook = Losses()
    assert found.train(flowers(100), max_steps=200, hooks=[hook]) is found
    np.testing.assert_allclose(hook.losses, told["losses"], rtol=2e-6)
    assert found.latest_checkpoint() == str(tmp_path / "model.ckpt-200")
    for step in (0, 100, 200):
        ours, theirs = values(tmp_path / f"model.ckpt-{step}"), values(source / f"model.ckpt-{step}")
        assert ours.keys() == theirs.keys()
        for key in theirs:
            assert ours[key].dtype == theirs[key].dtype
            np.testing.assert_allclose(ours[key], theirs[key], err_msg=key, **CLOSE)
    assert found.train(flowers(100), max_steps=200) is found  # has been trained
    assert found.train(flowers(100), max_steps=150) is found
    assert found.get_variable_value("global_step") == 200


def test_metrics_and_predictions_are_tensorflows(run):
    found, source, told = run
    prefix = str(source / "model.ckpt-200")
    metrics = found.evaluate(flowers(100, repeats=False), checkpoint_path=prefix)
    assert metrics.keys() == told["evaluation"].keys()
    for name, value in told["evaluation"].items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-6, err_msg=name)
    predicted = list(found.predict(flowers(100, repeats=False), checkpoint_path=prefix))
    assert len(predicted) == 120
    for ours, theirs in zip(predicted, told["predictions"], strict=False):
        np.testing.assert_allclose(ours["logits"], theirs["logits"], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(ours["probabilities"], theirs["probabilities"], rtol=1e-5, atol=1e-6)
        assert ours["class_ids"].tolist() == [theirs["class_id"]]
        assert ours["classes"].tolist() == [str(theirs["class_id"]).encode()]


@pytest.mark.parametrize("kind", ["v1", "v2"])
class TestIris:
    """TensorFlow's run of 200 steps in batches of 32."""

    def folder(self, kind):
        return DATA / ("estimator_iris" if kind == "v1" else "estimator_iris_v2")

    def facts(self, kind):
        return json.loads((self.folder(kind) / "facts.json").read_text())

    def directory(self, kind, tmp_path):
        return shutil.copytree(self.folder(kind) / "models" / "iris", tmp_path / "iris")

    def test_what_tensorflow_trained_predicts_the_same(self, kind, tmp_path):
        found, facts = classifier(self.directory(kind, tmp_path), kind), self.facts(kind)
        told = json.loads((self.folder(kind) / "predictions.json").read_text())
        features = {name: np.float32(values) for name, values in told["features"].items()}

        def input_fn():
            return tf.data.Dataset.from_tensor_slices((features, told["labels"])).batch(32)

        predicted = list(found.predict(input_fn, predict_keys=["logits", "class_ids"]))
        assert set(predicted[0]) == {"logits", "class_ids"}
        np.testing.assert_allclose([one["logits"] for one in predicted], told["logits"], **CLOSE)
        assert [int(one["class_ids"][0]) for one in predicted] == told["class_ids"]
        metrics = found.evaluate(input_fn)
        for name, value in facts["evaluation"].items():
            np.testing.assert_allclose(metrics[name], value, rtol=1e-5, err_msg=name)
        assert found.get_variable_names() == facts["variable_names"]

    def test_another_model_is_rejected_before_anything_is_written(self, kind, tmp_path):
        """TensorFlow 2's classifier takes the old shapes silently; the older one fails as we do."""
        directory = self.directory(kind, tmp_path)
        before = {file.name: file.read_bytes() for file in directory.iterdir()}
        found = classifier(directory, kind, hidden=self.facts(kind)["second_hidden_units"])
        for use in (
            lambda: found.train(flowers(), steps=1),
            lambda: found.evaluate(flowers(), steps=1),
            lambda: next(found.predict(flowers())),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                use()
            message = str(caught.value)
            assert (
                "tensor_name = dnn/hiddenlayer_0/bias; shape in shape_and_slice spec [20] does not match the "
                "shape stored in checkpoint: [10]"
            ) in message
            assert str(directory / "model.ckpt-200") in message
            assert "give it another model_dir" in message
        assert {file.name: file.read_bytes() for file in directory.iterdir()} == before

    def test_another_kind_of_model_is_rejected(self, kind, tmp_path):
        directory = self.directory(kind, tmp_path)
        other = classifier(directory, {"v1": "v2", "v2": "v1"}[kind])
        with pytest.raises(tf.errors.NotFoundError, match=r"Key .*Adagrad.* not found in checkpoint"):
            other.train(flowers(), steps=1)


def test_predictions_continue_from_each_kind_of_checkpoint(tmp_path):
    """Prediction needs the weights alone, which both kinds name alike."""
    shutil.copytree(DATA / "estimator_iris" / "models" / "iris", tmp_path / "iris")
    one, two = (
        next(classifier(tmp_path / "iris", kind).predict(flowers(repeats=False)))["logits"]
        for kind in ("v1", "v2")
    )
    np.testing.assert_array_equal(one, two)
