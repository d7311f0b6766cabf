"""Google's own TensorFlow 1 checkpoints of BERT, ALBERT, ELECTRA and T5 as transformers 4.41 converts them.

The table `google.tsv` has the names of each family, and what they become.  The names tell the family.
transformers/models/{bert,albert,electra,t5}: load_tf_weights_in_*
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from formats.core.axes import NOTHING, AxisOperations, parse_steps
from formats.errors import ConversionError, leave_out
from formats.model.hub_config import HubConfig, read_hub_config

from ...select.name_map import MapRow, Name
from ..plan import Dropped
from .architectures import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.location import Location
    from formats.model.reader import FormatReader

_SIGNATURES = {
    "albert": re.compile(r"(module/)?bert/encoder/transformer/group_\d+/"),
    "bert": re.compile(r"bert/embeddings/word_embeddings"),
    "electra": re.compile(r"electra/embeddings/word_embeddings"),
    "t5": re.compile(r"(encoder|decoder)/block_\d{3}/layer_\d{3}/"),
}
"""How the names begin that only one family has; the first one counts."""

_CONFIGS = ("config.json", "bert_config.json", "albert_config.json", "electra_config.json")
_CLASSES = {
    "bert": "BertForPreTraining",
    "albert": "AlbertForPreTraining",
    "electra-discriminator": "ElectraForPreTraining",
    "electra-generator": "ElectraForMaskedLM",
    "t5": "T5ForConditionalGeneration",
}
_ELECTRA = {
    "ElectraForPreTraining": "electra-discriminator",
    "ElectraForMaskedLM": "electra-generator",
}
_DROP = "-"
_WHICH = 'pass --config FILE, with "architectures": ["ElectraForPreTraining"] or ["ElectraForMaskedLM"]'


class _NameRule(NamedTuple):
    pattern: re.Pattern[str]
    new: str
    steps: AxisOperations = NOTHING
    reason: str = ""
    """Why a tensor is left out."""


@cache
def _rules() -> dict[str, list[_NameRule]]:
    out: dict[str, list[_NameRule]] = {}
    for family, pattern, new, *rest in lines_of("google.tsv"):
        last = "".join(rest)
        steps = parse_steps(last) if last and new != _DROP else NOTHING
        reason = last if new == _DROP else ""
        out.setdefault(family, []).append(_NameRule(re.compile(pattern), new, steps, reason))
    return out


class GoogleModel(NamedTuple):
    """A checkpoint of one of Google's models, and the configuration that is known of it."""

    family: str
    config: HubConfig | None = None

    @property
    def class_name(self) -> str:
        """The class of transformers that the script makes."""
        return _CLASSES[self.family]

    def rows(self, names: Iterable[str]) -> tuple[list[MapRow], list[Dropped]]:
        """Return what becomes of variables, and what is left out.

        Raises ConversionError for a variable that transformers' script does not load either.
        """
        rules = [*_rules()["*"], *_rules()[self.family]]
        rows, dropped = [], []
        for name in names:
            rule = next((rule for rule in rules if rule.pattern.fullmatch(name)), None)
            if rule is None:
                message = f"{self.class_name} has no such variable, and transformers does not load it"
                raise ConversionError(message, key=name, hints=(leave_out(name),))
            if rule.new == _DROP:
                dropped.append(Dropped(name, rule.reason))
                continue
            new = rule.pattern.sub(rule.new, name).replace("/", ".")
            rows.append(MapRow(Name((name,)), Name((new,)), rule.steps, repr(name)))
        return rows, dropped

    def beside(self) -> dict[str, Location | bytes]:
        """Return the configuration that transformers needs: Google's, with the architecture."""
        if self.config is None:
            return {}
        content = self.config.content
        if "model_type" in content:
            return {_CONFIGS[0]: self.config.path}
        identified = {"model_type": self.family.partition("-")[0], "architectures": [self.class_name]}
        return {_CONFIGS[0]: (json.dumps({**identified, **content}, indent=2) + "\n").encode()}

    def notes(self, reader: FormatReader) -> tuple[str, ...]:
        """Return what a person should know: transformers loads no folder without a configuration."""
        if self.config is not None:
            return ()
        path = reader.location.path
        return (f"transformers needs a config.json next to {path}; to copy one there, pass --config FILE",)


def google_model(reader: FormatReader, given: HubConfig | None) -> GoogleModel | None:
    """Return the model whose names a TensorFlow 1 checkpoint has; None if it has none of these."""
    if not reader.format.is_by_name:
        return None
    family = next(
        (
            family
            for family, signature in _SIGNATURES.items()
            if any(signature.match(name) for name in reader.specs)
        ),
        None,
    )
    if family is None:
        return None
    config = given or _config_next_to(reader)
    found = config.content.get("model_type", family) if config is not None else family
    if config is not None and found != family:
        message = f"model_type is {found!r}, but {reader.location.path} has the names of {family}"
        raise ConversionError(message, path=config.path)
    return GoogleModel(_variant(family, config, reader), config)


def _config_next_to(reader: FormatReader) -> HubConfig | None:
    folder = reader.location.head.parent
    for name in _CONFIGS:
        path = folder / name
        found = read_hub_config(path) if path.is_file() else None
        if found is not None:
            return found
    return None


def _variant(family: str, config: HubConfig | None, reader: FormatReader) -> str:
    """Return which of two models in one checkpoint is meant."""
    if family != "electra":
        return family
    listed = config.content.get("architectures") if config is not None else None
    chosen = [_ELECTRA[name] for name in listed if name in _ELECTRA] if isinstance(listed, list) else []
    if len(chosen) != 1:
        message = (
            "this checkpoint contains both the discriminator and the generator of ELECTRA; "
            "no configuration chooses one"
        )
        raise ConversionError(message, path=reader.location.path, hints=(_WHICH,))
    return chosen[0]
