"""A datasheet as one HTML page that opens offline, or as Markdown.

The command that builds a benchmark again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from snellen.plugin_api import (
    Benchmark,
    Block,
    Head,
    ItemsBlock,
    Section,
    ShownItem,
    Table,
    TableBlock,
    TextBlock,
    as_word,
    entries,
    entry_folder,
    entry_text,
    escape,
    markdown_tables,
    offline_document,
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
    """The command that builds it again, as far as one can."""
    spec, recipe = benchmark.spec, dict(benchmark.manifest.made.recipe)
    source, words = spec.source, list[str]()
    if source.reader == "built":
        sampling = msgspec.to_builtins(source.sample)
        words = ["snellen sample", as_word(source.params["of"])]
        words += [
            f"--{name} {sampling[name]}"
            for name in ("rule", "ratio", "count", "each", "step")
            if sampling[name]
        ]
        words += [f"--seed {recipe['seed']}"] if "seed" in recipe else []
        return " ".join([*words, f"--name {as_word(spec.name)}"])
    if spec.name in entries():
        words = ["snellen build", as_word(spec.name)]
        words += [] if source.embedded or entry_folder(spec) else ["--source OFFICIAL_FILES"]
    elif "file" in source.params or "files" in source.params:
        file = source.params.get("file") or source.params["files"][0]
        words = ["snellen build", as_word(file), f"--name {as_word(spec.name)}"]
        words += (
            [f"--images {as_word(source.params['images'])}"] if source.params.get("images") else []
        )
    else:
        words = ["snellen build", "ENTRY.toml"]
    ratio = (recipe.pop("sample", None) or {}).get("ratio")
    words += [f"--ratio {ratio}"] if ratio else []
    return " ".join(
        [*words, *(f"--{name} {as_word(str(value))}" for name, value in recipe.items())]
    )


LONG = 12
"""Rows of a table from which on it is folded."""


def write_datasheet(sheet: Datasheet, path: Path) -> Path:
    """Write a datasheet as `.html`, `.md` or `.json`. Raises DataError for another suffix, StoreError."""
    return write_in_form(path, "a datasheet", sheet, FORMS)


def html_datasheet(sheet: Datasheet) -> str:
    """The whole page."""
    manifest, counts = sheet.manifest, sheet.manifest.counts
    facts = (
        (counts.questions, "questions"),
        (counts.images, "pictures"),
        (counts.answers, "known answers"),
    )
    head = Head(
        f"Datasheet · {manifest.spec.name} · version {manifest.version}",
        (manifest.spec.title,),
        "",
        facts,
        (sheet.summary,),
    )
    return offline_document(f"Datasheet: {manifest.spec.name}", head, list(_sections(sheet)))


def _sections(sheet: Datasheet) -> Iterator[Section]:
    yield Section(
        "certificate", "Certificate", (TableBlock(certificate_table(sheet.certificate), "summary"),)
    )
    yield Section("examples", "Examples", (ItemsBlock(sheet.examples),) if sheet.examples else ())
    yield Section("contents", "Contents", tuple(map(_folded_table, sheet.contents)))
    yield Section(
        "baselines", "Baselines", (TableBlock(baseline_table(sheet.baselines), "summary"),)
    )
    yield Section("left-out", "Left out", tuple(map(_folded_table, sheet.removals)))
    yield Section("lint", "Lint", (_folded_table(lint_table(sheet.findings)),))
    yield Section("sources", "Sources", (TableBlock(source_table(sheet.manifest), "summary"),))
    recipe: tuple[Block, ...] = (
        TextBlock("The entry", entry_text(sheet.manifest.spec)),
        TextBlock("To build it again", rebuild_command(sheet.benchmark)),
        _folded_table(digest_table(sheet.manifest)),
    )
    yield Section("recipe", "Recipe", recipe)


def _folded_table(table: Table) -> TableBlock:
    return TableBlock(table) if len(table.rows) <= LONG else TableBlock(table, "matrix", "folded")


def markdown_datasheet(sheet: Datasheet) -> str:
    """The same in Markdown, without pictures."""
    spec = sheet.manifest.spec
    lines = [
        f"# Datasheet: {escape(spec.name)}",
        "",
        f"**{escape(spec.title)}**",
        "",
        escape(sheet.summary),
        "",
    ]
    for section in _sections(sheet):
        if section.blocks:
            lines += [f"## {section.title}", "", *_lines(section.blocks)]
    return "\n".join(lines)


def _lines(blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, TableBlock):
            yield from markdown_tables([block.table], 3)
        elif isinstance(block, TextBlock):
            yield from (f"### {block.title}", "", "```", block.text.rstrip("\n"), "```", "")
        elif isinstance(block, ItemsBlock):
            for item in block.items:
                yield from _item_lines(item)


def _item_lines(item: ShownItem) -> Iterator[str]:
    sizes = ", ".join(f"{picture.width} x {picture.height}" for picture in item.pictures)
    yield from (f"### {escape(item.sample_id)}", "", f"Pictures: {sizes or 'none'}", "")
    if item.context:
        yield from (escape(item.context), "")
    for turn in item.rounds:
        yield from (escape(turn.question), "")
        yield from (
            f"- ({row.label}) {escape(row.option)}{' **correct**' * bool(row.signs)}"
            for row in turn.options
        )
        if turn.gold:
            yield f"- answer: {escape(' | '.join(turn.gold.texts))}"
        yield ""


def _json(sheet: Datasheet) -> str:
    return msgspec.json.format(msgspec.json.encode(sheet.flat()), indent=1).decode() + "\n"


FORMS: dict[str, Callable[[Datasheet], str]] = {
    ".html": html_datasheet,
    ".md": markdown_datasheet,
    ".json": _json,
}
