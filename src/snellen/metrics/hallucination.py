"""Hallucinated objects: a yes to what is not there (POPE), and mentions of it in captions (CHAIR)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from snellen.common.late import late_pattern
from snellen.errors import DataError
from snellen.extraction.asked_reply import AskedReply, question_of
from snellen.extraction.closed_answers import answer_text, says_yes_or_no
from snellen.extraction.cue_words import has_cue
from snellen.extraction.yes_no import YesNo, breaks_off, short_yes_or_no, verdict_part
from snellen.metrics.declaration import CorpusCountMetric, MetricRow, pooled_row, reply_by_reply
from snellen.metrics.normalise import standard_normalise
from snellen.metrics.question_counts import Counts

# These match normalised clauses: no punctuation, one case, "isn't" as "isn t".
_IDIOM_THAT_DENIES_NOTHING = late_pattern(
    r"\bno (?:doubt|question|problem|wonder)\b|\bwithout (?:a |any )?doubt\b|\bnot only\b"
)
_YES_OR_NO_LETTER = late_pattern(r"\W*([YyNn])\W*")
_SAYS_YES = late_pattern(
    r"\b(?:yes|yeah|yep)\b|^true$|^(?:so |thus |hence )?the (?:final )?(?:answer|statement) is true$"
)
_SAYS_NO = late_pattern(
    r"^(?:no|nope)\b|^false$|^(?:so |thus |hence )?the (?:final )?(?:answer|statement) is false$"
    r"|\b(?:yes|or|and|is|be|answer|say|says|said) no$|\bno or yes\b"
)
_REFUSES = late_pattern(
    r"\b(?:whether|(?:difficult|hard|impossible) to (?:say|tell|determine|see|judge))\b"
    r"|\b(?:sorry|unable|cannot|can t|could not|couldn t|do not|don t|not (?:sure|clear|possible|able))\b"
    r"(?! (?:be )?(?:see (?:a|an|any|the)|have|contain|show|seen|found)\b)"
)
_DENIES = late_pattern(
    r"\b(?:not|never|without|neither|nor|cannot|none|nothing|[a-z]+n t)\b"
    r"|\b(?:is|are|was|were|there s|has|have|had|see|sees|contains?|shows?|with) no\b"
)
_ASSERTS = late_pattern(
    r"\bthere (?:is|are|was|were|s)\b|\bi (?:can )?see\b|\b(?:contains?|features?)\b"
    r"|\b(?:is|are) (?:\w+ )?(?:present|visible|shown|seen|depicted|in the)\b"
)


def read_yes_no(reply: str) -> YesNo | None:
    """Return whether a reply to a yes-no question says yes or no; None if it says neither, or both ("Options: Yes No").

    If the reply knows its question (an `AskedReply`), both are read together: "There are three pens." to "Are there two
    pens?" is no. Otherwise, these rules decide, in this order:

    - a letter alone: "Y" is yes;
    - a short answer alone: "Sure, there is" is yes, and "I don't think so" is no;
    - a yes, or a no that answers ("No, ...", "the answer is no") and does not count things ("there are no dogs");
    - the first clause that denies ("there is no dog": no), asserts ("there is a dog": yes) or refuses (None), beginning
      with the conclusion ("so it is not ...") if there is one.

    A plan that repeats the question and its steps are left out, so that a reply that was cut among them says neither
    (`yes_no.verdict_part`). Idioms such as "there is no doubt" deny nothing. A reply that was cut before its verb says anything ("The heart
    appears to be") says neither.
    """
    text = verdict_part(answer_text(reply)).strip()
    letter = _YES_OR_NO_LETTER.fullmatch(text)
    if letter:
        return "yes" if letter[1] in "Yy" else "no"
    short_answer = short_yes_or_no(text)
    if short_answer is not None:
        return short_answer
    if breaks_off(text):
        return None
    question = question_of(reply)
    if question:
        answer = says_yes_or_no(AskedReply(text, question))
        if answer:
            return answer
    return _read_by_words(text)


def _read_by_words(reply: str) -> YesNo | None:
    """Return the answer of a reply to an unknown yes-no question; None if it says neither, or both."""
    clauses = _clauses(reply)
    has_yes = any(_SAYS_YES.search(clause) for clause in clauses)
    has_no = any(_SAYS_NO.search(clause) for clause in clauses)
    if has_yes and has_no:
        return None
    if has_yes:
        return "yes"
    if has_no:
        return "no"
    for clause in (*_concluding_clauses(reply), *clauses):
        if _REFUSES.search(clause):
            return None
        if _DENIES.search(clause):
            return "no"
        if _ASSERTS.search(clause):
            return "yes"
    return None


def _clauses(text: str) -> list[str]:
    """Return the clauses of a text, normalised and without idioms."""
    clauses: list[str] = []
    for clause in re.split(r"[.,;:!?()\"\n]+", text):
        without_idioms = _IDIOM_THAT_DENIES_NOTHING.sub(" ", standard_normalise(clause))
        clauses.append(" ".join(without_idioms.split()))
    return clauses


_LAST_SENTENCES = 2
"""Sentences at the end of a reply in which its conclusion may be."""


def _concluding_clauses(reply: str) -> list[str]:
    """Return what follows the last "so" or "therefore", if it is near the end and not about an answer ("is wrong")."""
    sentences = [sentence for sentence in re.split(r"[.!?\n]+", reply) if sentence.strip()]
    clauses = _clauses("\n".join(sentences[-_LAST_SENTENCES:]))
    for index in reversed(range(len(clauses))):
        if not has_cue(clauses[index].partition(" ")[0], "conclusion"):
            continue
        words = " ".join(clauses[index:]).split()
        is_about_answer = any(has_cue(word, "wrong") for word in words)
        return [] if is_about_answer else clauses[index:]
    return []


def pope_counts(parsed: YesNo | None, gold: YesNo) -> tuple[float, ...]:
    """Return what one reply adds to POPE's six counts.

    Args:
        parsed: What the reply says; None if it says neither yes nor no.
        gold: The correct answer.

    Returns:
        1 (the reply itself); then 1 or 0 for each of these: the reply is correct, it says yes, the correct answer is
        yes, both are yes, and the reply says neither yes nor no.
    """
    is_yes_reply = parsed == "yes"
    is_yes_gold = gold == "yes"
    is_right = parsed == gold
    return (1, is_right, is_yes_reply, is_yes_gold, is_yes_reply and is_yes_gold, parsed is None)


def pope_rows(sums: Counts) -> tuple[float | None, ...]:
    """Return the numbers of POPE (Li et al. 2023, section 4.1) from counts summed over all replies, each in [0, 1].

    Args:
        sums: Six counts: all replies, correct replies, replies that say yes, questions whose correct answer is yes,
            replies that say yes to such a question, and replies that say neither yes nor no.

    Returns:
        Six numbers: accuracy, precision of yes, recall of yes, F1, the share of replies that say yes, and the share that
        say neither. Replies that say neither count as wrong. Precision is None if no reply says yes; recall and F1 are
        None if yes is never correct.
    """
    n_replies, n_correct, n_said_yes, n_gold_yes, n_hits, n_unparsed = sums
    precision = n_hits / n_said_yes if n_said_yes else None
    recall = None
    f1 = None
    if n_gold_yes:
        recall = n_hits / n_gold_yes
        f1 = 2 * n_hits / (n_said_yes + n_gold_yes)
    accuracy = n_correct / n_replies
    return accuracy, precision, recall, f1, n_said_yes / n_replies, n_unparsed / n_replies


def pope_yes_no(reply: str) -> Literal["yes", "no"]:
    """Read a reply as the published script of POPE does: no if the word No, no or not is before the first full stop.

    Every other reply is yes, also an empty one, a refusal and `NO`. Words are separated by blanks; commas are deleted.
    """
    first_sentence = reply.split(".")[0]
    words = first_sentence.replace(",", "").split(" ")
    for word in ("No", "not", "no"):
        if word in words:
            return "no"
    return "yes"


def _are_yes_and_no(options: Sequence[str]) -> bool:
    return len(options) == 2 and {read_yes_no(option) for option in options} == {"yes", "no"}


def _pope_metric(
    what: str, read: Callable[[str], YesNo | None], name_prefix: str = "", **declared: Any
) -> CorpusCountMetric:
    """Return POPE's metric of yes-no answers: accuracy, precision, recall, F1 and the share of yes.

    Args:
        what: What the metric reads, for its description.
        read: Reads yes or no in a reply; None if it finds neither.
        name_prefix: Beginning of the names of its rows.
        declared: Other fields of the rows.
    """

    def count(reply: str, texts: Sequence[str]) -> Counts:
        """Return the counts of a reply; the gold texts must all say yes, or all say no."""
        labels = {read_yes_no(text) for text in texts}
        if len(labels) != 1 or None in labels:
            raise DataError(f"gold {' / '.join(texts)!r} is neither yes nor no")
        return pope_counts(read(reply), "yes" if "yes" in labels else "no")

    def row(quantity: str, **own: Any) -> MetricRow:
        """Declare a row of POPE's metric by the quantity that it holds, such as `F1`."""
        name = f"{name_prefix}pope_{re.sub('[ -]', '_', quantity.lower())}"
        # Other benchmarks ask for yes or no, too, and only POPE's own parser is POPE's alone.
        title = f"legacy POPE {quantity}" if name_prefix else f"yes-no {quantity}"
        return pooled_row(name, title, **{"unparsed": "wrong"} | own)

    return CorpusCountMetric(
        description=what,
        rows=(
            row("accuracy"),
            row("precision", undefined="no reply is yes"),
            row("recall"),
            row("F1"),
            row("yes-rate", better="neither", scale=""),
            row("unparsed rate", better="lower", scale=""),
        ),
        count=reply_by_reply(count),
        compute=pope_rows,
        per_question=(f"{name_prefix}pope_accuracy",),
        **declared,
    )


POPE = _pope_metric(
    "POPE (Li et al. 2023): accuracy, precision, recall and F1 of yes, yes-rate; neither yes nor no is wrong",
    read_yes_no,
    applies=_are_yes_and_no,
)
LEGACY_POPE = _pope_metric(
    "POPE by its own parser, which reads everything but no as yes; open questions only",
    pope_yes_no,
    "legacy_",
)


# --- objects in captions ---------------------------------------------------------------------------------------------


def listed_objects(text: str) -> list[str]:
    """Return the objects in a list that is written in JSON, or with commas or semicolons between them.

    Examples:
        >>> listed_objects('["dog", "Dining table"]'), listed_objects("dog; cat"), listed_objects("[]")
        (['dog', 'dining table'], ['dog', 'cat'], [])
    """
    try:
        objects = msgspec.json.decode(str(text).encode(), type=list[str])
    except (msgspec.DecodeError, ValueError):
        objects = re.split(r"[,;]", text)
    return [item.strip().casefold() for item in objects if item.strip()]


def chair_counts(reply: str, references: Sequence[str]) -> tuple[float, ...]:
    """Return what one caption adds to CHAIR's six counts of objects that captions mention, wrongly or rightly.

    Args:
        reply: The list of objects that the caption mentions.
        references: Lists of the objects in the image.

    Returns:
        1 (the caption itself); whether it mentions an object that is not in the image; the number of objects that it
        mentions; how many of these are not in the image; the number of objects in the image; and how many of these the
        caption mentions.
    """
    mentioned = listed_objects(reply)
    in_image: set[str] = set()
    for reference in references:
        in_image.update(listed_objects(reference))
    n_wrong = sum(item not in in_image for item in mentioned)
    n_objects_mentioned = len(in_image.intersection(mentioned))
    return (1, n_wrong > 0, len(mentioned), n_wrong, len(in_image), n_objects_mentioned)


def chair_rows(sums: Counts) -> tuple[float | None, ...]:
    """Return the numbers of CHAIR (Rohrbach et al. 2018, section 3) from summed counts, each in [0, 1].

    Args:
        sums: The sums of what `chair_counts` returns.

    Returns:
        The share of mentioned objects that are not in the image (None if no object is mentioned), the share of captions
        that mention such an object, and the share of objects in the images that are mentioned (None if there are no
        objects).
    """
    n, wrong_captions, mentions, wrong_mentions, objects, found = sums
    of_mentions = wrong_mentions / mentions if mentions else None
    return of_mentions, wrong_captions / n, found / objects if objects else None


CHAIR = CorpusCountMetric(
    description="CHAIR (Rohrbach et al. 2018): objects that a caption mentions and the image does not have",
    rows=(
        pooled_row("chair_i", "CHAIRi", better="lower", undefined="no caption mentions an object"),
        pooled_row("chair_s", "CHAIRs", better="lower"),
        pooled_row("object_recall", "object recall", undefined="no image has an object"),
    ),
    count=reply_by_reply(chair_counts),
    compute=chair_rows,
    per_question=("chair_i", "chair_s", "object_recall"),
)
