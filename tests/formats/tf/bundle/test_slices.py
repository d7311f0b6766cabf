from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.core.region import Region, fill, intersect, region_of, tiling_flaw, volume
from formats.tf.bundle.slices import decode_slice_key, extents_of, slice_key
from formats.wire.messages import BundleEntryProto
from tests.support import same

# formats.md 5 and 19.5.
KEYS = [
    (b"part", ((2, 2), (0, -1)), "00 70 61 72 74 00 01 01 02 82 82 80 7f"),
    (b"part", ((2, 2), (0, 4)), "00 70 61 72 74 00 01 01 02 82 82 80 84"),
    (b"scalar", (), "00 73 63 61 6c 61 72 00 01 00"),
    (b"v_int32", ((0, -1),), "00 76 5f 69 6e 74 33 32 00 01 01 01 80 7f"),
    (b"net/w", ((0, 3), (0, 2)), "00 6e 65 74 2f 77 00 01 01 02 80 83 80 82"),
    (b"a\0b\xff", ((64, 1),), "00 61 00 ff 62 ff 00 00 01 01 01 c0 40 81"),
]


@pytest.mark.parametrize(("name", "extents", "encoded"), KEYS)
def test_slice_keys_of_the_reference(name: bytes, extents: tuple[tuple[int, int], ...], encoded: str) -> None:
    assert slice_key(name, extents) == bytes.fromhex(encoded)
    assert decode_slice_key(bytes.fromhex(encoded)) == (name, extents)


def test_extents_as_stored_in_the_reference() -> None:
    """formats.md 19.2: a full entry of rows 0-1 and 2-3, all columns."""
    entry = BundleEntryProto.decode(
        bytes.fromhex(
            "08 01 12 08 12 02 08 04 12 02 08 04 3a 06 0a 02 10 02 0a 00 3a 08 0a 04 08 02 10 02 0a 00"
        )
    )
    extents = [extents_of(proto) for proto in entry.slices]
    assert extents == [((0, 2), (0, -1)), ((2, 2), (0, -1))]
    assert [region_of(piece, (4, 4)) for piece in extents] == [((0, 2), (0, 4)), ((2, 4), (0, 4))]
    assert slice_key(b"part", extents[1]) == bytes.fromhex("00 70 61 72 74 00 01 01 02 82 82 80 7f")


@pytest.mark.parametrize(
    "key",
    [
        "",
        "01 01",
        "00",
        "00 61",
        "00 61 00 01",
        "00 61 00 01 01 01",
        "00 61 00 01 01 01 80",
        "00 61 00 01 00 80 80",
    ],
)
def test_what_is_not_a_slice_key(key: str) -> None:
    with pytest.raises(ValueError, match=r"number|slice key|string"):
        decode_slice_key(bytes.fromhex(key))


numbers = st.integers(-1, 1 << 40)


@given(st.binary(max_size=10), st.lists(st.tuples(numbers, numbers), max_size=4).map(tuple))
def test_slice_keys_round_trip(name: bytes, extents: tuple[tuple[int, int], ...]) -> None:
    assert decode_slice_key(slice_key(name, extents)) == (name, extents)


@pytest.mark.parametrize(
    ("extents", "shape"),
    [
        (((0, 5),), (4,)),
        (((-1, 2),), (4,)),
        (((3, -2),), (4,)),
        (((4, 1),), (4,)),
        (((1 << 62, 1 << 62),), (4,)),
        ((), (4,)),
        (((0, 4), (0, 4)), (4,)),
    ],
)
def test_slices_that_do_not_fit(extents: tuple[tuple[int, int], ...], shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="slice"):
        region_of(extents, shape)


def test_intersections() -> None:
    assert intersect(((0, 4), (1, 3)), ((2, 6), (0, 2))) == ((2, 4), (1, 2))
    assert intersect(((0, 2),), ((2, 4),)) is None
    assert intersect(((0, 0),), ((0, 4),)) is None
    assert intersect((), ()) == ()
    assert volume(((0, 4), (1, 3))) == 8
    assert volume(()) == 1


@st.composite
def tensors_and_regions(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Region]]:
    """A shape and regions within it: a tiling by repeated cuts, at times with a region dropped or added."""
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=0, max_size=3)))
    regions: list[Region] = [tuple((0, dim) for dim in shape)]
    for _ in range(draw(st.integers(0, 5)) if shape else 0):
        region = regions.pop(draw(st.integers(0, len(regions) - 1)))
        axis = draw(st.integers(0, len(shape) - 1))
        start, stop = region[axis]
        cut = draw(st.integers(start, stop))
        for part in ((start, cut), (cut, stop)):
            regions.append((*region[:axis], part, *region[axis + 1 :]))
    for _ in range(draw(st.integers(0, 2))):
        if regions and draw(st.booleans()):
            regions.pop(draw(st.integers(0, len(regions) - 1)))
        starts = [draw(st.integers(0, dim)) for dim in shape]
        stops = [draw(st.integers(start, dim)) for start, dim in zip(starts, shape, strict=True)]
        if draw(st.booleans()):
            regions.append(tuple(zip(starts, stops, strict=True)))
    return shape, draw(st.permutations(regions))


def brute_force(regions: list[Region], shape: tuple[int, ...]) -> str | None:
    count = np.zeros(shape, int)
    for region in regions:
        count[tuple(slice(start, stop) for start, stop in region)] += 1
    return "overlap" if (count > 1).any() else "gap" if (count < 1).any() else None


@given(tensors_and_regions())
def test_tiling_flaw_agrees_with_counting(case: tuple[tuple[int, ...], list[Region]]) -> None:
    shape, regions = case
    assert tiling_flaw(regions, shape) == brute_force(regions, shape)


@given(tensors_and_regions(), st.data())
def test_filling_agrees_with_numpy(case: tuple[tuple[int, ...], list[Region]], data: st.DataObject) -> None:
    shape, regions = case
    array = np.arange(math.prod(shape)).reshape(shape)
    index = tuple(
        slice(start, data.draw(st.integers(start, dim)), data.draw(st.integers(1, 3)))
        for dim, start in [(dim, data.draw(st.integers(0, dim))) for dim in shape]
    )
    expected = np.ascontiguousarray(array[(*index, ...)])
    out = np.full_like(expected, -1)
    pieces = [
        (region, array[(*(slice(start, stop) for start, stop in region), ...)].__getitem__)
        for region in regions
    ]
    filled = fill(out, index, pieces)
    flaw = brute_force(regions, shape)
    if flaw is None:
        assert (filled, same(out, expected)) == (out.size, True)
    elif flaw == "gap":
        assert filled == (out != -1).sum()
        assert same(out[out != -1], expected[out != -1])


def test_many_pieces_are_reported_fast() -> None:
    rows = [((at, at + 1), (0, 3)) for at in range(20_000)]
    assert tiling_flaw(rows, (20_000, 3)) is None
    assert tiling_flaw(rows[1:], (20_000, 3)) == "gap"
    assert tiling_flaw([*rows[1:-1], rows[5]], (20_000, 3)) == "overlap"


def test_tilings_too_tangled_to_decide_are_rejected() -> None:
    columns = [((0, 100), (at, at + 1), (at, at + 1)) for at in range(3000)]
    crossing = [((0, 100), (at, at + 1), (at + 1, at + 2)) for at in range(2999)]
    assert tiling_flaw([*columns, *crossing], (100, 3000, 3000)) == "gap"
    corners = [tuple((at, at + 1) for at in point) for point in itertools.product((0, 1), repeat=12)]
    with pytest.raises(ValueError, match="too many pieces to check: 4096, along 12 dimensions"):
        tiling_flaw(corners, (2,) * 12)
