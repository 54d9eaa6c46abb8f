"""Data frames of pandas whose errors for a missing column say where it is. Importing this needs pandas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas

from snellen.experiments.sample_columns import describe_missing_column

_SAMPLES = (
    "this table has a row for each number; results.samples.to_pandas() has one for each reply, with question, reply, "
    "gold, correct and more"
)


class _AnsweringFrame(pandas.DataFrame):
    """A data frame with answers for missing columns. What is made of it is a plain data frame."""

    @property
    def _constructor(self) -> Callable[..., pandas.DataFrame]:
        return pandas.DataFrame

    def _answer(self, name: str) -> str:
        raise NotImplementedError

    def __getitem__(self, key: Any) -> Any:
        """Return a column; for a missing one the error says where its content is."""
        try:
            return super().__getitem__(key)
        except KeyError:
            if not isinstance(key, str):
                raise
            raise KeyError(self._answer(key)) from None

    def __getattr__(self, name: str) -> Any:
        """Return an attribute or column; for a missing one the error says where its content is."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_"):
                raise
            raise AttributeError(self._answer(name)) from None


class NumberFrame(_AnsweringFrame):
    """A table with a row for each number, which users may take for that of the replies."""

    def _answer(self, name: str) -> str:
        """Return an error message for a missing column that says where the number is, because metrics are rows here."""
        if "metric" in self.columns and name in set(self["metric"]):
            chosen = f"metric == {name!r}"
            return f"no column {name!r}; metrics are rows, of which query({chosen!r}) has those of {name}"
        return f"no column {name!r}; {_SAMPLES}"


class SampleFrame(_AnsweringFrame):
    """The table of replies."""

    def _answer(self, name: str) -> str:
        return describe_missing_column(name, self.columns)


def number_frame(rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    """Return rows of numbers as a data frame."""
    return NumberFrame(list(rows))


def sample_frame(rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    """Return rows of replies as a data frame."""
    return SampleFrame(list(rows))
