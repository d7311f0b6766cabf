"""README.md says what the program does today."""

from __future__ import annotations

from tests.readme import README, commands, rendered


def _readme() -> str:
    with open(README, encoding="utf-8") as file:
        return file.read()


def test_help_formats_and_session_are_todays() -> None:
    assert rendered(_readme()) == _readme(), "python -m tests.readme brings it up to date"


def test_every_command_is_described() -> None:
    text = _readme()
    assert [name for name in commands() if f"<!-- help: {name} -->" not in text] == []
