"""The words and labels by which replies can name the options of a question.

Replies and options are compared word by word, each word in its compared form (`Token.normalised`): "Two red cars" becomes
`#2`, `red`, `car`. This module prepares the options of a question once, so that `snellen.extraction.mentions` can look
for them in many replies.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import lru_cache
from typing import NamedTuple

from snellen.extraction.cue_words import words_of
from snellen.extraction.normalisation import normalise_reply
from snellen.extraction.tokens import is_article, tokenise

PREFIX_LENGTH = 4
"""Letters that two forms of one word have in common at least: "jump" of "jumps" and "jumping"."""
_NOT_A_WORD = re.compile(r"[^\w]+")
_FORMULA = re.compile(r"\$[^$]*[\\^_][^$]*\$")
"""A formula in LaTeX between dollar signs."""
_FUNCTION_WORDS = frozenset(
    "of in on at to with by for from is it and or as be was are has have this that there not no an a the i"
    " most more than image picture photo".split()
)


class OptionForms(NamedTuple):
    """The words and labels by which replies can name the options. Options are given by their index."""

    words: tuple[tuple[str, ...], ...]
    """Compared words of each option, without leading articles: `("red", "car")` for "The red car."."""
    options_by_first_word: dict[str, tuple[int, ...]]
    """Options that begin with a word, those with the most words first."""
    option_by_label: dict[str, int]
    """Option of each label. Labels have no brackets or full stops: `A` for "(A)"."""
    own_words: tuple[frozenset[str], ...]
    """Words of each option that no other option has, without function words such as "of"."""
    words_by_prefix: dict[str, tuple[str, ...]]
    """Words of all options by their first `PREFIX_LENGTH` letters, to find other forms of these words."""
    has_number: bool
    """Whether the text of an option is a number, so that a number in a reply need not be a label."""
    yes_option: int | None
    """The option that says yes, if one option says yes and another says no."""
    no_option: int | None
    """The option that says no, if one option says yes and another says no."""


@lru_cache(maxsize=512)
def option_forms(options: tuple[str, ...], labels: tuple[str, ...]) -> OptionForms:
    """Prepare the options of a question, so that replies can be searched for them.

    Args:
        options: Texts of the options, such as `("red car", "blue car")`.
        labels: Labels of the options, such as `("(A)", "(B)")`; empty if the options have no labels.

    Example:
        >>> forms = option_forms(("The red car", "two blue cars"), ("(A)", "(B)"))
        >>> forms.words
        (('red', 'car'), ('#2', 'blue', 'car'))
        >>> forms.option_by_label
        {'A': 0, 'B': 1}
        >>> sorted(forms.own_words[1])
        ['#2', 'blue']
    """
    words_of_options = tuple(_compared_words(option) for option in options)

    starting: dict[str, list[int]] = defaultdict(list)
    for option, words in enumerate(words_of_options):
        if words:
            starting[words[0]].append(option)
    options_by_first_word: dict[str, tuple[int, ...]] = {}

    def count_words(option: int) -> int:
        return len(words_of_options[option])

    for word, same_start in starting.items():
        most_words_first = sorted(same_start, key=count_words, reverse=True)
        options_by_first_word[word] = tuple(most_words_first)

    option_by_label: dict[str, int] = {}
    for option, label in enumerate(labels):
        bare_label = _NOT_A_WORD.sub("", label) or label
        option_by_label.setdefault(bare_label, option)

    n_options_with: Counter[str] = Counter()
    for words in words_of_options:
        n_options_with.update(set(words))
    own_words: list[frozenset[str]] = []
    for words in words_of_options:
        words_of_no_other_option = [word for word in words if n_options_with[word] == 1]
        own_words.append(frozenset(filter(is_content_word, words_of_no_other_option)))

    words_by_prefix: dict[str, list[str]] = defaultdict(list)
    for word in sorted(n_options_with):
        if len(word) >= PREFIX_LENGTH and word.isalpha():
            words_by_prefix[word[:PREFIX_LENGTH]].append(word)

    has_number_as_option = False
    for words in words_of_options:
        if len(words) == 1 and words[0].startswith("#"):
            has_number_as_option = True
    yes_option, no_option = _find_yes_and_no(options)
    return OptionForms(
        words=words_of_options,
        options_by_first_word=options_by_first_word,
        option_by_label=option_by_label,
        own_words=tuple(own_words),
        words_by_prefix={prefix: tuple(words) for prefix, words in words_by_prefix.items()},
        has_number=has_number_as_option,
        yes_option=yes_option,
        no_option=no_option,
    )


def is_content_word(word: str) -> bool:
    """Return whether a compared word is a number or a word with a meaning of its own, and not "of" or a sign.

    Examples:
        >>> is_content_word("car"), is_content_word("#2"), is_content_word("of"), is_content_word("?")
        (True, True, False, False)
    """
    is_word_or_number = word[0].isalnum() or word[0] == "#"
    return is_word_or_number and word not in _FUNCTION_WORDS


def _compared_words(option: str) -> tuple[str, ...]:
    """Return the compared words of an option, without quotes, final signs and leading articles.

    "The red cars." becomes `("red", "car")`. A single word remains, even if it is an article: `("a",)` for "A".
    """
    if _FORMULA.search(option) and option.count("$") % 2 == 0:
        # Replies write formulas with other delimiters, or in a box.
        option = option.replace("$", " ")
    tokens = tokenise(normalise_reply(option).text)
    words = [token.normalised for token in tokens if token.normalised not in ("\n", '"', "'")]
    while len(words) > 1 and words[-1] in (".", "!", ";", ","):
        words.pop()
    while len(words) > 1 and is_article(words[0]) and words[1] not in ("(", ")"):
        words = words[1:]
    return tuple(words)


def _find_yes_and_no(options: tuple[str, ...]) -> tuple[int | None, int | None]:
    """Return the indices of the options that say yes and no: (0, 1) for "Yes" and "No"; (None, None) without both."""
    if len(options) > 3:  # "Yes", "No" and perhaps "Unclear"
        return None, None
    yes_options = []
    no_options = []
    for index, option in enumerate(options):
        word = option.strip(" .!").casefold()
        if word in words_of("yes"):
            yes_options.append(index)
        if word in words_of("no"):
            no_options.append(index)
    if len(yes_options) == 1 and len(no_options) == 1:
        return yes_options[0], no_options[0]
    return None, None
