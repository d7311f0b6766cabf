"""TensorFlow restores converted checkpoints; run by TensorFlow's Python."""

import oracle_tensors
import tensorflow as tf

V1 = tf.compat.v1

OPTIMIZERS = {
    "adadelta": lambda: V1.train.AdadeltaOptimizer(0.1),
    "adagrad": lambda: V1.train.AdagradOptimizer(0.1),
    "adam": lambda: V1.train.AdamOptimizer(0.01),
    "adam_named": lambda: V1.train.AdamOptimizer(0.01, name="Foo"),
    "ftrl": lambda: V1.train.FtrlOptimizer(0.01),
    "momentum": lambda: V1.train.MomentumOptimizer(0.01, 0.9),
    "proximal_adagrad": lambda: V1.train.ProximalAdagradOptimizer(0.1),
    "rmsprop": lambda: V1.train.RMSPropOptimizer(0.01, momentum=0.9),
    "rmsprop_centered": lambda: V1.train.RMSPropOptimizer(0.01, momentum=0.9, centered=True),
}


def keras_optimizers():
    legacy = tf.keras.optimizers.legacy
    return {
        "adadelta": legacy.Adadelta(0.1),
        "adagrad": legacy.Adagrad(0.1),
        "adam": legacy.Adam(0.01),
        "adam_amsgrad": legacy.Adam(0.01, amsgrad=True),
        "adam_named": legacy.Adam(0.01, name="Foo"),
        "adamax": legacy.Adamax(0.01),
        "ftrl": legacy.Ftrl(0.01),
        "nadam": legacy.Nadam(0.01),
        "rmsprop": legacy.RMSprop(0.01),
        "rmsprop_centered": legacy.RMSprop(0.01, momentum=0.9, centered=True),
        "sgd_momentum": legacy.SGD(0.01, momentum=0.9),
    }


def _tree(shapes):
    """Return objects hung up by the parts of names, and the variables by name."""
    root = tf.Module()
    variables = {}
    for name, shape in shapes.items():
        node = root
        *parents, last = name.split("/")
        for part in parents:
            if not hasattr(node, part):
                setattr(node, part, tf.Module())
            node = getattr(node, part)
        variables[name] = tf.Variable(tf.zeros(shape))
        setattr(node, last, variables[name])
    return root, variables


def restore(path, optimizer, keras, shapes, slots):
    """Restore variables and their slots; return what they hold, by name and by (name, slot)."""
    root, variables = _tree(shapes)
    ordered = list(variables.values())
    chosen = keras_optimizers()[optimizer] if keras else OPTIMIZERS[optimizer]()
    if keras:
        chosen._create_all_weights(ordered)
    else:
        chosen.apply_gradients([(tf.zeros_like(variable), variable) for variable in ordered])
    root.optimizer = chosen
    status = tf.train.Checkpoint(root).restore(path)
    status.assert_nontrivial_match()
    found = {name: oracle_tensors.told(variable.numpy()) for name, variable in variables.items()}
    for key, variable, slot in slots:
        found[key] = oracle_tensors.told(chosen.get_slot(variables[variable], slot).numpy())
    return found


def restore_template(path, edges, shapes):
    """Restore into variables hung up by paths; assert that each of them got a value."""
    root, variables = _tree(dict(zip(edges, shapes, strict=True)))
    status = tf.train.Checkpoint(model=root.model).restore(path)
    status.assert_existing_objects_matched()
    return {name: oracle_tensors.told(variable.numpy()) for name, variable in variables.items()}


def restore_table(path, words):
    """Restore a variable and a hash table that is not empty; return the variable, and what the table says."""
    module = tf.Module()
    module.w = tf.Variable([0.0, 0.0])
    module.words = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    module.words.insert(tf.constant(["old"]), tf.constant([7], tf.int64))
    tf.train.Checkpoint(m=module).read(path).assert_existing_objects_matched()
    return [module.w.numpy().tolist(), module.words.lookup(tf.constant(words)).numpy().tolist()]


def _guide(legacy):
    """Return the guide's program after a step, with a name that keys escape."""
    net = tf.keras.Sequential([tf.keras.layers.Input((1,)), tf.keras.layers.Dense(5)])
    optimizers = tf.keras.optimizers.legacy if legacy else tf.keras.optimizers
    optimizer = optimizers.Adam(0.1)
    weights = net.trainable_variables
    optimizer.apply_gradients([(tf.ones_like(w), w) for w in weights])
    odd = tf.train.Checkpoint(**{"a.b/c": tf.Variable(6.0)})
    return tf.train.Checkpoint(step=tf.Variable(3), optimizer=optimizer, net=net, odd=odd)


def save_guide(path, legacy):
    return _guide(legacy).save(path)


def restore_guide(path, legacy):
    """Restore the guide's program, assert that all was consumed, and return what a save of it then holds."""
    program = _guide(legacy)
    for weight in program.net.trainable_variables:
        weight.assign(tf.zeros_like(weight))
    status = program.restore(path)
    status.assert_consumed()
    reader = tf.train.load_checkpoint(program.write(path + "-again"))
    names = [name for name in reader.get_variable_to_shape_map() if name != "_CHECKPOINTABLE_OBJECT_GRAPH"]
    return {name: oracle_tensors.told(reader.get_tensor(name)) for name in sorted(names)}
