"""Damaged journals: which lines of a run cannot be used, and setting them aside so that the run can go on.

What is set aside is kept as it is under `damaged/` in the run's folder; the run's command asks it again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from snellen.building.benchmark import Selection
from snellen.common.paths import as_word
from snellen.errors import StoreError
from snellen.formats.whole_files import write_atomically
from snellen.records import Exchange, Request, Sample
from snellen.runs.journal import read_journal, read_line
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.run_folder import JOURNALS, journals, locked_run, read_manifest

DAMAGED = "damaged"


class Damage(Struct, frozen=True):
    """One line of a journal that was set aside, or a whole journal (line 0)."""

    path: Path
    line: int
    why: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.why}" if self.line else f"{self.path}: {self.why}"


def misfit(request: Request, sample: Sample) -> str:
    """Why a request cannot have been about this sample, in words; empty when it can."""
    variant = request.variant
    if not 0 <= variant.turn < len(sample.rounds):
        return f"turn {variant.turn} of {sample.id}, which has {len(sample.rounds)}"
    options = len(sample.rounds[variant.turn].options)
    if wrong := [place for place in variant.order if not 0 <= place < options]:
        return f"option {wrong[0]} of {sample.id}, which has {options}"
    if variant.labels and len(variant.labels) != len(variant.order):
        return f"{len(variant.labels)} labels for {len(variant.order)} options of {sample.id}"
    return ""


def check_fits(folder: Path, exchange: Exchange, sample: Sample) -> None:
    """Raise StoreError, naming file and line, for an exchange of a run that is not about this sample."""
    if why := misfit(exchange.request, sample):
        for path in journals(folder):
            for number, (_, stored) in enumerate(read_journal(path), 1):
                if stored == exchange:
                    raise StoreError(
                        f"{path}:{number}: {why}; `snellen mend {as_word(folder)}` sets such lines aside"
                    )


def mend_run(folder: Path) -> list[Damage]:
    """Set aside what of a run's journals is not an exchange of this run.

    Raises StoreError for a folder that is not a run or is in use, DataError where a benchmark has changed since.
    """
    manifest = read_manifest(folder)
    samples = {
        use.name: {
            sample.id: sample for sample in reopen_benchmark(use, folder).samples(Selection())
        }
        for use in manifest.benchmarks
    }

    def fault(line: bytes) -> str:
        try:
            exchange = read_line(line, manifest.authors)
        except StoreError as error:
            return str(error)
        sample = samples.get(exchange.request.benchmark, {}).get(exchange.request.sample_id)
        return misfit(exchange.request, sample) if sample else ""

    with locked_run(folder):
        return [
            damage
            for path in sorted(folder.glob(JOURNALS))
            for damage in _mend_journal(path, fault)
        ]


def _mend_journal(path: Path, fault: Callable[[bytes], str]) -> list[Damage]:
    aside = path.parent / DAMAGED / path.name
    if path.is_dir():
        aside.parent.mkdir(exist_ok=True)
        path.rename(aside)
        return [Damage(path, 0, "a folder and no journal")]
    intact, damaged, damages = bytearray(), bytearray(), list[Damage]()
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            why = fault(line) if line.endswith(b"\n") else "a line that was cut off"
            if why:
                damages.append(Damage(path, number, why))
            (damaged if why else intact).extend(line)
    if damages:
        before = aside.read_bytes() if aside.exists() else b""
        write_atomically(aside, before + bytes(damaged))
        write_atomically(path, bytes(intact))
    return damages
