"""Which columns of a table hold the replies of a model, or of each of several."""

from __future__ import annotations

from collections.abc import Mapping

from snellen.recognition.columns import PARTLY, name_score
from snellen.recognition.folding import folded_name
from snellen.recognition.model_columns import (
    answers_by_condition,
    columns_in_words_of,
    columns_of_models,
    fields_of_models,
)
from snellen.recognition.named_pairs import gold_beside, is_transcribed
from snellen.recognition.profiles import QUESTION_MARKS, ColumnProfile
from snellen.recognition.reply_names import flags_beside_replies, is_made_of, reply_score

_GOLDS = (
    "gt_answers",
    "gt_answer",
    "label",
    "gt",
    "ground_truth",
    "gold",
    "target",
    "y_true",
    "true_answer",
    "reference",
)


def reply_columns(
    profiles: Mapping[str, ColumnProfile], *, is_gold_known: bool = False
) -> tuple[str, ...]:
    """Return the column with the replies of a model, or one column for each of several models.

    If several columns may hold replies, the one with the full replies is chosen. A column named `output` or `response`
    may be the ground truth: it is if another column has the replies and no other column has the ground truth. So may
    `answer` and `solution`, which are replies only beside a column such as `ground_truth`.

    Args:
        profiles: The columns of the table.
        is_gold_known: Whether the ground truth comes from another source, so that `answer` may be the reply, as in
            POPE's files.
    """
    scores = {
        name: score for name, profile in profiles.items() if (score := reply_score(name, profile))
    }
    flags = flags_beside_replies(profiles)
    scores = {name: score for name, score in scores.items() if name not in flags}
    ranked = sorted(scores, key=lambda name: (-scores[name], not gold_beside(name, profiles)))
    fields = fields_of_models(profiles)
    if fields:
        return fields
    if ranked:
        other_golds = [
            name for name in profiles if name not in ranked and name_score("answer", name) > PARTLY
        ]
        if not other_golds and not is_gold_known:
            is_gold = {name: name_score("answer", name) > PARTLY for name in ranked}
            only_replies = [name for name in ranked if not is_gold[name]]
            if only_replies and len(only_replies) < len(ranked):
                raw = [name for name in ranked if is_made_of(only_replies[0], name)]
                return (raw[0],) if raw else (only_replies[0],)
        return columns_of_models(ranked[0], profiles)

    if conditions := answers_by_condition(profiles):
        return conditions

    folded = {folded_name(name.rpartition(".")[2]): name for name in profiles}
    has_golds = any(gold in folded for gold in _GOLDS)
    if "answer" in folded and (is_gold_known or has_golds):
        return (folded["answer"],)
    solutions = [name for name in profiles if folded_name(name.rpartition(".")[2]) == "solution"]
    if len(solutions) == 1 and has_golds:  # several are of several models
        return (solutions[0],)
    asks = "question" in folded or "prompt" in folded
    may_reply = asks or ("question_id" in folded and not has_golds)
    if "text" in folded and may_reply and not _ask(profiles[folded["text"]]):
        return (folded["text"],)
    if "caption" in folded and any(name in folded for name in ("image_id", "image", "id")):
        return (folded["caption"],)
    for name in ("result", "results"):
        if name in folded:
            return (folded[name],)
    transcribed = [
        name
        for name, profile in profiles.items()
        if is_transcribed(name) and profile.is_scalar and gold_beside(name, profiles)
    ]
    if len(transcribed) == 1:
        return (transcribed[0],)
    golds = [name for name in profiles if name_score("answer", name) > PARTLY]
    return columns_in_words_of(golds, profiles) if golds else ()


def _ask(profile: ColumnProfile) -> bool:
    """Whether most texts ask a question: the first line ends in a question mark, also where an instruction follows."""
    first_lines = [text.strip().partition("\n")[0].rstrip() for text in profile.texts]
    asking = sum(line.endswith(QUESTION_MARKS) for line in first_lines)
    return 2 * asking > len(first_lines)
