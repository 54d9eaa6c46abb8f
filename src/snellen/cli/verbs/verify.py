"""`snellen verify`"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from snellen import registry
from snellen.building.source_counts import (
    SourceCounts,
    count_differences,
    count_source,
    difference_reasons,
    implied_shares,
)
from snellen.catalogue import BenchmarkSpec, select
from snellen.cli.show import err, out, show_table
from snellen.errors import DataError

COUNTS_HEADER = (
    "benchmark",
    "samples",
    "paper",
    "images",
    "paper ",
    "evaluated",
    "published",
    "shares",
    "state",
    "why",
)

AS_PUBLISHED = "as published"


@click.command()
@click.argument("what", nargs=-1, required=True)
@click.option("--source", type=click.Path(path_type=Path, exists=True), required=True, help="Folder with the files.")
@click.option("--strict", is_flag=True, help="Exit with 1 when a count differs or files are missing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
def command(what: tuple[str, ...], source: Path, strict: bool, as_json: bool) -> None:
    """Compare what official files contain with the tables of the benchmark's paper.

    \b
      snellen verify reform-eval --source official/

    Nothing is built, but what is evaluated goes through the checks of a build, pictures too. Compared are the numbers
    of questions and pictures, and what published accuracies imply of the answers and of the numbers of options. Each
    benchmark's files lie in a folder of its own below --source (see docs/reform-eval.md), or all in that folder. What
    differs is shown with what is known of the reason; what `build` refuses never counts as published.
    """
    rows: list[tuple[str, ...]] = []
    differing = 0
    for spec in {spec.name: spec for name in what for spec in select(name)}.values():
        with err.status(f"counting {spec.name}"):
            try:
                counted = _counter(spec)(spec, spec.source_in(source))
            except DataError as error:
                rows.append((spec.name, *[""] * 7, "not read", str(error).splitlines()[0]))
                differing += 1
                continue
        row = _row(spec, counted)
        differing += row[-2] != AS_PUBLISHED
        rows.append(row)
    show_table("against the paper's tables", COUNTS_HEADER, rows, as_json)
    if not as_json:
        out.print(f"{len(rows) - differing} of {len(rows)} as in the paper")
    if strict and differing:
        raise SystemExit(1)


def _counter(spec: BenchmarkSpec) -> Callable[[BenchmarkSpec, Path], SourceCounts]:
    """The suite's own way of counting its files, or else that of a build."""
    has_own_counter = spec.suite in registry.targets("source_counters")
    counter: Callable[[BenchmarkSpec, Path], SourceCounts] = (
        registry.find("source_counters", spec.suite) if has_own_counter else count_source
    )
    return counter


def _row(spec: BenchmarkSpec, counted: SourceCounts) -> tuple[str, ...]:
    differs = count_differences(spec, counted)
    state = "refused" if counted.refused else "differs" if differs else AS_PUBLISHED
    shares = (f"{share.what} {share.here:.1%} ({share.implied:.1%})" for share in implied_shares(spec, counted))
    refused = [f"build refuses it: {counted.refused}"] if counted.refused else []
    return (
        spec.name,
        f"{counted.complete:,}",
        _count(spec.complete.samples),
        f"{counted.images:,}",
        _count(spec.complete.images),
        f"{counted.sampled:,}",
        _count(spec.expected.samples),
        ", ".join(shares),
        state,
        "; ".join([*refused, *difference_reasons(spec, counted)]),
    )


def _count(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"
