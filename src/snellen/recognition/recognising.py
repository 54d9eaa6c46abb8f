"""Recognise a file or folder as questions, conversations or annotations, and choose the reader that builds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct, field
from msgspec.structs import replace

from snellen.callers import setting
from snellen.common.answer_forms import ANSWER_FORM_DESCRIPTIONS
from snellen.errors import DataError
from snellen.formats.json_files import read_json_value
from snellen.formats.listed_questions import split_listed
from snellen.formats.locate import ImageFinder, is_image, name_in_words, splits_in
from snellen.formats.message_parts import single_exchange
from snellen.formats.rows import is_row_file, read_rows
from snellen.formats.suffixes import SHEET, SUFFIXES
from snellen.formats.text_encoding import text_encoding
from snellen.formats.xlsx import filled_sheets
from snellen.recognition.answer_types import TEXT, YES_OR_NO, answer_type
from snellen.recognition.columns import Doubt, Roles, usual_names
from snellen.recognition.exported_benchmarks import ExportedBenchmark, read_exported
from snellen.recognition.folding import as_text
from snellen.recognition.named_option import named_option
from snellen.recognition.profiles import image_folder, image_kind, share_there
from snellen.recognition.tables import ANSWER_TAG, MESSAGES, TableRoles, accepted_texts, table_roles

Kind = Literal["questions", "conversations", "annotations"]
FILE_NAME = "file-name"
"""In place of a column of labels: the name of an image's file says what it shows."""
MOST_SHOWN = 8
"""Maximum number of columns without a role to name in messages."""
NAMES_LOOKED_UP = 200
"""Number of names of images to look for in folders."""


class Recognition(Struct, frozen=True, kw_only=True):
    """What a file or folder was recognised as, with the reader and the parameters by which it can be built."""

    path: Path
    kind: Kind
    form: str
    """Description for the user: multiple choice, open questions, class folders."""
    reader: str
    params: dict[str, Any]
    rows: int = 0
    column_roles: tuple[tuple[str, str], ...] = field(default=(), name="taken")
    """Pairs of a role and a description of its columns."""
    unused: tuple[str, ...] = ()
    may_be_tags: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    metrics: tuple[str, ...] = ()
    """Metrics of open questions, by the type of their answers; the default metrics if empty."""
    open_layout: str = ""
    """Prompt of open questions, with `{question}`; the default prompt if empty."""
    facts: dict[str, Any] = {}
    """Fields of the entry that are stated in the file itself."""

    def lines(self) -> list[str]:
        """Return a summary for the user: the kind, and the columns of each role."""
        count = ""
        if self.rows:
            noun = "row" if self.rows == 1 else "rows"
            count = f"{self.rows:,} {noun}, read as "
        parts = [f"{role}  {words}" for role, words in self.column_roles]
        if self.unused:
            names = ", ".join(f"`{name}`" for name in self.unused[:MOST_SHOWN])
            hidden = len(self.unused) - MOST_SHOWN
            more = f" and {hidden} more" if hidden > 0 else ""
            parts.append(f"not used  {names}{more}")
        lines = [f"{self.path.name}: {count}{self.form}"]
        pairs = (parts[start : start + 2] for start in range(0, len(parts), 2))
        lines += ["  " + "   ".join(part.ljust(46) for part in pair).rstrip() for pair in pairs]
        if self.may_be_tags:
            tags = [setting("columns", {"tag": name}) for name in self.may_be_tags[:MOST_SHOWN]]
            lines.append(f"  tags for slices: {' '.join(tags)}")
        return lines


class TableSettings(Struct, frozen=True):
    """Settings by which the user overrides what is recognised in a table."""

    columns: Mapping[str, Sequence[str]] = {}
    answer_is: str = ""
    images: str = ""
    no_images: bool = False
    leave_out_images: bool = False
    """Whether questions are read without their images, which are not needed for scoring replies."""
    hidden_answers: bool = False
    fetch_images: bool = False
    make_options: bool = False
    """Whether open questions become multiple choice."""
    keep_open: bool = False
    """Whether open questions stay open although their answers are only a few classes."""
    as_annotations: bool = False
    """Whether questions and answers are read as annotations, from which other questions are made."""


def recognise(target: str | Path, settings: TableSettings | None = None) -> Recognition:
    """Recognise a file or folder by its names and content.

    Args:
        target: A table, a file of annotations, or a folder with a table or with images.
        settings: What the user says about it; this overrides what is recognised.

    Returns:
        The recognition. Its `doubts` are decisions that the user has to make before a build.

    Raises:
        DataError: If it is not a benchmark, or if questions have no images or answers and `settings` do not say that
            this is intended.
    """
    path = Path(target)
    settings = settings or TableSettings()
    if path.is_dir() and not is_row_file(path):
        return _of_folder(path, settings)
    if not path.exists() and "*" not in path.name:
        raise DataError(f"{path}: no such file or folder")
    coco = _coco(path, settings.images) if path.suffix.lower() == ".json" else None
    if coco:
        return coco
    exported = None if settings.columns else read_exported(path)
    if exported is not None:
        return _exported(path, exported)
    encoding = text_encoding(path)
    roles = table_roles(
        path, settings.columns, settings.answer_is, encoding, as_annotations=settings.as_annotations
    )
    if not roles.profiles and roles.faults:
        raise DataError(roles.faults[0])
    if not roles.profiles:
        raise DataError(
            f"{path}: it has no rows; a table has a header and a row for each question or image"
        )
    if not roles.kind:
        raise DataError(
            f"{path}: no column is recognised as questions or annotations; there are {_quoted(list(roles.profiles))}; "
            f"name one with {setting('columns', {'question': ...})} (or label=..., caption=..., objects=...)"
        )
    if roles.faults:
        raise DataError(roles.faults[0])
    if settings.leave_out_images and roles.kind == "questions":
        roles = _without_images(roles)
        settings = replace(settings, no_images=True)
    if roles.doubts:
        return _recognition(path, roles, {})
    params: dict[str, Any] = {
        **{
            name: getattr(settings, name)
            for name in ("no_images", "hidden_answers", "fetch_images")
        },
        "encoding": encoding,
        **_pictures(path, roles, settings),
    }
    if roles.kind == "questions" and "question" not in roles.roles:
        raise DataError(
            f"{path}: no column is recognised as the question; name it with {setting('columns', {'question': ...})}"
        )
    if roles.kind == "questions" and "answer" not in roles.roles and not settings.hidden_answers:
        raise DataError(
            f"{path}: no column holds answers; name it with {setting('columns', {'answer': ...})}, or say "
            f"{setting('hidden_answers', True)}"
        )
    recognition = _recognition(
        path, roles, {name: value for name, value in params.items() if value}
    )
    is_open = not roles.roles.keys() & {"options", "distractors"}
    if is_open and not settings.make_options:
        recognition = _with_options_in_text(recognition, roles, encoding)
        if "options_in_question" in recognition.params:
            return recognition
    if (
        roles.kind == "questions"
        and is_open
        and "answer" in roles.roles
        and not settings.make_options
        and not settings.keep_open
    ):
        return _with_answer_type(recognition, roles.roles["answer"][0], encoding)
    return recognition


def _without_images(roles: TableRoles) -> TableRoles:
    """Return the roles of a table without its images. If these have names, the names still group the questions."""
    remaining = {role: names for role, names in roles.roles.items() if role != "image"}
    columns = roles.roles.get("image", ())
    if len(columns) == 1 and not roles.profiles[columns[0]].is_embedded:
        remaining.setdefault("group", columns)
    return replace(roles, roles=remaining)


def _names_listed_option(answer: Any, options: Sequence[str]) -> bool:
    """Return whether an answer names one of the options in a list, or is empty because it is not published.

    A number counts only if it is the text of an option, because letters say nothing about whether
    numbers begin at 0 or 1.
    """
    if isinstance(answer, list) and len(answer) == 1:
        [answer] = answer
    return answer in (None, "") or named_option(as_text(answer), options) is not None


def _with_options_in_text(
    recognition: Recognition, roles: TableRoles, encoding: str
) -> Recognition:
    """Return the recognition as multiple choice if questions list their options in their text.

    Every question must list them (`A. a cat B. a dog`), and every answer must name one. If only
    some rows do, all questions are open, and the summary says so.
    """
    is_talk = roles.kind == "conversations"
    if roles.kind != "questions" and not is_talk:
        return recognition
    if not is_talk and "answer" not in roles.roles:
        return recognition
    n_rows = 0
    n_listing = 0
    n_clear = 0
    for row in read_rows(recognition.path, encoding):
        if is_talk:
            asked = single_exchange(row.cells.get(roles.roles[MESSAGES][0]))
        else:
            asked = (
                row.cells.get(roles.roles["question"][0]),
                row.cells.get(roles.roles["answer"][0]),
            )
        n_rows += 1
        question, answer = asked or ("", "")
        listed = split_listed(question) if isinstance(question, str) else None
        if listed is not None:
            n_listing += 1
            n_clear += _names_listed_option(answer, listed.options)
    if not n_listing:
        return recognition
    if n_clear < n_rows:
        if n_listing < n_rows:
            words = f"in the text of {n_listing:,} of {n_rows:,} questions only, so all are open"
        else:
            words = f"in the text, but not every answer names one ({n_clear:,} of {n_rows:,}), so all are open"
        column_roles = (*recognition.column_roles, ("options", words))
        return replace(recognition, column_roles=column_roles)
    return replace(
        recognition,
        form="multiple choice",
        params={**recognition.params, "options_in_question": True},
        column_roles=(*recognition.column_roles, ("options", "in the text of the question")),
    )


ASKS_YES_NO = "{question}\nPlease answer yes or no."


def _with_answer_type(recognition: Recognition, column: str, encoding: str) -> Recognition:
    """Return the recognition of open questions with the type of their answers.

    Answers that are a few classes make the questions multiple choice. Other types, such as numbers,
    decide by which metrics replies are scored.
    """
    cells = (row.cells.get(column) for row in read_rows(recognition.path, encoding))
    kind = answer_type([accepted_texts(cell) for cell in cells if cell is not None and cell != ""])
    if kind.classes:
        return replace(
            recognition,
            form=(
                f"multiple choice among {', '.join(kind.classes)}, as all answers are "
                f"({setting('metrics', TEXT.metrics[0])} keeps the questions open)"
            ),
            params={**recognition.params, "classes": list(kind.classes)},
        )
    form = recognition.form
    if kind != TEXT:
        form = f"open questions whose answers are {kind.why}, by {kind.metrics[0]}"
    layout = ASKS_YES_NO if kind == YES_OR_NO else ""
    return replace(recognition, form=form, metrics=kind.metrics, open_layout=layout)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _pictures(path: Path, roles: TableRoles, settings: TableSettings) -> dict[str, Any]:
    """Return the parameters that say where the images are: their folder, and whether to find them by name alone.

    Raises:
        DataError: If there are no images, or they would have to be downloaded, and `settings` do not allow it.
    """
    columns = roles.roles.get("image", ())
    in_messages = _images_in_messages(roles) if not columns else []
    if not columns and not in_messages:
        if settings.no_images and roles.kind == "questions":
            return {"images": settings.images}
        raise DataError(
            f"{path}: no column holds images; name it with "
            f"{setting('columns', {'image': 'NAME'})}, or say {setting('no_images', True)} if it is meant"
        )
    profiles = [roles.profiles[name] for name in columns]
    are_addresses = any(profile.is_url for profile in profiles)
    are_addresses = are_addresses or any(image_kind(cell) == "url" for cell in in_messages)
    place = _quoted(columns) if columns else "the messages"
    if are_addresses and not settings.fetch_images:
        raise DataError(
            f"{path}: the images in {place} are addresses, and nothing is fetched unless you say "
            f"{setting('fetch_images', True)}"
        )
    texts = [text for profile in profiles if not profile.is_embedded for text in profile.texts]
    texts += [cell for cell in in_messages if image_kind(cell) == "name"]
    names = [text for text in texts if "://" not in text][:NAMES_LOOKED_UP]
    if not names or settings.fetch_images:
        return {"images": settings.images}
    home = path.parent / settings.images
    if settings.images:
        folder = settings.images
        share = share_there(home, names)
    else:
        folder, share = image_folder(path, names)
    if share < 1 and ImageFinder(home).share(names) > share:
        return {"images": settings.images, "find_images": True}
    if not share and not settings.images:
        raise DataError(
            f"{path}: none of the images in {place} is there ({', '.join(names[:3])} ...); name their "
            f"folder with {setting('images')}"
        )
    return {"images": folder}


def _images_in_messages(roles: TableRoles) -> list[Any]:
    """Return images that are parts of messages, in a table of conversations."""
    if roles.kind != "conversations":
        return []
    [messages] = roles.roles[MESSAGES]
    return roles.profiles[messages].image_cells


def _recognition(path: Path, roles: TableRoles, settings: dict[str, Any]) -> Recognition:
    """Return the recognition of a table, with the parameters of its reader."""
    readers = {"questions": "table", "conversations": "conversations", "annotations": "annotations"}
    params: dict[str, Any] = {"file": path.name, **settings, "columns": column_params(roles.roles)}
    if roles.kind == "annotations":
        params = {"form": "rows", "file": path.name, "columns": params["columns"]}
        params |= {
            name: settings[name]
            for name in ("images", "encoding", "find_images")
            if name in settings
        }
    elif roles.unused:
        params["columns"]["unused"] = list(roles.unused)
    if roles.kind == "questions" and roles.answer_is != "any":
        params["answer_is"] = roles.answer_is
    is_choice = not roles.roles.keys().isdisjoint({"options", "distractors"})
    forms = {"conversations": "conversations", "annotations": "annotations"}
    answer_tags = [
        name for name in roles.profiles if roles.kind == "questions" and name.startswith(ANSWER_TAG)
    ]
    form = forms.get(roles.kind, "multiple choice" if is_choice else "open questions")
    column_roles = [
        (role, _describe_columns(role, names, roles)) for role, names in roles.roles.items()
    ]
    if _images_in_messages(roles) and "image" not in roles.roles:
        column_roles.append(("image", "in the messages"))
    if answer_tags:
        column_roles.append(("answer tag", " ".join(f"`{name}`" for name in answer_tags)))
    if settings.get("encoding"):
        column_roles.append(("encoding", settings["encoding"]))
    column_roles += _describe_sheet(path)
    return Recognition(
        path=path,
        kind=cast(Kind, roles.kind),
        form=form,
        reader=readers[roles.kind],
        params=params,
        rows=roles.rows,
        column_roles=tuple(column_roles),
        unused=roles.unused,
        may_be_tags=tuple(name for name in roles.unused if roles.profiles[name].is_repeated),
        doubts=roles.doubts,
    )


def _describe_sheet(path: Path) -> tuple[tuple[str, str], ...]:
    """Return which sheet of a workbook is read, if several have cells."""
    filled = filled_sheets(path) if path.suffix.lower() == SHEET else {}
    names = [name for name, cells in filled.items() if cells]
    if len(names) < 2:
        return ()
    chosen = max(filled, key=lambda name: filled[name])
    others = ", ".join(f"`{name}`" for name in names if name != chosen)
    return (("sheet", f"`{chosen}`, not {others}"),)


def column_params(roles: Roles) -> dict[str, Any]:
    """Return the roles of columns as an entry of a benchmark writes them.

    A role has a column or a list of columns; the attributes of an image are a table of names and
    columns.
    """
    return {role: _column_param(role, names) for role, names in roles.items()}


def _column_param(role: str, names: Sequence[str]) -> Any:
    is_object = names[0] in usual_names()["fields"]
    if role == "attributes" or (role == "fields" and not is_object):
        return {name.strip().replace("_", " "): name for name in names}
    return list(names) if len(names) > 1 or role == "tag" else names[0]


def _describe_columns(role: str, names: Sequence[str], roles: TableRoles) -> str:
    """Return the columns of a role as a text for the user."""
    if role in ("attributes", "fields", "tag"):
        return " ".join(f"`{name}`" for name in names)
    text = f"`{names[0]}`" if len(names) == 1 else f"`{names[0]}`-`{names[-1]}`"
    if role == "answer" and "options" in roles.roles:
        return f"{text} ({ANSWER_FORM_DESCRIPTIONS[roles.answer_is]})"
    if role == "image":
        profile = roles.profiles[names[0]]
        if profile.is_embedded:
            return f"{text} (in the file)"
        if profile.is_url:
            return f"{text} (addresses)"
        return f"{text} (file names)"
    return text


def _exported(path: Path, exported: ExportedBenchmark) -> Recognition:
    answers = "with answers" if exported.has_answers else "without answers"
    return Recognition(
        path=path,
        kind="questions",
        form=f"a benchmark that Snellen exported, {answers}",
        reader="exported",
        params={"file": path.name},
        rows=exported.rows,
        facts=exported.facts,
    )


# --- annotations in forms of their own --------------------------------------------------------------------------------


def _coco(path: Path, images: str) -> Recognition | None:
    """Recognise a JSON file in COCO's form, with images and annotations; None for other files."""
    try:
        content = read_json_value(path)
    except DataError:
        return None  # JSON lines, or a fault that the reader of rows will report
    if not isinstance(content, dict) or not {"images", "annotations"} <= content.keys():
        return None
    names = [
        str(image.get("file_name") or image.get("coco_url", "")).rpartition("/")[2]
        for image in content["images"]
    ]
    folder, share = (images, 1.0) if images else image_folder(path, names[:NAMES_LOOKED_UP])
    if not share:
        raise DataError(
            f"{path}: none of its images is there ({', '.join(names[:3])} ...); name their folder with {setting('images')}"
        )
    is_captions = any("caption" in annotation for annotation in content["annotations"][:1])
    noun = "captions" if is_captions else "objects"
    return Recognition(
        path=path,
        kind="annotations",
        form=f"{noun} of {len(names):,} images in COCO's form",
        reader="annotations",
        params={"form": "coco", "file": path.name, **({"images": folder} if folder else {})},
        column_roles=(
            ("images", f"{folder or '.'}/"),
            (noun, f"{len(content['annotations']):,}"),
        ),
    )


def _of_folder(path: Path, settings: TableSettings) -> Recognition:
    """Recognise the only table in a folder, or its images by class."""
    has_images = any(map(is_image, path.iterdir())) or any(map(_picture_count, _folders(path)))
    tables = [
        file
        for file in sorted(path.iterdir())
        if is_row_file(file)
        and not file.name.startswith(".")
        and not (has_images and file.suffix == ".txt")
    ]
    if len({table.suffix for table in tables}) == 1 and tables[0].suffix == ".parquet":
        tables = [path / "*.parquet"]
    recognised = [table for table in tables if len(tables) == 1 or _is_recognised(table)]
    if len(recognised) == 1:
        return recognise(recognised[0], settings)
    inner = [folder for folder in _folders(path) if any(map(is_row_file, folder.iterdir()))]
    if not tables and len(inner) == 1:
        return _of_folder(inner[0], settings)
    if tables:
        raise DataError(
            f"{path}: there are {len(tables)} tables in it ({_quoted([t.name for t in tables[:4]])}); name one"
        )
    if any(_picture_count(folder) for folder in _folders(path)):
        return _class_folders(path)
    return _named_images(path, settings.columns)


def _named_images(path: Path, columns: Mapping[str, Sequence[str]]) -> Recognition:
    """Recognise the images in a folder by file names that say what they show, such as `red_panda_2.jpg`.

    Names may also be arbitrary. Unless the user has declared them as labels, the result therefore has a doubt.

    Args:
        path: The folder.
        columns: Columns by role, as the user declares them; `{"label": ["file-name"]}` declares the names of files.

    Raises:
        DataError: Fewer than two different things are named, so the folder has nothing to recognise.
    """
    names: list[str] = []
    for file in sorted(path.iterdir()):
        name = name_in_words(file.stem) if is_image(file) else ""
        if name:
            names.append(name)
    if len(set(names)) < 2:
        raise DataError(
            f"{path}: neither a table ({', '.join(SUFFIXES)}) nor folders of images, one for each class, are in it"
        )
    doubts: list[Doubt] = []
    are_names_declared = columns.get("label") == [FILE_NAME]
    if not are_names_declared:
        why = f"{len(names):,} images lie side by side; if their names say what they show ({', '.join(names[:3])} ...)"
        doubts.append(Doubt("label", (FILE_NAME,), why))
    return Recognition(
        path=path,
        kind="annotations",
        form=f"{len(names):,} images called what they show",
        reader="annotations",
        params={"form": "named-images", "images": path.resolve().name},
        column_roles=(("label", f"names of files: {', '.join(names[:4])} ..."),),
        doubts=tuple(doubts),
    )


def _class_folders(path: Path) -> Recognition:
    """Recognise folders of images, one for each class; if they are in folders of splits, those of a test split."""
    splits = splits_in(path)
    split = next((name for name in splits if name.casefold().startswith(("test", "val"))), "")
    counts: Counter[str] = Counter()
    for part in [split] if split else splits or [""]:
        counts.update({folder.name: _picture_count(folder) for folder in _folders(path / part)})
    classes = [name for name, count in sorted(counts.items()) if count]
    if len(classes) < 2:
        deeper = [
            folder
            for folder in _folders(path / split)
            if any(map(_picture_count, _folders(folder)))
        ]
        if deeper:
            raise DataError(
                f"{path}: it holds {_quoted([f.name for f in deeper])} with folders; name one: {deeper[0]}"
            )
        raise DataError(
            f"{path}: neither a table ({', '.join(SUFFIXES)}) nor folders of images, one for each class, are in it"
        )
    more = " ..." if len(classes) > 4 else ""
    names = f"names of folders: {', '.join(classes[:4])}{more}"
    column_roles = [("label", names)]
    params = {"form": "class-folders", "images": path.resolve().name}
    if split:
        column_roles.append(("split", f"{split} of {', '.join(splits)}"))
        params["split"] = split
    return Recognition(
        path=path,
        kind="annotations",
        form=f"{counts.total():,} images in {len(classes):,} folders by class",
        reader="annotations",
        params=params,
        column_roles=tuple(column_roles),
    )


def _is_recognised(path: Path) -> bool:
    """Return whether a file is recognised as a table of questions or annotations, with or without doubts."""
    try:
        recognise(path)
    except DataError:
        return False
    return True


def _folders(path: Path) -> list[Path]:
    return sorted(
        folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith(".")
    )


def _picture_count(folder: Path) -> int:
    return sum(map(is_image, folder.rglob("*")))
