"""What a metric declares: its rows, each with unit, bounds, direction, kind of interval and scale.

Tables, axes, intervals and means over benchmarks read the declaration; there is no list of names elsewhere. A metric
is registered in the group `metrics` (`snellen.registry.register`, or the entry point group `snellen.metrics`). It is
one of the kinds below, one of a kind of your own (a subclass of `Metric` with a method `score`), or a plain function
of a reply and its references, which declares nothing:

    @reply_metric(unit="seconds", better="lower")
    def seconds_off(reply, references):
        return abs(float(reply) - float(references[0]))

    register("metrics", "seconds_off", seconds_off)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, ClassVar, Literal, overload

from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.errors import DataError, HookError, SnellenError
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
"""What a reply that names no option counts as; `as text`: open replies are scored as they are."""
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
"""Ends the name of a row that leaves out what never came, where the row itself counts it as not right."""
AFTER_AUDIT = "_audited"
"""Ends the name of a number that is corrected by labels of a drawn part of the replies (`snellen audit`), until it takes
the place of the number as read."""
AS_READ = "_as_read"
"""Ends the name of the row with a number as it was read, where a corrected one has taken its place."""
_AS_PRINTED = " x "
_UNDEFINED = Unscored("metric undefined", "for this question")


class MetricRow(Struct, frozen=True, kw_only=True):
    """One number of a metric: a row of the results, a column of a table, an axis of a chart."""

    name: str
    title: str = ""
    """Its name in words; when empty, the name with blanks for underscores."""
    unit: str = ""
    """`share` is shown in percent; any other unit is named beside the title."""
    low: float | None = None
    high: float | None = None
    """The least and the greatest possible value; None where there is none."""
    question_maximum: Callable[[int, int], float] | None = None
    """(number of presentations, number of options) -> the greatest value of a question, if it depends on these."""
    better: Better = "higher"
    interval: IntervalKind = "mean"
    scale: str = ""
    """Rows on the same scale may be averaged over benchmarks; empty if such a mean makes no sense."""
    unparsed: UnparsedRule = "as text"
    undefined: str = ""
    """When replies alone can leave it without a value; empty where they cannot."""
    secondary_to: str = ""
    """The headline row beside which it is shown, under the short name `label`."""
    sliced: bool = True
    """Whether there are also rows of it for tags, rounds of a dialogue and answers."""
    label: str = ""
    whole_text: bool = False
    """Whether a reply counts only if it has the words of a reference and no others, so that a correct answer in a sentence
    is wrong."""
    limit: str = ""
    """Why a right reply need not have the best value; empty where it has."""
    absent_reasons: Mapping[str, str] = {}
    """Why a run has no such row, by method, or under an empty key for any method."""

    @property
    def display_name(self) -> str:
        return self.title or self.name.replace("_", " ")

    @property
    def qualifiers(self) -> str:
        """What a reader must know of the numbers: `nats, lower is better`; empty for a share with higher better."""
        facts = [
            self.unit if self.unit != SHARE else "",
            "lower is better" if self.better == "lower" else "",
        ]
        return ", ".join(fact for fact in facts if fact)

    @property
    def heading(self) -> str:
        """The title with its qualifiers: `instability (nats, lower is better)`."""
        return f"{self.display_name} ({self.qualifiers})" if self.qualifiers else self.display_name

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest possible value; infinite where there is none."""
        return (
            -math.inf if self.low is None else self.low,
            math.inf if self.high is None else self.high,
        )

    def check(self, value: float, of: str) -> float:
        """The value itself. Raises DataError, naming the question `of` which it is, if it is out of its bounds."""
        if (self.low is not None and value < self.low - 1e-9) or (
            self.high is not None and value > self.high + 1e-9
        ):
            raise DataError(
                f"metric {self.name}: {value:g}, of {of}, is out of its bounds {_bound(self.low)} to "
                f"{_bound(self.high)}; "
                "correct the metric, or the bounds it declares"
            )
        return value

    def bounded(self, value: float | None) -> float | None:
        """The value, cut to the declared bounds."""
        if value is None:
            return None
        value = value if self.low is None else max(value, self.low)
        return value if self.high is None else min(value, self.high)


def printed_unit(unit: str, factor: float) -> str:
    """The unit of values multiplied by `factor`, as in a paper's tables: `share x 100`."""
    return f"{unit}{_AS_PRINTED}{factor:g}"


def unit_multiplier(unit: str) -> float:
    """The factor that values in this unit have been multiplied by; 1 for a unit that no paper's tables scale."""
    return float(unit.rpartition(_AS_PRINTED)[2]) if _AS_PRINTED in unit else 1.0


def _bound(bound: float | None) -> str:
    return "none" if bound is None else f"{bound:g}"


def metric_row(name: str, *, unit: str = "", **declared: Any) -> MetricRow:
    """A metric row. With unit `share` it lies between 0 and 1, is shown in percent, and averages with other shares."""
    if unit == SHARE:
        declared = {"low": 0.0, "high": 1.0, "interval": "proportion", "scale": SHARE, **declared}
    return MetricRow(name=name, unit=unit, **declared)


def share(name: str, title: str = "", **declared: Any) -> MetricRow:
    """A metric row with values from 0 to 1, shown in percent."""
    return metric_row(name, unit=SHARE, title=title, **declared)


class Metric(Struct, frozen=True, kw_only=True):
    """A metric: what it is, in one line, and its rows, of which the first stands for it."""

    computed_over: ClassVar[MetricInput] = "derived"
    """What it is computed over. `derived`: from other numbers, without being requested."""
    what: str
    rows: tuple[MetricRow, ...]
    by_answer: bool = False
    """Whether it is also given for the questions of each gold, as slices `answer=...`."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the rows."""
        return tuple(row.name for row in self.rows)

    def score(self, questions: Sequence[AskedQuestion], context: ScoringContext) -> MetricScores:
        """Score questions of a benchmark that one protocol asked. A kind of metric overrides this method.

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
                f"the metric {context.metric} is of the kind {kind}, which has no method `score`; "
                "add one, or set computed_over to 'derived'"
            )
        return MetricScores(())


class ReplyMetric(Metric, frozen=True, kw_only=True):
    """A number for one reply and its references; a benchmark's value is the mean."""

    computed_over: ClassVar[MetricInput] = "reply"
    measure: Measure
    mean_over: Literal["questions", "answers"] = "questions"
    """`answers`: the unweighted mean over golds (classes) of the mean over the questions of each."""
    references: Literal["golds", "candidates"] = "golds"
    """`candidates`: all the answers published beside a question, and not the right ones alone."""

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
    """A number per reply that depends on all replies (CIDEr weighs words by all references); averaged likewise."""

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
    """A number for one question with options, from its predictions in order of presentation and its answer.

    None if undefined. Snellen's own choice metrics are always computed, by separate code (`measure` is None).
    """

    computed_over: ClassVar[MetricInput] = "choices"
    measure: Callable[[Sequence[Prediction], Answer], float | None] | None = None

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
        [row] = self.rows
        for asked in questions:
            if not asked.turn.options:
                continue
            question = asked.missing_unbiased_as_wrong
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
                raise HookError(f"the metric {row.name}, on {question.place}", error) from error
            if value is None:
                yield question.score(row.name, _UNDEFINED, len(presentations))
            else:
                checked = row.check(value, question.place)
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

    `declared` are fields of `MetricRow`. The default name is the function's; its docstring's first line describes it.
    """
    if measure is None:
        return lambda function: reply_metric(function, name=name, **declared)
    return ReplyMetric(
        what=_first_line(measure),
        rows=(metric_row(name or measure.__name__, **declared),),
        measure=measure,
    )


def corpus_metric(measure: Callable[..., Any], *, name: str = "", **declared: Any) -> CorpusMetric:
    """Declare `measure(replies, references) -> CorpusScore`, a mean of values that depend on all captions."""
    row = metric_row(name or measure.__name__, **declared)
    return CorpusMetric(what=_first_line(measure), rows=(row,), measure=measure)


def _first_line(documented: object) -> str:
    return (documented.__doc__ or "").strip().partition("\n")[0]


def find_metric(name: str) -> Metric:
    """The metric registered under a name. Raises UnknownNameError with a suggestion, HookError for what cannot be
    imported or is not a metric.

    A plain function declares nothing: no unit, no bounds, higher is better, no mean over benchmarks. The row of a
    metric with a single row takes the name that the metric is registered under.
    """
    return _as_metric(name, registry.find("metrics", name))


def _as_metric(name: str, registered: Any) -> Metric:
    if not isinstance(registered, Metric):
        if not callable(registered):
            raise HookError(
                f"the metric {name!r} is {registered!r}; it has to be a declared metric or a function"
            )
        return ReplyMetric(
            what=_first_line(registered), rows=(MetricRow(name=name),), measure=registered
        )
    if len(registered.rows) == 1 and registered.rows[0].name != name:
        return replace(registered, rows=(replace(registered.rows[0], name=name),))
    return registered


def class_mean(measure: Measure, *, name: str, title: str) -> ReplyMetric:
    """Declare the unweighted mean over golds of a share of right replies: a rare class counts fully."""
    row = share(name, title, interval="linearised")
    what = f"{title}: for each gold the mean of {measure.__name__} over its questions, and the mean of these"
    return ReplyMetric(what=what, rows=(row,), measure=measure, mean_over="answers", by_answer=True)


def declared(row: str) -> MetricRow:
    """What the row of that name declares; an unknown row declares nothing but its name."""
    metric, name = metric_of(row), _plain(row)
    own = (
        next((candidate for candidate in metric.rows if candidate.name == name), None)
        if metric
        else None
    )
    if own is None:
        return MetricRow(name=row)
    if name == row:
        return own
    if row.endswith(AS_READ):
        return as_read(own)
    return after_audit(own) if row.endswith(AFTER_AUDIT) else of_answered(own)


def _plain(row: str) -> str:
    return row.removesuffix(OF_ANSWERED).removesuffix(AFTER_AUDIT).removesuffix(AS_READ)


def after_audit(row: MetricRow) -> MetricRow:
    """The row beside another that is corrected by labels of some replies."""
    title, name = f"{row.display_name} after audit", row.name + AFTER_AUDIT
    return replace(
        row,
        name=name,
        title=title,
        scale="",
        unparsed="counted",
        secondary_to=row.name,
        label="after audit",
    )


def as_read(row: MetricRow) -> MetricRow:
    """Return the row next to a corrected number that has the number as it was read."""
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
    """The row beside another that leaves out what never came."""
    title = f"{row.display_name} of answered"
    return replace(
        row, name=row.name + OF_ANSWERED, title=title, secondary_to=row.name, label="of answered"
    )


def metric_of(row: str) -> Metric | None:
    """The metric that has a row of that name; None for an unknown row."""
    return _metric_of(_plain(row), registry.key_of_targets("metrics"))


@cache
def _metric_of(row: str, key: Hashable) -> Metric | None:
    """The first metric with that row. Importing all of them takes longer than most reports."""
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
    """The name of the metric that is called so or has a row of that name. Raises UnknownNameError."""
    names, rows = registry.names("metrics"), _known_rows()
    if name in names:
        return name
    if _plain(name) not in rows:
        raise registry.unknown(
            "metric", name, registry.nearest_names(name, sorted({*names, *rows})) or names
        )
    return rows[_plain(name)][1]


def row_called(name: str) -> str:
    """The row of that name, or the first one of the metric of that name. Raises UnknownNameError."""
    return name if metric_of(name) else find_metric(metric_with(name)).names[0]


def is_given_unasked(metric: Metric) -> bool:
    """Whether every run has it wherever it applies, so that nobody asks for it."""
    return metric.computed_over == "derived" or (
        isinstance(metric, ChoiceMetric) and metric.measure is None
    )


def check_row(kind: str, row: str) -> None:
    """Raise UnknownNameError, which calls it a `kind`, for a row that no metric has."""
    if metric_of(row) is None:
        raise registry.unknown(kind, row, _known_rows())


def _known_rows() -> Mapping[str, tuple[Metric, str]]:
    return _metrics_by_row(registry.key_of_targets("metrics"))


@cache
def _metrics_by_row(key: Hashable) -> dict[str, tuple[Metric, str]]:
    """The metrics with their names, by their rows. The key stands for what is registered, so that later registrations
    are seen."""
    metrics: dict[str, tuple[Metric, str]] = {}
    for name in reversed(registry.targets("metrics")):
        # What is broken has no rows: whoever uses it by its name is told, and a run that does not is none the worse.
        with suppress(HookError):
            metrics |= dict.fromkeys(find_metric(name).names, (find_metric(name), name))
    return metrics


# --- metrics of the whole: what each counts on a question, and what follows from the sums -----------------------------


Golds = Sequence[Sequence[str]]


class SummedMetric(Metric, frozen=True, kw_only=True):
    """A metric computed from summed counts, whatever they are counted on."""

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
    """A metric computed from counts on replies, summed."""

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
    """Count each reply by itself; a gold that `count` refuses (DataError) is why its reply has no counts."""

    def counted(reply: str, texts: Sequence[str]) -> Counts | str:
        try:
            return count(reply, texts)
        except DataError as error:
            return str(error)

    return lambda replies, golds: [
        counted(reply, texts) for reply, texts in zip(replies, golds, strict=True)
    ]


def summed_metric(name: str) -> SummedMetric:
    """The metric of that name, which must be computed from sums."""
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
    """Declare means of `marks(reply, golds)` over all questions, and beside them the row `NAME_unparsed_rate`.

    A gold that `marks` refuses (DataError) leaves its question without a value.
    """
    unparsed = share(
        f"{name}_unparsed_rate",
        f"{name} unparsed rate".replace("_", " "),
        interval="linearised",
        better="lower",
        scale="",
        unparsed="counted",
        sliced=False,
    )

    def count(reply: str, texts: Sequence[str]) -> Counts:
        """Summed: 1, read, and each row's mark."""
        earned = marks(reply, texts)
        return (1.0, 0.0, *[0.0] * len(rows)) if earned is None else (1.0, 1.0, *earned)

    def compute(sums: Counts) -> tuple[float | None, ...]:
        n, read, *earned = sums
        return (*(total / n for total in earned), 1 - read / n)

    per_question = tuple(row.name for row in rows)
    return CorpusCountMetric(
        what=what,
        rows=(*rows, unparsed),
        count=reply_by_reply(count),
        compute=compute,
        per_question=per_question,
    )


def pooled_row(name: str, title: str, **declared: Any) -> MetricRow:
    """A share that follows from sums over all questions."""
    return share(name, title, interval="linearised", **declared)
