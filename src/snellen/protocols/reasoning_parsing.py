"""Extract a Questioner's sub-questions and a Reasoner's conclusion from their replies.

The rules accept lists or prose, one line or several, JSON, markup, any case and surrounding text. The published rules
are in `snellen.protocols.reasoning`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from snellen.common.late import late_pattern
from snellen.extraction.final_answer import find_final_answer
from snellen.extraction.normalisation import normalise_reply
from snellen.extraction.reading import NamedExtractor


class ReadConclusion(Struct, frozen=True):
    """The conclusion in a Reasoner's reply."""

    analysis: str
    answer: str
    """The text of the answer, or of the doubt."""
    doubt: bool = False


class ConclusionReader(Protocol):
    """Function that extracts the conclusion from a Reasoner's reply.

    It takes the options in the order shown, their labels, and the rules that extract answers, and returns None if the
    reply neither answers nor doubts. With `last`, an answer counts even if the reply also expresses doubt.
    """

    def __call__(
        self,
        reply: str,
        options: Sequence[str],
        labels: Sequence[str],
        extractor: NamedExtractor,
        *,
        last: bool,
    ) -> ReadConclusion | None: ...


class ReasoningParser(Struct, frozen=True):
    """A pair of functions that read the replies of Questioner and Reasoner."""

    sub_questions: Callable[[str], list[str]]
    """Returns the sub-questions of a reply in order, without their markers; empty if there are none."""
    conclusion: ConclusionReader


# --- sub-questions -------------------------------------------------------------------------------------------------

_NAMES = r"(?:sub[\s_-]*questions?|questions?|q)"
_MARKER = late_pattern(
    rf"(?:[-+*•·▪◦‣–—>#]+\s+|\d{{1,2}}\s*\|\s*|\(?\d{{1,2}}[.):]\s*|\(?[a-z][.)]\s+|{_NAMES}\s*(?:no\.?\s*|#\s*)?\d{{0,2}}\s*[:.)-]+\s*)",
    re.IGNORECASE,
)
_BETWEEN = late_pattern(
    rf"(?<=[?？])[\"'”’)\]*_]*[,;/|]*\s*|\b(?={_NAMES}\s*\d{{1,2}}\s*[:.)])", re.IGNORECASE
)
_LEAD = late_pattern(
    rf"^[^?]*\b{_NAMES}[^?:]*:\s+(?=\S)|^[^?]*!\s+(?=\S)|^(?:sure|okay|ok|certainly|of course)[,.]\s+",
    re.IGNORECASE,
)
_QUOTES = " \t\"'“”‘’`*_[]{},;|"
_MARKUP = late_pattern(r"```[a-z]*|</?[a-z]+>|`+|\*{2,}|(?<=\S)\*|\*(?=\S)", re.IGNORECASE)
_QUESTION_KEYS = late_pattern(rf"{_NAMES}$|items?$|list$", re.IGNORECASE)


def standard_sub_questions(reply: str) -> list[str]:
    """Return every question in a reply or, if no sentence ends with a question mark, the items of its list."""
    body = _final_part(reply)
    json_questions = _questions_in_json(body)
    if json_questions is not None:
        return _distinct(json_questions)

    questions: list[str] = []
    list_items: list[str] = []
    for line in _MARKUP.sub(" ", body).splitlines():
        text = line.strip()
        questions.extend(_questions_in(text))
        if _MARKER.match(text):
            list_items.append(_without_markers(text))
    return _distinct(questions or list_items)


def _questions_in(line: str) -> Iterator[str]:
    """Yield the questions in one line, without markers."""
    for part in _BETWEEN.split(line):
        question = _without_markers(part)
        if question.endswith(("?", "？")) and len(question) > 2:
            yield question


def _without_markers(text: str) -> str:
    """Return a text without list markers ("1.") and lead-ins ("Q1:") before it, and quotation marks around it.

    A text that consists only of a marker is returned as it is.
    """
    text = text.strip(_QUOTES)
    while True:
        marker = _MARKER.match(text) or _LEAD.match(text)
        if marker is None or marker.end() >= len(text):
            return text
        text = text[marker.end() :].strip(_QUOTES)


def _questions_in_json(body: str) -> list[str] | None:
    """Return the questions of a reply in JSON; None if it has none.

    The JSON is a list of questions, an object with such a list under a key such as `questions`, or an object whose
    values are questions.
    """
    content = _json_in(body, "[{")
    items: list[Any] = []
    if isinstance(content, list):
        items = content
    elif isinstance(content, dict):
        items = [value for value in content.values() if isinstance(value, str)]
        for name, value in content.items():
            if _QUESTION_KEYS.search(name) and isinstance(value, list):
                items = value
                break
    questions: list[str] = []
    for item in items:
        text = _text_of(item)
        if text.strip():
            questions.append(_without_markers(text))
    return questions or None


def _text_of(item: Any) -> str:
    """Return the text of an item of a JSON list: the item itself, or the first question in an object."""
    if isinstance(item, str):
        return item
    if isinstance(item, dict):
        for value in item.values():
            if isinstance(value, str) and value.strip().endswith("?"):
                return value
    return ""


def _distinct(questions: Iterable[str]) -> list[str]:
    """Return questions without empty and repeated ones. Two questions are the same if they have the same words."""
    question_by_words: dict[str, str] = {}
    for question in questions:
        if question:
            question_by_words.setdefault(bare_words(question), question)
    return list(question_by_words.values())


def bare_words(text: str) -> str:
    """Return the words of a text in lower case, which are equal for texts that differ in case, blanks or punctuation."""
    words: list[str] = re.findall(r"\w+", text.casefold())
    return " ".join(words)


# --- conclusion ----------------------------------------------------------------------------------------------------

_ANSWER = late_pattern(
    r"\b(?:final|most likely|more likely|likely|best|correct|right|my|our|the)?\s*(?:answer|conclusion|verdict)"
    r"(?:\s+(?:number|no\.?))?[\"'*_\s]{0,6}(?:\bis\b\s*:?|would be\b\s*:?|:|=|->|：)[\"'*_\s]*"
    r"(?:(?:number|no\.|#)\s*(?=\d))?",
    re.IGNORECASE,
)
_ANALYSIS = late_pattern(
    r"^[\W_]*(?:the\s+)?(?:analysis|reasoning|explanation)\s*[:：]\s*", re.IGNORECASE
)
_DOUBT = late_pattern(
    r"\b(?:(?:we|i)(?:\s*'re|\s*'m|\s+are|\s+am)?\s+)?(?:still\s+)?"
    r"(?:not\s+(?:\w+\s+){0,2}(?:sure|certain|confident|determinable|possible to (?:say|tell|determine|decide)|enough)"
    r"|unsure|uncertain|undecided|undetermined|unknown|inconclusive"
    r"|(?:can\s?not|can't|could not|couldn't|unable to|impossible to)\s+(?:\w+\s+)?(?:be\s+)?"
    r"(?:determined?|decided?|tell|told|say|said|answer(?:ed)?|conclude[d]?|know)"
    r"|insufficient|(?:need|needs|require|requires)\s+(?:more|further|additional)\b"
    r"|more\s+(?:information|evidence|details?)\s+(?:is|are)\s+(?:needed|required|necessary))\b[^.;,\n]*",
    re.IGNORECASE,
)
_ANSWER_KEYS = ("answer", "final_answer", "final answer", "conclusion", "verdict")
_ANALYSIS_KEYS = ("analysis", "reasoning", "explanation")
MAX_WORDS_OF_BARE_ANSWER = 12
"""Maximum number of words in a line that counts as the answer to an open question without a marker."""


def standard_conclusion(
    reply: str,
    options: Sequence[str],
    labels: Sequence[str],
    extractor: NamedExtractor,
    *,
    last: bool,
) -> ReadConclusion | None:
    """Return the last statement of a reply that answers or doubts: after `Answer:` or a similar marker, or its last line.

    Text that belongs to an option is that option, even if the option says "not sure". If a statement both doubts and
    answers ("we are not sure, but 2"), the doubt counts, except in the last round.
    """
    for analysis, conclusion_text in _candidates(normalise_reply(_final_part(reply)).text):
        doubt = _doubt_in(conclusion_text, options)
        if doubt and not last:
            return ReadConclusion(analysis, conclusion_text, doubt=True)
        certain = conclusion_text if doubt is None else _without_doubt(conclusion_text, doubt)
        if _is_answer(certain, options, labels, extractor):
            return ReadConclusion(analysis, certain)
        if doubt:
            return ReadConclusion(analysis, conclusion_text, doubt=True)
    return None


def _candidates(body: str) -> list[tuple[str, str]]:
    """Return the possible conclusions of a reply, the last one first, each with the analysis before it.

    If the reply is a JSON object with an answer, this is the only conclusion. Otherwise a conclusion is what follows
    "answer:" in its line, or the last line.

    Returns:
        Pairs of the analysis and the conclusion.
    """
    content = _json_in(body, "{")
    if isinstance(content, dict):
        values = {str(name).casefold(): str(value) for name, value in content.items()}
        answer = _first_value(values, _ANSWER_KEYS)
        if answer:
            return [(_first_value(values, _ANALYSIS_KEYS), answer)]

    # By the offset of each conclusion: the end of the analysis before it, and the text of the conclusion.
    conclusions: dict[int, tuple[int, str]] = {}
    for marker in _ANSWER.finditer(body):
        rest_of_line = body[marker.end() :].lstrip().partition("\n")[0]
        conclusion = _clean(rest_of_line)
        if conclusion:
            conclusions[marker.end()] = (marker.start(), conclusion)
    lines = [line for line in re.finditer(r"[^\n]+", body) if _clean(line[0])]
    if lines:
        last_line = lines[-1]
        start = last_line.start()
        has_conclusion_in_last_line = any(offset >= start for offset in conclusions)
        if not has_conclusion_in_last_line:
            conclusions[start] = (start, _clean(last_line[0]))

    candidates: list[tuple[str, str]] = []
    for offset in sorted(conclusions, reverse=True):
        analysis_end, conclusion = conclusions[offset]
        analysis = _ANALYSIS.sub("", body[:analysis_end].strip())
        candidates.append((analysis, conclusion))
    return candidates


def _first_value(content: dict[str, str], names: tuple[str, ...]) -> str:
    """Return the value of the first of the names that is present; empty if none is."""
    for name in names:
        if name in content:
            return content[name]
    return ""


def _clean(text: str) -> str:
    """Return a text without spaces, quotation marks, brackets and markup around it."""
    return text.strip(" \t\"'*_`{}[]")


def _is_answer(
    text: str, options: Sequence[str], labels: Sequence[str], extractor: NamedExtractor
) -> bool:
    """Return whether a text is an answer: it names an option or, for an open question, is short enough."""
    if options:
        return extractor.reading("a step of a talk", text, options, labels).choice is not None
    return 0 < len(text.split()) <= MAX_WORDS_OF_BARE_ANSWER


def _doubt_in(text: str, options: Sequence[str]) -> re.Match[str] | None:
    """Return the match of a phrase of doubt, unless an option contains it, as in "2. He is not sure where to go"."""
    doubt = _DOUBT.search(text)
    if doubt is None:
        return None
    bare_text = bare_words(text)
    bare_doubt = bare_words(doubt[0])
    for option in options:
        bare_option = bare_words(option)
        if bare_option in bare_text and bare_doubt in bare_option:
            return None
    return doubt


def _without_doubt(text: str, doubt: re.Match[str]) -> str:
    """Return the text without the phrase of doubt and a conjunction after it."""
    before = text[: doubt.start()]
    after = text[doubt.end() :]
    certain = f"{before} {after}".strip(" ,;.:-")
    return re.sub(r"^(?:but|however|though|yet)\b[\s,:]*", "", certain, flags=re.IGNORECASE)


def _final_part(reply: str) -> str:
    """Return a reply without tagged reasoning and without turns that the model made up."""
    part = find_final_answer(reply)
    return reply[part.start : part.end].strip()


def _json_in(body: str, openings: str) -> Any:
    """Return the JSON value in a reply, which may have text and code fences around it; None if there is none.

    Args:
        body: The reply.
        openings: The brackets with which the value may begin, such as `[{` for a list or, if there is none, an object.
    """
    closing_brackets = {"[": "]", "{": "}"}
    for opening in openings:
        start = body.find(opening)
        end = body.rfind(closing_brackets[opening])
        if 0 <= start < end:
            try:
                return msgspec.json.decode(body[start : end + 1].encode())
            except msgspec.DecodeError:
                continue
    return None


STANDARD_PARSER = ReasoningParser(standard_sub_questions, standard_conclusion)
