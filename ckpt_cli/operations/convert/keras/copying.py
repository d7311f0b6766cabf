"""Converting between files of Keras by structure: copying datasets, or the layout of `--config FILE`.

A `.keras` archive contains a `.weights.h5` file.  Between the two of one generation, datasets are
copied as they are.  If no table knows the classes of a model, its configuration does not give the
places of its variables; a file that holds weights as well as the configuration does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.errors import ConversionError
from formats.keras.config import version_of_config
from formats.keras.facts import KerasFacts, keras_facts
from formats.keras.model import ModelError, from_config
from formats.model.reader import Family

from ..optimizers import OptimizerOptions
from ..pairing import plan_like

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.location import Location
    from formats.model.reader import Format, FormatReader

    from ..pairing import Strictness
    from ..plan import Move, Plan
    from ..source import Chosen


_OF_OPTIMIZERS = ("slot", "optimizer")


def have_one_layout(one: Format, other: Format) -> bool:
    """Whether two formats have the same datasets: a `.keras` archive contains a `.weights.h5` file."""
    return one.family is other.family is Family.KERAS and one.names_layers == other.names_layers


def is_copied(chosen: Chosen) -> bool:
    """Whether datasets are copied between a `.keras` archive and a `.weights.h5` file."""
    source, into = chosen.source, chosen.into
    has_config = into.name != source.format.name and chosen.settings.config is not None
    return (
        source.format is not into
        and have_one_layout(source.format, into)
        and chosen.settings.given == OptimizerOptions()
        and chosen.settings.optimizer is None
        # copied without a new structure
        and all(key.rpartition("/")[0].endswith("vars") for key in chosen.keys)
        and (has_config or keras_facts(source.facts).config is not None)
    )


def copied(chosen: Chosen) -> tuple[list[Move], KerasFacts]:
    """Return the moves of all that is chosen, and what the target says of itself."""
    source, config = chosen.source, chosen.settings.config
    left = next((key for key in source.specs if _is_left_out(chosen, key)), None)
    if left is not None:
        message = f"{chosen.into.name} needs all weights of a model, but this weight is left out"
        hints = ("to write some tensors of a model, pass --to npz, safetensors or hdf5",)
        raise ConversionError(message, path=source.location.path, key=left, hints=hints)
    source_facts = keras_facts(source.proved_facts())
    text = config.config if config is not None else source_facts.config
    version = version_of_config(
        text, (config.version if config is not None else None) or source_facts.version
    )
    given = config or KerasFacts()
    facts = source_facts._replace(config=text, version=version, training_config=None)
    facts = facts._replace(assets=given.assets, contents=given.contents)
    return chosen.with_keys(), facts.rekeyed({key: chosen.renamed(key) for key in chosen.keys})


def _is_left_out(chosen: Chosen, key: str) -> bool:
    return chosen.source.kinds.get(key) == "variable" and key not in chosen.keys


def knows_structure(reader: FormatReader, into: Format) -> bool:
    """Whether a file given for its configuration is needed as a template, too: no table knows its model."""
    if not have_one_layout(reader.format, into) or "variable" not in reader.kinds.values():
        return False
    try:
        return not from_config(keras_facts(reader.facts).config or "").is_known
    except ModelError:
        return True


def plan_by_structure(  # noqa: PLR0917  as plan_like
    source: FormatReader,
    keys: Sequence[str],
    template: FormatReader,
    target: Location,
    into: Format,
    rules: Strictness,
) -> Plan:
    """Return the plan of writing SRC's values in the layout of a file that is given for its configuration.

    Nothing of that file's training goes along if SRC's does not.
    """
    has_state = any(source.kinds.get(key) in _OF_OPTIMIZERS for key in keys)
    plan, _ = plan_like(source, keys, template, target, rules._replace(keep_optimizer=not has_state))
    moves = plan.moves
    if not has_state:
        moves = tuple(move for move in moves if template.kinds.get(move.spec.key) not in _OF_OPTIMIZERS)
    facts = keras_facts(template.proved_facts())
    if not has_state:
        facts = facts._replace(optimizer=None)
    return plan._replace(format=into.name, moves=moves, facts=facts)
