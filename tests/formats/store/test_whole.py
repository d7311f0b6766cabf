"""Files that are read whole are read once, and few bytes of them are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.store import whole as module
from formats.store.paths import open_file
from formats.store.whole import whole

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_bytes_are_kept_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_kept", module._Kept())
    monkeypatch.setattr(module, "_MOST_KEPT", 10_000)
    for number in range(100):
        path = tmp_path / f"{number}"
        path.write_bytes(bytes([number]) * 300)
        for _ in range(2):
            with open_file(str(path)) as file:
                assert whole(file) == bytes([number]) * 300
        kept = module._kept.files.values()
        assert 0 < sum(map(len, kept)) <= 10_000
    assert len(kept) == 100 % (10_000 // 300)


def test_a_large_file_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_kept", module._Kept())
    monkeypatch.setattr(module, "LARGEST_KEPT", 100)
    (tmp_path / "c").write_bytes(bytes(101))
    with open_file(str(tmp_path / "c")) as file:
        assert whole(file) == bytes(101)
    assert not module._kept.files
