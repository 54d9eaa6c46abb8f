"""A reader: from lines `name | colour | song` to questions, one a bird."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from snellen import DataError
from snellen.plugin_api import Draft, LazyImage, QuestionDraft, locate_file, open_text, read_params
from snellen_birds.drawing import COLOURS, draw_bird


class BirdParams(Struct, frozen=True, forbid_unknown_fields=True):
    """What an entry may say under `[source] params`."""

    file: str
    ask: Literal["colour", "song"]


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """A draft for each line of the file. Raises DataError naming the file, and the line that is wrong."""
    chosen = read_params(params, BirdParams)
    path = locate_file(folder, chosen.file)
    with open_text(path) as lines:
        for number, line in enumerate(lines, 1):
            where = f"{path}:{number}"
            name, colour, song = _cells(line.decode(), where)
            question = (
                colour_question(colour, where)
                if chosen.ask == "colour"
                else song_question(name, song)
            )
            picture = LazyImage(where, partial(draw_bird, name, colour))
            yield Draft(name, (question,), (picture,), where, tags={"colour": colour})


def _cells(line: str, where: str) -> tuple[str, str, str]:
    match [cell.strip() for cell in line.split("|")]:
        case [name, colour, song]:
            return name, colour, song
    raise DataError(f"{where}: {line.strip()!r} is no bird; write `name | colour | song`")


def colour_question(colour: str, where: str) -> QuestionDraft:
    """A question with options; the gold is an index. Raises DataError for a colour that is not drawn."""
    if colour not in COLOURS:
        raise DataError(f"{where}: no bird is {colour}; choose one of {', '.join(COLOURS)}")
    return QuestionDraft(
        "Which colour is the bird?", options=tuple(COLOURS), gold=(list(COLOURS).index(colour),)
    )


def song_question(name: str, song: str) -> QuestionDraft:
    """An open question; the gold is a text."""
    return QuestionDraft(f"What is the song of this {name} called?", texts=(song,))
