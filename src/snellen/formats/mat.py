"""Variables of MATLAB files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from snellen.errors import DataError, MissingExtraError


def read_mat(path: Path, variable: str) -> Any:
    """A variable of a MATLAB file (up to version 7.2), cells and structs as lists and dicts. Raises DataError."""
    try:
        from scipy.io import loadmat
        from scipy.io.matlab import MatReadError
    except ImportError:
        raise MissingExtraError("scipy", "data", f"reading {path.name}") from None
    try:
        return loadmat(path, variable_names=[variable], simplify_cells=True)[variable]
    except OSError as error:
        raise DataError(f"{path}: cannot read the file ({error.strerror})") from None
    except KeyError:
        raise DataError(f"{path}: there is no variable {variable}; is it the right file?") from None
    except (MatReadError, NotImplementedError, ValueError, TypeError) as error:
        raise DataError(f"{path}: {error}; is the download complete, and the right file?") from None
