"""Learned state that is not stored in tensors: assets such as vocabularies, and learned settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.core.words import counted, first_of
from formats.errors import ConversionError
from formats.find.registry import format_named
from formats.keras.facts import KerasFacts, keras_facts
from formats.keras.learned import differing, learned_in, unknown_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.model.reader import FormatReader

    from ..plan import Plan


_FROM_TEMPLATE = "to use those of a Keras file of the program, pass --like TEMPLATE --partial"


def with_learned(plan: Plan, source: FormatReader, *, partial: bool = False) -> Plan:
    """Return a plan with what SRC's layers learned; with `partial`, TEMPLATE's is used if SRC stores none.

    Raises ConversionError if the result would have what other data taught, and names it.
    """
    # Assets are read with what is proved; other formats may lack metadata that this plan does not take.
    own = keras_facts(source.proved_facts() if source.format.has_assets else source.facts)
    facts = keras_facts(plan.facts)
    plan = _with_settings(plan, own.config, facts.config, partial=partial)
    if format_named(plan.format).has_assets and isinstance(plan.facts, KerasFacts):
        return _with_assets(plan, own, plan.facts, partial=partial)
    if own.assets:
        return _noted(plan, f"left out {_assets(own.assets)}: {plan.format} does not store assets")
    return plan


def _with_settings(plan: Plan, own: str | None, other: str | None, *, partial: bool) -> Plan:
    if own == other:
        return plan
    mine, theirs = learned_in(own), learned_in(other)
    if other is None:
        lost = [each for each in mine if each.is_adapted]
        why = f"{plan.format} does not store a configuration"
        return _noted(plan, f"left out {_named(lost)}: {why}") if lost else plan
    different = differing(mine, theirs)
    if different is not None:
        message = (
            f"{different} differ between the configurations, which store these settings instead of tensors"
        )
        hints = ("pass a file whose layers were adapted to the same data",)
        raise ConversionError(message, path=plan.source, hints=hints)
    unknown = unknown_to(mine, theirs)
    adapted = [each for each in unknown if each.is_adapted]
    if adapted and not partial:
        message = f"the model has learned settings that SRC does not store: {_named(adapted)}"
        raise ConversionError(message, path=plan.source, hints=(_FROM_TEMPLATE,))
    if adapted:
        text = f"{_named(adapted)} of TEMPLATE is used, because SRC stores none"
        plan = plan._replace(warnings=(*plan.warnings, text))
    given = [each for each in unknown if not each.is_adapted]
    text = f"SRC does not store {_named(given)}; ckpt uses the configuration"
    return _noted(plan, text) if given else plan


def _with_assets(plan: Plan, own: KerasFacts, facts: KerasFacts, *, partial: bool) -> Plan:
    if own.assets == facts.assets and own.contents == facts.contents:
        return plan
    if not own.assets:
        names = first_of([repr(name) for name in facts.assets])
        if not partial:
            message = f"the model needs assets, such as vocabularies, that SRC does not store: {names}"
            raise ConversionError(message, path=plan.source, hints=(_FROM_TEMPLATE,))
        text = (
            f"{counted(len(facts.assets), 'asset of TEMPLATE is', 'assets of TEMPLATE are')} "
            f"used, because SRC stores none: {names}"
        )
        return plan._replace(warnings=(*plan.warnings, text))
    if facts.assets and set(own.assets) != set(facts.assets):
        names = first_of([repr(name) for name in sorted({*own.assets} ^ {*facts.assets})])
        message = f"the assets of SRC differ from those of the file with the configuration: {names}"
        hints = ("pass a file that the same program saved",)
        raise ConversionError(message, path=plan.source, hints=hints)
    return plan._replace(facts=facts._replace(assets=own.assets, contents=own.contents))


def _assets(names: Sequence[str]) -> str:
    return f"{counted(len(names), 'asset')} ({first_of([repr(name) for name in names])})"


def _named(settings: Sequence[object]) -> str:
    return first_of([str(each) for each in settings])


def _noted(plan: Plan, text: str) -> Plan:
    return plan._replace(notes=(*plan.notes, text))
