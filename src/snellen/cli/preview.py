"""The first questions of what is about to be built: in a terminal that shows pictures there, else on a page."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

from msgspec import Struct

from snellen import registry
from snellen.cli.show import announce, out
from snellen.common.decoding import data_uri, opened_image
from snellen.common.drafts import Draft, LazyFrames
from snellen.common.drawing import image_content
from snellen.common.paths import home, slug
from snellen.errors import DataError
from snellen.formats.delimited import LETTERS
from snellen.formats.shown_text import short_name
from snellen.recognition.own_sources import OwnSource
from snellen.report.rendering import OfflinePage, page_style, render_page

SHOWN = 3
WIDEST = 480
"""Pixels of a picture's longer side."""
Terminal = Literal["kitty", "iterm", ""]


class PreviewOption(Struct, frozen=True):
    label: str
    text: str
    is_right: bool


class PreviewTurn(Struct, frozen=True):
    question: str
    options: tuple[PreviewOption, ...]
    answers: tuple[str, ...]


class PreviewQuestion(Struct, frozen=True):
    id: str
    turns: tuple[PreviewTurn, ...]
    files: tuple[bytes, ...]
    """Its pictures as PNG."""

    @property
    def pictures(self) -> list[str]:
        return [data_uri("image/png", file) for file in self.files]


def terminal_of(environment: Mapping[str, str]) -> Terminal:
    """Which protocol for pictures a terminal has, as its variables say."""
    if "KITTY_WINDOW_ID" in environment or environment.get("TERM") == "xterm-ghostty":
        return "kitty"
    return "iterm" if environment.get("TERM_PROGRAM") in ("iTerm.app", "WezTerm") else ""


def show_preview(source: OwnSource) -> None:
    """Show the first questions; a fault in them is left to the build, which names all of them."""
    reader = registry.find("readers", source.spec.source.reader)
    try:
        drafts = islice(reader(source.spec.source.params, source.folder), SHOWN)
        questions = [_question(draft) for draft in drafts]
    except DataError as error:
        announce(f"no preview: {str(error).splitlines()[0]}")
        return
    if terminal := terminal_of(os.environ):
        for question in questions:
            out.file.write("".join(picture_code(file, terminal) for file in question.files))
            out.print("\n".join(_text_lines(question)), soft_wrap=True)
    else:
        lines = source.recognition.lines() if source.recognition else []
        print_path = write_preview(source.spec.name, lines, questions)
        out.print(f"three questions as they are asked: {print_path}", soft_wrap=True)


def write_preview(name: str, lines: Sequence[str], questions: Sequence[PreviewQuestion]) -> Path:
    """Write the page under $SNELLEN_HOME and return its path."""
    path = home() / "previews" / slug(name) / "preview.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    page = OfflinePage(name, page_style())
    path.write_text(
        render_page("preview.html", page=page, lines=lines, questions=questions), "utf-8"
    )
    return path


def picture_code(content: bytes, terminal: Terminal) -> str:
    """The escape sequences that show a PNG in a terminal."""
    text = base64.b64encode(content).decode()
    if terminal == "iterm":
        return f"\033]1337;File=inline=1;size={len(content)}:{text}\a\n"
    pieces = [text[place : place + 4096] for place in range(0, len(text), 4096)]
    last = len(pieces) - 1
    return (
        "".join(
            f"\033_G{'a=T,f=100,' if not place else ''}m={int(place < last)};{piece}\033\\"
            for place, piece in enumerate(pieces)
        )
        + "\n"
    )


def _question(draft: Draft) -> PreviewQuestion:
    turns = tuple(
        PreviewTurn(
            turn.question,
            tuple(
                PreviewOption(LETTERS[place % len(LETTERS)], option, place in turn.gold)
                for place, option in enumerate(turn.options)
            ),
            turn.texts,
        )
        for turn in draft.rounds
    )
    pictures = [image for image in draft.images if not isinstance(image, LazyFrames)]
    return PreviewQuestion(
        draft.id, turns, tuple(_small(image_content(image, draft.where)) for image in pictures)
    )


def _small(content: bytes) -> bytes:
    with opened_image(content, "a picture") as picture:
        picture.thumbnail((WIDEST, WIDEST))
        file = io.BytesIO()
        picture.convert("RGB").save(file, "PNG")
        return file.getvalue()


def _text_lines(question: PreviewQuestion) -> list[str]:
    lines: list[str] = []
    for turn in question.turns:
        lines.append(short_name(turn.question))
        lines += [
            f"  {o.label}. {short_name(o.text)}{' ✓' if o.is_right else ''}" for o in turn.options
        ]
        lines += [f"  ✓ {short_name(' / '.join(turn.answers))}"] if turn.answers else []
    return [*lines, ""]
