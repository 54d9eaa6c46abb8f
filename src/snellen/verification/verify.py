"""From candidates to a benchmark of questions that passed: checked, repaired, checked anew, the rest set apart.

Another package adds a check by the entry point group `snellen.checks`.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.building.benchmark import Benchmark, ItemCheck, Verification
from snellen.building.recipe import Decisions
from snellen.building.replaced_builds import check_replacement
from snellen.building.spec import Votes
from snellen.building.staging import staging_folder
from snellen.callers import setting
from snellen.common.decoding import decode_image
from snellen.common.images import Images
from snellen.common.paths import benchmark_folder, snellen_home
from snellen.errors import DataError, UnknownNameError
from snellen.installation import LAB, sibling_install_line
from snellen.records import Estimate, ImageRef, ItemDecision
from snellen.reformulation.sampling import Sampling
from snellen.runs.finding import Announce, announce_nothing
from snellen.runs.run_progress import ProgressListener, ignore_progress
from snellen.scoring.resampling import draw_subset
from snellen.verification.questions import LintMaterial

GREY_SIDE, COLOUR_SIDE = 32, 8
"""Pixels of the two reductions that are compared. Compression keeps brightness better than colours."""
GREY_LEVELS, COLOUR_LEVELS, QUARTER_LEVELS = 16, 24, 4
"""By how many of 256 levels a grey pixel, a coloured pixel, and the brightness of a quarter of the image may differ. An
object that covers a thousandth of the image makes a greater difference."""
PROPORTIONS = 0.05


class Reduction(Struct, frozen=True):
    """An image reduced to a few numbers, by which it is compared with other images."""

    proportion: float
    quarters: bytes
    """The brightness of each quarter of the image."""
    colours: bytes
    greys: bytes


def alike_images(images: Images, pictures: Sequence[ImageRef]) -> dict[str, str]:
    """Return for the digest of each image the digest of the first image that looks the same.

    Two images look the same if they have nearly the same proportions, and nearly the same colours and brightness in
    every part of the picture.
    """
    first_alike: dict[str, str] = {}
    images_by_cell: dict[Cell, list[tuple[str, Reduction]]] = defaultdict(list)
    for picture in pictures:
        reduction = _reduction(images, picture)
        # Quarters that differ by at most QUARTER_LEVELS are in the same cell of this width, or in adjacent ones.
        cell = tuple(level // (QUARTER_LEVELS + 1) for level in reduction.quarters)
        alike_digest = _find_alike(reduction, cell, images_by_cell)
        if alike_digest is None:
            first_alike[picture.digest] = picture.digest
        else:
            first_alike[picture.digest] = first_alike[alike_digest]
        images_by_cell[cell].append((picture.digest, reduction))
    return first_alike


Cell = tuple[int, ...]
"""Position of an image on a grid of the brightness of its quarters."""


def _find_alike(
    reduction: Reduction, cell: Cell, images_by_cell: Mapping[Cell, Sequence[tuple[str, Reduction]]]
) -> str | None:
    """Return the digest of an image that looks the same; None if there is none.

    Args:
        reduction: The image, reduced to a few numbers.
        cell: Its cell.
        images_by_cell: The images among which to search, as digests and reductions.
    """
    neighbouring_coordinates = [(level, level - 1, level + 1) for level in cell]
    for nearby_cell in product(*neighbouring_coordinates):
        for digest, other_reduction in images_by_cell.get(nearby_cell, ()):
            if _shows_the_same(reduction, other_reduction):
                return digest
    return None


def _shows_the_same(first: Reduction, second: Reduction) -> bool:
    """Return whether two reduced images are nearly equal: in their proportions, colours and grey levels."""
    return (
        _near(first.quarters, second.quarters, QUARTER_LEVELS)
        and abs(first.proportion / second.proportion - 1) <= PROPORTIONS
        and _near(first.colours, second.colours, COLOUR_LEVELS)
        and _near(first.greys, second.greys, GREY_LEVELS)
    )


def _near(first: bytes, second: bytes, levels: int) -> bool:
    return all(abs(a - b) <= levels for a, b in zip(first, second, strict=True))


def _reduction(images: Images, picture: ImageRef) -> Reduction:
    """Reduce an image to a few colours and grey levels, so that it can be compared with others quickly."""
    from PIL import Image

    image = decode_image(images.read(picture), f"image {picture.digest[:12]}").upright
    box = Image.Resampling.BOX
    small = image.resize((GREY_SIDE, GREY_SIDE), box)
    colours = small.resize((COLOUR_SIDE, COLOUR_SIDE), box)
    greys = small.convert("L")
    quarters = greys.resize((2, 2), box)
    proportion = image.width / image.height
    return Reduction(proportion, quarters.tobytes(), colours.tobytes(), greys.tobytes())


class Solvers(Struct, frozen=True):
    """The models that checks of questions may query, and how their replies are used.

    Examples:
        >>> Solvers(jury=("openai:judge@http://localhost:8000/v1",), votes="all").votes
        'all'
    """

    jury: tuple[Any, ...] = ()
    """Models, as strings or objects, that see the image and vote on each option."""
    blind: tuple[Any, ...] = ()
    """Models that must not do better than chance without the image, or with another one."""
    votes: Votes = "majority"
    wrongly: float = 0.3
    """Of the questions set apart because they were solved blind, the share that may be good ones."""
    runs: str = "runs"
    progress: ProgressListener = ignore_progress
    announce: Announce = announce_nothing

    def check(self, benchmark: Benchmark, names: Iterable[str] = ()) -> dict[str, CheckOutcome]:
        """Check the questions of a built benchmark.

        Args:
            benchmark: The benchmark.
            names: Names of checks; by default all that these models can carry out.

        Returns:
            What each check found, by its name.

        Raises:
            UnknownNameError: There is no such check.

        Examples:
            >>> from snellen.plugin_api import open_benchmark
            >>> outcomes = Solvers().check(open_benchmark("eyechart/colour"))
            >>> sorted(outcomes)[:2]
            ['answer-told', 'cues']
        """
        material = CheckMaterial(benchmark, self)
        checks = item_checks(self, names)
        return {name: check.run(material) for name, check in checks.items()}

    def keep_passing(
        self, whole: Benchmark, name: str, *, to: Path | None = None, names: Iterable[str] = ()
    ) -> Benchmark:
        """Build a new benchmark from the questions of another one that pass all checks.

        The questions keep their options. A question with a faulty wrong option is therefore left out and not repaired.

        Args:
            whole: The benchmark that is checked.
            name: Name of the new benchmark.
            to: Its folder; by default that of its name under $SNELLEN_HOME.
            names: Names of checks; by default all that these models can carry out.

        Raises:
            DataError: The name is that of the whole.

        Examples:
            >>> from snellen.plugin_api import open_benchmark
            >>> whole = open_benchmark("eyechart/colour")
            >>> Solvers().keep_passing(whole, "checked-colours", to=Path("checked")).count() <= whole.count()
            True
        """
        if name == whole.name:
            raise DataError(
                f"a part of {name} needs a different name; choose another {setting('keep')}"
            )

        def build(decisions: Decisions, folder: Path) -> Benchmark:
            return draw_subset(whole, Sampling(), name=name, to=folder, decisions=decisions)

        return verify(build, name, self, to=to, names=names)


class ItemFault(Struct, frozen=True):
    """A question that does not pass a check, with the reason.

    Examples:
        >>> ItemFault("q1", "two options are the same", avoid="a dog").reason
        'two options are the same'
    """

    sample_id: str
    reason: str
    avoid: str = ""
    """The wrong option at fault; with another one the question may be good. Empty if the question itself is at fault."""


class CheckOutcome(Struct, frozen=True):
    """What a check found.

    Examples:
        >>> len(CheckOutcome([ItemFault("q1", "two options are the same")], checked=40).faults)
        1
    """

    faults: Sequence[ItemFault]
    checked: int
    by: tuple[str, ...] = ()
    detail: str = ""
    estimate: Estimate | None = None
    """Of blind models: the highest of their accuracies on the questions that are not at fault."""
    chance: float | None = None
    """What guessing would score in its place."""


class CheckMaterial(Struct, frozen=True, dict=True):
    """What checks work with: a benchmark, and the models that may be queried.

    Examples:
        >>> from snellen.plugin_api import open_benchmark
        >>> material = CheckMaterial(open_benchmark("eyechart/colour"))
        >>> len(material.lint.questions)
        300
    """

    benchmark: Benchmark
    solvers: Solvers = Solvers()

    @cached_property
    def lint(self) -> LintMaterial:
        """The questions with their answers. Texts are without case, punctuation and articles, to be compared."""
        return LintMaterial.of(self.benchmark)

    @cached_property
    def canonical_images(self) -> dict[str, str]:
        """For each image, by digest, the first one that shows the same."""
        return alike_images(self.benchmark.images, list(self.lint.pictures.values()))


class QuestionCheck(Struct, frozen=True):
    """A check of questions, one by one.

    Examples:
        >>> def shouting(material):
        ...     samples = list(material.benchmark.samples())
        ...     faults = [ItemFault(s.id, "the question is all capitals") for s in samples if s.question.isupper()]
        ...     return CheckOutcome(faults, len(samples))
        >>> QuestionCheck("a question in capitals", shouting).title
        'a question in capitals'
    """

    title: str
    """What a question that fails has, in words."""
    run: Callable[[CheckMaterial], CheckOutcome]
    needs: Literal["", "jury", "blind"] = ""
    """The models that it asks; it is carried out only where some are named."""


def beyond_chance(hits: int, misses: int, chance: float) -> int:
    """Return how many hits are more than guessing explains.

    Args:
        hits: Number of hits.
        misses: Number of misses.
        chance: Probability of a hit by guessing.
    """
    return max(0, round(hits - misses * chance / (1 - chance)))


Build = Callable[[Decisions, Path], Benchmark]
"""Builds the benchmark with what was decided so far, in a folder."""
NO_SOLVERS = Solvers()
ROUNDS = 3
"""How often a question whose distractor is at fault gets another one."""


def item_checks(solvers: Solvers, names: Iterable[str] = ()) -> dict[str, QuestionCheck]:
    """Return the checks of questions that can be carried out, by name. Those that query no model come first.

    Args:
        solvers: The models that checks may query.
        names: Names of checks; by default all that are installed.

    Raises:
        UnknownNameError: There is no such check, or models were given and no installed check uses them.
    """
    checks: dict[str, QuestionCheck] = {}
    for name in names or registry.targets("checks"):
        checks[name] = registry.find_registered("checks", name)
    models_by_need = {"": (None,), "jury": solvers.jury, "blind": solvers.blind}
    available: dict[str, QuestionCheck] = {}
    for need, models in models_by_need.items():
        with_need = {name: check for name, check in checks.items() if check.needs == need}
        if need and models and not names and not with_need:
            raise UnknownNameError(
                f"no check here asks models ({need}); those that do come with another package: "
                f"{sibling_install_line(LAB)}"
            )
        if models:
            available |= with_need
    return available


def verify(
    build: Build,
    name: str,
    solvers: Solvers = NO_SOLVERS,
    *,
    to: Path | None = None,
    names: Iterable[str] = (),
    may_replace: bool = True,
) -> Benchmark:
    """Build a benchmark that has only questions which pass all checks.

    The benchmark is first built with all candidates in a temporary folder, and checked. If a wrong option of a question
    is at fault, the question gets another one from its source, at most three times. A question that still fails is set
    apart. Checks that query models run last, and only on what changed. The manifest of the final benchmark lists what
    was found (`Verification`).

    Args:
        build: Function that builds the benchmark from its source. It is called with the decisions so far: which wrong
            options not to use, and which questions to set apart.
        name: The name of the benchmark.
        solvers: The models for checks that query models.
        to: The folder of the benchmark; by default its usual folder.
        names: Names of checks; by default all that the models can carry out.
        may_replace: Whether a benchmark from another source may be replaced.

    Raises:
        DataError: The folder has a benchmark from another source, and `may_replace` is false. Errors of the build and
            of the models are raised, too.
    """
    candidates = snellen_home() / "verification" / name
    checks = item_checks(solvers, names)
    try:
        first = build({}, candidates)
        loop = _Loop(lambda decisions: build(decisions, candidates), first, solvers)
        loop.settle({name: check for name, check in checks.items() if not check.needs})
        if any(check.needs for check in checks.values()):
            loop.settle(checks)
        verification = loop.verification(first.manifest.counts.samples + len(first.set_apart()))
        loop.benchmark.with_verification(verification)
        target = to or benchmark_folder(name)
        if not may_replace:
            check_replacement(target, loop.benchmark.manifest)
        with staging_folder(target) as folder:
            for part in candidates.iterdir():
                shutil.move(part, folder)
        return Benchmark(target)
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

    def __init__(
        self, build: Callable[[Decisions], Benchmark], benchmark: Benchmark, solvers: Solvers
    ) -> None:
        """Start with a built benchmark and without decisions on its questions."""
        self._build = build
        self.benchmark = benchmark
        self._solvers = solvers
        self.decisions: dict[str, ItemDecision] = {}
        """What was decided on each sample, by its identifier."""
        self._records: dict[str, _Record] = defaultdict(_Record)
        """What each check found so far, by its name."""

    def settle(self, checks: dict[str, QuestionCheck]) -> None:
        """Check and rebuild the benchmark until no check finds a fault.

        In each round, faulty wrong options are replaced. Questions that are still faulty after the last round are set
        apart.
        """
        for round_number in range(ROUNDS + 1):
            faults = self._faults(checks)
            if not faults:
                return
            self.decisions = with_faults(self.decisions, faults, repair=round_number < ROUNDS)
            self.benchmark = self._build(self.decisions)

    def _faults(self, checks: dict[str, QuestionCheck]) -> list[ItemFault]:
        """Run some checks on the current questions and return the faults. What each check found is also recorded."""
        material = CheckMaterial(self.benchmark, self._solvers)
        faults: list[ItemFault] = []
        for name, check in checks.items():
            outcome = check.run(material)
            record = self._records[name]
            is_first = not record.checked or (not record.by and outcome.by)
            if is_first:
                record.detail = outcome.detail
            record.checked = max(record.checked, outcome.checked)
            record.failed |= {fault.sample_id for fault in outcome.faults}
            record.by = outcome.by
            record.estimate = outcome.estimate
            record.chance = outcome.chance
            faults += outcome.faults
        return faults

    def verification(self, candidates: int) -> Verification:
        """Return the checks that were made, and how many questions passed."""
        passing = {sample.id for sample in self.benchmark.samples()}
        checks = []
        for name, record in self._records.items():
            check = ItemCheck(
                name,
                record.checked,
                len(record.failed),
                len(record.failed & passing),
                record.by,
                record.detail,
                record.estimate,
                record.chance,
            )
            checks.append(check)
        return Verification(candidates, len(passing), tuple(checks))


def with_faults(
    decisions: Decisions, faults: Sequence[ItemFault], *, repair: bool
) -> dict[str, ItemDecision]:
    """Return the decisions on questions, extended by what follows from faults that checks found.

    Args:
        decisions: The decisions so far, by sample.
        faults: The faults.
        repair: Whether a faulty wrong option is to be replaced. If not, or if another part of the question is faulty,
            the question is set apart.
    """
    extended = dict(decisions)
    for fault in faults:
        decision = extended.get(fault.sample_id, ItemDecision(fault.sample_id))
        if fault.avoid and repair:
            avoid = {**decision.avoid, fault.avoid: fault.reason}
            extended[fault.sample_id] = replace(decision, avoid=avoid)
        else:
            reasons = dict.fromkeys((*decision.set_apart, fault.reason))
            extended[fault.sample_id] = replace(decision, set_apart=tuple(reasons))
    return extended
