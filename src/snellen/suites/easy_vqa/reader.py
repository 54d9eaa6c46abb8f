"""The `easy-vqa` package from PyPI as multiple choice: shapes, colours and yes/no about one shape.

The package ships PNG images and JSON lists [question, answer, image id] under `data/SPLIT`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from snellen.common.drafts import Draft, QuestionDraft
from snellen.common.foreign import TABLE_BYTES, read_text
from snellen.common.seeds import rng_for
from snellen.errors import DataError, MissingExtraError

SHAPE_ANSWERS = ("circle", "rectangle", "triangle")
COLOUR_ANSWERS = ("black", "blue", "brown", "gray", "green", "red", "teal", "yellow")
YES_NO_ANSWERS = ("yes", "no")


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield the questions of a split in file order.

    `folder` may be the package's `data` folder; else the installed package is used.
    """
    split = str(params.get("split", "test"))
    base = folder or _installed_data_folder()
    path = base / split / "questions.json"
    try:
        rows = json.loads(read_text(path, TABLE_BYTES))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot read the questions ({error})") from None
    for number, row in enumerate(rows):
        where = f"{path}: question {number}"
        try:
            question = str(row[0])
            answer = str(row[1])
            image = int(row[2])
        except (TypeError, ValueError, IndexError, KeyError):
            raise DataError(f"{where}: {row!r} is not [question, answer, image id]") from None
        options = _draw_options(answer, number, where)
        if answer in SHAPE_ANSWERS:
            asks = "shape"
        elif answer in COLOUR_ANSWERS:
            asks = "colour"
        else:
            asks = "yes/no"
        capitalised_question = question[:1].upper() + question[1:]
        choice = QuestionDraft(capitalised_question, options, (options.index(answer),))
        yield Draft(
            id=f"{split}-{number:05d}",
            rounds=(choice,),
            images=(base / split / "images" / f"{image}.png",),
            where=where,
            group=str(image),
            tags={"asks": asks},
        )


def _draw_options(answer: str, number: int, where: str) -> tuple[str, ...]:
    """Return the options of a question: yes and no, all shapes, or the correct colour among three others that are
    drawn by the question's number. Raises DataError for an unknown answer."""
    if answer in YES_NO_ANSWERS:
        return YES_NO_ANSWERS
    if answer in SHAPE_ANSWERS:
        return SHAPE_ANSWERS
    if answer not in COLOUR_ANSWERS:
        raise DataError(f"{where}: unknown answer {answer!r}")
    rng = rng_for("easy-vqa", number, "distractors")
    other_colours = [colour for colour in COLOUR_ANSWERS if colour != answer]
    options = [answer, *rng.sample(other_colours, 3)]
    rng.shuffle(options)
    return tuple(options)


def _installed_data_folder() -> Path:
    """Return the data folder of the installed package. Raises MissingExtraError if it is not installed."""
    package = find_spec("easy_vqa")
    if package is None or package.origin is None:
        raise MissingExtraError("easy-vqa", "demo", "the benchmark easy-vqa")
    return Path(package.origin).parent / "data"
