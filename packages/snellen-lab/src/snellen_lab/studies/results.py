"""Run studies from Python, and read their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from snellen import DataError, ignore_progress
from snellen.plugin_api import (
    Announce,
    ProgressListener,
    announce_nothing,
    data_frame,
    judge_spec,
)
from snellen_lab.studies.cell_table import StudyOutcome, write_study
from snellen_lab.studies.declaration import find_study
from snellen_lab.studies.run_study import carry_out_study, study_folder
from snellen_lab.studies.series import StudyRow, flat_study_row

if TYPE_CHECKING:
    import polars

    from snellen_lab.keywords import StudyKeywords


class StudyResults:
    """The results of a study. `rows` are its numbers; `outcome` also has the tables and charts."""

    def __init__(self, outcome: StudyOutcome) -> None:
        self.outcome = outcome
        self.rows: list[StudyRow] = outcome.rows

    def __repr__(self) -> str:
        outcome = self.outcome
        subject = f"{outcome.study.name} in {outcome.folder}"
        counts = f"cells: {len(outcome.numbers.cells):,}, numbers: {len(self.rows):,}"
        return f"<{type(self).__name__}: {subject}; {counts}>"

    def table(self) -> polars.DataFrame:
        """Return a data frame with a row for each number of the study.

        Its columns are statistic, quantity, model, benchmark, metric, cell, against, value, low,
        high, n and others.
        """
        return data_frame(map(flat_study_row, self.rows))

    def value(
        self,
        quantity: str,
        *,
        metric: str = "",
        benchmark: str = "",
        model: str = "",
        cell: str | None = None,
    ) -> float | None:
        """Return one number of the study: `value("mean", metric="accuracy")`.

        Args:
            quantity: What the number is, such as `mean`.
            metric: Name of the metric; if empty, of any.
            benchmark: Name of the benchmark; if empty, of any.
            model: Name of the model; if empty, of any.
            cell: Label of the cell; None for any cell and for numbers that belong to none.

        Raises:
            DataError: If no number matches, or several do.
        """
        matches = []
        for row in self.rows:
            if row.quantity != quantity:
                continue
            if metric and row.metric != metric:
                continue
            if benchmark and row.benchmark != benchmark:
                continue
            if model and row.model != model:
                continue
            if cell is not None and row.cell != cell:
                continue
            matches.append(row)
        if len(matches) != 1:
            raise DataError(f"{len(matches)} numbers match; name metric, benchmark, model and cell")
        return matches[0].estimate.value

    def report(self, path: str | Path) -> Path:
        """Write the results to a file: `.html` (self-contained), `.md`, `.csv` or `.json`."""
        return write_study(self.outcome, Path(path))


def run_study(
    name: str | Path,
    model: Any,
    *,
    source: str | Path | None = None,
    output: str | Path = "",
    levels: Mapping[str, Sequence[Any] | str | Path] | None = None,
    metrics: str | Iterable[str] = (),
    progress: ProgressListener = ignore_progress,
    announce: Announce = announce_nothing,
    **fields: Unpack[StudyKeywords],
) -> StudyResults:
    """Run a study: many runs that differ in one or more factors (docs/studies.md).

    Repeat the same call to resume an interrupted study.

    Args:
        name: Name of a declared study, or path of a TOML file of your own.
        model: One model or several, as in `evaluate`.
        source: Folder with the source files of benchmarks that are not built yet.
        output: Folder of the study, by default `studies/NAME`. Each combination of the factors (a
            cell) is a run in it. The results are written to study.html, study.md, results.csv and
            results.json.
        levels: Values for factors in place of the study's own: for each factor a list, or a text
            file with one value per line.
        metrics: Metrics in place of the study's own.
        progress: Receives the progress of requests.
        announce: Receives lines for the user.
        fields: Fields of a run in place of the study's own, such as `limit`, `workers`, `scoring`
            or `judge`.

    Returns:
        The results. Raises as `evaluate` does.
    """
    models = list(model) if isinstance(model, (list, tuple)) else [model]
    metric_names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    declared = find_study(str(name)).with_metrics(metric_names)
    judge = judge_spec(fields.pop("judge", ()))
    outcome = carry_out_study(
        declared.with_settings(fields),
        models,
        Path(output) if output else study_folder(declared),
        source=Path(source) if source else None,
        levels=levels,
        judge=judge,
        progress=progress,
        announce=announce,
    )
    return StudyResults(outcome)
