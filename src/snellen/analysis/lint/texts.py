"""Questions asked twice, options that are one, texts that say nothing or too much."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from snellen.analysis.lint.findings import Finding, some
from snellen.analysis.lint.material import LONG, LintMaterial, LintQuestion, fold_text, wordless

LONG_OPTION = 400
"""Letters."""


def repeated(material: LintMaterial) -> Iterator[Finding]:
    """The same question about the same picture: with the same answer a duplicate, else perhaps a conflict.

    The same words about another picture are no repetition.
    """
    asked: dict[tuple[int, str], list[LintQuestion]] = defaultdict(list)
    for question in material.questions:
        asked[question.scene, question.question].append(question)
    conflicts: list[str] = []
    disputed: list[str] = []
    copies: list[str] = []
    near: list[str] = []
    for group in (group for group in asked.values() if len(group) > 1):
        if _clash(group):
            conflicts += (question.id for question in group)
        elif _apart(group):
            disputed += (question.id for question in group)
        first, *others = group
        seen = {_said(first)}
        for question in others:
            (copies if _said(question) in seen else near).append(question.id)
            seen.add(_said(question))
    of = len(material.questions)
    if conflicts:
        says = "same picture, same question: the answer of one is offered as wrong by another"
        yield Finding("conflicting-golds", "serious", says, len(conflicts), of, some(conflicts))
    if disputed:
        says = "same picture, same question, no accepted answer in common"
        yield Finding("conflicting-texts", "warning", says, len(disputed), of, some(disputed))
    if copies:
        says = "repeat another question: same picture, words, options and answer, but for case and punctuation"
        yield Finding("duplicates", "warning", says, len(copies), of, some(copies))
    if near:
        says = "repeat the words of another question about the same picture, with other options or answers"
        yield Finding("near-duplicates", "warning", says, len(near), of, some(near))


def indistinguishable(material: LintMaterial) -> Iterator[Finding]:
    """Questions of which a model is shown just what it is shown of others that have another answer."""
    alike = material.benchmark.indistinguishable()
    if alike:
        says = "show a model just what others show it, letter by letter, and have another answer: one reply for all"
        examples = some(question.sample_id for question in alike)
        yield Finding("indistinguishable", "serious", says, len(alike), len(material.questions), examples)


def _clash(group: list[LintQuestion]) -> bool:
    known = [question for question in group if question.options and question.gold]
    everything = {text for question in known for text in _right(question)}
    return any(everything & (set(question.folded) - _right(question)) for question in known)


def _apart(group: list[LintQuestion]) -> bool:
    accepted = [_right(question) for question in group if not question.options and question.texts]
    return len(accepted) > 1 and not set.intersection(*accepted)


def _said(question: LintQuestion) -> tuple[frozenset[str], frozenset[str]]:
    return frozenset(question.folded), frozenset(_right(question))


def _right(question: LintQuestion) -> set[str]:
    if question.options:
        return {question.folded[place] for place in question.gold}
    return {fold_text(text) for text in question.texts}


def alike(material: LintMaterial) -> Iterator[Finding]:
    """Options that are one after folding, or of which one contains another as whole words."""
    asked = [question for question in material.questions if question.options]
    same, with_gold, nested = [], [], []
    for question in asked:
        options = question.folded
        if len(set(options)) < len(options):
            same.append(question.id)
            if any(options.count(options[place]) > 1 for place in question.gold):
                with_gold.append(question.id)
        elif _nested(options):
            nested.append(question.id)
    if with_gold:
        says = "a wrong option is the answer in other case, punctuation or article"
        yield Finding("answer-twice", "serious", says, len(with_gold), len(asked), some(with_gold))
    if rest := len(same) - len(with_gold):
        says = "two wrong options are one but for case, punctuation or article"
        others = some(one for one in same if one not in set(with_gold))
        yield Finding("option-twice", "warning", says, rest, len(asked), others)
    if nested:
        says = "one option contains another as whole words; a reply that names the longer names both"
        yield Finding("nested-options", "warning", says, len(nested), len(asked), some(nested))


def _nested(options: tuple[str, ...]) -> bool:
    # Signs stand last in a folded text, so -5 does not contain 5 in what it says.
    padded = [f" {option} " for option in options]
    together = "\n".join(padded)
    return any(together.count(option) > 1 for option in padded)


def sizes(material: LintMaterial) -> Iterator[Finding]:
    """Texts without a letter or digit, and very long ones."""
    questions = material.questions
    empty = [
        question.id
        for question in questions
        if not question.question or any(wordless(text) for text in (*question.options, *question.texts))
    ]
    if empty:
        says = "a question, option or reference has no letter and no digit; text metrics cannot see it"
        yield Finding("wordless-texts", "warning", says, len(empty), len(questions), some(empty))
    if material.long:
        says = f"context and question have more than {LONG:,} characters"
        yield Finding("long-questions", "note", says, len(material.long), len(questions), some(material.long))
    long = [question.id for question in questions if any(len(option) > LONG_OPTION for option in question.options)]
    if long:
        says = f"an option has more than {LONG_OPTION} characters"
        yield Finding("long-options", "note", says, len(long), len(questions), some(long))
