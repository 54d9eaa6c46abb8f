"""Columns with the replies of several models to the same questions: one for each model, called after it or not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from snellen.recognition.columns import (
    PARTLY,
    name_score,
    split_name,
    usual_names,
)
from snellen.recognition.folding import folded, folded_name
from snellen.recognition.named_pairs import rest_of_gold
from snellen.recognition.profiles import ColumnProfile
from snellen.recognition.reply_names import (
    FACT_WORDS,
    MADE_WORDS,
    RAW_WORDS,
    are_binary,
    is_name_of_reply,
    is_verdict,
)

Profiles = Mapping[str, ColumnProfile]
_MODELS = re.compile(
    r"(?:gpt|claude|gemini|bard|palm|grok|llama|llava|vicuna|qwen|internvl|intern_?lm|blip|minigpt|minicpm|cogvlm|"
    r"idefics|mistral|mixtral|pixtral|deepseek|molmo|kosmos|flamingo|mplug|gemma|paligemma|smolvlm|moondream)"
    r"[-_. \w]*",
    re.IGNORECASE,
)
NOT_REPLIES = re.compile(
    r"question|prompt|caption|descri|rationale|reasoning|expla|expli|erkl|begr|justif|razon|解[析释釋説]|설명|해설|объясн|summar|judg|verdict|score|eval|grad(?:e|ing)|correct|label|"
    r"confiden|prob|logit|rank|error|latency|length|match|acc\b|f1\b|token|cost|time|steps?\b|thought|thinking|hint|context|option|choice|name|id\b",
    re.IGNORECASE,
)
"""Words in the name of a column that mentions a model, but does not hold its replies: `blip_caption`, `gpt4_score`."""
_NO_MODEL = (
    RAW_WORDS
    | MADE_WORDS
    | FACT_WORDS
    | frozenset(
        "model models llm vlm gt gold golden true truth ground reference references ref expected target ideal wrong "
        "incorrect distractor short long direct first second third last final initial previous next revised multiple "
        "human sample generated predicted user system tool".split()
    )
)
"""Words before or after `answer` or `output` that name no model: a kind of answer, or how it came about."""


def columns_of_models(reply: str, profiles: Profiles) -> tuple[str, ...]:
    """Return a column of replies with those of the other models in the table, in order.

    The names differ in the model alone, before or after a word for replies: `base_output` and `tuned_output`,
    `pred_gpt-4o` and `pred_llava`. What differs is the name of a model unless it is a word for a kind of answer, as in
    `raw_output` and `final_output`.
    """
    by_stem: dict[tuple[str, str], list[str]] = {}
    for name, profile in profiles.items():
        stem = _stem_of_reply(name)
        if stem is not None and (profile.is_scalar or profile.lists > 0.5):
            by_stem.setdefault(stem, []).append(name)
    siblings = by_stem.get(_stem_of_reply(reply) or ("", ""), [])
    return tuple(siblings) if reply in siblings else (reply,)


def _stem_of_reply(name: str) -> tuple[str, str] | None:
    """Return the words for replies in a name and where they stand, if the rest may be the name of a model; else None."""
    words = folded_name(name).split("_")
    for place in range(1, len(words)):
        rest = "_".join(words[:place])
        if _is_word_for_replies(words[place:]) and _may_be_model(rest, words[place:]):
            return "_".join(words[place:]), "last"
    for place in range(len(words) - 1, 0, -1):
        rest = "_".join(words[place:])
        if _is_word_for_replies(words[:place]) and _may_be_model(rest, words[:place]):
            return "_".join(words[:place]), "first"
    return None


def _is_word_for_replies(words: Sequence[str]) -> bool:
    """Whether words are a usual name of replies, perhaps with the code of their language: `predicted_answer_es`."""
    names = {*usual_names()["reply"], "answer"}
    without_language = words[:-1] if len(words) > 1 and len(words[-1]) == 2 else words
    return "_".join(words) in names or "_".join(without_language) in names


def _may_be_model(words: str, of_replies: Sequence[str]) -> bool:
    """Whether words beside those for replies may be the name of a model, or say how it was asked.

    `direct_prediction` was asked without reasoning, but `direct_answer` is a short right answer, as in A-OKVQA.
    """
    if _MODELS.fullmatch(words):
        return not NOT_REPLIES.search(words)
    if words == "direct":
        return "answer" not in of_replies
    is_answer = name_score("answer", f"{words}_answer") > PARTLY
    is_described = not _NO_MODEL.isdisjoint(split_name(words)) or NOT_REPLIES.search(words)
    return not is_answer and not is_described


CONDITION_IS_NONE = frozenset(
    "gt gold golden true truth ground reference references ref expected target ideal wrong incorrect correct right "
    "distractor short long full multiple human sample other alternative alternate best accepted question num n judge judged "
    "evaluator".split()
)
"""Words before `answer` that name no way of asking a model: the right answer in another form, or a wrong one."""
_OF_CONDITION = frozenset(
    "correct reasoning rationale thought response score match judgement judgment".split()
)
"""Words that follow the name of a condition in columns beside its answers: `cot_correct`, `cot_reasoning`."""


def answers_by_condition(profiles: Profiles) -> tuple[str, ...]:
    """Return the columns with the answers of one model or several beside the right ones in `answer`; else none.

    They are called after the model or the way of asking it (`cot_answer` and `direct_answer`). Either other columns are
    called alike (`cot_correct`), or there are several of them, whose cells are mostly right answers of some row.

    Args:
        profiles: The columns of a table in which none is called like replies.
    """
    by_folded = {folded_name(name): name for name in profiles}
    right = by_folded.get("answer")
    if right is None:
        return ()
    words = {folded(text) for text in profiles[right].texts}
    described: list[str] = []
    in_words: list[str] = []
    for folded_column, name in by_folded.items():
        condition = folded_column.removesuffix("_answer")
        profile = profiles[name]
        is_named = condition != folded_column and CONDITION_IS_NONE.isdisjoint(condition.split("_"))
        if not is_named or not profile.is_scalar:
            continue
        if any(f"{condition}_{word}" in by_folded for word in _OF_CONDITION):
            described.append(name)
        elif profile.share_in(words) > IN_WORDS:
            in_words.append(name)
    found = {*described, *in_words}
    if not described and len(found) < 2:
        return ()
    return tuple(name for name in profiles if name in found)


def fields_of_models(profiles: Profiles) -> tuple[str, ...]:
    """Return the fields of an object of replies by model: `responses.gpt4` and `responses.llava`; else none."""
    by_object: dict[str, list[str]] = {}
    for name, profile in profiles.items():
        outer, _, model = name.partition(".")
        if outer and is_name_of_reply(outer) and _MODELS.fullmatch(model) and profile.is_scalar:
            by_object.setdefault(outer, []).append(name)
    several = [names for names in by_object.values() if len(names) > 1]
    return tuple(several[0]) if len(several) == 1 else ()


def columns_with_verdicts(profiles: Profiles) -> tuple[str, ...]:
    """Return a column of replies for each of several models that have a column of verdicts: `clip_correct`, `llava_correct`.

    A column of a model begins with its name, and has the words of the right answers (`clip_predicted`, `llava_present`
    beside `gt_present`). None if a model has no such column, or several.
    """
    models = [
        name.partition("_")[0]
        for name, profile in profiles.items()
        if folded_name(name).rpartition("_")[2] in ("correct", "hit", "right")
        and name.count("_") == 1
        and are_binary(profile)
    ]
    golds = [name for name in profiles if name_score("answer", name) > PARTLY or rest_of_gold(name)]
    found: list[str] = []
    for model in models:
        of_model = [
            name
            for name in profiles
            if name.startswith(f"{model}_") and not is_verdict(name) and "wrong" not in name
        ]
        fitting = [
            name
            for name in of_model
            if any(
                _says_same(profiles[name], profiles[gold], SAID) for gold in golds if gold != name
            )
        ]
        if len(fitting) != 1:
            return ()
        found += fitting
    return tuple(found) if len(found) > 1 else ()


def _says_same(profile: ColumnProfile, gold: ColumnProfile, share: float) -> bool:
    """Whether a share of the cells of a column are right answers of some row, of which there are few."""
    right = {folded(text) for text in gold.texts}
    are_few = FEWEST_PER_ANSWER * len(right) <= sum(gold.texts.values())
    return profile.is_scalar and are_few and profile.share_in(right) > share


FEWEST_PER_ANSWER = 3
"""Rows for each different right answer, on average, from which these are few."""
SAID = 0.9
"""The share of the cells of a model's column that have to be right answers of some row."""


def is_name_of_model(name: str) -> bool:
    """Return whether a column has the name of a known family of models: `mistralai/Mixtral-8x7B`."""
    return _MODELS.fullmatch(name.strip().rpartition("/")[2]) is not None


IN_WORDS = 0.5
"""The share of the cells of a column that have to be right answers, or replies of the models beside it."""


def is_called_after_model(name: str, profile: ColumnProfile) -> bool:
    """Return whether a column of texts has the name of a model, so that it holds that model's replies."""
    is_model = _MODELS.fullmatch(name.strip()) is not None and not NOT_REPLIES.search(name)
    return profile.is_text and is_model
