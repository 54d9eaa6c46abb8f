"""One number for a dimension, of its benchmarks' headline metrics on one scale (ReForm-Eval, Table 1).

Accuracies are never averaged with CIDErs: where the declared scales differ there is no mean, and the result says so.
Models are then compared over all dimensions by their average rank (`snellen.analysis.ranks`).

What such a number covers, what counts alike in it, and what of all that is named is not in it, stands beside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.question_means import mean_over_questions
from snellen.analysis.statistics import mean_of_estimates, scaled_estimate
from snellen.catalogue import BenchmarkSpec, aggregation_of, entries, suite_members
from snellen.catalogue.suites import AsPublished
from snellen.metrics.declaration import Metric, MetricRow, declared, printed_unit
from snellen.protocols.base import labelled_declaration
from snellen.reasons import Reason
from snellen.records import Estimate, MeanOver, Method, Result
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun
from snellen.scoring.text_scoring import DEFAULT_TEXT_METRICS, metric_row_names

MOST_NAMED = 8
"""More names than this are counted."""


def counted_alike(specs: Iterable[BenchmarkSpec]) -> MeanOver:
    """What counts alike in a number of these benchmarks; the benchmarks, where their suites do not agree."""
    rules = {aggregation_of(spec) for spec in specs}
    over: set[MeanOver] = {"questions" if rule.counts_questions else rule.over for rule in rules}
    return over.pop() if len(over) == 1 else "benchmarks"


def member_names(run: ScoredRun, names: Collection[str]) -> str:
    """Benchmarks by name, each with the part of its questions that was asked: the same words, the same questions."""
    parts = dict(_asked_parts(run))
    own = {parts.get(name, "") for name in names}
    if len(names) > 1 and len(own) == 1 and (part := own.pop()):
        return f"{', '.join(sorted(names))} (each: {part})"
    return ", ".join(f"{name} ({parts[name]})" if name in parts else name for name in sorted(names))


def missing_words(
    run: ScoredRun,
    names: Collection[str],
    estimate: Estimate,
    *,
    with_options: bool,
    dimension: str = "",
) -> str:
    """What a number of these benchmarks lacks of all that their suites name, in one dimension or, without one, in all.

    `with_options`: benchmarks of open questions are not missed. Those of the user's own are all there. Empty when every
    question of every benchmark has its value.
    """
    specs = [spec for spec in _named(run, with_options) if dimension in ("", spec.dimension)]
    missing = [spec for spec in specs if spec.name not in names]
    words = []
    if missing and dimension:
        words.append(without_words(spec.name for spec in missing))
    elif missing:
        every = len(names) + len(missing)
        which = f"{every} benchmarks with options" if with_options else f"all {every} benchmarks"
        words.append(f"{len(names)} of {which}")
    if not dimension:
        asked = [
            scored.spec
            for scored in run.benchmarks
            if len(scored.predictions) and scored.spec.name not in names
        ]
        words.append(
            without_words(s.name for s in asked if not with_options or s.formulation != "text")
        )
    if partly := [name.rpartition("/")[2] for name, _ in _asked_parts(run) if name in names]:
        words.append(f"only part of the questions of {few_names(partly)} was asked")
    if estimate.n < estimate.questions:
        words.append(f"{estimate.n:,} of {estimate.questions:,} questions have a value")
    return "; ".join(filter(None, words))


def without_words(names: Iterable[str]) -> str:
    """`without sroie, funsd`: benchmarks that a number of several does not hold; empty for none."""
    listed = few_names(name.rpartition("/")[2] for name in names)
    return f"without {listed}" if listed else ""


def missing_dimensions(run: ScoredRun, present: Collection[str], *, with_options: bool) -> str:
    """`3 of 8 dimensions`: how many of those that the suites of a run name are there; empty when all are."""
    dimensions = dict.fromkeys(spec.dimension for spec in _named(run, with_options))
    return (
        f"{len(present)} of {len(dimensions)} dimensions" if set(dimensions) - set(present) else ""
    )


def _named(run: ScoredRun, with_options: bool) -> list[BenchmarkSpec]:
    """The benchmarks with a dimension of all suites that take part in a run, and the run's own."""
    own_specs = {
        scored.spec.name: scored.spec for scored in run.benchmarks if scored.spec.dimension
    }
    taking_part = {spec.suite for spec in own_specs.values()}
    catalogue, members = entries(), suite_members()
    listed = {
        name: catalogue[name]
        for suite in taking_part
        for name in members.get(suite, ())
        if catalogue[name].dimension
    }
    return [
        spec
        for spec in {**listed, **own_specs}.values()
        if not with_options or spec.formulation != "text"
    ]


def _asked_parts(run: ScoredRun) -> Iterator[tuple[str, str]]:
    """Benchmarks of which only a part was asked, and which part."""
    counts = {scored.spec.name: len(scored.samples) for scored in run.benchmarks}
    for use in run.manifest.benchmarks:
        first = (
            f"first {use.limit}"
            if use.limit is not None and counts.get(use.name, 0) >= use.limit
            else ""
        )
        drawn = "" if use.part is None or use.part.is_whole else str(use.part)
        if part := ", ".join(
            filter(None, [f"where {use.where}" if use.where else "", first, drawn])
        ):
            yield use.name, part


def few_names(names: Iterable[str]) -> str:
    """In alphabetical order; of many, the first ones and how many more there are."""
    ordered = sorted(names)
    more = len(ordered) - MOST_NAMED
    return (
        ", ".join(ordered) if more <= 1 else f"{', '.join(ordered[:MOST_NAMED])} and {more} others"
    )


CAPABILITY = "capability"
TASK_CAPABILITY = "task_capability"
CAPABILITY_METRIC = Metric(
    what="one number for a dimension: the mean of its benchmarks' headline metrics, where these share a scale",
    rows=(MetricRow(name=CAPABILITY),),
)
TASK_CAPABILITY_METRIC = Metric(
    what="the same for one task of a dimension that has several",
    rows=(MetricRow(name=TASK_CAPABILITY),),
)
"""Their units and directions are those of the metrics they average; each result states them."""
ALL = "*"
"""The benchmark or dimension of a row that is a mean over all of them."""


def headline_metric(spec: BenchmarkSpec) -> str:
    """The headline metric of a benchmark: accuracy where there are options, else its first text metric."""
    return "accuracy" if spec.formulation != "text" else first_text_metric(spec)


def headlines_of(scored: ScoredBenchmark) -> list[str]:
    """The row that the entry names, then the one above; what the suite's paper prints, if scored as published."""
    spec, rules = scored.spec, scored.published
    published = rules.headline if rules and spec.formulation == "choice" else ""
    standard_headline = rules.instead.get(spec.headline, spec.headline) if rules else spec.headline
    return [name for name in (standard_headline, published or headline_metric(spec)) if name]


def first_text_metric(spec: BenchmarkSpec) -> str:
    """The first metric of a benchmark's open questions."""
    return metric_row_names((spec.metrics or DEFAULT_TEXT_METRICS)[0])[0]


def protocol_preference(protocol: str) -> tuple[bool, int, bool, str]:
    """Sort key of protocols: the one whose number is the model's headline comes first.

    That is one that shows the pictures, asks no other model, and whose accuracy rests on the most presentations of a
    question; of equals, the one that asks no circular passes.
    """
    declared = labelled_declaration(protocol)
    return (
        not declared.stands_for_model or bool(declared.roles),
        -declared.n_unbiased,
        declared.circular,
        protocol,
    )


def capability_rows(run: ScoredRun, rows: Sequence[Result]) -> Iterator[Result]:
    """One number for each task where a dimension has several, for each dimension, and over all, by method.

    The suites declare what counts alike: questions (MMBench 4.1), benchmarks, or for the number over all dimensions
    (ReForm-Eval, section 4.2). Each benchmark enters with its preferred protocol, so these rows name the method in
    place of a protocol.
    """
    specs = {scored.spec.name: scored.spec for scored in run.benchmarks if scored.spec.dimension}
    for method, of_benchmarks in headline_rows(run, rows).items():
        yield from _Capabilities(run, specs, method, of_benchmarks).rows()


def headline_rows(run: ScoredRun, rows: Sequence[Result]) -> dict[Method, list[Result]]:
    """The rows of single benchmarks that stand for a model, one a benchmark with a dimension, by method."""
    headlines = {
        scored.spec.name: headlines_of(scored) for scored in run.benchmarks if scored.spec.dimension
    }
    by_method: dict[Method, dict[str, Result]] = defaultdict(dict)
    standing = [
        row for row in rows if row.metric in headlines.get(row.benchmark, ()) and not row.slice
    ]
    for row in sorted(
        standing,
        key=lambda row: (
            headlines[row.benchmark].index(row.metric),
            protocol_preference(row.protocol),
        ),
    ):
        if row.estimate.value is not None:
            by_method[row.method].setdefault(row.benchmark, row)
    return {method: list(by_benchmark.values()) for method, by_benchmark in by_method.items()}


class _Capabilities(Struct, frozen=True):
    """The means over the headline numbers of one run by one method."""

    run: ScoredRun
    specs: Mapping[str, BenchmarkSpec]
    method: Method
    headlines: Sequence[Result]

    def rows(self) -> Iterator[Result]:
        of_dimension: dict[str, list[Result]] = defaultdict(list)
        for row in self.headlines:
            of_dimension[row.dimension].append(row)
        dimensions = [self._mean(members, dimension) for dimension, members in of_dimension.items()]
        for dimension in dimensions:
            yield from self._tasks(of_dimension[dimension.dimension], dimension.dimension)
            yield dimension
        yield self._overall(dimensions)

    def _tasks(self, members: Sequence[Result], dimension: str) -> Iterator[Result]:
        of_task: dict[str, list[Result]] = defaultdict(list)
        for row in members:
            of_task[self.specs[row.benchmark].task].append(row)
        if len(of_task) > 1:
            for task, rows in sorted(of_task.items()):
                yield replace(
                    self._mean(rows, dimension),
                    metric=TASK_CAPABILITY,
                    slice=f"task={task}",
                    partial="",
                )

    def _overall(self, dimensions: Sequence[Result]) -> Result:
        members = [row.benchmark for row in self.headlines]
        counted = self._counted(self.headlines)
        if _why_no_mean(self.headlines):
            overall = replace(self._mean(self.headlines, ALL), over=counted)
            return self._as_printed(overall, dimensions, [rules.overall for rules in self._rules()])
        if counted != "dimensions":
            return self._mean(self.headlines, ALL)
        means = [row for row in dimensions if row.estimate.value is not None]
        estimate = bounded_mean([row.estimate for row in means], declared(self.headlines[0].metric))
        overall = replace(
            means[0],
            estimate=estimate,
            dimension=ALL,
            over="dimensions",
            members=member_names(self.run, members),
            partial=self._partial(members, estimate, [row.dimension for row in means]),
        )
        rules = self._rules()
        if not rules or any(rule.overall != "sum" for rule in rules):
            return overall
        total = scaled_estimate(overall.estimate, len(means))
        return replace(overall, estimate=total, detail=f"sum over {len(means)} dimensions")

    def _mean(self, members: Sequence[Result], dimension: str) -> Result:
        """The number of some benchmarks, whose questions count alike or else the benchmarks."""
        counted, reason = self._counted(members), _why_no_mean(members)
        estimate = (
            None if reason or counted != "questions" else mean_over_questions(self.run, members)
        )
        over: MeanOver = "questions" if estimate else "benchmarks"
        metric = MetricRow(name=CAPABILITY) if reason else declared(members[0].metric)
        value = (
            _no_mean(members)
            if reason
            else estimate or bounded_mean([row.estimate for row in members], metric)
        )
        names = [row.benchmark for row in members]
        mean = Result(
            self.run.manifest.model,
            ALL,
            self.method,
            self.method,
            CAPABILITY,
            value,
            dimension,
            unit=metric.unit,
            better=metric.better,
            reason=reason,
            detail=_metric_names(members) if reason else "",
            over=over,
            members=member_names(self.run, names),
            partial=self._partial(
                names,
                value,
                [] if dimension != ALL else sorted({r.dimension for r in members}),
                "" if dimension == ALL else dimension,
            ),
        )
        return (
            mean
            if dimension == ALL
            else self._as_printed(mean, members, [r.dimension for r in self._rules()])
        )

    def _rules(self) -> list[AsPublished]:
        """By what the benchmarks are scored as published; none unless all are."""
        rules = [scored.published for scored in self.run.benchmarks if scored.published is not None]
        return rules if len(rules) == len(self.run.benchmarks) else []

    def _as_printed(self, row: Result, parts: Sequence[Result], means: Sequence[str]) -> Result:
        """A row without a value, since scales differ: the mean of its parts as printed, where all suites print that."""
        if (
            row.reason != "scales differ"
            or set(means) != {"mean of printed"}
            or any(p.reason for p in parts)
        ):
            return row
        factors = {unit: factor for rules in self._rules() for unit, factor in rules.scale.items()}
        # What lies between 0 and 1 enters in hundredths even where it is printed as it is.
        scales = [
            factors.get(part.unit, 100.0 if declared(part.metric).high == 1 else 1.0)
            for part in parts
        ]
        units = {
            p.unit if scale == 1 else printed_unit(p.unit, scale)
            for p, scale in zip(parts, scales, strict=True)
        }
        figures = [
            scaled_estimate(part.estimate, scale) for part, scale in zip(parts, scales, strict=True)
        ]
        estimate = mean_of_estimates(figures)
        detail = f"mean of figures in {', '.join(sorted(units))}"
        return replace(
            row, estimate=estimate, unit=printed_unit("score", 100), reason=None, detail=detail
        )

    def _counted(self, members: Sequence[Result]) -> MeanOver:
        return counted_alike(self.specs[row.benchmark] for row in members)

    def _partial(
        self,
        members: Sequence[str],
        estimate: Estimate,
        dimensions: Sequence[str],
        dimension: str = "",
    ) -> str:
        with_options = self.method == "likelihood"
        lacking = (
            missing_dimensions(self.run, dimensions, with_options=with_options)
            if dimensions
            else ""
        )
        words = missing_words(
            self.run, members, estimate, with_options=with_options, dimension=dimension
        )
        return "; ".join(filter(None, [lacking, words]))


def _why_no_mean(rows: Sequence[Result]) -> Reason | None:
    """Why these numbers have no mean, or None if they have one. A single number is its own mean."""
    if len(rows) == 1:
        return None
    metrics = [declared(row.metric) for row in rows]
    if len({(metric.scale, metric.better) for metric in metrics}) > 1:
        return "scales differ"
    return None if metrics[0].scale else "no scale"


def _metric_names(rows: Sequence[Result]) -> str:
    return ", ".join(dict.fromkeys(declared(row.metric).display_name for row in rows))


def _no_mean(rows: Sequence[Result]) -> Estimate:
    n, unscored, errors = (
        sum(getattr(row.estimate, count) for row in rows) for count in ("n", "unscored", "errors")
    )
    return Estimate(None, None, None, None, n, unscored, errors)


def bounded_mean(estimates: Sequence[Estimate], metric: MetricRow) -> Estimate:
    """The unweighted mean of estimates on one scale, its interval cut to the metric's bounds."""
    mean = mean_of_estimates(estimates)
    return replace(mean, low=metric.bounded(mean.low), high=metric.bounded(mean.high))
