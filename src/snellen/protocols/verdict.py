"""How a judge comes to a verdict: it is asked once, and once more if its reply was not a verdict. Pure.

Step 2 of MMBench 4.2: a judge says which option a reply means that no rule could read.

Judged marking of open answers: a judge compares a reply with the golds it is shown, never with the picture. MMBench,
appendix A (a mark from 1 to 5); LVLM-eHub's captions and its ensemble of wordings.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import extraction, registry
from snellen.errors import DataError
from snellen.extraction.normalisation import find_final_answer
from snellen.formats.json_files import JSON_FAULTS
from snellen.protocols.prompts.role_prompts import judge_prompt
from snellen.records import Decoding, ImageRef, Message, Request, Response, TextPart, Variant

VerdictOutcome = Literal["given", "none", "malformed", "error", "tie"]


class Verdict(Struct, frozen=True):
    """What a judge made of one reply. Only `given` has a value."""

    outcome: VerdictOutcome
    """`none`: the judge says that no option is meant. `malformed`: nothing valid came, twice. `error`: no
    answer came. `tie`: several judges, or several wordings, disagree without a majority."""
    value: int | None = None
    detail: str = ""

    @property
    def failed(self) -> bool:
        return self.outcome in ("malformed", "error")


Deliberation = Generator[list[Request], list[Response], Verdict]
VerdictReader = Callable[[str], Verdict | None]
"""From a judge's reply to a verdict; None for a reply that is not a verdict."""
ResultT = TypeVar("ResultT")
ResponseLookup = Callable[[Request], Response | None]


class NoImages:
    """The images of a judge's requests: there are none."""

    def read(self, image: ImageRef) -> bytes:
        raise DataError(
            f"a judge is shown no pictures, but image {image.digest[:12]} was asked for; ask for words only"
        )


NO_PICTURES = NoImages()


def ask_for_verdict(request: Request, reminder: str, read_verdict: VerdictReader) -> Deliberation:
    """Ask, and ask again with `reminder` after the text if the reply was not a verdict."""
    response, verdict = yield from ask_twice(request, reminded(request, reminder), read_verdict)
    if response.error is not None:
        return Verdict("error", detail=response.error.kind)
    return verdict or Verdict("malformed", detail=(response.text or "")[:60])


def ask_twice(
    request: Request, again: Request, parse: Callable[[str], ResultT | None]
) -> Generator[list[Request], list[Response], tuple[Response, ResultT | None]]:
    """Ask, and ask the other request if `parse` reads nothing in the reply: the last response, and what was read."""
    [response] = yield [request]
    if response.error is None and (result := parse(response.text or "")) is not None:
        return response, result
    if response.error is None:
        [response] = yield [again]
    return response, None if response.error is not None else parse(response.text or "")


def reminded(request: Request, reminder: str) -> Request:
    """The request with `reminder` after its last text."""
    *earlier, last = request.messages
    return replace(request, messages=(*earlier, user_message(last.text + reminder)))


def replay_verdict(
    talk: Generator[list[Request], list[Response], ResultT], find: ResponseLookup
) -> ResultT | None:
    """The result that the stored responses lead to (such as a verdict), or None if a response is missing."""
    try:
        requests = next(talk)
        while True:
            responses = [
                response for request in requests if (response := find(request)) is not None
            ]
            if len(responses) < len(requests):
                return None
            requests = talk.send(responses)
    except StopIteration as end:
        outcome: ResultT = end.value
        return outcome


def user_message(text: str) -> Message:
    return Message("user", (TextPart(text),))


_AROUND = " \t\r\n.,:;!*_`'\"()[]{}<>“”‘’（）。"
_LEADS = ("your output:", "your mark:", "verdict:")


class _Held(Struct, forbid_unknown_fields=True):
    """The reply of a server that was restricted to `Decoding.choices`."""

    verdict: str


def verdict_token(text: str) -> str:
    """The bare word of a verdict, without reasoning, lead-in or punctuation; else the whole text."""
    part = find_final_answer(text)
    word = text[part.start : part.end].strip()
    if word.startswith("{"):
        try:
            word = msgspec.json.decode(word, type=_Held).verdict
        except JSON_FAULTS:
            return word
    word = word.strip(_AROUND)
    for lead in _LEADS:
        if word.lower().startswith(lead):
            word = word[len(lead) :].strip(_AROUND)
    return word


def majority_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict of most valid verdicts, or a tie. If none is valid, the first failure."""
    valid = [verdict for verdict in verdicts if not verdict.failed]
    if not valid:
        return verdicts[0]
    ranked = Counter((verdict.outcome, verdict.value) for verdict in valid).most_common(2)
    if len(ranked) > 1 and ranked[0][1] == ranked[1][1]:
        return Verdict("tie")
    outcome, value = ranked[0][0]
    return Verdict(outcome, value)


DELIMITED = "snellen-match-1"
"""Snellen's own wording; the reply is quoted, so that it cannot pass for part of the prompt."""
DEFAULT_PROMPT = "delimited"
"""Name of the prompt that judges are given by default."""


def matching_prompt(name: str = DEFAULT_PROMPT) -> str:
    """The version of a judge prompt by its name in the registry's group `matching_prompts`: delimited, paper.

    Raises UnknownNameError.
    """
    targets = registry.targets("matching_prompts")
    if name not in targets:
        raise registry.unknown("judge prompt", name, targets)
    version: str = registry.find("matching_prompts", name)
    return version


def matching_prompts() -> dict[str, str]:
    """The versions of all matching prompts, by name."""
    return {name: matching_prompt(name) for name in registry.targets("matching_prompts")}


class JudgeTask(Struct, frozen=True, kw_only=True):
    """One reply that a judge is asked about. `start` is the protocol."""

    benchmark: str
    sample_id: str
    variant: Variant
    question: str
    reply: str
    version: str
    max_new_tokens: int = 16
    structured: bool = False
    """Restrict the judge to the valid verdicts, if its server can."""

    images = NO_PICTURES

    @property
    def label(self) -> str:
        return self.version

    @abstractmethod
    def start(self) -> Deliberation:
        """Yields the judge's requests, returns its verdict."""

    def _request(self, text: str, choices: Sequence[str]) -> Request:
        decoding = Decoding(
            max_new_tokens=self.max_new_tokens, choices=tuple(choices) if self.structured else ()
        )
        return Request(
            self.benchmark, self.sample_id, self.variant, (user_message(text),), decoding=decoding
        )


class JudgeMatching(JudgeTask, frozen=True, kw_only=True):
    """One reply to be matched with the options of its question."""

    options: tuple[str, ...]
    """In the order shown."""
    labels: tuple[str, ...]

    def start(self) -> Deliberation:
        """Yields the judge's requests; its verdict's value is the place of an option, in the order shown."""
        no_option = none_label(self.labels)
        listed = ", ".join(self.labels)
        words = judge_prompt(self.version)
        usual = words.labels if words.labels and "ABCD".startswith("".join(self.labels)) else listed
        text = words.fill(
            self.reply,
            question=self.question.strip().removesuffix("?")
            if words.ends_question
            else self.question,
            options=self._options("\n" if words.quotes else " "),
            labels=usual,
            none=no_option,
        )
        return ask_for_verdict(
            self._request(text, (*self.labels, no_option)),
            words.remind(labels=listed, none=no_option),
            lambda reply: read_label(reply, self.options, self.labels, no_option),
        )

    def _options(self, between: str) -> str:
        return between.join(
            f"{label}. {option}" for label, option in zip(self.labels, self.options, strict=True)
        )


def none_label(labels: Sequence[str]) -> str:
    """The paper's X, or a word where X is the label of an option."""
    return "NONE" if "X" in labels or "x" in labels else "X"


def read_label(
    text: str, options: Sequence[str], labels: Sequence[str], no_option: str
) -> Verdict | None:
    """Return the verdict of a judge's reply about some options, or None if it is not a verdict.

    A verdict is one of the labels or `no_option`, alone or in a sentence that plainly says so: "The answer is option
    C." A sentence that could be read in two ways is not a verdict.
    """
    word = verdict_token(text)
    if word in labels:
        return Verdict("given", list(labels).index(word))
    folded = word.casefold()
    if folded == no_option.casefold():
        return Verdict("none")
    places = [place for place, label in enumerate(labels) if label.casefold() == folded]
    if len(places) == 1:
        return Verdict("given", places[0])

    reading = extraction.read_choice(text, (*options, NONE_OF_THEM), (*labels, no_option))
    if reading.choice is None or reading.confidence != "certain":
        return None
    if reading.choice == len(options):
        return Verdict("none")
    return Verdict("given", reading.choice)


NONE_OF_THEM = "none of the options"
"""How a judge in a talkative mood says that a reply means no option."""
MARKS = (1, 5)
RIGHT_OR_WRONG = (0, 1)


class JudgedMarking(JudgeTask, frozen=True, kw_only=True):
    """One reply to be marked with a whole number on a scale."""

    golds: tuple[str, ...]
    scale: tuple[int, int] = MARKS
    """The lowest and the highest mark."""

    def start(self) -> Deliberation:
        """Yields the judge's requests; its verdict's value is the mark."""
        words = judge_prompt(self.version)
        text = words.fill(self.reply, question=self.question.strip(), gold=self._gold())
        request = self._request(text, list(map(str, range(self.scale[0], self.scale[1] + 1))))
        return ask_for_verdict(
            request, words.remind(), lambda reply: read_number(reply, *self.scale)
        )

    def _gold(self) -> str:
        """One gold as it is, a list as the paper's examples write it; own wordings have JSON."""
        golds = list(dict.fromkeys(self.golds))
        if not judge_prompt(self.version).quotes:
            return golds[0] if len(golds) == 1 else repr(golds)
        return json.dumps(golds[0] if len(golds) == 1 else golds, ensure_ascii=False)


_NUMBER = re.compile(r"(\d+)(?:\s*/\s*(\d+)|\s*\(\d+\s*/\s*\d+)?")


def read_number(text: str, lowest: int, highest: int) -> Verdict | None:
    """The verdict of a text that is one whole number within the scale (`4`, `4/5`, `Your mark: 4`); else None."""
    match = _NUMBER.fullmatch(verdict_token(text))
    if match is None or (match[2] and int(match[2]) != highest):
        return None
    value = int(match[1])
    return Verdict("given", value) if lowest <= value <= highest else None
