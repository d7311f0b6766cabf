"""The structure of an HDF5 file as h5py, and so Keras, writes it: groups, datasets, attributes.

Importing h5py takes longer than listing a checkpoint, and the library takes a hundred microseconds to decode
a few bytes. So this module reads the layout that h5py writes by default ("earliest"). Anything else, a newer
layout, a rare feature, or damage, raises `UnfamiliarError`, and the HDF5 library decides.

    superblock 0     object header of the root group at byte 64
    object header    version: uint8 (1), 1 byte, messages: uint16, references: uint32, size: uint32, 4 bytes
        message      type: uint16, size: uint16, flags: uint8, 3 bytes, data
                     0x01 dataspace, 0x03 datatype, 0x08 layout: a dataset;  0x11 symbol table: a group
                     0x0c attribute, 0x10 continuation: offset, length;  formats.h5.native.messages
    symbol table     B-tree: offset, local heap: offset
        B-tree       "TREE", type: uint8 (0), level: uint8, entries: uint16, siblings: 2 offsets,
                     then key: length, child: offset for each entry
        leaf         "SNOD", version: uint8 (1), 1 byte, symbols: uint16, then for each
                     name: offset in the heap, object header: offset, cache: uint32 (2: a soft link), 20 bytes
        local heap   "HEAP", version: uint8 (0), 3 bytes, size, free list: lengths, data: offset
    attribute        version: uint8, flags: uint8, sizes of name, datatype, dataspace: 3 uint16,
                     (version 3: character set: uint8), the three (version 1: padded to 8), the values
    string           a value of variable length: uint32, collection: offset, object: uint32 (see heap)

Offsets and lengths are uint64.
HDF5 File Format Specification, II to IV
"""

from __future__ import annotations

import struct
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ...wire.limits import are_keys_too_long
from .heap import COLLECTION, HEADER_SIZE, collection_size, objects_of
from .messages import (
    PLACE,
    Attribute,
    DataLayout,
    Outline,
    UnfamiliarError,
    fixed_strings,
    layout_of,
    outline_of,
    split_attribute,
    unpack,
    variable_strings,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .superblock import Superblock


HARD, SOFT = 0, 1
"""Kinds of links, numbered as the library numbers them (H5L_type_t)."""

_ROOT_AT = 64
_UNDEFINED = (1 << 64) - 1
_HEADER = struct.Struct("<BxHII4x")
_MESSAGE = struct.Struct("<HHB3x")
_TREE = struct.Struct("<4sBBH16x")
_LEAF = struct.Struct("<4sBxH")
_SYMBOL = struct.Struct("<QQI20x")
_HEAP = struct.Struct("<4sB3xQQQ")

_DATASPACE, _DATATYPE, _LAYOUT, _ATTRIBUTE_TYPE, _CONTINUATION, _SYMBOL_TABLE = 1, 3, 8, 0x0C, 0x10, 0x11
_PASSED_OVER = frozenset((0, 4, 5, 0x0B, 0x0D, 0x0E, 0x12))
"""Nothing, fill values, filters, comments, times: nothing that a listing needs."""
_UNDERSTOOD = frozenset((_DATASPACE, _DATATYPE, _LAYOUT, _ATTRIBUTE_TYPE, _CONTINUATION, _SYMBOL_TABLE))
_SHARED = 0x02
"""The flag of a message whose data are elsewhere."""

_KINDS = {0: HARD, 1: HARD, 2: SOFT}
"""Links by what a symbol caches: nothing, a group's symbol table, where in the heap a path is."""

_NO_MORE_FREE = 1
"""The end of a local heap's list of free blocks, which begin with the next one's offset and their size."""

_MOST_AT_ONCE = 16 << 20
_MOST_HEAP_BYTES_KEPT = 4 << 20
_PAGE = 1 << 14
_MOST_PAGES = 64
_MOST_GROUPS = 64


class Link(NamedTuple):
    """The target of a name in a group: for a hard link, the address of an object header, if known."""

    kind: int
    address: int | None


class Object:
    """An object header: the messages that tell of it, by type, and its attributes."""

    def __init__(self, messages: dict[int, bytes], attributes: list[bytes]) -> None:
        self.messages = messages
        self.is_group = _SYMBOL_TABLE in messages
        self.links: dict[bytes, Link] | None = None
        """A group's links by name, once `Structure.links` has read them."""
        self._attributes = attributes

    @cached_property
    def attributes(self) -> dict[bytes, Attribute]:
        """The attributes by name; of those that share one, the first."""
        return dict(split_attribute(message) for message in reversed(self._attributes))

    def outline(self) -> Outline:
        """Return what a dataset is; UnfamiliarError if its type is none of the commonest."""
        return outline_of(self.messages[_DATATYPE], self.messages[_DATASPACE], self.messages[_LAYOUT])

    def layout(self) -> DataLayout:
        """Return how a dataset's values are stored, which is in its own file."""
        return layout_of(self.messages[_LAYOUT])


class FileStructure:
    """The structure of what `read(offset, size)` reads; UnfamiliarError for any but the layout above.

    `expect(offsets, size)` announces reads at many offsets.
    """

    def __init__(
        self,
        read: Callable[[int, int], bytes],
        size: int,
        superblock: Superblock,
        expect: Callable[[Iterable[int], int], None] | None = None,
    ) -> None:
        self._read_file = read
        self._expect = expect
        self._size = size
        self._pages: dict[int, bytes] = {}
        self._groups: dict[int, Object] = {}
        self._collections: dict[int, dict[int, bytes]] = {}
        self._heap_bytes = 0
        head = read(0, _ROOT_AT + 16)
        plain = (superblock.offset, superblock.version, *head[13:15]) == (0, 0, 8, 8)
        base, driver = (int.from_bytes(head[at : at + 8], "little") for at in (24, 48))
        if not plain or len(head) < _ROOT_AT + 16 or base or driver != _UNDEFINED:
            raise UnfamiliarError
        self.root_address = int.from_bytes(head[_ROOT_AT : _ROOT_AT + 8], "little")
        self.root = self.object(self.root_address)
        if not self.root.is_group:
            raise UnfamiliarError

    def _look_at(self, addresses: Iterable[int]) -> None:
        """Say that structures at these places are read next."""
        if self._expect is not None:
            self._expect((address - address % _PAGE for address in addresses), _PAGE)

    def _read(self, offset: int, size: int) -> bytes:
        """Return existing bytes; structures are close together, so pages of the file are kept."""
        if not size or size > _MOST_AT_ONCE or offset + size > self._size:
            raise UnfamiliarError
        number, at = divmod(offset, _PAGE)
        if at + size > _PAGE:
            data = self._read_file(offset, size)
        else:
            page = self._pages.get(number)
            if page is None:
                if len(self._pages) == _MOST_PAGES:
                    del self._pages[next(iter(self._pages))]
                page = self._pages[number] = self._read_file(number * _PAGE, _PAGE)
            data = page[at : at + size]
        if len(data) != size:
            raise UnfamiliarError
        return data

    # Objects ---------------------------------------------------------------------------

    def object(self, address: int) -> Object:
        """Return the object whose header is at an address; groups are kept, for they are passed often."""
        group = self._groups.get(address)
        if group is None:
            found = self._parse(address)
            if not found.is_group:
                return found
            if len(self._groups) == _MOST_GROUPS:
                del self._groups[next(iter(self._groups))]
            group = self._groups[address] = found
        return group

    def _parse(self, address: int) -> Object:
        version, count, _, size = _HEADER.unpack(self._read(address, _HEADER.size))
        if version != 1:
            raise UnfamiliarError
        blocks = [(address + _HEADER.size, size)]
        left = min(self._size, _MOST_AT_ONCE)
        messages: dict[int, bytes] = {}
        attributes: list[bytes] = []
        for offset, length in blocks:
            left -= length
            if left < 0:  # the objects overlap
                raise UnfamiliarError
            data = self._read(offset, length)
            at = 0
            while at + _MESSAGE.size <= length and count:
                kind, nbytes, flags = _MESSAGE.unpack_from(data, at)
                at += _MESSAGE.size
                body = data[at : at + nbytes]
                at += nbytes
                count -= 1
                if kind in _PASSED_OVER:
                    continue
                if at > length or flags & _SHARED or kind in messages or kind not in _UNDERSTOOD:
                    raise UnfamiliarError
                if kind == _ATTRIBUTE_TYPE:
                    attributes.append(body)
                elif kind == _CONTINUATION:
                    blocks.append(unpack(PLACE, body))
                else:
                    messages[kind] = body
        if count or messages.keys() not in ({_SYMBOL_TABLE}, {_DATASPACE, _DATATYPE, _LAYOUT}):
            raise UnfamiliarError
        return Object(messages, attributes)

    # Groups ----------------------------------------------------------------------------

    def links(self, group: Object) -> dict[bytes, Link]:
        """Return a group's links by name, in the order of names."""
        if group.links is None:
            tree = group.messages.pop(_SYMBOL_TABLE, b"")  # an unfamiliar table is not tried again
            group.links = self._read_links(tree)
        return group.links

    def _read_links(self, table: bytes) -> dict[bytes, Link]:
        tree, heap = unpack(PLACE, table)
        names = self._local_heap(heap)
        found: dict[bytes, Link] = {}
        last, size = b"", 0
        for leaf in self._leaves(tree):
            for name_at, address, cache in self._symbols(leaf):
                end = names.find(b"\0", name_at)
                size += max(0, end - name_at)
                if are_keys_too_long(size, len(found)):  # the objects overlap
                    raise UnfamiliarError
                name = names[name_at:end]
                kind = _KINDS.get(cache)
                if kind is None or end == -1 or name <= last or b"/" in name or name == b".":
                    raise UnfamiliarError
                found[name] = Link(kind, address)
                last = name
        self._look_at(link.address for link in found.values() if link.address is not None)
        return found

    def _local_heap(self, address: int) -> bytes:
        magic, version, size, free, place = _HEAP.unpack(self._read(address, _HEAP.size))
        if magic != b"HEAP" or version != 0:
            raise UnfamiliarError
        data = self._read(place, size)
        left = size
        while free != _NO_MORE_FREE:
            following, length = unpack(PLACE, data[free : free + PLACE.size])
            left -= length
            if length < PLACE.size or free + length > size or left < 0:
                raise UnfamiliarError
            free = following
        return data

    def _leaves(self, tree: int) -> list[int]:
        """Return the addresses of a B-tree's leaves, in order."""
        nodes, depth = [tree], None
        seen: set[int] = set()
        while depth != 0:
            children: list[int] = []
            for address in nodes:
                magic, kind, level, entries = _TREE.unpack(self._read(address, _TREE.size))
                wanted = level if depth is None else depth - 1
                if magic != b"TREE" or kind != 0 or level != wanted or address in seen:
                    raise UnfamiliarError
                seen.add(address)
                if entries:
                    words = struct.unpack(f"<{2 * entries}Q", self._read(address + _TREE.size, 16 * entries))
                    children += words[1::2]
            depth = level if depth is None else depth - 1
            nodes = children
            self._look_at(nodes)
        if len(set(nodes)) != len(nodes):
            raise UnfamiliarError
        return nodes

    def _symbols(self, leaf: int) -> list[tuple[int, int, int]]:
        magic, version, count = _LEAF.unpack(self._read(leaf, _LEAF.size))
        if magic != b"SNOD" or version != 1 or not count:
            raise UnfamiliarError
        return list(_SYMBOL.iter_unpack(self._read(leaf + _LEAF.size, _SYMBOL.size * count)))

    # Attributes ------------------------------------------------------------------------

    def strings(self, holder: Object, name: bytes) -> list[bytes] | None:
        """Return an attribute of strings; None if there is no such attribute.

        Raises ValueError if they have more bytes together than is read.
        """
        found = holder.attributes.get(name)
        if found is None:
            return None
        strings = fixed_strings(found)
        if strings is None:
            places = variable_strings(found)
            if sum(length for length, *_ in places) > _MOST_AT_ONCE:  # many may be one and the same
                raise ValueError(f"its strings have more than {_MOST_AT_ONCE} bytes in total")
            strings = [self._variable_string(*place) for place in places]
        return strings

    def _variable_string(self, length: int, address: int, number: int) -> bytes:
        if not address and not length:
            return b""
        held = self._collection(address).get(number) if number else None
        if held is None or len(held) < length:
            raise UnfamiliarError
        return held[:length].partition(b"\0")[0]

    def _collection(self, address: int) -> dict[int, bytes]:
        """Return a global heap collection's objects; those read last are kept."""
        found = self._collections.get(address)
        if found is None:
            header = self._read(address, HEADER_SIZE)
            size = collection_size(header)
            data = self._read(address, size)
            places = objects_of(data) if header.startswith(COLLECTION) else None
            if places is None:
                raise UnfamiliarError
            if self._heap_bytes + size > _MOST_HEAP_BYTES_KEPT:
                self._collections.clear()
                self._heap_bytes = 0
            self._heap_bytes += size
            found = {number: data[at : at + length] for number, (at, length) in places.items()}
            self._collections[address] = found
        return found
