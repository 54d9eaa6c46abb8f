"""Long lists in JSON files, read through a window."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.errors import DataError
from snellen.formats import json_files
from snellen.formats.json_files import stream_list

TEXTS = st.text(alphabet='{}[],:"\\ aé\n', max_size=12)
ITEMS = st.lists(
    st.dictionaries(
        TEXTS,
        TEXTS | st.lists(st.dictionaries(TEXTS, st.integers(), max_size=2), max_size=3),
        max_size=3,
    ),
    max_size=12,
)


def read(content: bytes, window: int, nested: int = 200) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_files, "READ_BYTES", window)
        patch.setattr(json_files, "MAX_TRIED_ENDS", nested)
        path = Path(folder) / "file.json"
        path.write_bytes(content)
        return [item for _, item in stream_list(path, "items", dict[str, Any])]


@given(ITEMS, ITEMS, st.integers(1, 90), st.sampled_from([None, 0, 2]))
def test_a_list_is_read_as_a_whole_file_would_be(
    items: list[Any], others: list[Any], window: int, indent: int | None
) -> None:
    # A list of the same name that is not of the outermost object, a list before, and one behind.
    content = {"info": {"items": [{"x": 1}]}, "before": others, "items": items, "behind": others}
    assert read(json.dumps(content, indent=indent).encode(), window) == items
    assert (
        read(json.dumps(content, indent=indent, ensure_ascii=False).encode(), window, nested=1)
        == items
    )


@given(ITEMS.filter(bool), st.integers(1, 90), st.data())
def test_a_file_that_is_cut_within_the_list_is_refused(
    items: list[Any], window: int, data: st.DataObject
) -> None:
    content = json.dumps({"items": items}).encode()
    end = data.draw(st.integers(0, len(content) - 3))
    with pytest.raises(DataError, match=r"file.json: (items\[\d+\]: |there is no list 'items')"):
        read(content[:end], window)


def test_an_item_that_is_no_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text('{"items": [{"a": 1}, {"a": 2}, {"a" 3}, {"a": 4}]}')
    with pytest.raises(DataError, match=r"file.json: items\[2\]: not JSON"):
        list(stream_list(path, "items", dict[str, int]))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none.json: no such file"):
        list(stream_list(tmp_path / "none.json", "items", dict[str, int]))
