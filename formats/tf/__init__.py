"""Shared by the TensorFlow formats: bundles, V1, object graphs, state files.

`bundle` decodes an index, `payload` the bytes of a tensor, `slices` the pieces of a
partitioned one; `bundle_reader` and `bundle_verify` put them together.
`object_graph`, `keys` and `kinds` say what the tensors are to a program, and
`state_file` which checkpoints a directory knows.
"""
