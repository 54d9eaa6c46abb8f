"""Recognise, by names and cells, columns of full replies, of answers parsed from replies, and of verdicts on replies."""

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
    "prediction predictions predicted pred response responses reply output outputs generated regenerated generation completion".split()
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
"""Words in names of columns that describe a reply or its question, such as `response_time` and `response_options`."""

MEASURED_WORDS = frozenset(
    "tokens token length len time latency usage cost confidence entropy logprob logprobs probs".split()
)
"""Words in names of columns with measurements of a reply, such as its length: `output_tokens`."""


def reply_score(name: str, profile: ColumnProfile) -> float:
    """Return how certainly a column holds the full replies of a model, from 0 to 1.

    `response` and `model_output` score high, `parsed_prediction` (derived from a reply) scores low,
    and `response_time` (a fact about a reply) scores 0.
    """
    if profile.completions > 0.5:
        return 1.0
    if profile.records > 0.5:
        return 0.0
    return _reply_name_score(name) if profile.is_scalar or profile.lists > 0.5 else 0.0


def is_name_of_reply(name: str) -> bool:
    """Return whether the name of a column or field says that it holds replies of a model, as `response` does."""
    return _reply_name_score(name) > 0


def is_field_of_reply(name: str) -> bool:
    """Return whether a column is a field of an object that is named like a reply, as `response.answer` is."""
    *objects, _ = name.split(".")
    return any(is_name_of_reply(part) for part in objects)


def _reply_name_score(name: str) -> float:
    """Return how certainly the name of a column means full replies of a model, from 0 to 1.

    The usual names score from 0.6 to 1, other names with a word such as `output` less, and names of
    facts about replies 0.
    """
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
"""Words that name a reply if a word for the model stands beside them, as in `model_says` and `vlm_choice`."""


def says_of_reply(name: str, profile: ColumnProfile) -> bool:
    """Return whether a column holds replies, answers parsed from them or verdicts, and not a fact about the question."""
    return bool(reply_score(name, profile)) or is_verdict(name)


def is_verdict(name: str) -> bool:
    """Return whether the name of a column says that it holds verdicts on replies, or answers parsed from them.

    `correct` may be a verdict, but `correct_answer` is the right answer.
    """
    called = folded_name(name.rpartition(".")[2])
    is_of_another = RIGHT_OF_ANOTHER_THING.search(called)
    is_right_answer = "_" in called and called in usual_names()["answer"]
    return bool(split_name(name) & _VERDICT_WORDS) and not is_of_another and not is_right_answer


_VERDICT_WORDS = frozenset(
    "correct correctness right hit match score rating judge judgement judgment grade verdict extracted extraction".split()
)


BINARY = frozenset("0 1 0.0 1.0 true false yes no".split())
"""Texts of cells, in small letters, that may be verdicts."""


def flags_beside_replies(profiles: Mapping[str, ColumnProfile]) -> tuple[str, ...]:
    """Return the columns that are named like replies but hold verdicts.

    For example, `pred` with cells of 0 and 1 is a verdict if the table also has a column `output`
    with longer texts, which are the replies.

    Nothing is returned if cells such as `yes` or 0 may be replies to yes-or-no questions. That is
    so if the column of right answers has only such cells, too, or if there is a pair such as
    `pred_defect` and `gt_defect`.

    Returns:
        The names of the columns; empty if there are none, or if no column of longer replies is
        beside them.
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
        elif not any(text.strip().casefold() in BINARY for text in profile.texts):
            texts.append(name)
    return tuple(flags) if texts else ()


def are_binary(profile: ColumnProfile) -> bool:
    """Return whether every filled cell of a column is 0, 1, true, false, yes or no."""
    return all(text.strip().casefold() in BINARY for text in profile.texts if text.strip())


def is_made_of(name: str, source: str) -> bool:
    """Return whether, by their names, one column of replies was derived from another: `cleaned_output` from `output`.

    Args:
        name: The column that may be derived.
        source: The column that it may be derived from.
    """
    is_longer = folded_name(name).endswith(f"_{folded_name(source)}")
    return is_longer and bool(split_name(name) & MADE_WORDS) and is_name_of_reply(source)
