"""Which of two things a reply puts on which side of a relation: who chases whom, what is left of what, which is larger.

A relation has a left side, a word and a right side. "The cat is chased by the dog" says the same as "The dog is chasing
the cat", and "The lamp is under the desk" the same as "The desk is above the lamp". A sentence that has the things of a
claim in another order is read where its form is plain, and is `unclear` otherwise: it never counts as the claim itself.
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
    claim_words,
    content_stems,
    content_words,
    is_opposite,
    is_symmetric,
    last_question,
    plain_verdict,
    word_stem,
)
from snellen.extraction.statements import last_correction
from snellen.extraction.tokens import Token, compared_form, tokenise

Verdict = Literal["same", "contrary", "unclear"]


class BinaryRelation(NamedTuple):
    """One thing in relation to another: "The red car is (not) faster than the green one"."""

    left: frozenset[str]
    word: str
    right: frozenset[str]
    negated: bool
    is_less: bool
    """ "less tall than", "not as tall as"."""
    is_tie: bool
    """ "as tall as", "equally tall": neither is taller."""
    is_comparison: bool


class RelationReading(NamedTuple):
    """What the sentences of a reply say about related things."""

    choice: int | None
    """The option that follows from them; None if they have the things in another order and their form is not plain."""


_SIDES = frozenset(
    "left right above over below under underneath beneath behind front inside outside top before after ahead"
    " links rechts über unter vor hinter izquierda derecha encima debajo delante detrás gauche droite devant derrière"
    " sotto sopra davanti dietro esquerda direita voor achter boven onder слева справа над под kiri kanan فوق تحت".split()
)
_THAN = frozenset("than als que чем".split())
_PLACES = frozenset("on in at around beside contain".split())
_TURNING = frozenset(
    "reverse reversed opposite inverse versa way swapped contrary integendeel contraire contrario gegenteil"
    " deny denied ruled only rather instead anything whom".split()
)
"""Words by which a sentence turns a claim as a whole, or narrows it: "it is the reverse"."""
_MOST_SENTENCES = 2
_MOST_TOKENS = 45
_SHARED = 0.8
_COVERED = 0.7
_CLAIM = late_pattern(
    r"(?<!\w)[\"']([^\"'\n]{10,200})[\"'](?!\w)|\b(?:statement|true or false|right or wrong|correct or not)\b[^:\n]{0,40}:\s*([^\n]+)",
    re.IGNORECASE,
)


def claim_text(question: str) -> str:
    """The claim that a yes-no question asks to judge: a statement it quotes or announces, or its last sentence."""
    match = _CLAIM.search(question)
    if match is None:
        return last_question(question)
    return match[1] or match[2]


def read_relations(
    marked: MarkedReply, forms: OptionForms, question: str, options: Sequence[str]
) -> RelationReading | None:
    """Read a short reply that relates the things of its question; None if it is long, or relates nothing.

    A reply that names a label, says yes or no, or corrects itself, is weighed by its words.
    """
    if len(marked.sentences) > _MOST_SENTENCES or len(marked.tokens) > _MOST_TOKENS:
        return None
    if last_correction(marked) is not None:
        return None
    is_yes_no = forms.yes is not None and forms.no is not None
    for mention in marked.mentions:
        if mention.kind not in ("text", "part") or (is_yes_no and mention.kind == "text"):
            return None
    if is_yes_no:
        plain = _plain_verdict_of_reply(marked, claim_text(question))
        if plain is not None:
            return RelationReading(forms.yes if plain else forms.no)
    claims = _claims(question, tuple(options), is_yes_no)
    if not claims:
        return None
    verdicts = [_verdict_of_reply(marked, claim) for claim in claims]
    if all(verdict is None for verdict in verdicts):
        return None
    if is_yes_no:
        verdict = verdicts[0]
        choice = {"same": forms.yes, "contrary": forms.no}.get(verdict or "")
        return RelationReading(choice)
    same = [place for place, verdict in enumerate(verdicts) if verdict == "same"]
    others = [verdict for verdict in verdicts if verdict != "same"]
    if len(same) == 1 and "unclear" not in others:
        return RelationReading(same[0])
    if len(claims) < len(options) and set(verdicts) == {"contrary"}:
        return RelationReading(len(claims))  # "they are equal"
    return RelationReading(None)


def _plain_verdict_of_reply(marked: MarkedReply, claim: str) -> bool | None:
    """The verdict on which the sentences of a reply agree that confirm or deny a claim plainly; None without one."""
    if _denies_existence_in_another_language(marked, claim):
        return False
    words = claim_words(claim)
    verdicts = set()
    for start, end in marked.sentences:
        verdict = plain_verdict(marked.tokens[start:end], words)
        if verdict is not None:
            verdicts.add(verdict)
    return verdicts.pop() if len(verdicts) == 1 else None


_EXISTENCE = late_pattern(
    r"^\s*(?:(?:is|are) there|(?:do|can) you see|does (?:the|this) (?:image|picture|photo|scene) (?:show|contain|have))\b",
    re.IGNORECASE,
)


def _denies_existence_in_another_language(marked: MarkedReply, claim: str) -> bool:
    """Whether a sentence with none of the question's words denies something: "Il n'y a aucun cheval"."""
    if len(marked.sentences) > 1 or _EXISTENCE.search(claim) is None:
        return False
    if refusal_count(marked.text) or set(content_words(marked.tokens)) & set(claim_words(claim)):
        return False
    forms = [token.form for token in marked.tokens]
    is_denied = any("negation" in cue_classes().get(form, ()) for form in forms)
    return is_denied and len(forms) > 3


# --- the claims of a question -----------------------------------------------------------------------------------------


_LONGEST_QUESTION = 300
"""Characters at the end of a question in which its relation is looked for."""
_WHERE = late_pattern(
    r"\bwhere (?:is|are|does|do|stands?|lies?)\b(.+?)\b(?:in relation to|relative to|compared (?:to|with)|with respect to)\b(.+)",
    re.IGNORECASE,
)


@lru_cache(maxsize=256)
def _claims(
    question: str, options: tuple[str, ...], is_yes_no: bool
) -> tuple[tuple[Token, ...], ...]:
    """The claim that each option makes; for a yes-no question the one that it asks about."""
    if is_yes_no:
        claim = tuple(tokenise(claim_text(question)[-300:]))
        return (claim,) if _relation(claim) is not None else ()
    if len(options) < 2 or len(options) > 4:
        return ()
    tokens = [tuple(tokenise(option)) for option in options]
    words = [content_words(option) for option in tokens]
    first = sorted(set(words[0]))
    if len(first) > 2 and all(sorted(set(other)) == first for other in words):
        return tuple(tokens)  # "The dog bites the man", "The man bites the dog"
    relations = [_relation(option) for option in tokens]
    things = {relation.left | relation.right for relation in relations if relation is not None}
    if len(first) > 2 and None not in relations and len(things) == 1:
        return tuple(tokens)  # "The dog is left of the cat", "The dog is right of the cat"
    return _contrary_claims(last_question(question), options)


def _contrary_claims(question: str, options: tuple[str, ...]) -> tuple[tuple[Token, ...], ...]:
    """The claims of options that are the two sides of a relation: "taller" and "shorter", "above it" and "below it"."""
    where = _WHERE.search(question[-_LONGEST_QUESTION:])
    thing = where[2].strip(" ?") if where is not None else ""
    if where is not None and thing:
        subject = where[1]
        texts = []
        for option in options:
            side = re.sub(r"\b(?:it|them)\b", lambda _: thing, option)
            if word_stem(thing.split()[-1].casefold()) not in content_words(tokenise(side)):
                side = f"{side} {thing}"
            texts.append(f"{subject} is {side}")
        return _related(texts)
    compared = _entity_claims(question, options)
    if compared or len(options) != 2:
        return compared
    one, other = (re.escape(option.strip(" .").casefold()) for option in options)
    lowered = question.casefold()
    for first, second in ((one, other), (other, one)):
        joined = re.search(rf"\b{first} (?:or|oder|ou|o|of|или) {second}\b", lowered)
        if joined is not None:
            before, behind = lowered[: joined.start()], lowered[joined.end() :]
            return _related([before + option.strip(" .").casefold() + behind for option in options])
    side_words = [_side_of(tokenise(option)) for option in options]
    if all(side_words) and is_opposite(side_words[0] or "", side_words[1] or ""):
        before = re.split(r"\b\w+(?: of)? (?:or|oder)\b", lowered)[0]
        if len(before) < len(lowered):
            return _related([f"{before} {option.casefold()}" for option in options])
    return ()


def _side_of(tokens: Sequence[Token]) -> str | None:
    for token in tokens:
        if token.form in _SIDES:
            return token.form
    return None


_COMPARES = late_pattern(
    r"\b(?:is|are|was|were|has|have|looks?|seems?|appears?|weighs?|holds?|contains?|costs?|shows?|comes?|goes)"
    r" (more \w+|less \w+|fewer \w+|(?!other|under|over|never|either|after|her)[a-z]{2,}er)\b"
)


def _entity_claims(question: str, options: tuple[str, ...]) -> tuple[tuple[Token, ...], ...]:
    """The claims of two things that a question compares: "Which is longer, the eel or the snake?"."""
    if len(options) not in (2, 3):
        return ()
    degrees = _COMPARES.findall(question.casefold())
    things = [content_words(tokenise(option)) for option in options[:2]]
    if len(degrees) != 1 or not all(things):
        return ()
    if len(options) == 3 and not _TIED & {token.form for token in tokenise(options[2])}:
        return ()
    one, other = options[:2]
    return _related([f"{one} is {degrees[0]} than {other}", f"{other} is {degrees[0]} than {one}"])


def _related(texts: Sequence[str]) -> tuple[tuple[Token, ...], ...]:
    claims = tuple(tuple(tokenise(text)) for text in texts)
    return claims if all(_relation(claim) is not None for claim in claims[:2]) else ()


# --- what a reply says of a claim -------------------------------------------------------------------------------------


def _verdict_of_reply(marked: MarkedReply, claim: Sequence[Token]) -> Verdict | None:
    """What the sentences of a reply say of a claim; None if they differ."""
    verdicts: set[Verdict] = set()
    for start, end in marked.sentences:
        verdict = judge_claim(marked.tokens[start:end], claim)
        if verdict is not None:
            verdicts.add(verdict)
    return verdicts.pop() if len(verdicts) == 1 else None


def judge_claim(sentence: Sequence[Token], claim: Sequence[Token]) -> Verdict | None:
    """Return what a sentence says of a claim, or None if it is not about the things that the claim relates."""
    claimed = _relation(tuple(claim))
    if claimed is None:
        return None
    sentence = _without_denied_tail(sentence)
    words = content_words(sentence)
    left = claimed.left - claimed.right
    right = claimed.right - claimed.left
    has_both = bool(left & set(words)) and bool(right & set(words))
    said = _relation(tuple(sentence), claimed.word)
    if said is None:
        compares = claimed.is_comparison and _THAN & {token.form for token in sentence}
        return "unclear" if has_both and (compares or _is_turned(words, claim)) else None
    if not has_both:
        return _verdict_on_one(sentence, said, claimed)
    said_left = said.left - said.right
    said_right = said.right - said.left
    keeps_sides = bool(left & said_left) and bool(right & said_right)
    moves_left = bool(left & said_right)
    moves_right = bool(right & said_left)
    is_swapped = moves_left and moves_right
    if not (keeps_sides or moves_left or moves_right):
        return None
    if _has_unclear_form(sentence) or (moves_left != moves_right):
        return "unclear"
    if not claimed.is_comparison and is_symmetric(words, content_words(claim)):
        is_swapped = False
    is_contrary = (said.word != claimed.word) != (said.is_less != claimed.is_less)
    is_tie = said.is_tie and claimed.is_comparison
    if said.negated and (is_swapped or is_contrary or is_tie):
        return "unclear"
    turns = 1 if is_tie else is_swapped + is_contrary + said.negated
    verdict: Verdict = "same" if (turns + claimed.negated) % 2 == 0 else "contrary"
    return verdict if _covers(words, claim, claimed.word) else None


def _without_denied_tail(sentence: Sequence[Token]) -> Sequence[Token]:
    """A sentence up to ", not": "She is pulling the sledge, not sitting on it"."""
    for index in range(1, len(sentence)):
        if sentence[index - 1].form == "," and sentence[index].form == "not":
            return sentence[: index - 1]
    return sentence


def _has_unclear_form(sentence: Sequence[Token]) -> bool:
    """Whether words of a sentence turn or narrow what it says, or deny more than its relation."""
    forms = {token.form for token in sentence}
    if forms & _TURNING or "?" in forms:
        return True
    denials = _denials([token.form for token in sentence])
    classes = {name for form in forms for name in cue_classes().get(form, ())}
    if "wrong" in classes or ("contrast" in classes and denials):
        return True
    return denials > 1


def _covers(words: Sequence[str], claim: Sequence[Token], relation: str) -> bool:
    """Whether a sentence has nearly all words of a claim, and all its numbers."""
    claimed = set(content_words(claim)) - {relation} - _THAN
    missing = claimed - set(words)
    has_number = any(word[0] == "#" for word in missing)
    return not has_number and len(missing) <= (1 - _COVERED) * len(claimed)


def _verdict_on_one(
    sentence: Sequence[Token], said: BinaryRelation, claimed: BinaryRelation
) -> Verdict | None:
    """What "The library is the older one" says of "The church is older than the library"."""
    named = (claimed.left ^ claimed.right) & (said.left | said.right)
    if not claimed.is_comparison or not named:
        return None
    is_plain = any(
        token.form.endswith("er") and word_stem(token.form) == said.word for token in sentence
    )
    if said.is_comparison or said.negated or said.is_tie or named & said.right or not is_plain:
        return "unclear" if said.is_comparison else None
    is_turned = bool(claimed.right & said.left)
    is_contrary = (said.word != claimed.word) != (said.is_less != claimed.is_less)
    return "contrary" if is_turned != is_contrary else "same"


def _is_turned(words: Sequence[str], claim: Sequence[Token]) -> bool:
    """Whether most words of a claim are in a sentence, in another order."""
    in_claim = list(dict.fromkeys(content_words(claim)))
    shared = [word for word in in_claim if word in words]
    if len(shared) < 2 or len(shared) < _SHARED * len(in_claim):
        return False
    return sorted(shared, key=words.index) != shared


# --- the relation of a sentence ---------------------------------------------------------------------------------------


_DEGREES = frozenset(
    map(compared_form, "more less fewer más menos plus moins mais mehr weniger".split())
)
_LESS = frozenset(map(compared_form, "less fewer menos moins weniger".split()))
_AGENT = frozenset("by von vom par por przez".split())
_COPULAS = frozenset("is are was were stands stand hangs hang lies lie sits sit".split())
_PARTING = frozenset(", and while whereas but who which with".split())
_BEING = frozenset("is are was were been be ist sind est es é è".split())
_TIED = frozenset("equally same identical equal both neither".split())


@lru_cache(maxsize=2048)
def _relation(tokens: tuple[Token, ...], wanted: str = "") -> BinaryRelation | None:
    """The relation of a sentence: by the wanted word or its opposite, or by the word that most likely relates two things."""
    forms = [token.form for token in tokens]
    than = _index_of_than(forms)
    index = _wanted_index(forms, wanted) if wanted else _likely_index(forms, than)
    if index is None:
        return None
    before = forms[_start_of_part(forms, index) : index]
    behind = forms[index + 1 :]
    behind = behind[: _end_of_part(behind, is_comparison=than is not None)]
    negated = _denials([*before, *behind]) > 0
    is_less = bool(_LESS & set(before[-1:]))
    is_tie = bool(_TIED & set(forms))
    is_comparison = than is not None
    if than is not None and than > index:
        between = forms[index + 1 : than]
        before = before if content_stems(before) else between
        behind = behind[than - index :]
    elif {"as", "so"} & set(before[-2:]) and "as" in behind:
        behind = behind[behind.index("as") + 1 :]
        is_less, is_tie = negated, not negated
        negated = False
        is_comparison = True
    agent = next((at for at, form in enumerate(behind) if form in _AGENT), None)
    if agent is not None and not forms[index].endswith("ing"):
        if not content_stems(behind[agent + 1 :]):
            return None  # "is being towed by it"
        before, behind = behind[agent + 1 :], [*before, *behind[:agent]]
    if not content_stems(before):
        before, behind = _fronted(behind)
    return BinaryRelation(
        frozenset(content_stems(before)) - {word_stem(forms[index])},
        _relating_stem(forms[index]),
        frozenset(content_stems(behind)) - {word_stem(forms[index])},
        negated,
        is_less,
        is_tie,
        is_comparison,
    )


def _start_of_part(forms: list[str], index: int) -> int:
    """Where the part of a sentence begins that has a word: behind the last comma before it."""
    commas = [at for at, form in enumerate(forms[:index]) if form == ","]
    return commas[-1] + 1 if commas else 0


def _end_of_part(behind: list[str], *, is_comparison: bool) -> int:
    """Where the right side ends: before a comma, or where nothing is compared before another word that relates."""
    for index, form in enumerate(behind):
        if form in _PARTING:
            return index
        relates = form in _SIDES | _PLACES and not _is_adjective(behind, index)
        if index and relates and not is_comparison:
            return index
    return len(behind)


_LACKING = frozenset("missing absent lacks without nothing nobody hardly".split())


def _denials(forms: Sequence[str]) -> int:
    """How many words deny what a sentence says, and not only the presence of a thing."""
    return sum("negation" in cue_classes().get(form, ()) and form not in _LACKING for form in forms)


def _fronted(behind: list[str]) -> tuple[list[str], list[str]]:
    """The sides of "Above the lamp is the desk", from what is behind "above"."""
    for index, form in enumerate(behind):
        if form in _COPULAS:
            return behind[index + 1 :], behind[:index]
    return [], behind


def _index_of_than(forms: list[str]) -> int | None:
    for index, form in enumerate(forms):
        if form in _THAN and form != "que":
            return index
        if form == "que" and _DEGREES & set(forms[max(0, index - 3) : index]):
            return index
    return None


def _wanted_index(forms: list[str], wanted: str) -> int | None:
    """The index of the word that relates in a claim, or of its opposite: at best one with things on both sides."""
    stems = [_relating_stem(form) for form in forms]
    found = [at for at, word in enumerate(stems) if word == wanted]
    found = found or [at for at, word in enumerate(stems) if is_opposite(word, wanted)]
    between = [at for at in found if content_stems(forms[:at]) and not _is_adjective(forms, at)]
    return next(iter(between or found), None)


def _relating_stem(form: str) -> str:
    """The stem of a word that relates; "more" is the same as "greater"."""
    return word_stem("greater" if form == "more" else form)


def _likely_index(forms: list[str], than: int | None) -> int | None:
    """The index of the word that most likely relates two things: "longer", "left", "chasing", "on", "carried by"."""
    if than is not None and than > 0:
        for index in range(than - 1, max(-1, than - 5), -1):
            if forms[index] in _DEGREES or forms[index].endswith("er"):
                return index
            if (
                index == than - 1
                and forms[index - 1] in _DEGREES
                and content_stems(forms[: index - 1])
            ):
                return index  # "The boy has more marbles than ..."
        return than - 1
    if "by" in forms[2:]:
        return forms.index("by", 2) - 1
    inner = [
        at
        for at in range(1, len(forms) - 1)
        if content_stems(forms[:at]) and content_stems(forms[at + 1 :]) and forms[at] != "being"
    ]
    for index in inner:
        if forms[index] in _SIDES and not _is_adjective(forms, index):
            return index
    for index in inner:
        if forms[index].endswith("ing") and len(forms[index]) > len("thing"):
            return index
    for index in inner:
        if forms[index] in _PLACES:
            return index
    content = [at for at, form in enumerate(forms) if content_stems([form])]
    is_adjective = bool(_BEING & set(forms))
    return content[1] if len(content) == 3 and not is_adjective else None


def _is_adjective(forms: list[str], index: int) -> bool:
    """Whether "left" or "top" describes a thing: "the left candle"."""
    following = forms[index + 1 : index + 2]
    describes = bool(content_stems(following)) and following != ["side"]
    return describes and forms[index] in ("left", "right", "top", "front")
