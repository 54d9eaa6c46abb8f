"""What a metric declares: its rows, each with unit, bounds, direction, kind of interval and scale.

Tables, axes, intervals and means over benchmarks read the declaration; there is no list of names elsewhere. A metric
is registered in the group `metrics` (`snellen.registry.register`, or the entry point group `snellen.metrics`). It is
one of the kinds below, one of a kind of your own (a subclass of `Metric` with a method `score`), or a plain function
of a reply and its references, whose values are shares:

    @reply_metric(unit="seconds", better="lower")
    def seconds_off(reply, references):
        return abs(float(reply) - float(references[0]))

    register("metrics", "seconds_off", seconds_off)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Literal, overload

from msgspec import Struct
from msgspec.structs import asdict, replace

from snellen import registry
from snellen.callers import for_caller, setting
from snellen.errors import DataError, HookError, SnellenError
from snellen.extraction.asked_reply import question_of
from snellen.metrics.measure_parameters import measure_parameters
from snellen.metrics.open_questions import (
    corpus_values,
    open_questions,
    reply_values,
    score_open_questions,
)
from snellen.metrics.question_counts import (
    Counts,
    QuestionCounts,
    count_questions,
    question_scores,
)
from snellen.metrics.questions import HIDDEN_ANSWER, AskedQuestion, Unscored, why_unanswered
from snellen.metrics.scoring_context import MetricScores, ScoringContext
from snellen.records import Answer, Better, Prediction, Score

IntervalKind = Literal["proportion", "mean", "linearised", "none"]
"""`proportion`: values between 0 and 1; `mean`: any numbers; `linearised`: not a mean over questions
but a smooth function of sums over them; `none`: no interval."""
UnparsedRule = Literal[
    "wrong", "right", "left out", "own kind", "kinds by text", "as text", "counted"
]
"""How a reply without an option counts. `as text`: open replies, which are scored as they are."""
MetricInput = Literal[
    "reply", "corpus", "counts", "ranks", "groups", "judge", "ratings", "choices", "derived"
]
Measure = Callable[[str, Sequence[str]], float]
"""`measure(reply, references)` scores one reply against the accepted texts."""
DEFAULT_TEXT_METRICS = ("exact_match", "word_accuracy")
"""Metrics of open questions for a benchmark whose entry names none."""
SHARE = "share"
"""The unit of a share, between 0 and 1, which is shown in percent."""
OF_ANSWERED = "_of_answered"
"""Suffix of a row over received replies only, next to a row that counts missing replies as wrong."""
AFTER_AUDIT = "_audited"
"""Suffix of a number that is corrected by labels of a random part of the replies (`snellen audit`).

It is dropped when the corrected number replaces the number as read.
"""
AS_READ = "_as_read"
"""Suffix of the uncorrected number if a corrected number has replaced it."""
_PRINTED_FACTOR = " x "
_UNDEFINED = Unscored("metric undefined", "for this question")


class MetricRow(Struct, frozen=True, kw_only=True):
    """One number of a metric: a row of the results, a column of a table, an axis of a chart.

    Examples:
        >>> row = MetricRow(name="seconds_off", unit="seconds", low=0.0, better="lower")
        >>> row.heading
        'seconds off (seconds, lower is better)'
    """

    name: str
    title: str = ""
    """Title in tables; by default the name with blanks for underscores."""
    unit: str = ""
    """Unit of the values. `share` is shown in percent; any other unit is shown next to the title."""
    low: float | None = None
    """Least possible value; None if there is none."""
    high: float | None = None
    """Greatest possible value; None if there is none."""
    question_maximum: Callable[[int, int], float] | None = None
    """Function (number of presentations, number of options) -> greatest value of a question, if it depends on these."""
    better: Better = "higher"
    interval: IntervalKind = "mean"
    scale: str = ""
    """Rows on the same scale may be averaged over benchmarks; empty if such a mean makes no sense."""
    unparsed: UnparsedRule = "as text"
    undefined: str = ""
    """When the replies can leave the row without a value; empty if they cannot."""
    secondary_to: str = ""
    """The headline row next to which this row is shown, under its short name `label`."""
    sliced: bool = True
    """Whether the row is also computed for tags, rounds of a dialogue and answers."""
    label: str = ""
    """Short name next to the headline row."""
    whole_text: bool = False
    """Whether a reply must have the words of a reference and no others. A correct answer in a sentence is then wrong."""
    limit: str = ""
    """Why a correct reply may not get the best value; empty if it always does."""
    absent_reasons: Mapping[str, str] = {}
    """Why a run does not have this row, by method. An empty key applies to any method."""

    @property
    def display_name(self) -> str:
        return self.title or self.name.replace("_", " ")

    @property
    def qualifiers(self) -> str:
        """Unit and direction, such as `nats, lower is better`; empty for a share of which more is better."""
        facts = [
            self.unit if self.unit != SHARE else "",
            "lower is better" if self.better == "lower" else "",
        ]
        return ", ".join(fact for fact in facts if fact)

    @property
    def heading(self) -> str:
        """The title with its qualifiers, such as `instability (nats, lower is better)`."""
        return f"{self.display_name} ({self.qualifiers})" if self.qualifiers else self.display_name

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest possible value; infinite if not declared."""
        return (
            -math.inf if self.low is None else self.low,
            math.inf if self.high is None else self.high,
        )

    def check(self, value: float, question: str) -> float:
        """Return `value`. Raises DataError if it is outside the declared bounds; `question` names its question."""
        tolerance = 1e-9
        is_below = self.low is not None and value < self.low - tolerance
        is_above = self.high is not None and value > self.high + tolerance
        if is_below or is_above:
            raise DataError(
                f"metric {self.name}: {value:g}, of {question}, is outside its bounds {_bound(self.low)} to "
                f"{_bound(self.high)}; correct the metric or its declared bounds{self._way_out}"
            )
        return value

    @property
    def _way_out(self) -> str:
        """Return the end of a message about a value outside [0, 1]: how to declare that the values are not shares."""
        if self.unit != SHARE:
            return ""
        return ', or give it another unit than a share: @sn.metric(unit="points")'

    def bounded(self, value: float | None) -> float | None:
        """Return a value, or the nearest declared bound if it is outside the bounds. None stays None."""
        if value is None:
            return None
        if self.low is not None and value < self.low:
            return self.low
        if self.high is not None and value > self.high:
            return self.high
        return value


def printed_unit(unit: str, factor: float) -> str:
    """Return the unit of values multiplied by `factor`, as in the tables of a paper: `share x 100`."""
    return f"{unit}{_PRINTED_FACTOR}{factor:g}"


def unit_multiplier(unit: str) -> float:
    """Return the factor in a unit of `printed_unit`, such as 100 for `share x 100`, or 1 for any other unit.

    Examples:
        >>> unit_multiplier("share")
        1.0
    """
    _, separator, factor = unit.rpartition(_PRINTED_FACTOR)
    return float(factor) if separator else 1.0


def _bound(bound: float | None) -> str:
    return "none" if bound is None else f"{bound:g}"


def metric_row(name: str, *, unit: str = "", **declared: Any) -> MetricRow:
    """Return a metric row. With unit `share`, it is between 0 and 1, shown in percent, and averaged with other shares.

    Examples:
        >>> metric_row("words", low=0.0).name
        'words'
        >>> metric_row("exact", unit="share").high
        1.0
    """
    if unit == SHARE:
        declared = {"low": 0.0, "high": 1.0, "interval": "proportion", "scale": SHARE, **declared}
    return MetricRow(name=name, unit=unit, **declared)


def share_row(name: str, title: str = "", **declared: Any) -> MetricRow:
    """Return a metric row with values from 0 to 1, shown in percent.

    Examples:
        >>> share_row("exact_match").unit
        'share'
    """
    return metric_row(name, unit=SHARE, title=title, **declared)


class Metric(Struct, frozen=True, kw_only=True):
    """A metric: a description in one line, and its rows. The first row represents the metric.

    Examples:
        >>> Metric(description="mean of two accuracies", rows=(share_row("mean_accuracy"),)).names
        ('mean_accuracy',)
    """

    computed_over: ClassVar[MetricInput] = "derived"
    """The input of the metric. `derived`: other numbers; such a metric is always reported."""
    needs_replies: ClassVar[bool] = False
    """Whether it needs the text of replies to questions with options. Otherwise only the chosen option is kept."""
    description: str
    rows: tuple[MetricRow, ...]
    by_answer: bool = False
    """Whether it is also computed for the questions with each answer, as slices `answer=...`."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the rows."""
        return tuple(row.name for row in self.rows)

    @property
    def is_always_reported(self) -> bool:
        """Whether every run reports it if it applies, without a request by the user."""
        return self.computed_over == "derived"

    def score(self, questions: Sequence[AskedQuestion], context: ScoringContext) -> MetricScores:
        """Score questions of a benchmark under one protocol. A kind of metric overrides this method.

        Args:
            questions: With `computed_over` "corpus" or "groups", all questions of the benchmark; else
                some of them, and the method is called again for the others.
            context: The benchmark, judges and ratings.

        Raises:
            HookError: The kind declares an input, but has no such method.
        """
        if self.computed_over != "derived":
            kind = type(self).__name__
            raise HookError(
                f"the metric {context.metric} has the kind {kind}, which has no method `score`; add one, or set "
                "computed_over to 'derived'"
            )
        return MetricScores(())


class ReplyMetric(Metric, frozen=True, kw_only=True):
    """A number for one reply and its references; a benchmark's value is the mean.

    Examples:
        >>> metric = ReplyMetric(
        ...     description="share of replies that are the reference",
        ...     rows=(share_row("same"),),
        ...     measure=lambda reply, references: float(reply in references),
        ... )
        >>> metric("a cat", ["a cat", "cat"])
        1.0
    """

    computed_over: ClassVar[MetricInput] = "reply"
    measure: Measure
    mean_over: Literal["questions", "answers"] = "questions"
    """`answers`: the mean over answers (classes), with equal weights, of the mean over the questions with each."""
    references: Literal["reference_answers", "candidates"] = "reference_answers"
    """`candidates`: all answers published with a question, also wrong ones."""

    def __call__(self, reply: str, references: Sequence[str]) -> float:
        return self.measure(reply, references)

    def score(self, questions: Sequence[AskedQuestion], context: ScoringContext) -> MetricScores:
        """Score the open questions; a reply that will never be received has the worst value."""
        counted = [question.missing_as_wrong for question in open_questions(questions)]
        headline = self.names[0]
        scores = score_open_questions(
            counted, self.rows, lambda measurable: {headline: reply_values(measurable, self)}
        )
        return MetricScores(scores)


class CorpusMetric(Metric, frozen=True, kw_only=True):
    """A metric whose value for one reply depends on all replies. The value of a benchmark is the mean over the replies.

    For example, CIDEr weighs a word by the number of images that have it in a reference.

    Examples:
        >>> def mean_length(replies, references):
        ...     lengths = tuple(float(len(reply)) for reply in replies)
        ...     return CorpusScore(sum(lengths) / len(lengths), lengths)
        >>> rows = (MetricRow(name="mean_length", unit="characters", low=0.0),)
        >>> CorpusMetric(description="mean length of replies", rows=rows, measure=mean_length).names
        ('mean_length',)
    """

    computed_over: ClassVar[MetricInput] = "corpus"
    measure: Callable[..., Any]
    """(replies, references) -> a `snellen.metrics.captions.CorpusScore`."""

    def score(self, questions: Sequence[AskedQuestion], context: ScoringContext) -> MetricScores:
        """Score the open questions; a reply that will never be received counts as an empty one."""
        counted = [question.missing_as_wrong for question in open_questions(questions)]
        headline = self.names[0]
        scores = score_open_questions(
            counted, self.rows, lambda measurable: {headline: corpus_values(measurable, self)}
        )
        return MetricScores(scores)


class ChoiceMetric(Metric, frozen=True, kw_only=True):
    """A metric of questions with options: a number for each question, from its predictions and its correct answer.

    `measure` gets the predictions in the order of presentation. It returns None if the metric is undefined for them.
    For Snellen's own choice metrics `measure` is None, because other code computes them for every run.

    Examples:
        >>> def first_chosen(predictions, answer):
        ...     return float(predictions[0].choice == 0)
        >>> rows = (share_row("first_chosen"),)
        >>> ChoiceMetric(description="first option chosen", rows=rows, measure=first_chosen).names
        ('first_chosen',)
    """

    computed_over: ClassVar[MetricInput] = "choices"
    measure: Callable[[Sequence[Prediction], Answer], float | None] | None = None

    @property
    def is_always_reported(self) -> bool:
        """Whether every run reports it if it applies, as Snellen does for its own choice metrics."""
        return self.measure is None

    def score(self, questions: Sequence[AskedQuestion], context: ScoringContext) -> MetricScores:
        """Score the questions with options by `measure`; without it, another module computes the scores."""
        if self.measure is None:
            return MetricScores(())
        return MetricScores(self._scores(questions, self.measure))

    def _scores(
        self,
        questions: Sequence[AskedQuestion],
        measure: Callable[[Sequence[Prediction], Answer], float | None],
    ) -> Iterator[Score]:
        """Yield the score of each question, or the reason why it has none."""
        [row] = self.rows
        for asked_question in questions:
            if not asked_question.turn.options:
                continue
            question = asked_question.missing_unbiased_as_wrong
            presentations = question.answered_unbiased
            if not presentations:
                yield question.score(row.name, why_unanswered(question))
                continue
            if question.answer is None:
                yield question.score(row.name, HIDDEN_ANSWER)
                continue
            try:
                value = measure(presentations, question.answer)
            except SnellenError:
                raise
            except Exception as error:  # foreign code may raise anything
                raise HookError(f"the metric {row.name}, on {question.label}", error) from error
            if value is None:
                yield question.score(row.name, _UNDEFINED, len(presentations))
            else:
                checked = row.check(value, question.label)
                yield question.score(row.name, checked, len(presentations))


@overload
def reply_metric(measure: Measure, *, name: str = "", **declared: Any) -> ReplyMetric: ...


@overload
def reply_metric(
    measure: None = None, *, name: str = "", **declared: Any
) -> Callable[[Measure], ReplyMetric]: ...


def reply_metric(
    measure: Measure | None = None, *, name: str = "", **declared: Any
) -> ReplyMetric | Callable[[Measure], ReplyMetric]:
    """Declare `measure(reply, references) -> float`, by a call or as a decorator (`@reply_metric(unit="s")`).

    `declared` are fields of `MetricRow`. By default the metric has the name of the function. The first line of the
    function's docstring becomes the description of the metric.

    Examples:
        >>> @reply_metric(unit="words")
        ... def words(reply, references):
        ...     'Number of words in the reply.'
        ...     return float(len(reply.split()))
        >>> words.rows[0].name, words.description
        ('words', 'Number of words in the reply.')
    """
    if measure is None:
        return lambda function: reply_metric(function, name=name, **declared)
    return ReplyMetric(
        description=first_line(measure),
        rows=(metric_row(name or measure.__name__, **declared),),
        measure=measure,
    )


def corpus_metric(measure: Callable[..., Any], *, name: str = "", **declared: Any) -> CorpusMetric:
    """Declare `measure(replies, references) -> CorpusScore`, a mean of values that depend on all captions.

    Examples:
        >>> @corpus_metric
        ... def mean_length(replies, references):
        ...     lengths = tuple(float(len(reply)) for reply in replies)
        ...     return CorpusScore(sum(lengths) / len(lengths), lengths)
        >>> mean_length.names
        ('mean_length',)
    """
    row = metric_row(name or measure.__name__, **declared)
    return CorpusMetric(description=first_line(measure), rows=(row,), measure=measure)


def first_line(documented: object) -> str:
    return (documented.__doc__ or "").strip().partition("\n")[0]


JUDGE_PREFIX = "judge:"
"""Before the name of a function that judges replies, where it is among the metrics of a scoring."""


def judging_code(metric: str) -> str:
    """Return `my_file.py:NAME` of a function that judges replies; an empty string for any other metric.

    Examples:
        >>> judging_code("judge:mine.py:short"), judging_code("mine.py:short")
        ('mine.py:short', '')
    """
    return metric.removeprefix(JUDGE_PREFIX) if metric.startswith(JUDGE_PREFIX) else ""


def find_metric(name: str) -> Metric:
    """Return the metric that is registered under a name.

    A registered plain function becomes a metric as by `sn.metric`; its values are shares. If the metric has a single
    row, the row takes the name that the metric is registered under.

    `my_file.py:NAME` is the metric NAME of a user's file if this process has registered it. If not, as in the report of
    a finished run, the result is a metric that declares nothing and cannot be computed.

    Raises:
        UnknownNameError: There is no such metric. The message suggests a similar name.
        HookError: What is registered cannot be imported, or is not a metric.

    Examples:
        >>> find_metric("accuracy").names[0]
        'accuracy'
    """
    return _as_metric(registry.code_attribute(name), _registered_metric(name))


def _registered_metric(name: str) -> Any:
    """Return what is registered under the name of a metric."""
    short_name = registry.code_attribute(name)
    if short_name != name and short_name not in registry.own_targets("metrics"):
        return _measure_without_code(name)
    return registry.find_registered("metrics", short_name)


def under_registered_name(name: str, scores: Iterable[Score]) -> Iterable[Score]:
    """Return the scores of a metric under the names of the rows of `find_metric(name)`.

    The names differ if a metric with a single row is registered under another name than that of the row, while its code
    scores the row by its own name.
    """
    registered = _registered_metric(name)
    names = find_metric(name).names
    if not isinstance(registered, Metric) or registered.names == names:
        return scores
    return (
        replace(score, metric=names[0]) if score.metric == registered.names[0] else score
        for score in scores
    )


def function_metric(
    measure: Callable[..., float],
    name: str,
    *,
    title: str = "",
    unit: str = SHARE,
    better: Better = "higher",
    metric_class: type[ReplyMetric] | None = None,
) -> ReplyMetric:
    """Declare a function of the user as a metric with one row.

    Args:
        measure: The function, with the parameters that `taking_all_references` accepts.
        name: Name of the metric.
        title: Title in tables.
        unit: `share` for values in [0, 1], or any other unit, whose values have no bounds.
        better: Which values are better.
        metric_class: The kind of metric; by default `ReplyMetric`.
    """
    is_share = unit == SHARE
    row = MetricRow(
        name=name,
        title=title,
        unit=unit,
        low=0.0 if is_share else None,
        high=1.0 if is_share else None,
        better=better,
        scale=name,  # its values mean the same on any benchmark
    )
    has_name = getattr(measure, "__name__", "").isidentifier()
    return (metric_class or ReplyMetric)(
        description=first_line(measure) if has_name else "",
        rows=(row,),
        measure=taking_all_references(measure, name, better),
    )


def _measure_without_code(name: str) -> Measure:
    """Return a function that raises an error when it is called, in place of a metric whose code is not available.

    This happens if a run was scored with a function in the user's own file, and a later command does not name that
    file.
    """

    judge = judging_code(name)
    kind = "judge" if judge else "metric"
    given = setting("judge", judge) if judge else setting("metrics", name)

    def refuse(reply: str, references: Sequence[str]) -> float:
        raise HookError(
            f"the {kind} {judge or name} is code that this {for_caller('command', 'call')} was not given; add {given}"
        )

    return refuse


def _as_metric(name: str, registered: Any) -> Metric:
    """Return what is registered under a name as a metric of that name."""
    if not isinstance(registered, Metric):
        if not callable(registered):
            raise HookError(
                f"the metric {name!r} is {registered!r}; it must be a declared metric or a function"
            )
        return function_metric(registered, name)
    if len(registered.rows) == 1 and registered.rows[0].name != name:
        return replace(registered, rows=(replace(registered.rows[0], name=name),))
    return registered


def taking_all_references(
    measure: Callable[..., float], name: str, better: str = "higher"
) -> Callable[..., float]:
    """Return a metric function in the form `f(reply, references)`, made from one with other parameters.

    - `f(reply, references)` is returned unchanged.
    - `f(reply, reference)` is called with each reference. The best value counts: the highest, or the lowest if lower is
      better.
    - `f(question, reply, reference)` gets the text of the question as well.

    Raises DataError if the names of its parameters do not say which is which.
    """
    parameters = measure_parameters(measure, name)
    if parameters is None:
        return measure
    if parameters.takes_all and parameters.question is None and parameters.reply == 0:
        return measure

    @functools.wraps(measure)
    def of_references(reply: str, references: Sequence[str], *further_arguments: Any) -> float:
        question = question_of(reply)
        if parameters.takes_all:
            return measure(*parameters.arguments(question, reply, references), *further_arguments)
        values: list[float] = []
        for reference in references or ("",):
            arguments = parameters.arguments(question, reply, reference)
            values.append(measure(*arguments, *further_arguments))
        return max(values) if better == "higher" else min(values)

    return of_references


def class_mean(measure: Measure, *, name: str, title: str) -> ReplyMetric:
    """Declare a mean over classes of equal weight. All questions with the same correct answer are a class.

    A rare answer thus counts as much as a frequent one.
    """
    row = share_row(name, title, interval="linearised")
    description = f"{title}: for each gold the mean of {measure.__name__} over its questions, and the mean of these"
    return ReplyMetric(
        description=description, rows=(row,), measure=measure, mean_over="answers", by_answer=True
    )


class StoredRow(Struct, frozen=True, kw_only=True):
    """A row of a metric in the user's own code, as it is stored with a scored run.

    A later process can then print the row's title and unit without importing that code.
    """

    name: str
    title: str = ""
    unit: str = ""
    low: float | None = None
    high: float | None = None
    better: Better = "higher"
    scale: str = ""


_STORED_ROWS: dict[str, MetricRow] = {}


def stored_rows_of(metrics: Iterable[str]) -> tuple[StoredRow, ...]:
    """Return the rows of those metrics that are the user's own code, to be stored with a run.

    The names of these metrics have a colon, as in `mine.py:NAME`. The result is empty if there are none.
    """
    stored: list[StoredRow] = []
    for name in metrics:
        if ":" not in name:
            continue
        for row in find_metric(name).rows:
            stored.append(
                StoredRow(
                    name=row.name,
                    title=row.title,
                    unit=row.unit,
                    low=row.low,
                    high=row.high,
                    better=row.better,
                    scale=row.scale,
                )
            )
    return tuple(stored)


def remember_rows(rows: Iterable[StoredRow]) -> None:
    """Let `declared_row` find rows that were stored with a run.

    These are the rows of metrics in the user's own code, which this process does not import.
    """
    for row in rows:
        _STORED_ROWS[row.name] = MetricRow(**asdict(row))


def declared_row(row: str) -> MetricRow:
    """Return the declaration of a metric row (its title, unit, bounds and so on) by the name of the row.

    The declaration of a derived row, such as one over answered questions only, is made from that of the original row.
    An unknown row gets a declaration with its name and defaults.

    Examples:
        >>> declared_row("accuracy").unit
        'share'
    """
    metric = metric_of(row)
    name = _without_suffix(row)
    declaration = None
    if metric:
        for candidate in metric.rows:
            if candidate.name == name:
                declaration = candidate
                break
    if declaration is None:
        return _STORED_ROWS.get(row) or MetricRow(name=row)
    if name == row:
        return declaration
    if row.endswith(AS_READ):
        return as_read(declaration)
    if row.endswith(AFTER_AUDIT):
        return after_audit(declaration)
    return of_answered(declaration)


def _without_suffix(row: str) -> str:
    """Return the name of the row that a row is derived from: `accuracy` for `accuracy_of_answered`."""
    return row.removesuffix(OF_ANSWERED).removesuffix(AFTER_AUDIT).removesuffix(AS_READ)


def after_audit(row: MetricRow) -> MetricRow:
    """Return the declaration of the row with a number that an audit has corrected.

    In an audit, people label a sample of the replies, which shows how often replies were read wrongly.
    """
    return replace(
        row,
        name=row.name + AFTER_AUDIT,
        title=f"{row.display_name} after audit",
        scale="",
        unparsed="counted",
        secondary_to=row.name,
        label="after audit",
    )


def as_read(row: MetricRow) -> MetricRow:
    """Return the declaration of the row with the uncorrected number, shown next to the one after an audit."""
    return replace(
        row,
        name=row.name + AS_READ,
        title=f"{row.display_name} as read",
        scale="",
        unparsed="counted",
        secondary_to=row.name,
        label="as read",
    )


def of_answered(row: MetricRow) -> MetricRow:
    """Return the declaration of the row that counts only received replies.

    It is shown next to a row that counts missing replies as wrong.
    """
    return replace(
        row,
        name=row.name + OF_ANSWERED,
        title=f"{row.display_name} of answered",
        secondary_to=row.name,
        label="of answered",
    )


def metric_of(row: str) -> Metric | None:
    """Return the metric that has a row of this name; None if there is none.

    Examples:
        >>> metric_of("accuracy").names[0]
        'accuracy'
    """
    return _metric_of(_without_suffix(row), registry.key_of_targets("metrics"))


@functools.cache
def _metric_of(row: str, key: Hashable) -> Metric | None:
    """Return the first metric that has a row of this name; None if there is none.

    Metrics are imported one by one until one has the row, because importing all of them takes longer than most reports.
    """
    names = list(registry.targets("metrics"))
    if row in names:  # most rows bear the name of their metric
        names.insert(0, row)
    for name in names:
        with suppress(HookError):
            metric = find_metric(name)
            if row in metric.names:
                return metric
    return None


def metric_with(name: str) -> str:
    """Return the name of the metric that has this name, or a row of this name. Raises UnknownNameError if there is none.

    Examples:
        >>> metric_with("accuracy")
        'accuracy'
    """
    metric_names = registry.names("metrics")
    if name in metric_names:
        return name
    metric_by_row = _known_rows()
    row_name = _without_suffix(name)
    if row_name in metric_by_row:
        return metric_by_row[row_name]

    if ":" in name or name.endswith(".py"):
        find_metric(name)  # raises, and says how code is named
    nearest = registry.nearest_names(name, sorted({*metric_names, *metric_by_row}))
    raise registry.unknown_name("metric", name, nearest or metric_names)


def row_called(name: str) -> str:
    """Return the name of a metric row, given its own name or that of its metric, which stands for its first row.

    Raises UnknownNameError if there is neither a row nor a metric of this name.
    """
    return name if metric_of(name) else find_metric(metric_with(name)).names[0]


def check_row(kind: str, row: str) -> None:
    """Raise UnknownNameError if no metric has a row of this name. The message calls it a `kind`, such as "metric"."""
    if metric_of(row) is None:
        raise registry.unknown_name(kind, row, _known_rows())


def _known_rows() -> Mapping[str, str]:
    """Return the name of the metric of each row, by the name of the row: `{"bleu_1": "bleu_1", ...}`."""
    return _metric_names_by_row(registry.key_of_targets("metrics"))


@functools.cache
def _metric_names_by_row(key: Hashable) -> dict[str, str]:
    """Return, for each row of a registered metric, the name of the metric.

    Metrics that cannot be imported have no rows; using one by its name raises an error.

    Args:
        key: What is registered. The result is cached under it, so a later registration is seen.
    """
    metric_by_row: dict[str, str] = {}
    # In reverse order, so that the first metric with a row wins.
    for name in reversed(registry.targets("metrics")):
        with suppress(HookError):
            for row_name in find_metric(name).names:
                metric_by_row[row_name] = name
    return metric_by_row


# --- metrics of the whole: what each counts on a question, and what follows from the sums -----------------------------


Golds = Sequence[Sequence[str]]


class SummedMetric(Metric, frozen=True, kw_only=True):
    """A metric that is computed from counts summed over all questions, such as precision and recall.

    Examples:
        >>> metric = find_metric("bleu_4")
        >>> isinstance(metric, SummedMetric), metric.names
        (True, ('bleu_4',))
    """

    compute: Callable[[Counts], tuple[float | None, ...]]
    """Summed counts -> one value per row; None where undefined."""
    per_question: tuple[str, ...] = ()
    """The rows that also make sense for a single question; the first row is one of them."""

    def tallies(
        self, questions: Sequence[AskedQuestion], context: ScoringContext
    ) -> list[QuestionCounts]:
        """Count questions. A kind of metric overrides this method; without it, nothing is counted."""
        return []

    def score(self, questions: Sequence[AskedQuestion], context: ScoringContext) -> MetricScores:
        """Count questions, and score each in the rows that make sense for a single question."""
        tallies = self.tallies(questions, context)
        return MetricScores(question_scores(tallies, self), tallies)


class CorpusCountMetric(SummedMetric, frozen=True, kw_only=True):
    """A metric that is computed from counts on single replies, summed over all replies, such as a corpus BLEU."""

    computed_over: ClassVar[MetricInput] = "counts"
    count: Callable[[Sequence[str], Golds], Sequence[Counts | str]]
    """(replies, golds of each) -> the counts of each reply, or why it has none. No reply depends on another:
    those of a run come in parts. Raises DataError or MissingExtraError if no reply can be counted."""
    applies: Callable[[Sequence[str]], bool] = lambda options: False
    """Whether a question with these options counts too; its reply is then the text of the chosen option."""

    def tallies(
        self, questions: Sequence[AskedQuestion], context: ScoringContext
    ) -> list[QuestionCounts]:
        """Count the questions that the metric applies to, missing replies as empty ones."""
        counted = [question.missing_unbiased_as_wrong for question in questions]
        return count_questions(counted, context.metric, self)


def reply_by_reply(
    count: Callable[[str, Sequence[str]], Counts],
) -> Callable[[Sequence[str], Golds], list[Counts | str]]:
    """Return a function that counts all replies of a corpus, made from one that counts a single reply.

    If `count` raises DataError, because it cannot use the references of a reply, the message of the error is returned
    in place of the counts of this reply.
    """

    def counted(reply: str, texts: Sequence[str]) -> Counts | str:
        """Return the counts of a reply, or why the metric cannot use its references."""
        try:
            return count(reply, texts)
        except DataError as error:
            return str(error)

    return lambda replies, golds: [
        counted(reply, texts) for reply, texts in zip(replies, golds, strict=True)
    ]


def summed_metric(name: str) -> SummedMetric:
    """Return the metric of this name, which must be one that is computed from sums over all questions (else TypeError).

    Examples:
        >>> summed_metric("bleu_4").names
        ('bleu_4',)
    """
    metric = find_metric(name)
    if not isinstance(metric, SummedMetric):
        raise TypeError(f"{name} is not computed from counts summed over the corpus")
    return metric


# --- metrics that read something out of a reply -----------------------------------------------------------------------


Marks = Sequence[float] | None
"""What a reply earns, one number for each row; None where nothing could be read in it, which earns nothing."""


def read_rate_metric(
    name: str, what: str, rows: Sequence[MetricRow], marks: Callable[[str, Sequence[str]], Marks]
) -> CorpusCountMetric:
    """Declare a metric of replies that may be unreadable: means over all questions, and the share of unread replies.

    Args:
        name: Name of the metric.
        what: Its description.
        rows: Its rows, without that of unread replies.
        marks: Function of a reply and the references, which returns the mark of each row, or None for an unreadable
            reply. A question whose references it rejects (DataError) has no value.
    """
    unparsed = share_row(
        f"{name}_unparsed_rate",
        f"{name} unparsed rate".replace("_", " "),
        interval="linearised",
        better="lower",
        scale="",
        unparsed="counted",
        sliced=False,
    )

    def count(reply: str, texts: Sequence[str]) -> Counts:
        """Return counts to be summed: 1, whether the reply could be read, and the mark of each row."""
        earned = marks(reply, texts)
        if earned is None:
            no_marks = [0.0] * len(rows)
            return (1.0, 0.0, *no_marks)
        return (1.0, 1.0, *earned)

    def compute(sums: Counts) -> tuple[float | None, ...]:
        n_replies, n_read, *sums_of_marks = sums
        means = [total / n_replies for total in sums_of_marks]
        return (*means, 1 - n_read / n_replies)

    per_question = tuple(row.name for row in rows)
    return CorpusCountMetric(
        description=what,
        rows=(*rows, unparsed),
        count=reply_by_reply(count),
        compute=compute,
        per_question=per_question,
    )


def pooled_row(name: str, title: str, **declared: Any) -> MetricRow:
    """Declare a metric row that is a share, computed from sums over all questions."""
    return share_row(name, title, interval="linearised", **declared)
