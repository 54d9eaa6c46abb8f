"""Pandas data frames that help if a user asks for a column that does not exist. Importing this needs pandas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas

from snellen.experiments.sample_columns import describe_missing_column

_SAMPLES_HINT = (
    "this table has a row for each number; results.samples.to_pandas() has one for each reply, with question, reply, "
    "gold, correct and more"
)


class _AnsweringFrame(pandas.DataFrame):
    """A data frame whose error for a missing column says where the wanted content is.

    Frames that are made from it, for example by selecting rows, are ordinary data frames.
    """

    @property
    def _constructor(self) -> Callable[..., pandas.DataFrame]:
        return pandas.DataFrame

    def _answer(self, name: str) -> str:
        raise NotImplementedError

    def __getitem__(self, key: Any) -> Any:
        """Return a column. Raises KeyError for a missing one, with a message that says where its content is."""
        try:
            return super().__getitem__(key)
        except KeyError:
            if not isinstance(key, str):
                raise
            raise KeyError(self._answer(key)) from None

    def __getattr__(self, name: str) -> Any:
        """Return an attribute or a column. Raises AttributeError with a message that says where the content is."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_"):
                raise
            raise AttributeError(self._answer(name)) from None


class NumberFrame(_AnsweringFrame):
    """The table of results, with a row for each number. Users sometimes expect a row for each reply."""

    def _answer(self, name: str) -> str:
        """Return the error message for a missing column.

        If it is the name of a metric, the message says how to get its rows, because each metric is
        a row here and not a column.
        """
        if "metric" in self.columns and name in set(self["metric"]):
            chosen = f"metric == {name!r}"
            return f"no column {name!r}; metrics are rows, of which query({chosen!r}) has those of {name}"
        return f"no column {name!r}; {_SAMPLES_HINT}"


class SampleFrame(_AnsweringFrame):
    """The table of replies, with a row for each reply."""

    def _answer(self, name: str) -> str:
        return describe_missing_column(name, self.columns)


def number_frame(rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    """Return the data frame of some results, a row for each number."""
    return NumberFrame(list(rows))


def sample_frame(rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    """Return the data frame of some replies, a row for each reply."""
    return SampleFrame(list(rows))
