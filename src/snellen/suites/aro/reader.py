"""COCO-Order and Flickr30k-Order: a caption among four of its own shuffles.

The authors' loader makes the shuffles anew each time, with spaCy's tags and NumPy's global generator; none are
published. Where what it made was written to a file (its `test_cases`), that file is read. From the captions alone the
shuffles are made by `snellen.suites.aro.shuffles`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen.drafts import Draft, QuestionDraft, read_params
from snellen.formats.locate import locate, locate_or_none
from snellen.readers.exclusions import Exclusion, without_exclusions
from snellen.readers.mapped import read as read_mapped
from snellen.seeds import rng_for
from snellen.suites.aro.shuffles import as_caption, shuffles_of

ALIKE = "two of its options are the same"
TOO_SHORT = "a caption that cannot be shuffled in four ways"


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Two mappings of the reader `mapped`: of options, and of captions; the first whose file is there is read."""

    shuffled: dict[str, Any]
    captions: dict[str, Any]


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """A draft per caption, in the order of the file, the true caption as its first option."""
    chosen = read_params(params, Params)
    ready, captions = (tuple(mapping["records"]["file"]) for mapping in (chosen.shuffled, chosen.captions))
    if path := locate_or_none(folder, *ready):
        return without_exclusions(map(_checked, read_mapped(chosen.shuffled, folder)), path)
    path = locate(folder, *captions, *ready)
    return without_exclusions(map(_shuffled, read_mapped(chosen.captions, folder)), path)


def _checked(draft: Draft) -> Draft | Exclusion:
    options = draft.rounds[0].options
    return Exclusion(ALIKE) if len(set(options)) < len(options) else draft


def _shuffled(draft: Draft) -> Draft | Exclusion:
    question = draft.rounds[0]
    caption = as_caption(question.texts[0])
    shuffles = shuffles_of(caption, rng_for("aro order", draft.id))
    if shuffles is None:
        return Exclusion(TOO_SHORT)
    return replace(draft, rounds=(QuestionDraft(question.question, (caption, *shuffles), (0,)),))
