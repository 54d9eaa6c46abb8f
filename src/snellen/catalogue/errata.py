"""Errata: ground truths of benchmarks that are known to be wrong, with their corrections and sources.

A list is a TOML file in `errata_files`, one for each benchmark (docs/errata.md). It is added to by a pull request. A list
never changes what a benchmark is: answers are corrected when a run is scored with `--errata`.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources

import msgspec
from msgspec import Struct

from snellen.errors import DataError
from snellen.formats.json_files import parse_toml, read_packaged_text

FOLDER = "errata_files"


class Correction(Struct, frozen=True, forbid_unknown_fields=True):
    """A ground truth that is wrong.

    Examples:
        >>> Correction("q7", old="frescoes", new="mosaics", source="issue 84 of its repository").new
        'mosaics'
    """

    question: str
    """The id of the question."""
    old: str
    """The published ground truth: an option's text, or the text of an open question."""
    new: str
    """What is right."""
    source: str
    """Who says so, and where."""


class Errata(Struct, frozen=True, forbid_unknown_fields=True):
    """The corrections of a benchmark."""

    benchmark: str
    version: str
    """The date of its last change."""
    corrections: tuple[Correction, ...]


def parse_errata(text: str, where: str) -> Errata:
    """Parse a list. Raises DataError, which names the file and what is wrong."""
    try:
        errata = msgspec.convert(parse_toml(text, where), Errata)
    except msgspec.ValidationError as error:
        raise DataError(f"{where}: not a list of errata ({error}); see docs/errata.md") from None
    seen: set[str] = set()
    for correction in errata.corrections:
        if correction.question in seen:
            raise DataError(f"{where}: {correction.question} is corrected twice; keep one")
        if correction.old == correction.new:
            raise DataError(f"{where}: old and new of {correction.question} are the same")
        if not correction.source:
            raise DataError(f"{where}: the correction of {correction.question} has no source")
        seen.add(correction.question)
    return errata


@cache
def all_errata() -> dict[str, Errata]:
    """Return the lists of errata (corrections of wrong answers) that are part of Snellen, by benchmark."""
    folder = resources.files("snellen.catalogue").joinpath(FOLDER)
    errata_by_name: dict[str, Errata] = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            errata = parse_errata(read_packaged_text(file), file.name)
            errata_by_name[errata.benchmark] = errata
    return errata_by_name


def errata_digest() -> str:
    """Return a digest of all lists of errata. Scores with different lists are not comparable."""
    return hashlib.blake2b(
        msgspec.json.encode(all_errata(), order="sorted"), digest_size=6
    ).hexdigest()
