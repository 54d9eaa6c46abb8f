"""Pages that other packages write: sections of tables, charts, texts and questions, as HTML or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.report.content import (
    ChartBlock,
    ItemsBlock,
    PageBlock,
    PageHead,
    PageSection,
    ShownItem,
    TableBlock,
    TextBlock,
)
from snellen.report.drawing import ChartPanel
from snellen.report.markdown import escape_markdown, markdown_tables
from snellen.report.rendering import offline_document
from snellen.report.table import Table

MAX_UNFOLDED_ROWS = 12
"""Greatest number of rows of a table that is not folded."""


class DocumentSection:
    """A part of a document, under its title. Blocks are shown in the order in which they are added."""

    def __init__(self, anchor: str, title: str) -> None:
        self.anchor = anchor
        self.title = title
        self.blocks: list[PageBlock] = []

    def table(self, table: Table) -> None:
        """Add a table under its title."""
        self.blocks.append(TableBlock(table))

    def summary_table(self, table: Table) -> None:
        """Add a table without its title, which is that of the section."""
        self.blocks.append(TableBlock(table, "summary"))

    def foldable_table(self, table: Table) -> None:
        """Add a table, which is folded at first if it has more than 12 rows."""
        if len(table.rows) > MAX_UNFOLDED_ROWS:
            self.blocks.append(TableBlock(table, "matrix", "folded"))
        else:
            self.blocks.append(TableBlock(table))

    def charts(
        self, panels: Sequence[ChartPanel], caption: str, series: Sequence[str] = ()
    ) -> None:
        """Add charts side by side with a caption and the names of their series; nothing if there are no charts."""
        if panels:
            self.blocks.append(ChartBlock(tuple(panels), caption, tuple(series)))

    def text(self, title: str, text: str) -> None:
        """Add a text that is shown as it is, such as a file or a command."""
        self.blocks.append(TextBlock(title, text))

    def questions(self, items: Sequence[ShownItem]) -> None:
        """Add questions of a benchmark with their images and ground truth; nothing if there are none."""
        if items:
            self.blocks.append(ItemsBlock(tuple(items)))


class Document:
    """A page with a head and sections.

    Args:
        title: Title of the file.
        kicker: Line above the heading.
        heading: Names of what the page is about; they make the heading.
        facts: Counts with their names, below the heading.
        findings: Main results, in sentences.
        lines: Other sentences of the head.

    Examples:
        >>> from snellen.plugin_api import Table
        >>> document = Document("Birds", kicker="Report", heading=("Birds of May",))
        >>> document.section("songs", "Songs").table(Table("By bird", ("bird",), (("wren",),)))
        >>> document.html()[:15]
        '<!DOCTYPE html>'
        >>> print("\\n".join(document.markdown("Birds of May").splitlines()[:5]))
        # Birds of May
        <BLANKLINE>
        ## Songs
        <BLANKLINE>
        ### By bird
    """

    def __init__(
        self,
        title: str,
        *,
        kicker: str,
        heading: Sequence[str],
        facts: Sequence[tuple[int, str]] = (),
        findings: Sequence[str] = (),
        lines: Sequence[str] = (),
    ) -> None:
        self._title = title
        self._head = PageHead(
            kicker,
            tuple(heading),
            facts=tuple(facts),
            findings=tuple(findings),
            lines=tuple(lines),
        )
        self._sections: list[DocumentSection] = []

    def section(self, anchor: str, title: str) -> DocumentSection:
        """Append a section and return it. It is left out of the page if nothing is added to it.

        Args:
            anchor: Identifier for links to the section.
            title: Title of the section.
        """
        section = DocumentSection(anchor, title)
        self._sections.append(section)
        return section

    def html(self) -> str:
        """Return the document as one HTML file, which opens offline."""
        sections = [
            PageSection(section.anchor, section.title, tuple(section.blocks))
            for section in self._sections
        ]
        return offline_document(self._title, self._head, sections)

    def markdown(self, title: str, paragraphs: Sequence[str] = (), subtitle: str = "") -> str:
        """Return the document as Markdown, without charts and images.

        Args:
            title: Title. A section with the same title gets no second heading.
            paragraphs: Paragraphs between the title and the first section.
            subtitle: Bold line below the title.
        """
        lines = [f"# {escape_markdown(title)}", ""]
        if subtitle:
            lines += [f"**{escape_markdown(subtitle)}**", ""]
        for paragraph in paragraphs:
            lines += [escape_markdown(paragraph), ""]
        for section in self._sections:
            if not section.blocks:
                continue
            level = 2
            if section.title != title:
                lines += [f"## {section.title}", ""]
                level = 3
            for block in section.blocks:
                lines += _markdown_lines(block, level)
        return "\n".join(lines)


def _markdown_lines(block: PageBlock, level: int) -> list[str]:
    """Return a part of a page (a table, a text or questions) as lines of Markdown.

    Args:
        block: The part.
        level: The level of its heading, such as 2 for `##`.
    """
    if isinstance(block, TableBlock):
        return markdown_tables([block.table], level)
    if isinstance(block, TextBlock):
        return [f"{'#' * level} {block.title}", "", "```", block.text.rstrip("\n"), "```", ""]
    lines: list[str] = []
    if isinstance(block, ItemsBlock):
        for item in block.items:
            lines += _question_lines(item, level)
    return lines


def _question_lines(item: ShownItem, level: int) -> list[str]:
    """Return a question as lines of Markdown: the sizes of its images, its text and options, and the correct answer.

    Args:
        item: The question.
        level: The level of its heading, such as 2 for `##`.
    """
    sizes = ", ".join(f"{image.width} x {image.height}" for image in item.pictures)
    lines = [
        f"{'#' * level} {escape_markdown(item.sample_id)}",
        "",
        f"Images: {sizes or 'none'}",
        "",
    ]
    if item.context:
        lines += [escape_markdown(item.context), ""]
    for turn in item.rounds:
        lines += [escape_markdown(turn.question), ""]
        for option in turn.options:
            mark = " **correct**" if option.signs else ""
            lines.append(f"- ({option.label}) {escape_markdown(option.option)}{mark}")
        if turn.correct_answer:
            lines.append(f"- answer: {escape_markdown(' | '.join(turn.correct_answer.texts))}")
        lines.append("")
    return lines
