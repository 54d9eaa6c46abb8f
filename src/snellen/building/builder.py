"""From a source to a built benchmark: questions and answers in separate files, each picture stored once.

The folder appears complete or not at all. The same input gives the same bytes.

Questions that are set apart as examples, to be shown with their answers before others.

A staging folder replaces its target completely or not at all, even when several builds race.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import heapq
import os
import platform
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from snellen import registry
from snellen.building.benchmark import (
    DECISIONS,
    EXAMPLES,
    HISTORY,
    INDISTINGUISHABLE,
    MANIFEST,
    ORIGINS,
    PICTURES,
    SAMPLES,
    SET_APART,
    Benchmark,
    BenchmarkManifest,
    BuildInfo,
    Verification,
    file_digest,
    first_samples,
)
from snellen.building.checking import DraftChecker, Question, SoundRows
from snellen.building.older_builds import FORMAT
from snellen.building.recipe import (
    BuildStats,
    Decisions,
    DistractorWriter,
    Drafts,
    Recipe,
    reformulate,
)
from snellen.building.source_state import keep_state, source_state
from snellen.catalogue import BenchmarkSpec, entry_file, entry_folder
from snellen.common.conditions import Condition
from snellen.common.decoding import limited_pixels
from snellen.common.drafts import (
    PARAMS,
    Draft,
)
from snellen.common.foreign import read_file
from snellen.common.images import ImageStore
from snellen.common.paths import benchmark_folder, check_benchmark_name, slug
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.formats.record_files import ENDING, RecordWriter, Stored, sort_by_group
from snellen.records import (
    Example,
    Formulation,
    History,
    IndistinguishableQuestion,
    SourcePictures,
    SourceRows,
)
from snellen.reformulation.distractors import PictureEmbedder

EARLIER = "-earlier"
MOST_RACES = 100


@contextmanager
def staging_folder(target: Path) -> Iterator[Path]:
    """A folder beside `target` that replaces it when the block succeeds; otherwise `target` stays as it was.

    Leftovers of killed builds of `target` are removed first. When several builds of the same benchmark race, the
    first to finish takes the place and the others discard their identical results. Raises DataError for a place
    that cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _clean(target)
        folder = Path(tempfile.mkdtemp(prefix=_prefix(target), dir=target.parent))
        before = _identity(target)
    except OSError as error:
        raise DataError(
            f"cannot build in {target.parent}: {error.strerror}; set SNELLEN_HOME or choose a folder"
        ) from None
    try:
        yield folder
        folder.chmod(0o755)
        if _identity(target) == before or not _is_same_build(target, folder):
            _replace(target, folder)
    except OSError as error:
        raise DataError(
            f"cannot write {target}: {error.strerror}; free some space or choose another folder"
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _prefix(target: Path) -> str:
    """The prefix names the owner: its process id and host."""
    return f".{target.name}-{os.getpid()}@{slug(platform.node())}-"


def _clean(target: Path) -> None:
    """Remove leftovers of dead processes on this host, and put back earlier builds that they had moved aside."""
    owned = re.compile(
        rf"\.{re.escape(target.name)}-(\d+)@{re.escape(slug(platform.node()))}-\w+({EARLIER}\d+)?"
    )
    for path in sorted(target.parent.glob(f".{glob.escape(target.name)}-*")):
        match = owned.fullmatch(path.name)
        if match is None or _lives(int(match[1])):
            continue
        if match[2] and not target.exists():
            # Killed between moving the earlier build aside and putting the new one in place.
            with suppress(FileNotFoundError):
                path.rename(target)
        else:
            shutil.rmtree(path, ignore_errors=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _identity(target: Path) -> tuple[int, int] | None:
    """Device and inode of the folder at `target`, whatever its content; None when there is none."""
    try:
        stat = target.stat()
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino


def _is_same_build(target: Path, folder: Path) -> bool:
    try:
        return read_file(target / MANIFEST) == read_file(folder / MANIFEST)
    except FileNotFoundError:
        return False


def _replace(target: Path, folder: Path) -> None:
    """Put `folder` in the place of `target`; the earlier build is deleted only once the new one is there."""
    earlier: list[Path] = []
    try:
        while not _renamed(folder, target) and not _exchanged(folder, target):
            aside = folder.with_name(f"{folder.name}{EARLIER}{len(earlier)}")
            # Another build may just have moved it aside to put its own there.
            with suppress(FileNotFoundError):
                target.rename(aside)
                earlier.append(aside)
            if len(earlier) > MOST_RACES:
                raise OSError(errno.EBUSY, "other builds of it end all the time")
    except OSError:
        if earlier and not target.exists():
            earlier.pop().rename(target)
        raise
    finally:
        for folder_aside in earlier:
            shutil.rmtree(folder_aside, ignore_errors=True)


def _exchanged(folder: Path, target: Path) -> bool:
    """Swap the two atomically, so that the place is never empty; False where the system cannot."""
    import ctypes

    try:
        swap = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # only Linux has it
        return False
    current_folder, exchange = -100, 2
    return bool(
        swap(current_folder, os.fsencode(folder), current_folder, os.fsencode(target), exchange)
        == 0
    )


def _renamed(folder: Path, target: Path) -> bool:
    """Rename `folder` to `target`; False when a build is already there."""
    try:
        folder.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


ALL = "all"


class ExampleDrawer:
    """Lets the questions of a stream pass, except those that are set apart, which are in `questions` when the stream
    has ended.

    `which` is a number, a condition on tags, or `all`. Of a number the first pictures in a random order are taken whole
    until there are as many questions with a known answer. Raises DataError for what is none of these.
    """

    def __init__(self, choice: str, spec: BenchmarkSpec, seed: int) -> None:
        self.questions: list[Question] = []
        self._which, self._spec, self._seed = choice.strip(), spec, seed
        self._count = int(self._which) if self._which.isdecimal() else None
        if self._count == 0:
            raise DataError(
                "--examples 0 sets nothing apart; leave it out, or give a number from 1 up"
            )
        is_condition = self._count is None and self._which not in ("", ALL)
        self._condition = Condition(self._which, flag="--examples") if is_condition else None

    def without_examples(self, questions: Iterable[Question]) -> Iterator[Question]:
        """The questions that are not set apart."""
        if self._count is not None:
            yield from self._first_pictures(questions, self._count)
        else:
            for question in questions:
                if self._is_example(question[0]):
                    self.questions.append(question)
                else:
                    yield question
        if self._which and not self.questions:
            raise DataError(f"{self._spec.name}: no question fits --examples {self._which!r}")

    def _is_example(self, draft: Draft) -> bool:
        if self._condition is not None:
            return self._condition.holds({**self._spec.facts(), **draft.tags, **draft.answer_tags})
        return self._which == ALL

    def _first_pictures(self, questions: Iterable[Question], count: int) -> Iterator[Question]:
        """All questions but those about the first pictures in a random order that have `count` of them together."""
        chosen: dict[str, list[Question]] = defaultdict(list)
        latest: list[tuple[float, str]] = []
        total, limit = 0, 1.0
        for question in questions:
            _, sample, golds = question
            group = sample.group
            place = rng_for(self._spec.name, group, "examples", self._seed).random()
            if place >= limit or not golds:
                yield question
                continue
            if group not in chosen:
                heapq.heappush(latest, (-place, group))
            chosen[group].append(question)
            total += 1
            while total - len(chosen[latest[0][1]]) >= count:
                negative_place, last = heapq.heappop(latest)
                limit = -negative_place
                total -= len(chosen[last])
                yield from chosen.pop(last)
        if total < count:
            raise DataError(
                f"{self._spec.name}: only {total} questions have a known answer, so {count} cannot be set apart as "
                "examples; give a smaller number, or `all` for a benchmark of examples alone"
            )
        self.questions = [
            question for _, group in sorted(latest, reverse=True) for question in chosen[group]
        ]

    def examples(self) -> Iterator[Example]:
        """The questions set apart, with their answers. Raises DataError for a dialogue, and for a hidden answer."""
        for draft, sample, golds in self.questions:
            if sample.turns:
                raise DataError(
                    f"{draft.where}: a dialogue cannot be an example; set apart questions of one round"
                )
            if not golds:
                raise DataError(
                    f"{draft.where}: the answer is hidden, so the question cannot be an example"
                )
            [gold] = golds
            yield Example(**asdict(sample), gold=gold.options, texts=gold.texts)


OWN_FILES, BESIDE, WITH_SNELLEN = (
    "files named by the user",
    "files beside its entry",
    "Snellen itself",
)
"""The origin of a source that was not fetched."""
ANSWERS = "answers.jsonl.gz"
DEFAULT = Recipe()
StoredT = TypeVar("StoredT", bound=Stored)

Progress = Callable[[int], object]
"""Called with the number of questions built so far."""


def build_benchmark(
    spec: BenchmarkSpec,
    *,
    source: Path | None = None,
    to: Path | None = None,
    recipe: Recipe = DEFAULT,
    writer: DistractorWriter | None = None,
    embedder: PictureEmbedder | None = None,
    progress: Progress | None = None,
    limit: int | None = None,
    origin: str = "",
    decisions: Decisions = MappingProxyType({}),
    verification: Verification | None = None,
) -> Benchmark:
    """Build a benchmark from its source, replacing an earlier build of it.

    `source` is the folder with the user's files (default: the entry's own folder, if its files lie there), `to` the
    folder to create (default: under $SNELLEN_HOME). `recipe` overrides settings of the entry, `writer` writes
    distractors, `embedder` tells which pictures are alike, and `origin` tells in words where the files in `source` come
    from. With `limit`, only the samples are built that a run with this limit asks. `decisions` are kept in the folder,
    with the questions that they set apart, and `verification` in the manifest. Raises DataError naming file and line of
    the wrong rows; nothing is left behind in that case, and an earlier build stays as it was.
    """
    check_benchmark_name(spec.name)
    reader = registry.find("readers", spec.source.reader)
    target = to or benchmark_folder(spec.name)
    if target.exists() and not target.is_dir():
        raise DataError(f"{target} is a file; choose another folder")
    # Another build may be replacing the folder right now; a parent that is a file is reported below.
    with suppress(FileNotFoundError, NotADirectoryError):
        if any(target.iterdir()) and not (target / MANIFEST).exists():
            raise DataError(f"{target} exists and is not a benchmark; choose another folder")
    with staging_folder(target) as folder, _naming_entry(spec):
        stats = BuildStats()
        files = source or entry_folder(spec)
        state = source_state(spec, source)
        read: Drafts = lambda: reader(spec.source.params, files)  # noqa: E731
        sound = SoundRows(read) if recipe.lenient else None
        read = sound or read
        drafts = reformulate(spec, read, recipe, writer, stats, embedder, decisions)
        if limit is not None:
            drafts = _first_by_place(list(drafts), limit)
        apart = ExampleDrawer(recipe.examples, spec, recipe.seed)
        _write_records(decisions.values(), folder / DECISIONS)
        manifest = _write(spec, drafts, apart, folder, progress, is_part=limit is not None)
        if entry_folder(spec) and not recipe.distractors:
            _check_formulation(spec, manifest.spec.formulation)
        manifest = replace(
            manifest,
            warnings=(*manifest.warnings, *stats.notes, *(sound.note() if sound else ())),
            made=BuildInfo(
                stats.read,
                stats.complete,
                _settings(recipe),
                writer.name if writer else "",
                stats.rejected,
                stats.chance,
                limit or 0,
                origin or (OWN_FILES if source else BESIDE if files else WITH_SNELLEN),
            ),
            verification=verification,
        )
        (folder / MANIFEST).write_bytes(
            msgspec.json.format(msgspec.json.encode(manifest), indent=2)
        )
    if target == benchmark_folder(spec.name):
        keep_state(spec.name, state)
    return Benchmark(target)


@contextmanager
def _naming_entry(spec: BenchmarkSpec) -> Iterator[None]:
    """Name the entry's file where its parameters are at fault."""
    try:
        yield
    except DataError as error:
        if str(error).startswith(PARAMS):
            raise DataError(f"{entry_file(spec) or spec.name}: {error}") from None
        raise


def _check_formulation(spec: BenchmarkSpec, built: Formulation) -> None:
    if built != spec.formulation:
        forms = {"choice": "have options", "text": "have no options", "dialogue": "come in rounds"}
        raise DataError(
            f"{entry_file(spec)}: formulation = {spec.formulation!r}, but most of its questions {forms[built]}: write "
            f"{built!r}, or change what the entry names as options"
        )


def _first_by_place(drafts: Sequence[Draft], limit: int) -> Iterator[Draft]:
    """The drafts that a run with a limit asks, in order; pictures of the others are not read, their notes are kept."""
    first = set(first_samples([draft.id for draft in drafts], limit))
    notes = tuple(note for draft in drafts for note in draft.notes)
    for draft in drafts:
        if draft.id in first:
            yield replace(draft, notes=notes)
            notes = ()


def _settings(recipe: Recipe) -> dict[str, Any]:
    return {
        name: value
        for name, value in msgspec.to_builtins(recipe).items()
        if value != getattr(DEFAULT, name)
    }


def _write(
    spec: BenchmarkSpec,
    drafts: Iterable[Draft],
    apart: ExampleDrawer,
    folder: Path,
    progress: Progress | None,
    *,
    is_part: bool,
) -> BenchmarkManifest:
    checker = DraftChecker(spec, ImageStore(folder / "images"))
    digest, questions_digest = hashlib.sha256(), hashlib.sha256()
    with ExitStack() as stack:
        stack.enter_context(limited_pixels())
        samples = stack.enter_context(RecordWriter(folder / SAMPLES))
        answers = stack.enter_context(RecordWriter(folder / ANSWERS))
        histories = stack.enter_context(RecordWriter(folder / HISTORY))
        origins = stack.enter_context(RecordWriter(folder / ORIGINS))
        pictures = stack.enter_context(RecordWriter(folder / PICTURES))
        for draft, sample, golds in apart.without_examples(
            checker.without_set_apart(
                (draft, *checker.split(draft)) for draft in checker.sound(drafts)
            )
        ):
            samples.write(sample)
            for gold in golds:
                answers.write(gold)
            pictures.write(SourcePictures(sample.id, checker.names(draft)))
            if draft.replies:
                histories.write(History(sample.id, draft.replies))
            if draft.rows:
                origins.write(SourceRows(sample.id, draft.rows, draft.cells))
            digest.update(
                msgspec.json.encode((sample, golds, draft.replies), order="deterministic")
            )
            questions_digest.update(
                msgspec.json.encode((sample, draft.replies), order="deterministic")
            )
            checker.count(sample, golds, draft)
            if progress:
                progress(checker.samples)
    _write_records(checker.set_apart, folder / SET_APART)
    for example in _write_records(list(apart.examples()), folder / EXAMPLES):
        digest.update(msgspec.json.encode(example, order="deterministic"))
        checker.count_example(example)
    sort_by_group(folder / SAMPLES)
    alike = _write_indistinguishable(checker.indistinguishable(), folder / INDISTINGUISHABLE)
    if not checker.histories:
        (folder / HISTORY).unlink()
    if not checker.origins:
        (folder / ORIGINS).unlink()
    spec = replace(spec, formulation=checker.formulation())
    return BenchmarkManifest(
        FORMAT,
        spec,
        digest.hexdigest()[:16],
        checker.counts(),
        checker.warnings(is_part),
        checker.tag_counts(),
        questions=questions_digest.hexdigest()[:16],
        indistinguishable=alike,
        files={path.name: file_digest(path) for path in sorted(folder.glob(f"*{ENDING}"))},
        answer_tags=checker.answer_tags(),
    )


def _write_records(records: Collection[StoredT], path: Path) -> Collection[StoredT]:
    """The records that were written; without any there is no file."""
    if records:
        with RecordWriter(path) as rows:
            for record in records:
                rows.write(record)
    return records


def _write_indistinguishable(questions: Iterable[IndistinguishableQuestion], path: Path) -> int:
    """How many there are; without any there is no file."""
    count = 0
    with RecordWriter(path) as rows:
        for count, question in enumerate(questions, 1):  # noqa: B007
            rows.write(question)
    if not count:
        path.unlink()
    return count
