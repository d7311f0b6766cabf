"""Write the layout of `.weights.h5`, which formats.h5.weights describes: a key is a dataset's path.

The target's facts may name objects, as Keras 3 does, and all paths of `vars`.  The group
`/vars` is always there: Keras 2 does not load a file without it.
keras/src/saving/saving_lib.py: H5IOStore
"""

from __future__ import annotations

import os
import zipfile
from typing import TYPE_CHECKING

from ..errors import ConversionError, is_exhausted
from ..keras.facts import keras_facts
from ..model.writer import check_text
from ..store.local.refusals import refusing
from .writer import NAMES, H5Writer, check_paths, copy_pieces

if TYPE_CHECKING:
    from ..model.reader import Format, FormatReader
    from ..model.writer import WriteTarget
    from .writer import H5Skeleton


_ROOT = "vars"


class WeightsWriter(H5Writer):
    """Writes the variables of a model by their objects' paths."""

    suffix = ".weights.h5"

    def __init__(self, format: Format, target: WriteTarget) -> None:  # noqa: A002  as its base
        for spec in target.specs:
            group, _, number = spec.key.rpartition("/")
            if not (number.isdecimal() and (group == _ROOT or group.endswith(f"/{_ROOT}"))):
                message = f"{format.name} stores variables as <object>/vars/<number>"
                hints = ("pass --config FILE or --like TEMPLATE to say which object each tensor belongs to",)
                raise ConversionError(message, path=target.path, key=spec.key, hints=hints)
        check_paths(target.path, [(spec.key, spec.key) for spec in target.specs])
        facts = keras_facts(target.facts)
        for group in (*facts.groups, *facts.object_names):
            check_text(target.path, group, NAMES)
        super().__init__(format, target)
        if not target.path.endswith(self.suffix):
            name = os.path.basename(target.path)
            self.notes.append(f"{name}: Keras loads this file only if its name ends in {self.suffix}")

    def _lay_out(self, skeleton: H5Skeleton) -> None:
        facts = keras_facts(self.target.facts)
        names = facts.object_names
        groups = {_ROOT, *facts.groups, *names}
        groups.update(spec.key.rpartition("/")[0] for spec in self.target.specs)
        for path in sorted(groups):
            skeleton.group(path)
            if path in names:
                skeleton.text(path, "name", names[path])
        for spec in self.target.specs:
            skeleton.dataset(spec, spec.key)


class ArchiveWriter(WeightsWriter):
    """Writes a `.keras` archive: first the weights next to the target, then everything into a zip.

    Members are stored, not deflated, so that weights can be read in place. They bear the first date of zip,
    so that the same content makes the same bytes.
    """

    suffix = ".keras"

    def __init__(self, format: Format, target: WriteTarget) -> None:  # noqa: A002  as its base
        facts = keras_facts(target.facts)
        if not facts.config:
            message = "a .keras archive needs a model configuration"
            hints = ("pass --config FILE, or --like TEMPLATE with another archive",)
            raise ConversionError(message, path=target.path, hints=hints)
        super().__init__(format, target)
        self._assets = facts.contents
        left = [name for name in facts.assets if name not in self._assets]
        if left:
            more = f" and {len(left) - 1} more" if len(left) > 1 else ""
            self.notes.append(f"left out {left[0]!r}{more}; Keras needs these assets to load the model")

    def _h5_name(self) -> str:
        return "model.weights.h5"

    def _finish(self) -> None:
        self._h5.close()
        weights = self.staging.path(self._h5_name())
        with refusing(self.target.path):
            path = self.staging.path(os.path.basename(self.target.path))
            with zipfile.ZipFile(path, "x", allowZip64=True) as archive:
                for name, text in self._texts().items():
                    archive.writestr(zipfile.ZipInfo(name), text.encode("utf-8", "surrogateescape"))
                member = zipfile.ZipInfo(self._h5_name())
                member.file_size = os.path.getsize(weights)
                with open(weights, "rb") as source, archive.open(member, "w") as sink:
                    copy_pieces(source, sink)
                for name, content in self._assets.items():
                    archive.writestr(zipfile.ZipInfo(name), content)
            if self.target.journal is None:  # otherwise another process may have to make the archive again
                os.unlink(weights)

    def is_described_by(self, found: FormatReader) -> bool:  # noqa: ARG002  as its base
        texts = {name: text.encode("utf-8", "surrogateescape") for name, text in self._texts().items()}
        try:
            with refusing(self.target.path), zipfile.ZipFile(self.target.path) as archive:
                members = archive.infolist()
                if [member.filename for member in members] != [*texts, self._h5_name(), *self._assets]:
                    return False
                text_members, weights, assets = (
                    members[: len(texts)],
                    members[len(texts)],
                    members[len(texts) + 1 :],
                )
                if [member.file_size for member in assets] != [*map(len, self._assets.values())]:
                    return False
                if any(member.compress_type != zipfile.ZIP_STORED for member in members):
                    return False
                if [member.file_size for member in text_members] != [*map(len, texts.values())]:
                    return False
                with archive.open(weights) as there:
                    is_laid_out = self._is_laid_out_as(there, weights.file_size)
                held = [*map(archive.read, (*text_members, *assets))]
                return is_laid_out and held == [*texts.values(), *self._assets.values()]
        except (zipfile.BadZipFile, RuntimeError) as error:  # of an archive that this library does not write
            if is_exhausted(error):
                raise
            return False

    def _texts(self) -> dict[str, str]:
        import json

        facts = keras_facts(self.target.facts)
        date = facts.date_saved or "1980-01-01@00:00:00"
        metadata = {"keras_version": facts.version or "3.0.0", "date_saved": date}
        return {"metadata.json": json.dumps(metadata), "config.json": facts.config or ""}
