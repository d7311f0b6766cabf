"""Checkpoints that TensorFlow writes for our readers, and what it says is in them."""

import oracle_tensors
import tensorflow as tf

V1 = tf.compat.v1


def object_based(path):
    """A model, an optimizer with slots, lists, a shared variable, strings and a table."""
    tf.random.set_seed(7)
    net = tf.Module()
    net.layers = [tf.Module(), tf.Module()]
    for number, layer in enumerate(net.layers):
        layer.kernel = tf.Variable(tf.random.normal([3, 4 + number]), name=f"kernel_{number}")
        layer.bias = tf.Variable(tf.random.normal([4 + number]))
    net.tied = net.layers[0].kernel
    net.names = {"a/b.c": tf.Variable(b"caf\xc3\xa9"), "many": tf.Variable([b"", b"x" * 300])}
    net.half = tf.Variable(tf.cast([1.5, -2.0], tf.bfloat16))
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    table.insert(tf.constant(["one", "two"]), tf.constant([1, 2], tf.int64))
    iterator = iter(tf.data.Dataset.range(5).batch(2))
    next(iterator)
    prefix = tf.train.Checkpoint(net=net, table=table, iterator=iterator).save(path)
    reader = tf.train.load_checkpoint(prefix)
    dtypes = reader.get_variable_to_dtype_map()
    readable = [key for key in dtypes if dtypes[key] != tf.variant]
    return [prefix, {key: oracle_tensors.told(reader.get_tensor(key), dtypes[key]) for key in readable}]


def name_based(path, version, sharded, partitions):
    """Variables, slots and powers of an Adam, written by a Saver."""
    graph = tf.Graph()
    with graph.as_default():
        partitioner = V1.fixed_size_partitioner(partitions) if partitions > 1 else None
        with V1.variable_scope("net", partitioner=partitioner, use_resource=False):
            kernel = V1.get_variable("kernel", [7, 3], initializer=V1.random_normal_initializer(seed=1))
            bias = V1.get_variable("bias", [5], initializer=V1.random_normal_initializer(seed=2))
        V1.get_variable("flags", initializer=tf.constant([True, False]), use_resource=False, trainable=False)
        loss = tf.reduce_sum(tf.convert_to_tensor(kernel) ** 2) + tf.reduce_sum(
            tf.convert_to_tensor(bias) ** 2
        )
        step = V1.train.get_or_create_global_step()
        train = V1.train.AdamOptimizer(0.1).minimize(loss, global_step=step)
        saver = V1.train.Saver(
            sharded=sharded, write_version=V1.train.SaverDef.V1 if version == 1 else V1.train.SaverDef.V2
        )
        with V1.Session() as session:
            session.run(V1.global_variables_initializer())
            session.run(train)
            prefix = saver.save(session, path, global_step=step)
            values = dict(
                zip(
                    [v.op.name for v in V1.global_variables()],
                    session.run(V1.global_variables()),
                    strict=False,
                )
            )
    whole = {}
    for name, value in values.items():
        base = name.split("/part_")[0] + name.split("/part_")[1][1:] if "/part_" in name else name
        whole.setdefault(base, []).append(value)
    arrays = {
        name: tf.concat(parts, 0).numpy() if len(parts) > 1 else parts[0] for name, parts in whole.items()
    }
    return [prefix, {name: oracle_tensors.told(array) for name, array in arrays.items()}]
