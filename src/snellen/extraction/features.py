"""Features of a reply, from which the reader estimates which option it means.

A feature is a name with a value: `{"stated plain announced": 1.0, "share of mentions": 0.5}`. Each option has features,
which describe how the reply names it, where, between which words and in which explicit statements. One more set of
features describes the reply as one that gives no answer. `snellen.extraction.reader` multiplies them with learnt
weights, so the name of a feature must not change without new weights (`training/reader`).

Most values are 1.0: the feature is present. Counts are part of the names, up to a limit: `named, 2 are` means that the
reply names two options, of which this option is one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from snellen.common.late import late_pattern
from snellen.extraction.cue_words import cue_classes, dense_words, has_cue, refusal_count
from snellen.extraction.denials import DENYING_CLASSES, is_denied
from snellen.extraction.mentions import MarkedReply, Mention
from snellen.extraction.option_forms import OptionForms
from snellen.extraction.propositions import claim_words, last_question, relate
from snellen.extraction.relations import RelationReading, read_relations
from snellen.extraction.statements import Statement, asks_what_is_wrong, last_correction
from snellen.extraction.tokens import normalised_at, tokenise

Features = defaultdict[str, float]
"""Values of features by name; 0 for a feature that is absent."""


class ReplyFeatures(NamedTuple):
    """Features of a reply."""

    options: list[Features]
    """Features of each option, in order."""
    none: Features
    """Features of the reply as one that gives no answer."""
    related: RelationReading | None
    """Reading of sentences about the relation of two things, if the question is about one."""
    rejected: frozenset[int]
    """Options that the reply rules out.

    These are the options that a reply of one sentence denies and does not name otherwise. They are all options of a
    yes-no question if the reply announces an answer that is neither: "The answer is not known".
    """


class _Evidence(NamedTuple):
    """A reply with its explicit statements and the options that it mentions, denied or not."""

    marked: MarkedReply
    statements: Sequence[Statement]
    """Explicit statements of the reply."""
    asserted: list[Mention]
    """Mentions that are not denied, by their first token."""
    whole: list[Mention]
    """Asserted mentions by a label or a complete text."""
    named: set[int]
    """Options of the whole mentions."""
    mention_at: dict[int, Mention]
    """All mentions, also denied ones, by their first token."""
    correction: int | None
    """Index in the text of the reply at which its last correction of itself begins; None if it has none."""


def describe(
    marked: MarkedReply,
    forms: OptionForms,
    statements: Sequence[Statement],
    question: str,
    options: Sequence[str],
    *,
    cut: bool = False,
) -> ReplyFeatures:
    """Return the features of a reply.

    Args:
        marked: The reply, with its mentions of options.
        forms: Words and labels of the options.
        statements: Explicit statements of the reply.
        question: Text of the question.
        options: Texts of the options.
        cut: Whether the length limit cut the reply.
    """
    asserted: list[Mention] = []
    asserted_by_option: list[list[Mention]] = [[] for _ in forms.words]
    denied_by_option: list[list[Mention]] = [[] for _ in forms.words]
    for mention in marked.mentions:
        if is_denied(marked, mention):
            denied_by_option[mention.option].append(mention)
        else:
            asserted_by_option[mention.option].append(mention)
            asserted.append(mention)
    asserted.sort(key=lambda mention: (mention.first, mention.option))
    whole = [mention for mention in asserted if mention.kind != "part"]
    evidence = _Evidence(
        marked=marked,
        statements=statements,
        asserted=asserted,
        whole=whole,
        named={mention.option for mention in whole},
        mention_at={mention.first: mention for mention in marked.mentions},
        correction=last_correction(marked),
    )

    described: list[Features] = []
    asks_for_denied = asks_what_is_wrong(question)
    for option, mentions in enumerate(asserted_by_option):
        features: Features = defaultdict(float)
        _add_mentions(features, option, mentions, evidence)
        denials = denied_by_option[option]
        if denials:
            _add_denials(features, mentions, denials, len(evidence.named), asks_for_denied)
        features["option"] = 1.0
        features[f"of {min(len(forms.words), 5)}"] = 1.0
        described.append(features)

    _add_restated_question(described, marked, claim_words(last_question(question)))
    if forms.yes_option is not None and forms.no_option is not None:
        yes_features = described[forms.yes_option]
        no_features = described[forms.no_option]
        _add_yes_no(yes_features, no_features, evidence, question)
    else:
        _add_claims(described, evidence, options)

    none = _describe_no_answer(evidence, cut=cut)
    _add_refusing_option(described, none, evidence, options)
    related = read_relations(marked, forms, question, options)
    if related is not None:
        _add_related(described, none, related)

    if forms.yes_option is not None:
        rejects_all = not whole and _announces_neither(marked, question)
        rejected = range(len(options)) if rejects_all else ()
        return ReplyFeatures(
            options=described, none=none, related=related, rejected=frozenset(rejected)
        )

    ruled_out: set[int] = set()
    if _can_reject(marked, question):
        for option, words in enumerate(forms.words):
            is_only_denied = denied_by_option[option] and not asserted_by_option[option]
            if is_only_denied and not _has_denial(words):
                ruled_out.add(option)
    for option in ruled_out:
        described[option]["rejected"] = 1.0
        described[option][f"rejected of {min(len(described), 3)}"] = 1.0
    return ReplyFeatures(
        options=described, none=none, related=related, rejected=frozenset(ruled_out)
    )


# --- names of features ------------------------------------------------------------------------------------------------


def _share_name(share: float) -> str:
    """Return the name of the range that a share is in: "all", "most", "half" or "little"."""
    if share > 0.99:
        return "all"
    if share >= 0.6:
        return "most"
    if share >= 0.4:
        return "half"
    return "little"


def _length_name(n_tokens: int) -> str:
    """Return the name of the range that the length of a reply is in: "tiny", "short", "middle" or "long"."""
    if n_tokens < 4:
        return "tiny"
    if n_tokens < 25:
        return "short"
    if n_tokens < 120:
        return "middle"
    return "long"


def _word_names(word: str) -> tuple[str, ...]:
    """Return the names of a word in features: its classes and the word itself, `("<negation>", "not")` for "not"."""
    classes = cue_classes().get(word, ())
    return (*(f"<{name}>" for name in classes), word)


_MOST_EDGE_WORDS = 40
"""Tokens of the first and of the last sentence that become features."""


def _edge_words(marked: MarkedReply) -> Iterator[str]:
    """Yield features for the words of the first and of the last sentence, such as "first not" and "last <negation>".

    The latter is the class of a word. Only the first words of a sentence count.
    """
    edges = {"first": marked.sentences[0], "last": marked.sentences[-1]}
    for edge, (start, end) in edges.items():
        for token in marked.tokens[start:end][:_MOST_EDGE_WORDS]:
            for name in _word_names(token.normalised):
                yield f"{edge} {name}"


# --- features of an option --------------------------------------------------------------------------------------------

_MOST_MENTIONS = 6
"""Mentions of an option, behind the first two, whose surroundings become features. The last ones count."""


def _add_mentions(
    features: Features, option: int, mentions: Sequence[Mention], evidence: _Evidence
) -> None:
    """Add how a reply names an option: how often, where, between which words, and in which statements.

    Args:
        features: Features of the option, which are changed.
        option: Index of the option.
        mentions: Asserted mentions of the option.
        evidence: The reply.
    """
    if not mentions:
        features["not mentioned"] = 1.0
        return
    n_named = len(evidence.named)
    n_whole = sum(mention.kind != "part" for mention in mentions)
    if n_whole == 0:
        cover = max(mention.cover for mention in mentions)
        features["only in part"] = 1.0
        features[f"part {_share_name(cover)}"] = 1.0
        features[f"part while {min(n_named, 2)} named"] = 1.0
    else:
        features[f"named, {min(n_named, 4)} are"] = 1.0
        features["share of mentions"] = n_whole / len(evidence.whole)
        if evidence.whole[0].option == option:
            features["first named"] = 1.0
        if evidence.whole[-1].option == option:
            features["last named"] = 1.0
    if evidence.asserted[0].option == option:
        features["first"] = 1.0
    if evidence.asserted[-1].option == option:
        features["last"] = 1.0

    if evidence.correction is not None:
        start = evidence.marked.tokens[mentions[-1].first].start
        side = "behind" if start > evidence.correction else "before"
        features[f"{side} the correction"] = 1.0

    plain_options: list[int] = []  # options of the plain statements
    for statement in evidence.statements:
        if statement.plain:
            plain_options.append(statement.option)
        if statement.option == option:
            strength = "plain" if statement.plain else "weak"
            features[f"stated {strength} {statement.kind}"] = 1.0
    if plain_options:
        features["last stated"] = float(plain_options[-1] == option)
        features["first stated"] = float(plain_options[0] == option)
    if option in plain_options:
        n_stated = len(set(plain_options))
        features[f"stated, {min(n_stated, 3)} are"] = 1.0

    _add_context(features, "F", mentions[0], evidence, weight=1.0)
    _add_context(features, "L", mentions[-1], evidence, weight=1.0)
    chosen = [*mentions[:2], *mentions[2:][-_MOST_MENTIONS:]]
    for mention in chosen:
        _add_context(features, "*", mention, evidence, weight=1 / len(chosen))


def _add_denials(
    features: Features,
    mentions: Sequence[Mention],
    denials: Sequence[Mention],
    n_named: int,
    asks_for_denied: bool,
) -> None:
    """Add that a reply denies an option: "It is not B".

    Args:
        features: Features of the option, which are changed.
        mentions: Asserted mentions of the option.
        denials: Denied mentions of the option, at least one.
        n_named: Number of options that the reply names.
        asks_for_denied: Whether the question asks for what is not the case.
    """
    kind = "also denied" if mentions else "only denied"
    features[kind] = 1.0
    features[f"{kind} while {min(n_named, 3)} named"] = 1.0
    if asks_for_denied:
        features[f"{kind} as asked for"] = 1.0
    if mentions and denials[-1].first > mentions[-1].first:
        features["denied behind"] = 1.0


_WINDOW = 6
"""Tokens before and behind a mention that become features."""
_CLASS_WINDOW = 10
"""Tokens before a mention whose classes become features."""
_NEXT = 2
"""Tokens before and behind a mention that become features with their distance."""


def _add_context(
    features: Features, tag: str, mention: Mention, evidence: _Evidence, weight: float
) -> None:
    """Add the sentence of a mention and the words around it.

    For the mention B in "It is not B", these are `F-1 not` (just before it), `F<not` (before it) and `F after <negation>`.
    Other mentions are called SAME or OTHER, by their option.

    Args:
        features: Features of the option, to which the weight is added.
        tag: Which mention it is: F is the first of the option, L the last, `*` any.
        mention: The mention.
        evidence: The reply.
        weight: Value of each feature.
    """
    marked = evidence.marked
    sentence = marked.sentence_of(mention.first)
    start, end = marked.sentences[sentence]
    kind = f"{mention.kind} conflict" if mention.conflict else mention.kind
    features[f"{tag} {kind}"] += weight
    if mention.kind == "part":
        features[f"{tag} part {_share_name(mention.cover)}"] += weight
    if sentence == 0:
        features[f"{tag} in first sentence"] += weight
    if sentence == len(marked.sentences) - 1:
        features[f"{tag} in last sentence"] += weight
    if mention.first == start:
        features[f"{tag} begins sentence"] += weight
    if normalised_at(marked.tokens, end - 1) in ("?", "？"):
        features[f"{tag} in question"] += weight

    classes_before: set[str] = set()
    is_after_other = False
    for distance in range(1, _CLASS_WINDOW + 1):
        index = mention.first - distance
        if index < start:
            if distance <= _NEXT:
                features[f"{tag} starts"] += weight
            break
        names = _names_at(index, mention, evidence)
        if names == ("OTHER",):
            is_after_other = True
        for name in names:
            if distance <= _NEXT:
                features[f"{tag}-{distance} {name}"] += weight
            if distance <= _WINDOW:
                features[f"{tag}<{name}"] += weight
            if name[0] == "<":
                classes_before.add(name)
    for name in classes_before:
        features[f"{tag} after {name}"] += weight
    if is_after_other:
        features[f"{tag} after other"] += weight

    for distance in range(1, _WINDOW + 1):
        index = mention.last + distance
        if index >= end:
            if distance <= _NEXT:
                features[f"{tag} ends"] += weight
            break
        for name in _names_at(index, mention, evidence):
            if distance <= _NEXT:
                features[f"{tag}+{distance} {name}"] += weight
            features[f"{tag}>{name}"] += weight


def _names_at(index: int, mention: Mention, evidence: _Evidence) -> tuple[str, ...]:
    """Return the names of the token at an index; SAME or OTHER if a mention of the same or another option begins there."""
    other = evidence.mention_at.get(index)
    if other is None:
        return _word_names(evidence.marked.tokens[index].normalised)
    return ("SAME",) if other.option == mention.option else ("OTHER",)


# --- the question and the claims of options ---------------------------------------------------------------------------

_FEWEST_QUESTION_WORDS = 2
"""Words of the shortest question that a sentence can restate."""
_RESTATED = 0.4
"""Least share of the words of a question in a sentence that restates it."""
_CLEARLY_MORE = 0.1
"""Difference of two such shares that makes a later sentence the better one."""


_EDGE_SENTENCES = 8
"""Sentences with mentions that are compared with the question, from the beginning and from the end of a reply."""


class _Restatement(NamedTuple):
    """A sentence that restates the question."""

    covered: float
    """Share of the question's words that it has."""
    sentence: int
    """Its index."""


def _add_restated_question(
    described: Sequence[Features], marked: MarkedReply, question: tuple[str, ...]
) -> None:
    """Add which options are in the sentences that restate the question.

    "Which box encloses the object?" is restated in "Box B encloses the object best".

    Args:
        described: Features of each option, which are changed.
        marked: The reply.
        question: Stems of the content words of the question.
    """
    if len(question) < _FEWEST_QUESTION_WORDS:
        return
    mentions_by_sentence: dict[int, list[Mention]] = defaultdict(list)
    for mention in marked.mentions:
        mentions_by_sentence[marked.sentence_of(mention.first)].append(mention)

    best: _Restatement | None = None
    last: _Restatement | None = None
    sentences = list(mentions_by_sentence)
    first_sentences = sentences[:_EDGE_SENTENCES]
    last_sentences = sentences[_EDGE_SENTENCES:][-_EDGE_SENTENCES:]
    for sentence in (*first_sentences, *last_sentences):
        start, end = marked.sentences[sentence]
        relation = relate(marked.tokens[start:end], question)
        if relation is None or relation.covered < _RESTATED:
            continue
        last = _Restatement(relation.covered, sentence)
        if best is None or last.covered > best.covered + _CLEARLY_MORE:
            best = last

    for tag, restatement in (("best", best), ("last", last)):
        if restatement is None:
            continue
        share = _share_name(restatement.covered)
        mentions = mentions_by_sentence[restatement.sentence]
        options = {mention.option for mention in mentions}
        for option in options:
            features = described[option]
            features[f"restates {tag} {share}"] = 1.0
            if len(options) == 1:
                features[f"restates {tag} alone {share}"] = 1.0
            elif mentions[0].option == option:
                features[f"restates {tag} first {share}"] = 1.0


_MOST_SENTENCES = 12
"""Sentences of a reply to a yes-no question that are compared with its claim."""


def _add_yes_no(
    yes_features: Features, no_features: Features, evidence: _Evidence, question: str
) -> None:
    """Add, for a yes-no question, what its sentences say about the claim of the question.

    "There are three pens" denies the claim of "Are there two pens?" without a yes or no.

    Args:
        yes_features: Features of the option that says yes, which are changed.
        no_features: Features of the option that says no, which are changed.
        evidence: The reply.
        question: Text of the question.
    """
    marked = evidence.marked
    claim = claim_words(last_question(question))
    prefix = "with verdict" if evidence.whole else "no verdict"
    best_cover = 0.0
    best_shape = ""
    best_agrees = False
    for sentence, (start, end) in enumerate(marked.sentences[:_MOST_SENTENCES]):
        relation = relate(marked.tokens[start:end], claim)
        if relation is None:
            continue
        shape = f"{_share_name(relation.covered)} {min(relation.extra, 3)} more"
        if sentence == 0:
            _add_agreement(
                yes_features, no_features, f"{prefix} first {shape}", agrees=relation.agrees
            )
        if relation.covered > best_cover:
            best_cover = relation.covered
            best_shape = shape
            best_agrees = relation.agrees
    if best_shape:
        _add_agreement(yes_features, no_features, f"{prefix} best {best_shape}", agrees=best_agrees)
    for name in _edge_words(marked):
        yes_features[f"yes {name}"] = 1.0
    yes_features[f"yes {prefix}"] = 1.0


def _add_agreement(
    yes_features: Features, no_features: Features, name: str, *, agrees: bool
) -> None:
    """Add to the features of the options "yes" and "no" what a sentence says about the claim of the question.

    Args:
        yes_features: Features of "yes", which are changed.
        no_features: Features of "no", which are changed.
        name: Name of the sentence, such as "first".
        agrees: Whether the sentence agrees with the claim. Then it says "yes" and denies "no"; otherwise the reverse.
    """
    supported = yes_features if agrees else no_features
    denied = no_features if agrees else yes_features
    supported[f"{name} says"] = 1.0
    denied[f"{name} denies"] = 1.0


_FEWEST_CLAIM_WORDS = 3
"""Words of the shortest option that is compared as a claim."""


def _add_claims(described: Sequence[Features], evidence: _Evidence, options: Sequence[str]) -> None:
    """Add, for options that are phrases, how the nearest sentence relates to each: "says" or "denies".

    Args:
        described: Features of each option, which are changed.
        evidence: The reply.
        options: Texts of the options.
    """
    marked = evidence.marked
    for features, option in zip(described, options, strict=True):
        claim = claim_words(option)
        if len(claim) < _FEWEST_CLAIM_WORDS:
            continue
        best_cover = 0.0
        best_agrees = False
        for start, end in (*marked.sentences[:6], *marked.sentences[6:][-6:]):
            relation = relate(marked.tokens[start:end], claim)
            if relation is not None and relation.covered > best_cover:
                best_cover = relation.covered
                best_agrees = relation.agrees
        if best_cover == 0:
            continue
        shape = f"{_share_name(best_cover)} {'says' if best_agrees else 'denies'}"
        features[f"claim {shape}"] = 1.0
        features["claim cover"] = best_cover
        features[f"claim {shape} while {min(len(evidence.named), 2)} named"] = 1.0


def _add_related(described: Sequence[Features], none: Features, related: RelationReading) -> None:
    """Add which option follows from sentences about the relation of two things."""
    if related.choice is None:
        none["none, unclear relation"] = 1.0
        return
    for option, features in enumerate(described):
        features["related" if option == related.choice else "related otherwise"] = 1.0


# --- denials that rule an option out ----------------------------------------------------------------------------------

_AFFIRMING_DENIAL = late_pattern(
    r"\b(?:no|without|beyond|any) (?:a |any )?doubt|\bdoubtless|\bnobody (?:would|can|could) (?:deny|doubt)|\bundeniabl"
    r"|\bnone other|\bnothing (?:other|else|but)|\bno other|\bnot be clearer|n't be clearer|\bcannot deny|\bnot only",
    re.IGNORECASE,
)
"""Words of denial that affirm: "no doubt it is a cat"."""
_COMPARING = frozenset("as than so wie als 比".split())


def _can_reject(marked: MarkedReply, question: str) -> bool:
    """Return whether a denial in a reply rules an option out.

    It does not if the reply has several sentences, compares ("not as large as B") or corrects itself, nor if the
    question asks for what is not the case.
    """
    if len(marked.sentences) != 1 or _AFFIRMING_DENIAL.search(marked.text) is not None:
        return False
    question_forms = [token.normalised for token in tokenise(question)]
    if asks_what_is_wrong(question) or _has_denial(question_forms):
        return False
    compares = any(token.normalised in _COMPARING for token in marked.tokens)
    return not compares and last_correction(marked) is None


def _has_denial(forms: Sequence[str]) -> bool:
    """Return whether one of some words denies something or says that it is unknown."""
    return any(has_cue(word, *DENYING_CLASSES, "ignorance") for word in forms)


# --- replies that give no answer --------------------------------------------------------------------------------------

_NAMES_REFUSAL = late_pattern(r"\A\W*refus(?:ed|es|al)\b", re.IGNORECASE)
"""An option for replies that refuse, next to others such as "I do not know"."""


def _describe_no_answer(evidence: _Evidence, *, cut: bool) -> Features:
    """Return the features of a reply as one that gives no answer.

    Args:
        evidence: The reply.
        cut: Whether the length limit cut the reply.
    """
    marked = evidence.marked
    n_named = len(evidence.named)
    n_asserted = len({mention.option for mention in evidence.asserted})
    n_stated = len({statement.option for statement in evidence.statements if statement.plain})
    n_refusals = refusal_count(marked.text)
    features: Features = defaultdict(float)
    features["none"] = 1.0
    features[f"none, {min(n_named, 4)} named"] = 1.0
    features[f"none, {min(n_asserted, 4)} named or in part"] = 1.0
    features[f"none, {min(n_stated, 3)} stated"] = 1.0
    features[f"none, {min(len(evidence.statements), 3)} statements"] = 1.0
    features[f"none, {min(n_refusals, 3)} refusals"] = 1.0
    features[f"none, {min(n_refusals, 2)} refusals, {min(n_stated, 2)} stated"] = 1.0
    if cut:
        features["none, cut"] = 1.0
        features[f"none, cut, {min(n_stated, 2)} stated"] = 1.0

    length = _length_name(len(marked.tokens))
    features[f"none, {length}"] = 1.0
    features[f"none, {length}, {min(n_named, 2)} named"] = 1.0
    if marked.tokens and not marked.tokens[-1].normalised[0].isalnum():
        features["none, ends with a sign"] = 1.0
    if _announces_no_option(marked):
        features["none, announces no option"] = 1.0
        features[f"none, announces no option, {min(n_named, 2)} named"] = 1.0
    for name in _edge_words(marked):
        features[f"none {name}"] = 1.0
    if any(word in marked.text for word in dense_words("negation")):
        features["none, dense denial"] = 1.0
    return features


def _announces_neither(marked: MarkedReply, question: str) -> bool:
    """Return whether a reply to a yes-no question announces an answer that is neither yes nor no, in any words."""
    return _announces_no_option(marked) and not _announces_claim(marked, question)


def _announces_no_option(marked: MarkedReply) -> bool:
    """Return whether the last "the answer is" has no option behind it in its sentence: "The answer is not known"."""
    for start, end in reversed(marked.sentences):
        for index in range(start, end - 1):
            following = marked.tokens[index + 1].normalised
            is_linked = following == ":" or has_cue(following, "copula")
            if not is_linked or not has_cue(marked.tokens[index].normalised, "answer"):
                continue
            for mention in marked.mentions:
                if mention.kind != "part" and index < mention.first < end:
                    return False
            return True
    return False


def _announces_claim(marked: MarkedReply, question: str) -> bool:
    """Return whether the last sentence of a reply announces the claim of a yes-no question, or the contrary.

    "Conclusion: the lung is not healthy" names neither yes nor no, but answers "Is the lung healthy?".
    """
    start, end = marked.sentences[-1]
    sentence = marked.tokens[start:end]
    is_announcement = any(has_cue(token.normalised, "answer") for token in sentence)
    if not is_announcement or refusal_count(marked.text):
        return False
    relation = relate(sentence, claim_words(last_question(question)))
    return relation is not None and relation.covered == 1


def _add_refusing_option(
    described: Sequence[Features], none: Features, evidence: _Evidence, options: Sequence[str]
) -> None:
    """Add, for a reply that refuses, which option is a refusal itself: "It cannot be determined".

    Args:
        described: Features of each option, which are changed.
        none: Features of the reply as one that gives no answer, which are changed.
        evidence: The reply.
        options: Texts of the options.
    """
    if not refusal_count(evidence.marked.text):
        return
    refusing = [index for index, option in enumerate(options) if _NAMES_REFUSAL.search(option)]
    if not refusing:
        refusing = [index for index, option in enumerate(options) if refusal_count(option)]
    if len(refusing) != 1:
        return
    [refusing_option] = refusing
    n_others = min(len(evidence.named - {refusing_option}), 2)
    described[refusing_option][f"is a refusal, {n_others} others named"] = 1.0
    none[f"none, an option is a refusal, {n_others} others named"] = 1.0
