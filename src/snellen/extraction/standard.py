"""The reference extractor: read which option a reply means.

The steps, each in a module of its own:

1. A reply that is one option or one label and nothing else is read at once (`exact_option`, `exact_label`).
2. `final_answer` finds the answer in the reply; `normalisation` removes markup.
3. `mentions` finds where it names options, and `statements` where it states its answer explicitly. A statement that no
   other one contradicts is certain.
4. Every other reply is weighed: `features` describes it, `reader` gives the probability of each option, and the most
   probable one is `likely`.

All functions are pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from msgspec.structs import replace

from snellen.common.late import late_pattern
from snellen.extraction.cue_words import refusal_count
from snellen.extraction.features import ReplyFeatures, describe
from snellen.extraction.final_answer import FinalAnswer, find_final_answer
from snellen.extraction.mentions import MarkedReply, Mention, mark_mentions
from snellen.extraction.normalisation import (
    NormalisedReply,
    normalise_reply,
    without_listed_choices,
)
from snellen.extraction.option_forms import OptionForms, option_forms
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
    whole_mentions,
)
from snellen.extraction.yes_no import short_yes_or_no, verdict_part
from snellen.reasons import NoChoiceReason

VERSION = "snellen-choice-20"
"""Version of the rules, stored with every prediction. Any change that can change a reading changes it."""
_MOST_SEARCHED = 64_000
"""Characters of a reply in which reasoning, tags and boxes are looked for."""
_MOST_READ = 16_000
"""Characters of an answer that are read."""


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

    Examples:
        >>> reading = read_choice("It is not a cat, so (B).", ["cat", "dog"], ["A", "B"])
        >>> reading.choice, reading.extraction_method
        (1, 'label')
    """
    return _read_cached(reply, tuple(options), tuple(labels), finish, question, error)


# Presentations of a question follow one another and often receive the same reply.
@lru_cache(maxsize=256)
def _read_cached(
    reply: str,
    options: tuple[str, ...],
    labels: tuple[str, ...],
    finish: str | None,
    question: str,
    error: float | None,
) -> ExtractedChoice:
    """Read a reply, and map the words that decided back to the reply as received."""
    exact = exact_option(reply, options, labels)
    if exact is None and finish != "length":
        exact = exact_label(reply, options, labels)
    if exact is None:
        exact = exact_yes_or_no(reply, options)
    if exact is not None:
        return exact

    shortened = _without_middle(reply, _MOST_SEARCHED)
    view = view_answer(shortened, options, labels, finish, question)
    reading = _read_view(view, options, finish, question, error)
    answer_length = view.part.end - view.part.start
    is_complete = len(shortened) == len(reply) and answer_length <= _MOST_READ
    if reading.span is None or not is_complete:
        return replace(reading, span=None)
    start, end = view.text.span(*reading.span)
    return replace(reading, span=(view.part.start + start, view.part.start + end))


class AnswerView(NamedTuple):
    """The answer in a reply, with its mentions of options and its statements."""

    part: FinalAnswer
    """Where the answer is in the reply."""
    text: NormalisedReply
    """The answer, normalised."""
    forms: OptionForms
    """Words and labels of the options."""
    marked: MarkedReply
    statements: list[Statement]
    cut: bool
    """Whether the length limit cut the answer."""


def view_answer(
    reply: str,
    options: tuple[str, ...],
    labels: tuple[str, ...],
    finish: str | None,
    question: str = "",
) -> AnswerView:
    """Find the final answer in a reply, the options that it mentions, and its statements such as "the answer is B".

    Args:
        reply: The reply.
        options: Texts of the options.
        labels: Labels of the options, such as `("A", "B")`.
        finish: Why the model stopped; "length" if the limit of tokens cut the reply.
        question: The question.
    """
    part = find_final_answer(reply)
    answer = _without_middle(reply[part.start : part.end], _MOST_READ)
    text = normalise_reply(answer)
    forms = option_forms(options, labels)
    shown = without_listed_choices(text.text)
    if _asks_yes_or_no(forms):
        # The weights are learnt from cut replies with their plans, which say something of how the reply goes on.
        verdict = verdict_part(shown)
        is_complete = verdict.rstrip(' \n*)"').endswith((".", "!"))
        if is_complete or not verdict.strip():
            shown = verdict
    marked = mark_mentions(shown, forms)
    statements = find_statements(marked, question)
    is_cut = finish == "length" and part.end == len(reply) and not part.framed
    return AnswerView(
        part=part, text=text, forms=forms, marked=marked, statements=statements, cut=is_cut
    )


def _asks_yes_or_no(forms: OptionForms) -> bool:
    """Return whether the options of a question are yes and no."""
    return forms.yes_option is not None and forms.no_option is not None


def _without_middle(text: str, most: int) -> str:
    """Return a text of at most about `most` characters: the first quarter of them, and the last three quarters."""
    if len(text) <= most:
        return text
    n_first = most // 4
    n_last = most * 3 // 4
    return f"{text[:n_first]} ~ {text[-n_last:]}"


# --- replies that are an option or a label and nothing else -----------------------------------------------------------

_OUTER_SIGNS = " \n\t\r`\"'*“”「」.()[]"
"""Blanks, quotes, brackets and full stops around a label or an option."""
_LONGEST_OPTION = 2_000
_LONGEST_LABEL = 8
_LETTER = late_pattern(r"\s*(?:\((?=.\)))?(?P<letter>[A-Za-z])(?:\)\.?|\.)?\s*")
"""A letter and nothing else: "B", "B.", "(B)", "B)"."""
_WORD = late_pattern(r"\w+")


def exact_option(
    reply: str, options: Sequence[str], labels: Sequence[str]
) -> ExtractedChoice | None:
    """Return the reading of a reply that is the text of one option, apart from blanks, quotes and full stops.

    Returns:
        None if the reply is something else, if it is a label, or if it is the text of several options.
    """
    if len(reply) > _LONGEST_OPTION:
        return None
    stripped = reply.strip()
    bare = stripped.strip(_OUTER_SIGNS)
    if any(bare == label.strip(_OUTER_SIGNS) for label in labels):
        return None

    equal: list[int] = []
    nearly_equal: list[int] = []
    for index, option in enumerate(options):
        text = option.strip()
        is_nearly_equal = text == bare or (bare != "" and option.strip(_OUTER_SIGNS) == bare)
        if text and text == stripped:
            equal.append(index)
        if text and (text == stripped or is_nearly_equal):
            nearly_equal.append(index)
    if len(nearly_equal) == 1:
        [choice] = nearly_equal
    elif len(equal) == 1:
        [choice] = equal
    else:
        return None
    start = reply.find(stripped)
    return ExtractedChoice(choice, "text", "certain", span=(start, start + len(stripped)))


def exact_label(
    reply: str, options: Sequence[str], labels: Sequence[str]
) -> ExtractedChoice | None:
    """Return the reading of a reply that is the letter of a label and nothing else: "B", "(B)", "B.".

    Most replies are like that, and are read in a tenth of the time without a look at the words of all options.

    Returns:
        None if the reply is something else, or if an option has this letter as a word. A capital letter that is not
        one of the labels A, B, C, ... is read as no option.
    """
    if len(reply) > _LONGEST_LABEL:
        return None
    match = _LETTER.fullmatch(reply)
    if match is None:
        return None
    letter = match["letter"]
    bare_labels = [label.strip(_OUTER_SIGNS) for label in labels]
    for option in options:
        is_word_of_option = letter.casefold() in _WORD.findall(option.casefold())
        if is_word_of_option and option.strip() not in bare_labels:
            return None

    matching = [index for index, label in enumerate(bare_labels) if label == letter]
    if len(matching) == 1:
        return ExtractedChoice(
            choice=matching[0],
            extraction_method="label",
            confidence="certain",
            detail=STATED,
            span=match.span("letter"),
            follows_format=True,
        )
    if not matching and letter.isupper() and _are_capitals(bare_labels):
        return no_choice("no match")  # "E" where the labels are A to D
    return None


def _are_capitals(labels: Sequence[str]) -> bool:
    """Return whether there are labels and each is a capital letter from A to Z."""
    for label in labels:
        if len(label) != 1 or not label.isascii() or not label.isupper():
            return False
    return bool(labels)


def exact_yes_or_no(reply: str, options: Sequence[str]) -> ExtractedChoice | None:
    """Return the reading of a reply such as "Sure, there is." where the options are yes and no; None for any other."""
    if len(options) > 3:
        return None  # without the work of finding their words
    forms = option_forms(tuple(options), ())
    said = short_yes_or_no(reply) if _asks_yes_or_no(forms) else None
    if said is None:
        return None
    choice = forms.yes_option if said == "yes" else forms.no_option
    start = len(reply) - len(reply.lstrip())
    return ExtractedChoice(choice, "text", "certain", span=(start, len(reply.rstrip())))


# --- all other replies ------------------------------------------------------------------------------------------------

RIGHT_BY_RELATION = 0.9
"""Probability given to what a plain sentence about the relation of two things says.

At least this share of such sentences means what `relations` reads: 98 % of 351 held-out ones did.
"""


def _read_view(
    view: AnswerView,
    options: Sequence[str],
    finish: str | None,
    question: str,
    error: float | None,
) -> ExtractedChoice:
    """Read the answer in a reply. Spans are ranges of the normalised text.

    The arguments, apart from the answer, are those of `read_choice`.
    """
    if not view.text.text.strip():
        is_cut_reasoning = view.part.unfinished and finish == "length"
        return no_choice("reasoning cut off" if is_cut_reasoning else "empty")
    if not options:
        return no_choice("no match")
    if not view.marked.text.strip():
        return no_choice("cut off")  # among the steps of a plan

    statement = certain_statement(view.marked, view.statements, cut=view.cut)
    if statement is not None:
        reading = _reading_by_mention(view.marked, statement.mention)
        detail = "framed as the answer" if view.part.framed else STATED
        return replace(reading, confidence="certain", detail=detail)
    corrected = corrected_mention(view.marked)
    if corrected is not None and not view.cut:
        reading = _reading_by_mention(view.marked, corrected)
        return replace(reading, confidence="certain", detail=STATED)

    described = describe(view.marked, view.forms, view.statements, question, options, cut=view.cut)
    if described.related is None and _only_repeats_options(view, options):
        return no_choice("ambiguous")
    return _weigh(view, described, options, error)


def _weigh(
    view: AnswerView,
    described: ReplyFeatures,
    options: Sequence[str],
    error: float | None,
) -> ExtractedChoice:
    """Read the most probable option of an answer, or none if the answer leaves it open.

    Args:
        view: The answer.
        described: Its features.
        options: Texts of the options.
        error: Leave the reading open if it is wrong with more than this probability; None reads the most probable one.
    """
    chances = probabilities(described)
    related = described.related
    if related is not None and related.choice is not None:
        raised: list[float] = []
        for index, chance in enumerate(chances):
            share_of_relation = RIGHT_BY_RELATION if index == related.choice else 0.0
            raised.append((1 - RIGHT_BY_RELATION) * chance + share_of_relation)
        chances = tuple(raised)

    no_answer = len(options)  # index of "gives no answer" among the probabilities
    choice = max(range(len(chances)), key=lambda index: chances[index])
    is_rejected = choice in described.rejected
    is_unclear_relation = related is not None and related.choice is None
    is_uncertain = error is not None and chances[choice] < 1 - error
    if choice == no_answer or is_rejected or is_unclear_relation or is_uncertain:
        meant = "no answer" if choice == no_answer else repr(options[choice][:40])
        detail = f"weighed, {chances[choice]:.1%} for {meant}"
        return ExtractedChoice(
            None, None, "none", detail, reason=_why_open(view), probabilities=chances
        )

    detail = f"weighed, {chances[choice]:.1%}"
    mentions = [mention for mention in view.marked.mentions if mention.option == choice]
    whole = [mention for mention in mentions if mention.kind != "part"]
    if not mentions:
        return ExtractedChoice(choice, "text", "likely", detail, probabilities=chances)
    last_mention = whole[-1] if whole else mentions[-1]
    reading = _reading_by_mention(view.marked, last_mention)
    return replace(reading, detail=detail, probabilities=chances)


def _reading_by_mention(marked: MarkedReply, mention: Mention) -> ExtractedChoice:
    """Return the reading of a reply that chooses the option of one of its mentions, with the confidence "likely".

    The reading says whether the option is named by its label or its text, and where in `marked.text`.
    """
    methods: dict[str, RuleMethod] = {"label+text": "label+text", "text": "text", "part": "text"}
    method = methods.get(mention.kind, "label")
    start = marked.tokens[mention.first].start
    end = marked.tokens[mention.last].end
    names_label = False
    for other in marked.mentions:
        if other.option == mention.option and other.kind not in ("text", "part"):
            names_label = True
    return ExtractedChoice(
        mention.option, method, "likely", span=(start, end), follows_format=names_label
    )


_MOST_OTHER_WORDS = 2
"""Words of a reply apart from its options, if it only repeats these."""
_LONG_REPLY = 60
"""Words of a reply that can be a loop."""
_LOOP_REPEATS = 8
"""Times that a reply says each of its words on average, at least, if it is a loop."""


def _only_repeats_options(view: AnswerView, options: Sequence[str]) -> bool:
    """Return whether a reply only repeats the options, as in "Options: Yes No": it names all and has few other words."""
    named = {mention.option for mention in whole_mentions(view.marked).values()}
    if len(options) < 2 or len(named) < len(options):
        return False
    n_words = 0
    for token in view.marked.tokens:
        is_word = token.normalised[0].isalnum()
        n_words += is_word
    n_words_of_options = 0
    for mention in view.marked.mentions:
        n_words_of_options += mention.last - mention.first + 1
    return n_words - n_words_of_options <= _MOST_OTHER_WORDS


def _why_open(view: AnswerView) -> NoChoiceReason:
    """Return why a reply gives no answer.

    The reasons, in the order in which they are tried: it repeats its words in a loop, it refuses, it was cut off, it
    names several options (`ambiguous`), it names one but denies it (`negated`), or it names none (`no match`).
    """
    words = [token.normalised for token in view.marked.tokens if token.normalised[0].isalnum()]
    if len(words) > _LONG_REPLY and len(words) > _LOOP_REPEATS * len(set(words)):
        return "loop"
    if refusal_count(view.text.text):
        return "refused"
    if view.cut:
        return "cut off"
    named = {mention.option for mention in whole_mentions(view.marked).values()}
    if len(named) > 1:
        return "ambiguous"
    return "negated" if named else "no match"


# --- extractors -------------------------------------------------------------------------------------------------------


def read_by_label(
    reply: str,
    options: Sequence[str],
    labels: Sequence[str],
    *,
    finish: str | None = None,
    question: str = "",
) -> ExtractedChoice:
    """Read a reply like `read_choice`, but read no option if only the option's text says which one is meant."""
    reading = read_choice(reply, options, labels, finish=finish, question=question)
    return no_choice("no match") if reading.extraction_method == "text" else reading


def allowing(error: float) -> NamedExtractor:
    """Return the standard extractor, set to read no option if it could be wrong with more than this probability."""
    return NamedExtractor(f"{VERSION}?error={error:g}", partial(read_choice, error=error))


STANDARD = NamedExtractor(VERSION, read_choice, allowing=allowing)
STRICT = NamedExtractor(f"{VERSION}-strict", read_by_label, labels_alone)
