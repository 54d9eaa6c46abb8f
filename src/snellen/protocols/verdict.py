"""How a judge comes to a verdict: it is asked once, and once more if its reply was not a verdict. Pure.

Step 2 of MMBench 4.2: a judge says which option a reply means that no rule could read.

Judged marking of open answers: a judge compares a reply with the golds it is shown, never with the image. MMBench,
appendix A (a mark from 1 to 5); LVLM-eHub's captions and its ensemble of wordings.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import extraction, registry
from snellen.errors import DataError
from snellen.extraction.final_answer import find_final_answer
from snellen.extraction.thoughts import split_thoughts
from snellen.formats.json_files import JSON_FAULTS
from snellen.protocols.prompts.role_prompts import judge_prompt
from snellen.records import Decoding, ImageRef, Message, Request, Response, TextPart, Variant

VerdictOutcome = Literal["given", "none", "malformed", "error", "tie"]


class Verdict(Struct, frozen=True):
    """A judge's verdict on one reply. Only the outcome `given` has a value.

    Examples:
        >>> Verdict("given", 1).failed
        False
    """

    outcome: VerdictOutcome
    """`none`: the judge says that the reply means no option. `malformed`: two replies of the judge were invalid. `error`:
    the request failed. `tie`: several judges or wordings disagree without a majority.
    """
    value: float | None = None
    """The index of an option, or a mark. A mark is a whole number unless its metric takes decimals."""
    detail: str = ""
    expected: str = ""
    """The form of a verdict, as a judge whose replies were malformed was reminded of it."""

    @property
    def place(self) -> int | None:
        """The value as the index of an option."""
        return None if self.value is None else int(self.value)

    @property
    def failed(self) -> bool:
        return self.outcome in ("malformed", "error")

    @staticmethod
    def majority(verdicts: Sequence[Verdict]) -> Verdict:
        """Return the verdict that most judges gave, or a tie. If every judge failed, return the first failure.

        Examples:
            >>> Verdict.majority([Verdict("given", 1), Verdict("given", 1), Verdict("none")]).value
            1
        """
        valid = [verdict for verdict in verdicts if not verdict.failed]
        if not valid:
            return verdicts[0]
        counts = Counter((verdict.outcome, verdict.value) for verdict in valid)
        (winner, winner_count), *others = counts.most_common(2)
        for _, other_count in others:
            if other_count == winner_count:
                return Verdict("tie")
        outcome, value = winner
        return Verdict(outcome, value)


Deliberation = Generator[list[Request], list[Response], Verdict]
VerdictReader = Callable[[str], Verdict | None]
"""Function from a judge's reply to a verdict, or None if the reply is not a verdict."""
ResultT = TypeVar("ResultT")
ResponseLookup = Callable[[Request], Response | None]


class NoImages:
    """The images of requests without images."""

    def read(self, image: ImageRef) -> bytes:
        raise DataError(
            f"a judge receives no images, but its prompt requests image {image.digest[:12]}; use only text"
        )


NO_IMAGES = NoImages()


def ask_for_verdict(request: Request, reminder: str, read_verdict: VerdictReader) -> Deliberation:
    """Yield a request to a judge; if the reply is not a verdict, yield it again with a reminder at the end.

    Returns:
        The verdict. A failed request gives the verdict `error`, and two replies without a verdict `malformed`.
    """
    second_request = with_reminder(request, reminder)
    response, verdict = yield from ask_twice(request, second_request, read_verdict)
    if response.error is not None:
        return Verdict("error", detail=response.error.kind)
    if verdict is None:
        return Verdict("malformed", detail=(response.text or "")[:60], expected=reminder)
    return verdict


def ask_twice(
    request: Request, again: Request, parse: Callable[[str], ResultT | None]
) -> Generator[list[Request], list[Response], tuple[Response, ResultT | None]]:
    """Yield a request, and if its reply cannot be parsed, a second one.

    Args:
        request: The first request.
        again: The second request.
        parse: Returns the value of a reply; None if it cannot be parsed.

    Returns:
        The last response and its value. The value is None if both replies cannot be parsed, or if a request failed.
    """
    [response] = yield [request]
    if response.error is not None:
        return response, None
    result = parse(response.text or "")
    if result is not None:
        return response, result

    [response] = yield [again]
    if response.error is not None:
        return response, None
    return response, parse(response.text or "")


def with_reminder(request: Request, reminder: str) -> Request:
    """Return the request with `reminder` appended to its last text."""
    *earlier, last = request.messages
    return replace(request, messages=(*earlier, user_message(last.text + reminder)))


def replay_verdict(
    talk: Generator[list[Request], list[Response], ResultT], find: ResponseLookup
) -> ResultT | None:
    """Return the result that stored responses lead to, such as a verdict, or None if a response is missing.

    Args:
        talk: The generator that yields requests and returns the result.
        find: Returns the stored response to a request; None if there is none.
    """
    try:
        requests = next(talk)
        while True:
            responses: list[Response] = []
            for request in requests:
                response = find(request)
                if response is not None:
                    responses.append(response)
            if len(responses) < len(requests):
                return None
            requests = talk.send(responses)
    except StopIteration as end:
        outcome: ResultT = end.value
        return outcome


def user_message(text: str) -> Message:
    return Message("user", (TextPart(text),))


_CHARACTERS_AROUND_VERDICT = " \t\r\n.,:;!*_`'\"()[]{}<>“”‘’（）。"
_LEADS = ("your output:", "your mark:", "verdict:")


class _RestrictedReply(Struct, forbid_unknown_fields=True):
    """The reply of a server that could only choose one of `Decoding.choices`: a JSON object with the verdict."""

    verdict: str | int | float


def verdict_token(text: str) -> str:
    """Return the single word of a verdict, without reasoning, lead-in or punctuation, or else the whole text."""
    part = find_final_answer(text)
    word = text[part.start : part.end].strip()
    if word.startswith("{"):
        try:
            word = str(msgspec.json.decode(word, type=_RestrictedReply).verdict)
        except JSON_FAULTS:
            return word
    word = word.strip(_CHARACTERS_AROUND_VERDICT)
    for lead in _LEADS:
        if word.lower().startswith(lead):
            word = word[len(lead) :].strip(_CHARACTERS_AROUND_VERDICT)
    return word


DELIMITED = "snellen-match-1"
"""Snellen's own prompt. It quotes the reply, so that the reply cannot be taken for part of the prompt."""
DEFAULT_PROMPT = "delimited"
"""Name of the prompt that judges are given by default."""


def matching_prompt(name: str = DEFAULT_PROMPT) -> str:
    """Return the version of a judge prompt by its name in the registry group `matching_prompts`: delimited, paper.

    Raises UnknownNameError.

    Examples:
        >>> matching_prompt("delimited")
        'snellen-match-1'
    """
    targets = registry.targets("matching_prompts")
    if name not in targets:
        raise registry.unknown_name("judge prompt", name, targets)
    version: str = registry.find_registered("matching_prompts", name)
    return version


def matching_prompts() -> dict[str, str]:
    """Return the versions of all matching prompts, by name."""
    return {name: matching_prompt(name) for name in registry.targets("matching_prompts")}


class JudgeTask(Struct, frozen=True, kw_only=True):
    """A reply to be judged. `start` is the protocol."""

    benchmark: str
    sample_id: str
    variant: Variant
    question: str
    reply: str
    version: str
    max_new_tokens: int = 16
    structured: bool = False
    """Whether to restrict the judge to valid verdicts, if its server can."""

    images = NO_IMAGES

    @property
    def label(self) -> str:
        return self.version

    @abstractmethod
    def start(self) -> Deliberation:
        """Yield the judge's requests, and return its verdict."""

    def _request(self, text: str, choices: Sequence[str]) -> Request:
        """Return a request to the judge, whose reply is restricted to `choices` if the model supports that."""
        decoding = Decoding(
            max_new_tokens=max(self.max_new_tokens, judge_prompt(self.version).max_new_tokens),
            choices=tuple(choices) if self.structured else (),
        )
        return Request(
            self.benchmark, self.sample_id, self.variant, (user_message(text),), decoding=decoding
        )


class JudgeMatching(JudgeTask, frozen=True, kw_only=True):
    """A reply to be matched with the options of its question."""

    options: tuple[str, ...]
    """Options in the order shown."""
    labels: tuple[str, ...]

    def start(self) -> Deliberation:
        """Yield the judge's requests, and return its verdict. Its value is the index of an option in the order shown."""
        no_option = none_label(self.labels)
        judge_texts = judge_prompt(self.version)
        labels = ", ".join(self.labels)
        labels_in_prompt = labels
        has_first_letters = "ABCD".startswith("".join(self.labels))
        if judge_texts.labels and has_first_letters:
            # As the paper's prompt lists them, for at most four options.
            labels_in_prompt = judge_texts.labels
        question = self.question
        if judge_texts.ends_question:  # the prompt has a question mark of its own
            question = question.strip().removesuffix("?")
        option_lines: list[str] = []
        for label, option in zip(self.labels, self.options, strict=True):
            option_lines.append(f"{label}. {option}")
        separator = "\n" if judge_texts.quotes else " "
        text = judge_texts.fill(
            self.reply,
            question=question,
            options=separator.join(option_lines),
            labels=labels_in_prompt,
            none=no_option,
        )

        def read_verdict(reply: str) -> Verdict | None:
            return read_label(reply, self.options, self.labels, no_option)

        request = self._request(text, (*self.labels, no_option))
        reminder = judge_texts.remind(labels=labels, none=no_option)
        return ask_for_verdict(request, reminder, read_verdict)


def none_label(labels: Sequence[str]) -> str:
    """Return the label for "no option": the paper's X, or `NONE` if an option has the label X."""
    has_label_x = "X" in labels or "x" in labels
    return "NONE" if has_label_x else "X"


def read_label(
    text: str, options: Sequence[str], labels: Sequence[str], no_option: str
) -> Verdict | None:
    """Return the verdict of a judge's reply about some options, or None if it is not a verdict.

    A verdict is one of the labels or `no_option`, alone or in a sentence that plainly says so: "The answer is option
    C." A sentence that could be read in two ways is not a verdict.

    Args:
        text: Reply of the judge.
        options: Texts of the options.
        labels: Their labels, such as A and B.
        no_option: The label that says that no option is meant.
    """
    token = verdict_token(text)
    if token in labels:
        return Verdict("given", list(labels).index(token))
    folded_token = token.casefold()
    if folded_token == no_option.casefold():
        return Verdict("none")
    folded_labels = [label.casefold() for label in labels]
    if folded_labels.count(folded_token) == 1:
        return Verdict("given", folded_labels.index(folded_token))

    reading = extraction.read_choice(text, (*options, NONE_OF_THEM), (*labels, no_option))
    if reading.choice is None or reading.confidence != "certain":
        return None
    if reading.choice == len(options):
        return Verdict("none")
    return Verdict("given", reading.choice)


NONE_OF_THEM = "none of the options"
"""A longer form in which judges say that a reply means no option."""
MARKS = (1, 5)
RIGHT_OR_WRONG = (0, 1)


class JudgedMarking(JudgeTask, frozen=True, kw_only=True):
    """A reply to be marked with a number on a scale."""

    reference_answers: tuple[str, ...]
    scale: tuple[int, int] = MARKS
    """The lowest and the highest mark."""
    decimals: bool = False
    """Whether a mark may lie between whole numbers, such as 7.5. A judge held to valid verdicts has whole ones."""
    slots: dict[str, str] = {}
    """Texts of further slots of the prompt."""

    def start(self) -> Deliberation:
        """Yield the judge's requests, and return its verdict. Its value is the mark."""
        judge_texts = judge_prompt(self.version)
        numbered = {f"gold_{number}": gold for number, gold in enumerate(self.reference_answers, 1)}
        text = judge_texts.fill(
            self.reply,
            question=self.question.strip(),
            gold=self._gold(),
            **numbered,
            **self.slots,
        )
        lowest, highest = self.scale

        def read_word(reply: str) -> Verdict | None:
            return read_mark(reply, judge_texts.marks, judge_texts.field)

        def read_numeric_mark(reply: str) -> Verdict | None:
            mark = mark_behind(reply, judge_texts.after)
            return read_number(mark, lowest, highest, decimals=self.decimals)

        if judge_texts.marks:  # the marks of this prompt are words
            request = self._request(text, list(judge_texts.marks))
            return ask_for_verdict(request, judge_texts.remind(), read_word)
        whole_numbers = [str(number) for number in range(lowest, highest + 1)]
        request = self._request(text, whole_numbers)
        return ask_for_verdict(request, judge_texts.remind(), read_numeric_mark)

    def _gold(self) -> str:
        """Return the correct answers as the text that the judge's prompt shows.

        A prompt with quotes shows JSON: `"two"`, or `["2", "two"]` for several answers. Other prompts show a single
        answer as it is, and several as a Python list. Such a prompt may also replace words of the answers.
        """
        answers = list(dict.fromkeys(self.reference_answers))  # without duplicates, in order
        prompt = judge_prompt(self.version)
        if prompt.quotes:
            one_or_all = answers[0] if len(answers) == 1 else answers
            return json.dumps(one_or_all, ensure_ascii=False)
        if len(answers) == 1:
            text = answers[0]
        else:
            text = repr(answers)
        for word, replacement in prompt.gold_words.items():
            text = text.replace(word, replacement)
        return text


def read_mark(text: str, marks: Mapping[str, int], field: str = "") -> Verdict | None:
    """Read the verdict of a judge whose marks are words: in a field of its JSON object, or in a text.

    Args:
        text: The reply of the judge.
        marks: The words, each with the mark that it gives.
        field: Name of the field; empty if the reply is a text.

    Returns:
        The verdict, or None if the reply has none.

    Examples:
        >>> read_mark('{"extracted_answer": "b", "score": 1}', {"1": 1, "0": 0}, "score").value
        1
    """
    if not field:
        return read_mark_word(text, marks)
    # Not `find_final_answer`: the object may quote a reply that has its answer in a box.
    answer = split_thoughts(text).answer
    start = answer.find("{")
    end = answer.rfind("}") + 1
    try:
        fields = msgspec.json.decode(answer[start:end], type=dict[str, Any])
    except JSON_FAULTS:
        return None
    # A server that is restricted to `Decoding.choices` replies with the field `verdict`.
    value = fields.get(field, fields.get("verdict"))
    word = f"{value:g}" if isinstance(value, float) else str(value).casefold()
    return Verdict("given", marks[word]) if word in marks else None


def read_mark_word(text: str, marks: Mapping[str, int]) -> Verdict | None:
    """Read the verdict of a judge whose marks are words, such as "yes" and "no". Upper and lower case are the same.

    Args:
        text: The reply of the judge.
        marks: The words, each with the mark that it gives.

    Returns:
        The verdict, or None if the reply has none of the words or more than one.

    Examples:
        >>> read_mark_word("Yes, they are equivalent.", {"yes": 1, "no": 0}).value
        1
    """
    # A point between digits is part of a word: the marks may be 0, 0.5 and 1.
    words = set(re.findall(r"\w+(?:\.\d+)?", verdict_token(text).casefold()))
    used_marks = [mark for mark in marks if mark.casefold() in words]
    if len(used_marks) != 1:
        return None
    [mark] = used_marks
    return Verdict("given", marks[mark])


def mark_behind(text: str, words: str) -> str:
    """Return the number that follows some words, such as `Rating:`, in a judge's reply, as a text: `4` or `4/5`.

    If the words occur several times, the first occurrence with a number after it counts. Words in other letters (`rating:`)
    count only if there is none in these. The whole reply is returned if there is none, or if `words` is empty.

    Examples:
        >>> mark_behind("Explanation: two of three cats are named.\\nRating: 4", "Rating:")
        '4'
        >>> mark_behind("**Total score:** 8/10. It names both.", "total score:")
        '8/10'
    """
    if not words:
        return text
    # A number with decimals is not cut off: 7.5 is not the mark 7.
    pattern = re.escape(words) + r"[\s*]*(\d+(?:\s*/\s*\d+)?)(?!\.?\d)"
    match = re.search(pattern, text) or re.search(pattern, text, re.IGNORECASE)
    return match[1] if match else text


_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(?:\s*/\s*(\d+)|\s*\(\d+\s*/\s*\d+)?")


def read_number(text: str, lowest: int, highest: int, *, decimals: bool = False) -> Verdict | None:
    """Read the verdict of a judge that marks a reply with a number from `lowest` to `highest`.

    Args:
        text: The reply of the judge.
        lowest: The lowest mark.
        highest: The highest mark.
        decimals: Whether a mark may lie between whole numbers.

    Returns:
        The verdict of "4", "4/5" (if 5 is the highest mark) or "Your mark: 4"; None for any other text.

    Examples:
        >>> read_number("Your mark: 7.5", 1, 10, decimals=True).value
        7.5
    """
    match = _NUMBER.fullmatch(verdict_token(text))
    if match is None:
        return None
    denominator = match[2]
    if denominator and int(denominator) != highest:
        return None
    is_decimal = "." in match[1]
    if is_decimal and not decimals:
        return None
    mark = float(match[1]) if is_decimal else int(match[1])
    if not lowest <= mark <= highest:
        return None
    return Verdict("given", mark)
