"""What a user gives to be built: a file, a folder, an entry, a dataset of the hub, or rows in memory.

What was recognised as an entry of the catalogue's language: a TOML file beside the source, for the next build.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.catalogue import BenchmarkSpec, SourceSpec, entries, suite_members
from snellen.catalogue.entries import PromptSet, entry_text
from snellen.catalogue.loading import LoadedEntry, read_entry_file
from snellen.errors import DataError, WrongRowsError
from snellen.fetching.hub import SCHEME, fetch_hub_table
from snellen.formats.rows import is_row_file
from snellen.recognition.columns import Doubt
from snellen.recognition.recognising import Recognition, TableSettings, recognise

ENDING = ".toml"


def entry_path(path: Path, name: str = "") -> Path:
    """Where the entry of a file or folder lies: beside it, under the name that it was given."""
    if "*" in path.name:
        path = path.parent / path.parent.name
    stem = name.rpartition("/")[2] or (path.name if path.is_dir() or not path.suffix else path.stem)
    return path.with_name(f"{stem}{ENDING}")


def entry_of(path: Path, name: str = "") -> LoadedEntry | None:
    """The entry that was written for a file or folder, beside it or in the current folder; None where there is none.

    Raises DataError for one that cannot be read.
    """
    for entry in dict.fromkeys((entry_path(path, name), Path(entry_path(path, name).name))):
        if entry.is_file():
            loaded = read_entry_file(entry)
            source_file = (
                loaded.spec.source.params.get("file")
                or loaded.spec.source.params.get("images")
                or ""
            )
            if (entry.parent / str(source_file)).resolve() == path.resolve():
                return loaded
    return None


def _own_name(path: Path) -> str:
    return (
        path.name if path.is_dir() else path.stem.partition("*")[0].strip("-_") or path.parent.name
    )


OWN_PROMPTS = "own"
"""The wording of an own table whose questions ask for a form of answer."""


def recognised_spec(
    recognition: Recognition, name: str = "", base: BenchmarkSpec | None = None
) -> BenchmarkSpec:
    """The entry for what was recognised; what `base` says besides its source stays."""
    path = recognition.path
    is_open = recognition.form.startswith(("open", "conversations"))
    source = SourceSpec(recognition.reader, recognition.params, embedded=True)
    if base is not None:
        return replace(base, name=name or base.name, source=source)
    prompts: dict[str, PromptSet] = {}
    if recognition.open_layout:
        prompts = {OWN_PROMPTS: PromptSet("plain", {"open": recognition.open_layout})}
    return BenchmarkSpec(
        name=name or _own_name(path),
        title=path.name,
        formulation="text" if is_open else "choice",
        source=source,
        metrics=recognition.metrics,
        prompts=prompts,
        templates=next(iter(prompts), ""),
    )


def write_entry(recognition: Recognition, spec: BenchmarkSpec) -> Path:
    """Write the entry beside the source, or in the current folder where that cannot be written, and return its path.

    Raises DataError where a file of that name says something else.
    """
    name = "" if spec.name == _own_name(recognition.path) else spec.name
    beside = entry_path(recognition.path, name)
    for path in dict.fromkeys((beside, Path(beside.name))):
        if path.exists() and entry_of(recognition.path, name) is None:
            raise DataError(f"{path} is there and says something else; rename it, or the table")
        text = _text(
            recognition, spec if path is beside else _with_whole_paths(spec, recognition.path)
        )
        try:
            path.write_text(text, "utf-8")
            return path
        except OSError:
            if path is not beside:
                raise DataError(f"{path}: cannot be written; make the folder writable") from None
    return beside


def _with_whole_paths(spec: BenchmarkSpec, source: Path) -> BenchmarkSpec:
    """The entry for another folder than that of its source."""
    params = {
        name: str((source.parent / value).resolve()) if name in ("file", "images") else value
        for name, value in spec.source.params.items()
    }
    return replace(spec, source=replace(spec.source, params=params))


def _text(recognition: Recognition, spec: BenchmarkSpec) -> str:
    """The entry, with a line on what it was made of."""
    first = f"# {recognition.lines()[0]}; change here what is wrong, the next build says the same"
    return f"{first}\n\n{entry_text(spec)}"


Decide = Callable[[Path, Doubt], str]
"""Chooses where something cannot be told; raises DataError where nobody can be asked."""


class OwnSource(Struct, frozen=True):
    """What is built, and from where."""

    spec: BenchmarkSpec
    folder: Path
    entry: str = ""
    """The entry that says so; empty where it was recognised now."""
    recognition: Recognition | None = None


def is_own(target: object) -> bool:
    """Whether a target is the user's own rather than a name of the catalogue."""
    if not isinstance(target, (str, Path)):
        return not isinstance(target, BenchmarkSpec)
    text, path = str(target), Path(target)
    if text in entries() or text in suite_members():
        return False
    return (
        text.startswith(SCHEME)
        or path.suffix.lower() == ENDING
        or is_row_file(path)
        or path.exists()
    )


def refuse_doubt(path: Path, doubt: Doubt) -> str:
    """Raise DataError that names the choices with the flag that decides."""
    raise DataError(f"{path}: {doubt.line()}")


def own_source(
    target: str | Path, settings: TableSettings, name: str = "", decide: Decide = refuse_doubt
) -> OwnSource:
    """The entry of a target, or what it is recognised as. Raises DataError."""
    if str(target).startswith(SCHEME):
        return _of_hub(str(target), settings, name, decide)
    path = Path(target)
    if path.suffix.lower() == ENDING:
        return _of_entry(read_entry_file(path), path.name, settings, name)
    written = None if settings.as_annotations else entry_of(path, name)
    if written is not None and settings == TableSettings(make_options=settings.make_options):
        return _of_entry(written, Path(written.where).name, settings, name)
    if written is not None:
        settings = _with_entry(settings, written.spec)
    recognition = _recognised(path, settings, decide)
    spec = recognised_spec(recognition, name, written.spec if written else None)
    return _with_options(
        OwnSource(spec, recognition.path.parent, recognition=recognition), settings
    )


def _of_entry(entry: LoadedEntry, where: str, settings: TableSettings, name: str) -> OwnSource:
    if replace(settings, make_options=False, as_annotations=False) != TableSettings():
        raise DataError(
            f"{where} says what each column is; change it there, and leave the flags for columns out"
        )
    spec = replace(entry.spec, name=name) if name else entry.spec
    return _with_options(OwnSource(spec, Path(entry.where).parent, where), settings)


def _with_entry(settings: TableSettings, spec: BenchmarkSpec) -> TableSettings:
    """What an entry says, but for what is said now."""
    params = spec.source.params
    columns = params.get("columns", {})
    before = {
        role: [names]
        if isinstance(names, str)
        else list(names.values() if isinstance(names, dict) else names)
        for role, names in columns.items()
        if role != "unused"
    }
    return replace(
        settings,
        columns={**before, **settings.columns},
        answer_is=settings.answer_is or params.get("answer_is", ""),
        images=settings.images or params.get("images", ""),
    )


def _recognised(path: Path, settings: TableSettings, decide: Decide) -> Recognition:
    settings = replace(settings, images=_relative(settings.images, path))
    while True:
        recognition = recognise(path, settings)
        if not recognition.doubts:
            return recognition
        doubt = recognition.doubts[0]
        choice = decide(path, doubt)
        if doubt.role == "answer_is":
            settings = replace(settings, answer_is=choice)
        else:
            settings = replace(
                settings, columns={**settings.columns, doubt.role: choice.split(" + ")}
            )


def _relative(images: str, path: Path) -> str:
    """A folder of pictures as it is seen from the table's."""
    if not images:
        return ""
    if not Path(images).is_dir():
        raise DataError(f"{images}: there is no such folder of pictures (--images)")
    return os.path.relpath(Path(images).resolve(), path.parent.resolve())


def _with_options(source: OwnSource, settings: TableSettings) -> OwnSource:
    """The source whose open questions become multiple choice, where that is asked for."""
    spec = source.spec
    if not settings.make_options or spec.source.reader == "annotations":
        return source
    columns = spec.source.params.get("columns", {})
    if spec.source.reader != "table" or columns.get("options") or columns.get("distractors"):
        raise DataError(
            f"{spec.title}: --writer, --distractors and --options make options for open questions, and these have "
            "options of their own; leave them out"
        )
    params = {**spec.source.params, "make_options": True}
    return replace(
        source, spec=replace(spec, formulation="choice", source=replace(spec.source, params=params))
    )


def _of_hub(target: str, settings: TableSettings, name: str, decide: Decide) -> OwnSource:
    table = fetch_hub_table(target)
    written = (
        None if settings.as_annotations else entry_of(Path(table.place.repo.rpartition("/")[2]))
    )
    recognition = _recognised(table.folder / table.file, settings, decide)
    recognition = replace(
        recognition,
        path=Path(name or table.place.repo.rpartition("/")[2]),
        params={**recognition.params, "file": table.file},
    )
    spec = recognised_spec(recognition, name, written.spec if written else None)
    place = replace(table.place, reader=recognition.reader)
    source = replace(spec.source, embedded=False, places=(place,))
    return _with_options(
        OwnSource(
            replace(spec, title=target, source=source), table.folder, recognition=recognition
        ),
        settings,
    )


# --- rows in memory ---------------------------------------------------------------------------------------------------


def write_rows(rows: Any, path: Path) -> None:
    """Write a list of dicts, a data frame or a `datasets.Dataset` as JSON lines, pictures in base64."""
    encoder = msgspec.json.Encoder(enc_hook=_encoded)
    with path.open("wb") as file:
        for row in _dicts(rows):
            file.write(encoder.encode(row) + b"\n")


def _dicts(rows: Any) -> Iterable[Mapping[str, Any]]:
    if hasattr(rows, "cast_column") and hasattr(rows, "features"):
        import datasets

        for name, feature in rows.features.items():
            if isinstance(feature, datasets.Image):
                rows = rows.cast_column(name, datasets.Image(decode=False))
        classes = {n: f for n, f in rows.features.items() if isinstance(f, datasets.ClassLabel)}
        return (
            {**row, **{n: f.int2str(row[n]) for n, f in classes.items() if row[n] is not None}}
            for row in rows
        )
    if hasattr(rows, "to_dicts"):
        return cast(Iterable[Mapping[str, Any]], rows.to_dicts())
    if hasattr(rows, "to_dict") and hasattr(rows, "columns"):
        return cast(Iterable[Mapping[str, Any]], rows.to_dict("records"))
    if isinstance(rows, Sequence) and all(isinstance(row, Mapping) for row in rows):
        return rows
    raise DataError(
        f"{type(rows).__name__} is not a table; give a list of dicts, a data frame or a datasets.Dataset"
    )


def _encoded(value: Any) -> Any:
    """What JSON has no form for: paths, pictures, numbers and arrays of numpy."""
    if isinstance(value, os.PathLike):
        return str(value)
    if hasattr(value, "save") and hasattr(value, "mode"):
        content = io.BytesIO()
        value.save(content, "PNG")
        return content.getvalue()
    for method in ("tolist", "item", "isoformat"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise DataError(
        f"a cell holds {type(value).__name__}, which is not a text, number, list or picture"
    )


@contextmanager
def telling_of_rows(folder: Path) -> Iterator[None]:
    """Errors name rows in memory by their numbers, and not by lines of the file in `folder` that they stand in."""
    here = f"{folder / os.path.relpath(Path.cwd(), folder.resolve())}/"

    def told(text: str) -> str:
        text = re.sub(
            rf"{re.escape(str(folder))}/[^/:]+\.jsonl:(\d+)", r"row \1", text.replace(here, "")
        )
        return text.replace(f"{folder}/", "")

    try:
        yield
    except WrongRowsError as error:
        raise WrongRowsError([told(fault) for fault in error.faults]) from None
    except DataError as error:
        if str(folder) in str(error):
            raise DataError(told(str(error))) from None
        raise
