"""What a page of a report shows, before a template says how: sections of tables, charts and samples.

The tables that suites add to a report, each suite with its own layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

from msgspec import Struct

from snellen import registry
from snellen.report.charts import ChartPanel
from snellen.report.run_view import RunView
from snellen.report.sample_cards import Gold, OptionRow, SampleCard
from snellen.report.table import Table

Fold = Literal["none", "open", "folded"]
"""Whether the title of a table or of a section opens and folds it, and how it is at first."""

Kind = Literal["plain", "matrix", "summary"]


class TableBlock(Struct, frozen=True):
    """A table; a matrix is set closer, and the summary has no title of its own."""

    block: ClassVar[str] = "table"
    table: Table
    kind: Kind = "plain"
    fold: Fold = "none"


class ChartBlock(Struct, frozen=True):
    """Panels side by side with their caption below; beside it for a single tall panel. Nothing without panels."""

    block: ClassVar[str] = "charts"
    panels: tuple[ChartPanel, ...]
    caption: str
    series: tuple[str, ...] = ()
    """Names of the series, in their order."""
    is_tall: bool = False


class TitledBlock(Struct, frozen=True):
    """Blocks under a heading of their own."""

    block: ClassVar[str] = "titled"
    title: str
    blocks: tuple[Block, ...]


class ViewsBlock(Struct, frozen=True):
    """The same numbers as a radar and as bars, with a switch."""

    block: ClassVar[str] = "views"
    radar: ChartBlock
    bars: ChartBlock


class SamplesBlock(Struct, frozen=True):
    """The browser of samples: its cards, the filters with their choices, and how many samples are not there."""

    block: ClassVar[str] = "samples"
    cards: tuple[SampleCard, ...]
    filters: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    left_out: tuple[tuple[str, int], ...]


class ShownPicture(Struct, frozen=True):
    """A picture as a data URI, empty where it is not on the page; `words` say what it is."""

    uri: str
    words: str
    width: int
    height: int


class ShownRound(Struct, frozen=True):
    """A question with its options, of which one is marked as correct; `gold` are the answers of an open one."""

    question: str
    options: tuple[OptionRow, ...]
    gold: Gold | None


class ShownItem(Struct, frozen=True):
    """A question of a benchmark with its pictures and its answer; a dialogue has several rounds."""

    sample_id: str
    tags: tuple[tuple[str, str], ...]
    pictures: tuple[ShownPicture, ...]
    context: str
    rounds: tuple[ShownRound, ...]


class ItemsBlock(Struct, frozen=True):
    """Questions of a benchmark, as they are built."""

    block: ClassVar[str] = "items"
    items: tuple[ShownItem, ...]


class SentencesBlock(Struct, frozen=True):
    """What was found besides the first sentence of the page."""

    block: ClassVar[str] = "sentences"
    sentences: tuple[str, ...]


class TextBlock(Struct, frozen=True):
    """A text that is shown letter by letter: a file, commands."""

    block: ClassVar[str] = "text"
    title: str
    text: str


Block = (
    TableBlock
    | ChartBlock
    | TitledBlock
    | ViewsBlock
    | SamplesBlock
    | ItemsBlock
    | SentencesBlock
    | TextBlock
)
"""What a section of a page shows."""


class Section(Struct, frozen=True):
    """A part of a page, under its title and with an anchor."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]
    lead: str = ""
    """What it is about, beside the title of one that can be folded."""
    fold: Fold = "none"


class Head(Struct, frozen=True):
    """The head of a page, above the sections: names of runs, or one title."""

    kicker: str
    names: tuple[str, ...]
    more: str = ""
    """Words after the names."""
    facts: tuple[tuple[int, str], ...] = ()
    """Counts with their names."""
    findings: tuple[str, ...] = ()
    """What was found, in sentences."""
    lines: tuple[str, ...] = ()


class SuiteTables(Struct, frozen=True):
    """One layout (the registry's group `report_tables`)."""

    subject: str
    """What the rows are, as in "abilities"."""
    tables: Callable[[Sequence[RunView]], list[Table]]
    """Makes the tables of some runs; none where the layout does not fit them."""


class SuiteSection(Struct, frozen=True):
    """The tables that one layout made."""

    layout: SuiteTables
    tables: tuple[Table, ...]


def suite_sections(views: Sequence[RunView]) -> list[SuiteSection]:
    """The sections that suites add to a report of these runs."""
    layouts: list[SuiteTables] = list(registry.loadable("report_tables").values())
    sections = [SuiteSection(layout, tuple(layout.tables(views))) for layout in layouts]
    return [section for section in sections if section.tables]
