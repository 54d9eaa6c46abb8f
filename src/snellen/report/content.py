"""What a page of a report shows, before a template says how: sections of tables, charts and samples.

The tables that suites add to a report, each suite with its own layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal

from msgspec import Struct

from snellen import registry
from snellen.records import Answer, Sample
from snellen.report.drawing import ChartPanel
from snellen.report.reported_runs import ReportedRun
from snellen.report.sample_cards import CorrectAnswer, OptionRow, SampleCard, shown_correct_answer
from snellen.report.table import Table

Fold = Literal["none", "open", "folded"]
"""Whether a table or section can be folded by its title, and if so, its first state."""

Kind = Literal["plain", "matrix", "summary"]


class TableBlock(Struct, frozen=True):
    """A table. The kind `matrix` has less space between cells, and `summary` has no title.

    Examples:
        >>> TableBlock(Table("Songs", ("bird",), (("wren",),)), fold="folded").fold
        'folded'
    """

    block: ClassVar[str] = "table"
    table: Table
    kind: Kind = "plain"
    fold: Fold = "none"


class ChartBlock(Struct, frozen=True):
    """Panels side by side with a caption below, or next to a single tall panel. Empty without panels.

    Examples:
        >>> from snellen.plugin_api import ChartDrawing
        >>> panel = ChartPanel("Songs", ChartDrawing("Songs", 200, 40, ()))
        >>> ChartBlock((panel,), "Songs by bird.").caption
        'Songs by bird.'
    """

    block: ClassVar[str] = "charts"
    panels: tuple[ChartPanel, ...]
    caption: str
    series: tuple[str, ...] = ()
    """Names of the series, in their order."""
    is_tall: bool = False


class TitledBlock(Struct, frozen=True):
    """Blocks under a heading."""

    block: ClassVar[str] = "titled"
    title: str
    blocks: tuple[PageBlock, ...]


class RadarOrBarsBlock(Struct, frozen=True):
    """The same numbers as a radar and as bars, with a switch."""

    block: ClassVar[str] = "views"
    radar: ChartBlock
    bars: ChartBlock


class SamplesBlock(Struct, frozen=True):
    """The sample browser: cards, filters with their choices, and the number of samples left out by reason."""

    block: ClassVar[str] = "samples"
    cards: tuple[SampleCard, ...]
    filters: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    left_out: tuple[tuple[str, int], ...]


class ShownImage(Struct, frozen=True):
    """An image as a data URI, which is empty if the page leaves it out. `alternative_text` describes it."""

    uri: str
    alternative_text: str
    width: int
    height: int


class ShownRound(Struct, frozen=True):
    """A question with its options, the correct one marked. For an open question, `correct_answer` has the answers."""

    question: str
    options: tuple[OptionRow, ...]
    correct_answer: CorrectAnswer | None


class ShownItem(Struct, frozen=True):
    """A question of a benchmark with its images and its answer; a dialogue has several rounds."""

    sample_id: str
    tags: tuple[tuple[str, str], ...]
    pictures: tuple[ShownImage, ...]
    context: str
    rounds: tuple[ShownRound, ...]


OPTION_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def question_item(
    sample: Sample, answers: Mapping[tuple[str, int], Answer], image_uris: Mapping[str, str]
) -> ShownItem:
    """Prepare a question of a benchmark for a page: its images, text and options, and the correct answer.

    Args:
        sample: The question, or all rounds of a dialogue.
        answers: The correct answers, by sample and round, from `open_answers`.
        image_uris: Data URIs of images by digest. An image without one is shown as missing.

    Examples:
        >>> from snellen.records import Answer, Sample
        >>> sample = Sample("q1", "animals", "Which animal?", options=("a cat", "a dog"))
        >>> item = question_item(sample, {("q1", 0): Answer("q1", options=(1,))}, {})
        >>> [(row.label, row.option) for row in item.rounds[0].options]
        [('A', 'a cat'), ('B', 'a dog')]
    """
    images = []
    for image in sample.images:
        description = f"Image of {sample.id}, {image.width} by {image.height} pixels"
        uri = image_uris.get(image.digest, "")
        images.append(ShownImage(uri, description, image.width, image.height))

    rounds = []
    for index, turn in enumerate(sample.rounds):
        answer = answers.get((sample.id, index))
        correct = answer.options if answer else ()
        options = []
        for position, text in enumerate(turn.options):
            label = (
                OPTION_LETTERS[position] if position < len(OPTION_LETTERS) else str(position + 1)
            )
            marks = ("correct",) if position in correct else ()
            options.append(OptionRow(label, text, marks))
        has_marked_options = bool(turn.options) and answer is not None
        correct_answer = None if has_marked_options else shown_correct_answer(answer, turn.options)
        rounds.append(ShownRound(turn.question, tuple(options), correct_answer))
    return ShownItem(
        sample_id=sample.id,
        tags=tuple(sample.tags.items()),
        pictures=tuple(images),
        context=sample.context or "",
        rounds=tuple(rounds),
    )


class ItemsBlock(Struct, frozen=True):
    """Questions of a benchmark, as they are built."""

    block: ClassVar[str] = "items"
    items: tuple[ShownItem, ...]


class SentencesBlock(Struct, frozen=True):
    """What was found besides the first sentence of the page."""

    block: ClassVar[str] = "sentences"
    sentences: tuple[str, ...]


class TextBlock(Struct, frozen=True):
    """A text that is shown letter by letter: a file, commands.

    Examples:
        >>> TextBlock("Command", "snellen run mine birds").text
        'snellen run mine birds'
    """

    block: ClassVar[str] = "text"
    title: str
    text: str


PageBlock = (
    TableBlock
    | ChartBlock
    | TitledBlock
    | RadarOrBarsBlock
    | SamplesBlock
    | ItemsBlock
    | SentencesBlock
    | TextBlock
)
"""What a section of a page shows."""


class PageSection(Struct, frozen=True):
    """A part of a page, under its title and with an anchor.

    Examples:
        >>> table = Table("Songs", ("bird",), (("wren",),))
        >>> PageSection("songs", "Songs", (TableBlock(table),)).anchor
        'songs'
    """

    anchor: str
    title: str
    blocks: tuple[PageBlock, ...]
    lead: str = ""
    """Description next to the title of a section that can be folded."""
    fold: Fold = "none"


class PageHead(Struct, frozen=True):
    """The head of a page, above the sections: names of runs, or one title.

    Examples:
        >>> PageHead("Report · birds", ("Birds",), facts=((3, "songs"),)).kicker
        'Report · birds'
    """

    kicker: str
    names: tuple[str, ...]
    more: str = ""
    """Text after the names."""
    facts: tuple[tuple[int, str], ...] = ()
    """Counts with their names."""
    findings: tuple[str, ...] = ()
    """Main results, in sentences."""
    lines: tuple[str, ...] = ()


class SuiteTables(Struct, frozen=True):
    """One layout (the registry's group `report_tables`).

    Examples:
        >>> tables = SuiteTables("birds", lambda reported_runs: [Table("Songs", ("bird",), (("wren",),))])
        >>> tables.tables([])[0].title
        'Songs'
    """

    subject: str
    """The subject of the rows, such as "abilities"."""
    tables: Callable[[Sequence[ReportedRun]], list[Table]]
    """Function that returns the tables of some runs; an empty list if the layout does not fit them."""


class SuiteSection(Struct, frozen=True):
    """The tables of one layout for the runs of a report."""

    layout: SuiteTables
    tables: tuple[Table, ...]


def suite_sections(reported_runs: Sequence[ReportedRun]) -> list[SuiteSection]:
    """Return the sections that suites add to a report of these runs."""
    layouts: list[SuiteTables] = list(registry.loadable("report_tables").values())
    sections = [SuiteSection(layout, tuple(layout.tables(reported_runs))) for layout in layouts]
    return [section for section in sections if section.tables]
