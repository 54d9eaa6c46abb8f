"""What a Questioner asks and what a Reasoner concludes, read in their replies. Pure.

Generous: list or prose, one line or many, JSON, markup, any case, words around. The published parser is
`snellen.protocols.reasoning`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from snellen.common.late import late_pattern
from snellen.extraction.normalisation import find_final_answer, normalise_reply
from snellen.extraction.reading import NamedExtractor


class ReadConclusion(Struct, frozen=True):
    """What a Reasoner said."""

    analysis: str
    answer: str
    """The words that hold the answer or the doubt."""
    doubt: bool = False


class ConclusionReader(Protocol):
    """Reads a Reasoner's reply, given the options in the order shown, their labels and the rules that read answers.

    None for a reply that neither answers nor doubts. In the `last` round an answer beside a doubt counts.
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
    """One way to read both."""

    sub_questions: Callable[[str], list[str]]
    """In order, without their markers; empty when there is none."""
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
    """Every question in a reply; where nothing ends with a question mark, the items of its list."""
    body = _answered(reply)
    if (listed := _listed(body)) is not None:
        return _distinct(listed)
    lines = [line.strip() for line in _MARKUP.sub(" ", body).splitlines() if line.strip()]
    questions = [question for line in lines for question in _questions_in(line)]
    if questions:
        return _distinct(questions)
    return _distinct(_without_markers(line) for line in lines if _MARKER.match(line))


def _questions_in(line: str) -> Iterator[str]:
    for part in _BETWEEN.split(line):
        question = _without_markers(part)
        if question.endswith(("?", "？")) and len(question) > 2:
            yield question


def _without_markers(text: str) -> str:
    text = text.strip(_QUOTES)
    while (marker := _MARKER.match(text) or (_LEAD.match(text))) and marker.end() < len(text):
        text = text[marker.end() :].strip(_QUOTES)
    return text


def _listed(body: str) -> list[str] | None:
    """The texts of a JSON list, alone or under a key that names it; None where there is none."""
    content = _json_in(body, "[{")
    if isinstance(content, dict):
        lists = [
            value
            for name, value in content.items()
            if _QUESTION_KEYS.search(name) and isinstance(value, list)
        ]
        content = (
            lists[0] if lists else [value for value in content.values() if isinstance(value, str)]
        )
    if not isinstance(content, list):
        return None
    texts = [_text_of(item) for item in content]
    return [_without_markers(text) for text in texts if text.strip()] or None


def _text_of(item: Any) -> str:
    if isinstance(item, dict):
        return next(
            (
                value
                for value in item.values()
                if isinstance(value, str) and value.strip().endswith("?")
            ),
            "",
        )
    return item if isinstance(item, str) else ""


def _distinct(questions: Iterable[str]) -> list[str]:
    distinct: dict[str, str] = {}
    for question in filter(None, questions):
        distinct.setdefault(bare_words(question), question)
    return list(distinct.values())


def bare_words(text: str) -> str:
    """The same for two texts that differ in case, blanks or punctuation only."""
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
LONGEST_BARE_ANSWER = 12
"""Words of a line that may be the answer to an open question without saying so."""


def standard_conclusion(
    reply: str,
    options: Sequence[str],
    labels: Sequence[str],
    extractor: NamedExtractor,
    *,
    last: bool,
) -> ReadConclusion | None:
    """The last words of a reply that answer or doubt: behind `Answer:` or the like, or its last line.

    What an option says is that option, even where it says "not sure". A doubt goes before an answer in the same
    words ("we are not sure, but 2"), except in the last round.
    """
    for analysis, words in _candidates(normalise_reply(_answered(reply)).text):
        doubt = _doubt_in(words, options)
        if doubt and not last:
            return ReadConclusion(analysis, words, doubt=True)
        certain = words if doubt is None else _without(words, doubt)
        if _answers(certain, options, labels, extractor):
            return ReadConclusion(analysis, certain)
        if doubt:
            return ReadConclusion(analysis, words, doubt=True)
    return None


def _candidates(body: str) -> list[tuple[str, str]]:
    """The analysis and the words that may be the conclusion, the last of the reply first."""
    content = _json_in(body, "{")
    if isinstance(content, dict):
        by_name = {str(name).casefold(): str(value) for name, value in content.items()}
        answer = next((by_name[name] for name in _ANSWER_KEYS if name in by_name), "")
        if answer:
            return [
                (next((by_name[name] for name in _ANALYSIS_KEYS if name in by_name), ""), answer)
            ]
    candidates: dict[int, tuple[int, str]] = {}
    for marker in _ANSWER.finditer(body):
        if words := _clean(body[marker.end() :].lstrip().partition("\n")[0]):
            candidates[marker.end()] = marker.start(), words
    lines = [line for line in re.finditer(r"[^\n]+", body) if _clean(line[0])]
    if lines and not any(place >= lines[-1].start() for place in candidates):
        candidates[lines[-1].start()] = lines[-1].start(), _clean(lines[-1][0])
    ordered = (candidates[place] for place in sorted(candidates, reverse=True))
    return [(_ANALYSIS.sub("", body[:start].strip()), words) for start, words in ordered]


def _clean(words: str) -> str:
    return words.strip(" \t\"'*_`{}[]")


def _answers(
    words: str, options: Sequence[str], labels: Sequence[str], extractor: NamedExtractor
) -> bool:
    if options:
        return extractor.reading("a step of a talk", words, options, labels).choice is not None
    return 0 < len(words.split()) <= LONGEST_BARE_ANSWER


def _doubt_in(words: str, options: Sequence[str]) -> re.Match[str] | None:
    """Where words express doubt, unless an option contains them: "2. He is not sure where to go"."""
    doubt = _DOUBT.search(words)
    if doubt is None:
        return None
    mentioned = [
        bare_words(option) for option in options if bare_words(option) in bare_words(words)
    ]
    return None if any(bare_words(doubt[0]) in option for option in mentioned) else doubt


def _without(words: str, doubt: re.Match[str]) -> str:
    certain = f"{words[: doubt.start()]} {words[doubt.end() :]}".strip(" ,;.:-")
    return re.sub(r"^(?:but|however|though|yet)\b[\s,:]*", "", certain, flags=re.IGNORECASE)


def _answered(reply: str) -> str:
    """A reply without its reasoning in tags and without turns that it makes up."""
    part = find_final_answer(reply)
    return reply[part.start : part.end].strip()


def _json_in(body: str, openings: str) -> Any:
    """The JSON value that a reply holds, if any; words and code fences may stand around it."""
    for opening in openings:
        start, end = body.find(opening), body.rfind({"[": "]", "{": "}"}[opening])
        if 0 <= start < end:
            try:
                return msgspec.json.decode(body[start : end + 1].encode())
            except msgspec.DecodeError:
                continue
    return None


STANDARD_PARSER = ReasoningParser(standard_sub_questions, standard_conclusion)
