"""Which columns of a table hold the replies of a model, or of each of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from snellen.formats.source_row import SourceRow
from snellen.recognition.columns import PARTLY, name_score
from snellen.recognition.folding import folded, folded_name
from snellen.recognition.model_columns import (
    answers_by_condition,
    columns_of_models,
    columns_with_verdicts,
    fields_of_models,
)
from snellen.recognition.named_pairs import gold_beside, is_transcribed
from snellen.recognition.profiles import QUESTION_MARKS, ColumnProfile
from snellen.recognition.reply_names import (
    are_binary,
    flags_beside_replies,
    is_field_of_reply,
    is_made_of,
    is_verdict,
    reply_score,
)
from snellen.recognition.said_in_cells import replies_by_cells

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
    "annotation",
)


def reply_columns(
    profiles: Mapping[str, ColumnProfile],
    rows: Sequence[SourceRow],
    *,
    is_gold_known: bool = False,
) -> tuple[str, ...]:
    """Return the column with the replies of a model, or one column for each of several models.

    If several columns may hold replies, the one with the full replies is chosen. A column named `output` or `response`
    may be the ground truth: it is if another column has the replies and no other column has the ground truth. So may
    `answer` and `solution`, which are replies only beside a column such as `ground_truth`.

    Args:
        profiles: The columns of the table.
        rows: Its rows, whose cells tell where names do not.
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
    if judged := columns_with_verdicts(profiles):
        return judged
    conditions = answers_by_condition(profiles)
    if ranked and conditions and folded_name(ranked[0]).endswith("_answer"):
        return tuple(name for name in profiles if name in (*conditions, ranked[0]))
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

    if conditions:
        return conditions
    answers_in_replies = [
        name
        for name, profile in profiles.items()
        if is_field_of_reply(name) and name_score("answer", name) > PARTLY and profile.is_scalar
    ]
    if len(answers_in_replies) == 1:
        return (answers_in_replies[0],)

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
    if foils := right_beside_foils(profiles):
        return _in_words_of_foils(foils, profiles)
    if captions := captions_of_models(profiles):
        return captions
    is_of_image = any(name in folded for name in ("image_id", "image", "id"))
    verdicts = [name for name, cells in profiles.items() if is_verdict(name) and are_binary(cells)]
    is_judged = len(verdicts) > 1  # models chose between captions
    if "caption" in folded and "question" not in folded and is_of_image and not is_judged:
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
    return replies_by_cells(profiles, rows)


def right_beside_foils(profiles: Mapping[str, ColumnProfile]) -> tuple[str, ...]:
    """Return a column of right texts and that of wrong ones, by their names: `caption` and `negative_caption`; else none."""
    by_folded = {folded_name(name): name for name in profiles}
    for folded_column, name in by_folded.items():
        mark, _, rest = folded_column.partition("_")
        if mark in _FOIL_MARKS and rest in by_folded:
            return (by_folded[rest], name)
    return ()


_FOIL_MARKS = frozenset("negative false wrong incorrect foil".split())


def _in_words_of_foils(
    foils: tuple[str, ...], profiles: Mapping[str, ColumnProfile]
) -> tuple[str, ...]:
    """Return the column whose cells are mostly right or wrong texts of some row: what a model chose between them."""
    words = {folded(text) for name in foils for text in profiles[name].texts}
    for name, profile in profiles.items():
        if name in foils or not profile.is_scalar:
            continue
        if profile.share_in(words) > 0.5:
            return (name,)
    return ()


_OF_REFERENCES = frozenset(
    "given original gt true gold ground truth reference ref human target actual real coco".split()
)
"""Words before `caption` that say that it is right, beside captions of models."""
_NO_CAPTION_OF_MODEL = frozenset(
    "image short long query input source context alt rewritten augmented edited negative hard foil false wrong paraphrased "
    "translated clean cleaned noisy new detailed brief".split()
)


def captions_of_models(profiles: Mapping[str, ColumnProfile]) -> tuple[str, ...]:
    """Return the columns with captions of one model or several: `base_caption` and `lora_caption` beside `given_caption`.

    None if there is not exactly one column of right captions beside them.
    """
    right = reference_caption(profiles)
    if not right:
        return ()
    found: list[str] = []
    for name, profile in profiles.items():
        words = folded_name(name).split("_")
        is_caption = len(words) > 1 and words[-1] in ("caption", "captions") and profile.is_text
        if is_caption and name != right and _NO_CAPTION_OF_MODEL.isdisjoint(words):
            found.append(name)
    return tuple(found)


def reference_caption(profiles: Mapping[str, ColumnProfile]) -> str:
    """Return the only column of captions whose name says that they are right; empty if there is none, or several."""
    right = [
        name
        for name, profile in profiles.items()
        if folded_name(name).rpartition("_")[2] in ("caption", "captions")
        and not _OF_REFERENCES.isdisjoint(folded_name(name).split("_"))
        and (profile.is_text or profile.lists > 0.5)
    ]
    return right[0] if len(right) == 1 else ""


def _ask(profile: ColumnProfile) -> bool:
    """Whether most texts ask a question: the first line ends in a question mark, also where an instruction follows."""
    first_lines = [text.strip().partition("\n")[0].rstrip() for text in profile.texts]
    asking = sum(line.endswith(QUESTION_MARKS) for line in first_lines)
    return 2 * asking > len(first_lines)
