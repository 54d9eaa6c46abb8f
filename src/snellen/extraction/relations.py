"""Replies about two things in a relation: who chases whom, what is left of what, which is larger.

"The cat is chased by the dog" and "The dog is chased by the cat" have the same words and opposite meanings, so words
alone cannot tell which option such a reply means. Its sentences are compared with the claim of each option instead
(`claims`, `claim_verdicts`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from snellen.common.late import late_pattern
from snellen.extraction.claim_verdicts import Verdict, judge_claim
from snellen.extraction.claims import (
    ASKS_FOR_PRESENCE,
    FEWEST_WORDS,
    LONGEST_QUESTION,
    Claim,
    claim_of_yes_no_question,
    claims_of_options,
    have_same_words,
)
from snellen.extraction.cue_words import refusal_count
from snellen.extraction.mentions import MarkedReply
from snellen.extraction.option_forms import OptionForms
from snellen.extraction.propositions import claim_text, claim_words, plain_verdict
from snellen.extraction.relation_words import denies, direction
from snellen.extraction.statements import last_correction
from snellen.extraction.tokens import tokenise
from snellen.extraction.word_stems import content_words

_MOST_SENTENCES = 2
_MOST_TOKENS = 45
"""Sentences and tokens of the longest reply that is read."""
_WEIGHING = frozenset("but while whereas unlike or if because since so therefore instead".split())
"""Words by which a sentence weighs options against each other."""
_ASKS_WHO = late_pattern(r"\bwho(?:m|se)?\b|\bwhich (?:one|of)\b", re.IGNORECASE)


class RelationReading(NamedTuple):
    """What the sentences of a reply say about two things in a relation."""

    choice: int | None
    """Index of the option that follows from them; None if they are unclear."""


def read_relations(
    marked: MarkedReply, forms: OptionForms, question: str, options: Sequence[str]
) -> RelationReading | None:
    """Read a short reply to a question about a relation of two things.

    Replies that name a label, say yes or no, or correct themselves are left to the weights of the reader.

    Args:
        marked: The reply.
        forms: How its options may be named.
        question: The question.
        options: Texts of the options.

    Returns:
        The reading, or None if the reply is long or about something else.
    """
    if len(marked.sentences) > _MOST_SENTENCES or len(marked.tokens) > _MOST_TOKENS:
        return None
    is_yes_no = forms.yes_option is not None and forms.no_option is not None
    for mention in marked.mentions:
        is_label = mention.kind not in ("text", "part")
        says_yes_or_no = is_yes_no and mention.kind == "text"
        if is_label or says_yes_or_no:
            return None
    if last_correction(marked) is not None or refusal_count(marked.text):
        return None

    question_words = frozenset(content_words(tokenise(question[-LONGEST_QUESTION:])))
    if is_yes_no:
        return _read_yes_no(marked, forms, question, question_words)
    return _read_options(marked, question, options, question_words)


def _read_yes_no(
    marked: MarkedReply, forms: OptionForms, question: str, question_words: frozenset[str]
) -> RelationReading | None:
    """Read a reply to a question whether a relation holds. None if the reply neither confirms nor denies it."""
    claim = claim_of_yes_no_question(question)
    verdict = None
    if claim is not None:
        verdict = _verdict_of_reply(marked, claim, question_words)
    if verdict == "unclear":
        return RelationReading(None)
    if verdict is not None:
        return RelationReading(forms.yes_option if verdict == "same" else forms.no_option)

    is_confirmed = _is_confirmed(marked, claim_text(question))
    if is_confirmed is None:
        return None
    return RelationReading(forms.yes_option if is_confirmed else forms.no_option)


def _read_options(
    marked: MarkedReply, question: str, options: Sequence[str], question_words: frozenset[str]
) -> RelationReading | None:
    """Read a reply about options that each state a relation. None if the reply is about something else."""
    claims = claims_of_options(question, tuple(options))
    verdicts = [_verdict_of_reply(marked, claim, question_words) for claim in claims]
    if all(verdict is None for verdict in verdicts):
        if have_same_words(claims):
            return RelationReading(None)
        is_about_two = bool(claims) or _ASKS_WHO.search(question) is not None
        if is_about_two and _names_two_at_once(marked):
            return RelationReading(None)
        return None

    confirmed = [index for index, verdict in enumerate(verdicts) if verdict == "same"]
    if len(confirmed) == 1:
        [choice] = confirmed
        for claim, verdict in zip(claims, verdicts, strict=True):
            is_same_relation = direction(claim.word, claims[choice].word) != 0
            if verdict == "unclear" and is_same_relation:
                return RelationReading(None)
        return RelationReading(choice)

    has_tie_option = len(claims) < len(options)
    if has_tie_option and all(verdict == "contrary" for verdict in verdicts):
        return RelationReading(len(claims))  # "They are equal" denies both claims.
    return RelationReading(None)


def _verdict_of_reply(
    marked: MarkedReply, claim: Claim, question_words: frozenset[str]
) -> Verdict | None:
    """Return the verdict of the plain sentences of a reply; unclear if they differ, None if it is about other things."""
    verdicts: set[Verdict] = set()
    for start, end in marked.sentences:
        verdict = judge_claim(marked.tokens[start:end], claim, question_words)
        if verdict is not None:
            verdicts.add(verdict)
    if not verdicts:
        return None
    plain = verdicts - {"unclear"}
    return plain.pop() if len(plain) == 1 else "unclear"


def _is_confirmed(marked: MarkedReply, claim: str) -> bool | None:
    """Return whether the sentences of a reply confirm or deny a claim plainly, or None if they do neither or both."""
    words = claim_words(claim)
    reply_words = content_words(marked.tokens)
    is_denied = any(denies(token.normalised) for token in marked.tokens)
    asks_for_presence = ASKS_FOR_PRESENCE.search(claim) is not None
    if is_denied and asks_for_presence and set(words).isdisjoint(reply_words):
        # "Il n'y a aucun cheval" denies an English claim, but a word or two are not enough to tell.
        is_plain_denial = len(marked.sentences) == 1 and len(reply_words) >= FEWEST_WORDS
        return False if is_plain_denial else None

    verdicts: set[bool] = set()
    for start, end in marked.sentences:
        verdict = plain_verdict(marked.tokens[start:end], words)
        if verdict is not None:
            verdicts.add(verdict)
    return verdicts.pop() if len(verdicts) == 1 else None


def _names_two_at_once(marked: MarkedReply) -> bool:
    """Return whether a sentence names two options and denies none: "The old man sells it to the tourist"."""
    for start, end in marked.sentences:
        options: set[int] = set()
        for mention in marked.mentions:
            if mention.kind == "text" and start <= mention.first < end:
                options.add(mention.option)
        is_weighed = False
        for token in marked.tokens[start:end]:
            if denies(token.normalised) or token.normalised in _WEIGHING:
                is_weighed = True
        if len(options) > 1 and not is_weighed:
            return True
    return False
