"""How TensorFlow takes a state file, and how its CheckpointManager continues; run by TensorFlow's Python."""

import os

import tensorflow as tf


def _checkpoint():
    return tf.train.Checkpoint(step=tf.Variable(0, dtype=tf.int64), v=tf.Variable([0.0, 0.0]))


def train(directory, saves, max_to_keep, keep_every=None):
    """Save some times as a training does that continues where it finds itself; what the manager has then."""
    checkpoint = _checkpoint()
    manager = tf.train.CheckpointManager(
        checkpoint, directory, max_to_keep=max_to_keep, keep_checkpoint_every_n_hours=keep_every
    )
    found = [os.path.basename(path) for path in manager.checkpoints]
    restored = manager.restore_or_initialize()
    began = int(checkpoint.step)
    for _ in range(saves):
        checkpoint.step.assign_add(1)
        manager.save()
    return {
        "found": found,
        "restored": restored and os.path.basename(restored),
        "began": began,
        "latest": manager.latest_checkpoint and os.path.basename(manager.latest_checkpoint),
        "checkpoints": [os.path.basename(path) for path in manager.checkpoints],
        "files": sorted(os.listdir(directory)),
    }


def state(directory):
    """Return the fields of a state file, with paths as TensorFlow returns them, and the latest checkpoint."""
    found = tf.train.get_checkpoint_state(directory)
    return {
        "latest": tf.train.latest_checkpoint(directory),
        "paths": list(found.all_model_checkpoint_paths),
        "timestamps": list(found.all_model_checkpoint_timestamps),
        "last_preserved": found.last_preserved_timestamp,
    }
