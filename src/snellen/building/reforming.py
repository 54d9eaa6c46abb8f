"""From annotations to an entry: what they hold, which types of questions fit, and the TOML that says so."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.annotations import AnnotatedPicture
from snellen.catalogue.entries import BenchmarkSpec, SourceSpec
from snellen.catalogue.loading import entry_of_file
from snellen.drafts import Draft, read_params
from snellen.errors import DataError
from snellen.formats.toml_text import toml_text
from snellen.readers.annotations import Params, fitting_types, formed_drafts, question_types, read_pictures
from snellen.readers.annotations.recognised import recognised_annotations
from snellen.readers.question_types.declaration import AnnotatedSource
from snellen.reformulation.distractor_sources import parse_sources
from snellen.reformulation.sampling import Sampling

PER_TYPE = 500
"""Questions of each type, where nothing is said."""


class Reformed(Struct, frozen=True):
    """An entry over annotations, and what it was made of."""

    spec: BenchmarkSpec
    folder: Path
    """What its paths are relative to."""
    taken: tuple[str, ...] = ()
    """What was taken for what, in lines for a reader; empty for an entry that the user wrote."""
    text: str = ""
    """The entry's file."""

    @property
    def params(self) -> Params:
        return read_params(self.spec.source.params, Params)

    @property
    def file(self) -> Path:
        """Where its file belongs."""
        return self.folder / f"{self.spec.short}.toml"


class EntryFacts(Struct, frozen=True):
    """What a user says of a benchmark of their own."""

    name: str = ""
    title: str = ""
    licence: str = ""


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


def reformed_entry(file: Path) -> Reformed:
    """The entry that a TOML file declares. Raises DataError where it is none over annotations."""
    spec = entry_of_file(file)
    if spec.source.reader != "annotations":
        raise DataError(
            f"{file}: the reader is {spec.source.reader!r}; `snellen reform` is for the reader 'annotations'"
        )
    return Reformed(spec, file.parent)


def reform_annotations(
    target: Path,
    *,
    pictures: Path | None = None,
    ask: Sequence[str] = (),
    options: int = 4,
    distractors: str = "",
    sample: Sampling | None = None,
    seed: int = 0,
    facts: EntryFacts | None = None,
) -> Reformed:
    """The entry for a folder of classes, a COCO file or a table. Raises DataError where the annotations are not
    recognised or no type of question fits them, and UnknownNameError for a type or source that does not exist."""
    facts = facts or EntryFacts()
    parse_sources(distractors)
    question_types(tuple({"type": name} for name in ask))
    recognised = recognised_annotations(target, pictures)
    params, folder = recognised.params, recognised.folder
    if not os.access(folder, os.W_OK):  # the entry is written here, and says where they are
        places: dict[str, Any] = {name: str(folder / params[name]) for name in ("file", "pictures") if name in params}
        params, folder = {**params, **places}, Path.cwd()
    read = read_pictures(read_params(params, Params), folder)
    fitting = fitting_types(read)
    for name in ask:
        if name not in fitting:
            needs = registry.find("question_types", name).needs
            fit = f"; what fits: {', '.join(fitting)}" if fitting else ""
            raise DataError(f"{target}: {name} needs {needs}, which no picture has{fit}")
    if not fitting:
        raise DataError(f"{target}: no type of question fits these annotations; docs/reform.md says what each needs")
    chosen = list(ask) or list(fitting)
    params = {**params, "questions": [{"type": kind} for kind in chosen], **({"seed": seed} if seed else {})}
    sample = sample or Sampling("layered", each=PER_TYPE)
    spec = BenchmarkSpec(
        name=facts.name or (target.stem if target.is_file() else target.resolve().name),
        title=facts.title or f"Questions from {target.name}",
        licence=facts.licence,
        formulation="choice",
        source=SourceSpec("annotations", params, sample=sample, options=options, distractors=distractors),
    )
    taken = (f"{target}: {_summary(read)}", *recognised.lines, f"  questions  {', '.join(chosen)}")
    return Reformed(spec, folder, taken, _text(spec))


def count_types(reformed: Reformed) -> Iterator[TypeCount]:
    """What every type, or each that the entry names, gives on the source."""
    params = reformed.params
    pictures = read_pictures(params, reformed.folder)
    source = AnnotatedSource(pictures, params.seed)
    every = question_types(tuple({"type": name} for name in registry.names("question_types")))
    for name, kind in {**every, **question_types(params.questions)}.items():
        fitting = sum(map(kind.fits, pictures))
        made, left_out, example = 0, 0, ""
        for item in formed_drafts(source, {name: kind}):
            if isinstance(item, Draft):
                example = example or f"{item.rounds[0].question} {item.rounds[0].texts[0]}"
            made, left_out = made + isinstance(item, Draft), left_out + (not isinstance(item, Draft))
        yield TypeCount(name, kind.needs, fitting, made, left_out - (len(pictures) - fitting), example)


def check_entry(reformed: Reformed) -> None:
    """Raise DataError where another file stands in the place of the entry's and says otherwise."""
    file = reformed.file
    if reformed.text and file.exists() and file.read_text("utf-8") != reformed.text:
        raise DataError(
            f"{file} is there and says otherwise; `snellen reform {file}` builds it as it is, --force writes it anew"
        )


def _text(spec: BenchmarkSpec) -> str:
    source = spec.source
    content: dict[str, Any] = {"name": spec.name, "title": spec.title, "formulation": spec.formulation}
    content |= {"licence": spec.licence} if spec.licence else {}
    sample = {name: value for name, value in msgspec.to_builtins(source.sample).items() if value}
    table: dict[str, Any] = {"reader": source.reader, "options": source.options}
    table |= {"distractors": source.distractors} if source.distractors else {}
    return toml_text({**content, "source": {**table, "sample": sample, "params": source.params}})


def _summary(pictures: Sequence[AnnotatedPicture]) -> str:
    """What is annotated, in a line: 5,000 pictures, 80 classes."""
    counts = (
        ("class", "classes", len({picture.labels[0] for picture in pictures if picture.labels})),
        ("object", "objects", sum(len(picture.objects) for picture in pictures)),
        ("name of objects", "names of objects", len({o.name for picture in pictures for o in picture.objects})),
        ("relation", "relations", sum(len(picture.relations) for picture in pictures)),
        ("caption", "captions", sum(len(picture.captions) for picture in pictures)),
        ("question", "questions", sum(len(picture.questions) for picture in pictures)),
        ("text", "texts", sum(len(picture.texts) for picture in pictures)),
        ("entry", "entries", sum(len(picture.fields) for picture in pictures)),
        ("attribute", "attributes", len({name for picture in pictures for name in picture.attributes})),
    )
    said = [f"{number:,} {one if number == 1 else several}" for one, several, number in counts if number]
    return ", ".join((f"{len(pictures):,} picture{'s' * (len(pictures) > 1)}", *said))


def sampling_of(per_type: int | None, count: int | None) -> Sampling | None:
    """The sampling that a user asks for: so many of each type (0: all), or in total. Raises DataError for both."""
    if per_type is not None and count is not None:
        raise DataError("per-type and count: name one of them")
    if per_type == 0:
        return Sampling()
    if per_type is None and count is None:
        return None
    return Sampling("layered", each=per_type, count=count)


def with_seed(spec: BenchmarkSpec, seed: int) -> BenchmarkSpec:
    """The entry with another seed of what is asked for; its own where that is 0."""
    if not seed:
        return spec
    return replace(spec, source=replace(spec.source, params={**spec.source.params, "seed": seed}))
