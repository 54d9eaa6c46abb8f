"""Pickles of official downloads (CIFAR's batches, RefCOCO's `refs(unc).p`), read without running their code.

A pickle is a program: it may import and call anything. Here it can only build plain values (numbers, texts, lists,
tuples, dicts, sets) and arrays of plain numbers. Stand-ins replace numpy's names; they check the bytes and keep
them, since numpy itself trusts what a pickle says about an array's memory.

Variables of MATLAB files.
"""

from __future__ import annotations

import pickle
from math import prod
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.common.foreign import open_file
from snellen.common.late import import_extra
from snellen.errors import DataError

_SIZES = {kind + size: int(size) for kind in "iu" for size in "1248"} | {"f4": 4, "f8": 8, "b1": 1}
_FAULTS = (
    pickle.UnpicklingError,
    EOFError,
    AttributeError,
    LookupError,
    MemoryError,
    OverflowError,
    TypeError,
    ValueError,
)
"""What unpickling raises for broken or foreign bytes."""


class Array(Struct):
    """A pickled array of plain numbers: `content` in row-major order, `kind` such as `u1` or `f8`."""

    shape: tuple[int, ...] = ()
    kind: str = ""
    content: bytes = b""

    def __setstate__(self, state: Any) -> None:
        """Called by the unpickler with (version, shape, dtype, whether column-major, bytes)."""
        _, shape, kind, is_column_major, content = state
        raw = content.encode("latin-1") if isinstance(content, str) else content
        is_plain = isinstance(kind, _Kind) and isinstance(raw, bytes) and not is_column_major
        if not is_plain:
            raise pickle.UnpicklingError("an array that is not of plain numbers, row by row")
        self.shape = tuple(_length(side) for side in shape)
        if len(raw) != prod(self.shape) * _SIZES[kind.name]:
            raise pickle.UnpicklingError(
                f"an array of {len(raw)} bytes, which is not its shape {self.shape}"
            )
        self.kind, self.content = kind.name, raw


class _Kind(Struct):
    """Stands for a numpy dtype."""

    name: str

    def __setstate__(self, state: Any) -> None:
        """Keep the byte order, the second field. The others describe structures and pointers, which plain numbers lack."""
        if state[1] == ">" or any(state[2:5]):
            raise pickle.UnpicklingError(
                "an array of other than plain numbers in little-endian order"
            )


def load_pickle(path: Path) -> Any:
    """Return the content of a pickle. Texts of Python 2 are read as Latin-1, and arrays become `Array`.

    Raises DataError naming the file when it cannot be read, is not a pickle, or refers to anything but plain
    values and arrays; nothing of it is run in that case.
    """
    try:
        with open_file(path) as file:
            return _Reader(file, encoding="latin-1").load()
    except OSError as error:
        raise DataError(f"{path}: cannot read the file ({error.strerror})") from None
    except _ForbiddenError as error:
        raise DataError(
            f"{path}: asks for {error}, which data does not need; do not trust this file, download it again"
        ) from None
    except _FAULTS as error:
        raise DataError(
            f"{path}: not a readable pickle ({error}); is the download complete?"
        ) from None


class _ForbiddenError(Exception):
    """The pickle refers to something that would be run."""


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return a stand-in for one of the few classes and functions that plain data needs. Others are an error."""
        match module, name:
            case "numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct":
                return self._array
            case "numpy", "dtype":
                return self._kind
            case "numpy", "ndarray":
                return None
            case "_codecs", "encode":
                return self._encoded
            case "__builtin__" | "builtins", "set" | "frozenset":
                return set if name == "set" else frozenset
            case "__builtin__" | "builtins", "bytes":
                return self._empty_bytes
        raise _ForbiddenError(f"{module}.{name}")

    def _array(self, *_: Any) -> Array:
        return Array()

    def _kind(self, name: Any, *_: Any) -> _Kind:
        if name not in _SIZES:
            raise pickle.UnpicklingError(f"an array of {name!r}, which is not a plain number")
        return _Kind(name)

    def _empty_bytes(self) -> bytes:
        """Return empty bytes. The pickle protocols 0 to 2 write them as a call of this function."""
        return b""

    def _encoded(self, text: Any, encoding: Any) -> bytes:
        """Return the bytes of an encoded text. The pickle protocols 0 to 2 write bytes as a call of this function."""
        if not isinstance(text, str) or encoding != "latin1":
            raise pickle.UnpicklingError(f"bytes in the encoding {encoding!r}")
        return text.encode("latin-1")


def _length(side: Any) -> int:
    if not isinstance(side, int) or side < 0:
        raise pickle.UnpicklingError(f"an array of {side!r} rows")
    return side


def read_mat(path: Path, variable: str) -> Any:
    """Return a variable of a MATLAB file (up to version 7.2). Cells become lists and structs dictionaries. Raises DataError."""
    scipy_io = import_extra("scipy.io", "data", f"reading {path.name}", "scipy")
    try:
        return scipy_io.loadmat(path, variable_names=[variable], simplify_cells=True)[variable]
    except OSError as error:
        raise DataError(f"{path}: cannot read the file ({error.strerror})") from None
    except KeyError:
        raise DataError(f"{path}: there is no variable {variable}; is it the right file?") from None
    except (scipy_io.matlab.MatReadError, NotImplementedError, ValueError, TypeError) as error:
        raise DataError(f"{path}: {error}; is the download complete, and the right file?") from None
