"""`snellen doctor`"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from snellen.cli.flags import json_flag
from snellen.cli.show import out, show_table
from snellen.cli.surroundings import (
    Diagnosis,
    diagnose_accelerator,
    diagnose_keys,
    diagnose_packages,
    diagnose_places,
    diagnose_programs,
    diagnose_reach,
)

HEADER = ("part", "name", "state", "found", "what to do")


@click.command()
@click.option("--runs", default="runs", help="Folder of runs.  [runs]")
@click.option("--require", multiple=True, metavar="EXTRA", help="An extra that has to be there; repeat for more.")
@click.option("--network", is_flag=True, help="Also see whether the hub and OpenAI can be reached; asks them.")
@json_flag
def command(runs: str, require: tuple[str, ...], network: bool, as_json: bool) -> None:
    """Look at this environment: packages, extras, accelerator, folders, programs, keys.

    Says what is missing and the command that installs it. Keys are never shown, and nothing is sent without --network.
    The exit code is 1 when something is broken, or an extra of --require is not there whole.
    """
    diagnoses = [*_diagnoses(Path(runs), network)]
    rows = [(row.part, row.name, row.state, row.found, row.remedy) for row in diagnoses]
    show_table("", HEADER, rows, as_json)
    good_extras = {row.name for row in diagnoses if (row.part, row.state) == ("extras", "good")}
    broken = [row.name for row in diagnoses if row.state == "broken"] + [
        name for name in require if name not in good_extras
    ]
    if not as_json:
        out.print(
            f"\nto be mended: {', '.join(broken)}" if broken else "\nnothing is broken; what is absent is optional"
        )
    if broken:
        raise SystemExit(1)


def _diagnoses(runs: Path, network: bool) -> Iterator[Diagnosis]:
    yield from diagnose_packages()
    yield from diagnose_accelerator()
    yield from diagnose_places(runs)
    yield from diagnose_programs()
    yield from diagnose_keys()
    if network:
        yield from diagnose_reach()
