"""Records in files: groups brought together."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.formats import record_files
from snellen.formats.record_files import RecordWriter, read_records, sort_by_group
from snellen.records import Answer, ImageRef, IndistinguishableQuestion, Region, Sample, Turn


def written(path: Path, groups: list[str]) -> list[Sample]:
    samples = [
        Sample(
            id=str(n),
            benchmark="b",
            question=f"q{n}",
            options=("a", "b"),
            group=group,
            tags={"t": str(n)},
        )
        for n, group in enumerate(groups)
    ]
    with RecordWriter(path) as writer:
        for sample in samples:
            writer.write(sample)
    return samples


@given(
    st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=60),
    st.integers(1, 7),
    st.integers(1, 3),
)
def test_parts_give_what_one_stable_sort_gives(
    groups: list[str], rows: int, row_groups: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_files, "ROWS", rows)
        patch.setattr(record_files, "ROWS_AT_ONCE", rows * row_groups)
        path = Path(folder) / "samples.jsonl.gz"
        samples = written(path, groups)
        sort_by_group(path)
        first = {group: groups.index(group) for group in groups}
        assert list(read_records(path, Sample)) == sorted(
            samples, key=lambda sample: first[sample.group]
        )
        assert [file.name for file in Path(folder).iterdir()] == ["samples.jsonl.gz"]


def test_groups_in_order_are_left_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl.gz"
    written(path, ["b", "b", "a", "c", "c"])
    before = path.stat().st_ino
    sort_by_group(path)
    assert path.stat().st_ino == before


texts = st.text("abc ", max_size=4)
samples_ = st.builds(
    Sample,
    id=texts,
    benchmark=texts,
    question=texts,
    images=st.lists(
        st.builds(ImageRef, texts, texts, st.integers(1, 9), st.integers(1, 9)), max_size=2
    ).map(tuple),
    options=st.lists(texts, max_size=3).map(tuple),
    context=st.none() | texts,
    turns=st.lists(st.builds(Turn, texts, st.lists(texts, max_size=2).map(tuple)), max_size=2).map(
        tuple
    ),
    regions=st.lists(
        st.builds(Region, st.tuples(*[st.floats(0, 9)] * 4), st.none() | texts), max_size=2
    ).map(tuple),
    tags=st.dictionaries(texts, texts, max_size=2),
    rewordings=st.lists(texts, max_size=2).map(tuple),
)
answers = st.builds(
    Answer,
    sample_id=texts,
    turn=st.integers(0, 9),
    options=st.lists(st.integers(0, 9), max_size=2).map(tuple),
    texts=st.lists(texts, max_size=2).map(tuple),
    relevance=st.lists(st.floats(0, 1), max_size=3).map(tuple),
)


numbers = st.integers(0, 9)
alike = st.builds(
    IndistinguishableQuestion, sample_id=texts, turn=numbers, group=numbers, kind=numbers
)
KINDS = (samples_, answers, alike)


@given(st.one_of(*(st.lists(kind, max_size=7) for kind in KINDS)), st.integers(1, 3))
def test_records_come_back_as_they_were_written(records: list[Any], rows: int) -> None:
    """Whether a field is empty in all rows of a group, in some or in none."""
    kind = type(records[0]) if records else Sample
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_files, "ROWS", rows)
        path = Path(folder) / "records.jsonl.gz"
        with RecordWriter(path) as writer:
            for record in records:
                writer.write(record)
        assert list(read_records(path, kind)) == records
