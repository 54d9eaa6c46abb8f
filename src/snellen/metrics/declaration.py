"""What a metric says of itself: its rows, and of each its unit, bounds, direction, interval and mean.

Tables, axes, intervals and means over benchmarks read the declaration; nobody keeps a list of names. A metric is
registered in the group `metrics` (`snellen.registry.register`, or the entry point group `snellen.metrics`) and is
one of the kinds below, or a plain function of a reply and its references, which then declares nothing:

    @reply_metric(unit="seconds", better="lower")
    def seconds_off(reply, references):
        return abs(float(reply) - float(references[0]))

    register("metrics", "seconds_off", seconds_off)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Literal, overload

from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.errors import DataError
from snellen.records import Answer, Better, Prediction

IntervalKind = Literal["proportion", "mean", "linearised", "none"]
"""`proportion`: values within 0 and 1; `mean`: any numbers; `linearised`: no mean over questions,
but a smooth function of sums over them; `none`: the number has no interval."""
UnparsedRule = Literal["wrong", "right", "left out", "own kind", "kinds by text", "as text", "counted"]
"""What a reply that names no option counts as; `as text`: open replies are scored as they came."""
Over = Literal["reply", "corpus", "counts", "ranks", "judge", "choices", "derived"]
Measure = Callable[[str, Sequence[str]], float]
"""`measure(reply, references)`: one reply against the accepted texts."""
SHARE = "share"
_AS_PRINTED = " x "


class MetricRow(Struct, frozen=True, kw_only=True):
    """One number of a metric: a row of the results, a column of a table, an axis of a chart."""

    name: str
    title: str = ""
    """Its name in words; the name with blanks when empty."""
    unit: str = ""
    """`share` is written in percent; any other unit is named beside the title."""
    low: float | None = None
    high: float | None = None
    """The least and the greatest possible value; None where there is none."""
    greatest: Callable[[int, int], float] | None = None
    """The greatest value of a question, from its numbers of presentations and of options, where it depends on them."""
    better: Better = "higher"
    interval: IntervalKind = "mean"
    scale: str = ""
    """Rows of one scale may be averaged over benchmarks; empty: a mean over benchmarks makes no sense."""
    unparsed: UnparsedRule = "as text"
    secondary_to: str = ""
    """The headline row that it stands beside, under the short name `label`."""
    label: str = ""
    absent: Mapping[str, str] = {}
    """Why a run has no such row: by method, or under an empty key."""

    @property
    def words(self) -> str:
        return self.title or self.name.replace("_", " ")

    @property
    def facts(self) -> str:
        """What a reader must know to read the numbers: `nats, lower is better`; nothing of a share to be high."""
        facts = [self.unit if self.unit != SHARE else "", "lower is better" if self.better == "lower" else ""]
        return ", ".join(fact for fact in facts if fact)

    @property
    def heading(self) -> str:
        """The title with its facts: `instability (nats, lower is better)`."""
        return f"{self.words} ({self.facts})" if self.facts else self.words

    def check(self, value: float) -> float:
        """The value. Raises DataError for one out of the declared bounds."""
        if (self.low is not None and value < self.low - 1e-9) or (self.high is not None and value > self.high + 1e-9):
            raise DataError(
                f"metric {self.name}: {value:g} is out of its bounds {_bound(self.low)} to {_bound(self.high)}; "
                "mend the metric, or what it declares"
            )
        return value

    def bounded(self, value: float | None) -> float | None:
        """The value, or the bound that it lies beyond."""
        if value is None:
            return None
        value = value if self.low is None else max(value, self.low)
        return value if self.high is None else min(value, self.high)


def printed_unit(unit: str, factor: float) -> str:
    """The unit of values that are multiplied as a paper's tables print them: `share x 100`."""
    return f"{unit}{_AS_PRINTED}{factor:g}"


def print_factor(unit: str) -> float:
    """What values of this unit have been multiplied by; 1 unless they are as printed."""
    return float(unit.rpartition(_AS_PRINTED)[2]) if _AS_PRINTED in unit else 1.0


def _bound(bound: float | None) -> str:
    return "none" if bound is None else f"{bound:g}"


def metric_row(name: str, *, unit: str = "", **declared: Any) -> MetricRow:
    """A row by its declaration. A `share` lies between 0 and 1, is written in percent, and averages with others."""
    if unit == SHARE:
        declared = {"low": 0.0, "high": 1.0, "interval": "proportion", "scale": SHARE} | declared
    return MetricRow(name=name, unit=unit, **declared)


def share(name: str, title: str = "", **declared: Any) -> MetricRow:
    """A row of a number from 0 to 1 that is written in percent."""
    return metric_row(name, unit=SHARE, title=title, **declared)


class Metric(Struct, frozen=True, kw_only=True):
    """A metric of some kind: what it is in a line, and its rows, the one that stands for it first."""

    over: ClassVar[Over] = "derived"
    """What it is computed over. `derived`: it follows from other numbers, unasked."""
    what: str
    rows: tuple[MetricRow, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the rows."""
        return tuple(row.name for row in self.rows)


class ReplyMetric(Metric, frozen=True, kw_only=True):
    """One reply and its references give a number; a benchmark's is the mean."""

    over: ClassVar[Over] = "reply"
    measure: Measure

    def __call__(self, reply: str, references: Sequence[str]) -> float:
        return self.measure(reply, references)


class CorpusMetric(Metric, frozen=True, kw_only=True):
    """All replies together give a value for each (CIDEr weighs words by all references); a benchmark's is the mean."""

    over: ClassVar[Over] = "corpus"
    measure: Callable[..., Any]
    """(replies, references) -> a `snellen.metrics.captions.CorpusScore`."""


class ChoiceMetric(Metric, frozen=True, kw_only=True):
    """The predictions of one question with options, in order of presentation, and its answer give a number.

    None where there is none. Those of Snellen are computed unasked, by rules of their own (`measure` is None).
    """

    over: ClassVar[Over] = "choices"
    measure: Callable[[Sequence[Prediction], Answer], float | None] | None = None


@overload
def reply_metric(measure: Measure, *, name: str = "", **declared: Any) -> ReplyMetric: ...


@overload
def reply_metric(measure: None = None, *, name: str = "", **declared: Any) -> Callable[[Measure], ReplyMetric]: ...


def reply_metric(
    measure: Measure | None = None, *, name: str = "", **declared: Any
) -> ReplyMetric | Callable[[Measure], ReplyMetric]:
    """Declare `measure(reply, references) -> float`, around it or above it (`@reply_metric(unit="s")`).

    `declared` are fields of `MetricRow`; `name` is the function's own, its docstring's first line says what it is.
    """
    if measure is None:
        return lambda function: reply_metric(function, name=name, **declared)
    return ReplyMetric(
        what=_first_line(measure), rows=(metric_row(name or measure.__name__, **declared),), measure=measure
    )


def corpus_metric(measure: Callable[..., Any], *, name: str = "", **declared: Any) -> CorpusMetric:
    """Declare `measure(replies, references) -> CorpusScore`, a mean over captions that needs all of them."""
    row = metric_row(name or measure.__name__, **declared)
    return CorpusMetric(what=_first_line(measure), rows=(row,), measure=measure)


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().partition("\n")[0]


def find_metric(name: str) -> Metric:
    """The metric of a name. Raises UnknownNameError with a suggestion.

    A plain function declares nothing: no unit, no bounds, higher is better, no mean over benchmarks. A metric of a
    single row gives it the name it is registered by.
    """
    return _as_metric(name, registry.find("metrics", name))


def _as_metric(name: str, thing: Any) -> Metric:
    if not isinstance(thing, Metric):
        return ReplyMetric(what=_first_line(thing), rows=(MetricRow(name=name),), measure=thing)
    if len(thing.rows) == 1 and thing.rows[0].name != name:
        return replace(thing, rows=(replace(thing.rows[0], name=name),))
    return thing


def declared(row: str) -> MetricRow:
    """What the row of that name declares; a row that no metric has declares nothing but its name."""
    targets = registry.targets("metrics").items()
    key = tuple((name, target if isinstance(target, str) else id(target)) for name, target in targets)
    return _rows(key).get(row) or MetricRow(name=row)


@cache
def _rows(targets: tuple[tuple[str, str | int], ...]) -> dict[str, MetricRow]:
    """The rows of all metrics. What is registered is part of the key, so that what comes later is seen."""
    return {row.name: row for name, _ in reversed(targets) for row in find_metric(name).rows}
