"""A verb of the command line: `snellen birds` lists the birds."""

from __future__ import annotations

from pathlib import Path

import click

from snellen.plugin_api import Verb, json_flag, open_text, show_table

BIRDS = Verb(
    "List the birds with their colours and songs.", "snellen_birds.verb:command", "Benchmarks"
)


@click.command()
@json_flag
def command(as_json: bool) -> None:
    """List the birds that the suite asks about."""
    with open_text(Path(__file__).parent / "data/birds.txt") as lines:
        rows = [[cell.strip() for cell in line.decode().split("|")] for line in lines]
    show_table("birds", ("name", "colour", "song"), rows, as_json)
