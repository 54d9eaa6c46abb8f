"""Whether a column holds replies of a model, what was made of them, or verdicts on them, by its name and its cells."""

from __future__ import annotations

from collections.abc import Mapping

from snellen.recognition.columns import (
    PARTLY,
    RIGHT_OF_ANOTHER_THING,
    WORD_PARTS,
    name_score,
    split_name,
    usual_names,
    without_brackets,
)
from snellen.recognition.folding import folded_name
from snellen.recognition.named_pairs import gold_beside
from snellen.recognition.profiles import ColumnProfile

_REPLY_WORDS = frozenset(
    "prediction predictions predicted pred response responses reply output outputs generated generation completion".split()
)
RAW_WORDS = frozenset("full raw original whole".split())
MADE_WORDS = frozenset(
    "extracted extraction parsed clean cleaned processed filtered norm normalized letter option choice idx index indexs "
    "label labels letters class list count number".split()
)
"""Words in names of columns that a harness derives from replies: `parsed_prediction`, `predicted_label`."""
FACT_WORDS = frozenset(
    "correct right score scores rating match hit judge judgement judgment eval evaluation log reason explanation "
    "confidence distribution entropy logprob logprobs prob probs token tokens length len time latency usage cost type "
    "id ids key status code file path dir url image format hash md5 sha sha256 options choices prompt "
    "question accuracy acc rate total".split()
)
"""Words in names of columns that describe replies and hold none: `output_tokens`, `response_time`, `response_options`."""

MEASURED_WORDS = frozenset(
    "tokens token length len time latency usage cost confidence entropy logprob logprobs probs".split()
)
"""Words in names of columns with what was measured of replies, also where a name has `output`: `output_tokens`."""


def reply_score(name: str, profile: ColumnProfile) -> float:
    """Return how certainly a column holds the full replies of a model, and not parsed answers, from 0 to 1."""
    if profile.completions > 0.5:
        return 1.0
    if profile.records > 0.5:
        return 0.0
    return _reply_name_score(name) if profile.is_scalar or profile.lists > 0.5 else 0.0


def is_name_of_reply(name: str) -> bool:
    """Return whether the name of a column or field says that it holds replies of a model."""
    return _reply_name_score(name) > 0


def is_field_of_reply(name: str) -> bool:
    """Return whether a column is a field of an object named like a reply: `response.answer`."""
    *objects, _ = name.split(".")
    return any(is_name_of_reply(part) for part in objects)


def _reply_name_score(name: str) -> float:
    last = name.rpartition(".")[2]
    folded = folded_name(without_brackets(last))
    names = usual_names()["reply"]
    if folded in names:
        return 1 - 0.4 * names.index(folded) / len(names)
    words = {word.casefold() for word in WORD_PARTS.findall(last)}
    is_answer_of = not words.isdisjoint(_ANSWERS) and not words.isdisjoint(_ANSWERERS)
    if (not words & _REPLY_WORDS and not is_answer_of) or words & FACT_WORDS:
        return 0.0
    if words & MADE_WORDS:
        return 0.2
    return 0.55 if words & RAW_WORDS else PARTLY


_ANSWERERS = frozenset("model raw gpt llm vlm bot".split())
_ANSWERS = frozenset(
    "answer says said choice pick picked guess guessed decision selection selected".split()
)
"""Words for what a model says, beside one for the model: `model_says`, `vlm_choice`."""


def says_of_reply(name: str, profile: ColumnProfile) -> bool:
    """Return whether a column holds replies, parsed answers or verdicts, and not a fact about the question."""
    return bool(reply_score(name, profile)) or is_verdict(name)


def is_verdict(name: str) -> bool:
    """Return whether the name of a column says that it holds verdicts on replies, or parsed answers.

    `correct` may be a verdict, and `correct_answer` is the right answer.
    """
    called = folded_name(name.rpartition(".")[2])
    is_of_another = RIGHT_OF_ANOTHER_THING.search(called)
    is_right_answer = "_" in called and called in usual_names()["answer"]
    return bool(split_name(name) & _VERDICT_WORDS) and not is_of_another and not is_right_answer


_VERDICT_WORDS = frozenset(
    "correct correctness right hit match score rating judge judgement judgment grade verdict extracted extraction".split()
)


_BINARY = frozenset("0 1 0.0 1.0 true false yes no".split())
"""Texts of cells that may be verdicts."""


def flags_beside_replies(profiles: Mapping[str, ColumnProfile]) -> tuple[str, ...]:
    """Return columns that are called like replies but hold verdicts: `pred` with 0 and 1 beside `output` with texts.

    Where right answers are such words too, or a column is called alike but for the word that says it is right, these are
    replies to yes-or-no questions.
    """
    flags: list[str] = []
    texts: list[str] = []
    for name, profile in profiles.items():
        if not profile.is_scalar or not profile.texts:
            continue
        is_binary = are_binary(profile)
        if not reply_score(name, profile):
            if is_binary and name_score("answer", name) > 0:
                return ()
        elif is_binary:
            if gold_beside(name, profiles):
                return ()
            flags.append(name)
        elif not any(text.strip().casefold() in _BINARY for text in profile.texts):
            texts.append(name)
    return tuple(flags) if texts else ()


def are_binary(profile: ColumnProfile) -> bool:
    """Return whether all cells of a column are 0 and 1, or words for these."""
    return all(text.strip().casefold() in _BINARY for text in profile.texts if text.strip())


def is_made_of(name: str, source: str) -> bool:
    """Return whether a column of replies was made of another, by their names: `cleaned_output` of `output`."""
    is_longer = folded_name(name).endswith(f"_{folded_name(source)}")
    return is_longer and bool(split_name(name) & MADE_WORDS) and is_name_of_reply(source)
