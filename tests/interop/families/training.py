"""Families by how their models are trained.  Imported by TensorFlow's Python; builders are given a seed."""

import numpy as np
import tensorflow as tf
from families.layers import layers, optimizers, sequential
from families.program import IS_KERAS_3, Program, build_optimizer, family, keras, numbers, without_xla


def plain(optimizer, **options):
    """Return a small model in which two kernels have the same shape."""
    return sequential((4,), layers.Dense(4, "tanh"), layers.Dense(4, "tanh"), optimizer=optimizer, **options)


@family()
def sgd(seed):
    return plain(optimizers.SGD(0.05))


@family()
def momentum(seed):
    return plain(optimizers.SGD(0.05, momentum=0.9))


@family()
def nadam(seed):
    return plain(optimizers.Nadam(0.02))


@family()
def amsgrad(seed):
    return plain(optimizers.Adam(0.02, amsgrad=True))


@family()
def rmsprop(seed):
    return plain(optimizers.RMSprop(0.01))


@family()
def ftrl(seed):
    return plain(optimizers.Ftrl(0.1))


@family()
def adagrad(seed):
    return plain(optimizers.Adagrad(0.1))


@family()
def adadelta(seed):
    return plain(optimizers.Adadelta(20.0))


@family()
def lion(seed):
    return plain(optimizers.Lion(0.01))


@family()
def adafactor(seed):
    stack = [layers.Dense(6, "tanh"), layers.Dense(6, "tanh")]
    return sequential((6,), *stack, optimizer=optimizers.Adafactor(0.05))


@family(only=3)
def muon(seed):
    return plain(optimizers.Muon(0.02))


@family()
def ema(seed):
    return plain(optimizers.Adam(0.02, use_ema=True, ema_momentum=0.9))


@family()
def ema_sgd(seed):
    """Averages are written over the weights every other step."""
    optimizer = optimizers.SGD(0.05, momentum=0.5, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=2)
    return plain(optimizer)


@family()
def clipped(seed):
    return plain(optimizers.AdamW(0.02, weight_decay=0.1, clipnorm=0.5))


@family()
def schedule(seed):
    return plain(optimizers.Adam(optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)))


@family()
def cosine(seed):
    return plain(optimizers.SGD(optimizers.schedules.CosineDecay(0.1, 8), momentum=0.9))


@family(only=3)
def accumulation(seed):
    """Saved in the middle of an accumulation: three steps of two."""
    return plain(optimizers.Adam(0.02, gradient_accumulation_steps=2))


@family(only=3)
def accumulation_ema(seed):
    options = {"use_ema": True, "ema_momentum": 0.9, "gradient_accumulation_steps": 2}
    return plain(optimizers.SGD(0.05, momentum=0.9, **options))


def with_policy(policy, make):
    """Return what `make` makes while `policy` is the global one."""
    set_policy = keras.config.set_dtype_policy if IS_KERAS_3 else keras.mixed_precision.set_global_policy
    set_policy(policy)
    try:
        return make()
    finally:
        set_policy("float32")


@family()
def mixed_float16(seed):
    """The optimizer is within a LossScaleOptimizer."""
    return with_policy("mixed_float16", lambda: plain(optimizers.Adam(0.02)))


@family()
def mixed_batchnorm(seed):
    def make():
        stack = [layers.Dense(4, "tanh"), layers.BatchNormalization(), layers.Dense(4, "tanh")]
        return sequential((4,), *stack, optimizer=optimizers.SGD(0.05, momentum=0.9))

    return with_policy("mixed_float16", make)


@family()
def mixed_bfloat16(seed):
    return with_policy("mixed_bfloat16", lambda: plain(optimizers.Adam(0.02)))


@family()
def bfloat16(seed):
    """Weights themselves are stored in bfloat16."""
    return with_policy("bfloat16", lambda: plain(optimizers.SGD(0.05, momentum=0.9)))


@family()
def float64(seed):
    return with_policy("float64", lambda: plain(optimizers.Adam(0.02)))


@family()
def subset(seed):
    """The optimizer has state of some of the variables alone: the rest was frozen as it was built."""
    frozen = layers.Dense(4, "tanh")
    frozen.trainable = False
    return sequential((4,), layers.Dense(4, "tanh"), frozen, layers.Dense(4), optimizer=optimizers.Adam(0.02))


class _Unstepped(Program):
    """Saved as its optimizer is built, and has not taken a step."""

    def train(self, steps):
        self.build_optimizer()
        return []


@family()
def unstepped(seed):
    model = plain("adam").model
    return _Unstepped(model, numbers(8, 4), optimizer=optimizers.Adam(0.02))


class Several(Program):
    """Two optimizers in one checkpoint; each trains some of the variables."""

    def __init__(self, model, x, *own):
        super().__init__(model, x, optimizer=None)
        self.own = own
        for each in own:
            without_xla(each)

    def replace_model(self, loaded):
        self.model = loaded

    def _parts(self):
        variables = self.model.trainable_variables
        return list(zip(self.own, (variables[:2], variables[2:]), strict=True))

    def step(self):
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean((self.model(self.x, training=True) - self.y) ** 2)
        for optimizer, variables in self._parts():
            wanted = [getattr(each, "value", each) if IS_KERAS_3 else each for each in variables]
            optimizer.apply_gradients(zip(tape.gradient(loss, wanted), variables, strict=True))
        return float(loss)

    def build_optimizer(self):
        for optimizer, variables in self._parts():
            build_optimizer(optimizer, variables)

    def tracked(self):
        return {"model": self.model, "first": self.own[0], "second": self.own[1]}


def _model():
    return keras.Sequential(
        [keras.Input((4,)), layers.Dense(4, "tanh"), layers.Dense(4, "tanh"), layers.Dense(2)]
    )


@family()
def several(seed):
    return Several(_model(), numbers(8, 4), optimizers.Adam(0.02), optimizers.SGD(0.05, momentum=0.9))


@family()
def several_alike(seed):
    return Several(_model(), numbers(8, 4), optimizers.Adam(0.02), optimizers.Adam(0.05))


@family()
def own_loop(seed):
    """A model that is not compiled, and an optimizer next to it."""
    program = Several(_model(), numbers(8, 4), optimizers.RMSprop(0.01, momentum=0.9), optimizers.SGD(0.05))
    program._parts = lambda: [(program.own[0], program.model.trainable_variables)]
    program.tracked = lambda: {"net": program.model, "opt": program.own[0]}
    return program


class Module(Program):
    """Variables in a tf.Module, without a Keras model."""

    def __init__(self, x, optimizer):
        self.x, self.y, self.optimizer, self._first = x, numbers(8, 2, seed=7), optimizer, {}
        self.net = tf.Module(name="net")
        for name, shape in (("w1", (4, 4)), ("w2", (4, 4)), ("b", (4,)), ("out", (4, 2))):
            setattr(self.net, name, tf.Variable(tf.random.normal(shape), name=name))
        self.order = [self.net.w1, self.net.w2, self.net.b, self.net.out]
        self.model = self.net

    def _outputs(self):
        return tf.tanh(tf.tanh(self.x @ self.net.w1) @ self.net.w2 + self.net.b) @ self.net.out

    def step(self):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self._outputs() - self.y) ** 2)
        gradients = tape.gradient(loss, self.order)
        self.optimizer.apply_gradients(zip(gradients, self.order, strict=True))
        return float(loss)

    def outputs(self):
        return self._outputs().numpy()

    def build_optimizer(self):
        build_optimizer(self.optimizer, self.order)

    def tracked(self):
        return {"net": self.net, "optimizer": self.optimizer}

    def is_all_variables(self):
        return True

    def variables(self):
        return self.order


@family(only=2)
def module(seed):
    return Module(numbers(8, 4), optimizers.Adam(0.02))


# Keras 3's adapters and quantized weights -------------------------------------------------


@family(only=3)
def lora(seed):
    """A frozen base with a small trainable set."""
    model = keras.Sequential([keras.Input((4,)), layers.Dense(6, "tanh", name="base"), layers.Dense(2)])
    model.get_layer("base").enable_lora(2)
    return Program(model, numbers(8, 4), optimizer=optimizers.Adam(0.05))


@family(only=3)
def lora_embedding(seed):
    model = keras.Sequential(
        [
            keras.Input((5,), dtype="int32"),
            layers.Embedding(7, 4, name="base"),
            layers.EinsumDense("abc,cd->abd", output_shape=(None, 4), name="mixed"),
            layers.GlobalAveragePooling1D(),
            layers.Dense(2),
        ]
    )
    for name in ("base", "mixed"):
        model.get_layer(name).enable_lora(2)
    tokens = np.random.RandomState(0).randint(0, 7, (8, 5)).astype("int32")
    return Program(model, tokens, optimizer=optimizers.Adam(0.05))


@family(only=3)
def int8(seed):
    """The quantized layers are no longer trained; the last layer is."""
    model = keras.Sequential([keras.Input((4,)), layers.Dense(4, "tanh", name="base"), layers.Dense(2)])
    model.get_layer("base").quantize("int8")
    return Program(model, numbers(8, 4), optimizer=optimizers.Adam(0.05))


@family(only=3)
def int8_lora(seed):
    model = keras.Sequential([keras.Input((4,)), layers.Dense(4, "tanh", name="base"), layers.Dense(2)])
    model.get_layer("base").quantize("int8")
    model.get_layer("base").enable_lora(2)
    return Program(model, numbers(8, 4), optimizer=optimizers.Adam(0.05))


# Keras 2's legacy optimizers --------------------------------------------------------------


def legacy(name, *arguments, **options):
    return getattr(optimizers.legacy, name)(*arguments, **options)


@family(only=2)
def legacy_adam(seed):
    return plain(legacy("Adam", 0.02, amsgrad=True))


@family(only=2)
def legacy_momentum(seed):
    return plain(legacy("SGD", 0.05, momentum=0.9))


@family(only=2)
def legacy_rmsprop(seed):
    return plain(legacy("RMSprop", 0.01, momentum=0.5, centered=True))


@family(only=2)
def legacy_ftrl(seed):
    return plain(legacy("Ftrl", 0.1))


@family(only=2)
def legacy_adagrad(seed):
    return plain(legacy("Adagrad", 0.1))


@family(only=2)
def legacy_mixed(seed):
    def make():
        return plain(keras.mixed_precision.LossScaleOptimizer(legacy("Adam", 0.02)))

    return with_policy("mixed_float16", make)


@family(only=2)
def legacy_schedule(seed):
    return plain(legacy("SGD", optimizers.schedules.ExponentialDecay(0.1, 2, 0.5), momentum=0.9))


@family(only=2)
def legacy_subclassed(seed):
    from families.layers import Blocks

    return Program(Blocks(), numbers(8, 4), optimizer=legacy("Adam", 0.02))
