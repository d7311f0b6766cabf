"""Event files as TensorFlow reads and writes them; run by TensorFlow's Python."""

import glob
import os

import tensorflow as tf

V1 = tf.compat.v1


def read(path):
    """Return what tf.compat.v1.train.summary_iterator reads: [kind, step, wall time, content]."""
    out = []
    for event in V1.train.summary_iterator(path):
        what = event.WhichOneof("what")
        content = {
            "file_version": lambda event: event.file_version,
            "session_log": lambda event: [event.session_log.status, event.session_log.checkpoint_path],
            "summary": lambda event: [[value.tag, value.simple_value] for value in event.summary.value],
        }[what](event)
        out.append([what, event.step, event.wall_time, content])
    return out


def records(path):
    """The payloads as tf.data.TFRecordDataset reads them, each parsed and written again."""
    payloads = [record.numpy() for record in tf.data.TFRecordDataset(path)]
    return [V1.Event.FromString(payload).SerializeToString().hex() for payload in payloads]


def write_old(directory):
    """A TensorFlow 1 writer: a graph, summaries, session logs."""
    with tf.Graph().as_default() as graph:
        tf.constant(1.0, name="one")
        writer = V1.summary.FileWriter(directory, graph=graph)
        for step, loss in ((0, 0.0), (7, 1.5)):
            value = V1.Summary.Value(tag="loss", simple_value=loss)
            histogram = V1.Summary.Value(tag="h", histo=V1.HistogramProto(min=1, bucket=[1, 2]))
            writer.add_summary(V1.Summary(value=[histogram, value]), step)
        writer.add_session_log(V1.SessionLog(status=V1.SessionLog.START), 8)
        writer.close()
    return glob.glob(os.path.join(directory, "*tfevents*"))[0]


def write_new(directory):
    """A TensorFlow 2 writer: numbers as tensors, as tf.summary.scalar has them."""
    writer = tf.summary.create_file_writer(directory)
    plugin = V1.SummaryMetadata.PluginData(plugin_name="scalars")
    metadata = V1.SummaryMetadata(plugin_data=plugin)
    with writer.as_default():
        for step, loss in ((0, 0.0), (7, 1.5)):
            tf.summary.write("loss", tf.constant(loss), step=step, metadata=metadata)
            tf.summary.write("text", tf.constant("told"), step=step)
    writer.close()
    return glob.glob(os.path.join(directory, "*tfevents*"))[0]
