"""The key of a study: which model wrote which item. Raters never see it.

key.json        beside the form, or beside the ratings that came in a published sheet
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.common.paths import as_word
from snellen.errors import DataError, StoreError
from snellen.experiments.ratings.study import RatingStudy
from snellen.runs.run_folder import write_atomically

KEY = "key.json"


class KeyItem(Struct, frozen=True, omit_defaults=True):
    """What the number of an item refers to."""

    number: int
    model: str
    """Empty for a check."""
    scene: str
    """What was asked: items of one scene are replies to the same question."""
    expected: dict[str, int] = {}
    """Of a check: the value that its text asks for, by dimension."""

    @property
    def is_check(self) -> bool:
        return bool(self.expected)


class RatingKey(Struct, frozen=True, omit_defaults=True):
    """A study and its items."""

    study: RatingStudy
    items: tuple[KeyItem, ...]
    form: str = ""
    """Digest of the form that the ratings are for; none for a published sheet."""

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item.model for item in self.items if not item.is_check))


def published_key(study: RatingStudy) -> RatingKey:
    """The key of a study's published sheet. Raises DataError where the study declares none."""
    sheet = study.sheet
    if sheet is None:
        raise DataError(
            f"the study {study.name} declares no [sheet], so nothing says which model an item is of; "
            "read the ratings into the folder that `snellen rate form` made"
        )
    pairs = [(scene, model) for scene in sheet.scenes for model in sheet.models]
    return RatingKey(study, tuple(KeyItem(number, model, scene) for number, (scene, model) in enumerate(pairs, 1)))


def read_key(folder: Path) -> RatingKey:
    """The key in a study's folder. Raises StoreError when there is none that can be read."""
    path = folder / KEY
    try:
        return msgspec.json.decode(path.read_bytes(), type=RatingKey)
    except FileNotFoundError:
        raise StoreError(
            f"{folder}: no {KEY}; `snellen rate form RUN... --to {as_word(folder)}` makes one, and for a published "
            "sheet `snellen rate read` does with --study"
        ) from None
    except (OSError, msgspec.DecodeError) as error:
        raise StoreError(f"{path}: not the key of a study ({error})") from None


def write_key(folder: Path, key: RatingKey) -> None:
    """Write the key of a new study. Raises StoreError where the folder has the key of another."""
    if (folder / KEY).exists() and read_key(folder) != key:
        raise StoreError(f"{folder} holds another study; choose another folder, or delete this one")
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / KEY, msgspec.json.format(msgspec.json.encode(key), indent=1))
