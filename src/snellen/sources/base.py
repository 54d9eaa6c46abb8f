"""What a reader yields: a question with its gold and its pictures, before it is checked and split."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from snellen.errors import DataError
from snellen.records import Region


class Round(Struct, frozen=True):
    """One question with its gold; a draft that is no dialogue has one round."""

    question: str
    options: tuple[str, ...] = ()
    gold: tuple[int, ...] = ()
    """Correct options by index; empty for an open question or a hidden answer."""
    texts: tuple[str, ...] = ()
    """Reference texts of an open question; empty when hidden."""


class Draft(Struct, frozen=True):
    """A question as read from a source. `where` is the file and line for errors."""

    id: str
    rounds: tuple[Round, ...]
    images: tuple[bytes | Path, ...] = ()
    where: str = ""
    dialogue: bool = False
    context: str | None = None
    regions: tuple[Region, ...] = ()
    group: str = ""
    tags: dict[str, str] = {}
    replies: tuple[str, ...] = ()
    """The published history of a dialogue, one reply a round."""


ParamsT = TypeVar("ParamsT")


def read_params(params: dict[str, Any], form: type[ParamsT]) -> ParamsT:
    """The parameters of a source as a typed record. Raises DataError for one that does not exist or fit."""
    try:
        return msgspec.convert(params, form)
    except msgspec.ValidationError as error:
        raise DataError(f"source params {params}: {error}") from None


Reader = Callable[[dict[str, Any], Path | None], Iterable[Draft]]
"""A source: `read(params, folder)` yields drafts; `folder` holds the user's files where it needs any."""
