"""The table with a row for each reply, which users look for under many names."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snellen.common.attribute_hints import answering_keywords
from snellen.common.late import check_pandas
from snellen.experiments.sample_columns import describe_missing_column
from snellen.interchange.exports.base import sample_table
from snellen.interchange.exports.sample_files import write_samples
from snellen.scoring.scored_run import ScoredRun

if TYPE_CHECKING:
    import pandas
    import polars

KEYWORDS_OF_CSV = "the file is always UTF-8 with commas"


class SampleRow(dict[str, Any]):
    """A row of the replies, whose columns are attributes as well."""

    def __getattr__(self, name: str) -> Any:
        """Return a column. Raises AttributeError that says which one was most likely meant."""
        if name in self:
            return self[name]
        raise AttributeError(describe_missing_column(name, list(self)))


class SampleRows:
    """The replies of runs, with a row for each presentation.

    A row has the question with its ground truth, the request as sent, the reply as received, its reading, and the
    question's scores. The columns are described in docs/reference/exports.md. The journals are read at the first use.

    Calling it returns the data frame of polars, whose attributes it has as well; `to_pandas()` returns one of pandas.
    `to_csv(path)` writes a row for each reply.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/shape", limit=4)
        >>> results.samples.to_pandas()["correct"].mean()
        1.0
        >>> len(results.samples), results.samples[0]["benchmark"]
        (4, 'eyechart/shape')
    """

    def __init__(self, runs: Sequence[ScoredRun]) -> None:
        self._runs = tuple(runs)

    @cached_property
    def _frame(self) -> polars.DataFrame:
        table = sample_table(self._runs)
        from snellen.experiments.writable_frame import WritableFrame

        return WritableFrame(table)

    def __call__(self) -> polars.DataFrame:
        """Return the data frame of polars."""
        return self._frame

    def to_polars(self) -> polars.DataFrame:
        """Return the data frame of polars."""
        return self._frame

    def to_pandas(self) -> pandas.DataFrame:
        """Return the table as a data frame of pandas."""
        check_pandas()
        from snellen.experiments.answering_frames import sample_frame

        return sample_frame(self._frame.iter_rows(named=True))

    @answering_keywords(KEYWORDS_OF_CSV, without_effect={"index": False})
    def to_csv(self, path: str | Path) -> Path:
        """Write the table to a CSV file and return its path. Lists are written as JSON.

        Args:
            path: The file. Its suffix becomes `.csv`.
        """
        return write_samples(self._frame, Path(path).with_suffix(".csv"))

    def filter(self, *conditions: Any, **columns: Any) -> polars.DataFrame:
        """Return the rows that meet all conditions, as a data frame.

        Args:
            conditions: Functions from a `SampleRow` to true or false, or conditions as `polars.DataFrame.filter` takes
                them.
            columns: Values that columns must have.

        Examples:
            >>> results = sn.evaluate("snellen:always-a", "eyechart/shape", limit=4)
            >>> wrong = results.samples.filter(lambda row: not row.correct)
            >>> len(wrong) == 4 - results.samples["correct"].sum()
            True
        """
        frame = self._frame
        polars_conditions: list[Any] = []
        for condition in conditions:
            if isinstance(condition, type) or not callable(condition):
                polars_conditions.append(condition)
                continue
            is_kept = [bool(condition(SampleRow(row))) for row in frame.iter_rows(named=True)]
            frame = frame.filter(is_kept)
        if polars_conditions or columns:
            frame = frame.filter(*polars_conditions, **columns)
        return frame

    def __len__(self) -> int:
        return len(self._frame)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield each row as a dict."""
        return self._frame.iter_rows(named=True)

    def __getitem__(self, key: Any) -> Any:
        """Return a row as a dict by its index, the rows that a Boolean column marks, or what a polars data frame returns.

        Raises:
            KeyError: There is no such column. The message names the most similar one.
        """
        if isinstance(key, int):
            return self._frame.row(key, named=True)
        if isinstance(key, str) and key not in self._frame.columns:
            raise KeyError(describe_missing_column(key, self._frame.columns))
        import polars

        if isinstance(key, polars.Series) and key.dtype == polars.Boolean:
            return self._frame.filter(key)
        return self._frame[key]

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the data frame of polars."""
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return getattr(self._frame, name)
        except AttributeError:
            raise AttributeError(
                f"samples is a data frame of polars, without {name!r}; samples.to_pandas() is one of pandas"
            ) from None

    def __repr__(self) -> str:
        return repr(self._frame)

    def _repr_html_(self) -> str:
        """Return the table as notebooks show it."""
        shown: str = self._frame._repr_html_()
        note = "results.samples: to_pandas(), to_polars(), to_csv(path)"
        return f"{shown}<small>{html.escape(note)}</small>"
