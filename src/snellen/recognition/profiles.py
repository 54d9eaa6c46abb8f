"""Profiles of columns: counts of what their cells look like, over the rows of a table."""

from __future__ import annotations

from collections import Counter
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
BOX_FIELDS = ("bbox", "box", "label", "name", "category", "category_id")
"""Fields of objects that may be boxes, of which each has a class."""
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
        self.filled = 0
        self.image_cells: list[Any] = []
        """Images within messages, of the first rows."""
        self.texts: dict[str, int] = {}
        self.first: Any = None
        self._counts: Counter[str] = Counter()
        """Numbers of cells of each kind; see `add`."""
        self._n_words = 0

    def add(self, cell: Any) -> None:
        """Count a filled cell by what it looks like."""
        self.filled += 1
        if self.first is None:
            self.first = cell
        values = listed(cell)
        if values is not None:
            self._counts["list"] += 1
            is_labels = bool(values) and values == [*LETTERS[: len(values)]]
            self._counts["letters"] += is_labels

        images = [cell]
        is_list = isinstance(cell, list) or (isinstance(cell, str) and cell.startswith("["))
        if is_list and values:
            images = values
        kinds = {image_kind(image) for image in images}
        kind = kinds.pop() if len(kinds) == 1 else ""
        if kind:
            self._counts[kind] += 1
        holds_names = kind == "name" and images is values
        if holds_names:
            self._keep_texts(name for name in images if isinstance(name, str))

        if isinstance(cell, list) and cell:
            self._add_list(cell)
        elif isinstance(cell, str) and kind != "embedded":
            text = cell.strip()
            self._counts["text"] += 1
            self._counts["question"] += text.endswith(QUESTION_MARKS) or "<image>" in text
            self._n_words += len(text.split())
            if not holds_names:
                self._keep_texts([text])
        elif isinstance(cell, (int, float)):
            self._keep_texts([str(cell)])

    def _add_list(self, cell: list[Any]) -> None:
        """Count a list by what its first item looks like: a message, a completion, a box, or another record."""
        first = cell[0]
        if isinstance(first, str):
            is_talk = len(cell) > 1 and self.name.rpartition(".")[2] in TALKS
            self._counts["messages"] += is_talk
        if not isinstance(first, dict):
            return
        fields = first.keys()
        self._counts["completion"] += "message" in fields or {"text", "finish_reason"} <= fields
        self._counts["messages"] += not fields.isdisjoint(("from", "role"))
        self._counts["record"] += fields.isdisjoint(REPLY_FIELDS)
        self._counts["box"] += not fields.isdisjoint(BOX_FIELDS)
        images = images_of_messages(cell)
        self._counts["messages with images"] += bool(images)
        if len(self.image_cells) < MANY:
            self.image_cells += images

    def _keep_texts(self, texts: Iterable[str]) -> None:
        if len(self.texts) < MANY:
            for text in texts:
                self.texts[text] = self.texts.get(text, 0) + 1

    def _share(self, *kinds: str) -> float:
        """Return the share of the filled cells that are of any of some kinds; see `add`."""
        n_cells = sum(self._counts[kind] for kind in kinds)
        return n_cells / self.filled if self.filled else 0.0

    @property
    def pictures(self) -> float:
        """The share of cells that are images, names of image files or addresses of images."""
        return self._share("name", "url", "embedded")

    @property
    def is_embedded(self) -> bool:
        return self._share("embedded") > 0.5

    @property
    def is_url(self) -> bool:
        return self._share("url") > 0.5

    @property
    def questions(self) -> float:
        return self._share("question")

    @property
    def words(self) -> float:
        return self._n_words / max(1, self._counts["text"])

    @property
    def lists(self) -> float:
        return self._share("list")

    @property
    def are_letters(self) -> bool:
        """Whether most cells are lists of letters from A on, which are the labels of options."""
        return self._share("letters") > 0.5

    @property
    def messages(self) -> float:
        return self._share("messages")

    @property
    def message_images(self) -> float:
        """The share of cells that are messages with images among their parts."""
        return self._share("messages with images")

    @property
    def completions(self) -> float:
        """The share of cells that are lists of completions as a service for language models returns them."""
        return self._share("completion")

    @property
    def records(self) -> float:
        """The share of cells that are lists of objects without a field that could hold a reply."""
        return self._share("record")

    @property
    def boxes(self) -> float:
        return self._share("box")

    @property
    def is_text(self) -> bool:
        return self._share("text") > 0.5

    @property
    def is_scalar(self) -> bool:
        """Whether cells are texts or numbers, not images, lists or objects."""
        return bool(self.texts) and self.pictures < 0.5

    @property
    def has_short_texts(self) -> bool:
        """Whether cells are texts of a few words."""
        return (
            self.is_scalar
            and self._counts["text"] == self.filled
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
