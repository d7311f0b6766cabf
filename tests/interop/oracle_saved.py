"""Everything that Keras' callbacks and TensorFlow's options leave on a disk.  Run by TensorFlow's Python.

Each function trains a small model and has it saved in one way.  It returns the path of what was saved, and
the model's weights as [[shape, digest], ...].
"""

import contextlib
import hashlib
import json
import os
import socket

import numpy as np
import tensorflow as tf

keras = tf.keras
IS_KERAS_3 = tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 16)

with contextlib.suppress(RuntimeError):  # when the process has begun with one
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )


def _model():
    keras.backend.clear_session()
    return _new_model()


def _new_model():
    keras.utils.set_random_seed(1)
    layers = [
        keras.Input((4,)),
        keras.layers.Dense(4, "tanh"),
        keras.layers.BatchNormalization(),
        keras.layers.Dense(2),
    ]
    model = keras.Sequential(layers)
    model.compile(optimizer=keras.optimizers.Adam(0.02), loss=keras.losses.MeanSquaredError())
    return model


def _fit(model, *callbacks):
    random = np.random.RandomState(0)
    x, y = random.randn(16, 4).astype("f"), random.randn(16, 2).astype("f")
    model.fit(x, y, epochs=2, batch_size=8, shuffle=False, verbose=0, callbacks=list(callbacks))
    return model


def _told(path, model):
    return [path, [_digest(np.asarray(each)) for each in model.weights]]


def _digest(array):
    return [list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()]


def configured(path):
    """Save the whole model, whose configuration the other files lack."""
    _fit(_model()).save(path)


def model_checkpoint(folder, name, weights_only):
    path = os.path.join(folder, name)
    callback = keras.callbacks.ModelCheckpoint(path, save_weights_only=weights_only)
    return _told(path.format(epoch=2), _fit(_model(), callback))


def backup_and_restore(folder):
    """Return the backup as a program finds it that was interrupted: the callback removes it at the end."""
    options = {"delete_checkpoint": False}
    return _told(folder, _fit(_model(), keras.callbacks.BackupAndRestore(folder, **options)))


def checkpoint(folder, **options):
    model = _fit(_model())
    saved = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
    path = os.path.join(folder, "ckpt")
    saved.write(path, options=tf.train.CheckpointOptions(**options))
    saved.sync()
    return _told(path, model)


def sharded_by_size(folder, size):
    from tensorflow.python.checkpoint.sharding import sharding_policies

    policy = sharding_policies.MaxShardSizePolicy(max_shard_size=size)
    return checkpoint(folder, experimental_sharding_callback=policy)


def mirrored(folder):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], tf.distribute.ReductionToOneDevice())
    keras.backend.clear_session()
    with strategy.scope():
        model = _new_model()
    _fit(model)
    path = os.path.join(folder, "ckpt")
    tf.train.Checkpoint(model=model, optimizer=model.optimizer).write(path)
    return _told(path, model)


def partitioned(folder):
    """Variables of parameter servers, in this process; each has a part of the rows.

    TensorFlow requires this before anything else, so it runs in a process of its own.
    """
    ports = [_free_port() for _ in range(3)]
    addresses = [f"localhost:{port}" for port in ports]
    cluster = tf.train.ClusterSpec({"worker": addresses[:1], "ps": addresses[1:]})
    servers = [
        tf.distribute.Server(cluster, "worker", 0),
        *(tf.distribute.Server(cluster, "ps", at) for at in (0, 1)),
    ]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
    partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)
    strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
    keras.backend.clear_session()
    with strategy.scope():
        model = _new_model()
    path = os.path.join(folder, "ckpt")
    tf.train.Checkpoint(model=model).write(path)
    parts = [np.asarray(each) for each in model.weights]
    arrays = [np.concatenate(both) for both in zip(parts[::2], parts[1::2], strict=True)]
    del servers
    return [path, [_digest(array) for array in arrays]]


def _free_port():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def sharded_weights(folder, size):
    """Keras 3 writes an index and shards of `.weights.h5`."""
    model = _fit(_model())
    path = os.path.join(folder, "model.weights.json")
    model.save_weights(path, max_shard_size=size)
    return _told(path, model)


def preset(folder):
    """A folder as KerasHub's presets are."""
    model = _fit(_model())
    model.save_weights(os.path.join(folder, "model.weights.h5"))
    config = json.loads(model.to_json())
    for name, held in (("config.json", config), ("metadata.json", {"keras_version": keras.__version__})):
        with open(os.path.join(folder, name), "w") as file:
            json.dump(held, file)
    return _told(folder, model)
