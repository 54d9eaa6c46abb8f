"""Pickles are read without running what they say."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.errors import DataError
from snellen.formats.pickles import Array, load_pickle

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text(), inner)
        | st.tuples(inner, inner)
        | st.sets(st.integers())
    ),
    max_leaves=20,
)


def written(folder: Path, content: bytes) -> Path:
    path = folder / "test_batch"
    path.write_bytes(content)
    return path


@given(value=plain, protocol=st.integers(0, 5))
def test_plain_values_come_back_as_they_were(
    value: Any, protocol: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert (
        load_pickle(written(tmp_path_factory.mktemp("p"), pickle.dumps(value, protocol))) == value
    )


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["u1", "i8", "f4"])
def test_an_array_of_numpy_comes_back_with_its_shape_and_bytes(
    protocol: int, kind: str, tmp_path: Path
) -> None:
    array = np.arange(6, dtype=kind).reshape(2, 3)
    found = load_pickle(
        written(tmp_path, pickle.dumps({"data": array, "labels": [0, 1]}, protocol))
    )
    assert found == {"data": Array((2, 3), kind, array.tobytes()), "labels": [0, 1]}


def python2(array: np.ndarray[Any, Any], labels: list[int]) -> bytes:
    """The bytes that Python 2's cPickle and numpy 1 write at protocol 2, as in CIFAR's download."""

    def text(content: bytes) -> bytes:
        return (
            b"U" + bytes([len(content)]) + content
            if len(content) < 256
            else b"T" + len(content).to_bytes(4, "little") + content
        )

    shape = b"".join(b"K" + bytes([side]) for side in array.shape)
    return (
        b"\x80\x02}q\x01("
        + text(b"data")
        + b"cnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\nq\x03"
        b"K\x00\x85"
        + text(b"b")
        + b"\x87R(K\x01"
        + shape
        + b"\x86cnumpy\ndtype\n"
        + text(b"u1")
        + b"K\x00K\x01\x87R"
        b"(K\x03"
        + text(b"|")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        + text(array.tobytes())
        + b"tb"
        + text(b"labels")
        + b"]("
        + b"".join(b"K" + bytes([label]) for label in labels)
        + b"eu."
    )


def test_a_pickle_of_python_2_reads_as_numpy_itself_reads_it(tmp_path: Path) -> None:
    array = np.arange(240, dtype="u1").reshape(2, 120)
    content = python2(array, [3, 8])
    theirs = pickle.loads(content, encoding="latin1")
    ours = load_pickle(written(tmp_path, content))
    assert (theirs["data"] == array).all() and theirs["labels"] == [3, 8]
    assert ours == {"data": Array((2, 120), "u1", array.tobytes()), "labels": [3, 8]}


class Calls:
    def __init__(self, call: Any, *arguments: Any) -> None:
        self._made = call, arguments

    def __reduce__(self) -> Any:
        return self._made


@pytest.mark.parametrize(
    ("call", "arguments", "named"),
    [
        (open, ("{made}", "w"), "open"),
        (eval, ("open('{made}', 'w')",), r"builtins?.*\.eval"),
        (getattr, (1, "real"), "getattr"),
        (np.frombuffer, (b"12345678",), "frombuffer"),
        (io.FileIO, ("{made}", "w"), "FileIO"),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_whatever_would_run_is_refused_and_has_not_run(
    call: Any, arguments: tuple[Any, ...], named: str, protocol: int, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    filled = tuple(a.format(made=made) if isinstance(a, str) else a for a in arguments)
    path = written(tmp_path, pickle.dumps([Calls(call, *filled)], protocol))
    with pytest.raises(
        DataError, match=rf"test_batch: asks for \S*{named}.*do not trust this file"
    ):
        load_pickle(path)
    assert not made.exists()


@pytest.mark.parametrize(
    "array",
    [
        np.array([{"a": 1}], dtype=object),
        np.zeros(2, dtype=[("x", "i4"), ("y", "f8")]),
        np.zeros(2, dtype=">i4"),
        np.asfortranarray(np.zeros((2, 3))),
        np.zeros(2, dtype="c16"),
    ],
)
def test_an_array_of_other_than_plain_numbers_is_refused(
    array: np.ndarray[Any, Any], tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"not a readable pickle \(an array"):
        load_pickle(written(tmp_path, pickle.dumps(array, 2)))


def test_an_array_whose_bytes_are_not_its_shape_is_refused(tmp_path: Path) -> None:
    content = python2(np.zeros((2, 120), "u1"), [1]).replace(b"K\x02K\x78\x86", b"K\x03K\x78\x86")
    with pytest.raises(DataError, match=r"240 bytes, which is not its shape \(3, 120\)"):
        load_pickle(written(tmp_path, content))


@given(content=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_by_name(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = written(tmp_path_factory.mktemp("b"), content)
    try:
        load_pickle(path)
    except DataError as error:
        assert str(path) in str(error)


@given(cut=st.integers(0, 700))
def test_a_download_that_broke_off_is_refused(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = python2(np.zeros((2, 200), "u1"), [1, 2])
    with pytest.raises(DataError, match="is the download complete"):
        load_pickle(written(tmp_path_factory.mktemp("c"), whole[: min(cut, len(whole) - 1)]))


def test_a_missing_pickle_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="test_batch: cannot read the file"):
        load_pickle(tmp_path / "test_batch")
