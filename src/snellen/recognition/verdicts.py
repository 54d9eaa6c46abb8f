"""Read verdicts on replies that a file already has: words such as `correct`, numbers from 0 to 1, and marks by a judge."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from snellen.recognition.columns import PARTLY, name_score, split_name
from snellen.recognition.folding import folded_name
from snellen.recognition.named_pairs import rest_of_gold
from snellen.recognition.profiles import ColumnProfile
from snellen.recognition.reply_names import BINARY, are_binary, is_verdict

JUDGES = frozenset(
    "judge judged judgement judgment llm gpt gpt4 lave rating grade grader evaluator human".split()
)
"""Words in names of columns that a judge filled: a model or a person who judged replies, and not a fixed rule."""
_SAYS_OF_JUDGE = frozenset("judge judged judgement judgment evaluator grader".split())
"""Words in names of columns beside a verdict that show that a judge gave it: `evaluator_explanation`."""
RATES_OF_ERRORS = frozenset("cer wer ter mae mse rmse distance loss perplexity ppl".split())
"""Words in names of columns with rates of errors: a low `CER_score` is good, so it cannot be read as a verdict."""
_EXPECTED = frozenset("verdict judgement judgment grade rating".split())
"""Nouns of right answers, not of verdicts, after a word such as `expected`: `expected_verdict` is the right answer."""
_MAY_BE_ANSWERS = frozenset("result status outcome eval evaluation".split())
"""Names of columns that may also hold answers: `PASS` in `result` may be what the question asks for."""
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
"""Numbers above 1 are a judge's marks only if the column has at least this many different numbers."""
Reading = Callable[[str], float | None]
"""Turns the text of a verdict into a number from 0 (wrong) to 1 (right); returns None if the text is no verdict."""


def verdict_of_cell(text: str) -> float | None:
    """Return how right a reply is by a verdict that is a word or a number from 0 to 1.

    1 means right and 0 wrong. None means that the text is no such verdict.

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
    """Return the function that turns a cell of a column of verdicts into a number from 0 to 1.

    Numbers above 1, and the letters A, B and C as grades, count as verdicts only where a judge gave
    them. A mark from 1 to 5 becomes (mark - 1) / 4. Marks that begin at 0 are divided by the
    highest possible one: 5, 10 or 100.

    Args:
        counts: How often the column has each text.
        is_judged: Whether a judge gave the verdicts.

    Returns:
        The function; None if fewer than 95% of the filled cells are verdicts.
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
"""Verdicts on what a reply says. Beside replies that are sentences, they are not right answers."""


def are_verdicts_on_sentences(profile: ColumnProfile, reply: ColumnProfile) -> bool:
    """Return whether a column that is named like right answers in fact says which replies are true.

    For example, a column `label` with `hallucinated` and `supported` beside replies that are
    sentences holds verdicts.

    Args:
        profile: The column that is named like right answers.
        reply: The column of replies.
    """
    cells = sum(profile.texts.values())
    n_verdicts = sum(
        count for text, count in profile.texts.items() if text.strip().casefold() in _OF_TRUTH
    )
    return reply.words >= SENTENCE and n_verdicts > MOSTLY * cells


SENTENCE = 4
"""Replies are sentences if they have at least this many words on average."""


def is_judged(name: str, columns: Collection[str]) -> bool:
    """Return whether the verdicts in a column come from a judge, which is a model or a person.

    They do if the name of the column says so (`judge_score`), or if another column tells of a judge
    (`evaluator_explanation`).
    """
    beside = (column for column in columns if column != name)
    is_named = not JUDGES.isdisjoint(split_name(name))
    return is_named or any(not _SAYS_OF_JUDGE.isdisjoint(split_name(column)) for column in beside)


def verdict_column(
    profiles: Mapping[str, ColumnProfile], answers: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the column with verdicts on replies: its name says so, and its cells can be read as verdicts.

    Args:
        profiles: The columns.
        answers: The different right answers of the table. If these are `PASS` and `FAIL`, a column
            `result` with the same texts holds answers, not verdicts.

    Returns:
        The name of the column alone. Empty if there is none, or if several with uncertain names
        have different cells, as `reasoning_correct` and `answer_correctness` may: one of them is
        then not about whole replies.
    """
    scores: dict[str, float] = {}
    for name, profile in profiles.items():
        score = name_score("verdict", name)
        if is_field_of_verdicts(name, profiles):
            score = max(score, _OF_OBJECT)
        if not score and not is_verdict(name):
            continue
        if not RATES_OF_ERRORS.isdisjoint(split_name(name)) or _marks_wrong_replies(name):
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
"""Words in names of fields that say something else than whether a reply is right, also inside such an object."""
_OF_OBJECT = PARTLY + 0.1
"""How certainly a field of such an object is a verdict: more than a column with such a word
somewhere in its name, and less than one with a usual name of verdicts."""


def is_field_of_verdicts(name: str, profiles: Mapping[str, ColumnProfile]) -> bool:
    """Return whether a column is a verdict inside an object of verdicts, as `scores.a` with cells of 0 and 1 is.

    Votes on options, as in `{"scores": {"A": 0, "B": 1}}`, are not verdicts. Nor are fields that
    say something else than whether the reply is right, such as `scores.fluency`.
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


_WORDS_OF_WRONG = frozenset(
    "hallucination hallucinated hallucinates hallucinating wrong incorrect".split()
)
_BESIDE_WRONG = frozenset("is has contains label flag judge judged judgement human llm".split())
"""Words that may stand beside these in the name of a flag that marks wrong replies: `is_hallucination`."""


def _marks_wrong_replies(name: str) -> bool:
    """Return whether the name of a flag says that it marks wrong replies, and nothing else."""
    words = split_name(name)
    beside = words - _WORDS_OF_WRONG
    return beside < words and beside <= _BESIDE_WRONG


def column_of_wrong_replies(profiles: Mapping[str, ColumnProfile], taken: Collection[str]) -> str:
    """Return the only column of flags that mark wrong replies, such as `is_hallucination`; empty if there is none.

    Args:
        profiles: The columns of the table.
        taken: The columns with a role other than that of a tag.
    """
    found: list[str] = []
    for name, profile in profiles.items():
        if not _marks_wrong_replies(name) or name in taken or not profile.is_scalar:
            continue
        cells = sum(profile.texts.values())
        n_flags = sum(
            count for text, count in profile.texts.items() if text.strip().casefold() in BINARY
        )
        if n_flags > MOSTLY * cells and len(profile.texts) > 1:
            found.append(name)
    return found[0] if len(found) == 1 else ""


def _grade(text: str) -> float | None:
    return _GRADES.get(text.strip())


def _number(text: str) -> float | None:
    try:
        return float(text.strip())
    except ValueError:
        return None
