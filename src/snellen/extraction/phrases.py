"""The words that replies are made of. Data for the rules; the patterns are in `snellen.extraction.patterns`."""

from __future__ import annotations

from snellen.extraction.languages import PHRASES as _TABLES

# Placeholders of a skeleton. In order: bare label, strong label (bracketed, delimited, "option B"), text,
# label with its own text, label with another option's text; then what names nothing: a denied mention,
# one that asserts nothing, an option's text that may be part of a longer name.
BARE, STRONG, TEXT, BOTH, CONFLICT, DENIED, IDLE, DOUBTFUL = map(chr, range(0xE000, 0xE008))

CURRENCIES = frozenset("$€£¥₩₹")
MEANINGFUL = CURRENCIES | frozenset("+<>=%°#&@^|~/\\←↑→↓↔△▲▽▼○●◎□■☆★♂♀×÷±≤≥≠≈√∞π℃℉")


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_COUNTED = _TABLES["counted"].split()
ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
)
OPERATORS = frozenset(("+", "×", "*", "x", "÷", "^", "plus", "minus", "times"))
NUMBER_WORDS = {word: str(value) for value, word in enumerate(_COUNTED)}
NUMBER_WORDS |= {digits: word for word, digits in NUMBER_WORDS.items()}
UNCOUNTABLE = words("yes no not none all both some left right top bottom true false male female")

# Options that are such words stand everywhere in prose; they count only where they stand alone.
FUNCTION_WORDS = words(_TABLES["function_words"])
DETERMINERS = words("a an the this that these those his her its their my your our some any")
PREPOSITIONS = words(_TABLES["prepositions"])
AUXILIARIES = words(_TABLES["auxiliaries"])
AFTER_RIGHT = words(
    "next under behind above below in on beside near between over at after before inside beneath"
)
# What may stand before such a word that stands alone.
OPENERS = words(_TABLES["openers"])

# Two-word nouns whose second word is not what they are.
FALSE_HEADS = frozenset(tuple(pair.split("-")) for pair in _TABLES["false_heads"].split())
FALSE_MODIFIERS = words("toy fake stuffed non anti pseudo imitation")

# After a one-word option these do not turn it into part of another noun ("dog house").
FOLLOWERS = words(_TABLES["followers"])
# Nouns that say of what kind an option is: "a handball match", "a melancholic mood".
KIND_NOUNS = words(
    "type kind style mood season stage place position phase category game match race scene"
)
FREE_FOLLOWER_ENDINGS = ("ing", "ed", "ly", "n't")
# One-word options that are adjectives: any noun may follow ("a red car").
ADJECTIVES = words(_TABLES["adjectives"])
ADJECTIVE_ENDINGS = ("ful", "ous", "ive", "ish", "less", "able", "ible", "ed", "ing")

# Chinese and Japanese have no blanks: what may stand beside a text that is a word of its own.
CJK_BEFORE = frozenset(
    "がもとにをでるらたうへの见見出中了着到有確确唯独只即あ是为選选择個个只一的有张条匹头辆了在和与或叫像看到案位名种隻台把件本は近于属似该会能应叫做示现更最较很"
)
# A number behind these counts them: "step 3".
COUNTED_THINGS = words(_TABLES["counted_things"])
CJK_PREFIXES = frozenset("おご")
CJK_AFTER = frozenset("がもでとにをへのだやかはね呢啊色的了在和与或吗吧因是站坐躺跑而们正也都")

# What may follow a capital A, or I, that is an option and not a word.
AFTER_A = words(_TABLES["after_a"])
AFTER_I = words("is because since or nor vs")
ANSWER_NOUNS = words("answer answers option options choice choices")
LABEL_NOUNS = words("option options choice letter")
# A full stop after these ends no sentence.
ABBREVIATIONS = words("mr mrs ms dr prof st vs fig nr approx etc")

# A bare capital counts as an option in running prose only after one of these, or before one of those
# verbs: "vitamin C", "Figure B", "plan B" and "Group A" are names of other things.
BEFORE_BARE = words(_TABLES["before_bare"])

AGREES = words("are you're that's")
SUBJECTS = words("it he she they there i we you this that the")
