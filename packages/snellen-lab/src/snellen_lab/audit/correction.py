"""Numbers of a run, corrected by the labels of its audit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from snellen.plugin_api import (
    AFTER_AUDIT,
    AS_READ,
    OVERALL,
    BenchmarkSpec,
    Estimate,
    Method,
    NumberCorrection,
    Result,
    ScoredRun,
    declared_row,
    headline_metrics,
    headline_rows,
)
from snellen_lab.audit.estimate import AuditedPart, Tree, corrected_number
from snellen_lab.audit.population import (
    AuditedProtocol,
    Meanings,
    audited_protocols,
    why_not_audited,
)
from snellen_lab.audit.run_audit import Audit, audit_of
from snellen_lab.row_names import CAPABILITY, HEADLINE, TASK_CAPABILITY


class Uncorrected(Struct, frozen=True):
    """A headline number that labels cannot correct, with the reason."""

    row: Result
    why: str


def corrected_rows(run: ScoredRun, rows: Sequence[Result], audit: Audit | None) -> Iterator[Result]:
    """Yield a corrected copy of each result of a run that the labels of its audit can correct.

    Nothing is yielded if there is no audit.
    """
    if audit is None:
        return
    corrections = _RunCorrections(run, rows, audit.meanings)
    for row in rows:
        corrected = corrections.corrected_row(row)
        if corrected is not None:
            yield corrected


def with_corrections(run: ScoredRun, rows: Sequence[Result]) -> list[Result]:
    """Return the results of a run, with corrected numbers where the run has been audited.

    In this way every sentence, table, export and comparison shows the corrected number. The
    uncorrected number follows in a row with another metric: for example, `accuracy_as_read` after
    `accuracy`.
    """
    estimates = {}
    for row in corrected_rows(run, rows, audit_of(run)):
        estimates[_number_key(row, row.metric.removesuffix(AFTER_AUDIT))] = row.estimate
    all_rows: list[Result] = []
    for row in rows:
        estimate = estimates.get(_number_key(row, row.metric))
        if estimate is None:
            all_rows.append(row)
        else:
            all_rows.append(replace(row, estimate=estimate))
            all_rows.append(replace(row, metric=row.metric + AS_READ))
    return all_rows


def audited_numbers(run: ScoredRun) -> Callable[[str, str, str], Estimate | None]:
    """Return a function that looks up the corrected number of a benchmark in a run.

    It takes benchmark, protocol and metric, and returns None if labels do not correct this number.
    """
    return BenchmarkCorrections(run, audit_of(run)).estimate


CORRECTION = NumberCorrection(with_corrections, audited_numbers)


def _number_key(row: Result, metric: str) -> tuple[str, ...]:
    """Return a key that identifies a number of a run: that of a row, but with this metric."""
    return row.benchmark, row.dimension, row.slice, row.protocol, row.method, metric


def uncorrected_headlines(
    run: ScoredRun, rows: Sequence[Result], audit: Audit
) -> Iterator[Uncorrected]:
    """Yield each headline number of a run that labels cannot correct, with the reason."""
    corrections = _RunCorrections(run, rows, audit.meanings)
    scored_by_name = {scored.spec.name: scored for scored in run.benchmarks}
    for row in rows:
        scored = scored_by_name.get(row.benchmark)
        if row.slice or row.estimate.value is None or scored is None:
            continue
        if row.metric not in headline_metrics(scored):
            continue
        if row.method != "generation":
            yield Uncorrected(row, "log-likelihoods are not replies and cannot be misread")
        elif corrections.corrected_row(row) is None:
            why = why_not_audited(scored, row.protocol, row.metric)
            yield Uncorrected(row, why or "too few labelled replies to correct it")


class BenchmarkCorrections:
    """Looks up the corrected numbers of single benchmarks of a run. Without an audit it finds none."""

    def __init__(self, run: ScoredRun, audit: Audit | None) -> None:
        self._audit = audit
        self._protocols: Mapping[tuple[str, str], AuditedProtocol] = {}
        if audit is not None:
            self._protocols = _protocols_by_name(run)

    def estimate(self, benchmark: str, protocol: str, metric: str) -> Estimate | None:
        """Return the corrected number of a benchmark, or None if labels do not correct it."""
        audited = self._protocols.get((benchmark, protocol))
        if self._audit is None or audited is None:
            return None
        audited_part = audited.part(metric, self._audit.meanings)
        if audited_part is None:
            return None
        estimate = corrected_number([[[audited_part]]], declared_row(metric).bounds)
        return None if estimate.value is None else estimate


def _protocols_by_name(run: ScoredRun) -> dict[tuple[str, str], AuditedProtocol]:
    """Return the replies of a run that labels can correct, by benchmark and protocol."""
    protocols = {}
    for audited in audited_protocols(run):
        protocols[audited.benchmark, audited.protocol] = audited
    return protocols


class _RunCorrections:
    """Computes the corrected results of a run from the labels of its replies."""

    def __init__(self, run: ScoredRun, rows: Sequence[Result], meanings: Meanings) -> None:
        self._run = run
        self._rows = rows
        self._meanings = meanings
        self._protocols = _protocols_by_name(run)
        self._parts: dict[tuple[str, str, str], AuditedPart | None] = {}

    def corrected_row(self, row: Result) -> Result | None:
        """Return a result with its corrected number; None if labels of replies cannot correct it.

        The metric of the new row has the ending `AFTER_AUDIT`.
        """
        if row.method != "generation" or row.estimate.value is None:
            return None
        if row.convention != "standard" or row.detail:
            return None
        if row.slice and row.metric != TASK_CAPABILITY:
            return None
        if declared_row(row.metric).secondary_to:
            return None

        members = self._averaged_rows(row)
        if not members:
            return None
        parts = []
        for member in members:
            part = self._part(member)
            if part is None:
                return None
            parts.append(part)
        bounds = declared_row(members[0].metric).bounds
        estimate = corrected_number(self._tree(row, members, parts), bounds)
        if estimate.value is None:
            return None
        corrected = replace(
            estimate,
            n=row.estimate.n,
            unscored=row.estimate.unscored,
            errors=row.estimate.errors,
            absent=row.estimate.absent,
            not_asked=row.estimate.not_asked,
        )
        return replace(row, metric=row.metric + AFTER_AUDIT, estimate=corrected)

    def _part(self, row: Result) -> AuditedPart | None:
        """Return the replies behind the number of a single benchmark, with their labels.

        None is returned if labels cannot correct the number. Results are kept, because several
        means of a run may contain the same number.
        """
        key = (row.benchmark, row.protocol, row.metric)
        if key not in self._parts:
            part = None
            audited = self._protocols.get((row.benchmark, row.protocol))
            if audited is not None:
                part = audited.part(row.metric, self._meanings)
            self._parts[key] = part
        return self._parts[key]

    def _averaged_rows(self, row: Result) -> list[Result]:
        """Return the results of single benchmarks that a result averages, sorted by benchmark.

        The result of a single benchmark is returned alone.
        """
        if row.benchmark != OVERALL:
            return [row]
        if row.metric in (HEADLINE, CAPABILITY, TASK_CAPABILITY):
            candidates = self._headline_members(row)
        else:
            candidates = self._metric_members(row)
        members = []
        for candidate in candidates:
            if row.dimension in (OVERALL, self._specs[candidate.benchmark].dimension):
                members.append(candidate)
        return sorted(members, key=lambda member: member.benchmark)

    def _headline_members(self, row: Result) -> list[Result]:
        """Return the headline results of benchmarks.

        These are those of one task if `row` is about a task, else those of all benchmarks.
        """
        headlines = self._headlines.get(row.method, [])
        if not row.slice:
            return headlines
        members = []
        for headline in headlines:
            spec = self._specs.get(headline.benchmark)
            if spec is not None and row.slice == f"task={spec.task}":
                members.append(headline)
        return members

    def _metric_members(self, row: Result) -> list[Result]:
        """Return the results of single benchmarks with the same protocol and metric as `row`."""
        members = []
        for candidate in self._rows:
            if candidate.benchmark not in self._specs or candidate.slice:
                continue
            is_same = candidate.protocol == row.protocol and candidate.metric == row.metric
            if is_same and candidate.estimate.value is not None:
                members.append(candidate)
        return members

    @cached_property
    def _specs(self) -> Mapping[str, BenchmarkSpec]:
        return {scored.spec.name: scored.spec for scored in self._run.benchmarks}

    @cached_property
    def _headlines(self) -> Mapping[Method, list[Result]]:
        return headline_rows(self._run, self._rows)

    def _tree(self, row: Result, members: Sequence[Result], parts: Sequence[AuditedPart]) -> Tree:
        """Arrange the parts of a mean by what counts equally: questions, benchmarks or dimensions.

        For example, a mean over two dimensions, which have one and two benchmarks, gives
        [[[a]], [[b], [c]]].
        """
        if row.over == "questions":
            return [[parts]]
        if row.over != "dimensions":
            return [[[part] for part in parts]]
        by_dimension: dict[str, list[list[AuditedPart]]] = defaultdict(list)
        for member, part in zip(members, parts, strict=True):
            by_dimension[member.dimension].append([part])
        return list(by_dimension.values())
