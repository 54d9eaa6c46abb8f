"""Results of one or several runs: numbers, data frames, comparisons, reports, exports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

import msgspec
from msgspec.structs import asdict, replace

from snellen.analysis.aggregate import results_of_all
from snellen.analysis.headline import OVERALL
from snellen.common.attribute_hints import answering_keywords, same_hint, unknown_attribute
from snellen.common.field_values import convert_fields
from snellen.common.late import check_pandas, data_frame
from snellen.common.record_fields import shows_fields
from snellen.errors import DataError, UnknownNameError
from snellen.experiments.compare_spec import CompareSpec
from snellen.experiments.sample_rows import KEYWORDS_OF_CSV, SampleRow, SampleRows
from snellen.formats.shown_text import object_line
from snellen.interchange.exports.base import Exporter
from snellen.metrics.declaration import row_called
from snellen.protocols.base import parse_protocol
from snellen.records import Result
from snellen.registry import find_registered, unknown_name
from snellen.scoring.scored_run import ScoredRun, flat_row, run_labels

# What only some methods use is imported in them: every command that scores shows its results through this module.
if TYPE_CHECKING:
    import pandas
    import polars

    from snellen.analysis.paired.differences import Comparison
    from snellen.analysis.sequential import SequentialEstimate
    from snellen.experiments.keywords import CompareKeywords
    from snellen.report.figure_files import Plot
    from snellen.report.report_section import ReportSection
    from snellen.report.result_card import ResultCard


METRIC_NAMES = ("accuracy", "exact_match", "f1", "bleu", "rouge", "cider", "anls")
"""Metrics that are attributes even if a run does not have them, for a helpful error."""
MAX_SHORT_NAME_LETTERS = 3
"""Maximum characters of a name for which no similar name is suggested."""
MAX_LISTED_NAMES = 12
"""Maximum names that are all listed in place of the nearest ones if a short name is unknown."""
MAX_LISTED_RUNS = 3
"""Maximum runs that the one-line form names."""


_WRONG_HINT = (
    "wrong() has the replies that are wrong; "
    "sn.load_benchmark(NAME)[sample_id] shows a question with its image"
)
_OWN_TAGS_HINT = (
    "columns={'tag': NAME} of sn.evaluate or sn.build makes a column of your own rows a tag"
)
_SLICES_HINT = (
    f"by('NAME') has the numbers by a tag, table(slices=True) all of them; {_OWN_TAGS_HINT}"
)
_TABLES_HINT = (
    "samples=True returns a row for each reply, slices=True also the numbers by tag, "
    "by('NAME') those of one tag"
)
_CHOICE_HINT = "only(where=\"category == 'chart'\") has the questions of a tag's value, [NAME] a benchmark or model"
_STORED_HINT = (
    "the runs are stored as they are made; sn.load_run(results.runs[0].folder) loads one again, and "
    "report('results.json') writes the numbers"
)
HINTS = {
    **same_hint(
        "value() is the headline, value('NAME') a metric",
        "score",
        "mean",
        "acc",
        "result",
        "headline",
        "overall",
    ),
    **same_hint(
        "metrics['NAME'] is the number of a metric, table() has all; print(results) shows the headlines",
        "metric",
        "summary",
        "items",
        "values",
        "results",
        "describe",
        "classification_report",
        "pretty",
        "show",
        "print",
    ),
    **same_hint(
        "ci is the 95% interval of the headline, stderr its standard error; results[0].ci are those of a benchmark",
        "interval",
        "confidence_interval",
        "confidence_intervals",
        "conf_int",
        "error_bars",
        "bootstrap",
        "margin",
    ),
    **same_hint(
        "stderr is the standard error of the headline; scores() has a value for each question",
        "std",
        "sem",
        "se",
        "var",
        "variance",
    ),
    **same_hint(
        "n is the number of questions of the headline",
        "count",
        "num_samples",
        "n_samples",
        "size",
        "shape",
        "total",
    ),
    **same_hint(
        _WRONG_HINT,
        "incorrect",
        "errors",
        "failures",
        "failed",
        "mistakes",
        "wrong_answers",
        "show_wrong",
        "show_errors",
        "error_analysis",
        "worst",
        "hardest",
    ),
    **same_hint(
        "samples has a row for each reply, with its prompt, reading and score; samples.to_pandas() for pandas",
        "predictions",
        "replies",
        "responses",
        "answers",
        "questions",
        "outputs",
        "records",
        "per_sample",
        "details",
        "examples",
        "rows_by_sample",
    ),
    **same_hint(
        _STORED_HINT,
        "save",
        "dump",
        "path",
        "folder",
        "load",
        "save_json",
        "to_disk",
        "save_to_disk",
    ),
    **same_hint(
        "report('report.html') writes .html, .md, .tex, .csv, .json or .parquet (the suffix decides)",
        "html",
        "markdown",
        "excel",
        "parquet",
        "pdf",
        "md",
        "write",
    ),
    **same_hint(
        "to_pandas() has the numbers, samples.to_pandas() a row for each reply",
        "df",
        "frame",
        "dataframe",
        "data_frame",
        "head",
        "iloc",
        "loc",
        "sort_values",
        "value_counts",
        "pivot",
        "merge",
        "join",
        "columns",
    ),
    **same_hint(
        "table().to_dicts() has all numbers; track('wandb:PROJECT') or track('mlflow:ADDRESS') logs them",
        "dict",
        "dicts",
        "log",
        "wandb",
        "mlflow",
    ),
    **same_hint("report('results.json') writes all numbers", "json"),
    **same_hint(
        _SLICES_HINT,
        "groupby",
        "group_by",
        "by_category",
        "by_tag",
        "categories",
        "category",
        "slices",
        "breakdown",
        "per_category",
        "tags",
    ),
    **same_hint(_CHOICE_HINT, "query", "where", "subset", "select"),
    **same_hint(
        "print(results) has a column for each model, compare() tests their differences",
        "leaderboard",
        "ranking",
        "rank",
        "best",
        "models",
    ),
    **same_hint(
        "compare() has p-values and intervals of differences",
        "p_value",
        "significance",
        "significant",
        "test",
        "ttest",
        "mcnemar",
        "diff",
        "pvalue",
    ),
    **same_hint(
        "runs[0].manifest has the settings, the model and the versions of a run",
        "config",
        "metadata",
        "settings",
        "args",
        "params",
        "seed",
        "model",
        "fingerprint",
    ),
    **same_hint(
        "runs[0].costs has requests, tokens and seconds; samples() has those of each reply",
        "cost",
        "costs",
        "tokens",
        "usage",
        "duration",
        "time",
        "latency",
    ),
    **same_hint(
        "sn.check_gate(candidate.runs[0], baseline.runs[0], [sn.GateRule(worse='1pt')]) decides; "
        "`snellen compare --fail-if-worse` does in CI",
        "passed",
        "gate",
        "check",
        "assert_no_regression",
        "exit_code",
        "junit",
    ),
    **same_hint(
        "`snellen view` opens runs in the browser; report('report.html') writes a page",
        "view",
        "open",
        "serve",
        "browse",
        "display",
    ),
    **same_hint(
        "samples.to_pandas() has the columns gold and chosen_text for pandas.crosstab",
        "confusion_matrix",
        "confusion",
        "crosstab",
    ),
    **same_hint(
        "export('dataset', FOLDER) writes a dataset in the layout of the hub",
        "push_to_hub",
        "hub",
        "dataset",
    ),
}
"""What to write instead of names that users know from other libraries, such as `results.acc`.

Names that begin with `to_` are not in this table, because they are recognised by their beginning.
"""


def _as_number(other: object) -> float:
    """Return a number with which a headline number is compared, as in `results > 0.5`, as a float.

    Raises TypeError for other results, which have to be compared with `compare`, and for anything
    but a number.
    """
    if isinstance(other, Results):
        raise TypeError(
            "results are not ordered; first.compare(second) tests their difference, float(results) is the headline"
        )
    if isinstance(other, (int, float)):
        return float(other)
    raise TypeError(f"a headline is compared with a number, not with {other!r:.40}")


class MetricNumbers(Mapping[str, Result]):
    """The metrics of results by name, each with `value`, `ci`, `low`, `high`, `stderr` and `n`.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/shape", limit=4)
        >>> results.metrics["accuracy"].value
        1.0
    """

    def __init__(self, results: Results) -> None:
        self._results = results
        names = (row.metric for row in results.rows if not row.slice)
        self._names = tuple(dict.fromkeys(names))

    def __getitem__(self, name: str) -> Result:
        """Return the number of a metric.

        Raises:
            UnknownNameError: The results do not have the metric.
            DataError: Several models or protocols have it.
        """
        if name not in self._names:
            raise unknown_name("metric", name, self._names)
        return self._results._find_row(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __repr__(self) -> str:
        return f"metrics: {', '.join(self._names)}"


class Results:
    """Results of one or several runs. Rows and data frames are computed on first use.

    A row with a `slice` is about part of a benchmark, a row without one about the complete benchmark (`*`: a mean over
    benchmarks). `value` returns one of these numbers. A metric's name is also an attribute: `results.accuracy` is
    `results.value("accuracy")`, if that is a single number.

    Runs of the same model are distinguished by their folders: `model` is then `name (folder)`. With several runs, the
    rows include their `average_rank`.
    """

    def __init__(self, runs: Sequence[ScoredRun]) -> None:
        self.runs = tuple(runs)

    @cached_property
    def rows(self) -> list[Result]:
        return results_of_all(self.runs)

    def __repr__(self) -> str:
        """Return one line with the first runs, and the numbers of benchmarks and results."""
        run_texts = [f"{run.manifest.model} in {run.folder}" for run in self.runs[:MAX_LISTED_RUNS]]
        n_more = len(self.runs) - MAX_LISTED_RUNS
        if n_more > 0:
            plural = "" if n_more == 1 else "s"
            run_texts.append(f"{n_more} more run{plural}")
        benchmarks: set[str] = set()
        for run in self.runs:
            benchmarks.update(scored.spec.name for scored in run.benchmarks)
        counts = {"benchmarks": len(benchmarks), "numbers": len(self.rows)}
        return object_line(self, ", ".join(run_texts), **counts)

    def __getattr__(self, name: str) -> Any:
        """Return the value of a metric: `results.accuracy` is `results.value("accuracy")`.

        Raises:
            AttributeError: There is no such metric. The message says which name was probably meant.
        """
        if name.startswith("_") or name == "runs":
            raise AttributeError(name)
        if name in HINTS:
            raise unknown_attribute(self, name, HINTS)
        if any(row.metric == name for row in self.rows):
            return self.value(name)
        if name in METRIC_NAMES:
            available = self._nearest(name, self.benchmarks[0])
            raise AttributeError(f"there is no {name}; {available}; value() is the headline")
        raise unknown_attribute(self, name, HINTS)

    def __str__(self) -> str:
        """Return the headline numbers of each run as a text table."""
        from snellen.report.terminal import results_text

        return results_text(self.runs, self.rows)

    def keys(self) -> list[str]:
        """Return the names of the benchmarks, so that `dict(results)` has the results of each."""
        return list(self.benchmarks)

    def __len__(self) -> int:
        """Return the number of headline numbers, which iterating yields."""
        return len(self.headlines)

    def __iter__(self) -> Iterator[Result]:
        """Yield the headline of each model on each benchmark."""
        return iter(self.headlines)

    def __float__(self) -> float:
        """Return the headline number, as `value()` does."""
        value = self.value()
        if value is None:
            raise DataError("the headline has no value; print the results to see why")
        return value

    def __round__(self, digits: int | None = None) -> float:
        """Round the headline number."""
        return round(float(self), digits)

    def __format__(self, form: str) -> str:
        """Format the headline number, as `f"{results:.1%}"` does; without a form the table of headlines."""
        return format(float(self), form) if form else str(self)

    def __gt__(self, other: float) -> bool:
        """Compare the headline number with a number; two results are compared by `compare`."""
        return float(self) > _as_number(other)

    def __lt__(self, other: float) -> bool:
        return float(self) < _as_number(other)

    def __ge__(self, other: float) -> bool:
        return float(self) >= _as_number(other)

    def __le__(self, other: float) -> bool:
        return float(self) <= _as_number(other)

    @cached_property
    def headlines(self) -> list[Result]:
        """The headline of each model on each benchmark, in the order of runs and benchmarks."""
        return [row for name in self.benchmarks for row in self._headlines(name)]

    @cached_property
    def benchmarks(self) -> list[str]:
        """Names of the benchmarks, in the order of the runs."""
        names = (scored.spec.name for run in self.runs for scored in run.benchmarks)
        return list(dict.fromkeys(names))

    @overload
    def __getitem__(self, name: str | tuple[str, str]) -> Results: ...

    @overload
    def __getitem__(self, name: int) -> Result: ...

    @overload
    def __getitem__(self, name: slice) -> list[Result]: ...

    def __getitem__(
        self, name: str | int | slice | tuple[str, str]
    ) -> Results | Result | list[Result]:
        """Return the results of a benchmark, suite or model, or the headline numbers with an index or slice.

        Args:
            name: Name of a benchmark (`modern/mmstar`, `mmstar`), of a suite (`mmbench`) or of a model, or two of
                these, as in `results["snellen:tiny", "mmstar"]`.

        Raises:
            UnknownNameError: No run has this benchmark or model.

        Examples:
            >>> results = sn.evaluate("snellen:oracle", ["eyechart/shape", "eyechart/count"], limit=4)
            >>> results["shape"].value()
            1.0
            >>> [row.benchmark for row in results]
            ['eyechart/shape', 'eyechart/count']
        """
        if isinstance(name, (int, slice)):
            return self.headlines[name]
        if isinstance(name, tuple):
            first, second = name
            return self[first][second]
        runs_of_model = [
            run
            for run, label in zip(self.runs, run_labels(self.runs), strict=True)
            if name in (label, run.manifest.model)
        ]
        if runs_of_model:
            return Results(runs_of_model)
        chosen = set()
        for benchmark in self.benchmarks:
            is_of_suite = benchmark.startswith(f"{name}/")
            if benchmark == name or is_of_suite or benchmark.endswith(f"/{name}"):
                chosen.add(benchmark)
        if not chosen:
            models = [run.manifest.model for run in self.runs]
            if name in ("results", "scores", "metrics"):
                raise UnknownNameError(
                    f"results has no key {name!r}; its keys are benchmarks and models: results["
                    f"{self.benchmarks[0]!r}].value()"
                )
            if any(row.metric == name for row in self.rows):
                raise UnknownNameError(f"{name} is a metric; write value({name!r})")
            available = list(dict.fromkeys([*self.benchmarks, *models]))
            if len(name) > MAX_SHORT_NAME_LETTERS or len(available) > MAX_LISTED_NAMES:
                raise unknown_name("benchmark or model", name, available)
            raise UnknownNameError(
                f"no benchmark or model is called {name!r}; there are {', '.join(available)}"
            )
        runs = []
        for run in self.runs:
            benchmarks = tuple(scored for scored in run.benchmarks if scored.spec.name in chosen)
            if benchmarks:
                runs.append(replace(run, benchmarks=benchmarks, stored_rows=None))
        return Results(runs)

    @answering_keywords(_TABLES_HINT)
    def to_polars(self, *, samples: bool = False, slices: bool = False) -> polars.DataFrame:
        """Return the numbers as a data frame of polars, as `table()` does.

        Args:
            samples: Whether to return the table of `samples` instead, with a row for each reply.
            slices: Whether to include the numbers of parts of benchmarks, such as of each tag.
        """
        if samples:
            return self.samples()
        return self.table(slices=slices)

    @answering_keywords(_TABLES_HINT)
    def to_pandas(self, *, samples: bool = False, slices: bool = False) -> pandas.DataFrame:
        """Return the numbers as a data frame of pandas, as `table()` does: a row for each number, not for each question.

        `samples.to_pandas()` has a row for each reply, as has `samples=True`.

        Args:
            samples: Whether to return the table of `samples` instead, with a row for each reply.
            slices: Whether to include the numbers of parts of benchmarks, such as of each tag.

        Examples:
            >>> results = sn.evaluate("snellen:oracle", "eyechart/shape", limit=4)
            >>> results.to_pandas(samples=True)[["sample_id", "correct"]].shape
            (4, 2)
        """
        if samples:
            return self.samples.to_pandas()
        check_pandas()
        from snellen.experiments.answering_frames import number_frame

        return number_frame(flat_row(row) for row in self.rows if slices or not row.slice)

    @answering_keywords(
        f"samples=True writes a row for each reply; {KEYWORDS_OF_CSV}",
        without_effect={"index": False},
    )
    def to_csv(self, path: str | Path, *, samples: bool = False) -> Path:
        """Write all numbers to a CSV file and return its path: a row for each number, not for each question.

        `samples.to_csv(path)` writes a row for each reply, as does `samples=True`.

        Args:
            path: The file. Its suffix becomes `.csv`.
            samples: Whether to write the table of `samples` instead, with a row for each reply. Lists are written
                as JSON.
        """
        if samples:
            return self.samples.to_csv(path)
        return self.report(Path(path).with_suffix(".csv"))

    def by(self, tag: str) -> polars.DataFrame:
        """Return the numbers for each value of a tag, one row for each number.

        Args:
            tag: Name of a tag, as the column of your own rows that became one. The names that are there are in the
                error for another one.

        Returns:
            Columns are `model`, `benchmark`, `protocol`, the tag's name, `metric`, `value`, `low` and `high` (of the
            95% interval) and `n` (the number of questions).

        Raises:
            UnknownNameError: No benchmark has this tag.

        Examples:
            >>> results = sn.evaluate("snellen:oracle", "eyechart/shape", limit=4)
            >>> results.by("level").columns[3:6]
            ['level', 'metric', 'value']
        """
        tags = {row.slice.partition("=")[0] for row in self.rows if "=" in row.slice}
        if tag not in tags:
            if not tags:
                raise UnknownNameError(f"no benchmark here has tags; {_OWN_TAGS_HINT}")
            raise unknown_name("tag", tag, sorted(tags))
        rows = []
        for row in self.rows:
            name, _, value = row.slice.partition("=")
            if name == tag:
                flat = flat_row(row)
                key = {column: flat[column] for column in ("model", "benchmark", "protocol")}
                numbers = {
                    column: flat[column] for column in ("metric", "value", "low", "high", "n")
                }
                rows.append({**key, tag: value, **numbers})
        return data_frame(rows)

    def to_latex(self) -> str:
        """Return the table of headline numbers in LaTeX, for a paper that uses booktabs."""
        from snellen.report.latex import headline_latex

        return headline_latex(self.runs, self.rows)

    def card(self) -> ResultCard:
        """Return the headline numbers as a model card prints them, a row for each benchmark.

        Circular accuracy, if it was measured, has a row of its own. Print it for a terminal; `to_markdown`, `to_latex` and `save` give the other forms.

        Examples:
            >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
            >>> results.card().rows[0].setting
            '0-shot, vanilla, 4 of 300 questions'
        """
        from snellen.report.result_card import result_card

        circular: list[Result] = []
        for row in self.rows:
            is_of_whole_benchmark = row.benchmark != OVERALL and not row.slice
            if row.metric == "circular_accuracy" and is_of_whole_benchmark:
                circular.append(row)
        headlines = [row for name in self.benchmarks for row in self._headlines_or_absent(name)]
        return result_card(self.runs, headlines, circular)

    def _headlines_or_absent(self, benchmark: str) -> list[Result]:
        """Return the headline of each model on a benchmark, or a row without a value that says why there is none."""
        headlines = self._headlines(benchmark)
        with_headline = {row.model for row in headlines}
        for row in self.rows:
            is_of_whole_benchmark = row.benchmark == benchmark and not row.slice
            if is_of_whole_benchmark and row.value is None and row.model not in with_headline:
                headlines.append(row)
                with_headline.add(row.model)
        return headlines

    @answering_keywords(
        "it draws the headline numbers of all models; results[NAME].plot() draws those of a benchmark or model, "
        "by('TAG').to_pandas().plot.bar(x='TAG', y='value') numbers by tag"
    )
    def plot(self, path: str | Path | None = None) -> Plot:
        """Return a chart of the headline numbers with their intervals; for the runs of a training, over its steps.

        Notebooks show the chart. If `path` is given, it is also written there.
        """
        from snellen.report.figure_files import headline_plot

        plot = headline_plot(self.runs, self.rows)
        if path is not None:
            plot.save(path)
        return plot

    @answering_keywords("slices=True has the numbers by tag, samples a row for each reply")
    def table(self, *, slices: bool = False) -> polars.DataFrame:
        """Return one row per number, as a data frame.

        The columns are model, benchmark, dimension, protocol, method, metric, value, low, high, stderr, n, unscored,
        errors and groups. `*` stands for a mean over benchmarks.

        Args:
            slices: Whether to include parts of benchmarks (by tag, by template, by round).
        """
        return data_frame(flat_row(row) for row in self.rows if slices or not row.slice)

    def scores(self) -> polars.DataFrame:
        """Return a data frame with one row per question and metric.

        A question without a value is unscored, and `reason` says why. `expected` is the expected value if a reply can
        be read in more than one way; otherwise it is the value.
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

    @property
    def samples(self) -> SampleRows:
        """The replies, with a row for each presentation: the question, the request, the reply, its reading and scores.

        `samples()` returns a data frame of polars, `samples.to_pandas()` one of pandas, and `samples.to_csv(path)`
        writes a file. `results[NAME].samples` are those of a benchmark or model.
        """
        return SampleRows(self.runs)

    @property
    def metrics(self) -> MetricNumbers:
        """The metrics by name: `results.metrics["accuracy"].ci` is the 95% interval of the accuracy."""
        return MetricNumbers(self)

    def filter(self, condition: Callable[[SampleRow], Any]) -> polars.DataFrame:
        """Return the rows of `samples` that meet a condition. `only(where=...)` has the numbers of some questions.

        Args:
            condition: A function of a row, whose columns are keys and attributes.

        Examples:
            >>> results = sn.evaluate("snellen:always-a", "eyechart/shape", limit=4)
            >>> len(results.filter(lambda row: row.tag_level == "easy"))
            2
        """
        if not callable(condition):
            raise DataError(f"filter takes a function of a row of samples; {_CHOICE_HINT}")
        return self.samples.filter(condition)

    def wrong(self) -> polars.DataFrame:
        """Return the rows of `samples` whose reply is wrong."""
        return self.samples.filter(lambda row: row["correct"] is False)

    def _repr_html_(self) -> str:
        """Return the summary that notebooks show."""
        from snellen.report.summary import html_summary

        return html_summary(self.runs, self.rows)

    @answering_keywords("by('TAG') has the numbers of a tag, table() all numbers")
    def value(
        self, metric: str = "", benchmark: str = "*", *, model: str = "", protocol: str = ""
    ) -> float | None:
        """Return one number: the headline number of a report, or a metric. `shape` stands for `eyechart/shape`.

        Raises DataError if no row or several rows match, UnknownNameError for a wrong protocol.

        Examples:
            >>> results = sn.evaluate("snellen:oracle", "eyechart/shape", limit=4)
            >>> results.value()  # of the run
            1.0
            >>> results.value(benchmark="eyechart/shape")  # of a benchmark
            1.0
            >>> results.value("accuracy_of_parsed")  # another metric, as the mean over the benchmarks that have it
            1.0
        """
        row = self._find_row(metric, benchmark=benchmark, model=model, protocol=protocol)
        return row.value

    @property
    def ci(self) -> tuple[float | None, float | None]:
        """The 95% interval of the headline number. Raises DataError as `value` does."""
        return self._find_row().ci

    @property
    def stderr(self) -> float | None:
        """The standard error of the headline number. Raises DataError as `value` does."""
        return self._find_row().stderr

    @property
    def low(self) -> float | None:
        """The lower end of the 95% interval of the headline number. Raises DataError as `value` does."""
        return self._find_row().low

    @property
    def high(self) -> float | None:
        """The upper end of the 95% interval of the headline number. Raises DataError as `value` does."""
        return self._find_row().high

    @property
    def n(self) -> int:
        """The number of questions of the headline number. Raises DataError as `value` does."""
        return self._find_row().n

    def _find_row(
        self, metric: str = "", *, benchmark: str = "*", model: str = "", protocol: str = ""
    ) -> Result:
        """Return the one result that matches some criteria.

        Results on parts of benchmarks, such as `level=hard`, do not match. If no result over all benchmarks matches
        and there is only one benchmark, the result on this benchmark is returned.

        Args:
            metric: The metric; if empty, the headline.
            benchmark: The benchmark, with or without its suite; `*` for the result over all benchmarks.
            model: The model; if empty, any.
            protocol: The protocol; if empty, any.

        Raises:
            DataError: No result matches, or several do.
        """
        full_names = [name for name in self.benchmarks if name.endswith(f"/{benchmark}")]
        if benchmark not in self.benchmarks and len(full_names) == 1:
            [benchmark] = full_names
        label = parse_protocol(protocol).label if protocol else ""

        matches: list[Result] = []
        for row in self.rows if metric else self._headlines(benchmark):
            if metric and row.metric != metric:
                continue
            if row.benchmark != benchmark or row.slice:
                continue
            if benchmark == OVERALL and row.dimension != OVERALL:
                continue  # a mean over the benchmarks of one ability dimension
            if model in ("", row.model) and label in ("", row.protocol):
                matches.append(row)

        searched = metric or "headline"
        if not matches and benchmark == OVERALL and len(self.benchmarks) == 1:
            [only] = self.benchmarks
            return self._find_row(metric, benchmark=only, model=model, protocol=protocol)
        if not matches:
            raise DataError(f"{benchmark} has no {searched}; {self._nearest(searched, benchmark)}")
        if len(matches) > 1:
            models = list(dict.fromkeys(row.model for row in matches))
            protocols = list(dict.fromkeys(row.protocol for row in matches))
            also = f"model={models[0]!r}" if len(models) > 1 else f"protocol={protocols[0]!r}"
            raise DataError(
                f"{len(matches)} values match {searched} of {benchmark}; also give model and protocol, as in "
                f"value({metric!r}, {also})"
            )
        return matches[0]

    def _headlines(self, benchmark: str) -> list[Result]:
        """Return the headline of each run on a benchmark, or over all (`*`), by the first method that has one."""
        from snellen.report.reported_runs import prepare_reported_runs

        headlines: list[Result] = []
        for reported_run in prepare_reported_runs(self.runs, self.rows):
            for model_row in reported_run.method_rows:
                if benchmark == OVERALL:
                    row = model_row.headline
                else:
                    row = model_row.headlines.get(benchmark)
                if row is not None:
                    headlines.append(row)
                    break
        return headlines

    def _nearest(self, metric: str, benchmark: str) -> str:
        """Return what is available in place of a number that does not exist, as a part of an error message."""
        benchmarks = sorted({row.benchmark for row in self.rows})
        if benchmark not in benchmarks:
            return f"the benchmarks are {', '.join(benchmarks)}"
        metrics: set[str] = set()
        for row in self.rows:
            if row.benchmark == benchmark and not row.slice:
                metrics.add(row.metric)
        if metric not in metrics:
            return f"the metrics of {benchmark} are {', '.join(sorted(metrics))}"
        return "table() shows the models and protocols that have one"

    def stopped(self) -> list[SequentialEstimate]:
        """Return estimates for the complete benchmarks of runs that a rule stopped (`until`).

        Their intervals are anytime-valid: they hold at whatever time the run stops.
        """
        from snellen.analysis.sequential import sequential_estimates

        return [estimate for run in self.runs for estimate in sequential_estimates(run)]

    def only(self, *, where: str = "", common_answered: bool = False) -> Results:
        """Return the same runs, restricted to some of their questions.

        Args:
            where: Condition that questions must meet, on their tags and on facts of their benchmark.
            common_answered: Whether to keep only questions that every run answered.

        Raises:
            DataError: No question is left.
        """
        from snellen.analysis import subset

        runs: Sequence[ScoredRun] = self.runs
        if where:
            runs = subset.filter_runs(runs, where)
        if common_answered:
            runs = subset.common_answered(runs)
        return Results(runs)

    @shows_fields(CompareSpec)
    def compare(
        self, *others: Results, to: str | Path | None = None, **fields: Unpack[CompareKeywords]
    ) -> Comparison:
        """Compare the runs question by question.

        Each benchmark is compared by its headline metric and by circular accuracy, or by `metrics`: rows of the
        results, or metrics, each by its first row. A run that shares nothing with the others is left out; `left_out` of
        the comparison says why.

        Args:
            others: Results of further runs.
            to: A `.md`, `.csv` or `.json` file to write.
            fields: Fields of a `CompareSpec` (docs/reference/comparison.md): `metrics`, `baseline` (the folder or the
                label of a run), `correction`, `resamples`, `seed`.

        Returns:
            Differences with 95% intervals and p-values, ranks with intervals unless `resamples` is 0, and the questions
                on which the runs differ.

        Raises:
            DataError: There are fewer than two runs, they used different builds of a benchmark, or they have nothing in
                common.
            UnknownNameError: A metric, run or correction does not exist.
        """
        from snellen.analysis.paired.comparison import ComparedRuns, compare_runs

        for other in others:
            if not isinstance(other, Results):
                raise DataError(
                    f"compare: {str(other)!r:.60} is not of results; sn.compare(results, {str(other)!r:.60}) takes folders "
                    "of runs as well"
                )
        if others:
            all_runs = list(self.runs)
            for other in others:
                all_runs.extend(other.runs)
            return Results(all_runs).compare(to=to, **fields)
        from snellen.analysis.paired.nothing_in_common import left_out_runs, nothing_in_common

        spec = convert_fields(fields, CompareSpec)
        labels = dict(zip((run.folder for run in self.runs), run_labels(self.runs), strict=True))
        baseline = labels.get(Path(spec.baseline), spec.baseline) if spec.baseline else ""
        # A stored scoring has rows of metrics whose code this process does not know.
        own_rows = {row.metric for row in self.rows} if spec.metrics else set()
        names = [name if name in own_rows else row_called(name) for name in spec.metrics]
        comparison = compare_runs(
            self.runs,
            metrics=names,
            baseline=baseline,
            correction=spec.correction,
            resamples=spec.resamples,
            seed=spec.seed,
        )
        if not comparison.differences:
            raise DataError(nothing_in_common(self.runs))
        if not names:
            comparison = ComparedRuns(self.runs, comparison).in_both
        left_out = left_out_runs(self.runs, comparison)
        if left_out:  # the others are labelled and corrected as if they were compared alone
            if baseline:
                baseline_run = self.runs[comparison.labels.index(baseline)]
                spec = replace(spec, baseline=str(baseline_run.folder))
            compared = Results([run for run in self.runs if run.folder not in left_out])
            reasons = {str(folder): reason for folder, reason in left_out.items()}
            comparison = replace(compared.compare(**asdict(spec)), left_out=reasons)
        if to is not None:
            from snellen.report.page import write_comparison

            write_comparison(comparison, Path(to))
        return comparison

    def export(
        self,
        form: str,
        path: str | Path | None = None,
        *,
        images: bool = False,
        answers: bool = False,
    ) -> list[Path]:
        """Write the replies as a table, or the runs in the format of another tool, and return the files.

        `export("samples.csv")` writes a row for each reply. docs/exports.md describes all formats.

        Args:
            form: Name of the format, or the file of a table, whose suffix decides.
            path: File or folder to write, depending on the format.
            images: Whether to include images, if the format has a place for them.
            answers: Whether to include ground truths in formats that are made to be published.

        Raises:
            UnknownNameError: The format does not exist.
            DataError: The format cannot hold the runs.
            StoreError: The files cannot be written.
        """
        from snellen.interchange.exports.base import ExportJob, export_path
        from snellen.interchange.exports.sample_files import is_sample_table

        if path is None and Path(form).suffix:
            path = form
            form = "samples"
        exporter: Exporter = find_registered("exporters", form)
        name = self.runs[0].folder.name
        if len(self.runs) > 1:
            name = "replies" if is_sample_table(exporter) else "runs"
        if not is_sample_table(exporter):
            name = f"{name}-{form}"
        to = export_path(form, exporter, path, name)
        return list(exporter.write(ExportJob(self.runs, tuple(self.rows), to, images, answers)))

    def track(self, target: str) -> list[str]:
        """Log each run to an experiment tracker, and return where it was logged (docs/exports.md).

        Args:
            target: `mlflow:URI`, `wandb:PROJECT` or `trackio:PROJECT`.

        Raises:
            UnknownNameError: The tracker does not exist.
            DataError: The runs cannot be logged.
            MissingExtraError: The tracker is not installed.
        """
        from snellen.interchange.exports.trackers import track

        return track(self.runs, target)

    def report(
        self, path: str | Path = "report.html", further: Sequence[ReportSection] = ()
    ) -> Path:
        """Write a report: `.html` (self-contained), `.md`, `.tex`, `.csv`, `.json` or `.parquet`.

        The first three formats include the `further` sections.
        """
        from snellen.report.page import write_report

        return write_report(self.runs, self.rows, Path(path), further)

    def figures(self, folder: str | Path, form: str = "svg") -> list[Path]:
        """Write each figure of the report to its own file (`svg`, `png` or `pdf`), and `captions.txt` next to them.

        Raises DataError for another format, MissingExtraError if `snellen[figures]` is needed, StoreError.
        """
        from snellen.report.figure_files import write_figures

        return write_figures(self.runs, self.rows, Path(folder), form)

    def latex_tables(self, folder: str | Path) -> list[Path]:
        """Write each table of the report as a LaTeX file for `\\input`, for a paper that uses booktabs."""
        from snellen.report.latex import write_latex_tables

        return write_latex_tables(self.runs, self.rows, Path(folder))
