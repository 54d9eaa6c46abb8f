"""Prompts for models in other roles (judges, Questioner and Reasoner): texts with slots, under a version."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec
from msgspec import Struct

from snellen import registry
from snellen.errors import DataError, UnknownNameError
from snellen.extraction.final_answer import find_final_answer
from snellen.extraction.thoughts import split_thoughts

MAX_REPLY_LENGTH = 2000
"""Characters of a reply that a judge sees; of a longer reply it sees the beginning and the end."""
SLOT = re.compile(r"\{(\w+)\}")
_OMISSION_MARK = " [...] "


class JudgePrompt(Struct, frozen=True, forbid_unknown_fields=True):
    """The texts of one version of a prompt for judge models.

    - `text` is the prompt, and `ask_again` the reminder after a reply that is not a verdict.
    - `labels` replaces the usual list of the labels A, B, C, D.
    - `marks` has the words with which the judge replies in place of numbers, each with its mark: `{"yes": 1, "no": 0}`.
    - `gold_words` has words of a correct answer that the prompt writes in another way: `{"<AND>": " <AND> "}`.
    - `field` is the field with the verdict if the judge replies with a JSON object; empty if it replies with a text.
    - `after` has the words before the mark, such as `Rating:`, if the judge explains its mark first.
    - `shows` says how much of a reply the judge sees: the `ends` of its final answer, where that is long, or the
      whole `answer`, without the thoughts before it.
    - `max_new_tokens` is the least length that a reply needs. The judge's settings may allow more.

    Examples:
        >>> prompt = JudgePrompt("Which option does the reply name? {options}", "Answer with one letter.")
        >>> prompt.ask_again
        'Answer with one letter.'
    """

    text: str
    ask_again: str
    labels: str = ""
    marks: dict[str, int] = {}
    gold_words: dict[str, str] = {}
    field: str = ""
    after: str = ""
    shows: Literal["ends", "answer"] = "ends"
    max_new_tokens: int = 0

    @property
    def quotes(self) -> bool:
        """Whether the prompt quotes the reply as a JSON string between tags."""
        return "<words>" in self.text

    @property
    def ends_question(self) -> bool:
        """Whether the prompt adds the question mark, so that the question is inserted without its own."""
        return "{question}?" in self.text

    def fill(self, reply: str, **slots: str) -> str:
        """Return the text with its slots filled."""
        shown = self._shown_part(reply)
        if self.quotes:
            shown = quoted(shown)
        return fill_slots(self.text, {**slots, "reply": shown})

    def _shown_part(self, reply: str) -> str:
        """Return the part of a reply that the judge sees."""
        if self.shows == "answer":
            return split_thoughts(reply).answer.strip()
        return shortened(reply)

    def remind(self, **slots: str) -> str:
        return fill_slots(self.ask_again, slots)


def judge_prompt(version: str) -> JudgePrompt:
    """Return the judge prompt of a version, such as `snellen-correct-1`. Raises UnknownNameError if it does not exist."""
    own_prompts = _own_prompts()
    if version in own_prompts:
        return own_prompts[version]
    prompts_of_suites = registry.targets("judge_prompts")
    if version not in prompts_of_suites:
        raise registry.unknown_name("judge prompt", version, [*own_prompts, *prompts_of_suites])
    prompt: JudgePrompt = registry.find_registered("judge_prompts", version)
    return prompt


def prompt_versions(kind: str) -> list[str]:
    """Return all versions of a kind of prompt, in order: `snellen-correct-1`, ... for `snellen-correct`.

    Raises:
        UnknownNameError: There is no version of this kind.
    """
    versions = (*_own_prompts(), *registry.targets("judge_prompts"))
    matching = [version for version in versions if version.rpartition("-")[0] == kind]
    if not matching:
        raise UnknownNameError(f"there is no judge prompt {kind}-1")
    return matching


def load_judge_prompts(package: str) -> dict[str, JudgePrompt]:
    """Return the prompts of the file `judge_prompts.toml` in a package, by version."""
    content = tomllib.loads(files(package).joinpath("judge_prompts.toml").read_text("utf-8"))
    return msgspec.convert(content, dict[str, JudgePrompt])


@cache
def _own_prompts() -> dict[str, JudgePrompt]:
    return load_judge_prompts("snellen.protocols.prompts")


def fill_slots(text: str, slots: Mapping[str, str]) -> str:
    """Return a text with its slots filled: `{reply}` is replaced by the value of `reply`.

    Braces in the inserted values are left unchanged.
    """
    return SLOT.sub(lambda slot: slots[slot[1]], text)


def shortened(reply: str) -> str:
    """Return a reply without its reasoning, shortened if it has more than `MAX_REPLY_LENGTH` characters.

    Then its middle is replaced by `[...]`.

    Examples:
        >>> shortened("  The answer is B. ")
        'The answer is B.'
    """
    part = find_final_answer(reply)
    words = reply[part.start : part.end].strip()
    if len(words) <= MAX_REPLY_LENGTH:
        return words
    half = (MAX_REPLY_LENGTH - len(_OMISSION_MARK)) // 2
    return words[:half] + _OMISSION_MARK + words[-half:]


def quoted(reply: str) -> str:
    """Return a reply as a JSON string without angle brackets, so that it cannot close its tag."""
    encoded = json.dumps(reply, ensure_ascii=False)
    return encoded.replace("<", "\\u003c").replace(">", "\\u003e")


# --- reasoning over several rounds ------------------------------------------------------------------------------------


class QuestionerPrompt(Struct, frozen=True, forbid_unknown_fields=True):
    """Prompts that request sub-questions."""

    system: str
    first: str
    """Prompt of the first round."""
    more: str
    """Prompt of later rounds."""
    again: str


class ReasonerPrompt(Struct, frozen=True, forbid_unknown_fields=True):
    """Prompts that request the answer."""

    system: str
    """System prompt that allows doubt."""
    last: str
    """System prompt that forbids doubt."""
    case: str
    again: str


class AnswerForm(Struct, frozen=True, forbid_unknown_fields=True):
    """Description of the expected answer."""

    answers: str
    """The possible answers as shown to the model; empty for open questions."""
    reply: str
    """What the last line of the reply must contain."""


class ReasoningPrompts(Struct, frozen=True, forbid_unknown_fields=True):
    """All texts of one version. An empty `system` is left out of the conversation."""

    version: str
    """Stored in the journal with each request. A file without a version gets a digest."""
    doubt: str
    """What the Reasoner writes to express doubt."""
    questioner: QuestionerPrompt
    reasoner: ReasonerPrompt
    choice: AnswerForm
    open: AnswerForm


_COMMON_SLOTS = frozenset(
    {"question", "answers", "caption", "dialogue", "analysis", "count", "reply", "doubt"}
)
_SLOTS_OF_TEXTS = {("choice", "answers"): _COMMON_SLOTS | {"options"}}
"""By table and name of a text: its slots if they are others than `_COMMON_SLOTS`."""


@cache
def _own_reasoning_texts() -> dict[str, Any]:
    return tomllib.loads(
        files("snellen.protocols.prompts").joinpath("reasoning_prompts.toml").read_text("utf-8")
    )


def parse_reasoning_prompts(content: Mapping[str, Any], where: str) -> ReasoningPrompts:
    """Return the prompts for step-by-step reasoning in a file. What the file leaves out is taken from Snellen's own.

    Args:
        content: The content of the file: tables of texts.
        where: Path of the file, for messages.

    Raises:
        DataError: The file has a text that is not known, or a text has a slot that is never filled.
    """
    texts_of_all = _overlaid(_own_reasoning_texts(), _versioned(content))
    try:
        prompts = msgspec.convert(texts_of_all, ReasoningPrompts)
    except msgspec.ValidationError as error:
        raise DataError(f"{where}: not a file of reasoning prompts ({error})") from None
    for table, texts in msgspec.to_builtins(prompts).items():
        if not isinstance(texts, dict):
            continue
        for name, text in texts.items():
            known_slots = _SLOTS_OF_TEXTS.get((table, name), _COMMON_SLOTS)
            for slot in SLOT.findall(text):
                if slot not in known_slots:
                    listed = ", ".join(sorted(known_slots))
                    raise DataError(
                        f"{where}: [{table}] {name} has the slot {{{slot}}}; known: {listed}"
                    )
    return prompts


def _versioned(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the content of a file of prompts with a `version`; if it has none, that is a digest of the content."""
    if not content or "version" in content:
        return content
    encoded = msgspec.json.encode(content, order="deterministic")
    digest = hashlib.sha256(encoded).hexdigest()[:8]
    return {"version": f"own-{digest}", **content}


def _overlaid(defaults: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default texts with those of a file in place of them. Tables are merged text by text."""
    merged = {**defaults, **content}
    for name, texts in content.items():
        default_texts = defaults.get(name)
        if isinstance(texts, Mapping) and isinstance(default_texts, Mapping):
            merged[name] = {**default_texts, **texts}
    return merged


def fill_case(text: str, slots: Mapping[str, str]) -> str:
    """Return a text with its slots filled, without the lines whose slots are all empty."""
    filled_lines: list[str] = []
    for line in text.split("\n"):
        if _has_content(line, slots):
            filled_lines.append(fill_slots(line, slots))
    return "\n".join(filled_lines)


def _has_content(line: str, slots: Mapping[str, str]) -> bool:
    """Return whether a line has no slots, or a slot that is not empty."""
    names = SLOT.findall(line)
    return not names or any(slots[name] for name in names)
