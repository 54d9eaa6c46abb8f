"""Profiles of columns: counts of what their cells look like, over the rows of a table."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from snellen.common.drafts import LazyImage
from snellen.formats.delimited import LETTERS
from snellen.formats.listed_cells import listed
from snellen.formats.locate import PICTURE_FILE
from snellen.formats.message_parts import images_of_messages
from snellen.formats.source_row import SourceRow
from snellen.recognition.folding import folded

LOOKED_AT = 2000
"""Number of rows that a profile is computed from. Ids and answers are checked in all rows."""
MANY = 1000
"""Maximum number of distinct texts of a column to store."""
ENCODED = ("data:image/", "iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR", "SUkqA", "TU0AK")
"""Beginnings of data URLs, and of the base64 of PNG, JPEG, GIF, WebP and TIFF."""
TALKS = ("messages", "conversation", "conversations", "dialog", "dialogue")
"""Names of columns with conversations, whose lists of texts alternate between user and model."""
REPLY_FIELDS = frozenset(
    "from role type content text message answer response value generated_text output".split()
)
"""Fields of objects that may contain a reply."""
URL = ("http://", "https://")
COCO_ANNOTATIONS = "annotations"
"""The folder of tables that COCO has beside its folders of images."""
QUESTION_MARKS = ("?", "？", "؟")


class ColumnProfile:
    """What the cells of one column look like: counts and shares of certain kinds of cells.

    Shares are from 0 to 1, of the filled cells among the first rows of the table.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.filled = self._files = self._names = self._urls = self._embedded = 0
        self._questions = self._words = self._lists = self._texts = self._messages = self._boxes = 0
        self._completions = self._letters = self._records = self._message_images = 0
        self.image_cells: list[Any] = []
        """Images within messages, of the first rows."""
        self.texts: dict[str, int] = {}
        self.first: Any = None

    def add(self, cell: Any) -> None:
        self.filled += 1
        self.first = cell if self.first is None else self.first
        values = listed(cell)
        is_list = isinstance(cell, list) or (isinstance(cell, str) and cell.startswith("["))
        kinds = {image_kind(value) for value in (values if is_list and values else [cell])}
        [kind] = kinds if len(kinds) == 1 else [""]
        self._names += kind == "name"
        self._urls += kind == "url"
        self._embedded += kind == "embedded"
        names = values if is_list and kind == "name" and values else []
        if len(self.texts) < MANY:
            self.texts |= {value: 1 for value in names if isinstance(value, str)}
        self._lists += values is not None
        self._letters += bool(values) and values == [*LETTERS[: len(values or ())]]
        if isinstance(cell, list) and cell and isinstance(cell[0], dict):
            self._completions += "message" in cell[0] or {"text", "finish_reason"} <= cell[0].keys()
            self._messages += not {"from", "role"}.isdisjoint(cell[0])
            images = images_of_messages(cell)
            self._message_images += bool(images)
            if len(self.image_cells) < MANY:
                self.image_cells += images
            self._records += REPLY_FIELDS.isdisjoint(cell[0])
            self._boxes += not {
                "bbox",
                "box",
                "label",
                "name",
                "category",
                "category_id",
            }.isdisjoint(cell[0])
        is_talk = isinstance(cell, list) and len(cell) > 1 and isinstance(cell[0], str)
        self._messages += is_talk and self.name.rpartition(".")[2] in TALKS
        if isinstance(cell, str) and kind != "embedded":
            self._texts += 1
            text = cell.strip()
            self._questions += text.endswith(QUESTION_MARKS) or "<image>" in text
            self._words += len(text.split())
            if len(self.texts) < MANY and not names:
                self.texts[text] = self.texts.get(text, 0) + 1
        elif isinstance(cell, (int, float)) and len(self.texts) < MANY:
            self.texts[str(cell)] = self.texts.get(str(cell), 0) + 1

    def _share(self, count: int) -> float:
        return count / self.filled if self.filled else 0.0

    @property
    def pictures(self) -> float:
        """The share of cells that are images, names of image files or addresses of images."""
        return self._share(self._names + self._urls + self._embedded)

    @property
    def is_embedded(self) -> bool:
        return self._share(self._embedded) > 0.5

    @property
    def is_url(self) -> bool:
        return self._share(self._urls) > 0.5

    @property
    def questions(self) -> float:
        return self._share(self._questions)

    @property
    def words(self) -> float:
        return self._words / self._texts if self._texts else 0.0

    @property
    def lists(self) -> float:
        return self._share(self._lists)

    @property
    def are_letters(self) -> bool:
        """Whether most cells are lists of letters from A on, which are the labels of options."""
        return self._share(self._letters) > 0.5

    @property
    def messages(self) -> float:
        return self._share(self._messages)

    @property
    def message_images(self) -> float:
        """The share of cells that are messages with images among their parts."""
        return self._share(self._message_images)

    @property
    def completions(self) -> float:
        """The share of cells that are lists of completions as a service for language models returns them."""
        return self._share(self._completions)

    @property
    def records(self) -> float:
        """The share of cells that are lists of objects without a field that could hold a reply."""
        return self._share(self._records)

    @property
    def boxes(self) -> float:
        return self._share(self._boxes)

    @property
    def is_text(self) -> bool:
        return self._share(self._texts) > 0.5

    @property
    def is_scalar(self) -> bool:
        """Whether cells are texts or numbers, not images, lists or objects."""
        return bool(self.texts) and self.pictures < 0.5

    @property
    def has_short_texts(self) -> bool:
        """Whether cells are texts of a few words."""
        return (
            self.is_scalar
            and self._texts == self.filled
            and all(len(text) <= 60 for text in self.texts)
        )

    def share_in(self, words: Collection[str]) -> float:
        """Return the share of the cells that are equal to one of some words.

        Args:
            words: The words as `folded` returns them: in small letters, without a final full stop.
        """
        cells = sum(self.texts.values())
        n_alike = sum(count for text, count in self.texts.items() if folded(text) in words)
        return n_alike / max(1, cells)

    @property
    def is_repeated(self) -> bool:
        """Whether the column has few different short values, each in several rows, so that it may group the rows."""
        return (
            self.is_scalar
            and self.words <= 4
            and 1 < len(self.texts) <= min(50, max(self.filled // 2, 2))
        )

    @property
    def may_be_tag(self) -> bool:
        """Whether the column has few different short values, so that it may group the rows. A single one is enough."""
        few = len(self.texts) <= max(1, min(50, self.filled // 2))
        return self.is_scalar and self.words <= 4 and few


@lru_cache(maxsize=4096)
def _kind_of_text(text: str) -> str:
    if text.startswith(ENCODED):
        return "embedded"
    if PICTURE_FILE.fullmatch(text):
        return "url" if text.startswith(URL) else "name"
    return ""


def image_kind(cell: Any) -> str:
    """Return what a cell is as an image: `embedded` (the image itself), `name` (of a file) or `url`; else empty."""
    if isinstance(cell, (LazyImage, bytes)):
        return "embedded"
    if isinstance(cell, dict):
        content = cell.get("bytes")
        return "embedded" if content else image_kind(cell.get("path") or cell.get("url") or "")
    if not isinstance(cell, str):
        return ""
    return (
        "embedded"
        if len(cell) > 1000 and cell.startswith(ENCODED)
        else _kind_of_text(cell[:600].strip())
    )


def profiles_of(rows: Iterable[SourceRow]) -> dict[str, ColumnProfile]:
    """Return the profile of each column, in the order of their first filled cells."""
    profiles: dict[str, ColumnProfile] = {}
    for row in islice(rows, LOOKED_AT):
        for name, cell in row.cells.items():
            if cell is None or cell == "":
                continue
            if name not in profiles:
                profiles[name] = ColumnProfile(name)
            profiles[name].add(cell)
    return profiles


def image_folder(path: Path, names: list[str]) -> tuple[str, float]:
    """Return the folder that contains most of the named images, and the share of names that it contains.

    The folder is that of the table (an empty text) or one of its direct subfolders. For a table in a folder called
    `annotations` it may also be one beside that folder, as in COCO. The folders beside any other are not searched,
    because they may hold another project's images of the same names.
    """
    home = path.parent
    share_by_folder = {"": share_there(home, names)}
    for folder in _subfolders(home):
        share_by_folder[folder.name] = share_there(folder, names)
    if not any(share_by_folder.values()) and home.absolute().name == COCO_ANNOTATIONS:
        for folder in _subfolders(home.absolute().parent):
            if folder.name != home.absolute().name:
                share_by_folder[f"../{folder.name}"] = share_there(folder, names)
    best = max(share_by_folder, key=lambda folder: share_by_folder[folder])
    return best, share_by_folder[best]


def _subfolders(folder: Path) -> list[Path]:
    """Return the direct subfolders of a folder in alphabetical order; none if it is missing or cannot be listed."""
    try:
        return sorted(inner for inner in folder.iterdir() if inner.is_dir())
    except OSError:
        return []


def share_there(folder: Path, names: list[str]) -> float:
    """Return the share of the names for which a folder has a file."""
    return sum(_is_there(folder, name) for name in names) / max(len(names), 1)


def _is_there(folder: Path, name: str) -> bool:
    try:
        return (folder / name).exists()
    except (OSError, ValueError):
        return False
