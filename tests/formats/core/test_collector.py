"""The garbage collector is paused, and restored."""

from __future__ import annotations

import gc

import pytest

from formats.core.collector import collector_paused


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_collector_continues_as_it_was(is_enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if is_enabled else gc.disable)()
        with collector_paused():
            assert not gc.isenabled()
            with collector_paused():
                assert not gc.isenabled()
            assert not gc.isenabled()
        assert gc.isenabled() == is_enabled
        with pytest.raises(ZeroDivisionError), collector_paused():
            raise ZeroDivisionError
        assert gc.isenabled() == is_enabled
    finally:
        (gc.enable if before else gc.disable)()
