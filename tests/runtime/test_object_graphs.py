"""The same program gives TensorFlow's object graph, node for node, and its keys."""

from __future__ import annotations

import pathlib
from typing import Any, NamedTuple

import numpy as np
import pytest

import ckpt_cli.runtime as tf
import formats

DATA = pathlib.Path(__file__).parents[1] / "data"
K, L = tf.keras, tf.keras.layers


@pytest.fixture(autouse=True)
def _fresh_names():
    K.backend.clear_session()


def as_listed(prefix):
    """Return a checkpoint's graph, and dtype and shape by key in the order of the file."""
    with formats.open_checkpoint(prefix) as reader:
        stored = sorted(
            reader.items(),
            key=lambda item: (item[1].stored.offset, item[0] == "_CHECKPOINTABLE_OBJECT_GRAPH"),
        )
        tensors = [(key, tensor.spec.dtype.name, tensor.spec.shape) for key, tensor in stored]
        return reader.object_graph.proto, tensors


def assert_same(ours, theirs, but=()):
    (graph, tensors), (expected_graph, expected_tensors) = as_listed(ours), as_listed(theirs)
    assert len(graph.nodes) == len(expected_graph.nodes)
    for number, (node, expected) in enumerate(zip(graph.nodes, expected_graph.nodes, strict=True)):
        assert node == expected, f"node {number}"
    assert graph.encode() == expected_graph.encode()
    keys = [tensor for tensor in tensors if tensor[0] not in but]
    assert keys == [tensor for tensor in expected_tensors if tensor[0] not in but]


class Net(K.Model):
    def __init__(self):
        super().__init__()
        self.l1 = L.Dense(5)

    def call(self, x):
        return self.l1(x)


def toy_dataset():
    return (
        tf.data.Dataset.from_tensor_slices({"x": tf.range(10.0)[:, None], "y": tf.zeros([10, 5])})
        .repeat()
        .batch(2)
    )


@pytest.mark.parametrize(
    ("folder", "optimizer"),
    [("guide_adam_new", K.optimizers.Adam), ("guide_adam_legacy", K.optimizers.legacy.Adam)],
)
def test_guide(tmp_path, folder, optimizer):
    net, opt, iterator = Net(), optimizer(0.1), iter(toy_dataset())
    ckpt = tf.train.Checkpoint(step=tf.Variable(1), optimizer=opt, net=net, iterator=iterator)
    example = next(iterator)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.abs(net(example["x"]) - example["y"]))
    opt.apply_gradients(
        zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables, strict=True)
    )
    path = ckpt.save(tmp_path / "ckpt")
    but = ("iterator/.ATTRIBUTES/ITERATOR_STATE",)
    assert_same(path, DATA / folder / "tf_ckpts_after_first_run" / "ckpt-5", but)

    # Slots that a restore makes are named otherwise than those that training makes.
    K.backend.clear_session()
    net, opt, iterator = Net(), optimizer(0.1), iter(toy_dataset())
    again = tf.train.Checkpoint(step=tf.Variable(1), optimizer=opt, net=net, iterator=iterator)
    status = again.restore(path)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.abs(net(example["x"]) - example["y"]))
    opt.apply_gradients(
        zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables, strict=True)
    )
    status.assert_consumed()
    assert_same(again.save(tmp_path / "ckpt"), DATA / folder / "tf_ckpts" / "ckpt-10", but)


def test_lists_and_dicts(tmp_path):
    save = tf.train.Checkpoint()
    save.listed = [tf.Variable(1.0)]
    save.listed.append(tf.Variable(2.0))
    save.mapped = {"one": save.listed[0]}
    save.mapped["two"] = save.listed[1]
    path = save.save(tmp_path / "tf_list_example")
    assert_same(path, DATA / "guide_lists_dicts" / "tf_list_example-1")
    for suffix in (".index", ".data-00000-of-00001"):
        ours, theirs = pathlib.Path(path + suffix), DATA / "guide_lists_dicts" / f"tf_list_example-1{suffix}"
        assert ours.read_bytes() == theirs.read_bytes()


def test_saved_weights(tmp_path):
    net = Net()
    net(tf.ones([2, 1]))
    net.save_weights(tmp_path / "easy_checkpoint")
    assert_same(tmp_path / "easy_checkpoint", DATA / "easy_weights" / "easy_checkpoint")
    assert (tmp_path / "checkpoint").read_bytes() == (DATA / "easy_weights" / "checkpoint").read_bytes()


class Pair(NamedTuple):
    left: Any
    right: Any


def containers():
    count = [0.0]

    def var(shape=()):
        count[0] += 1
        return tf.Variable(tf.fill(shape, count[0]))

    root = tf.train.Checkpoint()
    root.listed = [var(), [var([2]), {"deep": var([1, 2])}], var()]
    root.tup = (var(), var([3]))
    root.pair = Pair(left=var(), right=[var(), var()])
    root.mapped = {"a": var(), "b": {"c": [var()]}}
    root.shared_one = shared = var([2, 2])
    root.shared_two = shared
    node = tf.train.Checkpoint(value=var())
    node.me = node
    other = tf.train.Checkpoint(value=var())
    node.other = other
    other.back = node
    root.cycle = node
    return root


def test_containers_shared_and_cyclic(tmp_path):
    containers().write(tmp_path / "nested")
    assert_same(tmp_path / "nested", DATA / "containers" / "nested")
    for suffix in (".index", ".data-00000-of-00001"):
        expected = (DATA / "containers" / f"nested{suffix}").read_bytes()
        assert (tmp_path / f"nested{suffix}").read_bytes() == expected


def test_odd_names(tmp_path):
    names = [
        "a/b",
        ".hidden",
        "x.y",
        "a//b",
        "é",
        "日本",
        "with space",
        ".",
        "/",
        "..",
        "a.S",
        ".ATTRIBUTES",
        "UPPER",
    ]
    names += ["tab\there", "0", "-1", "very" * 40]
    odd = tf.train.Checkpoint()
    odd.mapped = {name: tf.Variable(float(number)) for number, name in enumerate(names)}
    odd.write(tmp_path / "odd_names")
    assert_same(tmp_path / "odd_names", DATA / "containers" / "odd_names")


class ModuleDense(tf.Module):
    def __init__(self, inputs, outputs, name=None):
        super().__init__(name=name)
        self.w = tf.Variable(tf.reshape(tf.range(float(inputs * outputs)), [inputs, outputs]) / 7.0, name="w")
        self.b = tf.Variable(tf.zeros([outputs]), name="b", trainable=False)


class ModuleSeq(tf.Module):
    def __init__(self):
        super().__init__(name="seq")
        with self.name_scope:
            self.layers = [ModuleDense(2, 3, "first"), ModuleDense(3, 1, "second")]
            self.by_name = {"again": self.layers[0]}


def test_modules(tmp_path):
    tf.train.Checkpoint(ModuleSeq()).write(tmp_path / "module_root")
    assert_same(tmp_path / "module_root", DATA / "tf_module" / "module_root")


def mlp():
    return K.Sequential(
        [
            L.Input([6]), L.Dense(8, activation="relu", name="hidden"), L.BatchNormalization(name="bn"),
            L.LayerNormalization(name="ln"), L.Dropout(0.5), L.Dense(3, activation="softmax", name="head"),
        ],
        name="mlp",
    )  # fmt: skip


def conv():
    image = L.Input([8, 8, 3], name="image")
    h = L.Conv2D(4, 3, padding="same", activation="relu", name="conv_a")(image)
    h = L.BatchNormalization(name="bn_a")(h)
    a = L.Conv2D(4, 1, use_bias=False, name="conv_b")(h)
    b = L.DepthwiseConv2D(3, padding="same", name="dw")(h)
    h = L.Flatten()(L.MaxPooling2D()(L.Add()([a, b])))
    return K.Model(image, L.Dense(2, name="logits")(h), name="convnet")


def rnn():
    tokens = L.Input([5], dtype="int32", name="tokens")
    h = L.LSTM(3, return_sequences=True, name="lstm")(L.Embedding(11, 4, name="emb")(tokens))
    h = L.Bidirectional(L.GRU(2, return_sequences=True), name="bi")(h)
    h = L.GRU(3, reset_after=False, name="gru_old")(h)
    return K.Model(tokens, L.Dense(1, name="out")(h), name="rnn")


def attention():
    seq = L.Input([4, 6], name="seq")
    mha = L.MultiHeadAttention(2, 3, name="mha")
    h = L.LayerNormalization(name="ln")(seq + mha(seq, seq))
    shared = L.Dense(6, name="shared")
    return K.Model(seq, shared(shared(h)), name="attn")


def nest():
    inner = K.Sequential([L.Input([4]), L.Dense(5, name="in_a"), L.Dense(3, name="in_b")], name="inner")
    x = L.Input([4])
    return K.Model(x, L.Dense(2, name="outer")(inner(x)), name="nest")


class Block(K.Model):
    def __init__(self, units, **options):
        super().__init__(**options)
        self.dense = L.Dense(units, activation="tanh")
        self.norm = L.LayerNormalization()
        self.scale = self.add_weight("scale", [units], initializer="ones")

    def call(self, x):
        return self.norm(self.dense(x)) * self.scale


class Tower(K.Model):
    def __init__(self):
        super().__init__(name="tower")
        self.blocks = [Block(4), Block(4)]
        self.heads = {"a": L.Dense(2), "b": L.Dense(1)}

    def call(self, x):
        for block in self.blocks:
            x = block(x)
        return tf.concat([self.heads["a"](x), self.heads["b"](x)], -1)


MODELS = {
    "keras_conv/conv": conv,
    "keras_rnn/rnn": rnn,
    "keras_attention/attn": attention,
    "keras_nested/nest": nest,
    "keras_nested/tower": Tower,
}


@pytest.mark.parametrize("path", sorted(MODELS))
def test_keras_models(tmp_path, path):
    model = MODELS[path]()
    model(np.load(DATA / f"{path}.input.npy"))
    model.save_weights(tmp_path / "weights")
    assert_same(tmp_path / "weights", DATA / path)


def test_compiled_model_with_its_optimizer(tmp_path):
    """Except for the nodes of traced functions, which have no values; the runtime writes none."""
    model = mlp()
    x = np.load(DATA / "keras_mlp" / "mlp.input.npy")
    model.compile(K.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    model.fit(x, np.array([0, 1, 2, 0]), epochs=1, verbose=0)
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(tmp_path / "ckpt")
    (graph, tensors), (expected, expected_tensors) = (
        as_listed(path),
        as_listed(DATA / "keras_mlp" / "mlp_ckpt-1"),
    )
    assert tensors == expected_tensors
    full_names = [[a.full_name for a in node.attributes] for node in graph.nodes]
    assert full_names == [
        [a.full_name for a in node.attributes] for number, node in enumerate(expected.nodes) if number != 9
    ]


@pytest.mark.parametrize("path", ["keras_mlp/mlp", *sorted(MODELS)])
def test_layers_compute_what_keras_computed(path):
    """Weights from TensorFlow's checkpoint, and from Keras' HDF5 file, give the recorded output."""
    x, expected = np.load(DATA / f"{path}.input.npy"), np.load(DATA / f"{path}.output.npy")
    build = {"keras_mlp/mlp": mlp, **MODELS}[path]
    for suffix in ("", ".weights_only.h5"):
        model = build()
        model(x)
        status = model.load_weights(str(DATA / path) + suffix)
        if status is not None:
            status.assert_existing_objects_matched()
            status.expect_partial()
        np.testing.assert_allclose(model(x, training=False).numpy(), expected, rtol=2e-5, atol=2e-6)
