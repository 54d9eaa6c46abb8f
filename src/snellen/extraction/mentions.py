"""Find where a reply mentions the options of a question.

A *mention* is a run of words in a reply that names one option. For the options "(A) red car" and "(B) blue car", these
replies mention the second option:

| reply | kind of mention |
|---|---|
| "(B)", "Option B.", "B" alone in a line | `label`: the label, set off from the sentence |
| "I think B fits" | `bare label`: the label as a capital letter in running text |
| "It is a blue car" | `text`: all words of the option |
| "B. blue car" | `label+text` |
| "something blue" | `part`: a word that only this option has |

A reply is a list of tokens (`snellen.extraction.tokens`). Words are compared in their normalised form: in lower case and in the
singular, with numbers as `#3`.
"""

from __future__ import annotations

from bisect import bisect_right
from string import ascii_letters
from typing import Literal, NamedTuple

from snellen.extraction.cue_words import words_of
from snellen.extraction.option_forms import PREFIX_LENGTH, OptionForms, is_content_word
from snellen.extraction.tokens import Token, is_article, normalised_at, shared_prefix, tokenise

MentionKind = Literal["label", "bare label", "label+text", "text", "part"]
"""How a mention names its option; the docstring of the module has an example of each."""


class Mention(NamedTuple):
    """A run of words in a reply that names an option."""

    option: int
    """Index of the option."""
    kind: MentionKind
    first: int
    """Index of its first token in the reply."""
    last: int
    """Index of its last token in the reply."""
    cover: float = 1.0
    """Share of the option's content words that the sentence has; below 1 only for a `part`."""
    conflict: bool = False
    """Whether the label is followed by the text of another option: "A. blue car"."""


class MarkedReply(NamedTuple):
    """A reply as tokens, with its sentences and its mentions of options."""

    text: str
    tokens: list[Token]
    sentences: list[tuple[int, int]]
    """For each sentence or line, the index of its first token and the index behind its last token."""
    mentions: list[Mention]
    """All mentions, by their first token."""

    def sentence_of(self, index: int) -> int:
        """Return the index of the sentence that contains a token."""
        n_started = bisect_right(self.sentences, (index, len(self.tokens) + 1))
        return max(0, n_started - 1)


def mark_mentions(text: str, forms: OptionForms) -> MarkedReply:
    """Split a normalised reply into tokens and sentences, and find every mention of an option.

    Example:
        >>> from snellen.extraction.option_forms import option_forms
        >>> forms = option_forms(("red car", "blue car"), ("A", "B"))
        >>> marked = mark_mentions("Not the red car. The answer is B.", forms)
        >>> [(mention.option, mention.kind) for mention in marked.mentions]
        [(0, 'text'), (1, 'label')]
    """
    tokens = tokenise(text)
    while tokens and tokens[-1].normalised == "\n":
        tokens.pop()
    n_blank_lines = 0
    while n_blank_lines < len(tokens) and tokens[n_blank_lines].normalised == "\n":
        n_blank_lines += 1
    tokens = tokens[n_blank_lines:]

    mentions = _find_texts(text, tokens, forms)
    mentions += _find_opening_verdict(tokens, forms, mentions)
    mentions += _find_labels(text, tokens, forms)
    mentions = _merge_neighbours(tokens, mentions)
    sentences = _split_sentences(tokens, mentions)
    marked = MarkedReply(text, tokens, sentences, mentions)

    parts = _find_parts(marked, forms)
    if not parts:
        return marked
    all_mentions = sorted([*mentions, *parts], key=lambda mention: mention.first)
    return marked._replace(mentions=all_mentions)


# --- texts of options -------------------------------------------------------------------------------------------------

_LETTERS = frozenset(ascii_letters)
_SKIPPED_SIGNS = frozenset(['"', "'", "*", "-", ",", "\n", "$", "\\", "(", ")"])
_MOST_SKIPPED = 4
"""Articles and signs that a reply may have between the words of an option."""


def _find_texts(text: str, tokens: list[Token], forms: OptionForms) -> list[Mention]:
    """Find the mentions of options by their complete text: "It is a blue car".

    Where two texts begin at the same word, the longer one is meant: "cat food" instead of "cat". A text within an
    earlier mention does not count.
    """
    mentions: list[Mention] = []
    last_mentioned = -1  # index of the last token of all mentions so far
    for index, token in enumerate(tokens):
        for option in forms.options_by_first_word.get(token.normalised, ()):
            words = forms.words[option]
            last = _match_words(tokens, index, words)
            if last is None or last <= last_mentioned:
                continue
            if forms.yes_option is not None and not _is_verdict(tokens, index, last):
                continue
            is_letter = len(words) == 1 and token.raw in _LETTERS
            if is_letter:
                # If the text of an option is the label of another, replies mean the label.
                if token.raw.upper() in forms.option_by_label:
                    continue
                # "a" may be an article; the letter of an option "A" counts only where a label would.
                if token.raw.islower() or not _is_set_off(text, tokens, index):
                    continue
            mentions.append(Mention(option, "text", index, last))
            last_mentioned = last
            break
    return mentions


def _match_words(tokens: list[Token], start: int, words: tuple[str, ...]) -> int | None:
    """Return the index of the last token of an option's text, if a reply has that text from a token on.

    Articles and signs between the words are skipped: the words `("dog", "on", "sofa")` match "dogs on the sofa".

    Args:
        tokens: Tokens of the reply.
        start: Index of the token that is the first of the words.
        words: Words of the option, in their compared form.
    """
    index = start
    n_skipped = 0
    for word in words[1:]:
        index += 1
        while index < len(tokens) and tokens[index].normalised != word:
            form = tokens[index].normalised
            is_skipped = form in _SKIPPED_SIGNS or is_article(form)
            if not is_skipped or n_skipped == _MOST_SKIPPED:
                return None
            n_skipped += 1
            index += 1
        if index >= len(tokens):
            return None
    return index


# --- yes and no -------------------------------------------------------------------------------------------------------

DENSE_FROM = "\u3040"
"""First character of the scripts that write words without blanks: Japanese, Chinese and Korean."""
_LONGEST_DENSE_VERDICT = 4
"""Characters of the longest yes or no in these scripts. Each of these characters is a token."""
_AFTER_DETERMINER = frozenset("one other more doubt matter such".split())
"""Words before which an opening "no" belongs to the sentence: "No other dog", "No doubt"."""
_BEFORE_VERDICT = frozenset(["is", "be", "answer", "say", "with", ":", "yes", "or"])
"""Words after which "no" is an answer: "The answer is no."."""


def _find_opening_verdict(
    tokens: list[Token], forms: OptionForms, mentions: list[Mention]
) -> list[Mention]:
    """Find the yes or no that a reply to a yes-no question begins with, in any language: "Nein, ...", "是的，...".

    Returns:
        One mention, or none if the reply begins otherwise or `mentions` has its first word already.
    """
    if forms.yes_option is None or forms.no_option is None:
        return []
    first = 0
    while first < len(tokens) and not tokens[first].normalised[0].isalnum():
        first += 1
    if first >= len(tokens) or any(mention.first == first for mention in mentions):
        return []

    is_dense = tokens[first].raw.casefold()[0] >= DENSE_FROM
    n_tokens = _LONGEST_DENSE_VERDICT if is_dense else 1
    verdict = ""
    end = first
    while end < len(tokens) and end < first + n_tokens and tokens[end].raw[0].isalnum():
        verdict += tokens[end].raw.casefold()
        end += 1
    is_followed_by_word = end < len(tokens) and tokens[end].raw[0].isalnum()
    if is_followed_by_word:
        return []
    if verdict in words_of("yes"):
        return [Mention(forms.yes_option, "text", first, end - 1)]
    if verdict in words_of("no"):
        return [Mention(forms.no_option, "text", first, end - 1)]
    return []


def _is_verdict(tokens: list[Token], first: int, last: int) -> bool:
    """Return whether a yes or no is an answer, and not a word of its sentence: "No, ..." but not "there is no dog".

    Args:
        tokens: Tokens of the reply.
        first: Index of the first token of the word for yes or no.
        last: Index of its last token.
    """
    if tokens[first].normalised not in ("no", "right", "wrong", "correct"):
        return True  # "yes" or "false" have no other meaning
    preceding = normalised_at(tokens, first - 1)
    following = normalised_at(tokens, last + 1)
    follows_word = preceding[0].isalnum()
    precedes_word = following[0].isalnum()
    if not follows_word and not precedes_word:
        return True
    opens_reply = first == 0 and following not in _AFTER_DETERMINER
    is_announced = preceding in _BEFORE_VERDICT and not precedes_word
    return opens_reply or is_announced


# --- labels -----------------------------------------------------------------------------------------------------------

_NAMED_BY_LETTER = frozenset(
    "vitamin hepatitis plan grade channel section appendix influenza".split()
)
"""Words before a letter that is part of a name: "vitamin B"."""
_AFTER_LABEL_A = frozenset("is are was because since or and with vs for would".split())
"""Words after which "A" is a label instead of an article: "A is correct"."""


def _find_labels(text: str, tokens: list[Token], forms: OptionForms) -> list[Mention]:
    """Find the mentions of options by their labels: "(B)", "option 2", "I think B fits"."""
    option_by_folded_label = {
        label.casefold(): option for label, option in forms.option_by_label.items()
    }
    ignores_case = len(option_by_folded_label) == len(forms.option_by_label)
    mentions: list[Mention] = []
    for index, token in enumerate(tokens):
        option = forms.option_by_label.get(token.raw)
        if option is None and ignores_case:
            option = option_by_folded_label.get(token.raw.casefold())
        if option is None:
            continue
        is_set_off = _is_set_off(text, tokens, index)
        if token.raw.isdigit():
            # If an option is a number, the reply "2" may mean that option instead of the label "2".
            if is_set_off and (not forms.has_number or _is_numbered(text, tokens, index)):
                mentions.append(Mention(option, "label", index, index))
        elif is_set_off:
            mentions.append(Mention(option, "label", index, index))
        elif len(token.raw) > 1 or (token.raw.isupper() and _is_bare_label(text, tokens, index)):
            mentions.append(Mention(option, "bare label", index, index))
    return mentions


def _characters_around(text: str, token: Token) -> tuple[str, str]:
    """Return the characters just before and just behind a token; a line break at the ends of the text."""
    before = text[token.start - 1] if token.start else "\n"
    behind = text[token.end] if token.end < len(text) else "\n"
    return before, behind


def _is_set_off(text: str, tokens: list[Token], index: int) -> bool:
    """Return whether a letter or number is set off from its sentence, as labels are.

    "B" is set off in "(B)", in "B. red" and "B: red" at the beginning of a line, alone in its line, and in "option B",
    "answer: B" and "It is B.". It is not set off in "B-52" and "take B away".
    """
    token = tokens[index]
    before, behind = _characters_around(text, token)
    if before in "([{\"'" and behind in ")]}\"'":
        return True
    if before == "-" and index > 1 and tokens[index - 1].normalised == "-":
        return tokens[index - 2].normalised in words_of("option")  # "Option -B"
    is_compound = behind == "-" and text[token.end : token.end + 2].strip("- ") != ""
    if before == "-" or is_compound:
        return False

    preceding = normalised_at(tokens, index - 1)
    ends_line = normalised_at(tokens, index + 1) == "\n"
    if preceding == "\n":
        return ends_line or behind in ").:,-"

    follows_noun = preceding in words_of("option") or preceding in words_of("answer")
    looks_like_label = token.raw.isupper() or token.raw.isdigit() or not behind.isalnum()
    if follows_noun and looks_like_label:
        return True

    is_in_parentheses = preceding == "(" and behind == ")"
    if preceding in (":", "=", "→") or is_in_parentheses:
        precedes_small_word = not ends_line and tokens[index + 1].raw[0].islower()
        is_article = token.raw in ("a", "A") and precedes_small_word  # "a dog" after a colon
        return not is_article

    if behind == ")":
        return True
    follows_copula = preceding in words_of("copula")
    return follows_copula and (ends_line or behind in ".:,")


def _is_numbered(text: str, tokens: list[Token], index: int) -> bool:
    """Return whether a number is a label for sure: "(2)", "option 2", "2. five", but not "It is 2."."""
    before, behind = _characters_around(text, tokens[index])
    if before == "(" and behind == ")":
        return True
    if index > 0 and tokens[index - 1].normalised in words_of("option"):
        return True
    return behind in ").:" and normalised_at(tokens, index + 2) != "\n"


def _is_bare_label(text: str, tokens: list[Token], index: int) -> bool:
    """Return whether a capital letter in running text is a label: "B fits best".

    It is not in "A dog", "I see", "vitamin B", "B's", "U.S.A" and "B = 5".
    """
    token = tokens[index]
    before, behind = _characters_around(text, token)
    if behind in ("'", "-") or before in ("'", "-", "/", "."):
        return False
    if index > 0 and tokens[index - 1].normalised in _NAMED_BY_LETTER:
        return False
    if token.raw == "I":
        return False
    if index + 1 == len(tokens):
        return True
    following = tokens[index + 1]
    first_character = following.raw[0]
    if token.raw == "A":
        precedes_noun = first_character.isalnum() and first_character.isascii()
        return following.normalised in _AFTER_LABEL_A or not precedes_noun
    return first_character not in "=+*/^("


# --- mentions that belong together ------------------------------------------------------------------------------------

_SEPARATORS = frozenset([",", ";", "?", "/", "\n"])
"""Signs between two mentions that do not belong together: "A, blue car"."""
_MOST_BETWEEN = 3
"""Articles and signs between a label and a text that belong together: "B) - the blue car"."""


def _merge_neighbours(tokens: list[Token], mentions: list[Mention]) -> list[Mention]:
    """Merge labels with the texts next to them, and return the mentions in their order.

    "B. blue car" becomes one mention of the kind `label+text`. If the text is of another option ("A. blue car"), the
    merged mention is of the label's option and has a conflict.
    """
    ordered = sorted(mentions, key=lambda mention: (mention.first, mention.kind == "text"))
    merged: list[Mention] = []
    for mention in ordered:
        if not merged or mention.first > merged[-1].last + _MOST_BETWEEN + 1:
            merged.append(mention)
            continue
        previous = merged[-1]
        is_same_option = previous.option == mention.option
        kinds = {previous.kind, mention.kind}

        # A word can be a label and part of a text at once: "A" in "Point A".
        if mention.first <= previous.last:
            if is_same_option and "text" in kinds and len(kinds) > 1:
                last = max(previous.last, mention.last)
                merged[-1] = previous._replace(kind="label+text", last=last)
            reaches_further = previous.kind == "bare label" or mention.last > previous.last
            if not is_same_option and mention.kind == "text" and reaches_further:
                merged[-1] = mention
            continue

        is_adjacent = True
        for token in tokens[previous.last + 1 : mention.first]:
            is_sign = not token.raw[0].isalnum()
            if token.normalised in _SEPARATORS or not (is_sign or is_article(token.normalised)):
                is_adjacent = False
        has_text = "text" in kinds or mention.kind == "label+text"
        if not is_adjacent or not has_text:
            merged.append(mention)
        elif is_same_option and previous.kind != mention.kind:
            merged[-1] = previous._replace(kind="label+text", last=mention.last)
        elif previous.kind == "label" and mention.kind == "text":
            merged[-1] = previous._replace(conflict=True, last=mention.last)
        else:
            merged.append(mention)
    return merged


# --- sentences --------------------------------------------------------------------------------------------------------

_STOPS = frozenset([".", "!", "?", ";", "。", "！", "？", "\n"])


def _split_sentences(tokens: list[Token], mentions: list[Mention]) -> list[tuple[int, int]]:
    """Return, for each sentence or line, the index of its first token and the index behind its last token.

    The full stop behind a label at the beginning of a sentence does not end it: "B. blue car" is one sentence. A reply
    without tokens has one empty sentence.
    """
    behind_labels = {mention.first + 1 for mention in mentions if mention.kind != "text"}
    sentences: list[tuple[int, int]] = []
    start = 0
    for index, token in enumerate(tokens):
        if token.normalised not in _STOPS:
            continue
        if token.normalised == "." and index in behind_labels and index + 1 < len(tokens):
            is_first_word = index < 2 or tokens[index - 2].normalised in _STOPS
            if is_first_word and tokens[index + 1].normalised != "\n":
                continue
        if index > start:
            sentences.append((start, index + 1))
        start = index + 1
    if start < len(tokens):
        sentences.append((start, len(tokens)))
    return sentences or [(0, 0)]


# --- parts of texts ---------------------------------------------------------------------------------------------------

_MOST_PARTS = 40
"""Mentions by part after which the rest of a reply is not searched for more."""
_LONGEST_UNIT = 3
"""Letters of the longest unit behind a number, such as "cm" or "kg"."""


def _find_parts(marked: MarkedReply, forms: OptionForms) -> list[Mention]:
    """Find the mentions of options by words that no other option has: "something blue" for "blue car".

    There is one mention for each sentence and option, unless the sentence names the option by its label or text.
    """
    if forms.yes_option is not None:
        return []
    option_by_own_word: dict[str, int] = {}
    for option, own_words in enumerate(forms.own_words):
        for word in own_words:
            option_by_own_word[word] = option
    if not option_by_own_word:
        return []

    named: set[tuple[int, int]] = set()  # pairs of sentence and option
    for mention in marked.mentions:
        if mention.kind != "bare label":
            named.add((marked.sentence_of(mention.first), mention.option))

    parts: list[Mention] = []
    for sentence, (start, end) in enumerate(marked.sentences):
        first_index: dict[int, int] = {}  # of the first own word of each option
        sentence_words: set[str] = set()
        for index in range(start, end):
            form = marked.tokens[index].normalised
            own_word = form if form in option_by_own_word else None
            if own_word is None:
                own_word = _find_inflected(form, option_by_own_word, forms)
            sentence_words.add(own_word or form)
            if own_word is None:
                continue
            option = option_by_own_word[own_word]
            if not _has_other_unit(marked.tokens, index, forms.words[option]):
                first_index.setdefault(option, index)

        for option, index in first_index.items():
            if (sentence, option) in named:
                continue
            content_words = {word for word in forms.words[option] if is_content_word(word)}
            shared_words = content_words & sentence_words
            cover = len(shared_words) / len(content_words)
            part = Mention(option, "part", first=index, last=index, cover=round(cover, 2))
            parts.append(part)
        if len(parts) >= _MOST_PARTS:
            break
    return parts


def _has_other_unit(tokens: list[Token], index: int, words: tuple[str, ...]) -> bool:
    """Return whether a number has another unit than the option with this number: "5 km" for the option "5 cm".

    Args:
        tokens: Tokens of the reply.
        index: Index of the number.
        words: Words of the option, such as `("#5", "cm")`.
    """
    is_number = tokens[index].normalised[0] == "#"
    if not is_number or len(words) != 2 or index + 1 >= len(tokens):
        return False
    unit_of_option = words[1]
    following = tokens[index + 1].normalised
    if len(following) > _LONGEST_UNIT or not following.isalpha() or not is_content_word(following):
        return False
    return following != unit_of_option


def _find_inflected(
    form: str, option_by_own_word: dict[str, int], forms: OptionForms
) -> str | None:
    """Return the option word that a word of a reply is another form of: "jumping" for "jumps".

    Args:
        form: The word of the reply.
        option_by_own_word: Words that only one option has, with the index of that option.
        forms: Words of all options.

    Returns:
        A key of `option_by_own_word`, or None if no word of the options, or several, begin alike.
    """
    if len(form) < PREFIX_LENGTH:
        return None
    matches: list[str] = []
    for word in forms.words_by_prefix.get(form[:PREFIX_LENGTH], ()):
        longest_ending = 3
        needed = max(PREFIX_LENGTH, max(len(word), len(form)) - longest_ending)
        if word in option_by_own_word and shared_prefix(word, form) >= needed:
            matches.append(word)
    return matches[0] if len(matches) == 1 else None
