"""`snellen report BENCHMARK`: the datasheet of a benchmark."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from snellen.plugin_api import (
    announce,
    console,
    print_records,
)
from snellen_lab.verification.certificate import ERROR_LIMIT
from snellen_lab.verification.datasheet import datasheet, sheet_name
from snellen_lab.verification.datasheet_page import write_datasheet


def report_benchmark(
    benchmark: str,
    runs: Sequence[Path],
    outputs: Sequence[Path],
    *,
    error_limit: float | None,
    strict: bool,
    as_json: bool,
) -> None:
    """Print whether a benchmark is certified, and write its datasheet."""
    limit = ERROR_LIMIT if error_limit is None else error_limit
    sheet = datasheet(benchmark, runs, error_limit=limit, announce=announce)
    if as_json:
        print_records([sheet.flat()])
    else:
        console.print(f"{sheet.benchmark.name}: {sheet.summary}", soft_wrap=True)
        for criterion in sheet.certificate.criteria:
            met_text = "yes" if criterion.is_met else "no"
            console.print(f"  {met_text:4} {criterion.name:7} {criterion.result}", soft_wrap=True)

    show = announce if as_json else console.print
    for path in outputs or (() if as_json else (sheet_name(sheet.benchmark),)):
        show(str(write_datasheet(sheet, path)))
    if strict and not sheet.certificate.is_certified:
        click.echo(sheet.certificate.sentence, err=True)
        sys.exit(1)
