# ruff: noqa: B023
"""Models with random weights, and what exporters make of them; run by TensorFlow's Python.

python gen_tf.py OUT [MODEL]...
"""

import os
import sys

import numpy as np
import tensorflow as tf

K = tf.keras
L = tf.keras.layers
IS_KERAS_3 = K.__version__.startswith("3") if hasattr(K, "__version__") else False


def convs():
    x = L.Input([12, 12, 3])
    h = L.Conv2D(8, 3, padding="same", name="conv_a")(x)
    h = L.BatchNormalization(name="bn_a")(h)
    h = L.ReLU()(h)
    h = L.Conv2D(8, 3, padding="same", use_bias=False, name="conv_b")(h)
    h = L.BatchNormalization(name="bn_b", epsilon=1e-4)(h)
    h = L.ReLU()(h)
    h = L.Conv2D(8, 3, padding="same", name="conv_c", activation="relu")(h)
    h = L.BatchNormalization(name="bn_c")(h)
    h = L.Conv2D(8, 3, padding="same", name="conv_d")(h)
    h = L.Flatten()(L.MaxPooling2D(3)(h))
    h = L.Dense(24, activation="relu", name="fc_a")(h)
    return K.Model(x, L.Dense(5, name="fc_b")(h), name="convs")


def mlp():
    return K.Sequential(
        [
            L.Input([32]),
            L.Dense(32, activation="relu", name="dense_a"),
            L.Dense(32, name="dense_b"),
            L.BatchNormalization(name="bn"),
            L.ReLU(),
            L.Dense(32, activation="relu", name="dense_c"),
            L.Dense(32, use_bias=False, name="dense_d"),
            L.BatchNormalization(name="bn_d", scale=False),
            L.Dense(3, activation="softmax", name="head"),
        ],
        name="mlp",
    )


def mobile():
    x = L.Input([16, 16, 3])
    h = L.Conv2D(8, 3, strides=2, padding="same", use_bias=False, name="stem")(x)
    h = L.ReLU(6.0)(L.BatchNormalization(name="stem_bn")(h))
    for at in range(3):
        y = L.Conv2D(24, 1, use_bias=False, name=f"block{at}_expand")(h)
        y = L.ReLU(6.0)(L.BatchNormalization(name=f"block{at}_expand_bn")(y))
        y = L.DepthwiseConv2D(3, padding="same", use_bias=False, name=f"block{at}_dw")(y)
        y = L.ReLU(6.0)(L.BatchNormalization(name=f"block{at}_dw_bn")(y))
        y = L.Conv2D(8, 1, use_bias=False, name=f"block{at}_project")(y)
        h = L.Add()([h, L.BatchNormalization(name=f"block{at}_project_bn")(y)])
    h = L.SeparableConv2D(16, 3, padding="same", name="sep")(h)
    h = L.GlobalAveragePooling2D()(h)
    return K.Model(x, L.Dense(10, name="logits")(h), name="mobile")


def rnn():
    tokens = L.Input([7], dtype="int32")
    h = L.Embedding(40, 16, name="emb")(tokens)
    h = L.LSTM(16, return_sequences=True, name="lstm")(h)
    h = L.LSTM(16, return_sequences=True, name="lstm_b")(h)
    h = L.Bidirectional(L.GRU(8, return_sequences=True), name="bi")(h)
    h = L.GRU(16, name="gru")(h)
    return K.Model(tokens, L.Dense(2, name="out")(h), name="rnn")


def attention():
    tokens = L.Input([6], dtype="int32")
    h = L.Embedding(50, 16, name="emb")(tokens)
    for at in range(2):
        a = L.LayerNormalization(name=f"ln{at}_a")(h)
        a = L.MultiHeadAttention(4, 4, name=f"mha{at}")(a, a)
        h = L.Add()([h, a])
        f = L.LayerNormalization(name=f"ln{at}_b")(h)
        f = L.Dense(64, activation="relu", name=f"up{at}")(f)
        h = L.Add()([h, L.Dense(16, name=f"down{at}")(f)])
    h = L.GlobalAveragePooling1D()(h)
    return K.Model(tokens, L.Dense(4, name="head")(h), name="attention")


def mixed():
    inner_in = L.Input([8])
    inner = K.Model(inner_in, L.Dense(8, name="inside")(inner_in), name="inner")
    x = L.Input([16, 4])
    h = L.Conv1D(8, 3, padding="same", name="c1")(x)
    h = L.Conv1D(8, 3, padding="same", name="c2")(h)
    h = L.Reshape([4, 4, 8])(h)
    h = L.Conv2DTranspose(8, 2, strides=2, name="up")(h)
    h = L.PReLU(shared_axes=[1, 2], name="prelu")(h)
    h = L.GlobalAveragePooling2D()(h)
    shared = L.Dense(8, activation="tanh", name="shared")
    h = L.Concatenate()([shared(h), shared(inner(h)), inner(h)])
    return K.Model(x, L.Dense(3, name="last")(h), name="mixed")


MODELS = {f.__name__: f for f in (convs, mlp, mobile, rnn, attention, mixed)}


def built(name):
    K.backend.clear_session()
    tf.random.set_seed(1)
    model = MODELS[name]()
    rng = np.random.RandomState(sum(map(ord, name)))
    weights = []
    for w in model.weights:
        v = rng.normal(size=w.shape) * (0.3 if len(w.shape) > 1 else 0.5)
        label = getattr(w, "path", w.name)
        if "variance" in label:
            v = np.abs(v) + 0.5
        if "gamma" in label:
            v = np.abs(v) + 0.5
        weights.append(v.astype("float32"))
    model.set_weights(weights)
    return model


def lite(model, kind, out, batch=1):
    shapes = [(batch, *i.shape[1:]) for i in model.inputs]
    is_int = model.inputs[0].dtype in ("int32", tf.int32)
    spec = [tf.TensorSpec(s, tf.int32 if is_int else tf.float32) for s in shapes]
    fn = tf.function(lambda *a: model(list(a) if len(a) > 1 else a[0], training=False), input_signature=spec)
    if IS_KERAS_3:
        c = tf.lite.TFLiteConverter.from_keras_model(model)
    else:
        c = tf.lite.TFLiteConverter.from_concrete_functions([fn.get_concrete_function()], model)
    if kind != "float":
        c.optimizations = [tf.lite.Optimize.DEFAULT]
    if kind == "float16":
        c.target_spec.supported_types = [tf.float16]
    if kind == "int8":
        r = np.random.RandomState(0)

        def data():
            for _ in range(4):
                yield [
                    r.randint(0, 40, s).astype("int32") if is_int else r.normal(size=s).astype("float32")
                    for s in shapes
                ]

        c.representative_dataset = data
    data = c.convert()
    with open(out, "wb") as f:
        f.write(data)


def frozen(model, out):
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    spec = [tf.TensorSpec(i.shape, i.dtype) for i in model.inputs]
    fn = tf.function(lambda x: model(x, training=False)).get_concrete_function(*spec)
    g = convert_variables_to_constants_v2(fn).graph.as_graph_def()
    with open(out, "wb") as f:
        f.write(g.SerializeToString())


def main(out, names):
    for name in names or MODELS:
        model = built(name)
        gen = "k3" if IS_KERAS_3 else "k2"
        stem = os.path.join(out, f"{gen}.{name}")
        model.save(stem + ".keras")
        model.save(stem + ".h5")
        todo = {
            f"lite_{k}": (lambda k=k: lite(model, k, f"{stem}.{k}.tflite"))
            for k in ("float", "float16", "dynamic", "int8")
        }
        todo["frozen"] = lambda: frozen(model, f"{stem}.frozen.pb")
        todo["saved"] = lambda: model.export(f"{stem}.saved") if IS_KERAS_3 else model.save(f"{stem}.saved")
        if not IS_KERAS_3:

            def onnx():
                import tf2onnx

                spec = [tf.TensorSpec(i.shape, i.dtype) for i in model.inputs]
                for opset in (9, 13):
                    tf2onnx.convert.from_keras(
                        model, spec, opset=opset, output_path=f"{stem}.tf2onnx{opset}.onnx"
                    )

            todo["onnx"] = onnx

            def tfjs():
                import tensorflowjs as tfjs

                tfjs.converters.save_keras_model(model, f"{stem}.tfjs")
                for dt in ("uint8", "uint16", "float16"):
                    tfjs.converters.save_keras_model(
                        model, f"{stem}.tfjs_{dt}", quantization_dtype_map={dt: "*"}
                    )
                from tensorflowjs.converters import tf_saved_model_conversion_v2 as c

                c.convert_tf_saved_model(f"{stem}.saved", f"{stem}.tfjs_graph")

            todo["tfjs"] = tfjs
        for kind, job in todo.items():
            if kind in os.environ.get("SKIP", "").split(","):
                continue
            try:
                job()
            except Exception as e:
                print("FAILED", name, kind, type(e).__name__, str(e)[:200].replace("\n", " "), flush=True)
        print("made", gen, name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
