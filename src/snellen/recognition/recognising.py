"""What a file or folder is: questions, conversations or annotations, and with which reader it is built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from snellen.common.answer_forms import FORM_WORDS
from snellen.errors import DataError
from snellen.formats.json_files import read_json_value
from snellen.formats.locate import PictureFinder, is_picture, name_in_words, splits_in
from snellen.formats.rows import SHEET, SUFFIXES, is_row_file, read_rows, text_encoding
from snellen.formats.xlsx import filled_sheets
from snellen.recognition.answer_types import TEXT, YES_OR_NO, answer_type
from snellen.recognition.columns import Doubt, Roles, usual_names
from snellen.recognition.profiles import picture_folder, share_there
from snellen.recognition.tables import ANSWER_TAG, TableRoles, accepted_texts, table_roles

Kind = Literal["questions", "conversations", "annotations"]
FILE_NAME = "file-name"
"""As the column of a label: the name of the picture's file says what it shows."""
MOST_SHOWN = 8
"""Columns without a role that are named."""
NAMES_LOOKED_UP = 200
"""Names of pictures that are looked for."""


class Recognition(Struct, frozen=True, kw_only=True):
    """What something is, with the reader and the parameters by which it is built."""

    path: Path
    kind: Kind
    form: str
    """What it is in words: multiple choice, open questions, class folders."""
    reader: str
    params: dict[str, Any]
    rows: int = 0
    taken: tuple[tuple[str, str], ...] = ()
    """Each role with the columns, in words."""
    unused: tuple[str, ...] = ()
    may_be_tags: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    metrics: tuple[str, ...] = ()
    """The metrics of its open questions, by the type of their answers; the usual ones when empty."""
    open_layout: str = ""
    """How its open questions are asked, with `{question}`; as usual when empty."""

    def lines(self) -> list[str]:
        """What is taken for what, in a few lines."""
        count = (
            f"{self.rows:,} {'row' if self.rows == 1 else 'rows'}, read as " if self.rows else ""
        )
        parts = [f"{role}  {words}" for role, words in self.taken]
        if self.unused:
            more = (
                f" and {len(self.unused) - MOST_SHOWN} more"
                if len(self.unused) > MOST_SHOWN
                else ""
            )
            parts.append(
                "not used  " + ", ".join(f"`{name}`" for name in self.unused[:MOST_SHOWN]) + more
            )
        lines = [f"{self.path.name}: {count}{self.form}"]
        pairs = (parts[place : place + 2] for place in range(0, len(parts), 2))
        lines += ["  " + "   ".join(part.ljust(46) for part in pair).rstrip() for pair in pairs]
        if self.may_be_tags:
            lines.append(
                f"  tags for slices: {' '.join(f'--column tag={name}' for name in self.may_be_tags[:MOST_SHOWN])}"
            )
        return lines


class TableSettings(Struct, frozen=True):
    """What a user says of a table besides what is recognised."""

    columns: Mapping[str, Sequence[str]] = {}
    answer_is: str = ""
    images: str = ""
    no_pictures: bool = False
    hidden_answers: bool = False
    fetch_pictures: bool = False
    make_options: bool = False
    """Whether open questions become multiple choice."""
    as_annotations: bool = False
    """Whether questions and answers are taken as annotations, of which questions are made."""


def recognise(target: str | Path, settings: TableSettings | None = None) -> Recognition:
    """What a file or folder is, by names and content, besides what the `settings` say of it.

    What cannot be told is among its `doubts`. Raises DataError for what is nothing that can be built, and for questions
    without pictures or answers unless that is said to be meant.
    """
    path, settings = Path(target), settings or TableSettings()
    if path.is_dir() and not is_row_file(path):
        return _of_folder(path, settings)
    if not path.exists() and "*" not in path.name:
        raise DataError(f"{path}: no such file or folder")
    if path.suffix.lower() == ".json" and (coco := _coco(path, settings.images)):
        return coco
    encoding = text_encoding(path)
    roles = table_roles(
        path, settings.columns, settings.answer_is, encoding, as_annotations=settings.as_annotations
    )
    if not roles.profiles and roles.faults:
        raise DataError(roles.faults[0])
    if not roles.profiles:
        raise DataError(
            f"{path}: it has no rows; a table has a header and a row for each question or picture"
        )
    if not roles.kind:
        raise DataError(
            f"{path}: no column is recognised as questions or annotations; there are {_quoted(list(roles.profiles))}; "
            "name one with --column question=... (or label=..., caption=..., objects=...)"
        )
    if roles.faults:
        raise DataError(roles.faults[0])
    if roles.doubts:
        return _recognition(path, roles, {})
    params: dict[str, Any] = {
        **{
            name: getattr(settings, name)
            for name in ("no_pictures", "hidden_answers", "fetch_pictures")
        },
        "encoding": encoding,
        **_pictures(path, roles, settings),
    }
    if roles.kind == "questions" and "question" not in roles.roles:
        raise DataError(
            f"{path}: no column is recognised as the question; name it with --column question=..."
        )
    if roles.kind == "questions" and "answer" not in roles.roles and not settings.hidden_answers:
        raise DataError(
            f"{path}: no column holds answers; name it with --column answer=..., or say --hidden-answers"
        )
    recognition = _recognition(
        path, roles, {name: value for name, value in params.items() if value}
    )
    is_open = not roles.roles.keys() & {"options", "distractors"}
    if (
        roles.kind == "questions"
        and is_open
        and "answer" in roles.roles
        and not settings.make_options
    ):
        return _with_answer_type(recognition, roles.roles["answer"][0], encoding)
    return recognition


ASKS_YES_NO = "{question}\nPlease answer yes or no."


def _with_answer_type(recognition: Recognition, column: str, encoding: str) -> Recognition:
    """Add the type of the answers to open questions: the classes to choose from, or the metrics that compare them."""
    cells = (row.cells.get(column) for row in read_rows(recognition.path, encoding))
    kind = answer_type([accepted_texts(cell) for cell in cells if cell is not None and cell != ""])
    if kind.classes:
        return replace(
            recognition,
            form=f"multiple choice among {', '.join(kind.classes)}, as all answers are",
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
    """Where the pictures are: their folder, and whether they are found by name alone. Raises DataError where there are
    none, or they would have to be fetched."""
    columns = roles.roles.get("picture", ())
    if not columns:
        if settings.no_pictures and roles.kind == "questions":
            return {"images": settings.images}
        raise DataError(
            f"{path}: no column holds pictures; name it with --column picture=NAME, or say --no-pictures if it is meant"
        )
    profiles = [roles.profiles[name] for name in columns]
    if any(profile.is_url for profile in profiles) and not settings.fetch_pictures:
        raise DataError(
            f"{path}: the pictures in {_quoted(columns)} are addresses, and nothing is fetched unless you say "
            "--fetch-pictures"
        )
    texts = (text for profile in profiles if not profile.is_embedded for text in profile.texts)
    names = [text for text in texts if "://" not in text][:NAMES_LOOKED_UP]
    if not names or settings.fetch_pictures:
        return {"images": settings.images}
    home = path.parent / settings.images
    folder, share = (
        (settings.images, share_there(home, names))
        if settings.images
        else picture_folder(path, names)
    )
    if share < 1 and PictureFinder(home).share(names) > share:
        return {"images": settings.images, "find_pictures": True}
    if not share and not settings.images:
        raise DataError(
            f"{path}: none of the pictures in {_quoted(columns)} is there ({', '.join(names[:3])} ...); name their "
            "folder with --images"
        )
    return {"images": folder}


def _recognition(path: Path, roles: TableRoles, settings: dict[str, Any]) -> Recognition:
    """The entry's parameters for a table."""
    readers = {"questions": "table", "conversations": "conversations", "annotations": "annotations"}
    params: dict[str, Any] = {"file": path.name, **settings, "columns": column_params(roles.roles)}
    if roles.kind == "annotations":
        params = {"form": "rows", "file": path.name, "columns": params["columns"]}
        params |= {
            name: settings[name]
            for name in ("images", "encoding", "find_pictures")
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
    return Recognition(
        path=path,
        kind=cast(Kind, roles.kind),
        form=form,
        reader=readers[roles.kind],
        params=params,
        rows=roles.rows,
        taken=(
            *((role, _words(role, names, roles)) for role, names in roles.roles.items()),
            *(
                (("answer tag", " ".join(f"`{name}`" for name in answer_tags)),)
                if answer_tags
                else ()
            ),
            *((("encoding", settings["encoding"]),) if settings.get("encoding") else ()),
            *_sheet_words(path),
        ),
        unused=roles.unused,
        may_be_tags=tuple(name for name in roles.unused if roles.profiles[name].is_repeated),
        doubts=roles.doubts,
    )


def _sheet_words(path: Path) -> tuple[tuple[str, str], ...]:
    """Which of several sheets is read."""
    filled = filled_sheets(path) if path.suffix.lower() == SHEET else {}
    names = [name for name, cells in filled.items() if cells]
    if len(names) < 2:
        return ()
    chosen = max(filled, key=lambda name: filled[name])
    others = ", ".join(f"`{name}`" for name in names if name != chosen)
    return (("sheet", f"`{chosen}`, not {others}"),)


def column_params(roles: Roles) -> dict[str, Any]:
    """Roles as an entry's table: one column, a list of several, or by the name of each attribute its column."""
    return {role: _column_param(role, names) for role, names in roles.items()}


def _column_param(role: str, names: Sequence[str]) -> Any:
    is_object = names[0] in usual_names()["fields"]
    if role == "attributes" or (role == "fields" and not is_object):
        return {name.strip().replace("_", " "): name for name in names}
    return list(names) if len(names) > 1 or role == "tag" else names[0]


def _words(role: str, names: Sequence[str], roles: TableRoles) -> str:
    if role in ("attributes", "fields", "tag"):
        return " ".join(f"`{name}`" for name in names)
    text = f"`{names[0]}`" if len(names) == 1 else f"`{names[0]}`-`{names[-1]}`"
    if role == "answer" and "options" in roles.roles:
        return f"{text} ({FORM_WORDS[roles.answer_is]})"
    if role == "picture":
        profile = roles.profiles[names[0]]
        return f"{text} ({'in the file' if profile.is_embedded else 'addresses' if profile.is_url else 'file names'})"
    return text


# --- annotations in forms of their own --------------------------------------------------------------------------------


def _coco(path: Path, images: str) -> Recognition | None:
    """A JSON file with images and annotations; None where it is something else."""
    try:
        content = read_json_value(path)
    except DataError:
        return None  # rows on lines of their own, or what the reading of the rows refuses
    if not isinstance(content, dict) or not {"images", "annotations"} <= content.keys():
        return None
    names = [
        str(image.get("file_name") or image.get("coco_url", "")).rpartition("/")[2]
        for image in content["images"]
    ]
    folder, share = (images, 1.0) if images else picture_folder(path, names[:NAMES_LOOKED_UP])
    if not share:
        raise DataError(
            f"{path}: none of its pictures is there ({', '.join(names[:3])} ...); name their folder with --images"
        )
    is_captions = any("caption" in annotation for annotation in content["annotations"][:1])
    noun = "captions" if is_captions else "objects"
    return Recognition(
        path=path,
        kind="annotations",
        form=f"{noun} of {len(names):,} pictures in COCO's form",
        reader="annotations",
        params={"form": "coco", "file": path.name, **({"images": folder} if folder else {})},
        taken=(("pictures", f"{folder or '.'}/"), (noun, f"{len(content['annotations']):,}")),
    )


def _of_folder(path: Path, settings: TableSettings) -> Recognition:
    """A folder of pictures by class, or the one table in a folder."""
    has_pictures = any(map(is_picture, path.iterdir())) or any(map(_picture_count, _folders(path)))
    tables = [
        file
        for file in sorted(path.iterdir())
        if is_row_file(file)
        and not file.name.startswith(".")
        and not (has_pictures and file.suffix == ".txt")
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
    return _named_pictures(path, settings.columns)


def _named_pictures(path: Path, columns: Mapping[str, Sequence[str]]) -> Recognition:
    """Pictures side by side, whose names may say what they show: somebody has to say so."""
    names = [
        name
        for file in sorted(path.iterdir())
        if is_picture(file) and (name := name_in_words(file.stem))
    ]
    if len(set(names)) < 2:
        raise DataError(
            f"{path}: neither a table ({', '.join(SUFFIXES)}) nor folders of pictures, one for each class, are in it"
        )
    why = f"{len(names):,} pictures lie side by side; if their names say what they show ({', '.join(names[:3])} ...)"
    is_said = columns.get("label") == [FILE_NAME]
    return Recognition(
        path=path,
        kind="annotations",
        form=f"{len(names):,} pictures called what they show",
        reader="annotations",
        params={"form": "named-pictures", "images": path.resolve().name},
        taken=(("label", f"names of files: {', '.join(names[:4])} ..."),),
        doubts=() if is_said else (Doubt("label", (FILE_NAME,), why),),
    )


def _class_folders(path: Path) -> Recognition:
    """Folders of pictures, one for each class; where they lie in folders of splits, the split to evaluate on."""
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
            f"{path}: neither a table ({', '.join(SUFFIXES)}) nor folders of pictures, one for each class, are in it"
        )
    names = f"names of folders: {', '.join(classes[:4])}{' ...' * (len(classes) > 4)}"
    return Recognition(
        path=path,
        kind="annotations",
        form=f"{counts.total():,} pictures in {len(classes):,} folders by class",
        reader="annotations",
        params={
            "form": "class-folders",
            "images": path.resolve().name,
            **({"split": split} if split else {}),
        },
        taken=(
            ("label", names),
            *((("split", f"{split} of {', '.join(splits)}"),) if split else ()),
        ),
    )


def _is_recognised(path: Path) -> bool:
    """Whether a file is a table of questions or annotations, or may be one."""
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
    return sum(map(is_picture, folder.rglob("*")))
