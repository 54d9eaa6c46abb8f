"""Make a benchmark entry from annotations: choose the types of questions, and how many are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.building.spec import ReformSpec
from snellen.callers import for_caller, setting
from snellen.catalogue.entries import BenchmarkSpec
from snellen.catalogue.loading import LoadedEntry
from snellen.common.drafts import AnnotatedImage, Draft, read_params
from snellen.errors import DataError
from snellen.readers.annotations import (
    Params,
    fitting_types,
    formed_drafts,
    question_types,
    read_pictures,
)
from snellen.readers.question_types import AnnotatedSource
from snellen.recognition.own_sources import (
    ENDING,
    Decide,
    OwnSource,
    entry_of,
    own_source,
    refuse_doubt,
)
from snellen.recognition.recognising import TableSettings
from snellen.reformulation.distractor_sources import parse_sources
from snellen.reformulation.sampling import Sampling

DEFAULT_QUESTIONS_PER_TYPE = 500


class TypeCount(Struct, frozen=True):
    """How many questions of one type can be made from the annotations of a source."""

    name: str
    needs: str
    images: int
    """Images with the annotations that the type needs."""
    questions: int
    left_out: int
    """Number of questions that were left out although the image has the annotations, for example
    because the answer would be ambiguous.
    """
    example: str


def reform_source(
    target: str | Path, spec: ReformSpec, *, decide: Decide = refuse_doubt
) -> tuple[OwnSource, str]:
    """Find image annotations, and choose the types of questions that are made from them.

    An earlier call may have written its choice to a benchmark entry (a TOML file). That entry is
    used again if the user gives no settings now. `force` ignores it.

    Args:
        target: A file or folder with annotations, the name of a dataset on a hub, or an entry.
        spec: The user's settings.
        decide: Function that is asked if the content of a file can be understood in several ways.

    Returns:
        The annotations with the entry of the benchmark to build, and a line that summarises the
        annotations. The line is empty if an existing entry is used.

    Raises:
        DataError: The target cannot be read, no type of question fits it, or an earlier entry has
            other settings.
        UnknownNameError: A type of question or a source of wrong options does not exist.
    """
    path = Path(target)
    is_entry = path.suffix == ENDING
    written = None if spec.force or is_entry else entry_of(path, spec.name)
    table = TableSettings(
        columns={role: list(names) for role, names in spec.columns.items()}, images=spec.images
    )
    is_changed = bool(spec.in_entry) or table != TableSettings()
    if is_entry or (written and not is_changed):
        if spec.in_entry:
            raise DataError(
                f"{path} already defines {', '.join(spec.in_entry)}; edit that file instead"
            )
        source = own_source(written.where if written else path, table, spec.name)
        reader = source.spec.source.reader
        if reader != "annotations":
            verb = for_caller("`snellen reform`", "reform")
            raise DataError(
                f"{source.entry}: the reader is {reader!r}, but {verb} needs annotations"
            )
        return replace(source, spec=with_seed(source.spec, spec.seed)), ""

    source = own_source(target, replace(table, as_annotations=True), spec.name, decide)
    entry, summary = reformed_entry(source.spec, source.folder, spec)
    if written and not _has_no_user_changes(written, source, entry):
        again = for_caller(f"`snellen reform {written.where}`", f"sn.reform({written.where!r})")
        raise DataError(
            f"{written.where} exists and differs; {again} builds it as it is, "
            f"{setting('force', True)} overwrites it"
        )
    return replace(source, spec=entry), summary


def _has_no_user_changes(written: LoadedEntry, source: OwnSource, entry: BenchmarkSpec) -> bool:
    """Return whether an earlier benchmark entry can be overwritten without losing a change that the user made to it.

    This is so if the earlier entry equals the new one, or is what Snellen writes without any settings.

    Args:
        written: The earlier entry.
        source: The annotations.
        entry: The new entry.
    """
    earlier = _normalised_entry(written.spec, Path(written.where).parent)
    default, _ = reformed_entry(source.spec, source.folder, ReformSpec())
    for spec in (entry, default):
        with_earlier_name = replace(spec, name=earlier.name)
        if earlier == _normalised_entry(with_earlier_name, source.folder):
            return True
    return False


def _normalised_entry(spec: BenchmarkSpec, folder: Path) -> BenchmarkSpec:
    """Return a benchmark entry in a uniform form, so that two entries with the same meaning are
    equal.

    Paths become absolute, and question types become tables: `"count"` becomes `{"type": "count"}`.

    Args:
        spec: The entry.
        folder: The folder that its paths are relative to.
    """
    params = dict(spec.source.params)
    for name in ("file", "images"):
        if params.get(name):
            params[name] = str((folder / params[name]).resolve())
    question_tables = []
    for declared in params.get("questions", ()):
        question_tables.append({"type": declared} if isinstance(declared, str) else declared)
    params["questions"] = question_tables
    return replace(spec, source=replace(spec.source, params=params))


def with_questions(source: OwnSource) -> OwnSource:
    """Return a source of image annotations with all types of questions that can be made from them.

    Any other source is returned unchanged.
    """
    if not source.recognition or source.recognition.kind != "annotations":
        return source
    entry, _ = reformed_entry(source.spec, source.folder, ReformSpec())
    return replace(source, spec=entry)


def reformed_entry(
    spec: BenchmarkSpec, folder: Path, settings: ReformSpec
) -> tuple[BenchmarkSpec, str]:
    """Make a benchmark entry from image annotations: choose the types of questions and how many are drawn.

    Args:
        spec: The entry of the annotations.
        folder: The folder with the annotations.
        settings: What the user chose. By default, all types of questions that fit are used.

    Returns:
        The entry, and a line that summarises the annotations.

    Raises:
        DataError: No type of question fits the annotations.
        UnknownNameError: A type of question or a source of wrong options does not exist.
    """
    parse_sources(settings.distractors)
    question_types(tuple({"type": name} for name in settings.ask))
    images, _ = read_pictures(read_params(spec.source.params, Params), folder)
    fitting = fitting_types(images)
    for name in settings.ask:
        if name not in fitting:
            needs = registry.find_registered("question_types", name).needs
            fit = f"; types that fit: {', '.join(fitting)}" if fitting else ""
            raise DataError(f"{spec.title}: {name} needs {needs}, which no image has{fit}")
    if not fitting:
        raise DataError(
            f"{spec.title}: no question type fits these annotations; docs/reform.md lists what each type needs"
        )
    chosen = settings.ask or tuple(fitting)
    params = {**spec.source.params, "questions": [{"type": kind} for kind in chosen]}
    if settings.seed:
        params["seed"] = settings.seed
    source = replace(
        spec.source,
        embedded=False,
        params=params,
        sample=settings.sampling or Sampling("layered", each=DEFAULT_QUESTIONS_PER_TYPE),
        options=settings.options or spec.source.options,
        distractors=settings.distractors,
    )
    title = settings.title or f"Questions from {spec.title}"
    reformed = replace(
        spec, title=title, licence=settings.licence, formulation="choice", source=source
    )
    return reformed, f"{_summary(images)}; questions: {', '.join(chosen)}"


def count_types(spec: BenchmarkSpec, folder: Path) -> Iterator[TypeCount]:
    """Count how many questions of each type can be made from the annotations in a folder.

    Args:
        spec: The benchmark entry. Question types that it declares are counted with the settings
            that it gives them, all others with their defaults.
        folder: The folder with the annotations.

    Yields:
        The counts of a type, and an example of its questions.
    """
    params = read_params(spec.source.params, Params)
    images, _ = read_pictures(params, folder)
    source = AnnotatedSource(images, params.seed)
    types = question_types(tuple({"type": name} for name in registry.names("question_types")))
    types = {**types, **question_types(params.questions)}
    for name, question_type in types.items():
        n_fitting_images = sum(question_type.fits(image) for image in images)
        n_questions = 0
        n_rejected = 0
        example = ""
        for item in formed_drafts(source, {name: question_type}):
            if not isinstance(item, Draft):
                n_rejected += 1
                continue
            n_questions += 1
            if not example:
                question = item.rounds[0]
                example = f"{question.question} {question.texts[0]}"
        # Each image without the needed annotations was rejected once, which is not a question left out.
        n_unfitting_images = len(images) - n_fitting_images
        yield TypeCount(
            name=name,
            needs=question_type.needs,
            images=n_fitting_images,
            questions=n_questions,
            left_out=n_rejected - n_unfitting_images,
            example=example,
        )


def _summary(images: Sequence[AnnotatedImage]) -> str:
    """Summarise annotations in a line, such as `5,000 images, 80 classes`."""
    classes: set[str] = set()
    object_names: set[str] = set()
    attributes: set[str] = set()
    for image in images:
        classes.update(image.labels[:1])
        object_names.update(annotated.name for annotated in image.objects)
        attributes.update(image.attributes)
    counts = (
        ("class", "classes", len(classes)),
        ("object", "objects", sum(len(image.objects) for image in images)),
        ("name of objects", "names of objects", len(object_names)),
        ("relation", "relations", sum(len(image.relations) for image in images)),
        ("caption", "captions", sum(len(image.captions) for image in images)),
        ("question", "questions", sum(len(image.questions) for image in images)),
        ("text", "texts", sum(len(image.texts) for image in images)),
        ("entry", "entries", sum(len(image.fields) for image in images)),
        ("attribute", "attributes", len(attributes)),
    )
    phrases = [f"{len(images):,} {'images' if len(images) > 1 else 'image'}"]
    for singular, plural, number in counts:
        if number:
            phrases.append(f"{number:,} {singular if number == 1 else plural}")
    return ", ".join(phrases)


def with_seed(spec: BenchmarkSpec, seed: int) -> BenchmarkSpec:
    """Return the entry with another seed for drawing questions; unchanged if the seed is 0."""
    if not seed:
        return spec
    params = {**spec.source.params, "seed": seed}
    return replace(spec, source=replace(spec.source, params=params))
