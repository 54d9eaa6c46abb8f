"""A data frame of polars that writes its lists to CSV and Excel as JSON. Importing this needs polars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars

from snellen.interchange.exports.sample_files import flat_rows


class WritableFrame(polars.DataFrame):
    """A polars data frame that can be written to CSV and Excel even if a column has lists.

    Polars refuses to write lists to these formats. Here they are written as JSON. The results of
    `filter`, `select`, `drop`, `sort` and `with_columns` can be written in the same way.
    """

    def filter(self, *predicates: Any, **constraints: Any) -> WritableFrame:
        """Return the rows that meet conditions, as the method of polars does."""
        return WritableFrame(super().filter(*predicates, **constraints))

    def select(self, *columns: Any, **named: Any) -> WritableFrame:
        """Return columns, as the method of polars does."""
        return WritableFrame(super().select(*columns, **named))

    def drop(self, *columns: Any, strict: bool = True) -> WritableFrame:
        """Return all other columns, as the method of polars does."""
        return WritableFrame(super().drop(*columns, strict=strict))

    def sort(self, by: Any, *more_by: Any, **options: Any) -> WritableFrame:
        """Return the rows sorted, as the method of polars does."""
        return WritableFrame(super().sort(by, *more_by, **options))

    def with_columns(self, *columns: Any, **named: Any) -> WritableFrame:
        """Return the frame with further columns, as the method of polars does."""
        return WritableFrame(super().with_columns(*columns, **named))

    def write_csv(self, file: Any = None, **options: Any) -> Any:
        """Write CSV as the method of polars does, with lists as JSON."""
        target = str(file) if isinstance(file, Path) else file
        return self._flat().write_csv(target, **options)

    def write_excel(self, workbook: Any = None, *positional: Any, **options: Any) -> Any:
        """Write an Excel file as the method of polars does, with lists as JSON."""
        return self._flat().write_excel(workbook, *positional, **options)

    def _flat(self) -> polars.DataFrame:
        """Return the table as an ordinary data frame in which lists are replaced by their JSON text."""
        schema = {
            name: polars.String if kind.is_nested() else kind for name, kind in self.schema.items()
        }
        return polars.DataFrame(flat_rows(self), schema=schema)
