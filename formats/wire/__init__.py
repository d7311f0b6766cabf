"""Encodings that several formats use.

`coding` integers, `crc32c` checksums, `protobuf` messages, `sstable` tables,
`compression` of their blocks, `ordered_code` of slice keys.  Nothing in here
knows what a tensor is.
"""
