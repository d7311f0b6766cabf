"""Open a checkpoint that cannot be opened otherwise: everything in it that can be read.

    bundle        entries of the index's sound blocks; of damaged ones, where the data
                  agree with them; of a sibling's index (`formats.tf.bundle.index_salvage`)
    V1            the blocks that a damaged footer or index block names no more
    npz, .keras   members by the headers in front of them, where the zip's directory is lost
    HDF5          a file that was cut off, as far as it goes

The resulting reader reads as any other: each tensor is compared with its checksum, if it has one. A Salvage
adds what the reader cannot know: keys that are in doubt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..core.dtypes import STRING
from ..core.spec import key_bytes
from ..errors import CheckpointError, CheckpointNotFoundError, ConversionError, forget_locals
from ..known import tf_name, tf_object
from ..model.checkpoint_files import CheckpointLocation, data_shards
from ..model.probe import Probe
from ..model.verification import Finding
from ..store.siblings import SHARD
from ..tf.bundle import payload
from ..tf.bundle.index import OBJECT_GRAPH_KEY, EntryError
from ..tf.bundle.index_fragments import read_remains
from ..tf.bundle.index_salvage import CHECKSUM, SalvagedIndex, encoded, place_by
from ..tf.bundle.reader import BundleReader
from .opening import locate
from .registry import all_formats, detect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..core.region import Extents
    from ..location import Location
    from ..model.reader import Format, FormatReader
    from ..tf.bundle.index_fragments import Remains
    from ..tf.bundle.index_salvage import ProvenEntry


class Salvage(NamedTuple):
    """A reader of what is left, and what it cannot know by itself.

    `proofs` holds the proof of keys, "checksum" or "sibling", and `doubts` the reason why a key has none; for
    all other keys the format's own checksums decide. `losses` are tensors that the reader lacks, many of them
    without a key, and damage without a known place. `findings` are all others.
    """

    reader: FormatReader
    losses: tuple[Finding, ...]
    findings: tuple[Finding, ...] = ()
    proofs: Mapping[str, str] = {}
    doubts: Mapping[str, str] = {}
    sibling: FormatReader | None = None


def find_damaged(path: Location) -> CheckpointLocation:
    """Return what a path names, also where nothing but the data shards of a bundle is left."""
    try:
        return locate(path)
    except CheckpointNotFoundError:
        shard = SHARD.fullmatch(path)
        prefix = path.of(shard["prefix"]) if shard else path.removesuffix(".index")
        if not data_shards(prefix):
            raise
        return CheckpointLocation(prefix, prefix + ".index")


def open_damaged(location: CheckpointLocation, sibling: FormatReader | None = None) -> Salvage:
    """Open the rest of a checkpoint. Raises CheckpointError if not one tensor can be read."""
    fingerprint = location.fingerprint()
    salvage = _open(location, sibling)
    salvage.reader.fingerprint = fingerprint
    return salvage


def format_of_rest(path: Location) -> Format | None:
    """Return the format of a damaged file of this machine from which a tensor can be saved, if one can."""
    if path.store.scheme:
        return None  # the parts of the file would be requested again
    try:
        with open_damaged(find_damaged(path)).reader as reader:
            return reader.format if any(step.tensors for step in reader.verify()) else None
    except CheckpointError:
        return None


def _open(location: CheckpointLocation, sibling: FormatReader | None) -> Salvage:
    if location.head == location.path + ".index":
        return _open_bundle(location, sibling)
    if sibling is not None:
        message = "this format has no .index file; --sibling works only for TensorFlow checkpoints"
        raise ConversionError(message, path=location.path)
    probe = Probe(location)
    try:
        reader = detect(probe).reader(probe, True)
    except CheckpointError as error:
        forget_locals(error)
        found = _open_otherwise(location, error)
        if found is None:
            raise
        return found
    if not all(tensor_class.has_values for tensor_class in {type(reader[key]) for key in _some(reader)}):
        raise ConversionError("this file has no values that could be rescued", path=location.path)
    return _salvage(reader)


def _some(reader: FormatReader) -> list[str]:
    return [key for key in reader.specs if not reader.is_unread(key)][:1]


_REPORTED_BY_TENSORS = frozenset(("footer", "key-order", "shard-short"))
"""Codes of findings about a whole file that say nothing beyond what each tensor says."""


def _salvage(reader: FormatReader, *found: Finding) -> Salvage:
    """Return what a lenient reader lists, its findings sorted into losses and the rest."""
    specs = reader.specs
    losses = [
        finding
        for finding in reader.findings
        if finding.severity == "error"
        and finding.key not in specs
        and (finding.key is not None or not (reader.lists_all or finding.code in _REPORTED_BY_TENSORS))
    ]
    loss_findings = frozenset(losses)
    known_findings = loss_findings.union(found)
    others = [finding for finding in reader.findings if finding not in known_findings and finding.key is None]
    doubt = reader.read_unproved()
    doubts = dict.fromkeys(specs, doubt) if doubt is not None else {}
    if doubt is not None:
        # Damage that can be anywhere has changed a value or a name, or hidden a tensor.
        losses.append(Finding("error", "tensor-checksum", doubt, file=reader.location.head))
    return Salvage(reader, tuple(losses), (*found, *others), doubts=doubts)


# Bundles ----------------------------------------------------------------------------


class _NameReader(tf_name.NameReader):
    def __init__(self, location: CheckpointLocation, index: SalvagedIndex) -> None:
        self.begin(location, index)


class _ObjectReader(tf_object.ObjectReader):
    def __init__(self, location: CheckpointLocation, index: SalvagedIndex) -> None:
        self.begin(location, index)


def _open_bundle(location: CheckpointLocation, sibling: FormatReader | None) -> Salvage:
    remains = read_remains(location.path)
    placed: dict[bytes, ProvenEntry] = {}
    findings = list(remains.findings)
    # a sibling knows the entries of damaged blocks, but not entries in an unknown encoding
    hidden = ("entry",) if sibling is not None else ("entry", "block-checksum")
    losses = [each for each in findings if each.code in hidden]
    if sibling is not None:
        _check_sibling(sibling, location, remains)
        assert isinstance(sibling, BundleReader)
        placed, unplaced = place_by(sibling.index, location.path, remains)
        losses += unplaced
    doubtful = {key: value for key, value in remains.doubtful.items() if key not in placed}
    entries = {**doubtful, **remains.sound, **encoded(placed)}
    if not entries:
        raise _nothing(location.head, [*losses, *findings], sibling)
    index = SalvagedIndex(location.path, remains.header, entries)
    make = _ObjectReader if OBJECT_GRAPH_KEY in entries or _is_object_based(sibling) else _NameReader
    reader = make(location, index)
    findings += _mend_byte_order(reader)
    proofs: dict[str, str] = {}
    doubts: dict[str, str] = {}
    for key, position in index.tensors.items():
        stored = [key_bytes(key), *_piece_keys(index, key, position)]
        if any(name in doubtful and name not in remains.sound for name in stored):
            doubts[key] = "the entry of this tensor is in a damaged block of the index"
        elif any(name in placed for name in stored):
            found = [placed[name] for name in stored if name in placed]
            weakest = next((each for each in found if each.proof is None), None)
            if weakest is not None:
                doubts[key] = weakest.doubt or ""
            else:
                proofs[key] = min((each.proof or "" for each in found), key=lambda proof: proof == CHECKSUM)
    loss_findings = frozenset(losses)
    notes = tuple(finding for finding in findings if finding not in loss_findings)
    return Salvage(reader, tuple(losses), notes, proofs, doubts, sibling=sibling)


def _nothing(path: str, findings: list[Finding], sibling: FormatReader | None) -> CheckpointError:
    if not findings:
        return CheckpointError("the index is intact, but lists no tensors", path=path)
    hints = (
        ("to use another checkpoint of the same run, pass --sibling OTHER",)
        if sibling is None
        else ("name a checkpoint of the same run as OTHER; other models have other tensors",)
    )
    message = f"no tensor can be rescued: {findings[0].message}"
    return CheckpointError(message, path=findings[0].file, offset=findings[0].offset, hints=hints)


def _is_object_based(sibling: FormatReader | None) -> bool:
    return sibling is not None and sibling.format.has_object_graph


def _piece_keys(index: SalvagedIndex, key: str, position: int) -> list[bytes]:
    from ..tf.bundle.slices import slice_key

    entry = index.entry_or_none(position)
    extents: tuple[Extents, ...] = entry.slices if entry else ()
    return [slice_key(key_bytes(key), each) for each in extents]


def _check_sibling(sibling: FormatReader, location: CheckpointLocation, remains: Remains) -> None:
    if not isinstance(sibling, BundleReader):
        message = (
            f"the format is {sibling.format.name}; expected another TensorFlow checkpoint of the same run"
        )
        raise ConversionError(message, path=sibling.location.path)
    if sibling.index.path.real() == location.head.real():
        raise ConversionError("this is the damaged checkpoint itself", path=sibling.location.path)
    count = remains.header.num_shards
    if count and count != sibling.index.header.num_shards:
        message = (
            f"this checkpoint has {sibling.index.header.num_shards} "
            f"data shards, but {location.path} has {count}"
        )
        raise ConversionError(message, path=sibling.location.path)


def _mend_byte_order(reader: BundleReader) -> list[Finding]:
    """Take a big-endian bundle for a little-endian one where its strings say so; return what was done."""
    index = reader.index
    if not index.big_endian:
        return []
    for position in index.tensors.values():
        try:
            entry = index.entry(position)
        except EntryError:
            continue
        if entry.dtype is not STRING or entry.slices or entry.shape or not entry.size:
            continue
        sound = {order: _strings_fit(reader, position, big_endian=order) for order in (True, False)}
        if sound[False] and not sound[True]:
            index.big_endian = False
            message = "the header says big-endian, but the strings are little-endian and are read as such"
            return [Finding("warning", "header", message, None, index.path, 0)]
        if sound[True]:
            break
    return []


def _strings_fit(reader: BundleReader, position: int, *, big_endian: bool) -> bool:
    entry = reader.index.entry(position)
    try:
        payload.checksum(
            lambda offset, size: reader.read_bytes(entry.shard, entry.offset + offset, size),
            entry.dtype,
            1,
            entry.size,
            big_endian=big_endian,
        )
    except (CheckpointError, ValueError):
        return False
    return True


# Other formats ----------------------------------------------------------------------


def _open_otherwise(location: CheckpointLocation, error: CheckpointError) -> Salvage | None:
    """Return the readable rest of a file that no format opens, or None if there is none."""
    finding = Finding.of(error)
    probe = Probe(location)
    for found in all_formats():
        reader = found.salvage(probe, finding) if found.salvage is not None else None
        if reader is not None:
            return _salvage(reader, finding)
    return None
