"""Columns of right answers and of replies that are called alike but for a word: `gt_defect` and `predicted_defect`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from snellen.recognition.folding import folded_name

_GOLD_WORDS = frozenset("gt gold golden true actual expected reference ref target".split())
"""Words that say that a column holds right answers."""
_MADE_BY_PEOPLE = frozenset("original human".split())
"""Words that say it only beside a column of the same name that a model generated: `original_summary`."""
_REPLY_WORDS = frozenset("predicted prediction predictions pred preds generated output".split())
_TRANSCRIBED_WORDS = frozenset(
    "ocr extracted recognized recognised transcribed transcript hypothesis asr".split()
)
"""Words that say that a column holds what was read in an image or heard in speech."""
_TRANSCRIBED_NOUNS = frozenset("text output result transcription".split())
_NO_ANSWERS = frozenset("question prompt image path file id time score".split())
"""Words in names of columns that are no answers, whatever stands before them: `original_image`."""
_OFTEN_ASKED = frozenset("text model id index idx".split())
"""Names that, without a word that says it is right, are of a question or of its row: `text` beside `output_text`."""
_SEPARATORS = re.compile(r"[._]")


def _words(name: str) -> list[str]:
    """The words in the name of a column with the objects around it, in which ground truth is `gt`."""
    folded = re.sub(r"ground_?truth", "gt", folded_name(name))
    return [word for word in _SEPARATORS.split(folded) if word]


def _rest(words: Sequence[str], marks: frozenset[str]) -> tuple[str, ...]:
    """The words of a name without the marks; empty if it has none of these, or a word for something else."""
    rest = tuple(word.removesuffix("s") for word in words if word not in marks)
    is_of_answers = _NO_ANSWERS.isdisjoint(words)
    return rest if len(rest) < len(words) and is_of_answers else ()


def gold_beside(reply: str, names: Iterable[str]) -> str:
    """Return the only column that is called like a column of replies but for the word that says it is right.

    What was transcribed may stand beside its plain name, `ocr_text` beside `text`, and so may what was predicted:
    `pred_gender` beside `gender`.

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
    """Return what a column of right answers is of, without the words that say that it is right.

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
"""What both a model and people may give, after a word for who did: `trocr_transcription`, `gt_transcription`."""
_NO_MODELS = frozenset(
    "question query prompt input source context image alt title raw full clean cleaned normalized normalised original "
    "human wrong negative false foil alternative short long hint ocr extracted page line type choice option".split()
)
"""Words before such a noun that name no model."""


def replies_by_noun(names: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that are called after a model and what the only column of right answers is called.

    None if several columns are called right, or one is not called right alone.

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
    """Return whether a column holds transcribed texts by its name: `ocr_text`, `extracted_text`."""
    rest = _rest(_words(name), _TRANSCRIBED_WORDS)
    return bool(rest) and _TRANSCRIBED_NOUNS.issuperset(rest)
