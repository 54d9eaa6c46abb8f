"""A datasheet as one HTML page that opens offline, or as Markdown.

The command that builds a benchmark again.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from snellen.plugin_api import (
    Benchmark,
    BenchmarkSpec,
    Document,
    entries,
    entry_folder,
    write_in_form,
)
from snellen_lab.verification.datasheet import (
    Datasheet,
    baseline_table,
    certificate_table,
    digest_table,
    lint_table,
    source_table,
)


def rebuild_command(benchmark: Benchmark) -> str:
    """Return the command that builds a benchmark again; words in capitals are for the user to fill in."""
    spec = benchmark.spec
    source = spec.source
    recipe = dict(benchmark.manifest.build_info.recipe)
    if source.reader == "built":
        return _sample_command(spec, recipe)

    if spec.name in entries():
        arguments = ["snellen build", shlex.quote(spec.name)]
        is_complete = source.embedded or entry_folder(spec)
        if not is_complete:
            arguments.append("--source OFFICIAL_FILES")
    elif "file" in source.params or "files" in source.params:
        file = source.params.get("file") or source.params["files"][0]
        arguments = ["snellen build", shlex.quote(file), f"--name {shlex.quote(spec.name)}"]
        if source.params.get("images"):
            arguments.append(f"--images {shlex.quote(source.params['images'])}")
    else:
        arguments = ["snellen build", "ENTRY.toml"]

    sampling = recipe.pop("sample", None) or {}
    if sampling.get("ratio"):
        arguments.append(f"--ratio {sampling['ratio']}")
    for name, value in recipe.items():
        arguments.append(f"--{name} {shlex.quote(str(value))}")
    return " ".join(arguments)


def _sample_command(spec: BenchmarkSpec, recipe: Mapping[str, Any]) -> str:
    """Return the command that draws the same sample of another benchmark again."""
    sampling = msgspec.to_builtins(spec.source.sample)
    arguments = ["snellen sample", shlex.quote(spec.source.params["of"])]
    for name in ("rule", "ratio", "count", "each", "step"):
        if sampling[name]:
            arguments.append(f"--{name} {sampling[name]}")
    if "seed" in recipe:
        arguments.append(f"--seed {recipe['seed']}")
    arguments.append(f"--name {shlex.quote(spec.name)}")
    return " ".join(arguments)


def write_datasheet(sheet: Datasheet, path: Path) -> Path:
    """Write a datasheet as `.html`, `.md` or `.json`. Raises DataError for another suffix, StoreError."""
    return write_in_form(path, "a datasheet", sheet, FORMS)


def html_datasheet(sheet: Datasheet) -> str:
    """Return a datasheet as one HTML page that opens offline."""
    return _document(sheet).html()


def markdown_datasheet(sheet: Datasheet) -> str:
    """Return a datasheet as Markdown, without images."""
    spec = sheet.manifest.spec
    return _document(sheet).markdown(f"Datasheet: {spec.name}", [sheet.summary], spec.title)


def _document(sheet: Datasheet) -> Document:
    """Return the datasheet as a document of sections, which can be written as HTML or Markdown."""
    manifest = sheet.manifest
    counts = manifest.counts
    document = Document(
        f"Datasheet: {manifest.spec.name}",
        kicker=f"Datasheet · {manifest.spec.name} · version {manifest.version}",
        heading=(manifest.spec.title,),
        facts=(
            (counts.questions, "questions"),
            (counts.images, "images"),
            (counts.answers, "known answers"),
        ),
        findings=(sheet.summary,),
    )
    certificate = document.section("certificate", "Certificate")
    certificate.summary_table(certificate_table(sheet.certificate))
    document.section("examples", "Examples").questions(sheet.examples)
    contents = document.section("contents", "Contents")
    for table in sheet.contents:
        contents.foldable_table(table)
    document.section("baselines", "Baselines").summary_table(baseline_table(sheet.baselines))
    removals = document.section("left-out", "Left out")
    for table in sheet.removals:
        removals.foldable_table(table)
    document.section("lint", "Lint").foldable_table(lint_table(sheet.findings))
    document.section("sources", "Sources").summary_table(source_table(manifest))
    recipe = document.section("recipe", "Recipe")
    recipe.text("The entry", manifest.spec.toml())
    recipe.text("Command to build it again", rebuild_command(sheet.benchmark))
    recipe.foldable_table(digest_table(manifest))
    return document


def _json(sheet: Datasheet) -> str:
    return msgspec.json.format(msgspec.json.encode(sheet.flat()), indent=1).decode() + "\n"


FORMS: dict[str, Callable[[Datasheet], str]] = {
    ".html": html_datasheet,
    ".md": markdown_datasheet,
    ".json": _json,
}
