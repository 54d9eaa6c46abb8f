"""Verdicts that files keep of replies: words, shares from 0 to 1, and marks that a judge gave."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from snellen.recognition.columns import PARTLY, name_score, split_name
from snellen.recognition.folding import folded_name
from snellen.recognition.named_pairs import rest_of_gold
from snellen.recognition.profiles import ColumnProfile
from snellen.recognition.reply_names import are_binary, is_verdict

JUDGES = frozenset(
    "judge judged judgement judgment llm gpt gpt4 lave rating grade grader evaluator human".split()
)
"""Words in names of columns that a model or a person filled who judged replies, and no rule."""
_SAYS_OF_JUDGE = frozenset("judge judged judgement judgment evaluator grader".split())
"""Words in names of other columns that a judge filled: `evaluator_explanation`."""
RATES_OF_ERRORS = frozenset("cer wer ter mae mse rmse distance loss perplexity ppl".split())
"""Words in names of columns with a rate of errors, of which less is better: `CER_score` is no share of right replies."""
_EXPECTED = frozenset("verdict judgement judgment grade rating".split())
"""Nouns that, beside a word for right answers, name what should be judged: `expected_verdict` says nothing of the reply."""
_MAY_BE_ANSWERS = frozenset("result status outcome eval evaluation".split())
"""Names of columns that may also hold what was read in replies: `PASS` where that is a right answer."""
_WORDS = {
    **dict.fromkeys(
        (
            "true",
            "yes",
            "correct",
            "right",
            "pass",
            "passed",
            "accurate",
            "faithful",
            "supported",
            "success",
            "是",
            "对",
            "正确",
            "✓",
            "✔",
            "√",
            "✅",
            "✔️",
        ),
        1.0,
    ),
    **dict.fromkeys(("partial", "partially correct", "partially_correct", "mixed"), 0.5),
    **dict.fromkeys(
        (
            "false",
            "no",
            "incorrect",
            "wrong",
            "fail",
            "failed",
            "inaccurate",
            "unfaithful",
            "unsupported",
            "hallucinated",
            "hallucination",
            "failure",
            "否",
            "错",
            "错误",
            "✗",
            "×",
            "❌",
            "✘",
        ),
        0.0,
    ),
    **dict.fromkeys(("not attempted", "not_attempted", "unclear"), 0.0),
}
_GRADES = {"A": 1.0, "B": 0.0, "C": 0.0}
"""The grades of SimpleQA (Wei et al. 2024): correct, incorrect and not attempted."""
_HIGHEST_MARKS = (5, 10, 100)
MOSTLY = 0.95
"""Share of the filled cells that have to be verdicts."""
FEWEST_MARKS = 3
"""Different marks from which numbers above 1 may be marks of a judge."""
Reading = Callable[[str], float | None]
"""Returns what the text of a verdict means, from 0 to 1; None for a text that is none."""


def verdict_of_cell(text: str) -> float | None:
    """Return what a word, or a number from 0 to 1, says of a reply; None for any other text.

    Examples:
        >>> verdict_of_cell("Incorrect."), verdict_of_cell("0.5"), verdict_of_cell("7")
        (0.0, 0.5, None)
        >>> verdict_of_cell("wrong_format")
        0.0
    """
    word = text.strip().casefold().strip(".!*[] ")
    if word in _WORDS:
        return _WORDS[word]
    first, _, kind = word.replace("-", "_").partition("_")
    if kind and first in ("wrong", "incorrect"):  # `wrong_format`
        return 0.0
    number = _number(text)
    return number if number is not None and 0 <= number <= 1 else None


def reading_of_verdicts(counts: Mapping[str, int], *, is_judged: bool) -> Reading | None:
    """Return how the verdicts of a column are read; None if its cells are none.

    Marks above 1, and grades in letters, count only where a judge gave them. Marks from 1 to 5 are read as
    (mark - 1) / 4, marks from 0 as shares of the highest possible one: 5, 10 or 100.

    Args:
        counts: How often the column has each text.
        is_judged: Whether a judge gave the verdicts.
    """
    filled = {text: count for text, count in counts.items() if text.strip()}
    n_filled = sum(filled.values())
    if not n_filled:
        return None

    def share_read(read: Reading) -> float:
        return sum(count for text, count in filled.items() if read(text) is not None) / n_filled

    if share_read(verdict_of_cell) >= MOSTLY:
        return verdict_of_cell
    if not is_judged:
        return None
    if share_read(_grade) >= MOSTLY:
        return _grade
    marks = {number for text in filled if (number := _number(text)) is not None}
    if share_read(_number) < MOSTLY or len(marks) < FEWEST_MARKS or min(marks) < 0:
        return None
    fitting = [highest for highest in _HIGHEST_MARKS if max(marks) <= highest]
    if not fitting:
        return None
    highest = fitting[0]
    lowest = 1 if highest == 5 and min(marks) >= 1 else 0

    def share_of_highest(text: str) -> float | None:
        mark = _number(text)
        if mark is None or not lowest <= mark <= highest:
            return None
        return (mark - lowest) / (highest - lowest)

    return share_of_highest


_OF_TRUTH = frozenset(
    "accurate inaccurate faithful unfaithful supported unsupported hallucinated hallucination correct incorrect".split()
)
"""Words of verdicts on what a reply says, which are no right answers beside sentences."""


def are_verdicts_on_sentences(profile: ColumnProfile, reply: ColumnProfile) -> bool:
    """Return whether a column called like right answers says which sentences of a model are true."""
    cells = sum(profile.texts.values())
    n_verdicts = sum(
        count for text, count in profile.texts.items() if text.strip().casefold() in _OF_TRUTH
    )
    return reply.words >= SENTENCE and n_verdicts > MOSTLY * cells


SENTENCE = 4
"""Words of replies on average from which they are sentences."""


def is_judged(name: str, columns: Collection[str]) -> bool:
    """Return whether a judge filled a column of verdicts, by its name or since a column beside it tells of a judge."""
    beside = (column for column in columns if column != name)
    is_named = not JUDGES.isdisjoint(split_name(name))
    return is_named or any(not _SAYS_OF_JUDGE.isdisjoint(split_name(column)) for column in beside)


def verdict_column(
    profiles: Mapping[str, ColumnProfile], answers: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the column with verdicts on replies: its name says so, and its cells can be read as verdicts.

    None is returned if several with uncertain names differ, as `reasoning_correct` and `answer_correctness` do: one of them is
    not on whole replies.

    Args:
        profiles: The columns.
        answers: The different right answers of the table, which are no verdicts in a column called `result`.
    """
    scores: dict[str, float] = {}
    for name, profile in profiles.items():
        score = name_score("verdict", name)
        if is_field_of_verdicts(name, profiles):
            score = max(score, _OF_OBJECT)
        if not score and not is_verdict(name):
            continue
        if not RATES_OF_ERRORS.isdisjoint(split_name(name)):
            continue
        if rest_of_gold(name) in _EXPECTED:
            continue
        if folded_name(name) in _MAY_BE_ANSWERS and profile.texts.keys() <= set(answers):
            continue
        judged = is_judged(name, profiles)
        if profile.is_scalar and reading_of_verdicts(profile.texts, is_judged=judged) is not None:
            scores[name] = score
    if not scores:
        return ()
    best = max(scores, key=lambda name: scores[name])
    rivals = [name for name, score in scores.items() if score == scores[best]]
    if scores[best] <= PARTLY and any(
        profiles[name].texts != profiles[best].texts for name in rivals
    ):
        return ()
    return (best,)


_OBJECTS_OF_VERDICTS = frozenset(
    "score scores verdict verdicts correctness judgement judgment evaluation evaluations eval metric metrics".split()
)
"""Names of objects in a row whose fields are verdicts: `{"scores": {"a": 1}}`."""
_OF_ANOTHER_THING = frozenset(
    "confidence harmful toxic unsafe refusal refused hallucination hallucinated error wrong incorrect invalid valid format "
    "parsed parse skipped empty fluency relevance time".split()
)
"""Words in names of fields, also of such an object, that do not say that a reply is right."""
_OF_OBJECT = PARTLY + 0.1
"""How certainly such a field is a verdict: more than by a part of its name, and less than by a usual name."""


def is_field_of_verdicts(name: str, profiles: Mapping[str, ColumnProfile]) -> bool:
    """Return whether a column is a field with 0 and 1 in an object whose name says that it holds verdicts: `scores.a`.

    Not so votes on options, as in `{"scores": {"A": 0, "B": 1}}`, and what the name of the field says of another thing.
    """
    outer, _, field = name.rpartition(".")
    if folded_name(outer.rpartition(".")[2]) not in _OBJECTS_OF_VERDICTS:
        return False
    profile = profiles[name]
    if not profile.is_scalar or not profile.texts or not are_binary(profile):
        return False
    if not _OF_ANOTHER_THING.isdisjoint(split_name(field)):
        return False
    siblings = [other for other in profiles if other.rpartition(".")[0] == outer]
    letters = [other for other in siblings if len(other.rpartition(".")[2]) == 1]
    return len(letters) < 2


def _grade(text: str) -> float | None:
    return _GRADES.get(text.strip())


def _number(text: str) -> float | None:
    try:
        return float(text.strip())
    except ValueError:
        return None
