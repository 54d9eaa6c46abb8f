"""Text normalisations, applied before texts are compared."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from snellen.common.late import late_pattern

Normaliser = Callable[[str], str]

# Han and Kana are written without blanks, so each character is a word of its own.
_HAN_AND_KANA = (
    "\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
)
_NUMBER_WITH_COMMAS = late_pattern(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_WORD = late_pattern(
    rf"[{_HAN_AND_KANA}]|(?:[^\s.,+#{_HAN_AND_KANA}]|(?<=\d)[.,](?=\d)|(?<=[^\W\d_{_HAN_AND_KANA}])[+#]++(?!\w))+",
)


@lru_cache(maxsize=16384)
def standard_normalise(text: str) -> str:
    """Return the words of a text for comparison, in lower case and joined by single blanks.

    Punctuation and symbols separate words, with these exceptions: thousands separators are dropped (`10,000` is
    `10000`), a point or comma between digits stays (`1.5` is one word), and plus and sharp signs stay at the end of a
    word (`C++` is not `C`). Each Chinese or Japanese character is a word. Unicode is normalised to NFKC, so `②` is `2`.
    Applying the function again changes nothing.

    Examples:
        >>> standard_normalise("Café-bar: 10,000 Euro")
        'café bar 10000 euro'
    """
    visible = text
    if not text.isascii():
        visible = "".join(sign for sign in text if unicodedata.category(sign) != "Cf")
    folded = unicodedata.normalize("NFKC", visible).casefold()
    folded = unicodedata.normalize("NFKC", folded)
    plain = "".join(sign if _belongs_to_word(sign) else " " for sign in folded)
    without_separators = _NUMBER_WITH_COMMAS.sub(lambda number: number[0].replace(",", ""), plain)
    words: list[str] = _WORD.findall(without_separators)
    return " ".join(words)


def legacy_ocr_normalise(text: str) -> str:
    """ReForm-Eval and LVLM-eHub: all but ASCII letters, digits and white space deleted, lower-case.

    So `hello-world` is `helloworld`, `café` is `caf`, and a text in another script is empty.

    Examples:
        >>> legacy_ocr_normalise("Café-bar")
        'cafbar'
    """
    return re.sub(r"[^a-zA-Z0-9\s]", "", text).lower()


def vqa_normalise(text: str) -> str:
    """Normalise an answer as the published script of VQA does (Antol et al. 2015, section 4.2).

    In this order:

    1. Line breaks and tabs become blanks.
    2. Each of `;/[]"{}()=+\\_-><@`,?!` becomes a blank. It is deleted instead if it is next to a blank anywhere in the
       text, or if the text has a comma between digits.
    3. The first 32 full stops that do not precede a digit are deleted (the script passes a flag as a count).
    4. The text becomes lower case, "none" and "zero" to "ten" become digits, and articles are deleted.
    5. Contractions without their apostrophe get it back.

    Examples:
        >>> vqa_normalise("The two dogs dont bark.")
        "2 dogs don't bark"
    """
    text = text.replace("\n", " ").replace("\t", " ").strip()
    has_grouped_digits = re.search(r"\d,\d", text) is not None
    plain = text
    for sign in _VQA_SIGNS:
        touches_blank = f"{sign} " in text or f" {sign}" in text
        is_deleted = touches_blank or has_grouped_digits
        plain = plain.replace(sign, "" if is_deleted else " ")
    plain = re.sub(r"\.(?!\d)", "", plain, count=32)

    words: list[str] = []
    for word in plain.lower().split():
        word = _VQA_NUMBERS.get(word, word)
        if word not in ("a", "an", "the"):
            words.append(_VQA_CONTRACTIONS.get(word, word))
    return " ".join(words)


def _belongs_to_word(sign: str) -> bool:
    return sign.isalnum() or sign in ".,+#" or unicodedata.category(sign)[0] == "M"


_VQA_SIGNS = ';/[]"{}()=+\\_-><@`,?!'
_VQA_NUMBERS = {"none": "0"} | {
    word: str(number)
    for number, word in enumerate("zero one two three four five six seven eight nine ten".split())
}


def _without_one_apostrophe(word: str) -> list[str]:
    """Return each form of a word that lacks one of its apostrophes: `y'all've` gives `yall've` and `y'allve`."""
    forms = []
    for position, character in enumerate(word):
        if character == "'":
            forms.append(word[:position] + word[position + 1 :])
    return forms


# The forms of the official table. Words that are also words without the apostrophe (were, shed, well) are
# not in it; it maps somebody'd backwards; its forms with a capital I never meet lower-cased text.
_VQA_CONTRACTIONS = {
    wrong: form
    for form in (
        "ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't haven't "
        "he'd he'd've he's how'd how'll how's isn't it'd it'd've it'll ma'am mightn't mightn't've might've mustn't "
        "must've needn't not've o'clock oughtn't 'ow's'at shan't she'd've should've shouldn't shouldn't've "
        "somebody'd've somebody'll somebody's someone'd someone'd've someone'll someone's something'd "
        "something'd've something'll that's there'd there'd've there're there's they'd they'd've they'll they're "
        "they've 'twas wasn't we'd've we've weren't what'll what're what's what've when's where'd where's where've "
        "who'd who'd've who'll who's who've why'll why're why's won't would've wouldn't wouldn't've y'all y'all'll "
        "y'all'd've you'd you'd've you'll you're you've"
    ).split()
    for wrong in _without_one_apostrophe(form)
} | {"somebody'd": "somebodyd"}


def contains_words(text: str, words: str) -> bool:
    """Return whether `words` occur in `text` with word boundaries around them."""
    return re.search(rf"\b{re.escape(words)}\b", text) is not None
