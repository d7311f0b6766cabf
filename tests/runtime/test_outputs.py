"""Models from stored configurations: they say what Keras said, and what is not known is named."""

from __future__ import annotations

import glob
import json
import os

import numpy as np
import pytest

import formats
from ckpt_cli.operations.convert.execute import execute
from ckpt_cli.operations.convert.planner import plan_conversion, target_format
from ckpt_cli.operations.convert.source import Settings
from ckpt_cli.runtime.keras.from_config import model_from_config
from ckpt_cli.runtime.outputs import compare_outputs, load_model, run
from formats.location import parse_location
from tests.support import data_path


def _full_models():
    """Every fixture with a configuration, of those Keras ran: paths below tests/data."""
    root = data_path()
    found = []
    for path in sorted(glob.glob(os.path.join(root, "keras*", "*.h5")) + glob.glob(f"{root}/keras*/*.keras")):
        with formats.open_checkpoint(path) as reader:
            if reader.facts.document().get("config"):
                found.append(os.path.relpath(path, root))
    return found


MODELS = _full_models()


def test_the_fixtures_are_there():
    assert len(MODELS) == 10


@pytest.mark.parametrize("path", MODELS)
def test_outputs_are_those_keras_recorded(path):
    stem = data_path(path.partition(".")[0])
    with formats.open_checkpoint(data_path(path)) as reader:
        model = load_model(reader, reader)
    (found,) = run(model, [np.load(f"{stem}.input.npy")])
    np.testing.assert_allclose(found, np.load(f"{stem}.output.npy"), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("path", MODELS)
@pytest.mark.parametrize(
    "suffix",
    [".weights_only.h5", ".weights.h5", ".index", "_ckpt-1.index", "_ckpt.index", "_both-1.index"],
)
def test_other_files_of_the_same_weights_say_the_same(path, suffix):
    other = data_path(path.partition(".")[0] + suffix)
    if not os.path.exists(other) or (suffix == ".index" and "keras3" in path):
        return
    assert compare_outputs(data_path(path), other).differing == 0


TARGETS = {"tf-object": "c-1", "keras-h5": "c.h5", "keras-weights": "c.weights.h5", "keras": "c.keras"}


@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.parametrize("path", MODELS)
def test_outputs_are_those_keras_recorded_after_a_conversion(path, to, tmp_path):
    """Of every format that can hold a model, also run by the configuration that was carried along."""
    source, target = data_path(path), str(tmp_path / TARGETS[to])
    stem = data_path(path.partition(".")[0])
    if to == "keras" and not path.endswith(".keras"):
        with pytest.raises(formats.errors.ConversionError) as refused:
            converted(source, target, to)
        assert any("--config FILE" in hint for hint in refused.value.hints)
        assert any("--to weights-h5" in hint for hint in refused.value.hints)
        return
    converted(source, target, to)
    given = np.load(f"{stem}.input.npy")
    assert compare_outputs(target, source, given).differing == 0
    with formats.open_checkpoint(target) as reader, formats.open_checkpoint(source) as by:
        carried = to in ("keras-h5", "keras")
        (found,) = run(load_model(reader, reader if carried else by), [given])
    np.testing.assert_allclose(found, np.load(f"{stem}.output.npy"), rtol=1e-5, atol=1e-6)


def converted(source, target, to):
    """Convert by the plan of `ckpt convert`."""
    where = parse_location(target)
    with formats.open_checkpoint(source) as reader:
        plan = plan_conversion(
            reader, list(reader.specs), where, target_format(reader, where, to), Settings()
        )
        execute(plan)


def test_every_kind_of_file_is_compared():
    found = [s for p in MODELS for s in (".weights_only.h5", ".weights.h5", ".index")
             if os.path.exists(data_path(p.partition(".")[0] + s))]  # fmt: skip
    assert {suffix: found.count(suffix) for suffix in set(found)} == {
        ".weights_only.h5": 6, ".weights.h5": 4, ".index": 6,
    }  # fmt: skip


def dense(**options):
    return {"class_name": "Dense", "config": {"name": "d", "units": 2, **options}}


def sequential(*layers, shape=(None, 3)):
    first = {"class_name": "InputLayer", "config": {"name": "i", "batch_input_shape": list(shape)}}
    config = {"name": "s", "layers": [first, *layers]}
    return json.dumps({"class_name": "Sequential", "config": config})


def layer(class_name, **config):
    return {"class_name": class_name, "config": {"name": "x", **config}}


REFUSED = {
    "a class": (sequential(layer("Mystery")), "layer 'x' \\(Mystery\\) is not supported"),
    "a Lambda": (sequential(layer("Lambda", function=["4wAAAA", None, None])), "layer 'x' \\(Lambda\\)"),
    "a class of one's own": (
        sequential({**dense(), "registered_name": "mine>Dense"}),
        "layer 'd' \\(mine>Dense\\) is not supported",
    ),
    "a module of one's own": (sequential({**dense(), "module": "os"}), "layer 'd' \\(os.Dense\\)"),
    "an activation": (sequential(dense(activation="mystery")), "layer 'd' \\(Dense\\): activation 'mystery'"),
    "an activation of one's own": (
        sequential(dense(activation={"class_name": "function", "config": "mine"})),
        "activation 'mine'",
    ),
    "an option": (sequential(dense(lora_rank=3)), "lora_rank=3"),
    "channels first in a recurrent layer": (
        sequential(
            layer("ConvLSTM1D", filters=2, kernel_size=2, data_format="channels_first"), shape=(None, 4, 3, 2)
        ),
        "data_format='channels_first' is not supported",
    ),
    "a window that does not fit": (
        sequential(layer("Conv1D", filters=2, kernel_size=[9]), shape=(None, 4, 2)),
        "makes no sense: One of the dimensions in the output is <= 0 due to downsampling",
    ),
    "a layer at each time": (
        sequential(layer("TimeDistributed", layer=layer("Mystery")), shape=(None, 4, 2)),
        "layer 'x' \\(Mystery\\) is not supported",
    ),
    "a model at each time": (
        sequential(layer("TimeDistributed", layer=layer("Sequential", layers=[])), shape=(None, 4, 2)),
        "layer 'x' \\(Sequential\\) is not supported",
    ),
    "an image too large": (
        sequential(
            layer("Conv2DTranspose", filters=1, kernel_size=[1, 1], strides=[10**5, 10**5]),
            shape=(None, 2, 2, 1),
        ),
        "an output of \\(200000, 200000\\) with 1 channels is too large",
    ),
    "a spread too large": (
        sequential(
            layer("Conv1D", filters=1, kernel_size=[2], padding="causal", dilation_rate=[10**9]),
            shape=(None, 2, 1),
        ),
        "dilation_rate=\\[1000000000\\] is too large",
    ),
    "padding": (sequential(layer("MaxPooling2D", padding="causal")), "padding='causal'"),
    "mixed precision": (sequential(dense(dtype="mixed_float16")), "dtype 'mixed_float16'"),
    "a subclass": (json.dumps({"class_name": "Tower", "config": {"name": "t"}}), "a model of class 'Tower'"),
    "nonsense": (sequential(dense(units="many")), "layer 'd' \\(Dense\\)"),
    "a number too large": (sequential(dense(units=10**12)), "larger than what the checkpoint holds"),
    "an input too large": (sequential(shape=(None, 10**12)), "an input of shape"),
    "no JSON": ("{", "not JSON"),
    "no shape": (
        json.dumps({"class_name": "Sequential", "config": {"name": "s", "layers": [dense()]}}),
        "without the shape of its input",
    ),
    "a circle": (
        json.dumps(
            {
                "class_name": "Functional",
                "config": {
                    "name": "f",
                    "layers": [{**dense(), "name": "d", "inbound_nodes": [[["d", 0, 0, {}]]]}],
                    "input_layers": [],
                    "output_layers": [["d", 0, 0]],
                },
            }
        ),
        "layer 'd' waits for inputs that never come",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_known_is_named(what):
    text, message = REFUSED[what]
    with pytest.raises(formats.errors.UnsupportedFeatureError, match=message):
        model_from_config(text, 10_000, keras3=False)


def test_an_activation_that_keras_3_computes_otherwise_is_not_known():
    text = sequential(dense(activation="hard_sigmoid"))
    assert model_from_config(text, 100, keras3=False).weights
    with pytest.raises(formats.errors.UnsupportedFeatureError, match="hard_sigmoid"):
        model_from_config(text, 100, keras3=True)


@pytest.mark.parametrize(
    "what", [layer("Embedding", input_dim=2, output_dim=2, mask_zero=True), layer("Masking")]
)
def test_masks_that_keras_3_passes_on_otherwise_are_not_known(what):
    text = sequential(what, shape=(None, 4, 2))
    assert model_from_config(text, 100, keras3=False).layers
    with pytest.raises(
        formats.errors.UnsupportedFeatureError, match="a mask, which Keras 3 passes on otherwise"
    ):
        model_from_config(text, 100, keras3=True)


def test_models_nested_too_deeply_are_rejected():
    item = {"class_name": "Sequential", "config": {"name": "s", "layers": []}}
    for _ in range(40):
        item = {"class_name": "Sequential", "config": {"name": "s", "layers": [item]}}
    with pytest.raises(formats.errors.UnsupportedFeatureError, match="nested more than 32 deep"):
        model_from_config(json.dumps(item), 100, keras3=False)
