"""From candidates to a benchmark of questions that passed: checked, repaired, checked anew, the rest set apart."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.building.benchmark import MANIFEST, Benchmark, ItemCheck, Verification
from snellen.building.recipe import Decisions
from snellen.building.staging import staging_folder
from snellen.common.paths import benchmark_folder, home
from snellen.errors import DataError
from snellen.records import Estimate, ItemDecision
from snellen.reformulation.sampling import Sampling
from snellen.runs.run_folder import write_atomically
from snellen.scoring.resampling import draw_subset
from snellen.verification.declaration import Check, CheckMaterial, CheckOutcome, ItemFault, Solvers

Build = Callable[[Decisions, Path], Benchmark]
"""Builds the benchmark with what was decided so far, in a folder."""
NO_SOLVERS = Solvers()
ROUNDS = 3
"""How often a question whose distractor is at fault gets another one."""


def item_checks(solvers: Solvers, names: Iterable[str] = ()) -> dict[str, Check]:
    """The checks that can be carried out with these models, by name, those that ask none first."""
    checks: dict[str, Check] = {name: registry.find("checks", name) for name in names or registry.targets("checks")}
    able = {"": True, "jury": bool(solvers.jury), "blind": bool(solvers.blind)}
    return dict(sorted(((n, c) for n, c in checks.items() if able[c.needs]), key=lambda pair: bool(pair[1].needs)))


def check_items(
    benchmark: Benchmark, solvers: Solvers = NO_SOLVERS, names: Iterable[str] = ()
) -> dict[str, CheckOutcome]:
    """What each check finds in the questions of a built benchmark, by its name."""
    material = CheckMaterial(benchmark, solvers)
    return {name: check.run(material) for name, check in item_checks(solvers, names).items()}


def verify(
    build: Build, name: str, solvers: Solvers = NO_SOLVERS, *, to: Path | None = None, names: Iterable[str] = ()
) -> Benchmark:
    """The benchmark of that name that `build` makes, of the questions that pass all checks.

    `build` is called with decisions that grow: first none, then which distractors are not to be used and which
    questions are set apart. A question whose distractor is at fault gets another one, where its source has one, at most
    three times; of what is checked anew models are asked only what is new. Models are asked about questions that passed
    all else. Candidates are built in a folder of their own; the benchmark is there when it has passed, and its manifest
    says what was found (`Verification`). Raises what a build and a run raise.
    """
    candidates = home() / "verification" / name
    checks = item_checks(solvers, names)
    try:
        first = build({}, candidates)
        loop = _Loop(lambda decisions: build(decisions, candidates), first, solvers)
        loop.settle({name: check for name, check in checks.items() if not check.needs})
        if any(check.needs for check in checks.values()):
            loop.settle(checks)
        verification = loop.verification(first.manifest.counts.samples + len(first.set_apart()))
        with_verification(loop.benchmark, verification)
        with staging_folder(to or benchmark_folder(name)) as folder:
            for part in candidates.iterdir():
                shutil.move(part, folder)
        return Benchmark(to or benchmark_folder(name))
    finally:
        shutil.rmtree(candidates, ignore_errors=True)


class _Record(Struct):
    """What a check has found so far."""

    checked: int = 0
    failed: set[str] = msgspec.field(default_factory=set)
    by: tuple[str, ...] = ()
    detail: str = ""
    estimate: Estimate | None = None
    chance: float | None = None


class _Loop:
    """The state of checking, deciding and building."""

    def __init__(self, build: Callable[[Decisions], Benchmark], benchmark: Benchmark, solvers: Solvers) -> None:
        self._build, self.benchmark, self._solvers = build, benchmark, solvers
        self.decisions: dict[str, ItemDecision] = {}
        self._records: dict[str, _Record] = defaultdict(_Record)

    def settle(self, checks: dict[str, Check]) -> None:
        """Check and decide until nothing is at fault; after the last round what is at fault is set apart."""
        for round_number in range(ROUNDS + 1):
            faults = self._faults(checks)
            if not faults:
                return
            self.decisions = decided(self.decisions, faults, repair=round_number < ROUNDS)
            self.benchmark = self._build(self.decisions)

    def _faults(self, checks: dict[str, Check]) -> list[ItemFault]:
        material = CheckMaterial(self.benchmark, self._solvers)
        faults: list[ItemFault] = []
        for name, check in checks.items():
            outcome, record = check.run(material), self._records[name]
            faults += outcome.faults
            if not record.checked or (not record.by and outcome.by):
                record.detail = outcome.detail
            record.checked = max(record.checked, outcome.checked)
            record.failed |= {fault.sample_id for fault in outcome.faults}
            record.by, record.estimate, record.chance = outcome.by, outcome.estimate, outcome.chance
        return faults

    def verification(self, candidates: int) -> Verification:
        """What was checked, and how many questions passed."""
        kept = {sample.id for sample in self.benchmark.samples()}
        checks = tuple(
            ItemCheck(
                name,
                record.checked,
                len(record.failed),
                len(record.failed & kept),
                record.by,
                record.detail,
                record.estimate,
                record.chance,
            )
            for name, record in self._records.items()
        )
        return Verification(candidates, len(kept), checks)


def decided(decisions: Decisions, faults: Sequence[ItemFault], *, repair: bool) -> dict[str, ItemDecision]:
    """The decisions with what follows from faults: other distractors if they are to be repaired, else set apart."""
    grown = dict(decisions)
    for fault in faults:
        before = grown.get(fault.sample_id, ItemDecision(fault.sample_id))
        if fault.avoid and repair:
            after = replace(before, avoid={**before.avoid, fault.avoid: fault.reason})
        else:
            after = replace(before, set_apart=tuple(dict.fromkeys((*before.set_apart, fault.reason))))
        grown[fault.sample_id] = after
    return grown


def with_verification(benchmark: Benchmark, verification: Verification) -> Benchmark:
    """The benchmark, whose manifest on disk now says this too."""
    manifest = replace(benchmark.manifest, verification=verification)
    write_atomically(benchmark.folder / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2))
    return Benchmark(benchmark.folder)


def keep_passing(
    whole: Benchmark, name: str, solvers: Solvers = NO_SOLVERS, *, to: Path | None = None, names: Iterable[str] = ()
) -> Benchmark:
    """The questions of a built benchmark that pass all checks, as a benchmark of that name. Its options are what they
    are, so that a question with a distractor at fault is set apart."""
    if name == whole.name:
        raise DataError(f"a part of {name} needs a name of its own; give another --keep")

    def build(decisions: Decisions, folder: Path) -> Benchmark:
        return draw_subset(whole, Sampling(), name=name, to=folder, decisions=decisions)

    return verify(build, name, solvers, to=to, names=names)
