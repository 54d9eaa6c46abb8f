"""From annotations to an entry: which types of questions are made of them, and how many are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.building.spec import ReformSpec
from snellen.catalogue.entries import BenchmarkSpec
from snellen.common.drafts import AnnotatedPicture, Draft, read_params
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
from snellen.reformulation.distractors import parse_sources
from snellen.reformulation.sampling import Sampling

PER_TYPE = 500
"""Questions of each type, where nothing is said."""


class TypeCount(Struct, frozen=True):
    """What a type of questions gives on a source."""

    name: str
    needs: str
    pictures: int
    """Pictures that have what it needs."""
    questions: int
    left_out: int
    """Questions that cannot be asked without doubt, where the picture has what it needs."""
    example: str


def reform_source(
    target: str | Path, spec: ReformSpec, *, decide: Decide = refuse_doubt
) -> tuple[OwnSource, str]:
    """Return annotations with the questions that are made of them, and a line that sums up what is annotated.

    An entry that an earlier call wrote for the target applies unless the user says something else now; with `force` it
    is ignored. The line is empty if an entry says everything.

    Raises:
        DataError: The target cannot be read, no type of question fits it, or an earlier entry says otherwise.
        UnknownNameError: A type of question or a source of distractors does not exist.
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
                f"{path}: says itself what is {', '.join(spec.in_entry)}; change it there"
            )
        source = own_source(written.where if written else path, table, spec.name)
        reader = source.spec.source.reader
        if reader != "annotations":
            raise DataError(
                f"{source.entry}: the reader is {reader!r}; `snellen reform` is for annotations"
            )
        return replace(source, spec=with_seed(source.spec, spec.seed)), ""

    source = own_source(target, replace(table, as_annotations=True), spec.name, decide)
    entry, summary = reformed_entry(source.spec, source.folder, spec)
    if written and written.spec != replace(entry, name=written.spec.name):
        raise DataError(
            f"{written.where} is there and says otherwise; `snellen reform {written.where}` builds it as it is, "
            "--force writes it anew"
        )
    return replace(source, spec=entry), summary


def with_questions(source: OwnSource) -> OwnSource:
    """A source that was recognised as annotations, with all types of questions that fit; any other as it is."""
    if not source.recognition or source.recognition.kind != "annotations":
        return source
    entry, _ = reformed_entry(source.spec, source.folder, ReformSpec())
    return replace(source, spec=entry)


def reformed_entry(
    spec: BenchmarkSpec, folder: Path, settings: ReformSpec
) -> tuple[BenchmarkSpec, str]:
    """The entry of recognised annotations with its questions, and what is annotated in a line.

    Raises DataError where no type of question fits them, and UnknownNameError for a type or source that does not exist.
    """
    parse_sources(settings.distractors)
    question_types(tuple({"type": name} for name in settings.ask))
    pictures, _ = read_pictures(read_params(spec.source.params, Params), folder)
    fitting = fitting_types(pictures)
    for name in settings.ask:
        if name not in fitting:
            needs = registry.find("question_types", name).needs
            fit = f"; what fits: {', '.join(fitting)}" if fitting else ""
            raise DataError(f"{spec.title}: {name} needs {needs}, which no picture has{fit}")
    if not fitting:
        raise DataError(
            f"{spec.title}: no type of question fits these annotations; docs/reform.md says what each needs"
        )
    chosen = settings.ask or tuple(fitting)
    source = replace(
        spec.source,
        embedded=False,
        params={
            **spec.source.params,
            "questions": [{"type": kind} for kind in chosen],
            **({"seed": settings.seed} if settings.seed else {}),
        },
        sample=settings.sampling or Sampling("layered", each=PER_TYPE),
        options=settings.options or spec.source.options,
        distractors=settings.distractors,
    )
    title, licence = settings.title or f"Questions from {spec.title}", settings.licence
    reformed = replace(spec, title=title, licence=licence, formulation="choice", source=source)
    return reformed, f"{_summary(pictures)}; questions: {', '.join(chosen)}"


def count_types(spec: BenchmarkSpec, folder: Path) -> Iterator[TypeCount]:
    """What every type, or each that the entry names, gives on the source."""
    params = read_params(spec.source.params, Params)
    pictures, _ = read_pictures(params, folder)
    source = AnnotatedSource(pictures, params.seed)
    every = question_types(tuple({"type": name} for name in registry.names("question_types")))
    for name, kind in {**every, **question_types(params.questions)}.items():
        fitting = sum(map(kind.fits, pictures))
        n_made, left_out, example = 0, 0, ""
        for item in formed_drafts(source, {name: kind}):
            if isinstance(item, Draft):
                example = example or f"{item.rounds[0].question} {item.rounds[0].texts[0]}"
            n_made, left_out = (
                n_made + isinstance(item, Draft),
                left_out + (not isinstance(item, Draft)),
            )
        yield TypeCount(
            name, kind.needs, fitting, n_made, left_out - (len(pictures) - fitting), example
        )


def _summary(pictures: Sequence[AnnotatedPicture]) -> str:
    """What is annotated, in a line: 5,000 pictures, 80 classes."""
    counts = (
        ("class", "classes", len({picture.labels[0] for picture in pictures if picture.labels})),
        ("object", "objects", sum(len(picture.objects) for picture in pictures)),
        (
            "name of objects",
            "names of objects",
            len({o.name for picture in pictures for o in picture.objects}),
        ),
        ("relation", "relations", sum(len(picture.relations) for picture in pictures)),
        ("caption", "captions", sum(len(picture.captions) for picture in pictures)),
        ("question", "questions", sum(len(picture.questions) for picture in pictures)),
        ("text", "texts", sum(len(picture.texts) for picture in pictures)),
        ("entry", "entries", sum(len(picture.fields) for picture in pictures)),
        (
            "attribute",
            "attributes",
            len({name for picture in pictures for name in picture.attributes}),
        ),
    )
    phrases = [
        f"{number:,} {singular if number == 1 else several}"
        for singular, several, number in counts
        if number
    ]
    return ", ".join((f"{len(pictures):,} picture{'s' * (len(pictures) > 1)}", *phrases))


def with_seed(spec: BenchmarkSpec, seed: int) -> BenchmarkSpec:
    """The entry with another seed of what is asked for; its own where that is 0."""
    if not seed:
        return spec
    return replace(spec, source=replace(spec.source, params={**spec.source.params, "seed": seed}))
