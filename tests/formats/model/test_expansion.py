"""How large tensors may be that are made of few bytes."""

from __future__ import annotations

from formats.model.expansion import expansion_flaw


def test_a_hundred_times_the_bytes_stored_and_64_mib_are_the_most() -> None:
    for stored in (0, 1, 12_345):
        most = 100 * stored + (64 << 20)
        assert expansion_flaw(most, stored) is None
        assert expansion_flaw(most + 1, stored) == (
            f"{stored} stored bytes expand to tensors of {most + 1} bytes, which is over the limit"
        )
