"""Which columns of a table hold the replies of a model, or of each of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from snellen.formats.source_row import SourceRow
from snellen.recognition.columns import PARTLY, name_score
from snellen.recognition.folding import folded, folded_name
from snellen.recognition.model_columns import (
    columns_of_conditions,
    columns_of_judged_models,
    columns_of_models,
    fields_of_models,
)
from snellen.recognition.named_pairs import (
    gold_beside,
    is_transcribed,
    pair_by_words,
    replies_by_noun,
)
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

    If any name is a usual one for replies, such as `prediction`, it decides. Otherwise names count
    that may mean replies in such a table, such as `answer`, `text` or `caption`, and at last the
    texts of the cells.

    Args:
        profiles: The columns of the table.
        rows: Its rows, whose cells decide if no name does.
        is_gold_known: Whether the right answers come from another source, so that `answer` may be
            the reply, as in POPE's files.

    Returns:
        The columns in the order of the table; empty if no column is recognised.
    """
    fields = fields_of_models(profiles)
    if fields:
        return fields
    judged = columns_of_judged_models(profiles)
    if judged:
        return judged
    ranked = _ranked_by_name(profiles)
    pair = pair_by_words(name for name, cells in profiles.items() if cells.is_scalar)
    if pair is not None and (not ranked or ranked[0] in pair):
        ranked = [pair[1], *(name for name in ranked if name not in pair)]
    conditions = columns_of_conditions(profiles)
    if ranked and conditions and folded_name(ranked[0]).endswith("_answer"):
        return tuple(name for name in profiles if name in (*conditions, ranked[0]))
    if ranked:
        return _columns_of_surest_name(ranked, profiles, is_gold_known=is_gold_known)
    if conditions:
        return conditions
    return _columns_without_sure_name(profiles, rows, is_gold_known=is_gold_known)


def _ranked_by_name(profiles: Mapping[str, ColumnProfile]) -> list[str]:
    """Return the columns whose names say that they hold replies, the surest name first.

    If two names are equally sure, a column that has its own column of right answers comes first, as
    `pred_color` beside `gt_color`. Columns of 0 and 1 are left out if other columns have the texts
    of replies, because they are then verdicts on these texts.
    """
    verdicts = flags_beside_replies(profiles)
    scores: dict[str, float] = {}
    for name, profile in profiles.items():
        score = reply_score(name, profile)
        if score and name not in verdicts:
            scores[name] = score
    return sorted(scores, key=lambda name: (-scores[name], not gold_beside(name, profiles)))


def _columns_of_surest_name(
    ranked: Sequence[str], profiles: Mapping[str, ColumnProfile], *, is_gold_known: bool
) -> tuple[str, ...]:
    """Return the surest column of replies, with those of other models.

    A column named `output` or `response` may be the ground truth: it is if another column has the replies and no other
    column has the ground truth.

    Args:
        ranked: The columns whose names say that they hold replies, the surest first.
        profiles: The columns of the table.
        is_gold_known: Whether the ground truth comes from another source.
    """
    may_be_gold = [name for name in profiles if name_score("answer", name) > PARTLY]
    has_other_gold = any(name not in ranked for name in may_be_gold)
    only_replies = [name for name in ranked if name not in may_be_gold]
    one_is_gold = bool(only_replies) and len(only_replies) < len(ranked)
    if has_other_gold or is_gold_known or not one_is_gold:
        return columns_of_models(ranked[0], profiles)

    for name in ranked:
        if is_made_of(only_replies[0], name):
            return (
                name,
            )  # `output` if the other column is `cleaned_output`, which was derived from it
    return (only_replies[0],)


def _columns_without_sure_name(
    profiles: Mapping[str, ColumnProfile], rows: Sequence[SourceRow], *, is_gold_known: bool
) -> tuple[str, ...]:
    """Return the columns of replies in a table in which no column is named like replies.

    Some names mean replies only next to certain other columns: `answer` and `solution` next to one
    such as `ground_truth`, `text` next to a question, and `caption` if the table has no question.
    Without such a name, the texts of the cells decide.

    Args:
        profiles: The columns of the table.
        rows: Its rows.
        is_gold_known: Whether the right answers come from another source than this table.

    Returns:
        The names of the columns; empty if no column can be recognised.
    """
    answers_in_replies: list[str] = []
    for name, profile in profiles.items():
        is_answer = name_score("answer", name) > PARTLY
        if is_answer and is_field_of_reply(name) and profile.is_scalar:
            answers_in_replies.append(name)
    if len(answers_in_replies) == 1:
        return (answers_in_replies[0],)

    by_last_word = {folded_name(name.rpartition(".")[2]): name for name in profiles}
    has_golds = any(gold in by_last_word for gold in _GOLDS)
    if "answer" in by_last_word and (is_gold_known or has_golds):
        return (by_last_word["answer"],)
    solutions = [name for name in profiles if folded_name(name.rpartition(".")[2]) == "solution"]
    if len(solutions) == 1 and has_golds:  # if there are several, each may be of another model
        return (solutions[0],)

    has_question = "question" in by_last_word or "prompt" in by_last_word
    names_question = "question_id" in by_last_word and not has_golds
    if "text" in by_last_word and (has_question or names_question):
        text = by_last_word["text"]
        if not _ask(profiles[text]):
            return (text,)

    foils = right_beside_foils(profiles)
    if foils:
        return _in_words_of_foils(foils, profiles)
    captions = captions_of_models(profiles)
    if captions:
        return captions
    verdicts = [name for name, cells in profiles.items() if is_verdict(name) and are_binary(cells)]
    are_captions_judged = (
        len(verdicts) > 1
    )  # then the captions were shown, and models chose between them
    names_image = any(name in by_last_word for name in ("image_id", "image", "id"))
    has_caption = "caption" in by_last_word and "question" not in by_last_word
    if has_caption and names_image and not are_captions_judged:
        return (by_last_word["caption"],)

    for name in ("result", "results"):
        if name in by_last_word and not _are_called_right_or_wrong(profiles[by_last_word[name]]):
            return (by_last_word[name],)
    transcribed: list[str] = []
    for name, profile in profiles.items():
        if is_transcribed(name) and profile.is_scalar and gold_beside(name, profiles):
            transcribed.append(name)
    if len(transcribed) == 1:
        return (transcribed[0],)
    texts = [name for name, profile in profiles.items() if profile.is_scalar]
    if by_noun := replies_by_noun(texts):
        return by_noun
    return replies_by_cells(profiles, rows)


_RIGHT_OR_WRONG = frozenset("correct incorrect right wrong".split())


def _are_called_right_or_wrong(profile: ColumnProfile) -> bool:
    """Return whether all filled cells are `correct` or `incorrect`: verdicts on replies, and no replies."""
    texts = {text.strip().casefold() for text in profile.texts} - {""}
    return bool(texts) and texts <= _RIGHT_OR_WRONG


def right_beside_foils(profiles: Mapping[str, ColumnProfile]) -> tuple[str, ...]:
    """Return the pair of columns with right and with deliberately wrong texts: `caption` and `negative_caption`.

    Benchmarks of this kind ask a model which of two texts fits an image. An empty tuple means that
    no two names match like this.
    """
    by_folded = {folded_name(name): name for name in profiles}
    for folded_column, name in by_folded.items():
        mark, _, rest = folded_column.partition("_")
        if mark in FOIL_MARKS and rest in by_folded:
            return (by_folded[rest], name)
    return ()


FOIL_MARKS = frozenset("negative false wrong incorrect foil".split())


def _in_words_of_foils(
    foils: tuple[str, ...], profiles: Mapping[str, ColumnProfile]
) -> tuple[str, ...]:
    """Return the column that says which text a model chose between a right and a wrong one.

    More than half of its cells are texts of these two columns.

    Args:
        foils: The columns of right and of wrong texts.
        profiles: The columns of the table.

    Returns:
        The name of that column alone; empty if there is none.
    """
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
"""Words in the name of a column of captions that say that these are the right ones, as in `reference_caption`."""
_NO_CAPTION_OF_MODEL = frozenset(
    "image short long query input source context alt rewritten augmented edited negative hard foil false wrong paraphrased "
    "translated clean cleaned noisy new detailed brief".split()
)


def captions_of_models(profiles: Mapping[str, ColumnProfile]) -> tuple[str, ...]:
    """Return the columns with captions that models wrote: `base_caption` and `lora_caption` beside `given_caption`.

    The table must have exactly one column whose name says that its captions are right, such as
    `given_caption` or `reference_caption`. Otherwise nothing says that the others are to be
    compared with it, and an empty tuple is returned. Columns such as `image_caption` or
    `short_caption`, whose first word names no model, are left out.
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
    """Return the only column whose name says that its captions are right, such as `reference_caption`.

    The text is empty if there is no such column, or more than one.
    """
    right = [
        name
        for name, profile in profiles.items()
        if folded_name(name).rpartition("_")[2] in ("caption", "captions")
        and not _OF_REFERENCES.isdisjoint(folded_name(name).split("_"))
        and (profile.is_text or profile.lists > 0.5)
    ]
    return right[0] if len(right) == 1 else ""


def _ask(profile: ColumnProfile) -> bool:
    """Return whether more than half of the texts in a column are questions.

    Only the first line has to end in a question mark, because an instruction may follow on the next
    one.
    """
    first_lines = [text.strip().partition("\n")[0].rstrip() for text in profile.texts]
    asking = sum(line.endswith(QUESTION_MARKS) for line in first_lines)
    return 2 * asking > len(first_lines)
