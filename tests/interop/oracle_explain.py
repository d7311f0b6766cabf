"""Complaints of TensorFlow, Keras, h5py and safetensors, provoked; run by TensorFlow's Python.

`python tests/interop/oracle_explain.py` prints them, shortened, for tests without TensorFlow:
tests/data/explain/tensorflow-RELEASE.json.
"""

import logging
import os
import struct
import zipfile

import h5py
import numpy as np
import tensorflow as tf
from provoking import Provocations

V1 = tf.compat.v1
K = tf.keras
IS_KERAS_3 = tf.__version__ >= "2.16"

provoked = Provocations(tf.get_logger(), logging.getLogger("absl"))
names, text = provoked.names, provoked.text

# What things are done with --------------------------------------------------------------


def _model(*units, inputs=4, names=None):
    """Return a stack of Dense layers, called `dense_0`, `dense_1` and so on without `names`."""
    called = names or [f"dense_{at}" for at in range(len(units))]
    layers = [K.layers.Dense(count, name=name) for count, name in zip(units, called, strict=True)]
    return K.Sequential([K.layers.Input([inputs]), *layers])


def _save_names(path, version=2, **shapes):
    """Save variables under their names, as TensorFlow 1 does."""
    with tf.Graph().as_default(), V1.Session() as session:
        for name, shape in shapes.items():
            V1.get_variable(name.replace("__", "/"), shape)
        session.run(V1.global_variables_initializer())
        return V1.train.Saver(write_version=version).save(session, path)


def _restore_names(path, use_resource=True, **shapes):
    with tf.Graph().as_default(), V1.Session() as session:
        for name, shape in shapes.items():
            V1.get_variable(name.replace("__", "/"), shape, use_resource=use_resource)
        V1.train.Saver().restore(session, path)


def _save_objects(path, **values):
    return tf.train.Checkpoint(**{name: tf.Variable(value) for name, value in values.items()}).save(path)


def _change(path, at, replacement):
    with open(path, "r+b") as file:
        file.seek(at, os.SEEK_SET if at >= 0 else os.SEEK_END)
        file.write(replacement)


def _write(path, content):
    with open(path, "wb") as file:
        file.write(content)


# HDF5 -------------------------------------------------------------------------------------


@provoked
def h5_of_other_content():
    _write("weights.h5", b"version https://git-lfs.github.com/spec/v1\n" * 40)
    _model(3).load_weights("weights.h5")


@provoked
def h5_signature():
    _write("a.h5", b"PK\x03\x04" + bytes(2000))
    h5py.File("a.h5")


@provoked
def h5_cut():
    with h5py.File("a.h5", "w") as file:
        file["w"] = np.zeros(10_000)
    os.truncate("a.h5", 5_000)
    h5py.File("a.h5")


@provoked
def h5_weights_cut():
    _model(300, 300).save_weights("whole.weights.h5")
    os.truncate("whole.weights.h5", 5_000)
    _model(300, 300).load_weights("whole.weights.h5")


@provoked
def h5_missing():
    h5py.File("gone.h5", "r")


@provoked
def h5_object_missing():
    with h5py.File("a.h5", "w") as file:
        file["w"] = np.zeros(3)
    h5py.File("a.h5")["layer/kernel"]


@provoked
def h5_chunk_damaged():
    with h5py.File("a.h5", "w") as file:
        file.create_dataset("w", data=np.arange(1000.0), chunks=(1000,), compression="gzip")
        (offset,) = [file["w"].id.get_chunk_info(0).byte_offset]
    _change("a.h5", offset, b"\0" * 20)
    h5py.File("a.h5")["w"][()]


@provoked
def h5_header_damaged():
    with h5py.File("a.h5", "w") as file:
        file["w"] = np.zeros(3)
    for at in range(90, 2000, 2):
        _change("a.h5", at, b"\xff\xff")
    h5py.File("a.h5")["w"]


# Bundles ----------------------------------------------------------------------------------


@provoked
def key_missing():
    path = _save_names("model.ckpt-5", net__kernel=[2, 3])
    _restore_names(path, net__kernel=[2, 3], net__bias=[3])


@provoked
def key_missing_in_reader():
    tf.train.load_checkpoint(_save_objects("ckpt", w=[1.0])).get_tensor("net/kernel")


@provoked
def object_graph_missing():
    path = _save_names("model.ckpt-5", w=[2])
    tf.train.load_checkpoint(path).get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH")


@provoked
def tensor_name_missing():
    path = _save_names("model.ckpt-5", version=1, net__kernel=[2, 3])
    _restore_names(path, net__kernel=[2, 3], net__bias=[3])


@provoked
def not_object_based():
    from tensorflow.python.training import saver

    variables = {"w": tf.Variable([1.0])}
    saver.saver_from_object_based_checkpoint(_save_names("model.ckpt-5", w=[1]), variables)


@provoked
def not_object_based_warm_start():
    from tensorflow.python.training import warm_starting_util

    path = _save_objects("objects/ckpt", w=[1.0])
    with tf.Graph().as_default():
        V1.get_variable("v", [1])
        warm_starting_util.warm_start(path, vars_to_warm_start=".*")


@provoked
def name_based_into_objects():
    path = _save_names("model.ckpt-5", w=[1])
    tf.train.Checkpoint(v=tf.Variable([1.0])).restore(path).assert_consumed()


@provoked
def objects_into_names():
    path = _save_objects("ckpt", w=[1.0])
    _restore_names(path, w=[1])


@provoked
def shapes_of_objects():
    path = _save_objects("ckpt", w=np.zeros([2, 3], np.float32))
    tf.train.Checkpoint(w=tf.Variable(np.zeros([3, 2], np.float32))).restore(path)


@provoked
def shapes_of_reference_variables():
    path = _save_names("model.ckpt-5", w=[5, 2])
    _restore_names(path, use_resource=False, w=[5, 3])


@provoked
def shapes_assigned():
    tf.Variable(np.zeros([5, 3], np.float32)).assign(np.zeros([5, 2], np.float32))


@provoked
def shapes_incompatible():
    tf.TensorShape([5, 3]).assert_is_compatible_with([5, 2])


@provoked
def shapes_assigned_in_keras():
    _model(3).layers[0].kernel.assign(np.zeros([4, 2], np.float32))


@provoked
def shapes_set_in_keras():
    _model(3).layers[0].set_weights([np.zeros([4, 2], np.float32), np.zeros([3], np.float32)])


@provoked
def dtype_of_objects():
    path = _save_objects("ckpt", w=np.zeros(3, np.float32))
    tf.train.Checkpoint(w=tf.Variable(np.zeros(3, np.float64))).restore(path)


@provoked
def checksum():
    path = _save_objects("ckpt", w=np.arange(100, dtype=np.float32))
    _change(f"{path}.data-00000-of-00001", 20, b"\xff")
    tf.train.load_checkpoint(path).get_tensor("w/.ATTRIBUTES/VARIABLE_VALUE")


@provoked
def checksum_restored():
    path = _save_objects("ckpt", w=np.arange(100, dtype=np.float32))
    _change(f"{path}.data-00000-of-00001", 20, b"\xff")
    tf.train.Checkpoint(w=tf.Variable(tf.zeros(100))).restore(path)


@provoked
def block_checksum():
    path = _save_objects("ckpt", w=np.arange(100, dtype=np.float32))
    _change(f"{path}.index", 10, b"\xff")
    tf.train.load_checkpoint(path)


@provoked
def shard_cut():
    path = _save_objects("ckpt", w=np.arange(100, dtype=np.float32))
    os.truncate(f"{path}.data-00000-of-00001", 100)
    tf.train.load_checkpoint(path).get_tensor("w/.ATTRIBUTES/VARIABLE_VALUE")


@provoked
def shard_missing():
    path = _save_objects("ckpt", w=np.arange(100, dtype=np.float32))
    os.remove(f"{path}.data-00000-of-00001")
    tf.train.Checkpoint(w=tf.Variable(tf.zeros(100))).restore(path)


@provoked
def index_of_other_content():
    _save_objects("ckpt", w=[1.0])
    _write("ckpt-1.index", b"version https://git-lfs.github.com/spec/v1\n" * 40)
    tf.train.load_checkpoint("ckpt-1")


@provoked
def index_cut():
    path = _save_objects("ckpt", w=[1.0])
    os.truncate(f"{path}.index", 20)
    tf.train.load_checkpoint(path)


@provoked
def data_file_as_checkpoint():
    path = _save_objects("ckpt", w=[1.0])
    _restore_names(f"{path}.data-00000-of-00001", w=[1])


@provoked
def h5_as_checkpoint():
    _write("model.h5", b"\x89HDF\r\n\x1a\n" + bytes(2000))
    tf.train.load_checkpoint("model.h5")


@provoked
def nothing_there():
    tf.train.load_checkpoint("run/ckpt-10")


@provoked
def nothing_there_to_restore():
    tf.train.Checkpoint(w=tf.Variable(1.0)).restore("run/ckpt-10")


@provoked
def nothing_there_for_a_saver():
    _restore_names("run/ckpt-10", w=[1])


@provoked
def no_checkpoint_in_directory():
    os.mkdir("empty")
    tf.train.load_checkpoint("empty")


@provoked
def state_names_what_is_gone():
    os.mkdir("run")
    _write("run/checkpoint", b'model_checkpoint_path: "/old/place/ckpt-3"\n')
    tf.train.Checkpoint(w=tf.Variable(1.0)).restore(tf.train.latest_checkpoint("run"))


# What restore() says of objects ---------------------------------------------------------------


@provoked
def unresolved_object():
    path = _save_objects("ckpt", w=[1.0], b=[2.0])
    tf.train.Checkpoint(w=tf.Variable([0.0])).restore(path).assert_consumed()


@provoked
def value_not_found():
    path = _save_objects("ckpt", w=[1.0], b=[2.0])
    tf.train.Checkpoint(w=tf.Variable([0.0])).restore(path)


@provoked
def objects_not_bound():
    path = _save_objects("ckpt", w=[1.0])
    checkpoint = tf.train.Checkpoint(w=tf.Variable([0.0]), b=tf.Variable([0.0]))
    checkpoint.restore(path).assert_existing_objects_matched()


@provoked
def nothing_matches():
    path = _save_objects("ckpt", w=[1.0])
    tf.train.Checkpoint(other=tf.Variable([0.0])).restore(path).assert_nontrivial_match()


@provoked
def slots_unresolved():
    variable = tf.Variable([1.0, 2.0])
    optimizer = K.optimizers.Adam()
    optimizer.apply_gradients([(tf.ones(2), variable)])
    path = tf.train.Checkpoint(v=variable, optimizer=optimizer).save("ckpt")
    fresh = tf.train.Checkpoint(v=tf.Variable([0.0, 0.0]), optimizer=K.optimizers.SGD())
    fresh.restore(path).assert_consumed()


# Strategies -----------------------------------------------------------------------------------


@provoked
def strategy_model_outside():
    model = _model(1)
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        K.optimizers.Adam().build(model.trainable_variables)


@provoked
def strategy_optimizer_outside():
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        kernel = _model(1).trainable_variables[0]
    gradients = [(tf.ones([4, 1]), kernel)]
    if IS_KERAS_3:
        optimizer = K.optimizers.Adam()
        strategy.run(lambda: optimizer.apply_gradients(gradients))
    else:
        K.optimizers.legacy.Adam().apply_gradients(gradients)


# Keras ------------------------------------------------------------------------------------------


@provoked
def layer_count():
    source = _model(3, 3)
    source.save("model.h5")
    _model(3, 3, 3).load_weights("model.h5")


@provoked
def layer_count_of_weights():
    _model(3, 3).save_weights("model.weights.h5")
    _model(3, 3, 3).load_weights("model.weights.h5")


@provoked
def layer_shape():
    _model(3).save("model.h5")
    _model(5).load_weights("model.h5")


@provoked
def layer_shape_of_weights():
    _model(3).save_weights("model.weights.h5")
    _model(5).load_weights("model.weights.h5")


@provoked
def layer_shape_by_name():
    _model(3).save("model.h5")
    _model(5).load_weights("model.h5", by_name=True)


@provoked
def layer_expected_variables():
    _model(3).save("model.keras")
    model = K.Sequential([K.layers.Input([4]), K.layers.Dense(3, use_bias=False)])
    model.save_weights("model.weights.h5")
    _model(3).load_weights("model.weights.h5")


@provoked
def layer_weight_count():
    model = K.Sequential([K.layers.Input([4]), K.layers.Dense(3, use_bias=False, name="dense_0")])
    model.save("model.h5")
    _model(3).load_weights("model.h5")


@provoked
def weights_of_a_model_not_built():
    _model(3).save_weights("model.weights.h5")
    K.Sequential([K.layers.Dense(3)]).load_weights("model.weights.h5")


@provoked
def weights_of_a_subclassed_model_not_built():
    class Net(K.Model):
        def call(self, x):
            return x

    _model(3).save("model.h5")
    Net().load_weights("model.h5")


@provoked
def optimizer_state():
    model = _model(3)
    model.compile("adam", "mse")
    model.fit(np.zeros([2, 4]), np.zeros([2, 3]), verbose=0)
    model.save("model.keras")
    other = _model(3)
    other.compile("sgd", "mse")
    other.fit(np.zeros([2, 4]), np.zeros([2, 3]), verbose=0)
    other.load_weights("model.keras")


@provoked
def model_without_config():
    _model(3).save_weights("model.weights.h5")
    os.rename("model.weights.h5", "model.h5")
    K.models.load_model("model.h5")


@provoked
def model_missing():
    K.models.load_model("gone.keras")


@provoked
def model_h5_missing():
    K.models.load_model("gone.h5")


@provoked
def model_of_other_suffix():
    _save_objects("saved/ckpt", w=[1.0])
    K.models.load_model("saved/ckpt-1")


@provoked
def model_of_other_content():
    _write("model.keras", b"<!DOCTYPE html>" + b" " * 1000)
    K.models.load_model("model.keras")


@provoked
def weights_as_checkpoint():
    path = _save_objects("ckpt", w=[1.0])
    _model(3).load_weights(path)


@provoked
def weights_suffix():
    _model(3).save_weights("weights.ckpt")


@provoked
def saved_model_missing():
    os.mkdir("saved")
    tf.saved_model.load("saved")


@provoked
def model_of_other_generation():
    """Load a model in which InputLayer's shape has the key of the other generation of Keras."""
    _sequential("model.keras", ("batch_input_shape", "batch_shape"))
    K.models.load_model("model.keras")


@provoked
def functional_of_other_generation():
    inputs = K.layers.Input([4])
    K.Model(inputs, K.layers.Dense(3)(inputs)).save("own.keras")
    modules = ("keras.src.models.functional", "keras.src.engine.functional")
    _rewrite("own.keras", "model.keras", *(modules if IS_KERAS_3 else modules[::-1]))
    K.models.load_model("model.keras")


@provoked
def model_of_newer_keras():
    _sequential("model.keras", ('"units": 3', '"units": 3, "option_of_next_year": null'))
    K.models.load_model("model.keras")


@provoked
def own_class_unknown():
    _own_layer().save("own.keras")
    _rewrite("own.keras", "model.keras", "Own", "Mine")
    K.models.load_model("model.keras")


@provoked
def own_class_unknown_h5():
    _own_layer().save("model.h5")
    K.models.load_model("model.h5")


@provoked
def lambda_layer():
    model = K.Sequential([K.layers.Input([4]), K.layers.Lambda(lambda x: x), K.layers.Dense(3)])
    model.save("model.keras")
    K.models.load_model("model.keras")


def own_class_without_arguments():
    class Own(K.layers.Layer):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def call(self, x):
            return x

    K.Sequential([K.layers.Input([4]), Own(3), K.layers.Dense(3)]).save("model.keras")
    K.models.load_model("model.keras", custom_objects={"Own": Own})


def loss_by_short_name():
    model = _model(3)
    model.compile("adam", "mse")
    model.save("model.h5")
    K.models.load_model("model.h5")


if IS_KERAS_3:
    for _function in (own_class_without_arguments, loss_by_short_name):
        provoked(_function)


def _own_layer():
    class Own(K.layers.Layer):
        def call(self, x):
            return x

    return K.Sequential([K.layers.Input([4]), Own(), K.layers.Dense(3)])


def _sequential(path, change):
    _model(3).save("own.keras")
    _rewrite("own.keras", path, *change)


def _rewrite(source, target, old, new):
    """Copy a .keras file, with one word of its configuration replaced."""
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(target, "w") as after:
        for name in before.namelist():
            content = before.read(name)
            after.writestr(
                name, content.replace(old.encode(), new.encode()) if name == "config.json" else content
            )


# npz, safetensors -----------------------------------------------------------------------------


@provoked
def npz_pickled():
    np.savez("a.npz", w=np.array([{"a": 1}], dtype=object))
    np.load("a.npz")["w"]


@provoked
def npy_of_other_content():
    _write("a.npy", b"version https://git-lfs.github.com/spec/v1\n" * 4)
    np.load("a.npy")


@provoked
def npz_cut():
    np.savez("a.npz", w=np.zeros(1000))
    os.truncate("a.npz", 4000)
    np.load("a.npz")


@provoked
def npz_damaged():
    np.savez("a.npz", w=np.zeros(1000))
    _change("a.npz", 4000, b"\xff")
    np.load("a.npz")["w"]


def _safetensors(content):
    from safetensors.numpy import load_file

    _write("model.safetensors", content)
    load_file("model.safetensors")


def safetensors_header_too_large():
    _safetensors(b"version https://git-lfs.github.com/spec/v1\n" * 4)


def safetensors_header_too_small():
    _safetensors(b"ver")


def safetensors_header_beyond_file():
    _safetensors(struct.pack("<Q", 10_000) + b"{}")


def safetensors_header_damaged():
    _safetensors(struct.pack("<Q", 8) + b"{'a': 1}")


def safetensors_cut():
    header = b'{"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'
    _safetensors(struct.pack("<Q", len(header)) + header + bytes(8))


def safetensors_offsets():
    header = b'{"w":{"dtype":"F32","shape":[4],"data_offsets":[0,12]}}'
    _safetensors(struct.pack("<Q", len(header)) + header + bytes(12))


if IS_KERAS_3:  # the release next to which safetensors is installed
    for _function in (
        safetensors_header_too_large,
        safetensors_header_too_small,
        safetensors_header_beyond_file,
        safetensors_header_damaged,
        safetensors_cut,
        safetensors_offsets,
    ):
        provoked(_function)


if __name__ == "__main__":
    provoked.main()
