"""Errata: ground truths of benchmarks that are known to be wrong, with their corrections and sources.

A list is a TOML file in `errata_files`, one for each benchmark (docs/errata.md). It is added to by a pull request. Users
can have lists of their own. A list never changes what a benchmark is: answers are corrected when a run is scored with
`--errata` or `--errata-file`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from functools import cache
from importlib import resources
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.common.foreign import read_text
from snellen.errors import DataError
from snellen.formats.json_files import parse_toml, read_packaged_text

FOLDER = "errata_files"


class Correction(Struct, frozen=True, forbid_unknown_fields=True):
    """A correction of a ground truth that is wrong.

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


def read_errata(path: str) -> Errata:
    """Read a list of corrections of one's own.

    Raises:
        DataError: The file cannot be read, or is not a list of errata.
    """
    try:
        text = read_text(Path(path))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot read the list of errata ({error})") from None
    return parse_errata(text, path)


def chosen_errata(with_known: bool, files: Sequence[str]) -> dict[str, Errata]:
    """Return the corrections by which a run is scored, by benchmark.

    Args:
        with_known: Whether to use the lists that are part of Snellen.
        files: Lists of the user. If one corrects a question that Snellen corrects, too, that of the user counts.

    Raises:
        DataError: A file is not a list of errata, or two files correct the same question.
    """
    of_user: dict[str, Errata] = {}
    for file in files:
        errata = read_errata(file)
        earlier = of_user.get(errata.benchmark)
        if earlier is not None:
            corrected_twice = sorted(_questions(earlier) & _questions(errata))
            if corrected_twice:
                raise DataError(
                    f"{file}: {corrected_twice[0]} of {errata.benchmark} is corrected in another file too; keep one"
                )
            errata = _merged(earlier, errata)
        of_user[errata.benchmark] = errata

    chosen = dict(all_errata()) if with_known else {}
    for benchmark, errata in of_user.items():
        known = chosen.get(benchmark)
        chosen[benchmark] = errata if known is None else _merged(errata, known)
    return chosen


def _questions(errata: Errata) -> set[str]:
    return {correction.question for correction in errata.corrections}


def _merged(first: Errata, second: Errata) -> Errata:
    """Add to a list of errata the corrections of another one, for questions that the first does not correct."""
    corrected = _questions(first)
    added = [
        correction for correction in second.corrections if correction.question not in corrected
    ]
    distinct_versions = dict.fromkeys([first.version, second.version])
    return Errata(
        benchmark=first.benchmark,
        version=", ".join(distinct_versions),
        corrections=(*first.corrections, *added),
    )


def errata_digest(errata: Collection[Errata]) -> str:
    """Return a digest of lists of errata. Scores with different lists are not comparable."""
    by_benchmark = {errata_list.benchmark: errata_list for errata_list in errata}
    encoded = msgspec.json.encode(by_benchmark, order="sorted")
    return hashlib.blake2b(encoded, digest_size=6).hexdigest()
