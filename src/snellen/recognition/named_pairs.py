"""Match a column of replies with that of right answers by their names: `predicted_defect` with `gt_defect`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from snellen.recognition.folding import folded_name

_ACTUAL = "actual"
"""A word for right answers beside predicted ones, and for replies beside expected ones."""
_SURE_GOLD_WORDS = frozenset(
    "gt gold golden true truth expected reference ref target ideal".split()
)
_GOLD_WORDS = _SURE_GOLD_WORDS | {_ACTUAL}
"""Words that say that a column holds right answers."""
_RIGHT_WORDS = _SURE_GOLD_WORDS | frozenset("correct right".split())
"""Words that say so before a noun: `correct_answer`. Alone, `correct` may be a verdict."""
_MODEL_WORDS = frozenset("model llm vlm mllm lvlm system".split())
_ANSWER_NOUNS = frozenset(
    "answer output label class value text response result caption option choice".split()
)
_MADE_BY_PEOPLE = frozenset("original human".split())
"""Words that say so only beside a column of generated texts: `original_summary` beside `generated_summary`."""
_REPLY_WORDS = frozenset(
    "predicted prediction predictions pred preds generated output response candidate hypothesis".split()
)
_TRANSCRIBED_WORDS = frozenset(
    "ocr extracted recognized recognised transcribed transcript hypothesis asr".split()
)
"""Words that say that a column holds what was read in an image or heard in speech."""
_TRANSCRIBED_NOUNS = frozenset("text output result transcription".split())
_NO_ANSWERS = frozenset("question prompt image path file id time score".split())
"""Words in names of columns that hold no answers, even if the name also has a word such as
`original`: `original_image`."""
_OFTEN_ASKED = frozenset("text model id index idx".split())
"""Names that, alone, more often mean the question or the row than right answers: `text`, even beside `output_text`."""
_SEPARATORS = re.compile(r"[._]")


def _words(name: str) -> list[str]:
    """Return the words in the name of a column, in small letters: `["gt", "shape"]` for `ground_truth.shape`.

    `ground truth` counts as one word, `gt`, however it is written.
    """
    folded = re.sub(r"ground_?truth", "gt", folded_name(name))
    return [word for word in _SEPARATORS.split(folded) if word]


def _rest(words: Sequence[str], marks: frozenset[str]) -> tuple[str, ...]:
    """Return the words of a name without certain ones: `("color",)` for the words of `pred_colors` without `pred`.

    A plural `s` is removed, so that `pred_colors` fits `gt_color`. The result is empty if the name
    has none of the words to be removed, or if it names something else than an answer, as
    `pred_time` does.

    Args:
        words: The words of the name, as `_words` returns them.
        marks: The words to be removed.
    """
    rest = tuple(word.removesuffix("s") for word in words if word not in marks)
    is_of_answers = _NO_ANSWERS.isdisjoint(words)
    return rest if len(rest) < len(words) and is_of_answers else ()


def pair_by_words(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the columns of right answers and of replies whose names say so by one word beside the same noun.

    `actual` means replies beside a word such as `expected`, and right answers beside a word such as
    `predicted`.

    Args:
        names: The names of all columns of the table.

    Returns:
        The two columns; None if there are no such columns, or more than two.

    Examples:
        >>> pair_by_words(["id", "expected_answer", "actual_answer"])
        ('expected_answer', 'actual_answer')
        >>> pair_by_words(["predicted_class", "actual_class", "score"])
        ('actual_class', 'predicted_class')
    """
    by_noun: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name in names:
        noun, kind = _noun_and_kind(_words(name))
        if kind:
            by_noun[noun][kind].append(name)
    pairs: list[tuple[str, str]] = []
    for of_kind in by_noun.values():
        columns = [name for several in of_kind.values() for name in several]
        if len(columns) != 2 or len(of_kind) != 2:
            continue
        gold = of_kind["right"] or of_kind[_ACTUAL]
        [reply] = [name for name in columns if name != gold[0]]
        pairs.append((gold[0], reply))
    return pairs[0] if len(pairs) == 1 else None


def _noun_and_kind(words: Sequence[str]) -> tuple[str, str]:
    """Return the noun of a name, and what the words beside it mean: `right`, `reply`, `actual` or nothing.

    The noun is the first or the last word: `answer` in `gold_answer` and `answer_gold`. A name
    without a noun, such as `expected`, has an empty one.
    """
    splits = [("", words)]
    if len(words) > 1:
        splits = [(words[-1], words[:-1]), (words[0], words[1:]), *splits]
    for word, marks in splits:
        singulars = [word, word.removesuffix("s"), word.removesuffix("es")]
        noun = next((singular for singular in singulars if singular in _ANSWER_NOUNS), "")
        if word and not noun:
            continue
        right = _RIGHT_WORDS if noun else _SURE_GOLD_WORDS
        replies = _REPLY_WORDS | _MODEL_WORDS if noun else _REPLY_WORDS
        for kind, usual in (("right", right), ("reply", replies), (_ACTUAL, {_ACTUAL})):
            if marks and usual.issuperset(marks):
                return noun, kind
    return "", ""


def gold_beside(reply: str, names: Iterable[str]) -> str:
    """Return the column of right answers that belongs to a column of replies: `gt_color` for `pred_color`.

    Both names are the same apart from a word such as `gt` for right answers and one such as `pred`
    for replies. The right answers may also have the plain name: `gender` belongs to `pred_gender`,
    and `text` to `ocr_text`.

    Args:
        reply: The name of the column of replies.
        names: The names of all columns of the table.

    Returns:
        The name of the column of right answers; empty if there is none, or more than one.

    Examples:
        >>> gold_beside("is_real_prediction", ["label", "actual_is_real"])
        'actual_is_real'
        >>> gold_beside("prediction.color", ["ground_truth.shape", "ground_truth.color"])
        'ground_truth.color'
        >>> gold_beside("generated_caption", ["original_caption", "original_image"])
        'original_caption'
        >>> gold_beside("pred_gender", ["gender", "model", "age"])
        'gender'
    """
    names = tuple(names)
    pair = pair_by_words(names)
    if pair is not None and pair[1] == reply:
        return pair[0]
    words = _words(reply)
    thing = _rest(words, _REPLY_WORDS)
    transcribed = _rest(words, _TRANSCRIBED_WORDS)
    golds: list[str] = []
    plain: list[str] = []
    for name in names:
        other = _words(name)
        right = _rest(other, _GOLD_WORDS)
        by_people = _rest(other, _MADE_BY_PEOPLE) if "generated" in words else ()
        is_plain = other == [*transcribed]
        if name != reply and ((thing or transcribed) in (right, by_people) or is_plain):
            golds.append(name)
        elif (
            thing
            and not reply.startswith(f"{name}.")
            and tuple(word.removesuffix("s") for word in other) == thing
        ):
            plain.append(name)
    if thing and not golds and _OFTEN_ASKED.isdisjoint(thing):
        golds = plain
    return golds[0] if len(golds) == 1 and (thing or transcribed) else ""


def rest_of_gold(name: str) -> str:
    """Return the name of a column of right answers without the word that says so: `color` for `gt_color`.

    The text is empty if the name has no such word, or no other one.

    Examples:
        >>> rest_of_gold("gt_defect_present"), rest_of_gold("label")
        ('defect_present', '')
    """
    words = _words(name)
    rest = [word for word in words if word not in _GOLD_WORDS]
    return "_".join(rest) if len(rest) < len(words) else ""


_NOUNS = frozenset(
    "transcription transcript text caption answer label summary translation description ocr".split()
)
"""Last words of names that say what was written, after a word for who wrote it:
`trocr_transcription`, `gt_transcription`."""
_NO_MODELS = frozenset(
    "question query prompt input source context image alt title raw full clean cleaned normalized normalised original "
    "human wrong negative false foil alternative short long hint ocr extracted page line type choice option".split()
)
"""Words before such a noun that name no model."""


def replies_by_noun(names: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of replies that are named after a model, as `trocr_transcription` is.

    The last word has to be the one that names the right answers: `gt_transcription` here. The
    result is empty unless exactly one column is named in this way, by a word for right answers and
    a noun.

    Examples:
        >>> replies_by_noun(["path", "trocr_transcription", "ground_truth_transcription", "line_key"])
        ('trocr_transcription',)
        >>> replies_by_noun(["gt_text", "question_text", "llava_text", "gpt4_text"])
        ('llava_text', 'gpt4_text')
    """
    words_by_name = {name: _words(name) for name in names if "." not in name}
    golds: list[str] = []
    for words in words_by_name.values():
        rest = [word for word in words if word not in _GOLD_WORDS]
        if len(rest) == 1 and len(rest) < len(words) and rest[0] in _NOUNS:
            golds.append(rest[0])
    if len(golds) != 1:
        return ()
    [noun] = golds
    found: list[str] = []
    for name, words in words_by_name.items():
        before = set(words[:-1])
        is_of_model = bool(before) and before.isdisjoint(_GOLD_WORDS | _NO_MODELS | _NO_ANSWERS)
        if words[-1:] == [noun] and is_of_model:
            found.append(name)
    return tuple(found)


def is_transcribed(name: str) -> bool:
    """Return whether the name of a column says that it holds transcribed texts: `ocr_text`, `extracted_text`."""
    rest = _rest(_words(name), _TRANSCRIBED_WORDS)
    return bool(rest) and _TRANSCRIBED_NOUNS.issuperset(rest)
