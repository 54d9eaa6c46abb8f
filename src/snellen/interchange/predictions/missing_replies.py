"""Explain, for an error message, what a table without replies has instead: verdicts, scores, boxes or questions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from snellen.callers import for_caller
from snellen.formats.containers import ID, VALUE
from snellen.formats.source_row import SourceRow
from snellen.interchange.predictions.benchmark_signs import how_to_give_answers
from snellen.interchange.predictions.scored_samples import scored_samples
from snellen.interchange.predictions.scoring_call import scoring_call
from snellen.recognition.columns import METRIC_WORDS, split_name
from snellen.recognition.folding import folded_name
from snellen.recognition.reply_names import is_name_of_reply
from snellen.recognition.tables import TableRoles

MOST_NAMED = 12
"""Columns that an error names."""
MANY_IDS = 20
"""If a table has more than this many columns for each row, their names are ids."""
MOST_MODELS = 8
"""Models that an error names."""


def what_stands_for_replies(path: Path, rows: Sequence[SourceRow], roles: TableRoles) -> str:
    """Return what a table without replies has instead, and the next command to type.

    Args:
        path: The table.
        rows: Its rows.
        roles: What its columns are for.
    """
    empty = column_of_empty_replies(rows)
    if empty:
        return f"{empty!r} is empty in all {len(rows):,} rows; take the file that has the replies"
    samples = scored_samples(rows)
    if samples is not None:
        return (
            f"{samples.average()}; replies with right answers can be scored here from a file with a row for each sample "
            f"and the columns id, prediction and answer: {scoring_call(Path('SAMPLES.csv'))}"
        )
    return _no_replies(path, rows, roles)


def column_of_empty_replies(rows: Sequence[SourceRow]) -> str:
    """Return the column that is named like replies and empty in all rows, as in a template; an empty text if there is none."""
    names = dict.fromkeys(name for row in rows for name in row.cells)
    for name in names:
        is_empty = all(row.cells.get(name) in (None, "", [], {}) for row in rows)
        if is_empty and is_name_of_reply(name):
            return name
    return ""


def _no_replies(path: Path, rows: Sequence[SourceRow], roles: TableRoles) -> str:
    """Return what a table without replies and verdicts looks like, and what to do with it.

    It may hold scores of models or of replies, values under ids, boxes that a model detected, or questions. If it looks
    like none of these, the message lists its columns, and says how to name that of the replies.
    """
    names = list(roles.profiles)
    shown = _listed(names)
    if are_scores(roles):
        return (
            f"it holds scores of models, and no replies ({shown}); show them beside a run: `snellen score RUN "
            f"--published {path}`"
        )
    scores = _columns_of_scores(roles)
    if scores:
        return (
            f"it holds scores of replies ({', '.join(map(repr, scores[:MOST_NAMED]))}), and neither these nor right answers; "
            "take the file that has the replies"
        )
    are_names_ids = len(names) > MANY_IDS * roles.rows and not any(map(is_name_of_reply, names))
    if are_names_ids:
        return (
            f"it is one object whose {len(names):,} keys are ids ({names[0]!r}, {names[1]!r}, ...) of values, with neither "
            "questions nor right answers; write a row for each id, with the columns id, prediction and answer (boxes: with "
            "the right box as the answer), and score that file"
        )
    if are_detections(roles):
        return (
            f"it holds boxes that a model detected ({shown}), and no right ones; write a row for each question, with the "
            "columns id, prediction (a box) and answer (the right box), and score that file"
        )
    if any(folded_name(name) in ("answer", "answers") for name in names):
        return _answers_of_either_kind(path, rows, roles)
    message = (
        f"no column is recognised as the replies of a model; there are {shown}; name it: "
        f"{scoring_call(path, columns={'reply': 'NAME'})}"
    )
    has_questions = "question" in roles.roles and "answer" in roles.roles
    if has_questions:
        message += f"; or build the questions: {_build_call(path)}"
    return message


def _answers_of_either_kind(path: Path, rows: Sequence[SourceRow], roles: TableRoles) -> str:
    """Return the message for a table whose `answer` may be the replies or the right answers.

    No other column is recognised as one of the two, which would decide it.
    """
    names = list(roles.profiles)
    if_right = ""
    if "question" in roles.roles:
        if_right = f"if they are right ones, build the questions: {_build_call(path)}; "
    if_other = ""
    others = [name for name in names if folded_name(name).endswith(("_answer", "_answers"))]
    if others:
        command = scoring_call(path, columns={"reply": others[0]})
        if_other = f"if {others[0]!r} has the replies: {command}; "
    how = how_to_give_answers(path, [row.cells for row in rows], may_be_column=False)
    return (
        "its answers may be replies or right answers, and no other column is recognised as the other; there are "
        f"{_listed(names)}; {if_right}{if_other}if they are replies, {how}"
    )


def _build_call(path: Path) -> str:
    """Return the command or call that builds a benchmark from a file."""
    return for_caller(f"snellen build {path}", f"sn.build({str(path)!r})")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:MOST_NAMED])) + (", ..." if len(names) > MOST_NAMED else "")


_BOXES = frozenset(("bbox", "box", "bounding_box"))
_CLASSES = frozenset("category_id category class class_id class_name label".split())


def are_detections(roles: TableRoles) -> bool:
    """Return whether each row has a box, its class and its score, as COCO's result files do."""
    names = {folded_name(name) for name in roles.profiles}
    has_scores = not names.isdisjoint(("score", "confidence"))
    return has_scores and not names.isdisjoint(_BOXES) and not names.isdisjoint(_CLASSES)


_OF_SUMMARY = METRIC_WORDS | frozenset(
    "acc chair cover hal cog total mean average avg overall score scores rate count num std min max time".split()
)
"""Words in names of numbers that sum up a run."""
MOST_MEASURES = 40
"""The most numbers that may sum up a run. If there are more, they are replies to questions."""


def numbers_of_a_summary(rows: Sequence[SourceRow]) -> str:
    """Return the message for a JSON object of numbers that sum up a run: `{"accuracy": 0.5}`; empty for any other file.

    Without it, such an object would be read as ids of questions with their replies.
    """
    names: list[str] = []
    n_measures = 0
    for row in rows:
        if row.cells.keys() != {ID, VALUE} or not isinstance(row.cells[VALUE], (int, float)):
            return ""
        name = str(row.cells[ID])
        names.append(name)
        n_measures += not _OF_SUMMARY.isdisjoint(split_name(name))
    if 2 * n_measures <= len(names) or len(names) > MOST_MEASURES:
        return ""
    return (
        f"it holds numbers that sum up a run ({_listed(names)}), and no replies; take the file that has the reply to each "
        "question"
    )


# --- scores ----------------------------------------------------------------------------------------------------------


def are_scores(roles: TableRoles) -> bool:
    """Return whether a table is a leaderboard: it names models and gives their scores.

    Either more than half of the columns beside the models are scores, one for each benchmark, or
    the table has a row for each model and benchmark, with a column that names the benchmark and one
    that is named like a score.
    """
    models = roles.roles.get("model") or [
        name for name in roles.profiles if folded_name(name) in ("models", "method", "methods")
    ]
    if not models:
        return False

    n_columns = 0
    n_columns_of_scores = 0
    has_column_called_score = False
    for name, profile in roles.profiles.items():
        has_scores = all(_is_score(text) for text in profile.texts)
        if has_scores and folded_name(name) in _SCORE_NAMES:
            has_column_called_score = True
        if name not in models and profile.texts:
            n_columns += 1
            n_columns_of_scores += has_scores
    if n_columns_of_scores > n_columns / 2:
        return True
    names = {folded_name(name) for name in roles.profiles}
    return has_column_called_score and not names.isdisjoint(_TASKS)


FEWEST_SCORES = 2
MOST_WORDS = 2
"""Words on average of the names and ids in a table of scores."""


def _columns_of_scores(roles: TableRoles) -> list[str]:
    """Return the columns with scores of replies, in a table without longer texts.

    The list is empty if any column has texts of more than two words on average, or if fewer than
    two columns have scores.
    """
    if any(profile.is_text and profile.words > MOST_WORDS for profile in roles.profiles.values()):
        return []
    names = [
        name
        for name, profile in roles.profiles.items()
        if not METRIC_WORDS.isdisjoint(split_name(name)) and all(map(_is_score, profile.texts))
    ]
    return names if len(names) >= FEWEST_SCORES else []


_TASKS = frozenset(
    "task task_id task_name benchmark benchmark_id benchmark_name dataset dataset_id dataset_name".split()
)
_SCORE_NAMES = frozenset("score value accuracy metric_value result".split())
"""Names of the columns of a leaderboard with a row for each model and benchmark."""


def _is_score(text: str) -> bool:
    if text.strip().casefold() in ("n/a", "-", "—"):
        return True
    try:
        float(text.strip().rstrip("%"))
    except ValueError:
        return False
    return True
