"""Programs as TensorFlow runs them, those with Keras in 2.15 alone."""

import hashlib

import described
import edges as edge_cases
import expressions
import losses as loss_rows
import masked
import numpy as np
import programs
import signatures as public
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2


def run(program, arguments):
    return getattr(programs, program)(tf, tf.keras, **arguments)


def mirrored(path):
    """Restore into objects made after the checkpoint's own graph; return hashes of the values by key."""
    reader = tf.train.load_checkpoint(path)
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.ParseFromString(reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"))
    dtypes = reader.get_variable_to_dtype_map()
    objects, keys = [], {}
    for node in graph.nodes:
        if node.attributes:
            key = node.attributes[0].checkpoint_key
            value = tf.zeros(reader.get_variable_to_shape_map()[key], dtypes[key])
            objects.append(tf.Variable(value))
            keys[key] = objects[-1]
        else:
            objects.append(tf.train.Checkpoint() if node is graph.nodes[0] else tf.Module(name="node"))
    for node, owner in zip(graph.nodes, objects, strict=True):
        for child in node.children:
            # The save counter is the root's own.
            if child.local_name != "save_counter":
                owner._track_trackable(objects[child.node_id], child.local_name)
    root = objects[0]
    root.restore(path).assert_consumed()
    for key in keys:
        if key.startswith("save_counter"):
            keys[key] = root.save_counter
    return {
        key: hashlib.sha256(np.ascontiguousarray(v.numpy()).tobytes()).hexdigest() for key, v in keys.items()
    }


def latest(directory):
    return tf.train.latest_checkpoint(directory)


def state(directory):
    found = tf.train.get_checkpoint_state(directory)
    paths = list(found.all_model_checkpoint_paths)
    return [found.model_checkpoint_path, paths, len(found.all_model_checkpoint_timestamps)]


def managed(directory, saves):
    """Let a manager take over a directory and save; return what it keeps."""
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    manager = tf.train.CheckpointManager(checkpoint, directory, max_to_keep=2)
    before = [list(manager.checkpoints), manager.latest_checkpoint]
    checkpoint.restore(manager.latest_checkpoint)
    for _ in range(saves):
        manager.save()
    return [*before, list(manager.checkpoints)]


def json_texts():
    return {name: described.written(tf, name) for name in described.models(tf)}


def read_json(name, text):
    return described.read(tf, name, text)


def masks():
    return masked.answers(tf)


def losses():
    return loss_rows.answers(tf)


def evaluate(text):
    return expressions.evaluate(tf, text)


def edges(programs):
    return {program: edge_cases.answer(tf, program) for program in programs}


def signatures(names):
    """Return the signature of each name that TensorFlow has, too."""
    found = {}
    for name in names:
        value = tf
        for part in name.split("."):
            value = getattr(value, part, None)
        if value is not None:
            found[name] = public.signature(value)
    return found
