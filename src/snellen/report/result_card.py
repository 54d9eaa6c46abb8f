"""Results as vendors print them: a row for each benchmark, with how it was asked and a number for each model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from snellen.building.kept_sources import check_overwrites_no_source
from snellen.catalogue import published_number_of
from snellen.catalogue.published_number import OWN_DECODING, OWN_JUDGE_WORDING, OWN_NUMBER
from snellen.formats.suffixes import SUFFIXES
from snellen.formats.whole_files import write_in_form
from snellen.metrics.declaration import declared_row
from snellen.protocols.base import first_pass_of
from snellen.reasons import word_reason
from snellen.records import Result
from snellen.report.latex import PACKAGES_COMMENT, latex_table
from snellen.report.markdown import markdown_tables
from snellen.report.number_text import metric_title
from snellen.report.table import AbsentCell, Cell, Column, NumberCell, Table, cell_text, tabulate
from snellen.report.terminal import table_text
from snellen.report.wording import asked_wording, judge_wording
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun, run_labels

ACCURACY = "accuracy"
NOT_REPRODUCED_MARK = "*"
"""Stands behind the name of a benchmark whose printed figures were not reproduced."""
PARTLY_REPRODUCED_MARK = "†"
"""Mark after the name of a benchmark if only some of its published numbers could be reproduced."""


class CardRow(Struct, frozen=True):
    """One benchmark of a card."""

    benchmark: str
    """Its title, and a mark if not all of its printed figures were reproduced."""
    metric: str
    setting: str
    """How it was asked: examples, protocol, prompts, and the rules of scoring."""
    results: dict[str, Result]
    """The headline of each model."""


class ResultCard(Struct, frozen=True):
    """A table of results for a model card or a paper. Print it for a terminal.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> card = results.card()
        >>> card.to_markdown().splitlines()[2]
        '| benchmark | metric | setting | snellen:oracle |'
    """

    rows: tuple[CardRow, ...]
    models: tuple[str, ...]

    @property
    def table(self) -> Table:
        """The card as a table: a row for each benchmark and setting, a column for each model."""
        columns: list[Column[CardRow]] = [
            Column("benchmark", lambda row: row.benchmark, is_label=True),
            Column("metric", lambda row: row.metric, is_label=True),
            Column("setting", lambda row: row.setting, is_label=True),
        ]
        for model in self.models:
            columns.append(_model_column(model))
        notes = ["Intervals cover the true value with 95% confidence."]
        if any(row.benchmark.endswith(NOT_REPRODUCED_MARK) for row in self.rows):
            notes.append(
                f"{NOT_REPRODUCED_MARK} {OWN_NUMBER}: no printed figure of this benchmark was reproduced."
            )
        if any(row.benchmark.endswith(PARTLY_REPRODUCED_MARK) for row in self.rows):
            notes.append(
                f"{PARTLY_REPRODUCED_MARK} Not every printed figure of this benchmark was reproduced."
            )
        return tabulate("Results", columns, self.rows, notes)

    @property
    def text_rows(self) -> list[tuple[str, ...]]:
        """The rows of the table as texts."""
        return [tuple(cell_text(cell, {}) for cell in row) for row in self.table.rows]

    def __str__(self) -> str:
        return table_text(self.table)

    def to_markdown(self) -> str:
        """Return the card as a table in Markdown, under a heading."""
        return "\n".join(markdown_tables([self.table], 2)).rstrip() + "\n"

    def to_latex(self) -> str:
        """Return the card as a float in LaTeX, for a paper that uses booktabs."""
        return PACKAGES_COMMENT + latex_table(self.table)

    def save(self, path: str | Path) -> Path:
        """Write the card as the suffix says, .md or .tex, and return the path. Raises DataError for another suffix."""
        forms = {".md": ResultCard.to_markdown, ".tex": ResultCard.to_latex}
        check_overwrites_no_source(Path(path))
        return write_in_form(Path(path), "a card", self, forms)


def result_card(
    runs: Sequence[ScoredRun], headlines: Sequence[Result], circular: Sequence[Result] = ()
) -> ResultCard:
    """Return a table of results as vendors of models print it: a row for each benchmark, a column for each model.

    If runs used different settings for a benchmark, such as other protocols, each setting has a row of its own. The
    circular protocol asks each question with its options in several orders. It yields two rows: the circular
    accuracy (a question counts only if it is answered correctly in all orders), then the accuracy of the first
    order, which is the same as under `vanilla` and stands under that name.

    Args:
        runs: The runs.
        headlines: The headline number of each model on each benchmark, in the order of the rows; without a value where
            the benchmark has none.
        circular: The circular accuracies of models on benchmarks, if they were measured.
    """
    scored_by_name: dict[tuple[str, str], tuple[ScoredRun, ScoredBenchmark]] = {}
    for label, run in zip(run_labels(runs), runs, strict=True):
        for scored in run.benchmarks:
            scored_by_name[label, scored.spec.name] = (run, scored)

    numbers_by_row: dict[tuple[str, str, str], dict[str, Result]] = defaultdict(dict)
    titles: dict[str, str] = {}
    for headline in _with_circular(headlines, circular):
        run, scored = scored_by_name[headline.model, headline.benchmark]
        protocol = headline.protocol
        if headline.metric == ACCURACY:
            protocol = first_pass_of(protocol)
        if headline.estimate.value is None and headline.reason is None:
            headline = _with_reason(headline, scored)
        setting = _setting(run, scored, protocol, headline)
        key = (headline.benchmark, headline.metric, setting)
        numbers_by_row[key][headline.model] = headline
        titles[headline.benchmark] = _title(scored)

    rows: list[CardRow] = []
    for (benchmark, metric, setting), numbers in numbers_by_row.items():
        rows.append(CardRow(titles[benchmark], metric_title(metric), setting, numbers))
    models = tuple(dict.fromkeys(headline.model for headline in headlines))
    return ResultCard(tuple(rows), models)


def _with_reason(headline: Result, scored: ScoredBenchmark) -> Result:
    """Return a number without a value, with the reason why its first question has none."""
    for score in scored.scores_of(headline.metric, headline.protocol):
        if score.reason is not None:
            return replace(headline, reason=score.reason, detail=score.detail)
    return headline


def _with_circular(headlines: Sequence[Result], circular: Sequence[Result]) -> list[Result]:
    """Return the headline numbers, with the circular accuracy of the same model and benchmark before each accuracy."""
    numbers: list[Result] = []
    for headline in headlines:
        for number in circular:
            is_same = (number.model, number.benchmark) == (headline.model, headline.benchmark)
            if is_same and headline.metric == ACCURACY and number.estimate.value is not None:
                numbers.append(number)
        numbers.append(headline)
    return numbers


def _model_column(model: str) -> Column[CardRow]:
    """Return the column of a model, with its number in each row, or why it has none."""

    def cell(row: CardRow) -> Cell:
        """Return the number of the model in a row of the card, or why it has none."""
        result = row.results.get(model)
        if result is None:
            return ""
        if result.estimate.value is None:
            return AbsentCell(word_reason(result.reason, result.detail) or "no value")
        unit = result.unit or declared_row(result.metric).unit
        return NumberCell(unit, result.estimate)

    return Column(model, cell)


def _title(scored: ScoredBenchmark) -> str:
    """Return the title of a benchmark with a mark if published numbers of it could not be reproduced.

    `*` means that none was reproduced, and a dagger that only some were. Benchmarks without published numbers have
    no mark.
    """
    title = scored.spec.title
    if not scored.spec.suite and Path(title).suffix.lower() in SUFFIXES:  # that of a built file
        title = scored.spec.name
    number = published_number_of(scored.spec)
    if number is None:
        return title
    if not number.is_reproduced:
        return title + NOT_REPRODUCED_MARK
    if number.n_reproduced < len(number.reproductions):
        return title + PARTLY_REPRODUCED_MARK
    return title


def _setting(run: ScoredRun, scored: ScoredBenchmark, protocol: str, headline: Result) -> str:
    """Describe how a benchmark was run: `0-shot, vanilla, in the makers' wording, 200 of 900 questions`."""
    clauses: list[str] = []
    spec = run.manifest.question_specs[-1] if run.manifest.question_specs else None
    if spec:
        clauses.append(f"{spec.few_shot}-shot")
    clauses.append(protocol)
    wording = asked_wording(run.manifest, scored.spec, headline.protocol)
    if wording is not None:
        clauses.append(wording.text)
        published = published_number_of(scored.spec)
        if published and published.no_decoding and wording.by != "user":
            clauses.append(OWN_DECODING)
    if run.convention == "as-published":
        clauses.append("scored as published")
    if run.judges:
        judges = dict.fromkeys(use.judge for use in run.judges)
        clauses.append(f"judged by {', '.join(judges)}")
    if judge_wording(scored.spec, headline.metric):
        clauses.append(f"in {OWN_JUDGE_WORDING}")
    if scored.n_corrected:
        clauses.append(f"{scored.n_corrected:,} ground truths corrected")
    n_expected = scored.spec.expected.samples
    n_run = len(scored.samples)
    if n_expected is not None and n_run < n_expected:
        clauses.append(f"{n_run:,} of {n_expected:,} questions")
    return ", ".join(clauses)
