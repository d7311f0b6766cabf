"""A small BERT as a program of TensorFlow 1, and as another one of TensorFlow 2, which goes on from it.

    python bert.py tf1          trains in old/, as an Estimator does: three steps, then two more
    python bert.py fresh        saves the new program as fresh/ckpt-1, with weights of its own
    python bert.py tf2 PATH     restores PATH into the new program, and trains three steps from there

Each line says how many steps were taken, and the loss then.  Runs in TensorFlow 2.15, and without it.
"""

import sys

import numpy as np

try:
    import tensorflow as tf
except ImportError:
    import ckpt_cli.runtime as tf

v1, layers = tf.compat.v1, tf.keras.layers
WORDS, POSITIONS, HIDDEN, INNER, BLOCKS = 20, 6, 8, 16, 2
random = np.random.RandomState(5)
IDS = random.randint(0, WORDS, [16, POSITIONS]).astype("i4")
LABELS = np.roll(IDS, 1, axis=1)


def old_optimizer():
    return v1.train.AdamOptimizer(0.01)


def new_optimizer():
    return tf.keras.optimizers.Adam(0.01, epsilon=1e-8)


def attend(query, key, value):
    return tf.matmul(tf.nn.softmax(tf.matmul(query, key, transpose_b=True) / HIDDEN**0.5), value)


def loss_of(logits, labels):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


# TensorFlow 1: variables have names -----------------------------------------------------


def dense(x, units, name, activation=None):
    return v1.layers.dense(x, units, activation, name=name)


def norm(x):
    with v1.variable_scope("LayerNorm"):
        beta = v1.get_variable("beta", initializer=np.zeros(HIDDEN, "f"))
        gamma = v1.get_variable("gamma", initializer=np.ones(HIDDEN, "f"))
    x = x - tf.reduce_mean(x, -1, keepdims=True)
    return x / tf.sqrt(tf.reduce_mean(x * x, -1, keepdims=True) + 1e-12) * gamma + beta


def model_fn(features, labels, mode):
    with v1.variable_scope("bert"):
        with v1.variable_scope("embeddings"):
            table = v1.get_variable("word_embeddings", [WORDS, HIDDEN])
            x = norm(tf.gather(table, features) + v1.get_variable("position_embeddings", [POSITIONS, HIDDEN]))
        for number in range(BLOCKS):
            with v1.variable_scope(f"encoder/layer_{number}"):
                with v1.variable_scope("attention"):
                    with v1.variable_scope("self"):
                        found = attend(*(dense(x, HIDDEN, name) for name in ("query", "key", "value")))
                    with v1.variable_scope("output"):
                        x = norm(x + dense(found, HIDDEN, "dense"))
                with v1.variable_scope("intermediate"):
                    inner = dense(x, INNER, "dense", tf.nn.relu)
                with v1.variable_scope("output"):
                    x = norm(x + dense(inner, HIDDEN, "dense"))
    bias = v1.get_variable("cls/predictions/output_bias", initializer=np.zeros(WORDS, "f"))
    loss = loss_of(tf.matmul(x, table, transpose_b=True) + bias, labels)
    step = old_optimizer().minimize(loss, global_step=v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)


def data():
    return tf.data.Dataset.from_tensors((IDS, LABELS)).repeat()


# TensorFlow 2: variables belong to objects --------------------------------------------------


class Block(layers.Layer):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (layers.Dense(HIDDEN) for _ in range(3))
        self.projection = layers.Dense(HIDDEN)
        self.attention_norm = layers.LayerNormalization(epsilon=1e-12)
        self.intermediate = layers.Dense(INNER, activation="relu")
        self.output_dense = layers.Dense(HIDDEN)
        self.output_norm = layers.LayerNormalization(epsilon=1e-12)

    def call(self, x):
        x = self.attention_norm(x + self.projection(attend(self.query(x), self.key(x), self.value(x))))
        return self.output_norm(x + self.output_dense(self.intermediate(x)))


class Bert(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.word_embeddings = layers.Embedding(WORDS, HIDDEN)
        self.position_embeddings = layers.Embedding(POSITIONS, HIDDEN)
        self.embeddings_norm = layers.LayerNormalization(epsilon=1e-12)
        self.blocks = [Block() for _ in range(BLOCKS)]
        self.output_bias = self.add_weight("output_bias", [WORDS])

    def call(self, ids):
        x = self.embeddings_norm(self.word_embeddings(ids) + self.position_embeddings(tf.range(POSITIONS)))
        for block in self.blocks:
            x = block(x)
        return tf.matmul(x, self.word_embeddings.embeddings, transpose_b=True) + self.output_bias


def new_program():
    model, optimizer = Bert(), new_optimizer()
    return model, optimizer, tf.train.Checkpoint(model=model, optimizer=optimizer)


def train(model, optimizer):
    with tf.GradientTape() as tape:
        loss = loss_of(model(IDS), LABELS)
    variables = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    return float(loss)


# What is asked ------------------------------------------------------------------------------


def tf1():
    """Yield steps and loss of the old program, which saves a checkpoint each time."""
    bert = tf.estimator.Estimator(model_fn, "old", tf.estimator.RunConfig(tf_random_seed=1))
    for steps in (3, 1, 1):
        told = bert.train(data, steps=steps).evaluate(data, steps=1)
        yield int(told["global_step"]), float(told["loss"])


def fresh():
    """Save the new program, after a step so that the optimizer has its slots."""
    model, optimizer, checkpoint = new_program()
    train(model, optimizer)
    checkpoint.save("fresh/ckpt")
    return ()


def tf2(path):
    """Yield steps and loss of the new program, which goes on from a checkpoint."""
    model, optimizer, checkpoint = new_program()
    checkpoint.restore(path).assert_existing_objects_matched()
    for _ in range(3):
        yield int(optimizer.iterations), train(model, optimizer)


if __name__ == "__main__":
    for steps, loss in {"tf1": tf1, "fresh": fresh, "tf2": tf2}[sys.argv[1]](*sys.argv[2:]):
        print(f"{steps} steps: loss {loss:.5f}")
