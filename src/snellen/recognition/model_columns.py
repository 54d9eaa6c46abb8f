"""Find the columns with replies of several models to the same questions, which may be named after the models."""

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
    r"question|prompt|caption|descri|rationale|reasoning|expla|explic|erklär|erklaer|begründ|begruend|justif|(?<![^\W_])razon|raciocin|spiegaz|解[析释釋説]|理由|推理|설명|해설|이유|объясн|обоснов|поясн|açıklama|summar|judg|verdict|score|eval|grad(?:e|ing)|correct|label|"
    r"confiden|prob|logit|rank|error|latency|length|match|acc\b|f1\b|token|cost|time|steps?\b|thought|thinking|hint|context|option|choice|name|(?<![a-z])(?:image|img|video|question|sample|doc|row|item|[qupgs])?id\b",
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
        "human sample generated predicted prediction pred response candidate actual user system tool".split()
    )
)
"""Words before or after `answer` or `output` that name no model, but a kind of answer or a step of
its making: `final_output`."""


def columns_of_models(reply: str, profiles: Profiles) -> tuple[str, ...]:
    """Return a column of replies with those of the other models in the table, in the order of the table.

    Their names differ only in the model, which stands before or after a word for replies:
    `base_output` and `tuned_output`, or `pred_gpt-4o` and `pred_llava`. A word for a kind of reply
    names no model: `raw_output` and `final_output` are replies of the same one.

    Args:
        reply: A column of replies.
        profiles: The columns of the table.

    Returns:
        The columns, `reply` among them; only `reply` if the table has no others.
    """
    pattern = _naming_pattern(reply)
    if pattern is None:
        return (reply,)

    siblings: list[str] = []
    for name, profile in profiles.items():
        may_hold_replies = profile.is_scalar or profile.lists > 0.5
        if may_hold_replies and _naming_pattern(name) == pattern:
            siblings.append(name)
    return tuple(siblings) if reply in siblings else (reply,)


def _naming_pattern(name: str) -> tuple[str, str] | None:
    """Return how a column of replies is named after its model: `("output", "last")` for `tuned_output`.

    The first item has the words for replies, and the second says whether these are the first or the
    last words of the name. None means that the name has no such words, or that its other words
    cannot name a model.
    """
    words = folded_name(name).split("_")
    for split in range(1, len(words)):
        model = "_".join(words[:split])
        reply_words = words[split:]
        if _is_word_for_replies(reply_words) and _may_be_model(model, reply_words):
            return "_".join(reply_words), "last"
    for split in range(len(words) - 1, 0, -1):
        model = "_".join(words[split:])
        reply_words = words[:split]
        if _is_word_for_replies(reply_words) and _may_be_model(model, reply_words):
            return "_".join(reply_words), "first"
    return None


def _is_word_for_replies(words: Sequence[str]) -> bool:
    """Return whether words are a usual name of replies, perhaps with a language at the end: `predicted_answer_es`."""
    names = {*usual_names()["reply"], "answer"}
    if "_".join(words) in names:
        return True
    ends_in_language_code = len(words) > 1 and len(words[-1]) == 2
    return ends_in_language_code and "_".join(words[:-1]) in names


def _may_be_model(words: str, reply_words: Sequence[str]) -> bool:
    """Return whether the words beside those for replies may name a model, or the way in which it was prompted.

    `direct` is such a way in `direct_prediction`, which was given without reasoning. But
    `direct_answer` is a short right answer, as in A-OKVQA.

    Args:
        words: The words that may name a model, joined by underscores.
        reply_words: The words for replies.
    """
    if _MODELS.fullmatch(words):
        return not NOT_REPLIES.search(words)
    if words == "direct":
        return "answer" not in reply_words

    names_correct_answer = name_score("answer", f"{words}_answer") > PARTLY
    names_kind_of_reply = not _NO_MODEL.isdisjoint(split_name(words))
    is_about_replies = NOT_REPLIES.search(words) is not None
    return not (names_correct_answer or names_kind_of_reply or is_about_replies)


CONDITION_IS_NONE = frozenset(
    "gt gold golden true truth ground reference references ref expected target ideal wrong incorrect correct right "
    "distractor short long full multiple human sample other alternative alternate best accepted question num n judge judged "
    "evaluator".split()
)
"""Words before `answer` that mean no reply of a model, but the right answer in another form, or a
wrong one: `short_answer`."""
_OF_CONDITION = frozenset(
    "correct reasoning rationale thought response score match judgement judgment".split()
)
"""Words that follow the name of a condition in columns beside its answers: `cot_correct`, `cot_reasoning`."""


def columns_of_conditions(profiles: Profiles) -> tuple[str, ...]:
    """Return the columns of replies named after a condition: `cot_answer` and `direct_answer` next to `answer`.

    A condition is a way of prompting a model (`cot` for chain of thought), or the name of a model;
    `answer` has the right answers. Because `NAME_answer` may also be another form of the right
    answer, one of these has to hold:

    - another column is named after the same condition, such as `cot_correct`;
    - at least two columns are named after conditions, and more than half of the cells of each are
      right answers of some row.

    Args:
        profiles: The columns of a table.

    Returns:
        The columns in the order of the table; empty if there are none.
    """
    names_by_folded = {folded_name(name): name for name in profiles}
    correct = names_by_folded.get("answer")
    if correct is None:
        return ()
    correct_answers = {folded(text) for text in profiles[correct].texts}

    has_companion = False
    columns: set[str] = set()
    for folded_column, name in names_by_folded.items():
        condition = folded_column.removesuffix("_answer")
        if condition == folded_column or not profiles[name].is_scalar:
            continue
        is_no_condition = not CONDITION_IS_NONE.isdisjoint(condition.split("_"))
        if is_no_condition:
            continue
        if any(f"{condition}_{word}" in names_by_folded for word in _OF_CONDITION):
            has_companion = True
            columns.add(name)
        elif profiles[name].share_in(correct_answers) > IN_WORDS:
            columns.add(name)
    if has_companion or len(columns) > 1:
        return tuple(name for name in profiles if name in columns)
    return ()


def fields_of_models(profiles: Profiles) -> tuple[str, ...]:
    """Return the fields with the reply of each model: `responses.gpt4` and `responses.llava`.

    The models may also be objects, each with a field for its reply: `models.clip.predicted_label`
    and `models.llava.predicted_label`. If each has several such fields, the surest name counts.

    Returns:
        The fields; empty unless exactly one object in the table has the replies of at least two
        models.
    """
    fields_by_object: dict[tuple[str, str], list[str]] = {}
    for name, profile in profiles.items():
        outer, _, path = name.partition(".")
        model, _, field = path.partition(".")
        if not profile.is_scalar:
            continue
        if is_name_of_reply(outer) and _MODELS.fullmatch(path):
            fields_by_object.setdefault((outer, ""), []).append(name)
        elif model and is_name_of_reply(field) and folded_name(outer) in usual_names()["model"]:
            fields_by_object.setdefault((outer, field), []).append(name)
    several = {key: fields for key, fields in fields_by_object.items() if len(fields) > 1}
    if len({outer for outer, _ in several}) != 1:
        return ()
    most = max(map(len, several.values()))
    names_of_most = [fields for fields in several.values() if len(fields) == most]
    return tuple(max(names_of_most, key=lambda fields: name_score("reply", fields[0])))


def model_of_field(name: str) -> str:
    """Return the model in the name of a field that `fields_of_models` found: `clip` for `models.clip.predicted_label`.

    A name of any other kind is returned as it is.
    """
    outer, _, path = name.partition(".")
    if path and is_name_of_reply(outer):
        return path  # `replies.gpt-4.1` are those of gpt-4.1
    is_of_models = folded_name(outer) in usual_names()["model"]
    return path.partition(".")[0] if path and is_of_models else name


def columns_of_judged_models(profiles: Profiles) -> tuple[str, ...]:
    """Return the columns of replies of models that also have a column of verdicts, such as `clip_correct`.

    A verdict says whether a reply is right. The names of the columns of replies need not say that
    these are replies: in a table with `clip_correct`, `llava_correct`, `clip_present`,
    `llava_present` and `gt_present`, the replies are in `clip_present` and `llava_present`, because
    these names begin with a model and their cells have the same texts as a column of right answers.

    Returns:
        One column for each model. Empty if there are fewer than two models, or if for one of them
        no column, or more than one, is found.
    """
    correct_columns: list[str] = []
    for name in profiles:
        if name_score("answer", name) > PARTLY or rest_of_gold(name):
            correct_columns.append(name)

    reply_columns: list[str] = []
    for model in _models_with_verdicts(profiles):
        candidates: list[str] = []
        for name, profile in profiles.items():
            if not name.startswith(f"{model}_") or is_verdict(name) or "wrong" in name:
                continue
            for correct in correct_columns:
                if correct != name and _has_few_answers_of(profile, profiles[correct]):
                    candidates.append(name)
                    break
        if len(candidates) != 1:
            return ()
        reply_columns += candidates
    return tuple(reply_columns) if len(reply_columns) > 1 else ()


def _models_with_verdicts(profiles: Profiles) -> list[str]:
    """Return the models after which a column of verdicts (0 or 1) is named: `clip` if there is `clip_correct`."""
    models: list[str] = []
    for name, profile in profiles.items():
        has_two_words = name.count("_") == 1
        last_word = folded_name(name).rpartition("_")[2]
        if has_two_words and last_word in ("correct", "hit", "right") and are_binary(profile):
            models.append(name.partition("_")[0])
    return models


def _has_few_answers_of(profile: ColumnProfile, correct: ColumnProfile) -> bool:
    """Return whether nearly all cells of one column are right answers from another, which has only few different ones.

    Args:
        profile: The column that may hold replies.
        correct: The column of right answers.
    """
    answers = {folded(text) for text in correct.texts}
    n_rows = sum(correct.texts.values())
    are_few = FEWEST_PER_ANSWER * len(answers) <= n_rows
    return profile.is_scalar and are_few and profile.share_in(answers) > SAID


FEWEST_PER_ANSWER = 3
"""Right answers are few if each of them has at least this many rows, on average."""
SAID = 0.9
"""The share of the cells of a model's column that have to be right answers of some row."""


def is_name_of_model(name: str) -> bool:
    """Return whether a column has the name of a known family of models: `mistralai/Mixtral-8x7B`."""
    return _MODELS.fullmatch(name.strip().rpartition("/")[2]) is not None


IN_WORDS = 0.5
"""More than this share of a column's cells has to equal right answers of some row, or replies in
columns of known models."""


def is_called_after_model(name: str, profile: ColumnProfile) -> bool:
    """Return whether a column of texts has the name of a model (`gpt4`, `llava-1.5`), so that it holds its replies."""
    is_model = _MODELS.fullmatch(name.strip()) is not None and not NOT_REPLIES.search(name)
    return profile.is_text and is_model
