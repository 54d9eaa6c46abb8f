"""Read a built benchmark: a folder with questions and images. The answers in it are not opened here.

A part of a benchmark (`RandomPart`, `ChosenPart`) is what an adaptive run evaluated. A group is what related samples
share, by default their image.
"""

from __future__ import annotations

import hashlib
import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from snellen.building.older_builds import (
    FORMAT,
    OLDEST_FORMAT,
    read_built_records,
    read_older_manifest,
    record_file,
)
from snellen.callers import for_caller, setting
from snellen.catalogue import BenchmarkSpec, entries
from snellen.common.conditions import Condition
from snellen.common.foreign import LimitError, NotAFileError, open_file, read_file
from snellen.common.images import ImageStore
from snellen.common.paths import check_benchmark_name, snellen_home
from snellen.errors import DataError
from snellen.formats.json_files import JSON_FAULTS
from snellen.formats.shown_text import object_line
from snellen.formats.whole_files import write_atomically
from snellen.records import (
    Estimate,
    Example,
    History,
    IndistinguishableQuestion,
    ItemDecision,
    Sample,
    SetApartQuestion,
    SourceImages,
    SourceRows,
)

MANIFEST = "benchmark.json"
"""The file that makes a folder a built benchmark."""
SAMPLES = "samples.jsonl.gz"
EXAMPLES = "examples.jsonl.gz"
HISTORY = "history.jsonl.gz"
ORIGINS = "origins.jsonl.gz"
PICTURES = "pictures.jsonl.gz"
INDISTINGUISHABLE = "indistinguishable.jsonl.gz"
SET_APART = "set_apart.jsonl.gz"
DECISIONS = "decisions.jsonl.gz"


class BenchmarkCounts(Struct, frozen=True):
    """What a benchmark contains."""

    samples: int
    questions: int
    """Questions of all samples; each round of a dialogue is one."""
    images: int
    """Images, including those of examples and of questions set apart."""
    answers: int
    """Questions with a known answer; 0 for a split with hidden answers."""
    examples: int = 0
    """Few-shot examples, which are shown with their answers and never asked."""


class ItemCheck(Struct, frozen=True, omit_defaults=True):
    """Result of a check that every question of a benchmark had to pass."""

    name: str
    """Name in the registry's group of checks."""
    checked: int
    """Number of questions."""
    failed: int
    """Questions that failed at first."""
    repaired: int = 0
    """Failed questions that passed with other distractors."""
    by: tuple[str, ...] = ()
    """Models that checked, if any."""
    detail: str = ""
    """The result as text, such as the accuracy of models that saw no image."""
    estimate: Estimate | None = None
    """For a check by blind models: the highest of their accuracies on the questions that passed."""
    chance: float | None = None
    """Chance level of the estimate."""


class ErrorBound(Struct, frozen=True, omit_defaults=True):
    """Upper bound on the share of bad questions, from labels by people.

    Examples:
        >>> bound = ErrorBound(sample_size=150, population_size=1000, bad=0, at_most=0.02, raters=("ann",))
        >>> bound.sentence
        'At most 2% of the questions are bad, with 95% confidence: 150 of 1,000 were drawn, 0 of them bad, according to ann.'
    """

    sample_size: int = field(name="drawn")
    """Questions that were drawn at random and labelled."""
    population_size: int = field(name="of")
    """Questions from which they were drawn."""
    bad: int
    """Drawn questions that are bad. A question on which raters could not agree counts as bad."""
    at_most: float
    """Exact upper bound on the share of bad questions, 0 to 1."""
    level: float = 0.95
    """Confidence level of the bound."""
    raters: tuple[str, ...] = ()
    disagreements: int = 0
    """Questions on which the raters differed at first."""
    removed: int = 0
    """Bad questions that were removed from the benchmark; `at_most` is about the benchmark without them."""
    kappa: float | None = None
    """Cohen's kappa of the first labels of two raters."""

    @property
    def sentence(self) -> str:
        """The result of a review of random questions: `At most 2.1% of the questions are bad, with 95% confidence: ...`.

        Removed questions and the agreement of two raters (Cohen's kappa) are mentioned if there are any.
        """
        agreement = "" if self.kappa is None else f" (kappa {self.kappa:.2f})"
        removed = f", {self.removed:,} removed" if self.removed else ""
        share = percent_at_most(self.at_most)
        level = f"{100 * self.level:g}%"
        drawn = f"{self.sample_size:,} of {self.population_size:,} were drawn"
        raters = " and ".join(self.raters)
        return (
            f"At most {share} of the questions are bad, with {level} confidence: {drawn}, {self.bad:,} of them "
            f"bad{removed}, according to {raters}{agreement}."
        )


def percent_at_most(share: float) -> str:
    """Format an upper bound as a percentage, rounded up to a tenth.

    Examples:
        >>> percent_at_most(0.0201)
        '2.1%'
    """
    tenths = math.ceil(round(1000 * share, 6))
    return f"{tenths / 10:g}%"


class Verification(Struct, frozen=True, omit_defaults=True):
    """Checks that a benchmark's questions passed, and what people found in a sample of them.

    Examples:
        >>> Verification(candidates=40, passing_questions=38, checks=()).candidates
        40
    """

    candidates: int
    """Questions before the first check."""
    passing_questions: int = field(name="kept")
    """Questions that passed all checks."""
    checks: tuple[ItemCheck, ...] = ()
    bound: ErrorBound | None = None


class BuildInfo(Struct, frozen=True, omit_defaults=True):
    """How a benchmark was built, in addition to its entry."""

    read: int = 0
    """Questions in the source."""
    complete: int = 0
    """Questions of the complete benchmark, before sampling."""
    recipe: dict[str, Any] = {}
    """Settings that differ from the entry's."""
    writer: str = ""
    """Model that wrote distractors."""
    rejected: dict[str, int] = {}
    """Rejected distractor candidates, by reason."""
    chance: tuple[float, float] | None = None
    """Lowest and highest probability with which a question of the complete benchmark was drawn; None if all were."""
    limit: int = 0
    """Only the samples of a run with this limit were built; 0 for all."""
    origin: str = ""
    """Where the source's files come from, as text."""


class BenchmarkManifest(Struct, frozen=True):
    """Manifest of a built folder.

    Examples:
        >>> manifest = Benchmark(sn.load_benchmark("eyechart/colour").folder).manifest
        >>> manifest.counts.questions
        300
    """

    format: int
    """Format of the folder's files."""
    spec: BenchmarkSpec
    version: str
    """Digest of all questions, answers and images."""
    counts: BenchmarkCounts
    warnings: tuple[str, ...] = ()
    tags: dict[str, dict[str, int]] = {}
    """Number of samples with each value of each tag; empty for a tag with more than 100 values."""
    build_info: BuildInfo = field(default=BuildInfo(), name="made")
    questions: str = ""
    """Digest of everything except the answers; a build with hidden answers has the same digest."""
    indistinguishable: int = 0
    """Number of questions that are identical to another question with a different answer."""
    files: dict[str, str] = {}
    """SHA-256 of each file of records. Images have their digest as name."""
    answer_tags: tuple[str, ...] = ()
    """Names of tags that give answers away. They are stored with the answers."""
    verification: Verification | None = None
    """Checks that the questions passed; None if they were not checked."""


class RandomPart(Struct, frozen=True, tag="random"):
    """The images of a benchmark that a stopping rule let a run evaluate, with all their samples.

    They are the first images in a random order.
    """

    images: int = field(name="pictures")
    """Images of the part."""
    total_images: int = field(name="of")
    """Images of the complete selection."""
    questions: int
    """Questions of the complete selection."""
    largest: int
    """Greatest number of questions of one image."""
    seed: int
    """Seed of the order."""
    rule: str
    """The rule as the user gave it, such as `accuracy ±2`."""
    awaits_verdict: bool = False
    """Whether this is one of two runs that continue until one model is significantly better, which is not decided yet."""

    @property
    def is_whole(self) -> bool:
        """Whether all images were evaluated."""
        return self.images >= self.total_images

    def __str__(self) -> str:
        return f"a random {self.images:,} of {self.total_images:,} images, chosen by the rule {self.rule}"


class ChosenPart(Struct, frozen=True, tag="chosen"):
    """Samples of a benchmark that a procedure chose one by one, depending on earlier replies.

    Their mean is no estimate for the benchmark.

    Examples:
        >>> part = ChosenPart(("q1", "q2"), total_samples=10, rule="most informative")
        >>> str(part)
        '2 of 10 questions, chosen adaptively (most informative)'
    """

    samples: tuple[str, ...]
    """Ids of the samples."""
    total_samples: int = field(name="of")
    """Samples of the complete selection."""
    rule: str
    """Name of the procedure."""

    @property
    def is_whole(self) -> bool:
        """Whether all samples were evaluated."""
        return len(self.samples) >= self.total_samples

    def __str__(self) -> str:
        return f"{len(self.samples):,} of {self.total_samples:,} questions, chosen adaptively ({self.rule})"


QuestionPart = RandomPart | ChosenPart
"""The samples of a benchmark that an adaptive run evaluated, which stopped before all were done or
chose them one by one.
"""


class Selection(Struct, frozen=True):
    """The samples of a benchmark that a run evaluates."""

    where: str = ""
    """Condition on tags and facts of the benchmark; empty for all samples."""
    limit: int | None = None
    """Maximum number of samples, chosen by the hash of their ids: a larger limit includes those of a smaller one."""
    part: QuestionPart | None = None
    """Part of these samples, for an adaptive run."""


ALL = Selection()


def image_order(groups: Iterable[str], seed: int) -> list[str]:
    """Return the distinct images of some samples in a random order that depends on the seed.

    Each image is sorted by a hash of its own, so some of the images always have the same relative order.

    Args:
        groups: For each sample, the name of its image.
        seed: The seed.
    """

    def sort_key(group: str) -> tuple[bytes, str]:
        return _hash(f"{seed} {group}"), group

    return sorted(set(groups), key=sort_key)


def read_benchmark_manifest(raw: bytes) -> BenchmarkManifest:
    """Decode the manifest of a built benchmark (benchmark.json), of this or an earlier format.

    Raises:
        msgspec.DecodeError, UnicodeDecodeError, RecursionError: It is not a manifest (`JSON_FAULTS`).
    """
    try:
        manifest = msgspec.json.decode(raw, type=BenchmarkManifest)
    except msgspec.ValidationError:
        return read_older_manifest(raw, BenchmarkManifest)
    if manifest.format == FORMAT:
        return manifest
    return read_older_manifest(raw, BenchmarkManifest)


class Benchmark:
    """Questions and images of a built folder.

    Args:
        folder: The folder.

    Raises:
        DataError: It is not a built benchmark.

    Examples:
        >>> folder = sn.load_benchmark("eyechart/colour").folder
        >>> Benchmark(folder).name
        'eyechart/colour'
    """

    def __init__(self, folder: Path) -> None:
        """Open a built benchmark.

        Args:
            folder: Its folder.

        Raises:
            DataError: The folder has no benchmark, or one that this version of Snellen cannot read.
        """
        self.folder = folder
        path = folder / MANIFEST
        try:
            raw = read_file(path)
        except (NotAFileError, LimitError) as error:
            raise DataError(f"{path} cannot be read ({error.strerror})") from None
        except OSError:
            raise DataError(
                f"{folder} is not a built benchmark ({MANIFEST} is missing); "
                f"{for_caller('run `snellen build`', 'make one with sn.build')}"
            ) from None
        try:
            self.manifest = read_benchmark_manifest(raw)
        except JSON_FAULTS as error:
            raise DataError(f"{path}: {error}; build the benchmark again") from None
        check_benchmark_name(self.manifest.spec.name, f"{path}: ")
        if self.manifest.format != FORMAT:
            raise DataError(
                f"{path}: built in format {self.manifest.format}, but this version of Snellen reads "
                f"{OLDEST_FORMAT} to {FORMAT}; build it again"
            )
        self.images = ImageStore(folder / "images")

    @staticmethod
    def is_in(folder: Path) -> bool:
        """Return whether a folder is a built benchmark."""
        return (folder / MANIFEST).exists()

    def __repr__(self) -> str:
        counts = self.manifest.counts
        return object_line(
            self,
            f"{self.name} in {self.folder}",
            questions=counts.questions,
            images=counts.images,
        )

    @property
    def spec(self) -> BenchmarkSpec:
        return self.manifest.spec

    @property
    def name(self) -> str:
        return self.manifest.spec.name

    def with_verification(self, verification: Verification) -> Benchmark:
        """Store in the manifest what checks and reviewers found, and return the benchmark with the new manifest."""
        manifest = replace(self.manifest, verification=verification)
        content = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
        write_atomically(self.folder / MANIFEST, content)
        return Benchmark(self.folder)

    def part(self, name: str) -> Path | None:
        """Return the path of a file of records, such as `samples.jsonl.gz`; None if the benchmark was built without it.

        Raises:
            DataError: The file is missing, or its content has changed since the build.
        """
        built_digest = self.manifest.files.get(name)
        if built_digest is None:
            return None
        path = record_file(self.folder, name)
        try:
            status = path.stat()
            is_unchanged = _has_digest(
                path, built_digest, status.st_ino, status.st_size, status.st_mtime_ns
            )
        except OSError as error:
            raise DataError(
                f"{path} cannot be read ({error.strerror}); build {self.name} again"
            ) from None
        if not is_unchanged:
            raise DataError(
                f"the content of {path} has changed since the build; build {self.name} again"
            )
        return path

    def _samples(self) -> Iterator[Sample]:
        path = self.part(SAMPLES)
        return read_built_records(path, Sample) if path else iter(())

    def samples(self, selection: Selection = ALL) -> Iterator[Sample]:
        """Yield the samples of the benchmark, or only those of a selection. Samples with the same image follow each other."""
        chosen = self._chosen(selection)
        for sample in self._samples():
            if chosen is None or sample.id in chosen:
                yield sample

    def count(self, selection: Selection = ALL) -> int:
        """Return the number of samples of a selection; by default of all samples."""
        chosen = self._chosen(selection)
        return self.manifest.counts.samples if chosen is None else len(chosen)

    def _chosen(self, selection: Selection) -> frozenset[str] | None:
        """Return the ids of a selection's samples; None for all samples. The ids of a selection are found only once."""
        if selection == ALL:
            return None
        if selection not in self._ids_by_selection:
            self._ids_by_selection[selection] = self._choose(selection)
        return self._ids_by_selection[selection]

    @cached_property
    def _ids_by_selection(self) -> dict[Selection, frozenset[str]]:
        return {}

    def _choose(self, selection: Selection) -> frozenset[str]:
        """Return the ids of the samples that a selection includes.

        The selection's condition on tags is applied first, then its limit, and then the part that an adaptive run
        evaluated: its samples, or all samples of its first images.
        """
        condition = Condition(selection.where) if selection.where else None
        benchmark_facts = self.spec.facts()
        group_by_id: dict[str, str] = {}
        for sample in self._samples():
            if condition is None or condition.holds({**benchmark_facts, **sample.tags}):
                group_by_id[sample.id] = sample.group
        if selection.limit is not None:
            ids = first_samples(group_by_id, selection.limit)
            group_by_id = {sample_id: group_by_id[sample_id] for sample_id in ids}

        part = selection.part
        if part is None:
            return frozenset(group_by_id)
        if isinstance(part, ChosenPart):
            return frozenset(part.samples) & group_by_id.keys()
        ordered_groups = image_order(group_by_id.values(), part.seed)
        first_groups = set(ordered_groups[: part.images])
        chosen = [sample_id for sample_id, group in group_by_id.items() if group in first_groups]
        return frozenset(chosen)

    def random_part(self, selection: Selection, seed: int, rule: str) -> RandomPart:
        """Return the part of the benchmark with which an adaptive run starts that draws images at random.

        The part has no images yet. Its seed fixes their order, and the run enlarges the part image by image.

        Args:
            selection: The samples that the run may evaluate.
            seed: Seed of the order of the images.
            rule: The rule that will stop the run, such as `accuracy ±2`.
        """
        questions_by_group: Counter[str] = Counter()
        for sample in self.samples(selection):
            questions_by_group[sample.group] += len(sample.rounds)
        return RandomPart(
            images=0,
            total_images=len(questions_by_group),
            questions=questions_by_group.total(),
            largest=max(questions_by_group.values(), default=0),
            seed=seed,
            rule=rule,
        )

    def histories(self) -> dict[str, tuple[str, ...]]:
        """Return the published replies of each dialogue, by the identifier of its sample.

        Raises:
            DataError: The benchmark has no published replies.
        """
        path = self.part(HISTORY)
        if path is None:
            raise DataError(f"{self.name} has no published dialogue history; use history=online")
        replies_by_sample: dict[str, tuple[str, ...]] = {}
        for history in read_built_records(path, History):
            replies_by_sample[history.sample_id] = history.replies
        return replies_by_sample

    def examples(self) -> list[Example]:
        """Return the few-shot examples. Raises DataError if there are none."""
        path = self.part(EXAMPLES)
        if path is None:
            examples = for_caller("--examples 20", f"sn.build({self.name!r}, examples=20)")
            raise DataError(
                f"{self.name} has no few-shot examples; rebuild it with some of its questions reserved "
                f"({examples}), or take examples from another benchmark with "
                f"{setting('few_shot_from')}"
            )
        return list(read_built_records(path, Example))

    def set_apart(self) -> list[SetApartQuestion]:
        """Return the questions that the benchmark stores but never asks, with the reasons."""
        path = self.part(SET_APART)
        return list(read_built_records(path, SetApartQuestion)) if path else []

    def decisions(self) -> dict[str, ItemDecision]:
        """Return the decisions on questions that the build followed, by sample id. A build with them has the same result."""
        path = self.part(DECISIONS)
        if path is None:
            return {}
        return {decision.sample_id: decision for decision in read_built_records(path, ItemDecision)}

    def indistinguishable(self) -> list[IndistinguishableQuestion]:
        """Return the questions that are identical to another one with a different answer, group by group."""
        path = self.part(INDISTINGUISHABLE)
        return list(read_built_records(path, IndistinguishableQuestion)) if path else []

    def origins(self) -> dict[str, SourceRows]:
        """Return the rows of the source that each sample was built from, by its id; empty if they are not stored."""
        path = self.part(ORIGINS)
        if path is None:
            return {}
        return {origin.sample_id: origin for origin in read_built_records(path, SourceRows)}

    def source_images(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the image files of each sample, by its id; empty for an older build."""
        path = self.part(PICTURES)
        if path is None:
            return {}
        return {images.sample_id: images.names for images in read_built_records(path, SourceImages)}


@lru_cache(maxsize=4096)
def _has_digest(path: Path, digest: str, inode: int, size: int, modified_ns: int) -> bool:
    """Return whether a file has a SHA-256, such as the one that was stored when the benchmark was built.

    The result is cached, because large files take long to read. Inode, size and time of change are arguments only so
    that a file that has changed is read again.
    """
    return file_digest(path) == digest


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def first_samples(sample_ids: Iterable[str], limit: int) -> list[str]:
    """Return the ids of the samples that a run with a limit evaluates.

    They are chosen by a hash of their ids. The choice is random but always the same, and a larger
    limit includes the samples of a smaller one.

    Examples:
        >>> first_samples(["a", "b", "c"], 2)
        ['c', 'a']
    """
    return heapq.nsmallest(limit, sample_ids, key=_hash)


def _hash(text: str) -> bytes:
    """Return a hash of 8 bytes, which orders samples at random and the same way everywhere."""
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def own_benchmarks() -> list[str]:
    """Return the names of the built benchmarks that are not in the catalogue."""
    root = snellen_home() / "benchmarks"
    known = entries()
    names: list[str] = []
    for path in root.glob(f"**/{MANIFEST}"):
        folder = path.parent.relative_to(root)
        # An unfinished build is in a folder that begins with a dot.
        is_unfinished = any(part.startswith(".") for part in folder.parts)
        if not is_unfinished and str(folder) not in known:
            names.append(str(folder))
    return sorted(names)
