"""A built benchmark: a folder with questions and pictures. The answers beside them are not opened here."""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.building.older_builds import (
    FORMAT,
    OLDEST_FORMAT,
    read_built_records,
    read_older_manifest,
    record_file,
)
from snellen.catalogue import BenchmarkSpec, entries
from snellen.common.conditions import Condition
from snellen.common.foreign import LimitError, NotAFileError, open_file, read_file
from snellen.common.images import ImageStore
from snellen.common.paths import check_benchmark_name, home
from snellen.errors import DataError
from snellen.formats.json_files import JSON_FAULTS
from snellen.formats.shown_text import object_line
from snellen.records import (
    Estimate,
    Example,
    History,
    IndistinguishableQuestion,
    ItemDecision,
    Sample,
    SetApartQuestion,
    SourcePictures,
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
    samples: int
    questions: int
    images: int
    """Pictures, those of examples and of questions set apart too."""
    answers: int
    """Questions with a known answer; 0 for a split with hidden answers."""
    examples: int = 0
    """Questions set apart, which are shown with their answers and never asked."""


class ItemCheck(Struct, frozen=True, omit_defaults=True):
    """What a check of every question found before a benchmark was made of those that passed."""

    name: str
    """Its name in the registry's group of checks."""
    checked: int
    failed: int
    repaired: int = 0
    """Of those that failed, how many passed with other distractors."""
    by: tuple[str, ...] = ()
    """The models that were asked, if any."""
    detail: str = ""
    """In words what it came to, such as the accuracy of models that saw no picture."""
    estimate: Estimate | None = None
    """Of a check by blind models: the highest of their accuracies on the questions that were kept."""
    chance: float | None = None
    """What guessing would score in place of the estimate."""


class ErrorBound(Struct, frozen=True, omit_defaults=True):
    """What an audit by people says of the share of bad questions."""

    drawn: int
    """Questions that were labelled, drawn at random of `of`."""
    of: int
    bad: int
    """Of those drawn, how many are bad; what raters could not settle counts as bad."""
    at_most: float
    """The most that the share of bad questions can be, an exact upper bound."""
    level: float = 0.95
    raters: tuple[str, ...] = ()
    disagreements: int = 0
    """Questions on which the raters differed before they were settled."""
    removed: int = 0
    """Of those bad, how many were taken out of the benchmark that `at_most` is about."""
    kappa: float | None = None
    """Cohen's, of two raters on good and bad before they were settled."""

    @property
    def sentence(self) -> str:
        """`At most 2.1% of the questions are bad, with 95% confidence: 150 of 1,000 drawn, 0 bad, by ann.`"""
        agreement = f" (kappa {self.kappa:.2f})" if self.kappa is not None else ""
        removed = f", {self.removed:,} taken out" if self.removed else ""
        share, level = percent_at_most(self.at_most), f"{100 * self.level:g}"
        return (
            f"At most {share} of the questions are bad, with {level}% confidence: {self.drawn:,} of {self.of:,} "
            f"drawn, {self.bad:,} bad{removed}, by {' and '.join(self.raters)}{agreement}."
        )


def percent_at_most(share: float) -> str:
    """A share as people write it, rounded up: a bound of 2.01% is not one of 2%."""
    tenths = -(-round(1000 * share, 6) // 1)
    return f"{tenths / 10:g}%"


class Verification(Struct, frozen=True, omit_defaults=True):
    """What a benchmark's questions have passed, and what people found in a sample of them."""

    candidates: int
    """Questions before any was checked."""
    kept: int
    checks: tuple[ItemCheck, ...] = ()
    bound: ErrorBound | None = None


class BuildInfo(Struct, frozen=True, omit_defaults=True):
    """How a benchmark was built, besides its entry."""

    read: int = 0
    """Questions in the source."""
    complete: int = 0
    """Questions of the complete benchmark, before sampling."""
    recipe: dict[str, Any] = {}
    """Settings that differ from the entry's."""
    writer: str = ""
    """The model that wrote distractors."""
    rejected: dict[str, int] = {}
    """Rejected distractor candidates, by reason."""
    chance: tuple[float, float] | None = None
    """The lowest and the highest probability with which a question of the complete benchmark was drawn; None where all
    were taken."""
    limit: int = 0
    """Only the samples that a run with this limit asks were built; 0 for all."""
    origin: str = ""
    """Where the source's files come from, in words."""


class BenchmarkManifest(Struct, frozen=True):
    """The manifest of a built folder. `version` is a digest of all questions, answers and pictures."""

    format: int
    spec: BenchmarkSpec
    version: str
    counts: BenchmarkCounts
    warnings: tuple[str, ...] = ()
    tags: dict[str, dict[str, int]] = {}
    """How many samples carry each value of each tag; empty for a tag with more than 100 values."""
    made: BuildInfo = BuildInfo()
    questions: str = ""
    """A digest of everything but the answers: the same for a build that hides them."""
    indistinguishable: int = 0
    """Questions that nothing tells apart from another one with another answer."""
    files: dict[str, str] = {}
    """SHA-256 of each file of records; those of pictures are their names."""
    answer_tags: tuple[str, ...] = ()
    """Names of tags that tell something of the answers and stand beside them."""
    verification: Verification | None = None
    """What its questions have passed before they were taken in; None where nothing was checked."""


class RandomPart(Struct, frozen=True, tag="random"):
    """The first pictures of a benchmark in a random order, with all their samples: what a rule has let a run ask."""

    pictures: int
    of: int
    """Pictures of the whole selection."""
    questions: int
    """Questions of the whole selection."""
    largest: int
    """Most questions of one of its pictures."""
    seed: int
    """Of the order."""
    rule: str
    """What stopped the run, as it was given."""
    awaits_verdict: bool = False
    """Whether the run is one of two that are asked until one is shown to be better, which is not decided yet."""

    @property
    def is_whole(self) -> bool:
        return self.pictures >= self.of

    def __str__(self) -> str:
        return f"a random {self.pictures:,} of {self.of:,} pictures, by the rule {self.rule}"


class ChosenPart(Struct, frozen=True, tag="chosen"):
    """The samples of a benchmark that a procedure chose one after the other, by what was answered before: their mean
    says nothing of the benchmark."""

    samples: tuple[str, ...]
    of: int
    """Samples of the whole selection."""
    rule: str
    """What chose them."""

    @property
    def is_whole(self) -> bool:
        return len(self.samples) >= self.of

    def __str__(self) -> str:
        return f"{len(self.samples):,} of {self.of:,} questions, chosen one after the other ({self.rule})"


Part = RandomPart | ChosenPart
"""The samples of a benchmark that were asked in rounds, at random or by what was answered before."""


class Selection(Struct, frozen=True):
    """Which samples of a benchmark take part."""

    where: str = ""
    limit: int | None = None
    """At most this many samples, chosen by the hash of their ids: a larger limit includes those of a smaller one."""
    part: Part | None = None
    """Of these, the samples of the first pictures alone, or those that were chosen."""


ALL = Selection()


def picture_order(groups: Iterable[str], seed: int) -> list[str]:
    """The distinct groups (pictures) in a random order: that of another seed is another, that of fewer groups the same
    without the others."""
    return sorted(set(groups), key=lambda group: (_place(f"{seed} {group}"), group))


def read_benchmark_manifest(raw: bytes) -> BenchmarkManifest:
    """Decode a manifest of this or an earlier format. Raises JSON_FAULTS."""
    try:
        manifest = msgspec.json.decode(raw, type=BenchmarkManifest)
    except msgspec.ValidationError:
        return read_older_manifest(raw, BenchmarkManifest)
    if manifest.format == FORMAT:
        return manifest
    return read_older_manifest(raw, BenchmarkManifest)


class Benchmark:
    """Questions and pictures of a built folder. Raises DataError for any other folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / MANIFEST
        try:
            raw = read_file(path)
        except (NotAFileError, LimitError) as error:
            raise DataError(f"{path} cannot be read ({error.strerror})") from None
        except OSError:
            raise DataError(
                f"{folder} is not a built benchmark ({MANIFEST} is missing); run `snellen build`"
            ) from None
        try:
            self.manifest = read_benchmark_manifest(raw)
        except JSON_FAULTS as error:
            raise DataError(f"{path}: {error}; build the benchmark again") from None
        check_benchmark_name(self.manifest.spec.name, f"{path}: ")
        if self.manifest.format != FORMAT:
            raise DataError(
                f"{path}: built in format {self.manifest.format}, this Snellen reads {OLDEST_FORMAT} to {FORMAT}; "
                "build it again"
            )
        self.images = ImageStore(folder / "images")

    def __repr__(self) -> str:
        counts = self.manifest.counts
        return object_line(
            self,
            f"{self.name} in {self.folder}",
            questions=counts.questions,
            pictures=counts.images,
        )

    @property
    def spec(self) -> BenchmarkSpec:
        return self.manifest.spec

    @property
    def name(self) -> str:
        return self.manifest.spec.name

    def part(self, name: str) -> Path | None:
        """One of the files of records, as it was built; None if the benchmark was built without it.

        Raises DataError if it is missing or has changed since.
        """
        built_digest = self.manifest.files.get(name)
        if built_digest is None:
            return None
        path = record_file(self.folder, name)
        try:
            status = path.stat()
            is_built = _is_built(
                path, built_digest, status.st_ino, status.st_size, status.st_mtime_ns
            )
        except OSError as error:
            raise DataError(
                f"{path} cannot be read ({error.strerror}); build {self.name} again"
            ) from None
        if not is_built:
            raise DataError(
                f"{path} is not the file that was built: its content has changed; build {self.name} again"
            )
        return path

    def _samples(self) -> Iterator[Sample]:
        path = self.part(SAMPLES)
        return read_built_records(path, Sample) if path else iter(())

    def samples(self, selection: Selection = ALL) -> Iterator[Sample]:
        """The chosen samples; those of one group (picture) are consecutive."""
        chosen = self._chosen(selection)
        for sample in self._samples():
            if chosen is None or sample.id in chosen:
                yield sample

    def count(self, selection: Selection = ALL) -> int:
        chosen = self._chosen(selection)
        return self.manifest.counts.samples if chosen is None else len(chosen)

    def _chosen(self, selection: Selection) -> frozenset[str] | None:
        if selection == ALL:
            return None
        if selection not in self._choices:
            self._choices[selection] = self._choose(selection)
        return self._choices[selection]

    @cached_property
    def _choices(self) -> dict[Selection, frozenset[str]]:
        return {}

    def _choose(self, selection: Selection) -> frozenset[str]:
        condition = Condition(selection.where) if selection.where else None
        facts = self.spec.facts()
        groups = {
            sample.id: sample.group
            for sample in self._samples()
            if condition is None or condition.holds({**facts, **sample.tags})
        }
        if selection.limit is not None:
            groups = {
                sample_id: groups[sample_id] for sample_id in first_samples(groups, selection.limit)
            }
        if selection.part is None:
            return frozenset(groups)
        if isinstance(selection.part, ChosenPart):
            return frozenset(selection.part.samples) & groups.keys()
        first = set(picture_order(groups.values(), selection.part.seed)[: selection.part.pictures])
        return frozenset(sample_id for sample_id, group in groups.items() if group in first)

    def random_part(self, selection: Selection, seed: int, rule: str) -> RandomPart:
        """The part of a selection that has no picture yet."""
        sizes = Counter[str]()
        for sample in self.samples(selection):
            sizes[sample.group] += len(sample.rounds)
        return RandomPart(0, len(sizes), sizes.total(), max(sizes.values(), default=0), seed, rule)

    def histories(self) -> dict[str, tuple[str, ...]]:
        """The published replies of dialogues, for a protocol with gold history."""
        path = self.part(HISTORY)
        if path is None:
            raise DataError(f"{self.name} has no published dialogue history; use history=online")
        return {history.sample_id: history.replies for history in read_built_records(path, History)}

    def examples(self) -> list[Example]:
        """The questions set apart to be shown with their answers. Raises DataError where there are none."""
        path = self.part(EXAMPLES)
        if path is None:
            raise DataError(
                f"{self.name} was built without examples; build it again with some of its questions set apart "
                "(--examples 20), or name a benchmark that has some with --few-shot-from"
            )
        return list(read_built_records(path, Example))

    def set_apart(self) -> list[SetApartQuestion]:
        """The questions that are kept beside the benchmark and never asked, with the reasons."""
        path = self.part(SET_APART)
        return list(read_built_records(path, SetApartQuestion)) if path else []

    def decisions(self) -> dict[str, ItemDecision]:
        """What was decided on questions before it was built, by sample; with these the same build comes out again."""
        path = self.part(DECISIONS)
        return (
            {decision.sample_id: decision for decision in read_built_records(path, ItemDecision)}
            if path
            else {}
        )

    def indistinguishable(self) -> list[IndistinguishableQuestion]:
        """The questions that nothing tells apart from another one with another answer, group by group."""
        path = self.part(INDISTINGUISHABLE)
        return list(read_built_records(path, IndistinguishableQuestion)) if path else []

    def origins(self) -> dict[str, SourceRows]:
        """For each sample the file rows it was built from; empty for a benchmark that does not store them."""
        path = self.part(ORIGINS)
        return (
            {origin.sample_id: origin for origin in read_built_records(path, SourceRows)}
            if path
            else {}
        )

    def source_pictures(self) -> dict[str, tuple[str, ...]]:
        """For each sample the names of its pictures' files, in the order of the source; empty for an older build."""
        path = self.part(PICTURES)
        return (
            {
                pictures.sample_id: pictures.names
                for pictures in read_built_records(path, SourcePictures)
            }
            if path
            else {}
        )


@lru_cache(maxsize=4096)
def _is_built(path: Path, digest: str, inode: int, size: int, changed: int) -> bool:
    """Whether a file has the digest with which it was built, computed again only when either is another one."""
    return file_digest(path) == digest


def file_digest(path: Path) -> str:
    """SHA-256 of a file in hexadecimal digits."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def first_samples(sample_ids: Iterable[str], limit: int) -> list[str]:
    """The samples that a limit leaves: a larger one leaves those of a smaller one too."""
    return heapq.nsmallest(limit, sample_ids, key=_place)


def _place(sample_id: str) -> bytes:
    return hashlib.blake2b(sample_id.encode(), digest_size=8).digest()


def own_benchmarks() -> list[str]:
    """Names of built benchmarks that are not in the catalogue."""
    root = home() / "benchmarks"
    folders = (path.parent.relative_to(root) for path in root.glob("**/" + MANIFEST))
    # A folder that a build has not put in its place yet begins with a dot.
    names = (str(path) for path in folders if not any(part.startswith(".") for part in path.parts))
    return sorted(name for name in names if name not in entries())
