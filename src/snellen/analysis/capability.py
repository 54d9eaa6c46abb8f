"""One number for a task, a dimension and a whole run: the mean of the headlines of its benchmarks.

Accuracies are never averaged with CIDErs: if the declared scales differ there is no mean, and the result says so.
Models are then compared over all dimensions by their average rank (`snellen.analysis.ranks`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.combined_estimates import mean_of_estimates
from snellen.analysis.coverage import describe_missing, member_names, missing_dimensions
from snellen.analysis.headline import (
    HEADLINE,
    OVERALL,
    aggregation_unit,
    bounded_mean,
    headline_rows,
    why_no_mean,
)
from snellen.analysis.question_means import mean_over_questions
from snellen.catalogue import BenchmarkSpec
from snellen.catalogue.suites import AsPublished
from snellen.metrics.declaration import Metric, MetricRow, declared_row, printed_unit
from snellen.records import Estimate, MeanOver, Method, Result
from snellen.scoring.scored_run import ScoredRun

CAPABILITY = "capability"
"""Name of the row with the number of a dimension."""
TASK_CAPABILITY = "task_capability"
"""The metric of one number for a task of a dimension."""
CAPABILITY_METRIC = Metric(
    description="one number for a dimension: the mean of its benchmarks' headline metrics, where these share a scale",
    rows=(MetricRow(name=CAPABILITY),),
)
TASK_CAPABILITY_METRIC = Metric(
    description="the same for one task of a dimension that has several",
    rows=(MetricRow(name=TASK_CAPABILITY),),
)
"""Their units and directions are those of the metrics they average; each result states them."""


def capability_rows(run: ScoredRun, rows: Sequence[Result]) -> Iterator[Result]:
    """Yield the result rows that summarise the benchmarks of a run in fewer numbers.

    There is a row for each ability dimension (such as spatial understanding), a row for each task of a dimension that
    has several tasks, and one row for the whole run. Each method of reading the model, generation or likelihood, has
    rows of its own. The rows are means of one headline number for each benchmark.

    The suites declare what has equal weight in such a mean: questions (MMBench 4.1), benchmarks, or dimensions
    (ReForm-Eval, section 4.2).

    Args:
        run: The scored run.
        rows: The result rows of its benchmarks.
    """
    specs = {scored.spec.name: scored.spec for scored in run.benchmarks}
    for method, headlines in headline_rows(run, rows).items():
        yield from _CapabilityMeans(run, specs, method, headlines).rows()


class _CapabilityMeans(Struct, frozen=True):
    """Computes the means over the headline results of one run by one method (generation or likelihood)."""

    run: ScoredRun
    specs: Mapping[str, BenchmarkSpec]
    method: Method
    headlines: Sequence[Result]

    def rows(self) -> Iterator[Result]:
        """Yield a mean for each dimension, preceded by those of its tasks, and at the end the mean over everything."""
        by_dimension: dict[str, list[Result]] = defaultdict(list)
        for row in self.headlines:
            if row.dimension:
                by_dimension[row.dimension].append(row)

        dimensions: list[Result] = []
        ways_of_averaging = [rules.dimension for rules in self._published_rules()]
        for dimension, members in by_dimension.items():
            mean = self._mean(members, CAPABILITY, dimension)
            mean = self._with_printed_mean(mean, members, ways_of_averaging)
            dimensions.append(mean)
            yield from self._task_means(members, dimension)
            yield mean
        yield self._overall_mean(dimensions)

    def _task_means(self, members: Sequence[Result], dimension: str) -> Iterator[Result]:
        """Yield a mean for each task of a dimension. Nothing if the dimension has only one task.

        Args:
            members: The headline rows of the benchmarks of the dimension.
            dimension: Its name.
        """
        rows_by_task: dict[str, list[Result]] = defaultdict(list)
        for row in members:
            task = self.specs[row.benchmark].task
            rows_by_task[task].append(row)
        if len(rows_by_task) < 2:
            return
        ways_of_averaging = [rules.dimension for rules in self._published_rules()]
        for task, rows in sorted(rows_by_task.items()):
            mean = self._mean(rows, TASK_CAPABILITY, dimension)
            mean = self._with_printed_mean(mean, rows, ways_of_averaging)
            yield replace(mean, slice=f"task={task}", partial="")

    def _overall_mean(self, dimensions: Sequence[Result]) -> Result:
        """Return the one number for the whole run: a mean with the weights that the suites declare.

        If the suites give ability dimensions equal weight, it is the mean of the dimensions, or their sum if the papers
        print that; otherwise it is the mean over benchmarks or questions. If the metrics have no common scale, it has
        no value, unless the papers average all the same.

        Args:
            dimensions: The mean of each ability dimension.
        """
        unit_of_weight = self._aggregation_unit(self.headlines)
        rules = self._published_rules()
        if why_no_mean(self.headlines):
            overall = replace(self._mean(self.headlines, HEADLINE, OVERALL), over=unit_of_weight)
            ways_of_averaging = [rule.overall for rule in rules]
            return self._with_printed_mean(overall, dimensions, ways_of_averaging)
        all_have_dimensions = all(row.dimension for row in self.headlines)
        if unit_of_weight != "dimensions" or not all_have_dimensions:
            return self._mean(self.headlines, HEADLINE, OVERALL)

        benchmark_names = [row.benchmark for row in self.headlines]
        means = [row for row in dimensions if row.estimate.value is not None]
        estimate = bounded_mean(
            [row.estimate for row in means], declared_row(self.headlines[0].metric)
        )
        overall = replace(
            means[0],
            metric=HEADLINE,
            estimate=estimate,
            dimension=OVERALL,
            over="dimensions",
            members=member_names(self.run, benchmark_names),
            partial=self._describe_gaps(
                benchmark_names, estimate, [row.dimension for row in means]
            ),
        )
        papers_print_sum = bool(rules) and all(rule.overall == "sum" for rule in rules)
        if not papers_print_sum:
            return overall
        total = overall.estimate.scaled(len(means))
        return replace(overall, estimate=total, detail=f"sum over {len(means)} dimensions")

    def _mean(self, members: Sequence[Result], metric: str, dimension: str) -> Result:
        """Return the mean of the headlines of some benchmarks.

        It is the mean over all their questions if the suites declare that, and else the mean over benchmarks. If the
        metrics have no common scale, the result has a reason in place of a value.

        Args:
            members: The headline of each benchmark.
            metric: The name of the mean, such as `capability`.
            dimension: The ability dimension of the benchmarks, or `*` for a mean over all.
        """
        reason = why_no_mean(members)
        averaged_over: MeanOver = "benchmarks"
        if reason:
            scale = MetricRow(name=metric)
            estimate = _estimate_without_value(members)
        else:
            scale = declared_row(members[0].metric)
            pooled = None
            if self._aggregation_unit(members) == "questions":
                pooled = mean_over_questions(self.run, members)
            if pooled is not None:
                averaged_over = "questions"
            estimate = pooled or bounded_mean([row.estimate for row in members], scale)

        names = [row.benchmark for row in members]
        if dimension == OVERALL:
            covered_dimensions = sorted({row.dimension for row in members} - {""})
            gaps = self._describe_gaps(names, estimate, covered_dimensions)
        else:
            gaps = self._describe_gaps(names, estimate, [], dimension)
        return Result(
            model=self.run.manifest.model,
            benchmark=OVERALL,
            protocol=self.method,
            method=self.method,
            metric=metric,
            estimate=estimate,
            dimension=dimension,
            unit=scale.unit,
            better=scale.better,
            reason=reason,
            detail=_metric_names(members) if reason else "",
            over=averaged_over,
            members=member_names(self.run, names),
            partial=gaps,
        )

    def _published_rules(self) -> list[AsPublished]:
        """Return the rules of the benchmarks that are scored as published; an empty list unless all are."""
        rules = [scored.published for scored in self.run.benchmarks if scored.published is not None]
        return rules if len(rules) == len(self.run.benchmarks) else []

    def _with_printed_mean(
        self, row: Result, members: Sequence[Result], ways_of_averaging: Sequence[str]
    ) -> Result:
        """Give a mean that has no value, because scales differ, the value that the paper prints all the same.

        Some papers average percentages and scores on other scales as they are printed in a table. A row is returned
        unchanged if it has a value, or if not all suites do so.

        Args:
            row: The mean.
            members: The results that it is the mean of.
            ways_of_averaging: How the paper of each suite computes such a mean; `mean of printed` is the case above.
        """
        all_average_printed = set(ways_of_averaging) == {"mean of printed"}
        if row.reason != "scales differ" or not all_average_printed:
            return row
        if any(member.reason for member in members):
            return row

        factors: dict[str, float] = {}
        for rules in self._published_rules():
            factors.update(rules.scale)
        printed_estimates: list[Estimate] = []
        units: set[str] = set()
        for member in members:
            # A metric between 0 and 1 enters as a percentage even if its paper prints it without a factor.
            usual_factor = 100.0 if declared_row(member.metric).high == 1 else 1.0
            factor = factors.get(member.unit, usual_factor)
            printed_estimates.append(member.estimate.scaled(factor))
            unit = member.unit if factor == 1 else printed_unit(member.unit, factor)
            units.add(unit)
        return replace(
            row,
            estimate=mean_of_estimates(printed_estimates),
            unit=printed_unit("score", 100),
            reason=None,
            detail=f"mean of figures in {', '.join(sorted(units))}",
        )

    def _aggregation_unit(self, members: Sequence[Result]) -> MeanOver:
        """Return what has equal weight in a mean over some benchmarks, as their suites declare it."""
        return aggregation_unit(self.specs[row.benchmark] for row in members)

    def _describe_gaps(
        self,
        members: Sequence[str],
        estimate: Estimate,
        dimensions: Sequence[str],
        dimension: str = "",
    ) -> str:
        """Describe what a mean does not cover, such as `2 of 3 dimensions; 7 of all 8 benchmarks`; empty if nothing.

        Args:
            members: The benchmarks that the mean covers.
            estimate: The mean.
            dimensions: The dimensions that a mean over all dimensions covers. If empty, they are not mentioned.
            dimension: The dimension of a mean over one dimension.
        """
        with_options = self.method == "likelihood"  # only options have likelihoods
        clauses: list[str] = []
        if dimensions:
            clauses.append(missing_dimensions(self.run, dimensions, with_options=with_options))
        clauses.append(
            describe_missing(
                self.run, members, estimate, with_options=with_options, dimension=dimension
            )
        )
        return "; ".join(clause for clause in clauses if clause)


def _metric_names(rows: Sequence[Result]) -> str:
    """Return the names of the metrics of some results, each once, separated by commas."""
    names = dict.fromkeys(declared_row(row.metric).display_name for row in rows)
    return ", ".join(names)


def _estimate_without_value(rows: Sequence[Result]) -> Estimate:
    """Return an estimate without a value or an interval, which only adds up the question counts of several results."""
    n = sum(row.estimate.n for row in rows)
    unscored = sum(row.estimate.unscored for row in rows)
    errors = sum(row.estimate.errors for row in rows)
    return Estimate(
        value=None, stderr=None, low=None, high=None, n=n, unscored=unscored, errors=errors
    )
