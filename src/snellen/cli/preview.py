"""Show the first questions of a benchmark before it is built: in a terminal that can show images, else on a page."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

from msgspec import Struct

from snellen.cli.show import announce, console
from snellen.common.decoding import data_uri, opened_image
from snellen.common.drafts import Draft, LazyFrames
from snellen.common.drawing import image_content
from snellen.common.paths import slug, snellen_home
from snellen.errors import DataError
from snellen.formats.delimited import LETTERS
from snellen.formats.shown_text import short_name
from snellen.readers.calling import find_reader
from snellen.recognition.own_sources import OwnSource
from snellen.report.rendering import OfflinePage, page_style, render_page

SHOWN = 3
"""Number of questions."""
MAX_SIDE = 480
"""Greatest length of an image's longer side, in pixels."""
KITTY_CHUNK = 4096
"""Characters of an image that one escape sequence of kitty may contain."""
Terminal = Literal["kitty", "iterm", ""]
"""Protocol by which a terminal shows images; empty if it cannot."""


class PreviewOption(Struct, frozen=True):
    """An option of a question."""

    label: str
    text: str
    is_right: bool


class PreviewTurn(Struct, frozen=True):
    """A question as the model sees it, with its answers."""

    question: str
    options: tuple[PreviewOption, ...]
    answers: tuple[str, ...]
    """Reference answers of an open question."""


class PreviewQuestion(Struct, frozen=True):
    """A question, or all rounds of a dialogue."""

    id: str
    turns: tuple[PreviewTurn, ...]
    files: tuple[bytes, ...]
    """Its images as PNG, made smaller."""

    @property
    def pictures(self) -> list[str]:
        """Data URIs of its images."""
        return [data_uri("image/png", file) for file in self.files]


def terminal_of(environment: Mapping[str, str]) -> Terminal:
    """Return the protocol by which a terminal shows images, from its environment variables."""
    if "KITTY_WINDOW_ID" in environment or environment.get("TERM") == "xterm-ghostty":
        return "kitty"
    if environment.get("TERM_PROGRAM") in ("iTerm.app", "WezTerm"):
        return "iterm"
    return ""


def show_preview(source: OwnSource) -> None:
    """Show the first questions of a source. If one is faulty, there is no preview; the build reports all faults."""
    reader = find_reader(source.spec.source.reader)
    try:
        drafts = islice(reader(source.spec.source.params, source.folder), SHOWN)
        questions = [_question(draft) for draft in drafts]
    except DataError as error:
        announce(f"no preview: {str(error).splitlines()[0]}")
        return
    terminal = terminal_of(os.environ)
    if not terminal:
        lines = source.recognition.lines() if source.recognition else []
        path = write_preview(source.spec.name, lines, questions)
        console.print(f"three questions as the model sees them: {path}", soft_wrap=True)
        return
    for question in questions:
        for file in question.files:
            console.file.write(image_code(file, terminal))
        console.print("\n".join(_text_lines(question)), soft_wrap=True)


def write_preview(name: str, lines: Sequence[str], questions: Sequence[PreviewQuestion]) -> Path:
    """Write a page under $SNELLEN_HOME and return its path.

    Args:
        name: Name of the benchmark.
        lines: What was recognised in its source.
        questions: The questions to show.
    """
    path = snellen_home() / "previews" / slug(name) / "preview.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    page = OfflinePage(name, page_style())
    path.write_text(
        render_page("preview.html", page=page, lines=lines, questions=questions), "utf-8"
    )
    return path


def image_code(content: bytes, terminal: Terminal) -> str:
    """Return the escape sequences that show a PNG in a terminal."""
    text = base64.b64encode(content).decode()
    if terminal == "iterm":
        return f"\033]1337;File=inline=1;size={len(content)}:{text}\a\n"
    codes: list[str] = []
    for start in range(0, len(text), KITTY_CHUNK):
        end = start + KITTY_CHUNK
        settings = "a=T,f=100," if start == 0 else ""
        has_more = int(end < len(text))
        codes.append(f"\033_G{settings}m={has_more};{text[start:end]}\033\\")
    return "".join(codes) + "\n"


def _question(draft: Draft) -> PreviewQuestion:
    """Return a draft of a question as the preview shows it, with small images."""
    turns: list[PreviewTurn] = []
    for question in draft.rounds:
        options: list[PreviewOption] = []
        for index, option in enumerate(question.options):
            label = LETTERS[index % len(LETTERS)]
            options.append(PreviewOption(label, option, index in question.gold))
        turns.append(PreviewTurn(question.question, tuple(options), question.texts))
    files: list[bytes] = []
    for image in draft.images:
        if not isinstance(image, LazyFrames):
            files.append(_small_png(image_content(image, draft.where)))
    return PreviewQuestion(draft.id, tuple(turns), tuple(files))


def _small_png(content: bytes) -> bytes:
    """Return an image as PNG, made smaller if it is larger than `MAX_SIDE`."""
    with opened_image(content, "an image") as image:
        image.thumbnail((MAX_SIDE, MAX_SIDE))
        file = io.BytesIO()
        image.convert("RGB").save(file, "PNG")
        return file.getvalue()


def _text_lines(question: PreviewQuestion) -> list[str]:
    """Return a question with its options and answers as lines; the correct ones have a check mark."""
    lines: list[str] = []
    for turn in question.turns:
        lines.append(short_name(turn.question))
        for option in turn.options:
            mark = " ✓" if option.is_right else ""
            lines.append(f"  {option.label}. {short_name(option.text)}{mark}")
        if turn.answers:
            lines.append(f"  ✓ {short_name(' / '.join(turn.answers))}")
    return [*lines, ""]
