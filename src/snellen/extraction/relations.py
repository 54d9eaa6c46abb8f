"""Sentences about two things in a relation: who chases whom, what is left of what, which is larger.

"The cat is chased by the dog" has the words of "The dog is chased by the cat", and says the contrary. Words alone cannot
tell. A question about such a relation is answered by a sentence of plain form: the words of the claim in their order, or
one thing, the relation or its opposite, and the other thing. Another sentence about these things is `unclear`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from snellen.common.late import late_pattern
from snellen.extraction.cue_words import cue_classes, refusal_count
from snellen.extraction.mentions import MarkedReply, OptionForms
from snellen.extraction.propositions import (
    claim_text,
    claim_words,
    content_words,
    is_small_word,
    is_symmetric,
    last_question,
    opposites_of,
    plain_verdict,
    relating_word,
    word_stem,
)
from snellen.extraction.statements import last_correction
from snellen.extraction.tokens import Token, is_article, tokenise

Verdict = Literal["same", "contrary", "unclear"]


class Claim(NamedTuple):
    """One thing in relation to another: "The red car is faster than the green one"."""

    words: tuple[str, ...]
    """The stems of all its words in order, without small ones and denials."""
    left: frozenset[str]
    """Words of the one thing alone. Empty, like `word` and `right`, if the claim has no plain relation."""
    word: str
    right: frozenset[str]
    has_agent: bool = False
    """Whether it has "by", as a passive."""
    is_comparison: bool = False
    is_denied: bool = False


class RelationReading(NamedTuple):
    """What the sentences of a reply say about related things."""

    choice: int | None
    """The option that follows from them; None if they are unclear."""


_MOST_SENTENCES = 2
_MOST_TOKENS = 45
_FEWEST_WORDS = 3
"""Words of the shortest claim that relates two things: "dog chasing cat". "Red car" and "car is red" say the same."""


def read_relations(
    marked: MarkedReply, forms: OptionForms, question: str, options: Sequence[str]
) -> RelationReading | None:
    """Read a short reply to a question about a relation; None if it is long, or about something else.

    A reply that names a label, says yes or no, or corrects itself, is weighed by its words.
    """
    if len(marked.sentences) > _MOST_SENTENCES or len(marked.tokens) > _MOST_TOKENS:
        return None
    is_yes_no = forms.yes is not None and forms.no is not None
    for mention in marked.mentions:
        if mention.kind not in ("text", "part") or (is_yes_no and mention.kind == "text"):
            return None
    if last_correction(marked) is not None or refusal_count(marked.text):
        return None
    claims = claims_of(question, tuple(options), is_yes_no)
    known = frozenset(content_words(tokenise(question[-_LONGEST_QUESTION:])))
    verdicts = [_verdict_of_reply(marked, claim, known) for claim in claims]
    if all(verdict is None for verdict in verdicts):
        if is_yes_no:
            plain = _plain_verdict_of_reply(marked, claim_text(question))
            return None if plain is None else RelationReading(forms.yes if plain else forms.no)
        is_about_two = bool(claims) or _ASKS_WHO.search(question) is not None
        is_open = _is_rearranged_set(claims) or (is_about_two and _names_two_at_once(marked))
        return RelationReading(None) if is_open else None
    if is_yes_no:
        choice = {"same": forms.yes, "contrary": forms.no}.get(verdicts[0] or "")
        return RelationReading(choice)
    same = [place for place, verdict in enumerate(verdicts) if verdict == "same"]
    if len(same) == 1:
        word = claims[same[0]].word
        others = [
            verdict
            for claim, verdict in zip(claims, verdicts, strict=True)
            if _direction(claim.word, word)
        ]
        return RelationReading(None if "unclear" in others else same[0])
    if len(claims) < len(options) and set(verdicts) == {"contrary"}:
        return RelationReading(len(claims))  # "they are equal"
    return RelationReading(None)


def _is_rearranged_set(claims: Sequence[Claim]) -> bool:
    """Whether claims have the same words, so that none of these tells which one is meant."""
    return len(claims) > 1 and len({tuple(sorted(claim.words)) for claim in claims}) == 1


def _names_two_at_once(marked: MarkedReply) -> bool:
    """Whether a sentence names two options, and denies none: "The old man sells it to the tourist"."""
    for start, end in marked.sentences:
        sentence = marked.tokens[start:end]
        is_weighed = any(_denies(token.form) or token.form in _WEIGHING for token in sentence)
        inside = [mention for mention in marked.mentions if start <= mention.first < end]
        named = {mention.option for mention in inside if mention.kind == "text"}
        if len(named) > 1 and not is_weighed:
            return True
    return False


_ASKS_WHO = late_pattern(r"\bwho(?:m|se)?\b|\bwhich (?:one|of)\b", re.IGNORECASE)
_WEIGHING = frozenset("but while whereas unlike or if because since so therefore instead".split())


def _plain_verdict_of_reply(marked: MarkedReply, claim: str) -> bool | None:
    """The verdict on which the sentences of a reply agree that confirm or deny a claim plainly; None without one."""
    words = claim_words(claim)
    said = content_words(marked.tokens)
    is_denied = any(_denies(token.form) for token in marked.tokens)
    if is_denied and _EXISTENCE.search(claim) is not None and not set(said) & set(words):
        # "Il n'y a aucun cheval": a denial in words of another language
        is_short = len(marked.sentences) > 1 or len(said) < _FEWEST_WORDS
        return None if is_short else False
    verdicts = {plain_verdict(marked.tokens[start:end], words) for start, end in marked.sentences}
    verdicts.discard(None)
    return verdicts.pop() if len(verdicts) == 1 else None


def _verdict_of_reply(marked: MarkedReply, claim: Claim, known: frozenset[str]) -> Verdict | None:
    """What the sentences of a reply say of a claim that are plain; unclear if they differ, or none is."""
    verdicts: set[Verdict] = set()
    for start, end in marked.sentences:
        verdict = judge_claim(marked.tokens[start:end], claim, known)
        if verdict is not None:
            verdicts.add(verdict)
    if not verdicts:
        return None
    plain = verdicts - {"unclear"}
    return plain.pop() if len(plain) == 1 else "unclear"


# --- the claims of a question -----------------------------------------------------------------------------------------


_WHERE = late_pattern(
    r"\b(?:where|in (?:which|what) direction|what is the position) (?:is|are|of|does|do|stands?|lies?)\b(.+?)"
    r"\b(?:in relation to|relative to|compared (?:to|with)|with respect to|from)\b(.+)",
    re.IGNORECASE,
)
_COMPARED = late_pattern(
    r"\b(?:who|which|what|whose|does|is)\b.{0,60}?\b(more \w+|less \w+|fewer \w+|left|right|top|bottom|first|last"
    r"|(?!other|under|over|never|either|after|her|number|water|weather|matter|layer|answer|whether|corner|paper|letter"
    r"|center|player|runner|flower|driver|power|ladder|poster|order|computer|river|tower|cover)[a-z]{3,}er)\b"
)
_LONGEST_QUESTION = 300
"""Characters at the end of a question in which its relation is looked for."""


_EXISTENCE = late_pattern(
    r"^\W*(?:(?:is|are|was|were) there|(?:do|can) you see|does (?:the|this) (?:image|picture|photo|scene) (?:show|contain|have))\b",
    re.IGNORECASE,
)
"""How a question asks for the presence of a thing, which is not a relation of two."""
_IN_THE_IMAGE = late_pattern(
    r"\b(?:in|on|of) (?:the|this) (?:image|picture|photo(?:graph)?|scene|video|chart|figure|drawing|map)\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=256)
def claims_of(question: str, options: tuple[str, ...], is_yes_no: bool) -> tuple[Claim, ...]:
    """The claim that each option makes about a relation; for a yes-no question the one that it asks about."""
    if is_yes_no:
        text = claim_text(question)[-_LONGEST_QUESTION:]
        if _EXISTENCE.search(text) is not None and " than " not in text:
            return ()
        claim = read_claim(text)
        return (claim,) if claim.word or len(claim.words) >= _FEWEST_WORDS else ()
    if not 2 <= len(options) <= 4:
        return ()
    claims = tuple(read_claim(option) for option in options)
    things = {claim.left | claim.right for claim in claims}
    is_about_two_things = len(things) == 1 and all(
        claim.word and _direction(claim.word, claims[0].word) for claim in claims
    )
    if len(claims[0].words) >= _FEWEST_WORDS and (
        _is_rearranged_set(claims) or is_about_two_things
    ):
        return claims  # "The dog bites the man", "The man bites the dog"
    asked = last_question(question)[-_LONGEST_QUESTION:]
    return _claims_of_things(asked, options) or _claims_of_sides(asked, options)


def _claims_of_sides(question: str, options: tuple[str, ...]) -> tuple[Claim, ...]:
    """The claims of options that are sides: "Is the lamp above or below the desk?", "Where is it relative to ...?"."""
    where = _WHERE.search(question)
    asked = read_claim(question)
    offered = {relating_word(form) for form in _forms(tokenise(question))}
    claims = []
    for option in options:
        if where is not None:
            thing = where[2].strip(" ?")
            claims.append(read_claim(f"{where[1]} is {option} {thing}"))
            continue
        forms = [token.form for token in tokenise(option)]
        words = {relating_word(form) for form in forms if _direction(form, asked.word)} & offered
        claims.append(asked._replace(word=words.pop() if len(words) == 1 else "", words=()))
    related = [claim.word for claim in claims if claim.word]
    has_contrary = any(_direction(word, related[0]) < 0 for word in related[1:])
    return tuple(claims) if has_contrary else ()


_LONGEST_THING = 4


def _claims_of_things(question: str, options: tuple[str, ...]) -> tuple[Claim, ...]:
    """The claims of two things that a question compares: "Which is longer, the eel or the snake?"."""
    degrees = set(_COMPARED.findall(question.casefold()))
    if len(degrees) != 1 or _WHERE.search(question) is not None or len(options) > 3:
        return ()
    if len(options) == 3 and not _TIES & set(_forms(tokenise(options[2]))):
        return ()
    one, other = options[:2]
    degree = degrees.pop()
    if max(len(read_claim(option).words) for option in (one, other)) > _LONGEST_THING:
        return ()
    return _all_related([f"{one} is {degree} than {other}", f"{other} is {degree} than {one}"])


def _all_related(texts: Sequence[str]) -> tuple[Claim, ...]:
    claims = tuple(read_claim(text) for text in texts)
    return claims if all(claim.word for claim in claims) else ()


# --- the relation of a claim ------------------------------------------------------------------------------------------


_SIDES = frozenset(
    "left right north south east west above over below under underneath beneath behind front inside outside top before after ahead"
    " links rechts über unter vor hinter izquierda derecha encima debajo delante detrás gauche droite devant derrière"
    " sotto sopra davanti dietro esquerda direita voor achter boven onder слева справа над под kiri kanan فوق تحت"
    " 左 右 上 下 前 后 後".split()
)
_SIDE_STEMS = frozenset(map(relating_word, _SIDES))
_PLACES = frozenset("on in out at around beside contain".split())
_THAN = frozenset("than als que чем".split())
_DEGREES = frozenset("mor more less fewer más menos plus moins mais mehr weniger".split())
_AGENT = frozenset("by von vom par por przez".split())
_NO_THING = _DEGREES | _THAN | _AGENT | {"as", "so"}
"""Words that are no thing in a relation."""


def read_claim(text: str) -> Claim:
    """Read the two things of a claim and their relation."""
    forms = _forms(tokenise(_IN_THE_IMAGE.sub(" ", text)))
    words = tuple(_stem(form) for form in forms if not (_is_small(form) or _denies(form)))
    unrelated = Claim(words, frozenset(), "", frozenset())
    index = _relation_index(forms)
    if index is None:
        return unrelated
    word = relating_word(forms[index])
    than = next((at for at in range(index + 1, len(forms)) if forms[at] in _THAN), None)
    left = _things(forms[:index], word)
    right = _things(forms[index + 1 :], word)
    if than is not None:
        left = left or _things(forms[index + 1 : than], word)  # "more apples than oranges"
        right = _things(forms[than + 1 :], word)
    has_agent = bool(_AGENT & set(forms))
    if has_agent and than is None and not forms[index].endswith("ing"):
        left, right = right, left
    if not (left - right) or not (right - left):
        return unrelated
    is_denied = any(map(_denies, forms))
    return Claim(words, left - right, word, right - left, has_agent, than is not None, is_denied)


def _forms(tokens: Sequence[Token]) -> list[str]:
    """The forms of words; "one" is a word and no number, as in "the left one"."""
    return ["one" if token.raw.casefold() == "one" else token.form for token in tokens]


def _things(forms: Sequence[str], word: str) -> frozenset[str]:
    """The stems of words for things, without the word that relates them and its opposites."""
    things = set()
    for form in forms:
        is_thing = form == "right" or not (
            _is_small(form) or form in _PLACES or form in _NO_THING or _denies(form)
        )
        if is_thing and not _direction(form, word):
            things.add(_stem(form))
    return frozenset(things or _IMAGES.intersection(forms))


_IMAGES = frozenset("picture image photo photograph".split())


def _is_small(form: str) -> bool:
    if form in _SIDES or form in _PLACES:
        return False
    is_article_without_case = is_article(form) and form not in _WITH_CASE
    return is_small_word(form) or is_article_without_case or "copula" in cue_classes().get(form, ())


def _stem(form: str) -> str:
    """The stem of a word. Words with endings of case are not cut: "девочка" is not "девочку"."""
    return word_stem(form) if form.isascii() else form


def _denies(form: str) -> bool:
    return "negation" in cue_classes().get(form, ())


def _relation_index(forms: list[str]) -> int | None:
    """The index of the word that relates two things: "longer", "left", "chased by", "chasing", "on", "bites"."""
    for index, form in enumerate(forms):
        if form in _THAN and index:
            near = range(index - 1, max(-1, index - 5), -1)
            more = [at for at in near if forms[at] in _DEGREES]
            return next(iter(more or [at for at in near if forms[at].endswith("er")]), index - 1)
    for index, form in enumerate(forms):
        if form in _AGENT and index > 1 and not forms[index - 1].endswith("ing"):
            return index - 1
    inner = [
        at
        for at in range(1, len(forms) - 1)
        if _things(forms[:at], "") and _things(forms[at + 1 :], "") and not _describes(forms, at)
    ]
    for words in (_SIDES, None, _PLACES):
        for index in inner:
            form = forms[index]
            is_action = form.endswith("ing") and len(form) > len("thing") and form != "being"
            if (form in words) if words is not None else is_action:
                return index
    if "copula" in cue_classes().get(forms[0] if forms else "", ()):
        return None  # "Is the hydrant yellow?"
    content = [at for at, form in enumerate(forms) if _things([form], "") and form[0] != "#"]
    return content[1] if len(content) == _FEWEST_WORDS and content[1] in inner else None


def _describes(forms: list[str], index: int) -> bool:
    """Whether "left" or "top" describes a thing: "the left candle"."""
    following = forms[index + 1 : index + 2]
    is_thing = bool(_things(following, "")) and following != ["side"]
    return is_thing and forms[index] in ("left", "right", "top", "front")


# --- what a sentence says of a claim ----------------------------------------------------------------------------------


_TURNING = frozenset(
    "reverse reversed opposite inverse versa way swapped contrary integendeel contraire contrario gegenteil"
    " deny denied ruled only rather instead anything whom neither nobody nothing compared who vice ?".split()
)
_PLACED = frozenset(
    map(
        word_stem,
        "place locate position situate stand sit lie hang park look appear side slightly clearly directly much little bit"
        " just far visibly come go drive run cross reach line have".split(),
    )
)
"""Words that may be in a plain sentence besides those of the question."""
_TIES = frozenset("same equal equally identical exactly".split())
_PREPOSITIONS = frozenset(
    "through around with near along across from behind up down into onto after before towards toward outside inside by under"
    " over beside next while because since who which and".split()
)


def judge_claim(
    sentence: Sequence[Token], claim: Claim, known: frozenset[str] = frozenset()
) -> Verdict | None:
    """Return what a sentence says of a claim, or None if it is not about the things of the claim.

    Args:
        sentence: Tokens of the sentence.
        claim: What an option, or a yes-no question, says.
        known: Stems of other words that the question has.
    """
    forms = _plain_part(_forms(sentence), claim)
    if not claim.word:
        return "unclear" if _is_rearranged(forms, claim) else None
    words = _things(forms, claim.word) | _IMAGES.intersection(forms)
    has_left = bool(claim.left & words)
    has_right = bool(claim.right & words)
    numbers = {word for word in claim.words if word[0] == "#"}
    if not (has_left or has_right) or numbers - words:
        return None
    relating = [at for at, form in enumerate(forms) if _relates(forms, at, claim)]
    denials = sum(map(_denies, forms))
    is_turned = bool(_TURNING & set(forms)) or any(
        "wrong" in cue_classes().get(form, ()) for form in forms
    )
    other = {
        word
        for word in words - known - set(claim.words) - _PLACED
        if not (word[0] == "#" or word.endswith("ly"))
    }
    if not (has_left and has_right):
        is_plain = claim.is_comparison and len(relating) == 1 and not (other or denials)
        compares = claim.is_comparison and any(form.endswith("er") for form in forms)
        if is_turned or not is_plain or _THAN & set(forms):
            return "unclear" if compares or (relating and other) else None
        is_contrary = has_right != (_direction(forms[relating[0]], claim.word) < 0)
        return _signed(is_contrary, claim)  # "The library is the older one"
    if is_turned or denials > 1:
        return "unclear"
    has_agent = bool(_AGENT & set(forms))
    if claim.words and _has_in_order(forms, claim) and has_agent == claim.has_agent:
        return _signed(denials == 1, claim)
    than = next((at for at, form in enumerate(forms) if form in _THAN), None)
    if claim.is_comparison and _TIES & set(forms):
        return "unclear" if denials else _signed(True, claim)
    if not relating and not claim.is_comparison and claim.word not in _SIDE_STEMS:
        has_other_action = any(form.endswith("ing") and _stem(form) in other for form in forms)
        is_kept = _is_first(forms, claim.left, claim.right)
        return None if is_kept and not has_other_action else "unclear"
    if len(relating) != 1 or other or any(map(_has_free_order, forms)):
        return "unclear"

    index = relating[0]
    before = _things(forms[:index], claim.word)
    behind = _things(forms[index + 1 :], claim.word)
    if than is not None and than > index:
        is_counted = not before & (claim.left | claim.right)  # "fewer tables than chairs"
        before = _things(forms[index:than], claim.word) if is_counted else before
        behind = _things(forms[than:], claim.word)
    is_kept = bool(claim.left & before) and bool(claim.right & behind)
    is_swapped = bool(claim.left & behind) and bool(claim.right & before)
    if is_kept == is_swapped:
        return "unclear"
    if is_swapped and not claim.is_comparison and any(map(is_symmetric, claim.words)):
        is_swapped = False
    elif not claim.is_comparison and _AGENT & set(forms[index + 1 :]):
        if forms[index] in _SIDES or forms[index] in _PLACES:
            return "unclear"
        is_swapped = is_swapped == forms[index].endswith("ing")
    is_opposite = _direction(forms[index], claim.word) < 0
    if "as" in forms[index - 1 : index]:
        if not denials:
            return _signed(True, claim)  # "as tall as" is not "taller"
        is_opposite = not is_opposite
    elif denials and (is_swapped or is_opposite):
        return "unclear"  # neither is taller, perhaps
    else:
        is_opposite = is_opposite != (denials == 1)
    return _signed(is_swapped != is_opposite, claim)


_ENDING = frozenset("while whereas but so because since which".split())
_LONGEST_LEAD = 9


def _plain_part(forms: list[str], claim: Claim) -> list[str]:
    """A sentence without a lead ("Looking at the image,"), and without what follows the things that it relates."""
    things = claim.left | claim.right
    if "," in forms[:_LONGEST_LEAD]:
        lead = forms.index(",")
        if not things & {_stem(form) for form in forms[:lead]}:
            forms = forms[lead + 1 :]
    for index in range(1, len(forms)):
        ends = forms[index] in _ENDING or (
            forms[index - 1] == "," and forms[index] in ("not", "and", "who")
        )
        if ends:
            forms = forms[:index]
            break
    named = [index for index, form in enumerate(forms) if _stem(form) in things]
    end = named[-1] + 1 if named else len(forms)
    return forms[:end] if forms[end : end + 1] and forms[end] in _PREPOSITIONS else forms


def _is_first(forms: list[str], left: frozenset[str], right: frozenset[str]) -> bool:
    """Whether the one thing is before the other in a sentence, which says something else of the two, or in other words."""
    for form in forms:
        if _stem(form) in right:
            return False
        if _stem(form) in left:
            return True
    return False


_WITH_CASE = frozenset("den dem".split())


def _has_free_order(form: str) -> bool:
    """Whether a word is of a language in which the first thing need not be the subject."""
    return form in _WITH_CASE or form[0] >= "\u0400"


def _relates(forms: list[str], index: int, claim: Claim) -> bool:
    """Whether a word is the relation of a claim or its opposite, and describes no thing: "the left candle"."""
    is_thing = _stem(forms[index]) in claim.left | claim.right
    return bool(_direction(forms[index], claim.word)) and not (is_thing or _describes(forms, index))


def _signed(is_contrary: bool, claim: Claim) -> Verdict:
    return "contrary" if is_contrary != claim.is_denied else "same"


def _direction(form: str, word: str) -> int:
    """1 if a word relates things as another does, -1 if it is the opposite, 0 if it does neither."""
    own = relating_word(form)
    if own == word:
        return 1
    against = opposites_of(word)
    if own in against:
        return -1
    return int(any(own in opposites_of(other) for other in against))


def _has_in_order(forms: Sequence[str], claim: Claim) -> bool:
    """Whether a sentence has all words of a claim in their order, and no other word describes the last."""
    wanted = list(claim.words)
    last = -1
    for index, form in enumerate(forms):
        if wanted and _stem(form) == wanted[0]:
            wanted.pop(0)
            last = index
        elif form in (",", "and") and len(wanted) < len(claim.words):
            break
    following = forms[last + 1] if last + 1 < len(forms) else "."
    return not wanted and (is_small_word(following) or following in _PREPOSITIONS)


def _is_rearranged(forms: Sequence[str], claim: Claim) -> bool:
    """Whether most words of a claim are in a sentence, in another order or as a passive."""
    words = [_stem(form) for form in forms]
    in_claim = list(dict.fromkeys(claim.words))
    shared = [word for word in in_claim if word in words]
    if len(shared) < _FEWEST_WORDS or len(shared) < _SHARED * len(in_claim):
        return False
    has_agent = bool(_AGENT & set(forms))
    return sorted(shared, key=words.index) != shared or has_agent != claim.has_agent


_SHARED = 0.8
