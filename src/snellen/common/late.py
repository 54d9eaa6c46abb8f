"""Objects that are made or imported at their first use, and packages that may not be installed."""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from snellen.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    import pandas
    import polars


def import_tqdm() -> None:
    """Import tqdm without its advice to install ipywidgets; does nothing if tqdm is not installed.

    Call this before a package that draws progress bars is imported. A notebook without ipywidgets then gets bars as
    text, which tqdm decides when it is first imported.
    """
    if "tqdm.auto" in sys.modules:
        return
    with warnings.catch_warnings(), suppress(ModuleNotFoundError):
        warnings.filterwarnings("ignore", message="IProgress not found")
        importlib.import_module("tqdm.auto")


_METHODS = (
    "search",
    "match",
    "fullmatch",
    "finditer",
    "findall",
    "split",
    "sub",
    "subn",
    "groups",
    "groupindex",
)


class _LatePattern:
    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Compile the pattern when one of its methods is first used, and return the method.

        Python calls this for attributes that the object does not have. Afterwards it has all methods of the pattern.
        """
        if name not in _METHODS:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self._flags)
        for method in _METHODS:
            vars(self)[method] = getattr(compiled, method)
        return vars(self)[name]


def late_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression that is compiled at its first use. An invalid one raises `re.error` only then."""
    return cast("re.Pattern[str]", _LatePattern(pattern, flags))


def import_extra(name: str, extra: str, purpose: str, package: str = "") -> Any:
    """Import a module that an extra of Snellen installs, and return it.

    Args:
        name: The name of the module.
        extra: The extra.
        purpose: What needs the module, for the message of the error.
        package: The name of the package that has the module, if it differs from the module's.

    Raises:
        MissingExtraError: The extra is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtraError(package or name, extra, purpose) from None


def import_hub(purpose: str) -> None:
    """Import the client of the Hugging Face hub. Raises MissingExtraError if it is not installed.

    Args:
        purpose: What needs it, for the message of the error.
    """
    import_tqdm()
    import_extra("huggingface_hub", "hub", purpose)


def check_polars() -> None:
    """Raise MissingExtraError if polars is not installed."""
    if find_spec("polars") is None:
        raise MissingExtraError("polars", "frames", "a table as a data frame")


def data_frame(rows: Iterable[Mapping[str, Any]]) -> polars.DataFrame:
    """Return rows as a data frame of polars. The type of a column is inferred from all rows.

    Raises:
        MissingExtraError: polars is not installed.

    Examples:
        >>> data_frame([{"bird": "wren", "songs": 3}]).columns
        ['bird', 'songs']
    """
    check_polars()
    import polars

    return polars.DataFrame(list(rows), infer_schema_length=None)


def check_pandas() -> None:
    """Raise DataError if pandas is not installed."""
    if find_spec("pandas") is None:
        raise DataError(
            "to_pandas needs the package pandas, which no extra brings: pip install pandas; to_polars() gives the same "
            "table as a data frame of polars"
        )


def pandas_frame(rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    """Return rows as a data frame of pandas. Raises DataError if pandas is not installed."""
    check_pandas()
    import pandas

    return pandas.DataFrame(list(rows))
