"""The operators of a TFLite model, with the stored tensors that each one uses.

    Model         1 operator_codes
    OperatorCode  0 deprecated_builtin_code (int8), 1 custom_code, 3 builtin_code (int32)
    SubGraph      0 tensors, 3 operators
    Operator      0 opcode_index (uint32), 1 inputs (int32), 2 outputs (int32)

https://github.com/tensorflow/tensorflow/blob/master/tensorflow/compiler/mlir/lite/schema/schema.fbs
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.operation_nodes import OperationNode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..wire.flatbuffers import FlatBuffer

_OPERATIONS = {
    0: "ADD",
    3: "CONV_2D",
    4: "DEPTHWISE_CONV_2D",
    6: "DEQUANTIZE",
    9: "FULLY_CONNECTED",
    18: "MUL",
    22: "RESHAPE",
    36: "GATHER",
    39: "TRANSPOSE",
    41: "SUB",
    42: "DIV",
    43: "SQUEEZE",
    44: "UNIDIRECTIONAL_SEQUENCE_LSTM",
    59: "NEG",
    67: "TRANSPOSE_CONV",
    70: "EXPAND_DIMS",
    75: "SQRT",
    76: "RSQRT",
    77: "SHAPE",
    126: "BATCH_MATMUL",
    132: "CONV_3D",
}
_PASSES_ON = frozenset(("DEQUANTIZE",))
_LONGEST_NAME = 1 << 20
_MOST_INPUTS = 1 << 16


def tflite_nodes(flat: FlatBuffer, keys: Mapping[int, str]) -> Iterator[OperationNode]:
    """Yield the operators of all graphs; `keys` are those of stored tensors by the place of their tables."""
    model = flat.root()
    codes = [_operation(flat, code) for code in flat.tables(model, 1)]
    budget = 2 * flat.size + _LONGEST_NAME
    for place, graph in enumerate(flat.tables(model, 2)):
        tensors = flat.tables(graph, 0)
        names: dict[int, str] = {}
        held = {number: keys[table] for number, table in enumerate(tensors) if table in keys}
        for operator in flat.tables(graph, 3):
            inputs, outputs = (flat.numbers(operator, field, "i") for field in (1, 2))
            budget -= 4 * (len(inputs) + len(outputs))
            for number in outputs:
                if 0 <= number < len(tensors) and number not in names:
                    names[number] = flat.text(tensors[number], 3, _LONGEST_NAME)
                    budget -= len(names[number])
            if budget < 0 or len(inputs) > _MOST_INPUTS:
                raise ValueError("operators share inputs or names too often")
            at = flat.scalar(operator, 0, "I")
            operation = codes[at] if at < len(codes) else ""
            used = tuple(held.get(number, "") for number in inputs)
            if operation in _PASSES_ON and len(outputs) == 1 and used and used[0]:
                held[outputs[0]] = used[0]
                continue
            called = tuple(names[number] for number in outputs if number in names)
            values = (tuple(f"{place}:{number}" for number in each) for each in (inputs, outputs))
            yield OperationNode(operation, called, used, *values)


def _operation(flat: FlatBuffer, code: int) -> str:
    """Return the name of an operation that weights are known for; of another one, its number or own name."""
    number = max(flat.scalar(code, 0, "b"), flat.scalar(code, 3, "i"))
    custom = flat.text(code, 1, _LONGEST_NAME)
    return custom or _OPERATIONS.get(number, f"operation {number}")
