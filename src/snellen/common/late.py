"""What is made, or loaded, when it is first used, and packages that may not be there."""

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
    """Return a pattern that is compiled at its first use, which then raises `re.error` if it is wrong."""
    return cast("re.Pattern[str]", _LatePattern(pattern, flags))


def import_extra(name: str, extra: str, purpose: str, package: str = "") -> Any:
    """Import a module that an extra installs; `package` is the name of its package if that differs.

    Raises:
        MissingExtraError: The extra is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtraError(package or name, extra, purpose) from None


def import_hub(purpose: str) -> None:
    """Import the hub's client. Raises MissingExtraError where it is not installed."""
    import_tqdm()
    import_extra("huggingface_hub", "hub", purpose)


def check_polars() -> None:
    """Raise MissingExtraError where polars is not installed."""
    if find_spec("polars") is None:
        raise MissingExtraError("polars", "frames", "a table as a data frame")


def data_frame(rows: Iterable[Mapping[str, Any]]) -> polars.DataFrame:
    """Rows as a data frame; types are those of all rows. Raises MissingExtraError.

    Examples:
        >>> data_frame([{"bird": "wren", "songs": 3}]).columns
        ['bird', 'songs']
    """
    check_polars()
    import polars

    return polars.DataFrame(list(rows), infer_schema_length=None)


def check_pandas() -> None:
    """Raise DataError where pandas is not installed."""
    if find_spec("pandas") is None:
        raise DataError("to_pandas needs the package pandas: pip install pandas")


def pandas_frame(rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    """Rows as a data frame of pandas. Raises DataError where pandas is not installed."""
    check_pandas()
    import pandas

    return pandas.DataFrame(list(rows))
