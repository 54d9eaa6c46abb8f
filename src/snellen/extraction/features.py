"""What the reader weighs: features of each option, and of "gives no answer", in a reply.

Features are names with values. Those of an option describe its mentions: how they name it, where they are, the words
around them, and which explicit statements name it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from snellen.common.late import late_pattern
from snellen.extraction.cue_words import cue_classes, dense_words, refusal_count
from snellen.extraction.mentions import MarkedReply, Mention, OptionForms
from snellen.extraction.propositions import claim_words, last_question, relate
from snellen.extraction.relations import RelationReading, read_relations
from snellen.extraction.statements import Statement, asks_what_is_wrong, last_correction
from snellen.extraction.tokens import tokenise

Features = defaultdict[str, float]


class ReplyFeatures(NamedTuple):
    """Features of one reply."""

    options: list[Features]
    none: Features
    related: RelationReading | None
    """What follows from sentences that relate the things of the question."""
    rejected: frozenset[int]
    """Options that a reply of one sentence denies and does not name otherwise; all, if a reply to a yes-no question announces
    an answer that is neither: "The answer is not known"."""


_WINDOW = 6
_MOST_MENTIONS = 6
_BAG = 40


def describe(
    marked: MarkedReply,
    forms: OptionForms,
    statements: Sequence[Statement],
    question: str,
    options: Sequence[str],
    *,
    cut: bool = False,
) -> ReplyFeatures:
    """Describe a reply for the reader."""
    asserted: list[list[Mention]] = [[] for _ in forms.texts]
    denied: list[list[Mention]] = [[] for _ in forms.texts]
    for mention in marked.mentions:
        (denied if is_denied(marked, mention) else asserted)[mention.option].append(mention)
    counting = [mention for mentions in asserted for mention in mentions]
    counting.sort(key=lambda mention: mention.first)
    full = [mention for mention in counting if mention.kind != "part"]
    named = {mention.option for mention in full}
    some_named = {mention.option for mention in counting}
    at = {mention.first: mention for mention in marked.mentions}
    taken_back = last_correction(marked)
    asks_for_denied = asks_what_is_wrong(question)
    described: list[Features] = []
    for place, mentions in enumerate(asserted):
        features = _describe_option(
            place, mentions, marked, at, statements, counting, full, named, taken_back
        )
        if denied[place]:
            count = min(len(named), 3)
            kind = "also denied" if mentions else "only denied"
            features[kind] = 1.0
            features[f"{kind} while {count} named"] = 1.0
            if asks_for_denied:
                features[f"{kind} as asked for"] = 1.0
            if mentions and denied[place][-1].first > mentions[-1].first:
                features["denied behind"] = 1.0
        described.append(features)
    _add_restated_question(described, marked, claim_words(last_question(question)))
    if forms.yes is not None and forms.no is not None:
        _add_yes_no(described, forms.yes, forms.no, marked, question, bool(full))
    else:
        _add_claims(described, marked, options, named)
    count = min(len(forms.texts), 5)
    for features in described:
        features["option"] = 1.0
        features[f"of {count}"] = 1.0
    none = _describe_none(marked, named, some_named, statements, cut)
    _add_refusing_options(described, none, marked, options, named)
    related = read_relations(marked, forms, question, options)
    if related is not None:
        _add_related(described, none, related)
    rejected: frozenset[int] = frozenset()
    is_plain = len(marked.sentences) == 1 and _EMPHASIS.search(marked.text) is None
    if is_plain and forms.yes is None and not _may_deny(marked, question):
        rejected = frozenset(
            place
            for place, text in enumerate(forms.texts)
            if denied[place] and not asserted[place] and not _has_denial(text)
        )
    if forms.yes is not None and not full and _announces_no_option(marked):
        return ReplyFeatures(described, none, related, frozenset(range(len(options))))
    for place in rejected:
        described[place]["rejected"] = 1.0
        described[place][f"rejected of {min(len(described), 3)}"] = 1.0
    return ReplyFeatures(described, none, related, rejected)


_EMPHASIS = late_pattern(
    r"\b(?:no|without|beyond|any) (?:a |any )?doubt|\bdoubtless|\bnobody (?:would|can|could) (?:deny|doubt)|\bundeniabl"
    r"|\bnone other|\bnothing (?:other|else|but)|\bno other|\bnot be clearer|n't be clearer|\bcannot deny|\bnot only",
    re.IGNORECASE,
)
"""Words of denial that affirm: "no doubt it is a cat"."""
_COMPARING = frozenset("as than so wie als 比".split())


def _may_deny(marked: MarkedReply, question: str) -> bool:
    """Whether a denial may not reject: the question asks for what is not so, or the reply compares or corrects itself."""
    if asks_what_is_wrong(question) or _has_denial([token.form for token in tokenise(question)]):
        return True
    compares = any(token.form in _COMPARING for token in marked.tokens)
    return compares or last_correction(marked) is not None


def _has_denial(forms: Sequence[str]) -> bool:
    classes = {name for form in forms for name in cue_classes().get(form, ())}
    return bool(classes.intersection((*_DENYING, "ignorance")))


def _add_related(described: list[Features], none: Features, related: RelationReading) -> None:
    """Add which option follows from what a reply says of related things."""
    if related.choice is None:
        none["none, unclear relation"] = 1.0
        return
    for place, features in enumerate(described):
        features["related" if place == related.choice else "related otherwise"] = 1.0


def _add_refusing_options(
    described: list[Features],
    none: Features,
    marked: MarkedReply,
    options: Sequence[str],
    named: set[int],
) -> None:
    """Add, for a reply that refuses, which option is a refusal itself: "cannot be determined"."""
    if not refusal_count(marked.text):
        return
    refusing = [place for place, option in enumerate(options) if _REFUSED.search(option)]
    refusing = refusing or [place for place, option in enumerate(options) if refusal_count(option)]
    if len(refusing) != 1:
        return
    others_named = min(len(named - set(refusing)), 2)
    described[refusing[0]][f"is a refusal, {others_named} others named"] = 1.0
    none[f"none, an option is a refusal, {others_named} others named"] = 1.0


_REFUSED = late_pattern(r"\A\W*refus(?:ed|es|al)\b", re.IGNORECASE)
"""An option for refusals, beside others such as "I do not know"."""


def _word_features(form: str) -> tuple[str, ...]:
    classes = cue_classes().get(form, ())
    return (*(f"<{name}>" for name in classes), form)


def _describe_option(
    place: int,
    mentions: list[Mention],
    marked: MarkedReply,
    at: dict[int, Mention],
    statements: Sequence[Statement],
    counting: list[Mention],
    full: list[Mention],
    named: set[int],
    taken_back: int | None,
) -> Features:
    features: Features = defaultdict(float)
    if not mentions:
        features["not mentioned"] = 1.0
        return features
    own_full = [mention for mention in mentions if mention.kind != "part"]
    if not own_full:
        features["only in part"] = 1.0
        features[f"part {_bucket(max(mention.cover for mention in mentions))}"] = 1.0
        features[f"part while {min(len(named), 2)} named"] = 1.0
    if own_full:
        features[f"named, {min(len(named), 4)} are"] = 1.0
        share = len(own_full) / len(full)
        features["share of mentions"] = share
        if full[0].option == place:
            features["first named"] = 1.0
        if full[-1].option == place:
            features["last named"] = 1.0
    if counting[0].option == place:
        features["first"] = 1.0
    if counting[-1].option == place:
        features["last"] = 1.0

    if taken_back is not None:
        last_start = marked.tokens[mentions[-1].first].start
        features[
            "behind the correction" if last_start > taken_back else "before the correction"
        ] = 1.0

    stated = [statement for statement in statements if statement.option == place]
    plain = [statement for statement in statements if statement.plain]
    for statement in stated:
        strength = "plain" if statement.plain else "weak"
        features[f"stated {strength} {statement.kind}"] = 1.0
    if plain:
        features["last stated"] = float(plain[-1].option == place)
        features["first stated"] = float(plain[0].option == place)
        options_stated = {statement.option for statement in plain}
        if place in options_stated:
            features[f"stated, {min(len(options_stated), 3)} are"] = 1.0

    chosen = mentions[:2] + mentions[2:][-_MOST_MENTIONS:]
    _add_context(features, "F", mentions[0], marked, at, 1.0)
    _add_context(features, "L", mentions[-1], marked, at, 1.0)
    for mention in chosen:
        _add_context(features, "*", mention, marked, at, 1 / len(chosen))
    return features


_IDIOM = frozenset(["doubt", "only", "question", "necessarily", "sure", "just", "wonder"])
_DENIAL_REACH = 6
_DENYING = ("negation", "wrong")


def is_denied(marked: MarkedReply, mention: Mention) -> bool:
    """Whether words just before or behind a mention deny it: "not B", "B is wrong"."""
    tokens = marked.tokens
    start, end = marked.sentences[marked.sentence_of(mention.first)]
    for index in range(mention.first - 1, max(start, mention.first - _DENIAL_REACH) - 1, -1):
        classes = cue_classes().get(tokens[index].form, ())
        if tokens[index].form == "," or "contrast" in classes or "conclusion" in classes:
            break
        is_idiom = index + 1 < len(tokens) and tokens[index + 1].form in _IDIOM
        if tokens[index].form == "doubt" and index > start:
            before = cue_classes().get(tokens[index - 1].form, ())
            is_idiom = "negation" in before  # "no doubt", "without doubt"
        if any(name in classes for name in _DENYING) and not is_idiom:
            return True
    linked = False
    for index in range(mention.last + 1, min(end, mention.last + _DENIAL_REACH)):
        classes = cue_classes().get(tokens[index].form, ())
        if tokens[index].form == "," or "contrast" in classes:
            break
        if any(name in classes for name in _DENYING) and (
            linked or tokens[index].form not in _NEUTRAL
        ):
            return True
        linked = linked or "copula" in classes
    before = "".join(token.raw for token in tokens[max(start, mention.first - 5) : mention.first])
    behind = "".join(token.raw for token in tokens[mention.last + 1 : min(end, mention.last + 9)])
    return any(before.endswith(word) or word in behind[:6] for word in _dense_denials())


_NEUTRAL = frozenset("no none without never nothing neither nor".split())


@cache
def _dense_denials() -> tuple[str, ...]:
    """Chinese, Japanese and Korean denials of two characters at least."""
    return (*(word for word in dense_words("negation") if len(word) > 1), *_DENIALS_BEHIND)


_DENIALS_BEHIND = (
    "不是 没有 不对 并非 並非 不像 不可能是 不会是 ではな じゃな はいな ではあり じゃあり ではござ 아니 아닙 아닌 아닐 않"
).split()


def _bucket(share: float) -> str:
    return (
        "all" if share > 0.99 else "most" if share >= 0.6 else "half" if share >= 0.4 else "little"
    )


def _add_context(
    features: Features,
    tag: str,
    mention: Mention,
    marked: MarkedReply,
    at: dict[int, Mention],
    weight: float,
) -> None:
    tokens = marked.tokens
    number = marked.sentence_of(mention.first)
    start, end = marked.sentences[number]
    kind = mention.kind + (" conflict" if mention.conflict else "")
    features[f"{tag} {kind}"] += weight
    if mention.kind == "part":
        features[f"{tag} part {_bucket(mention.cover)}"] += weight
    if number == 0:
        features[f"{tag} in first sentence"] += weight
    if number == len(marked.sentences) - 1:
        features[f"{tag} in last sentence"] += weight
    if mention.first == start:
        features[f"{tag} begins sentence"] += weight
    if end - 1 >= 0 and tokens[end - 1].form in ("?", "？"):
        features[f"{tag} in question"] += weight

    before_classes: set[str] = set()
    others_before = False
    for distance in range(1, _WINDOW + 5):
        index = mention.first - distance
        if index < start:
            if distance <= 2:
                features[f"{tag} starts"] += weight
            break
        other = at.get(index)
        if other is not None:
            name = "SAME" if other.option == mention.option else "OTHER"
            others_before = others_before or name == "OTHER"
            names: tuple[str, ...] = (name,)
        else:
            names = _word_features(tokens[index].form)
        for word in names:
            if distance <= 2:
                features[f"{tag}-{distance} {word}"] += weight
            if distance <= _WINDOW:
                features[f"{tag}<{word}"] += weight
            if word[0] == "<" and word not in before_classes:
                before_classes.add(word)
                features[f"{tag} after {word}"] += weight
    if others_before:
        features[f"{tag} after other"] += weight
    for distance in range(1, _WINDOW + 1):
        index = mention.last + distance
        if index >= end:
            if distance <= 2:
                features[f"{tag} ends"] += weight
            break
        other = at.get(index)
        if other is not None:
            names = ("SAME" if other.option == mention.option else "OTHER",)
        else:
            names = _word_features(tokens[index].form)
        for word in names:
            if distance <= 2:
                features[f"{tag}+{distance} {word}"] += weight
            features[f"{tag}>{word}"] += weight


def _add_restated_question(
    described: list[Features], marked: MarkedReply, asked: tuple[str, ...]
) -> None:
    """Add which options the sentence names that has most words of the question: "Box B encloses the object best"."""
    if len(asked) < _FEW_WORDS or not marked.mentions:
        return
    best: tuple[float, int] | None = None
    last: tuple[float, int] | None = None
    by_sentence: dict[int, list[Mention]] = {}
    for mention in marked.mentions:
        by_sentence.setdefault(marked.sentence_of(mention.first), []).append(mention)
    sentences = list(by_sentence)
    for number in (*sentences[:8], *sentences[8:][-8:]):
        start, end = marked.sentences[number]
        relation = relate(marked.tokens[start:end], asked)
        if relation is None or relation.covered < _RESTATED:
            continue
        if best is None or relation.covered > best[0] + 0.1:
            best = (relation.covered, number)
        last = (relation.covered, number)
    for tag, found in (("best", best), ("last", last)):
        if found is None:
            continue
        mentions = by_sentence[found[1]]
        bucket = _bucket(found[0])
        places = {mention.option for mention in mentions}
        for place in places:
            features = described[place]
            features[f"restates {tag} {bucket}"] = 1.0
            if len(places) == 1:
                features[f"restates {tag} alone {bucket}"] = 1.0
            elif mentions[0].option == place:
                features[f"restates {tag} first {bucket}"] = 1.0


_FEW_WORDS = 2
_RESTATED = 0.4


def _add_yes_no(
    described: list[Features],
    yes: int,
    no: int,
    marked: MarkedReply,
    question: str,
    verdict_named: bool,
) -> None:
    """Add, for a yes-no question, what follows from sentences that say no yes or no."""
    claim = claim_words(last_question(question))
    prefix = "with verdict" if verdict_named else "no verdict"
    best: tuple[float, str, bool] | None = None
    for number, (start, end) in enumerate(marked.sentences[:12]):
        sentence = marked.tokens[start:end]
        relation = relate(sentence, claim)
        if relation is None:
            continue
        extra = min(relation.extra, 3)
        shape = f"{_bucket(relation.covered)} {extra} more"
        if best is None or relation.covered > best[0]:
            best = (relation.covered, shape, relation.same)
        if number == 0:
            _add_signed(described, yes, no, f"{prefix} first {shape}", relation.same)
    if best is not None:
        _add_signed(described, yes, no, f"{prefix} best {best[1]}", best[2])
    for number, tag in ((0, "first"), (len(marked.sentences) - 1, "last")):
        start, end = marked.sentences[number]
        words = {
            name for token in marked.tokens[start:end][:_BAG] for name in _word_features(token.form)
        }
        for word in words:
            described[yes][f"yes {tag} {word}"] = 1.0
    described[yes][f"yes {prefix}"] = 1.0


def _add_signed(described: list[Features], yes: int, no: int, name: str, same: bool) -> None:
    described[yes][f"{name} {'says' if same else 'denies'}"] = 1.0
    described[no][f"{name} {'denies' if same else 'says'}"] = 1.0


_LONG_OPTION = 3


def _add_claims(
    described: list[Features], marked: MarkedReply, options: Sequence[str], named: set[int]
) -> None:
    """Add, for options that are phrases, how the sentence nearest to each relates to it."""
    for place, option in enumerate(options):
        claim = claim_words(option)
        if len(claim) < _LONG_OPTION:
            continue
        best = 0.0
        shape = ""
        for start, end in (*marked.sentences[:6], *marked.sentences[6:][-6:]):
            relation = relate(marked.tokens[start:end], claim)
            if relation is not None and relation.covered > best:
                best = relation.covered
                shape = f"{_bucket(best)} {'says' if relation.same else 'denies'}"
        if shape:
            features = described[place]
            features[f"claim {shape}"] = 1.0
            features["claim cover"] = best
            features[f"claim {shape} while {min(len(named), 2)} named"] = 1.0


def _announces_no_option(marked: MarkedReply) -> bool:
    """Whether the last sentence with "the answer is" has no option behind it: "The answer is not known"."""
    for start, end in reversed(marked.sentences):
        for index in range(start, end - 1):
            classes = cue_classes().get(marked.tokens[index].form, ())
            following = marked.tokens[index + 1].form
            is_linked = following == ":" or "copula" in cue_classes().get(following, ())
            if "answer" in classes and is_linked:
                return not any(
                    mention.kind != "part" and index < mention.first < end
                    for mention in marked.mentions
                )
    return False


def _describe_none(
    marked: MarkedReply,
    named: set[int],
    some_named: set[int],
    statements: Sequence[Statement],
    cut: bool,
) -> Features:
    features: Features = defaultdict(float)
    features["none"] = 1.0
    features[f"none, {min(len(named), 4)} named"] = 1.0
    features[f"none, {min(len(some_named), 4)} named or in part"] = 1.0
    plain = {statement.option for statement in statements if statement.plain}
    features[f"none, {min(len(plain), 3)} stated"] = 1.0
    features[f"none, {min(len(statements), 3)} statements"] = 1.0
    refusals = refusal_count(marked.text)
    features[f"none, {min(refusals, 3)} refusals"] = 1.0
    features[f"none, {min(refusals, 2)} refusals, {min(len(plain), 2)} stated"] = 1.0
    if cut:
        features["none, cut"] = 1.0
        features[f"none, cut, {min(len(plain), 2)} stated"] = 1.0
    length = len(marked.tokens)
    size = (
        "tiny" if length < 4 else "short" if length < 25 else "middle" if length < 120 else "long"
    )
    features[f"none, {size}"] = 1.0
    features[f"none, {size}, {min(len(named), 2)} named"] = 1.0
    if marked.tokens and not marked.tokens[-1].form[0].isalnum():
        features["none, ends with a sign"] = 1.0
    if _announces_no_option(marked):
        features["none, announces no option"] = 1.0
        features[f"none, announces no option, {min(len(named), 2)} named"] = 1.0
    for number, tag in ((0, "first"), (len(marked.sentences) - 1, "last")):
        start, end = marked.sentences[number]
        words = {
            name for token in marked.tokens[start:end][:_BAG] for name in _word_features(token.form)
        }
        for word in words:
            features[f"none {tag} {word}"] = 1.0
    if any(word in marked.text for word in dense_words("negation")):
        features["none, dense denial"] = 1.0
    return features
