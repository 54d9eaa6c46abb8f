"""The reference extractor: what a reply says of the options, as probabilities and as the most probable reading. Pure.

A reply passes one door (`snellen.extraction.normalisation`) that removes thoughts, turn tokens, frames and markup. What
it states explicitly is certain unless another statement contradicts it (`snellen.extraction.statements`); every other
reply is weighed (`snellen.extraction.reader`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from msgspec.structs import replace

from snellen.common.late import late_pattern
from snellen.extraction.cue_words import refusal_count
from snellen.extraction.features import describe
from snellen.extraction.mentions import (
    MarkedReply,
    Mention,
    OptionForms,
    mark_mentions,
    option_forms,
)
from snellen.extraction.normalisation import (
    FinalAnswer,
    NormalisedReply,
    find_final_answer,
    normalise_reply,
    without_listed_choices,
)
from snellen.extraction.reader import probabilities
from snellen.extraction.reading import (
    STATED,
    ExtractedChoice,
    NamedExtractor,
    RuleMethod,
    labels_alone,
    no_choice,
)
from snellen.extraction.statements import (
    Statement,
    certain_statement,
    corrected_mention,
    find_statements,
)
from snellen.reasons import NoChoiceReason

VERSION = "snellen-choice-16"
"""Stored with every prediction; any change that can change a reading changes it."""
_LOOKED_AT = 64_000
"""Characters of a reply in which thoughts, tags and boxes are looked for."""
_READ_AT_MOST = 16_000
"""Characters of an answer that are read: of a longer one the first quarter of them, and the last three."""
_GAP = " ~ "


def read_choice(
    reply: str,
    options: Sequence[str],
    labels: Sequence[str],
    *,
    finish: str | None = None,
    question: str = "",
    error: float | None = None,
) -> ExtractedChoice:
    """Read which option a reply means.

    Never raises; the same arguments always give the same reading.

    Args:
        reply: The reply as received.
        options: Texts of the options in the order shown.
        labels: What was shown before the options, such as `A` or `(1)`; may be empty.
        finish: Why the model stopped. "length" means that the length limit cut the reply.
        question: What was asked; a yes-no question is compared with what the reply says.
        error: Leave a reading open if it is wrong with more than this probability; by default the most probable
            reading counts.
    """
    return _read(reply, tuple(options), tuple(labels), finish, question, error)


class AnswerView(NamedTuple):
    """The answer in a reply, with the mentions of options in it."""

    part: FinalAnswer
    text: NormalisedReply
    forms: OptionForms
    marked: MarkedReply
    statements: list[Statement]
    cut: bool


def view_answer(
    reply: str,
    options: tuple[str, ...],
    labels: tuple[str, ...],
    finish: str | None,
    question: str = "",
) -> AnswerView:
    """Find the answer in a reply and the options that it mentions."""
    part = find_final_answer(reply)
    text = normalise_reply(_both_ends(reply[part.start : part.end], _READ_AT_MOST))
    forms = option_forms(options, labels)
    marked = mark_mentions(without_listed_choices(text.text), forms)
    cut = finish == "length" and part.end == len(reply) and not part.framed
    return AnswerView(part, text, forms, marked, find_statements(marked, question), cut)


def _both_ends(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return text[: most // 4] + _GAP + text[-(most * 3 // 4) :]


@lru_cache(
    maxsize=256
)  # presentations of a question, which follow one another, are often answered alike
def _read(
    reply: str,
    options: tuple[str, ...],
    labels: tuple[str, ...],
    finish: str | None,
    question: str,
    error: float | None,
) -> ExtractedChoice:
    whole = exact_option(reply, options, labels)
    if whole is None and finish != "length":
        whole = exact_label(reply, options, labels)
    if whole is not None:
        return whole
    shortened = _both_ends(reply, _LOOKED_AT)
    view = view_answer(shortened, options, labels, finish, question)
    reading = _read_view(view, options, finish, question, error)
    is_whole = len(shortened) == len(reply) and view.part.end - view.part.start <= _READ_AT_MOST
    if reading.span is None or not is_whole:
        return replace(reading, span=None)
    start, end = view.text.span(*reading.span)
    return replace(reading, span=(view.part.start + start, view.part.start + end))


_AROUND = " \n\t\r`\"'*“”「」.()[]"
_LONGEST_OPTION = 2_000


def exact_option(
    reply: str, options: Sequence[str], labels: Sequence[str]
) -> ExtractedChoice | None:
    """The reading of a reply that is one option letter by letter, blanks and quotes aside, and not a label."""
    if len(reply) > _LONGEST_OPTION:
        return None
    stripped = reply.strip()
    bare = stripped.strip(_AROUND)
    if any(bare == label.strip(_AROUND) for label in labels):
        return None
    candidates = {stripped, bare}
    places = [
        place
        for place, option in enumerate(options)
        if option.strip() and (option.strip() in candidates or option.strip(_AROUND) == bare != "")
    ]
    if len(places) != 1:
        places = [place for place in places if options[place].strip() == stripped]
    if len(places) != 1:
        return None
    start = reply.find(stripped)
    return ExtractedChoice(places[0], "text", "certain", span=(start, start + len(stripped)))


def exact_label(
    reply: str, options: Sequence[str], labels: Sequence[str]
) -> ExtractedChoice | None:
    """The reading of a reply that is a label's letter and nothing else, unless an option has that letter as a word.

    Most replies are like that; without a look at the words of all options they are read in a tenth of the time.
    """
    match = _LETTER.fullmatch(reply) if len(reply) <= _LONGEST_LABEL else None
    if match is None:
        return None
    letter = match["letter"]
    shown = [label.strip(_AROUND) for label in labels]
    places = [place for place, label in enumerate(shown) if label == letter]
    if any(_has_word(option, letter) and option.strip() not in shown for option in options):
        return None
    if not places and letter.isupper() and shown and all(map(_is_capital, shown)):
        return no_choice("no match")  # "E" of A to D
    if len(places) != 1:
        return None
    return ExtractedChoice(
        places[0], "label", "certain", STATED, span=match.span("letter"), follows_format=True
    )


_LONGEST_LABEL = 8
_LETTER = late_pattern(r"\s*(?:\((?=.\)))?(?P<letter>[A-Za-z])(?:\)\.?|\.)?\s*")


def _is_capital(label: str) -> bool:
    return len(label) == 1 and label.isascii() and label.isupper()


def _has_word(text: str, letter: str) -> bool:
    """Whether a letter, large or small, is in a text as a word."""
    words = _WORD.findall(text.casefold())
    return letter.casefold() in words


_WORD = late_pattern(r"\w+")


RIGHT_BY_RELATION = 0.9
"""How often a plain sentence about related things means what `relations` reads in it, at least: 98 % of 351 held-out ones."""


def _read_view(
    view: AnswerView,
    options: Sequence[str],
    finish: str | None,
    question: str,
    error: float | None,
) -> ExtractedChoice:
    if not view.text.text.strip():
        if view.part.unfinished:
            return no_choice("reasoning cut off" if finish == "length" else "empty")
        return no_choice("empty")
    if not options:
        return no_choice("no match")
    statement = certain_statement(view.marked, view.statements, cut=view.cut)
    if statement is not None:
        reading = _naming(view.marked, statement.mention)
        detail = "framed as the answer" if view.part.framed else STATED
        return replace(reading, confidence="certain", detail=detail)

    corrected = corrected_mention(view.marked)
    if corrected is not None and not view.cut:
        return replace(_naming(view.marked, corrected), confidence="certain", detail=STATED)

    described = describe(view.marked, view.forms, view.statements, question, options, cut=view.cut)
    if described.related is None and _only_repeats_options(view, options):
        return no_choice("ambiguous")
    chances = probabilities(described)
    related = described.related
    if related is not None and related.choice is not None:
        rest = 1 - RIGHT_BY_RELATION
        chances = tuple(
            rest * chance + RIGHT_BY_RELATION * (place == related.choice)
            for place, chance in enumerate(chances)
        )
    choice = max(range(len(chances)), key=chances.__getitem__)
    is_against = choice in described.rejected or (related is not None and related.choice is None)
    is_unsure = error is not None and chances[choice] < 1 - error
    is_open = choice == len(options) or is_against or is_unsure
    if is_open:
        detail = f"weighed, {chances[choice]:.1%} for " + (
            "no answer" if choice == len(options) else repr(options[choice][:40])
        )
        return ExtractedChoice(
            None, None, "none", detail, reason=_why_open(view, finish), probabilities=chances
        )
    mentions = [mention for mention in view.marked.mentions if mention.option == choice]
    named = [mention for mention in mentions if mention.kind != "part"] or mentions
    detail = f"weighed, {chances[choice]:.1%}"
    if not named:
        return ExtractedChoice(choice, "text", "likely", detail, probabilities=chances)
    reading = _naming(view.marked, named[-1])
    return replace(reading, confidence="likely", detail=detail, probabilities=chances)


def _naming(marked: MarkedReply, mention: Mention) -> ExtractedChoice:
    """The reading by a mention, before it is known how sure it is."""
    methods: dict[str, RuleMethod] = {"label+text": "label+text", "text": "text", "part": "text"}
    method = methods.get(mention.kind, "label")
    span = (marked.tokens[mention.first].start, marked.tokens[mention.last].end)
    by_label = any(
        other.option == mention.option and other.kind not in ("text", "part")
        for other in marked.mentions
    )
    return ExtractedChoice(mention.option, method, "likely", span=span, follows_format=by_label)


def _only_repeats_options(view: AnswerView, options: Sequence[str]) -> bool:
    """Whether a reply names every option and has hardly another word: "Options: Yes No"."""
    named = {mention.option for mention in view.marked.mentions if mention.kind != "part"}
    if len(options) < 2 or len(named) < len(options):
        return False
    spoken = sum(token.form[0].isalnum() for token in view.marked.tokens)
    in_options = sum(mention.last - mention.first + 1 for mention in view.marked.mentions)
    return spoken - in_options <= _FEW_WORDS


_FEW_WORDS = 2
_MANY_WORDS = 60
_REPEATS = 8


def _why_open(view: AnswerView, finish: str | None) -> NoChoiceReason:
    """Why a reply gives no answer."""
    words = [token.form for token in view.marked.tokens if token.form[0].isalnum()]
    if len(words) > _MANY_WORDS and _REPEATS * len(set(words)) < len(words):
        return "loop"
    if refusal_count(view.text.text):
        return "refused"
    if view.cut:
        return "cut off"
    named = {mention.option for mention in view.marked.mentions if mention.kind != "part"}
    if len(named) > 1:
        return "ambiguous"
    return "negated" if named else "no match"


def read_by_label(
    reply: str,
    options: Sequence[str],
    labels: Sequence[str],
    *,
    finish: str | None = None,
    question: str = "",
) -> ExtractedChoice:
    """Read a reply by labels alone: what only an option's text says is not read."""
    reading = read_choice(reply, options, labels, finish=finish, question=question)
    return no_choice("no match") if reading.extraction_method == "text" else reading


def allowing(error: float) -> NamedExtractor:
    """The reference extractor that leaves open what is wrong with more than this probability."""
    return NamedExtractor(f"{VERSION}?error={error:g}", partial(read_choice, error=error))


STANDARD = NamedExtractor(VERSION, read_choice, allowing=allowing)
STRICT = NamedExtractor(f"{VERSION}-strict", read_by_label, labels_alone)
