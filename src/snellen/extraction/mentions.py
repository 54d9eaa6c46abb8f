"""Where a reply mentions options: by label, by text, or by the words that set one option apart from the others."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache
from string import ascii_letters
from typing import Literal, NamedTuple

from snellen.extraction.cue_words import words_of
from snellen.extraction.normalisation import normalise_reply
from snellen.extraction.tokens import Token, is_article, shared_prefix, tokenise

MentionKind = Literal["label", "bare label", "label+text", "text", "part"]
"""`label`: set off from the sentence, as in `(B)`, `B.` or `option B`. `bare label`: a capital letter in running text.
`part`: words of an option's text that no other option has."""


class Mention(NamedTuple):
    """One place in a reply that names an option."""

    option: int
    kind: MentionKind
    first: int
    """Index of its first token ..."""
    last: int
    """... and of the last one."""
    cover: float = 1.0
    """The share of the option's own words that the sentence has."""
    conflict: bool = False
    """A label followed by the text of another option."""


class OptionForms(NamedTuple):
    """How the options of a question may be named."""

    texts: tuple[tuple[str, ...], ...]
    """The forms of each option's words, without articles before them."""
    starts: dict[str, tuple[int, ...]]
    """First form of a text -> the options that begin with it, the longest first."""
    labels: dict[str, int]
    """Label without brackets -> option."""
    own_words: tuple[frozenset[str], ...]
    """The words of each option that no other option has."""
    words_by_prefix: dict[str, tuple[str, ...]]
    """First four letters -> words of the options, to find other forms of these words."""
    numeric: bool
    """Whether an option is a number, so that a number alone is not a label."""
    yes: int | None
    """The option that says yes, if the options are yes and no ..."""
    no: int | None


_BRACKETS = re.compile(r"[^\w]+")
_FUNCTION_WORDS = frozenset(
    "of in on at to with by for from is it and or as be was are has have this that there not no an a the i"
    " most more than image picture photo".split()
)
_PREFIX = 4


@lru_cache(maxsize=512)
def option_forms(options: tuple[str, ...], labels: tuple[str, ...]) -> OptionForms:
    """What to look for in replies to a question with these options."""
    texts = tuple(_forms_of(option) for option in options)
    starts: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        if text:
            starts.setdefault(text[0], []).append(place)
    ordered = {
        form: tuple(sorted(places, key=lambda place: -len(texts[place])))
        for form, places in starts.items()
    }
    cores: dict[str, int] = {}
    for place, label in enumerate(labels):
        cores.setdefault(_BRACKETS.sub("", label) or label, place)

    own_words: list[frozenset[str]] = []
    for place, text in enumerate(texts):
        others = {form for other, words in enumerate(texts) if other != place for form in words}
        distinct = {form for form in text if form not in others and form not in _FUNCTION_WORDS}
        own_words.append(
            frozenset(form for form in distinct if form[0].isalnum() or form[0] == "#")
        )

    by_prefix: dict[str, set[str]] = {}
    for form in {form for text in texts for form in text}:
        if len(form) >= _PREFIX and form.isalpha():
            by_prefix.setdefault(form[:_PREFIX], set()).add(form)
    yes, no = _yes_and_no(options)
    return OptionForms(
        texts,
        ordered,
        cores,
        tuple(own_words),
        {prefix: tuple(sorted(words)) for prefix, words in by_prefix.items()},
        any(len(text) == 1 and text[0][0] == "#" for text in texts),
        yes,
        no,
    )


def _forms_of(option: str) -> tuple[str, ...]:
    tokens = tokenise(normalise_reply(option).text)
    forms = [token.form for token in tokens if token.form not in ("\n", '"', "'")]
    while len(forms) > 1 and forms[-1] in (".", "!", ";", ","):
        forms.pop()
    while len(forms) > 1 and is_article(forms[0]) and forms[1] not in ("(", ")"):
        forms = forms[1:]
    return tuple(forms)


def _yes_and_no(options: tuple[str, ...]) -> tuple[int | None, int | None]:
    if len(options) > 3:
        return None, None
    words = [option.strip(" .!").casefold() for option in options]
    yes = [place for place, word in enumerate(words) if word in words_of("yes")]
    no = [place for place, word in enumerate(words) if word in words_of("no")]
    if len(yes) == 1 and len(no) == 1:
        return yes[0], no[0]
    return None, None


# --- the mentions in a reply ------------------------------------------------------------------------------------------


class MarkedReply(NamedTuple):
    """A reply as tokens, with its sentences and the mentions of options."""

    text: str
    tokens: list[Token]
    sentences: list[tuple[int, int]]
    """[first, last) token indices."""
    mentions: list[Mention]

    def sentence_of(self, index: int) -> int:
        """Index of the sentence that a token is in."""
        return max(0, bisect_right(self.sentences, (index, len(self.tokens) + 1)) - 1)


def mark_mentions(text: str, forms: OptionForms) -> MarkedReply:
    """Find every mention of an option in a normalised text."""
    tokens = tokenise(text)
    while tokens and tokens[-1].form == "\n":
        tokens.pop()
    blank = 0
    while blank < len(tokens) and tokens[blank].form == "\n":
        blank += 1
    tokens = tokens[blank:]
    mentions = _texts(text, tokens, forms)
    mentions += _opening_verdict(tokens, forms, mentions)
    mentions += _labels(text, tokens, forms)
    mentions = _joined(text, tokens, mentions)
    sentences = _split_sentences(tokens, mentions)
    marked = MarkedReply(text, tokens, sentences, mentions)
    parts = _parts(marked, forms)
    if parts:
        marked = marked._replace(mentions=sorted([*mentions, *parts], key=lambda m: m.first))
    return marked


_LETTERS = frozenset(ascii_letters)
_SKIPPED = frozenset(['"', "'", "*", "-", ",", "\n", "$", "\\", "(", ")"])


def _texts(text: str, tokens: list[Token], forms: OptionForms) -> list[Mention]:
    """Mentions by complete texts; of overlapping ones the longest."""
    found: list[Mention] = []
    end_of_longest = -1
    for index, token in enumerate(tokens):
        for place in forms.starts.get(token.form, ()):
            last = _match_end(tokens, index, forms.texts[place])
            if last is None or last <= end_of_longest:
                continue
            if forms.yes is not None and not _is_verdict_word(text, tokens, index, last):
                continue
            is_letter = len(forms.texts[place]) == 1 and token.raw in _LETTERS
            if is_letter and token.raw.upper() in forms.labels:
                continue  # where the text of an option is the label of another, people reply by label
            # The letter of an option "A" counts only where a label would.
            if is_letter and (token.raw.islower() or not _set_off(text, tokens, index)):
                continue
            found.append(Mention(place, "text", index, last))
            end_of_longest = last
            break
    return found


def _opening_verdict(
    tokens: list[Token], forms: OptionForms, mentions: list[Mention]
) -> list[Mention]:
    """The yes or no that a reply begins with, in whatever language: "Nein, ...", "是的，..."."""
    if forms.yes is None or forms.no is None:
        return []
    first = 0
    while first < len(tokens) and not tokens[first].form[0].isalnum():
        first += 1
    if first >= len(tokens) or any(mention.first == first for mention in mentions):
        return []
    word = ""
    last = first
    while last < len(tokens) and last < first + _LONGEST_VERDICT and tokens[last].raw[0].isalnum():
        word += tokens[last].raw.casefold()
        last += 1
        if last == first + 1 and word[0] < DENSE_FROM:
            break
    is_set_off = last >= len(tokens) or not tokens[last].raw[0].isalnum()
    if not is_set_off:
        return []
    if word in words_of("yes"):
        return [Mention(forms.yes, "text", first, last - 1)]
    if word in words_of("no"):
        return [Mention(forms.no, "text", first, last - 1)]
    return []


_LONGEST_VERDICT = 4
"""Tokens of the longest yes or no; each Chinese, Japanese or Korean character is one."""
DENSE_FROM = "\u3040"


def _match_end(tokens: list[Token], start: int, wanted: tuple[str, ...]) -> int | None:
    """Index of the last token of a text that begins at `start`; articles and signs between its words do not count."""
    index = start
    skipped = 0
    for form in wanted[1:]:
        index += 1
        while index < len(tokens) and tokens[index].form != form:
            skippable = tokens[index].form in _SKIPPED or is_article(tokens[index].form)
            if not skippable or skipped > 3:
                return None
            skipped += 1
            index += 1
        if index >= len(tokens):
            return None
    return index


def _is_verdict_word(text: str, tokens: list[Token], first: int, last: int) -> bool:
    """Whether a yes or no answers, and is not a word of the sentence: "No, ..." but not "there is no dog"."""
    following = tokens[last + 1].form if last + 1 < len(tokens) else "\n"
    preceding = tokens[first - 1].form if first else "\n"
    ends = not following[0].isalnum()
    begins = not preceding[0].isalnum()
    if ends and begins:
        return True
    if tokens[first].form == "no" or tokens[first].form in ("right", "wrong", "correct"):
        is_named = preceding in ("is", "be", "answer", "say", "with", ":", "yes", "or")
        return (begins and first == 0 and following not in _AFTER_COUNTED_NO) or (is_named and ends)
    return True


_AFTER_COUNTED_NO = frozenset("one other more doubt matter such".split())


def _set_off(text: str, tokens: list[Token], index: int) -> bool:
    """Whether a letter stands by itself: in brackets, before a full stop or colon, alone in its line, after "option"."""
    token = tokens[index]
    before = text[token.start - 1] if token.start else "\n"
    after = text[token.end] if token.end < len(text) else "\n"
    if before in "([{\"'" and after in ")]}\"'":
        return True
    if before == "-" and index > 1 and tokens[index - 1].form == "-":
        return tokens[index - 2].form in words_of("option")
    if before == "-" or (after == "-" and text[token.end : token.end + 2].strip("- ")):
        return False
    preceding = tokens[index - 1] if index else None
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    begins_line = preceding is None or preceding.form == "\n"
    ends_line = following is None or following.form == "\n"
    if begins_line and (ends_line or after in ").:,-"):
        return True
    if preceding is None:
        return False
    named = preceding.form in words_of("option") or preceding.form in words_of("answer")
    if named and (token.raw.isupper() or token.raw.isdigit() or not after.isalnum()):
        return True
    if preceding.form in (":", "=", "→") or (preceding.form == "(" and after == ")"):
        return ends_line or not (following and following.raw[0].islower()) or token.raw not in "aA"
    if after == ")" or (after in ".:," and preceding.form in words_of("copula")):
        return True
    return ends_line and preceding.form in words_of("copula")


def _labels(text: str, tokens: list[Token], forms: OptionForms) -> list[Mention]:
    """Mentions by labels."""
    if not forms.labels:
        return []
    found: list[Mention] = []
    by_folded = {core.casefold(): place for core, place in forms.labels.items()}
    letters = len(by_folded) == len(forms.labels)
    for index, token in enumerate(tokens):
        place = forms.labels.get(token.raw)
        if place is None and letters:
            place = by_folded.get(token.raw.casefold())
        if place is None:
            continue
        set_off = _set_off(text, tokens, index)
        if token.raw.isdigit():
            if set_off and (not forms.numeric or _is_numbered(text, tokens, index)):
                found.append(Mention(place, "label", index, index))
        elif set_off:
            found.append(Mention(place, "label", index, index))
        elif len(token.raw) > 1 or (token.raw.isupper() and _is_bare_label(text, tokens, index)):
            found.append(Mention(place, "bare label", index, index))
    return found


def _is_numbered(text: str, tokens: list[Token], index: int) -> bool:
    """Whether a number is the label of an option and not an option's number: "(2)", "option 2", "2. five"."""
    token = tokens[index]
    before = text[token.start - 1] if token.start else "\n"
    after = text[token.end] if token.end < len(text) else "\n"
    if before == "(" and after == ")":
        return True
    if index and tokens[index - 1].form in words_of("option"):
        return True
    return after in ").:" and index + 2 < len(tokens) and tokens[index + 2].form != "\n"


_NAMED_BY_LETTER = frozenset(
    "vitamin hepatitis plan grade channel section appendix influenza".split()
)
_AFTER_BARE_A = frozenset("is are was because since or and with vs for would".split())


def _is_bare_label(text: str, tokens: list[Token], index: int) -> bool:
    """Whether a capital letter in running text is a label, and neither an article, a pronoun nor part of a name."""
    token = tokens[index]
    if text[token.end : token.end + 1] in ("'", "-") or text[token.start - 1 : token.start] in (
        "'",
        "-",
        "/",
        ".",
    ):
        return False
    if index and tokens[index - 1].form in _NAMED_BY_LETTER:
        return False
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    if token.raw == "I":
        return False
    if token.raw == "A":
        if following is None or following.form in _AFTER_BARE_A:
            return True
        return not (following.raw[0].isalnum() and following.raw[0].isascii())
    return following is None or following.raw[0] not in "=+*/^("


def _joined(text: str, tokens: list[Token], mentions: list[Mention]) -> list[Mention]:
    """Labels and texts that stand next to each other as one mention, in order."""
    mentions = sorted(mentions, key=lambda mention: (mention.first, mention.kind == "text"))
    joined: list[Mention] = []
    for mention in mentions:
        previous = joined[-1] if joined else None
        if previous is None or mention.first > previous.last + 4:
            joined.append(mention)
            continue
        kinds = {previous.kind, mention.kind}
        if mention.first <= previous.last:  # one word is both: "Point A" and "A"
            if previous.option == mention.option:
                if "text" in kinds and len(kinds) > 1:
                    joined[-1] = previous._replace(
                        kind="label+text", last=max(previous.last, mention.last)
                    )
            elif (mention.kind == "text" and previous.kind == "bare label") or (
                mention.kind == "text" and mention.last > previous.last
            ):
                joined[-1] = mention
            continue
        between = tokens[previous.last + 1 : mention.first]
        adjacent = all(not token.raw[0].isalnum() or is_article(token.form) for token in between)
        adjacent = adjacent and not any(token.form in (",", ";", "?", "/") for token in between)
        newlines = sum(token.form == "\n" for token in between)
        by_text = mention.kind in ("text", "label+text")
        if not adjacent or newlines or not ("text" in kinds or by_text):
            joined.append(mention)
        elif previous.option == mention.option and previous.kind != mention.kind:
            joined[-1] = previous._replace(kind="label+text", last=mention.last)
        elif previous.kind == "label" and mention.kind == "text":
            joined[-1] = previous._replace(conflict=True, last=mention.last)
        else:
            joined.append(mention)
    return joined


_STOPS = frozenset([".", "!", "?", ";", "。", "！", "？", "\n"])


def _split_sentences(tokens: list[Token], mentions: list[Mention]) -> list[tuple[int, int]]:
    """[first, last) token indices of each sentence or line. The full stop behind a label ends none."""
    after_label = {mention.first + 1 for mention in mentions if mention.kind != "text"}
    sentences: list[tuple[int, int]] = []
    start = 0
    for index, token in enumerate(tokens):
        if token.form not in _STOPS:
            continue
        if token.form == "." and index in after_label and index + 1 < len(tokens):
            begins_line = index < 2 or tokens[index - 2].form in _STOPS
            if begins_line and tokens[index + 1].form != "\n":
                continue
        if index > start:
            sentences.append((start, index + 1))
        start = index + 1
    if start < len(tokens):
        sentences.append((start, len(tokens)))
    return sentences or [(0, 0)]


_MOST_PARTS = 40


def _parts(marked: MarkedReply, forms: OptionForms) -> list[Mention]:
    """Mentions by own words of an option, one for each sentence, where the option is not named otherwise."""
    owner = {form: place for place, words in enumerate(forms.own_words) for form in words}
    if not owner or forms.yes is not None:
        return []
    taken = {
        (marked.sentence_of(mention.first), mention.option)
        for mention in marked.mentions
        if mention.kind != "bare label"
    }
    parts: list[Mention] = []
    for number, (start, end) in enumerate(marked.sentences):
        seen: dict[int, set[str]] = {}
        place_of_first: dict[int, int] = {}
        forms_here: set[str] = set()
        for index in range(start, end):
            form = marked.tokens[index].form
            word = form if form in owner else _other_form(form, owner, forms)
            forms_here.add(word or form)
            if word is not None and not _has_other_unit(
                marked.tokens, index, forms.texts[owner[word]]
            ):
                place = owner[word]
                seen.setdefault(place, set()).add(word)
                place_of_first.setdefault(place, index)
        for place, words in seen.items():
            if (number, place) in taken:
                continue
            content = {
                form
                for form in forms.texts[place]
                if (form not in _FUNCTION_WORDS and form[0].isalnum()) or form[0] == "#"
            }
            shared = len(content & (forms_here | words))
            cover = shared / len(content) if content else 0.0
            index = place_of_first[place]
            parts.append(Mention(place, "part", index, index, round(cover, 2)))
        if len(parts) >= _MOST_PARTS:
            break
    return parts


def _has_other_unit(tokens: list[Token], index: int, text: tuple[str, ...]) -> bool:
    """Whether a number has another unit than the option that has this number: "5 km" of "5 cm"."""
    if tokens[index].form[0] != "#" or len(text) != 2 or index + 1 >= len(tokens):
        return False
    unit = tokens[index + 1].form
    return (
        unit.isalpha()
        and len(unit) <= _LONGEST_UNIT
        and unit not in _FUNCTION_WORDS
        and unit != text[1]
    )


_LONGEST_UNIT = 3


def _other_form(form: str, owner: dict[str, int], forms: OptionForms) -> str | None:
    """The one word of an option that a word is another form of: "jumps" of "jumping"."""
    if len(form) < _PREFIX:
        return None
    alike = [
        word
        for word in forms.words_by_prefix.get(form[:_PREFIX], ())
        if word in owner
        and shared_prefix(word, form) >= max(_PREFIX, max(len(word), len(form)) - 3)
    ]
    return alike[0] if len(alike) == 1 else None
