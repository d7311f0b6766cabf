"""TensorFlow finds names in an object-based checkpoint; run by TensorFlow's Python."""

import tensorflow as tf
from oracle_tensors import told
from tensorflow.core.protobuf import trackable_object_graph_pb2

GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


def _graph(reader):
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.ParseFromString(reader.get_tensor(GRAPH))
    return graph


def _ways(graph):
    """Return the edge names that lead to each node from the root."""
    ways = {0: []}
    waiting = [0]
    for number in waiting:
        for child in graph.nodes[number].children:
            if child.node_id not in ways:
                ways[child.node_id] = [*ways[number], child.local_name]
                waiting.append(child.node_id)
    return ways


def names(path):
    """Return by full name what the reader gets under its key, and the way that leads there, or the slot's."""
    reader = tf.train.load_checkpoint(path)
    graph = _graph(reader)
    ways = _ways(graph)
    for node in graph.nodes:
        for slot in node.slot_variables:
            assert slot.original_variable_node_id in ways
            ways[slot.slot_variable_node_id] = [*ways[slot.original_variable_node_id], None, slot.slot_name]
    found = {}
    keys = set(reader.get_variable_to_shape_map()) - {GRAPH}
    for number, node in enumerate(graph.nodes):
        for attribute in node.attributes:
            keys.remove(attribute.checkpoint_key)
            if ways[number] != ["save_counter"]:
                value = told(reader.get_tensor(attribute.checkpoint_key))
                assert attribute.full_name not in found
                found[attribute.full_name] = [ways[number], value]
    assert not keys
    return found


def restore(path):
    """Restore into a program of new variables hung up as in the file; return values by full name."""
    reader = tf.train.load_checkpoint(path)
    graph = _graph(reader)
    checkpoint = tf.train.Checkpoint()
    counter = checkpoint.save_counter
    objects = {0: checkpoint}
    variables = {}
    waiting = [0]
    for number in waiting:
        for child in graph.nodes[number].children:
            attributes = graph.nodes[child.node_id].attributes
            if child.node_id in objects or (number == 0 and child.local_name == "save_counter"):
                continue
            if attributes:
                value = reader.get_tensor(attributes[0].checkpoint_key)
                new = variables[attributes[0].full_name] = tf.Variable(tf.zeros_like(value))
            else:
                new = tf.Module()
            objects[child.node_id] = new
            objects[number]._track_trackable(new, name=child.local_name, overwrite=True)
            waiting.append(child.node_id)
    status = checkpoint.restore(path)
    status.assert_existing_objects_matched()
    return [int(counter.numpy()), {name: told(variable.numpy()) for name, variable in variables.items()}]
