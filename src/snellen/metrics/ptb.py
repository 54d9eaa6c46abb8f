r"""Penn Treebank tokens as the COCO caption evaluation makes them, without Java.

The COCO evaluation lower-cases the tokens of Stanford's PTBTokenizer (CoreNLP 3.4.1) and drops a list of
punctuation tokens. Its lexer takes, at each place, the longest match of many patterns; so does this one,
between blanks. The patterns were written from the observed behaviour of that program, quirks included:
brackets survive as -lrb-, runs of exclamation marks survive, `dog.The` is one word, `£` becomes `#`.
Where the two still differ is listed in docs/evidence/metrics.md.
"""

from __future__ import annotations

import re
from functools import lru_cache

from snellen.common.late import late_pattern

_DROPPED = frozenset(("''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"))

# A letter is a word character that is no numeral, such as ½, or one of the marks that the program joins to letters.
_NO_LETTER = "\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u209c\u2150-\u218b\u2460-\u24ff\u2776-\u2793\u3192-\u3195\u3220-\u33ff"
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065e\u0670\u0900-\u0903\u093c"
    "\u093e-\u094e\u0951-\u0955\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u09d7\u0a01-\u0a03\u0a3c-\u0a4d\u0a81-\u0a83\u0abc-\u0acd"
    "\u0b82\u0bbe-\u0bcd\u0c01-\u0c03\u0c3e-\u0c56\u0d3e-\u0d48\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
)
_SYMBOLS = (
    "#$%&*+/<=>@^|~\\\\\u00a1\u00a5-\u00a9\u00ac\u00ae-\u00b4\u00b6-\u00b9\u00bf\u00d7\u00f7\u060c\u061b\u061f\u066a\u06d4\u0964\u0965"
    "\u0e3f\u2016\u2017\u201a\u201e-\u2023\u2030-\u2038\u203b\u203e-\u2042\u2044\u2070\u2074-\u207e\u2080-\u208e\u20a4\u2100-\u214f"
    "\u2155-\u215e\u2190-\u2bff\u3001\u3002\u3012\u30fb\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\uffe0\uffe1\uffe5\uffe6"
)
_SIGNS: dict[str, str] = {
    **dict.fromkeys("\u2013\u2014\u2015\u0096\u0097", "--"),
    **dict.fromkeys('"\u201c\u201d\u00ab\u00bb', "''"),
    **dict.fromkeys("'`\u2018\u2019\u201b\u2039\u203a", "'"),
    **dict(zip("()[]{}", ("-lrb-", "-rrb-", "-lsb-", "-rsb-", "-lcb-", "-rcb-"), strict=True)),
    **dict(
        zip(
            "\u00a3\u20ac\u00a4\u20a0\u00a2\u2026",
            ("#", "$", "$", "$", "cents", "..."),
            strict=True,
        )
    ),
    **dict(zip("\u00bc\u00bd\u00be\u2153\u2154", ("1/4", "1/2", "3/4", "1/3", "2/3"), strict=True)),
}
_ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": "''", "&apos;": "'", "&mdash;": "--"}

_ABBREVIATIONS = (
    "adj adm al ala alex apr ariz assn assoc asst atty attys aug ave az bancorp bhd bldg blvd brig bros calif capt cf "
    "cie cmdr co col colo comdr conn corp cos cpl ct dak dec dept det dr drs elec ens esq est etc ext feb fla fri ft "
    "ga gen gov govs hon inc ind insp intl jan jos jr jul jun kan kans ky lieut lt ltd maj mar md messrs mfg mich minn "
    "mlle mme mo mon mont mr mrs ms msgr mt natl neb nev nov oct okla penn pfc ph plc pres prof profs pte pvt rd rep "
    "reps rev rt sen sens sep sept seq sgt spc sq sr st ste supt sys tel tenn thu thurs treas tue tues univ va vs vt "
    "wed wis wisc wm wyo"
).replace(" ", "|")
_CASED_ABBREVIATIONS = (
    "Ark|ARK|Del|DEL|Ill|ILL|La|LA|Mass|MASS|Miss|MISS|Ore|ORE|Pa|PA|[Pp]ty|Tex|TEX|Wash|WASH"
)
_NUMBERED = "art|ca|figs?|nos?|op|pp|prop"
_SENTENCE_STARTS = (
    "A About According Additionally After An As At But Earlier He Her Here However If In It Last Many More Mr. Ms. Now "
    "Once One Other Our She Since So Some Such That The Their Then There These They This We What When While Yet You"
).replace(" ", "|")
_SPLIT_WORDS = ("cannot", "gonna", "gotta", "lemme", "gimme", "wanna")  # after three letters


def tokenize(text: str) -> list[str]:
    """Return the lower-case Penn Treebank tokens of a line of text, including punctuation.

    For example, "A dog's bone." gives `a`, `dog`, `'s`, `bone` and `.`.
    """
    line = _BEFORE_NUMBER.sub(rf"\1{_NUMBER_FOLLOWS} ", text.replace("\u00ad", ""))
    line = _BEFORE_SENTENCE.sub(f".{_SENTENCE_FOLLOWS} ", line)
    tokens: list[str] = []
    for chunk in line.split():
        tokens.extend(_tokens(chunk))
    return tokens


def caption_words(caption: str) -> list[str]:
    """Return the lower-case words of a caption without punctuation, as the COCO evaluation counts them."""
    return [token for token in tokenize(caption) if token not in _DROPPED]


@lru_cache(maxsize=65536)
def _tokens(chunk: str) -> tuple[str, ...]:
    """Return the tokens of a text without blanks, such as `("is", "n't")` for "isn't".

    At each position, the pattern with the longest match is used; if several matches are equally long, the first of
    these patterns. A character that no pattern matches is dropped.
    """
    if chunk.isascii() and chunk.isalpha() and chunk.lower() not in _SPLIT_WORDS:
        return (chunk.lower(),)
    tokens: list[str] = []
    position = 0
    while position < len(chunk):
        match = max((pattern.match(chunk, position) for pattern in _patterns()), key=_length)
        if match is None:  # a character that the program drops as untokenizable
            position += 1
        else:
            tokens.extend(_tokens_of_match(match))
            position = match.end()
    return tuple(tokens)


def _length(match: re.Match[str] | None) -> int:
    return 0 if match is None else match.end() - match.start()


def _tokens_of_match(match: re.Match[str]) -> list[str]:
    """Return the tokens, in lower case, for a piece of text that one of the patterns has matched.

    Most pieces are one token: "Dog" gives `["dog"]`. Some are two: "don't" gives `["do", "n't"]` and "cannot" gives
    `["can", "not"]`. Some are replaced, as Stanford's tokeniser does it: "(" gives `["-lrb-"]`, "£" gives `["#"]`, and
    "....." gives `["..."]`.
    """
    # Only the patterns for a word with a clitic have groups: the word and the clitic.
    if match.lastindex:
        word, clitic = match.groups()
        return [word.lower(), clitic.lower().replace("\u2019", "'")]
    token = match[0].lower()
    is_smiley = match.re.pattern == _SMILEY.pattern
    if is_smiley:
        return [token.replace("(", "-lrb-").replace(")", "-rrb-")]
    if token in _SPLIT_WORDS:
        return [token[:3], token[3:]]
    if re.fullmatch(r"-{3,4}|\.{3,}", token):
        return ["--" if token[0] == "-" else "..."]
    if re.fullmatch(_CLITIC, token):
        return [token.replace("\u2019", "'")]
    for replacements in (_SIGNS, _ENTITIES):
        if replacements.get(token):
            return [replacements[token]]
    return [token.replace("&amp;", "&")]


# Marks that `tokenize` puts after a full stop if a number, or a word that begins a sentence, follows the next blank.
# The patterns look at them to decide whether the full stop belongs to an abbreviation. They are part of no token.
_NUMBER_FOLLOWS, _SENTENCE_FOLLOWS = "\x01", "\x02"
_CLITIC = r"['\u2019](?i:[msd]|re|ve|ll)(?![A-Za-z])"
_SMILEY = late_pattern(r"[<>]?[:;=][-o*']{0,2}[()DPdpO\\{@|\[\]](?![A-Za-z])|[-^=~<>']_[-^=~<>']")
_BEFORE_NUMBER = late_pattern(rf"(?i)(\b(?:{_NUMBERED})\.) (?=\d)")
_BEFORE_SENTENCE = late_pattern(rf"(?<=\b[A-Za-z])(?<![\w.].)\. (?=(?:{_SENTENCE_STARTS})(?!\S))")


@lru_cache(maxsize=1)
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Return the compiled patterns of tokens. If two patterns match equally long texts, the earlier one counts."""
    letter = rf"(?:[^\W\d_{_NO_LETTER}]|[{_MARKS}])"
    sign = rf"(?:[^\W_{_NO_LETTER}]|[{_MARKS}])"  # letter or digit
    apostrophe = "['\u2019]"
    elided = rf"(?:(?i:[dol]){apostrophe}{letter})?{sign}+"
    acronym = r"[A-Za-z](?:\.[A-Za-z])+"
    word = rf"{letter}{sign}*(?:[.!?]{letter}{sign}*)*"
    host = r"""[^\s"`'<>|.!?,{}()\[\]_\-/@]+\."""
    path = r"""/[^\s"<>|()]+[^\s"<>|.!?(),{}-]"""
    patterns = (
        # Words and their clitics: dog's, isn't.
        rf"({word})({_CLITIC})",
        rf"({letter}+)(n[\u2019'`]t)(?![A-Za-z])",
        r"n[\u2019'`]t(?![A-Za-z])",
        _CLITIC,
        word,
        rf"(?:{word}|\d+)\.(?=[,;:])",
        # Elisions: rock 'n' roll, '70s, 'tis, y'all, o'clock, ma'am, c'mon.
        rf"{apostrophe}n{apostrophe}|{apostrophe}n(?!{letter})",
        rf"{apostrophe}(?:till?|em|cause)",
        rf"{apostrophe}(?:[2-9]0s|\d\d\Z)",
        r"'t(?=(?:is|was)(?:n['\u2019`]t)?(?![A-Za-z]))",
        rf"y{apostrophe}(?={letter})|[ldj]{apostrophe}",
        rf"[dol]{apostrophe}{letter}{{2,}}",
        rf"(?-i:[A-HJ-XZn]{apostrophe}{letter}{{2,}}|{letter}+[aeiouyAEIOUY]{apostrophe}[aeiouA-Z]{letter}*)",
        rf"ol{apostrophe}|(?:somethin|dunkin)'|cont'd\.|nor'easter|c'mon|s'mores|ev'ry|li'l|nat'l|[no]?e'er",
        # Compounds: t-shirt, 5.5-inch, non-U.S., and/or, 1/2-inch, AT&T.
        rf"{elided}(?:[-_\u2010\u2011]{elided})*",
        rf"[a-z0-9][a-z0-9.,]*(?:-(?:{acronym}\.|[a-z0-9]+))+",
        r"[a-z0-9]+(?:-[a-z]+){0,2}(?:/[a-z0-9]+(?:-[a-z]+){0,2}){1,2}",
        r"(?-i:[A-Z]+(?:(?:[+&]|&amp;)[A-Z]+)+)",
        # Abbreviations and acronyms keep their full stop.
        rf"{acronym}\.?|[a-z]\.(?!{_SENTENCE_FOLLOWS})|(?:ph|ed)\.d\.",
        rf"(?:{_ABBREVIATIONS}|(?-i:{_CASED_ABBREVIATIONS}))\.",
        rf"(?:{_NUMBERED})\.(?=[\d{_NUMBER_FOLLOWS}])",
        # Numbers, fractions, dates, currencies.
        r"[-+]?(?:\d*(?:[.:,]\d+)+|\d+)",
        r"(?:\d{1,4}-)?\d{1,4}[/\u2044]\d{1,4}|\d{1,2}[-/]\d{1,2}[-/]\d{2,4}",
        r"(?-i:[A-Z]+\$)",
        # Addresses and names of the net.
        r"https?:/" + path,
        rf"(?:www\.(?:{host})*[a-z]{{2,4}}|(?:{host})+(?:com|net|org|edu))(?![A-Za-z])(?:{path})?",
        r"""[a-z0-9][^\s"<>|(){}@]*@(?:[^\s"<>|(){}.]+\.)*[^\s"<>|(){}.]+""",
        rf"@[a-z_][a-z_0-9]*|\#{letter}+",
        r"c\+\+|[cf]\#|</?[a-z][a-z0-9_.:-]*/?>|<[a-z0-9][^\s<>@]*@[^\s<>]+>|&(?:amp|lt|gt|quot|apos|mdash|\#\d+);",
        # Punctuation.
        r"-+|_+|\*+|[?!]+|\.{3,}|\.|[,;:]|[\#@]{2,}|``|\'\'",
        "[" + re.escape("".join(_SIGNS)) + "]",
        f"[{_SYMBOLS}]",
    )
    return (_SMILEY, *(re.compile(pattern, re.IGNORECASE) for pattern in patterns))
