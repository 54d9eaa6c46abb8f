"""A next version of a benchmark: new questions by the same recipe, about pictures that no version has shown before."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from snellen.building.benchmark import MANIFEST, USED, Benchmark, EarlierVersion
from snellen.building.builder import Progress, build_benchmark
from snellen.building.recipe import Decisions, DistractorWriter, Drafts, Recipe
from snellen.catalogue import BenchmarkSpec, Expected, entry_folder
from snellen.common.drafts import (
    Draft,
    ImageFile,
    LazyFrames,
    LazyImage,
    PictureSpec,
    picture_bytes,
)
from snellen.common.drawing import image_content
from snellen.common.paths import as_word, benchmark_folder
from snellen.errors import DataError
from snellen.formats.record_files import RecordWriter, read_records
from snellen.records import Sample, UsedKey
from snellen.reformulation.sampling import Rule, Sampling
from snellen.registry import find


class UsedData:
    """What earlier versions have used; it lets through drafts that share nothing with it, and learns what is drawn."""

    def __init__(self, earlier: tuple[EarlierVersion, ...]) -> None:
        self.earlier = earlier
        self._used = set[str]()
        self._digests: dict[str | bytes | Path, str] = {}
        self._offered: list[frozenset[str]] = []

    @property
    def left(self) -> int:
        """How many of the drafts that were let through last are still unused."""
        return sum(self._used.isdisjoint(keys) for keys in self._offered)

    def add_version(self, benchmark: Benchmark, drafts: Iterable[Draft]) -> None:
        """Learn what a version shows, and which files of the source that was cut from."""
        if path := benchmark.part(USED):
            self._used.update(row.key for row in read_records(path, UsedKey))
            return
        examples = benchmark.examples() if benchmark.manifest.counts.examples else []
        apart = (question.sample for question in benchmark.set_apart())
        digests: dict[str, set[str]] = {}
        for sample in (*benchmark.samples(), *examples, *apart):
            self._used.update(_keys_of_sample(sample))
            digests[sample.id] = {image.digest for image in sample.images}
        for draft in drafts:
            for image in draft.images if draft.id in digests else ():
                if _is_cut_to(image, digests[draft.id], draft.where):
                    self._used.add(self._digest(image, draft.where))

    def unused(self, drafts_of_source: Drafts) -> Drafts:
        """The source without what was used before; notes of drafts that are passed over go with the next one."""
        before = frozenset(self._used)

        def read() -> Iterator[Draft]:
            self._offered = []
            notes: tuple[str, ...] = ()
            for draft in drafts_of_source():
                keys = self._keys(draft)
                if before.isdisjoint(keys):
                    self._offered.append(keys)
                    yield replace(draft, notes=(*notes, *draft.notes)) if notes else draft
                    notes = ()
                else:
                    notes = (*notes, *draft.notes)

        return read

    def noting(self, drafts: Iterable[Draft], path: Path) -> Iterator[Draft]:
        """The drafts as they come; at the end all that was used stands in a file."""
        for draft in drafts:
            self._used.update(self._keys(draft))
            yield draft
        with RecordWriter(path) as rows:
            for key in sorted(self._used):
                rows.write(UsedKey(key))

    def _keys(self, draft: Draft) -> frozenset[str]:
        """A draft is known by its group and by the content of its pictures' files; by its text where it has neither."""
        keys = {f"group {draft.group}"} if draft.group else set[str]()
        keys.update(self._digest(image, draft.where) for image in draft.images)
        return frozenset(keys or {_text_key(draft.rounds[0].question, draft.context)})

    def _digest(self, image: ImageFile | PictureSpec | LazyFrames, where: str) -> str:
        """What the file of a picture is known by; each file is read once, however many questions it has."""
        if isinstance(image, LazyFrames):
            return f"clip {image.place}"
        file = image.file if isinstance(image, PictureSpec) else image
        name = file.place if isinstance(file, LazyImage) else file
        if name not in self._digests:
            self._digests[name] = (
                f"picture {hashlib.sha256(picture_bytes(file, where)).hexdigest()}"
            )
        return self._digests[name]


def _keys_of_sample(sample: Sample) -> Iterator[str]:
    """What a built question is known by: a picture that was stored as its file was has the file's digest."""
    yield from (f"group {sample.group}", *(f"picture {image.digest}" for image in sample.images))
    if not sample.images:
        yield _text_key(sample.rounds[0].question, sample.context)


def _is_cut_to(image: ImageFile | PictureSpec | LazyFrames, digests: set[str], where: str) -> bool:
    """Whether a picture of the source, cut and drawn upon, is one that was shown: its id alone may be a line's number,
    and stand for something else in a file that has changed. A clip is known by its place."""
    if isinstance(image, PictureSpec) and (image.crop or image.outlines):
        return hashlib.sha256(image_content(image, where)).hexdigest() in digests
    return isinstance(image, LazyFrames)


def _text_key(question: str, context: str | None) -> str:
    return f"text {hashlib.sha256(msgspec.json.encode((question, context))).hexdigest()}"


def next_name(benchmark: Benchmark) -> str:
    """What the next version is called: `mine-2` after `mine`."""
    versions = (*benchmark.manifest.made.earlier, EarlierVersion(benchmark.name, ""))
    return f"{versions[0].name}-{len(versions) + 1}"


def check_is_new(name: str, folder: Path) -> None:
    """Raise DataError where a version has been built."""
    if (folder / MANIFEST).exists():
        raise DataError(f"{name} is built already; refresh that one (--refresh {as_word(name)})")


def refreshed(
    benchmark: Benchmark,
    *,
    to: Path,
    source: Path | None = None,
    count: int | None = None,
    writer: DistractorWriter | None = None,
    progress: Progress | None = None,
    decisions: Decisions = MappingProxyType({}),
) -> Benchmark:
    """Build the next version of a benchmark, `mine-2` after `mine`, from data that no version has used.

    It is drawn by the same recipe, as many questions as were drawn for `benchmark` unless `count` says otherwise; of a
    benchmark that took all there was, all that is new. `source` is the folder with its files. The manifest keeps the
    chain of versions, the folder what all of them have used, so that earlier ones need not be kept. Raises DataError
    where too little is left, naming how much.
    """
    old, info = benchmark.spec, benchmark.manifest.made
    if info.limit:
        raise DataError(
            f"{old.name} was built in part (a limit of {info.limit:,}); build it whole, then refresh it"
        )
    earlier = (*info.earlier, EarlierVersion(old.name, benchmark.manifest.version))
    name = next_name(benchmark)
    files = source or _files_of(old)
    reader: Callable[..., Iterable[Draft]] = find("readers", old.source.reader)
    used = UsedData(earlier)
    used.add_version(benchmark, reader(old.source.params, files))
    recipe = msgspec.convert(info.recipe, Recipe)
    rule = old.source.sample if recipe.sample is None else recipe.sample
    counts = benchmark.manifest.counts
    size = counts.samples + counts.examples + sum(1 for _ in benchmark.set_apart())
    sampling = _as_many(rule, size, count)
    _check_left(
        name,
        earlier,
        sum(1 for _ in used.unused(lambda: reader(old.source.params, files))()),
        sampling.count,
    )
    next_spec = replace(
        old,
        name=name,
        source=replace(old.source, drawn_with=""),
        expected=Expected(),
        complete=Expected(),
    )
    return build_benchmark(
        next_spec,
        source=files,
        to=to,
        recipe=replace(recipe, sample=sampling),
        writer=writer,
        progress=progress,
        origin=info.origin,
        used=used,
        decisions=decisions,
    )


def _files_of(spec: BenchmarkSpec) -> Path | None:
    """Where a benchmark's files are, when nobody says so."""
    if spec.source.reader == "built":
        return benchmark_folder(spec.source.params["of"])
    return entry_folder(spec)


def _as_many(rule: Sampling, size: int, count: int | None) -> Sampling:
    """The rule for as many samples as before: a share of what is left would be ever fewer."""
    if count is None and (rule.rule == "all" or rule.each):
        return replace(rule, keep_below=0)
    others: dict[Rule, Rule] = {"all": "balanced", "equidistant": "random"}
    return Sampling(others.get(rule.rule, rule.rule), count=count or size)


def _check_left(
    name: str, earlier: tuple[EarlierVersion, ...], unused: int, count: int | None
) -> None:
    versions = ", ".join(version.name for version in earlier)
    if not unused:
        raise DataError(f"{name}: {versions} used all pictures of the source; add pictures to it")
    if count is not None and unused < count:
        raise DataError(
            f"{name} takes {count:,} questions, and {unused:,} are left that {versions} did not use; take fewer "
            f"(--count {unused}), or add pictures"
        )
