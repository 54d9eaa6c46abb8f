"""What one or several runs found: numbers, frames, comparisons, reports, exports."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import msgspec

from snellen.analysis.aggregate import results_of_all
from snellen.common.field_values import convert_fields
from snellen.common.late import data_frame
from snellen.common.record_fields import shows_fields
from snellen.errors import DataError
from snellen.experiments.compare_spec import CompareSpec
from snellen.formats.shown_text import object_line
from snellen.interchange.exports.base import Exporter
from snellen.metrics.declaration import row_called
from snellen.protocols.base import parse_protocol
from snellen.records import Result
from snellen.registry import find
from snellen.scoring.scored_run import ScoredRun, flat_row, run_labels

# What only some methods use is imported in them: every command that scores shows its results through this module.
if TYPE_CHECKING:
    import polars

    from snellen.analysis.paired.differences import Comparison
    from snellen.analysis.sequential import SequentialEstimate
    from snellen.experiments.keywords import CompareKeywords
    from snellen.report.report_section import ReportSection


SHOWN_RUNS = 3
"""Runs that the line of several runs names."""


class Results:
    """What one or several runs found. `rows` are Result records; they and frames are made when asked for.

    A row with a `slice` is of a part of a benchmark, one without is of all of it (`*`: a mean over benchmarks); `value`
    gives one number of these.

    Runs of the same model are told apart by their folders: `model` is then `name (folder)`. Several runs have their
    `average_rank` among the rows."""

    def __init__(self, runs: Sequence[ScoredRun]) -> None:
        self.runs = tuple(runs)

    @cached_property
    def rows(self) -> list[Result]:
        return results_of_all(self.runs)

    def __repr__(self) -> str:
        names = [f"{run.manifest.model} in {run.folder}" for run in self.runs[:SHOWN_RUNS]]
        more = [f"{len(self.runs) - SHOWN_RUNS} more runs"] if len(self.runs) > SHOWN_RUNS else []
        benchmarks = {scored.spec.name for run in self.runs for scored in run.benchmarks}
        return object_line(
            self, ", ".join(names + more), benchmarks=len(benchmarks), numbers=len(self.rows)
        )

    def table(self, *, slices: bool = False) -> polars.DataFrame:
        """One row a number: model, benchmark, dimension, protocol, method, metric, value, low, high,
        stderr, n, unscored, errors, groups. `*` stands for a mean over benchmarks. With `slices` also the parts
        of benchmarks (by tag, by template, by round)."""
        return data_frame(flat_row(row) for row in self.rows if slices or not row.slice)

    def scores(self) -> polars.DataFrame:
        """Return one row per question and metric.

        A missing value is unscored, and `reason` says what happened. `expected` is the expected value by the
        probabilities of the readings; it differs from `value` where a reply is hard to read.
        """
        rows = []
        for run in self.runs:
            for benchmark in run.benchmarks:
                for score in benchmark.scores:
                    row = msgspec.structs.asdict(score)
                    doubt = row.pop("doubt")
                    row["expected"] = score.value if doubt is None else doubt.expected
                    rows.append({"model": run.manifest.model, **row})
        return data_frame(rows)

    def samples(self) -> polars.DataFrame:
        """One row a presentation: the question with its gold, the request as sent, the reply as received, how it was
        read, and the question's scores (docs/reference/exports.md has the columns). Reads the journals once more."""
        from snellen.interchange.exports.base import sample_table

        return sample_table(self.runs)

    def _repr_html_(self) -> str:
        """The summary, as notebooks show it."""
        from snellen.report.summary import html_summary

        return html_summary(self.runs, self.rows)

    def value(
        self, metric: str = "", *, benchmark: str = "*", model: str = "", protocol: str = ""
    ) -> float | None:
        """Return one number: the headline, as the first sentence and table of a report have it, or a metric.

        Raises DataError when no row or several rows fit, UnknownNameError for a wrong protocol.

        Examples:
            >>> results = sn.evaluate("snellen:oracle", "eyechart/shape", limit=4)
            >>> results.value()  # of the run
            1.0
            >>> results.value(benchmark="eyechart/shape")  # of a benchmark
            1.0
            >>> results.value("accuracy_of_parsed")  # another metric, as the mean over the benchmarks that have it
            1.0
        """
        label = parse_protocol(protocol).label if protocol else ""
        candidates = self.rows if metric else self._headlines(benchmark)
        fitting = [
            row
            for row in candidates
            if row.metric == (metric or row.metric)
            and (row.benchmark, row.slice) == (benchmark, "")
            and (benchmark != "*" or row.dimension == "*")
            and model in ("", row.model)
            and label in ("", row.protocol)
        ]
        what = metric or "headline"
        if not fitting:
            raise DataError(f"there is no {what} of {benchmark}; {self._nearest(what, benchmark)}")
        if len(fitting) > 1:
            raise DataError(
                f"{len(fitting)} numbers fit {what} of {benchmark}; name model and protocol"
            )
        return fitting[0].estimate.value

    def _headlines(self, benchmark: str) -> list[Result]:
        """Return the headline of each run on a benchmark, or over all, by the first method that has it."""
        from snellen.report.run_view import run_views

        headlines: list[Result] = []
        for view in run_views(self.runs, self.rows):
            for line in view.method_rows:
                row = line.headline if benchmark == "*" else line.headlines.get(benchmark)
                if row is not None:
                    headlines.append(row)
                    break
        return headlines

    def _nearest(self, metric: str, benchmark: str) -> str:
        """What there is instead of a number that is not there."""
        benchmarks = sorted({row.benchmark for row in self.rows})
        if benchmark not in benchmarks:
            return f"the benchmarks are {', '.join(benchmarks)}"
        metrics = sorted(
            {row.metric for row in self.rows if row.benchmark == benchmark and not row.slice}
        )
        if metric not in metrics:
            return f"the metrics of {benchmark} are {', '.join(metrics)}"
        return "see table() for the models and protocols that have one"

    def stopped(self) -> list[SequentialEstimate]:
        """What runs that a rule stopped (`until`) know of whole benchmarks, with intervals that hold whenever one
        stops."""
        from snellen.analysis.sequential import sequential_estimates

        return [estimate for run in self.runs for estimate in sequential_estimates(run)]

    def only(self, *, where: str = "", common_answered: bool = False) -> Results:
        """The same runs on fewer questions: where a condition on tags and facts holds, and of these, with
        `common_answered`, the ones that every run answered. Raises DataError when none is left."""
        from snellen.analysis import subset

        runs: Sequence[ScoredRun] = subset.filter_runs(self.runs, where) if where else self.runs
        return Results(subset.common_answered(runs) if common_answered else runs)

    @shows_fields(CompareSpec)
    def compare(
        self, *, to: str | Path | None = None, **fields: Unpack[CompareKeywords]
    ) -> Comparison:
        """Compare the runs question by question.

        Each benchmark counts by its headline metric, and circular accuracy is compared as well, or by `metrics`: rows
        of the results, or metrics, each by its first row.

        Args:
            to: A `.md`, `.csv` or `.json` file to write.
            fields: Fields of a `CompareSpec` (docs/reference/comparison.md): `metrics`, `baseline` (the folder or the
                label of a run), `correction`, `resamples`, `seed`.

        Returns:
            Differences with 95% intervals and p-values, ranks with intervals unless `resamples` is 0, and the
            questions on which the runs differ.

        Raises:
            DataError: There are fewer than two runs, they used different builds of a benchmark, or they have nothing
                in common.
            UnknownNameError: A metric, run or correction does not exist.
        """
        from snellen.analysis.paired.comparison import ComparedRuns, compare_runs

        spec = convert_fields(fields, CompareSpec)
        labels = dict(zip((run.folder for run in self.runs), run_labels(self.runs), strict=True))
        baseline = labels.get(Path(spec.baseline), spec.baseline) if spec.baseline else ""
        names = [row_called(name) for name in spec.metrics]
        comparison = compare_runs(
            self.runs,
            metrics=names,
            baseline=baseline,
            correction=spec.correction,
            resamples=spec.resamples,
            seed=spec.seed,
        )
        if not comparison.differences:
            raise DataError(
                "these runs have no benchmark, protocol and metric in common; run the models on the same benchmarks"
            )
        if not names:
            comparison = ComparedRuns(self.runs, comparison).in_both
        if to is not None:
            from snellen.report.page import write_comparison

            write_comparison(comparison, Path(to))
        return comparison

    def export(
        self,
        form: str,
        path: str | Path | None = None,
        *,
        pictures: bool = False,
        answers: bool = False,
    ) -> list[Path]:
        """Write the runs in a form of another tool (docs/exports.md), and return the files.

        `path` is a file or a folder, as the form is. `pictures` are written where the form has a place for them, and
        golds into forms that are made to be published with `answers` alone. Raises UnknownNameError, DataError for
        what a form cannot hold, StoreError.
        """
        from snellen.interchange.exports.base import ExportJob, export_path

        exporter: Exporter = find("exporters", form)
        name = "-".join([self.runs[0].folder.name, *([form] if form != "samples" else [])])
        to = export_path(form, exporter, path, name)
        return list(exporter.write(ExportJob(self.runs, tuple(self.rows), to, pictures, answers)))

    def track(self, target: str) -> list[str]:
        """Log the runs to an experiment tracker, `mlflow:URI`, `wandb:PROJECT` or `trackio:PROJECT`, each as a run of
        its own there, and return where they went (docs/exports.md). Raises UnknownNameError, DataError,
        MissingExtraError.
        """
        from snellen.interchange.exports.trackers import track

        return track(self.runs, target)

    def report(self, path: str | Path, further: Sequence[ReportSection] = ()) -> Path:
        """Write one report: `.html` (self-contained), `.md`, `.tex`, `.csv`, `.json` or `.parquet`.

        The first three also have the `further` sections.
        """
        from snellen.report.page import write_report

        return write_report(self.runs, self.rows, Path(path), further)

    def figures(self, folder: str | Path, form: str = "svg") -> list[Path]:
        """Write each figure of the report as a file of its own (`svg`, `png` or `pdf`), and `captions.txt` beside them.

        Raises DataError for another form, MissingExtraError where `snellen[figures]` is needed, StoreError.
        """
        from snellen.report.paper_files import write_figures

        return write_figures(self.runs, self.rows, Path(folder), form)

    def latex_tables(self, folder: str | Path) -> list[Path]:
        """Write each table of the report as a file to be read with `\\input`, for a paper that uses booktabs."""
        from snellen.report.paper_files import write_latex_tables

        return write_latex_tables(self.runs, self.rows, Path(folder))
