"""How other harnesses read replies to questions with options, written from their documented behaviour.

They serve to tell how a file's verdicts were made, never to score. None stands for a reply in which a rule finds no
option; what a harness then does (draw one, ask a model, count it as wrong) is not part of the rule.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence

Rule = Callable[[str, Sequence[str], Sequence[str]], int | None]
"""(reply, options, labels) -> index of the option that the rule reads, or None."""

_VLMEVALKIT_MARKS = ".()[],:;!*#{}"
_VLMEVALKIT_BLANKS = str.maketrans(_VLMEVALKIT_MARKS, " " * len(_VLMEVALKIT_MARKS))
_VLMEVALKIT_REFUSALS = (
    "Failed to obtain answer via API",
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
)
_ANSWER_IS = re.compile(r"(?:correct\s+)?answer\s+is\s+\**([A-D])\**", re.IGNORECASE)


def vlmevalkit(reply: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    """Read by VLMEvalKit's exact matching: one label among the last words, `answer is X`, or one option's text.

    A label counts if it is the only one in the reply and its first occurrence is among the last four words. A text
    counts if it is the only option in the reply, and the reply is at most twice as long as all options.
    """
    if any(refusal in reply for refusal in _VLMEVALKIT_REFUSALS):
        return None
    words = reply.translate(_VLMEVALKIT_BLANKS).split()
    present = [place for place, label in enumerate(labels) if label in words]
    if not present and "Z" in words:
        return None  # the label of an option that the harness adds for no answer
    if len(present) == 1 and words.index(labels[present[0]]) > len(words) - 5:
        return present[0]
    stated = _ANSWER_IS.search(reply)
    if stated and stated[1].upper() in labels:
        return list(labels).index(stated[1].upper())
    lowered = reply.lower()
    if len(lowered) > 2 * sum(map(len, options)):
        return None
    texts = [place for place, option in enumerate(options) if option.lower() in lowered]
    return texts[0] if len(texts) == 1 else None


def mmmu(reply: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    """Read by MMMU's evaluation, which lmms-eval's task `mmmu` uses: `(A)`, else `A `, else `A.`, else an option's text.

    Of several the last in the reply counts. Texts are looked for in replies of more than five words.
    """
    text = reply
    for mark in ",.!?;:'":
        text = text.strip(mark)
    text = f" {text} "
    for form in ("({})", "{} ", "{}."):
        present = [place for place, label in enumerate(labels) if form.format(label) in text]
        if present:
            mark = form if form == "({})" else " {} "
            return max(present, key=lambda place: text.rfind(mark.format(labels[place])))
    if len(text.split()) <= 5:
        return None
    lowered = text.lower()
    texts = [place for place, option in enumerate(options) if option.lower() in lowered]
    if not texts:
        return None
    return max(texts, key=lambda place: lowered.rfind(options[place].lower()))


def scienceqa(reply: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    """Read as lmms-eval's task `scienceqa` does: the whole reply is a label, or begins with one and a full stop.

    A label that is the whole reply may be a small letter.
    """
    text = reply.strip()
    if text.upper() in labels:
        return list(labels).index(text.upper())
    if len(text) >= 2 and text[1] == "." and text[0] in labels:
        return list(labels).index(text[0])
    return None


_LMMS_EVAL_PHRASES = (
    *("the answer is", "answer is", "the correct answer is", "correct answer is"),
    *("the best answer is", "best answer is", "the correct option is", "correct option is"),
    *("the best option is", "best option is", "the choice is", "choice is"),
    *("the correct choice is", "correct choice is", "i choose", "i select", "i pick"),
    *("my answer is", "my choice is", "옵션", "정답은", "답은", "답:"),
    *("答案是", "答案为", "选", "答えは"),
)
"""After them any letter that is a label counts."""
_LMMS_EVAL_FORMS = ("({})", "{}.", "{}:", "{})", "{} ")
"""Below a label at an end of the reply and behind a phrase, the surest first."""


def lmms_eval(reply: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    """Read by the letters that many tasks of lmms-eval share (MMBench, MMStar, RealWorldQA, Video-MME ...).

    A label that begins the reply counts before one that ends it, then one behind a phrase such as `the answer is`,
    then `(A)`, `A.`, `A:`, `A)` and `A `, wherever they stand, also within words. Of several the last counts. Without
    any of these a capital letter within a word is taken.
    """
    if not labels:
        return None
    text = reply.strip()
    for mark in ",.!?;:'\"":
        text = text.strip(mark)
    stripped = text.strip()
    if not stripped:
        return None
    padded = f" {text} "

    beginning = [place for place, label in enumerate(labels) if _begins_with(stripped, label)]
    if beginning:
        return beginning[0]
    ending = [place for place, label in enumerate(labels) if _begins_with(stripped[::-1], label)]
    if ending:
        return ending[0]
    lowered = padded.lower()
    stated: dict[int, int] = {}
    for phrase in _LMMS_EVAL_PHRASES:
        if phrase not in lowered:
            continue
        after = lowered.find(phrase) + len(phrase)
        for place, label in enumerate(labels):
            found = padded.find(label, after)
            if found >= 0:
                stated[place] = max(found, stated.get(place, 0))
    if stated:
        return max(stated, key=lambda place: stated[place])
    for form in (*_LMMS_EVAL_FORMS, "{}"):
        last = {place: padded.rfind(form.format(label)) for place, label in enumerate(labels)}
        if max(last.values()) >= 0:
            return max(last, key=lambda place: last[place])
    return None


def _begins_with(text: str, label: str) -> bool:
    return text.startswith(label) and not text[len(label) : len(label) + 1].isalpha()


_EVALSCOPE_MARK = re.compile(r"ANSWER\s*:\s*\**\s*", re.IGNORECASE)
_EVALSCOPE_STATED = (
    re.compile(r"[(\[（【]\s*([A-Za-z\d](?:\s*[,，]\s*[A-Za-z\d])*)\s*[)\]）】]"),
    re.compile(r"([A-Za-z\d][A-Za-z\d ,]*)"),
)
"""Labels behind the mark: in brackets, or plain."""


def evalscope(reply: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    """Read by the line `ANSWER: X` that evalscope asks for; the last one that a label follows counts.

    Several labels behind it (`ANSWER: A, B`) are no option. Without such a line the last capital letter of the reply
    counts.
    """
    for mark in reversed(list(_EVALSCOPE_MARK.finditer(reply))):
        for pattern in _EVALSCOPE_STATED:
            found = pattern.match(reply, mark.end())
            stated = _leading_labels(found[1], labels) if found else ""
            if stated:
                return list(labels).index(stated) if stated in labels else None
    capitals = [character for character in reply if character.isupper()]
    if not capitals or capitals[-1] not in labels:
        return None
    return list(labels).index(capitals[-1])


def _leading_labels(text: str, labels: Sequence[str]) -> str:
    """The beginning of a text up to its first word with a letter that is no label."""
    end = 0
    for word in re.finditer(r"[A-Za-z\d]+", text):
        if not set(word[0]) <= set(labels):
            break
        end = word.end()
    return text[:end]


_LM_EVAL_LETTER = re.compile(r"\(([A-Z])\)")


def lm_eval(reply: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    """Read by lm-eval's filter `multi_choice_regex` as tasks that generate (BBH, MMLU, GPQA) set it.

    The last letter in parentheses counts; without one the last text of an option, without capitals and punctuation;
    without that the last label behind a colon.
    """
    in_parentheses = _LM_EVAL_LETTER.findall(reply)
    if in_parentheses:
        last = in_parentheses[-1]
        return list(labels).index(last) if last in labels else None
    texts = [_without_punctuation(option.strip()) for option in options]
    named = re.findall("|".join(map(re.escape, texts)), _without_punctuation(reply))
    if named and named[-1].strip():
        # Of options that are alike the last one counts.
        alike = [place for place, text in enumerate(texts) if text == named[-1].strip()]
        return alike[-1] if alike else None
    if not labels:
        return None
    after_colon = re.findall(rf":\s*({'|'.join(map(re.escape, labels))})", reply)
    return list(labels).index(after_colon[-1]) if after_colon else None


def _without_punctuation(text: str) -> str:
    kept = (character for character in text.lower() if unicodedata.category(character)[0] != "P")
    return "".join(kept)


RULES: Mapping[str, Rule] = {
    "vlmevalkit": vlmevalkit,
    "mmmu": mmmu,
    "scienceqa": scienceqa,
    "lmms-eval": lmms_eval,
    "evalscope": evalscope,
    "lm-eval": lm_eval,
}
"""The rules by the names of their harnesses; `mmmu` and `scienceqa` are tasks of lmms-eval."""
