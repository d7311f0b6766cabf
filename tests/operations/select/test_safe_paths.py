"""Keys as paths: for any keys, no path leaves its directory, and no two paths are equal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_cli.operations.select.safe_paths import safe_paths

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("net/l1/kernel", "net/l1/kernel"),
        ("net/l1/.ATTRIBUTES/VARIABLE_VALUE", "net/l1/.ATTRIBUTES/VARIABLE_VALUE"),
        ("../../x", "%2E%2E/%2E%2E/x"),
        ("a/./b/...", "a/%2E/b/%2E%2E%2E"),
        ("/etc/passwd", "%_/etc/passwd"),
        ("a//b/", "a/%_/b/%_"),
        ("", "%_"),
        ("C:\\x", "C%3A%5Cx"),
        ("line\nbreak\0\x1b[2J", "line%0Abreak%00%1B[2J"),
        ("50%", "50%25"),
        ("\udcff\udcfe", "%ff%fe"),
        ("\u00fc \u4e2d", "\u00fc \u4e2d"),
    ],
)
def test_a_key_becomes_a_path_below(key: str, path: str) -> None:
    assert safe_paths([key], ".npy") == {key: path + ".npy"}


def test_what_some_file_systems_take_for_one_name_gets_a_number() -> None:
    accents = ["\u00e9", "e\u0301"]
    found = safe_paths(["a/Kernel", "a/kernel", "A/kernel", *accents], ".npy")
    assert list(found.values()) == [
        "a/Kernel.npy",
        "a/kernel~2.npy",
        "A/kernel~3.npy",
        "\u00e9.npy",
        "e\u0301~2.npy",
    ]


def test_a_file_is_not_a_directory_of_another() -> None:
    found = safe_paths(["v", "v.npy/x", "V.NPY/y"], ".npy")
    assert found["v"] == "v~2.npy"
    assert found["v.npy/x"] == "v.npy/x.npy"


@pytest.mark.parametrize("letter", ["k", "\u00e9", "\u4e2d"])
def test_names_and_paths_of_the_longest_size_are_kept(letter: str) -> None:
    size = len(letter.encode())
    longest = letter * (200 // size) + "k" * (200 % size)
    assert safe_paths([longest], "") == {longest: longest}
    (shortened,) = safe_paths([longest + "k"], "").values()
    assert len(shortened.encode()) <= 200
    assert shortened[:-17] == longest.encode()[:183].decode(errors="ignore")
    way = "/".join(["d" * 199] * 5)
    assert safe_paths([way + "d"], "") == {way + "d": way + "d"}
    (shortened,) = safe_paths([way[:-1] + "/de"], "").values()
    assert shortened.startswith("long-")


def test_long_names_end_in_a_hash_and_stay_apart() -> None:
    keys = ["k" * 5000, "k" * 5001, "\u4e2d" * 300, "/".join("d" * 2000)]
    paths = list(safe_paths(keys, ".npy").values())
    assert len(set(paths)) == 4
    for path in paths:
        assert len(path.encode()) <= 1100
        assert all(len(part.encode()) <= 255 for part in path.split("/"))


KEYS = st.text(
    st.sampled_from("aA.%/\\~0\n\0: \u00e9\udcff") | st.characters(exclude_categories=["Cs"]), max_size=12
)


@given(keys=st.lists(KEYS, unique=True, max_size=8))
def test_any_keys_make_files_of_their_own_below_the_directory(keys: list[str], tmp_path_factory: Any) -> None:
    paths = safe_paths(keys, ".npy")
    assert list(paths) == keys
    assert len({path.casefold() for path in paths.values()}) == len(keys)
    directory: Path = tmp_path_factory.mktemp("below")
    for path in paths.values():
        parts = path.split("/")
        assert not os.path.isabs(path)
        assert not {"", ".", ".."} & set(parts)
        whole = os.path.join(directory, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "x", encoding="utf-8"):
            pass
    assert sum(len(names) for _, _, names in os.walk(directory)) == len(keys)
