"""Tables of protocols in several steps, whose answer follows from several requests for one question.

For example, one model describes the image and another answers from the description. The tables show what the steps
cost next to protocols that ask once, and how often each correct answer was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from snellen.analysis.group_means import estimate_mean
from snellen.analysis.headline import leading_headline
from snellen.metrics.declaration import SHARE, declared_row
from snellen.protocols.base import labelled_declaration
from snellen.records import Answer, Turn
from snellen.report.number_text import DASH, metric_title
from snellen.report.reported_runs import ReportedRun, question_metric
from snellen.report.table import AbsentCell, Cell, Column, NumberCell, Table, tabulate
from snellen.scoring.request_costs import COST
from snellen.scoring.scored_run import ScoredBenchmark

MAX_DISTINCT_ANSWERS = 10
"""Different correct answers up to which each has a row of its own."""
NO_COST_REASON = "no value: there are no replies, or a model does not report token counts"
STEPS_NOTE = (
    "Unknown: no answer could be parsed, or the last round had none; scored as wrong. Rounds, requests "
    "and tokens are means over questions; tokens include the input and output of all models."
)


class _SteppedBenchmark(Struct, frozen=True):
    """A benchmark of a run with its protocols, those in several steps last."""

    reported_run: ReportedRun
    scored: ScoredBenchmark
    protocols: tuple[str, ...]


def multi_step_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return the tables of the benchmarks that a protocol in several steps evaluated; none without such a protocol."""
    benchmarks: list[_SteppedBenchmark] = []
    for reported_run in reported_runs:
        benchmarks += _stepped_benchmarks(reported_run)
    if not benchmarks:
        return []
    return [_step_table(benchmarks), *_correct_answer_tables(benchmarks)]


def _stepped_benchmarks(reported_run: ReportedRun) -> Iterator[_SteppedBenchmark]:
    """Yield the benchmarks of a run on which the model answered in several steps, with the protocols that were used.

    A protocol in several steps sends several requests for one question, each depending on the replies before.
    """
    for scored in reported_run.run.benchmarks:
        protocols: dict[str, None] = {}
        for protocol, method, _ in scored.score_rows:
            if method == "generation":
                protocols[protocol] = None
        if any(_has_steps(protocol) for protocol in protocols):
            yield _SteppedBenchmark(reported_run, scored, tuple(sorted(protocols, key=_has_steps)))


def _has_steps(protocol: str) -> bool:
    return labelled_declaration(protocol).conclude is not None


# --- cost ------------------------------------------------------------------------------------------------------------


class _StepRow(Struct, frozen=True):
    """One protocol of a benchmark."""

    reported_run: ReportedRun
    scored: ScoredBenchmark
    protocol: str


def _step_table(benchmarks: Sequence[_SteppedBenchmark]) -> Table:
    """Return a table of answers in several steps: the score under each protocol, and its rounds, requests and tokens."""
    columns: list[Column[_StepRow]] = [
        Column("model", lambda row: row.reported_run.label, is_label=True),
        Column("benchmark", lambda row: row.scored.spec.name, is_label=True),
        Column("protocol", lambda row: row.protocol, is_label=True),
        Column("metric", lambda row: metric_title(leading_headline(row.scored)), is_label=True),
        Column("value", _headline_cell),
        Column("unknown", _unknown_cell),
    ]
    titles = ("rounds", "requests", "tokens")
    for title, metric in zip(titles, COST.names, strict=True):
        columns.append(_cost_column(title, metric))
    rows: list[_StepRow] = []
    for benchmark in benchmarks:
        for protocol in benchmark.protocols:
            rows.append(_StepRow(benchmark.reported_run, benchmark.scored, protocol))
    return tabulate("Answers in several steps", columns, rows, [STEPS_NOTE])


def _headline_cell(row: _StepRow) -> Cell:
    """Return a cell with the headline number of a benchmark under one protocol.

    If no question has a score, the cell has a footnote that says so.
    """
    headline_metric = leading_headline(row.scored)
    # A run that is scored as in a paper may replace the metric by the paper's.
    metric = row.reported_run.substitutes.get(headline_metric, headline_metric)
    result = row.reported_run.find_result(row.protocol, metric, row.scored.spec.name)
    if result is None or result.estimate.value is None:
        return AbsentCell("no question was scored; see the counts")
    return NumberCell(result.unit, result.estimate)


def _unknown_cell(row: _StepRow) -> Cell:
    """Return a cell with the share of answered questions for which no answer could be read from the reply."""
    values: list[float] = []
    groups: list[str] = []
    for prediction in row.scored.predictions:
        if prediction.protocol != row.protocol or prediction.error is not None:
            continue
        is_unknown = prediction.choice is None and prediction.text is None
        values.append(float(is_unknown))
        groups.append(row.scored.samples[prediction.sample_id].group)
    if not values:
        return AbsentCell("no question was answered")
    return NumberCell(SHARE, estimate_mean(values, groups))


def _cost_column(title: str, metric: str) -> Column[_StepRow]:
    return Column(title, lambda row: _cost_cell(row, metric))


def _cost_cell(row: _StepRow, metric: str) -> Cell:
    """Return a cell with the mean cost of a question under a protocol.

    Only protocols that answer in several steps measure this cost. A protocol that sends a single request for each
    question costs one request. Other costs of such protocols are not known here, and the cell is a dash.

    Args:
        row: The run, benchmark and protocol.
        metric: The kind of cost: `rounds_used`, `requests_used` or `tokens_used`.
    """
    if not _has_steps(row.protocol):
        sends_one_request = labelled_declaration(row.protocol).presentations == 1
        return "1" if metric == "requests_used" and sends_one_request else DASH
    result = row.reported_run.find_result(row.protocol, metric, row.scored.spec.name)
    if result is None or result.estimate.value is None:
        return AbsentCell(NO_COST_REASON)
    return NumberCell(declared_row(metric).unit, result.estimate)


# --- by correct answer -----------------------------------------------------------------------------------------------


class _CorrectAnswerRow(Struct, frozen=True):
    """The questions of a benchmark that have the same correct answer."""

    run: str
    scored: ScoredBenchmark
    correct_answer: str
    sample_ids: frozenset[str]


def _correct_answer_tables(benchmarks: Sequence[_SteppedBenchmark]) -> list[Table]:
    """Return the accuracy by correct answer, a column for each protocol; no table if answers cannot be grouped."""
    protocols: dict[str, None] = {}
    rows: list[_CorrectAnswerRow] = []
    for benchmark in benchmarks:
        protocols.update(dict.fromkeys(benchmark.protocols))
        answer_by_sample = _correct_answers(benchmark.scored)
        for correct_answer in sorted(set(answer_by_sample.values())):
            sample_ids = frozenset(
                sample_id
                for sample_id, answer in answer_by_sample.items()
                if answer == correct_answer
            )
            rows.append(
                _CorrectAnswerRow(
                    benchmark.reported_run.label, benchmark.scored, correct_answer, sample_ids
                )
            )
    if not rows:
        return []
    columns: list[Column[_CorrectAnswerRow]] = [
        Column("model", lambda row: row.run, is_label=True),
        Column("benchmark", lambda row: row.scored.spec.name, is_label=True),
        Column("correct answer", lambda row: row.correct_answer, is_label=True),
    ]
    columns += [_mean_score_column(protocol) for protocol in protocols]
    return [tabulate("Accuracy by correct answer", columns, rows)]


def _correct_answers(scored: ScoredBenchmark) -> dict[str, str]:
    """Return the correct answer of each sample, if the samples can be grouped by it in a table.

    They can if there are at least two and at most `MAX_DISTINCT_ANSWERS` different answers.

    Returns:
        By the id of the sample, the text of the answer: `{"q1": "yes", "q2": "no"}`. If there are too many different
        texts, it is the position of the correct option: `{"q1": "option 2"}`. If there are too many positions, too, or
        if some are missing, the result is empty.
    """
    texts: dict[str, str] = {}
    positions: dict[str, str] = {}
    for sample in scored.samples.values():
        answer = scored.answers.get((sample.id, 0))
        is_dialogue = bool(sample.turns)
        if is_dialogue or not answer:
            continue
        texts[sample.id] = _answer_text(sample.rounds[0], answer)
        positions[sample.id] = f"option {answer.options[0] + 1}" if answer.options else ""

    for answer_by_sample in (texts, positions):
        distinct_answers = set(answer_by_sample.values())
        has_empty = "" in distinct_answers
        if not has_empty and 1 < len(distinct_answers) <= MAX_DISTINCT_ANSWERS:
            return answer_by_sample
    return {}


def _answer_text(question: Turn, answer: Answer) -> str:
    """Return the first correct option or reference answer; empty without either."""
    if answer.options:
        return question.options[answer.options[0]]
    return answer.texts[0] if answer.texts else ""


def _mean_score_column(protocol: str) -> Column[_CorrectAnswerRow]:
    return Column(protocol, lambda row: _mean_score_cell(row, protocol))


def _mean_score_cell(row: _CorrectAnswerRow, protocol: str) -> Cell:
    """Return a cell with the mean score of the samples that have the same correct answer, under one protocol."""
    scored = row.scored
    has_options = any(sample.options for sample in scored.samples.values())
    metric = question_metric(scored, has_options)
    values: list[float] = []
    groups: list[str] = []
    for score in scored.scores_of(metric, protocol):
        if score.sample_id in row.sample_ids and score.value is not None:
            values.append(score.value)
            groups.append(scored.samples[score.sample_id].group)
    if not values:
        return AbsentCell("no question with this answer was scored")
    return NumberCell(declared_row(metric).unit, estimate_mean(values, groups))
