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

from snellen.callers import for_caller, setting
from snellen.catalogue import BenchmarkSpec, SourceSpec, entries, suite_members
from snellen.catalogue.entries import PromptSet
from snellen.catalogue.loading import LoadedEntry, read_entry_file
from snellen.common.foreign import read_file, read_text
from snellen.common.paths import shell_word
from snellen.errors import DataError, WrongRowsError
from snellen.fetching.hub import SCHEME, fetch_hub_table
from snellen.formats.locate import is_image
from snellen.formats.packed_files import BENCHMARK_FILE, RUN_FILE
from snellen.formats.rows import is_row_file
from snellen.recognition.answer_types import TEXT
from snellen.recognition.columns import Doubt
from snellen.recognition.dataset_folders import names_a_split, split_table
from snellen.recognition.recognising import Recognition, TableSettings, recognise

ENDING = ".toml"


def entry_path(path: Path, name: str = "") -> Path:
    """Return where the entry of a file or folder lies: beside it, under its name or the name that the user gave it.

    An entry is a TOML file that describes a benchmark.
    """
    if "*" in path.name:
        path = path.parent / path.parent.name
    stem = name.rpartition("/")[2] or (path.name if path.is_dir() or not path.suffix else path.stem)
    return path.with_name(f"{stem}{ENDING}")


def entry_of(path: Path, name: str = "") -> LoadedEntry | None:
    """Return the entry written for a file or folder, beside it or in the current folder; None if there is none.

    Raises:
        DataError: The entry cannot be read.
    """
    for entry in dict.fromkeys((entry_path(path, name), Path(entry_path(path, name).name))):
        if entry.is_file():
            loaded = read_entry_file(entry)
            if (entry.parent / _source_name(loaded.spec)).resolve() == path.resolve():
                return loaded
    return None


def _source_name(spec: BenchmarkSpec) -> str:
    """Return the file or folder with the questions, as an entry names it; empty if it names none."""
    params = spec.source.params
    files = params.get("files") or [""]
    return str(params.get("file") or files[0] or params.get("images") or "")


def _own_name(path: Path) -> str:
    return (
        path.name if path.is_dir() else path.stem.partition("*")[0].strip("-_") or path.parent.name
    )


OWN_PROMPTS = "own"
"""The name of the prompt for a user's table whose questions ask for a certain form of answer."""


def recognised_spec(
    recognition: Recognition, name: str = "", base: BenchmarkSpec | None = None
) -> BenchmarkSpec:
    """Return the entry for a file or folder that was recognised.

    Args:
        recognition: What the file or folder is.
        name: The name of the benchmark; made from the path if empty.
        base: An earlier entry, of which everything but the source is kept; None to make a new one.
    """
    path = recognition.path
    is_open = recognition.form.startswith(("open", "conversations"))
    source = SourceSpec(recognition.reader, recognition.params, embedded=True)
    if base is not None:
        return replace(base, name=name or base.name, source=source)
    prompts: dict[str, PromptSet] = {}
    if recognition.open_layout:
        prompts = {OWN_PROMPTS: PromptSet("plain", {"open": recognition.open_layout})}
    spec = BenchmarkSpec(
        name=name or _own_name(path),
        title=path.name,
        formulation="text" if is_open else "choice",
        source=source,
        metrics=recognition.metrics,
        prompts=prompts,
        templates=next(iter(prompts), ""),
    )
    return replace(spec, **recognition.facts)


def check_entry_is_free(recognition: Recognition, spec: BenchmarkSpec) -> None:
    """Raise DataError if the entry of another table lies where `write_entry` would write one.

    To be called before a build, which may replace an earlier one of the same name.
    """
    name = "" if spec.name == _own_name(recognition.path) else spec.name
    path = entry_path(recognition.path, name)
    if path.exists() and entry_of(recognition.path, name) is None:
        other = f"{recognition.path.stem}-{recognition.path.suffix.strip('.') or '2'}"
        source = shell_word(str(recognition.path))
        line = for_caller(
            f"`snellen build {source} --name {other}`",
            f"sn.build({str(recognition.path)!r}, name={other!r})",
        )
        raise DataError(f"{path} is the entry of another table; give this one another name: {line}")


def write_entry(recognition: Recognition, spec: BenchmarkSpec) -> Path:
    """Write the entry beside the source, or in the current folder where that cannot be written, and return its path.

    Raises DataError where a file of that name is the entry of another table.
    """
    check_entry_is_free(recognition, spec)
    name = "" if spec.name == _own_name(recognition.path) else spec.name
    beside = entry_path(recognition.path, name)
    for path in dict.fromkeys((beside, Path(beside.name))):
        if path is not beside and path.exists() and entry_of(recognition.path, name) is None:
            raise DataError(f"{path} is the entry of another table; rename it")
        text = _text(
            recognition, spec if path is beside else _with_whole_paths(spec, recognition.path)
        )
        try:
            if path.is_file():
                text = _with_comments(text, read_text(path))
            path.write_text(text, "utf-8")
            return path
        except OSError:
            if path is not beside:
                raise DataError(f"{path}: cannot be written; make the folder writable") from None
    return beside


def _with_whole_paths(spec: BenchmarkSpec, source: Path) -> BenchmarkSpec:
    """Return an entry that can be written to another folder than that of its data, with absolute paths."""
    params: dict[str, Any] = {}
    for name, value in spec.source.params.items():
        if name in ("file", "images"):
            value = str((source.parent / value).resolve())
        elif name == "files":
            value = [str((source.parent / file).resolve()) for file in value]
        params[name] = value
    return replace(spec, source=replace(spec.source, params=params))


def _text(recognition: Recognition, spec: BenchmarkSpec) -> str:
    """Return the text of an entry's file, with a first line about what the entry was made from."""
    first = f"# {recognition.lines()[0]}; change here what is wrong, the next build says the same"
    return f"{first}\n\n{spec.toml()}"


def _with_comments(text: str, earlier: str) -> str:
    """Return the text of an entry with the comments that the user wrote into an earlier one.

    A comment stays above, or behind, the line with which it stood. If that line is gone, it follows the first line.

    Args:
        text: The new text.
        earlier: The earlier text. Its first line is Snellen's.
    """
    comments: list[str] = []
    comments_by_line: dict[str, list[str]] = {}
    full_line_by_line: dict[str, str] = {}
    first, *lines = text.splitlines()
    for line in earlier.splitlines()[1:]:
        if line.lstrip().startswith("#"):
            comments.append(line)
        elif line.strip():
            plain = next((each for each in lines if _is_with_comment(line, each)), line)
            full_line_by_line[plain] = line
            if comments:
                comments_by_line[plain] = comments
                comments = []
    orphans = [
        comment
        for line, of_line in comments_by_line.items()
        if line not in lines
        for comment in of_line
    ]
    merged = [first, *orphans]
    for line in lines:
        merged += comments_by_line.pop(line, [])
        merged.append(full_line_by_line.pop(line, line))
    return "\n".join((*merged, *comments)) + "\n"


def _is_with_comment(line: str, plain: str) -> bool:
    """Return whether a line is another one with a comment behind it."""
    return bool(plain.strip()) and line.startswith(plain) and line[len(plain) :].lstrip()[:1] == "#"


Decide = Callable[[Path, Doubt], str]
"""Makes a choice that cannot be made automatically, usually by asking the user; raises DataError if
nobody can be asked."""


class OwnSource(Struct, frozen=True):
    """Data of the user from which a benchmark is built, with the entry that describes it."""

    spec: BenchmarkSpec
    folder: Path
    entry: str = ""
    """The file of the entry; empty if there was none and the source was recognised instead."""
    recognition: Recognition | None = None

    @property
    def origin(self) -> str:
        """The file or folder with the questions, as an absolute path."""
        if self.folder.is_file():
            return str(self.folder.resolve())
        named = _source_name(self.spec) or self.entry
        return str((self.folder / named).resolve())


def is_own(target: object) -> bool:
    """Return whether a target is data of the user, and not the name of a benchmark in the catalogue."""
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
        or names_a_split(text)
    )


def refuse_doubt(path: Path, doubt: Doubt) -> str:
    """Raise DataError that names the possible choices, with the flag by which the user can decide."""
    raise DataError(f"{path}: {doubt.line()}")


def own_source(
    target: str | Path, settings: TableSettings, name: str = "", decide: Decide = refuse_doubt
) -> OwnSource:
    """Return the source that a target names, with its entry.

    If an entry was written for the target before, it is used; otherwise the target is recognised.

    Args:
        target: A file, a folder, an entry or a dataset of the hub.
        settings: What the user says about it.
        name: The name of the benchmark; made from the target if empty.
        decide: Called for each choice that cannot be made automatically.

    Raises:
        DataError: The target cannot be built.
    """
    if str(target).startswith(SCHEME):
        return _of_hub(str(target), settings, name, decide)
    path = Path(target)
    if path.suffix.lower() == ENDING:
        return _of_entry(read_entry_file(path), path.name, settings, name)
    _check_built(path)
    if path.name in ("", ".."):  # the current folder, or the one above
        path = path.resolve()
    table = split_table(target)
    if table is not None:
        path, name = table.path, name or table.name
    written = None if settings.as_annotations else entry_of(path, name)
    of_any_entry = TableSettings(make_options=settings.make_options, keep_open=settings.keep_open)
    if written is not None and settings == of_any_entry:
        return _of_entry(written, Path(written.where).name, settings, name)
    if written is not None:
        settings = _with_entry(settings, written.spec)
    recognition = _recognised(path, settings, decide)
    spec = recognised_spec(recognition, name, written.spec if written else None)
    return _with_options(
        OwnSource(spec, recognition.path.parent, recognition=recognition), settings
    )


def _check_built(path: Path) -> None:
    """Raise DataError for a folder that is a built benchmark or a run, or that holds only these.

    A benchmark may be built into the folder of its images, which can then be built again.
    """
    folders = [path]
    if path.is_dir():
        inner = sorted(item for item in path.glob("*") if not item.name.startswith("."))
        made = [folder for folder in inner if _is_built(folder) or _is_run(folder)]
        others = [item for item in inner if item not in made]
        if not any(item.is_dir() or is_row_file(item) or is_image(item) for item in others):
            folders += made
    for folder in folders:
        if _is_built(folder):
            run = for_caller(
                f"`snellen run MODEL {shell_word(folder)}`", f"sn.evaluate(MODEL, {str(folder)!r})"
            )
            raise DataError(f"{folder} is a benchmark that is already built; run it with {run}")
        if _is_run(folder):
            show = for_caller(
                f"`snellen report {shell_word(folder)}`", f"sn.load_run({str(folder)!r})"
            )
            raise DataError(f"{folder} is a run, and no questions to build; {show} shows it")


def _is_built(folder: Path) -> bool:
    """Return whether a folder is a built benchmark."""
    return (folder / BENCHMARK_FILE).is_file()


def _is_run(folder: Path) -> bool:
    """Return whether a folder is a run."""
    return (folder / RUN_FILE).is_file() and any(folder.glob("journal-*.jsonl"))


def _of_entry(entry: LoadedEntry, where: str, settings: TableSettings, name: str) -> OwnSource:
    of_columns = replace(settings, make_options=False, as_annotations=False, keep_open=False)
    if of_columns != TableSettings():
        noun = for_caller("flags", "keywords")
        example = ""
        if settings.images:
            folder = os.path.relpath(settings.images, Path(entry.where).parent)
            example = f'; for the images, write `images = "{folder}"` under `[source.params]`'
        raise DataError(
            f"{where} says what each column is; change it there, and leave the {noun} for columns out{example}"
        )
    spec = _without_classes(entry.spec) if settings.keep_open else entry.spec
    spec = _with_metrics_of_open(spec)
    spec = replace(spec, name=name) if name else spec
    return _with_options(OwnSource(spec, Path(entry.where).parent, where), settings)


def _without_classes(spec: BenchmarkSpec) -> BenchmarkSpec:
    """Return an entry whose questions stay open although their answers are only a few classes."""
    params = {name: value for name, value in spec.source.params.items() if name != "classes"}
    return replace(spec, source=replace(spec.source, params=params))


def _with_metrics_of_open(spec: BenchmarkSpec) -> BenchmarkSpec:
    """Return an entry with the metrics of open questions if the user deleted `classes` in it.

    With `classes`, the questions were multiple choice; without them, they have no options left.
    """
    params = spec.source.params
    columns = params.get("columns", {})
    has_options = (
        params.get("classes")
        or params.get("options_in_question")
        or columns.get("options")
        or columns.get("distractors")
    )
    was_a_choice = spec.source.reader == "table" and spec.formulation == "choice"
    is_about_answers = "answer" in columns and not params.get("make_options")
    if was_a_choice and is_about_answers and not has_options and not spec.metrics:
        return replace(spec, formulation="text", metrics=TEXT.metrics)
    return spec


def _with_entry(settings: TableSettings, spec: BenchmarkSpec) -> TableSettings:
    """Return the settings completed by those of an earlier entry. What the user says now comes first."""
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
    if settings.images:
        settings = replace(settings, images=images_beside(path, settings.images))
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


def images_beside(table: Path, images: str) -> str:
    """Return the path of a folder of images as seen from the folder of a table. Raises DataError if it is missing."""
    if not Path(images).is_dir():
        raise DataError(f"{images}: no such folder of images ({setting('images')})")
    return os.path.relpath(Path(images).resolve(), table.parent.resolve())


def _with_options(source: OwnSource, settings: TableSettings) -> OwnSource:
    """Return the source with open questions turned into multiple choice, if the settings ask for it.

    Raises:
        DataError: The questions have options already.
    """
    spec = source.spec
    if not settings.make_options or spec.source.reader == "annotations":
        return source
    columns = spec.source.params.get("columns", {})
    if spec.source.reader != "table" or columns.get("options") or columns.get("distractors"):
        names = for_caller(
            "--writer, --distractors and --options", "writer, distractors and options"
        )
        raise DataError(
            f"{spec.title}: {names} make options for open questions, and these have "
            "options of their own; leave them out"
        )
    params = {**spec.source.params, "make_options": True}
    return replace(
        source, spec=replace(spec, formulation="choice", source=replace(spec.source, params=params))
    )


def _of_hub(target: str, settings: TableSettings, name: str, decide: Decide) -> OwnSource:
    table = fetch_hub_table(target)
    written = None if settings.as_annotations else entry_of(Path(table.name))
    recognition = _recognised(table.folder / table.file, settings, decide)
    recognition = replace(
        recognition,
        path=Path(name or table.name),
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
    """Write a list of dicts, a data frame or a `datasets.Dataset` as JSON lines, images in base64."""
    encoder = msgspec.json.Encoder(enc_hook=_encoded)
    with path.open("wb") as file:
        for row in _dicts(rows):
            file.write(encoder.encode(_as_own_row(row)) + b"\n")


COLUMNS_OF_BENCHMARK = frozenset(
    ["id", "round", "question", "options", "answers", "context", "images"]
)
"""Columns that `to_pandas` and `to_polars` of a benchmark always have, beside one for each tag."""


def _as_own_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row of a benchmark's data frame with the columns of a user's table; any other row unchanged.

    The images of a benchmark are files without a suffix, so the row has their content and not their
    paths.

    Raises:
        DataError: The row is a round of a dialogue, which cannot be asked without the earlier ones.
    """
    if not row.keys() >= COLUMNS_OF_BENCHMARK:
        return row
    if row["round"]:
        raise DataError(
            f"{row['id']} is a dialogue, whose rounds are no rows of their own; evaluate the benchmark itself, or its "
            "filter(...)"
        )
    own = {name: cell for name, cell in row.items() if name not in COLUMNS_OF_BENCHMARK}
    own |= {"id": row["id"], "question": row["question"]}
    if row["context"]:
        own["context"] = row["context"]
    answers = list(row["answers"])
    images = [read_file(Path(path)) for path in row["images"]]
    options = list(row["options"])
    if answers:
        own["answer"] = answers[0] if len(answers) == 1 else answers
    if images:
        own["image"] = images[0] if len(images) == 1 else images
    if options:
        own["options"] = options
    return own


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
    if hasattr(rows, "to_pylist"):  # a table of pyarrow
        return cast(Iterable[Mapping[str, Any]], rows.to_pylist())
    if isinstance(rows, Mapping):
        return _rows_of_columns(rows)
    if isinstance(rows, Sequence) and all(isinstance(row, Mapping) for row in rows):
        return rows
    raise DataError(
        f"{type(rows).__name__} is not a table; give a list of dicts, a data frame or a datasets.Dataset"
    )


def _rows_of_columns(columns: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a dict of columns. Raises DataError if these have different lengths."""
    if columns and all(_is_table(column) for column in columns.values()):
        split = next(iter(columns))
        raise DataError(
            f"a dict of tables has a table for each split ({', '.join(map(str, columns))}); give one, such as "
            f"rows[{split!r}]"
        )
    lists = [list(column) for column in columns.values() if not isinstance(column, str)]
    lengths = {len(column) for column in lists}
    if len(lists) < len(columns) or len(lengths) > 1:
        raise DataError(
            "a dict of columns needs a list of the same length for each; one row is [{'question': ...}]"
        )
    for cells in zip(*lists, strict=True):
        yield dict(zip(columns, cells, strict=True))


def _is_table(value: Any) -> bool:
    """Return whether a value is a table with rows, such as a split of a dataset, and not one column of cells."""
    if hasattr(value, "column_names") or hasattr(value, "columns"):
        return True
    is_list = isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0
    return is_list and all(isinstance(row, Mapping) and "bytes" not in row for row in value)


def _encoded(value: Any) -> Any:
    """Return a value that JSON cannot express in a form that it can: paths, images, and numbers and arrays of numpy."""
    if isinstance(value, os.PathLike):
        return str(value)
    if hasattr(value, "save") and hasattr(value, "mode"):
        content = io.BytesIO()
        value.save(content, "PNG")
        return content.getvalue()
    if getattr(value, "ndim", 0) in (2, 3) and str(getattr(value, "dtype", "")) == "uint8":
        from PIL import Image  # every command would load it

        if 0 in value.shape or (value.ndim == 3 and value.shape[2] not in (3, 4)):
            raise DataError(
                f"a cell holds an array of shape {value.shape}; the pixels of an image have height, width and 3 colours"
            )
        return _encoded(Image.fromarray(value))  # the pixels of an image
    for method in ("tolist", "item", "isoformat"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise DataError(
        f"a cell holds {type(value).__name__}, which is not a text, number, list or image"
    )


IN_MEMORY = "your rows"
"""What messages call rows in memory."""


@contextmanager
def telling_of_rows(folder: Path) -> Iterator[None]:
    """Within a `with` block, make errors about data in memory name its rows: `row 3`.

    The data is written to a temporary file in `folder`, whose path and lines would mean nothing to
    the user.

    Args:
        folder: The folder with the temporary file.
    """
    here = f"{folder / os.path.relpath(Path.cwd(), folder.resolve())}/"

    def told(text: str) -> str:
        text = re.sub(
            rf"{re.escape(str(folder))}/[^/:]+\.jsonl:(\d+)", r"row \1", text.replace(here, "")
        )
        text = re.sub(rf"{re.escape(str(folder))}/[^/:]+\.jsonl", IN_MEMORY, text)
        return text.replace(f"{folder}/", "")

    try:
        yield
    except WrongRowsError as error:
        raise WrongRowsError([told(fault) for fault in error.faults]) from None
    except DataError as error:
        if str(folder) in str(error):
            raise DataError(told(str(error))) from None
        raise
