"""Assets of a `.keras` archive, such as vocabularies: whose a new archive gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.core.words import counted, first_of
from formats.errors import ConversionError
from formats.find.registry import format_named
from formats.keras.facts import KerasFacts, keras_facts

if TYPE_CHECKING:
    from formats.model.reader import CheckpointReader

    from ..plan import Plan


def with_assets(plan: Plan, source: CheckpointReader, *, partial: bool = False) -> Plan:
    """Return a plan whose archive has SRC's assets, or with `partial` TEMPLATE's if SRC has none.

    Raises ConversionError if SRC lacks assets that the configuration needs.
    """
    facts = plan.facts
    if not format_named(plan.format).has_assets or not isinstance(facts, KerasFacts):
        return plan
    own = keras_facts(source.proved_facts())
    if own.assets == facts.assets and own.contents == facts.contents:
        return plan
    path = source.location.path
    if not own.assets:
        names = first_of([repr(name) for name in facts.assets])
        if not partial:
            message = f"the model needs assets, such as vocabularies, which SRC does not store: {names}"
            hints = ("to take them from TEMPLATE, a .keras file of the program: --like TEMPLATE --partial",)
            raise ConversionError(message, path=path, hints=hints)
        text = f"{counted(len(facts.assets), 'asset')} of TEMPLATE taken, as SRC stores none: {names}"
        return plan._replace(warnings=(*plan.warnings, text))
    if facts.assets and set(own.assets) != set(facts.assets):
        names = first_of([repr(name) for name in sorted({*own.assets} ^ {*facts.assets})])
        message = f"the assets are not those of the file that gives the configuration: {names}"
        hints = ("pass a file that the same program saved",)
        raise ConversionError(message, path=path, hints=hints)
    return plan._replace(facts=facts._replace(assets=own.assets, contents=own.contents))
