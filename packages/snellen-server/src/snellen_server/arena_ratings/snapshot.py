"""Frozen ratings: what was published, with all that is needed to compute it again from the same votes."""

from __future__ import annotations

import shlex
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen import __version__
from snellen.plugin_api import DataError, write_atomically
from snellen_server.arena_ratings.log import VoteLog
from snellen_server.arena_ratings.rating import ArenaRating, Term, rate_votes

DIGITS = 4
"""Decimals of a rating that two computations must share. Sums in another order differ by some 1e-9."""
PACKAGES = ("numpy", "scipy")


class Snapshot(Struct, frozen=True):
    """A rating, and by which versions of programs it was computed."""

    rating: ArenaRating
    software: dict[str, str]


def write_snapshot(path: Path, rating: ArenaRating) -> None:
    """Freeze a rating in a JSON file. Raises StoreError."""
    write_atomically(path, encode_snapshot(rating))


def encode_snapshot(rating: ArenaRating) -> bytes:
    """What `write_snapshot` writes."""
    return msgspec.json.format(msgspec.json.encode(Snapshot(rating, _software())), indent=1) + b"\n"


def read_snapshot(path: Path) -> Snapshot:
    """A frozen rating. Raises DataError when the file is not one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Snapshot)
    except FileNotFoundError:
        raise DataError(
            f"{path}: no such file; `snellen arena rate LOG --snapshot {shlex.quote(str(path))}` writes one"
        ) from None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a snapshot of ratings ({error})") from None


def snapshot_differences(snapshot: Snapshot, log: VoteLog) -> tuple[str, ...]:
    """In what a rating of `log` by the snapshot's settings differs from the snapshot; empty when in nothing."""
    again, frozen = rate_votes(log, snapshot.rating.settings), snapshot.rating
    if again.digest != frozen.digest:
        return (f"the votes differ: {frozen.votes:,} were rated then, {again.votes:,} now, digest {again.digest[:12]} "
                f"and not {frozen.digest[:12]}",)  # fmt: skip
    differences = list[str]()
    now = {row.model: row for row in again.models}
    for row in frozen.models:
        row_now = now[row.model]
        for name in ("group", "rank", "rating", "low", "high", "votes"):
            was, became = getattr(row, name), getattr(row_now, name)
            if _shown(was) != _shown(became):
                differences.append(f"{row.model}: {name} was {was}, is {became}")
    terms = {(term.group, term.name): term for term in again.terms}
    for term in frozen.terms:
        term_now = terms.get((term.group, term.name))
        if term_now is None or _interval(term) != _interval(term_now):
            differences.append(f"{term.name}: was {term.value}, is {term_now and term_now.value}")
    if differences and (software := _software()) != snapshot.software:
        changed = [f"{name} {snapshot.software.get(name)} then, {now} now" for name, now in software.items()]
        differences.append(f"computed by other programs: {'; '.join(changed)}")
    return tuple(differences)


def _shown(value: float | int | None) -> float | None:
    return None if value is None else round(value, DIGITS)


def _interval(term: Term) -> tuple[float | None, ...]:
    return _shown(term.value), _shown(term.low), _shown(term.high)


def _software() -> dict[str, str]:
    versions = {"snellen": __version__}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
