"""The words that replies are made of. Data for the rules; the patterns are in `snellen.extraction.patterns`."""

from __future__ import annotations

# Placeholders of a skeleton. In order: bare label, strong label (bracketed, delimited, "option B"), text,
# label with its own text, label with another option's text; then what names nothing: a denied mention,
# one that asserts nothing, an option's text that may be part of a longer name.
BARE, STRONG, TEXT, BOTH, CONFLICT, DENIED, IDLE, DOUBTFUL = map(chr, range(0xE000, 0xE008))

MEANINGFUL = frozenset("+<>=%$€£¥₩₹°#&@^|~/\\←↑→↓↔△▲▽▼○●◎□■☆★♂♀×÷±≤≥≠≈√∞π℃℉")


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_COUNTED = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
).split()
ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
OPERATORS = frozenset(("+", "×", "*", "x", "÷", "^", "plus", "minus", "times"))
NUMBER_WORDS = {word: str(value) for value, word in enumerate(_COUNTED)}
NUMBER_WORDS |= {digits: word for word, digits in NUMBER_WORDS.items()}
UNCOUNTABLE = words("yes no not none all both some left right top bottom true false male female")

# Options that are such words stand everywhere in prose; they count only where they stand alone.
FUNCTION_WORDS = words(
    "yes no not none one zero a an the in on at to of with by for from is it and or i up off out over as all some "
    "this that other here there can will may so do be was are has have if but he she we you they my"
)
DETERMINERS = words("a an the this that these those his her its their my your our some any")
PREPOSITIONS = words(
    "about above across after against along among around at before behind below beneath beside between beyond by "
    "during for from in inside into near next of off on onto out outside over through to toward towards under up "
    "with within without top because since while during than as if when where which who whose what there then "
    "also very just only"
)
AUXILIARIES = words(
    "is are was were be been being am has have had having do does did done will would can could shall should may might "
    "must get gets got it its he she they we you i him them one ones it's he's she's they're there's that's i'm"
)
AFTER_RIGHT = words("next under behind above below in on beside near between over at after before inside beneath")
# What may stand before such a word that stands alone.
OPENERS = words(
    "is was are were it's that's answer be says reads say maybe perhaps probably clearly definitely simply "
    "option choice or and "
    "think believe guess so likely absolutely certainly actually surely most"
)

# Two-word nouns whose second word is not what they are.
FALSE_HEADS = frozenset(
    tuple(pair.split("-"))
    for pair in (
        "hot-dog prairie-dog corn-dog sea-lion mountain-lion ant-lion sea-horse clothes-horse rocking-horse guinea-pig "
        "teddy-bear koala-bear computer-mouse jelly-fish star-fish cray-fish sea-urchin pine-apple custard-apple "
        "cart-wheel egg-plant butter-fly dragon-fly lady-bug"
    ).split()
)
FALSE_MODIFIERS = words("toy fake stuffed non anti pseudo imitation")

# After a one-word option these do not turn it into part of another noun ("dog house").
FOLLOWERS = words(
    "either is are was were be been being am has have had do does did can could will would should may might must shall "
    "cannot and or nor but yet so if then than that which who whom whose what where when while because since as "
    "although though in on at of by to from with without into onto under over above below behind beside near between "
    "among through across along around about after before during for against toward towards inside outside next off "
    "up down out not no never only also too very here there now again indeed rather instead like unlike per each it "
    "he she they this these those his her its their the a an my your our i we you sits lies runs stands looks seems "
    "appears barks sleeps eats plays holds wears walks goes comes makes takes best most please image picture photo "
    "colour color one ones"
)
# Nouns that say of what kind an option is: "a handball match", "a melancholic mood".
KIND_NOUNS = words("type kind style mood season stage place position phase category game match race scene")
FREE_FOLLOWER_ENDINGS = ("ing", "ed", "ly", "n't")
# One-word options that are adjectives: any noun may follow ("a red car").
ADJECTIVES = words(
    "red green blue yellow orange purple pink brown black white grey gray golden silver cyan magenta violet beige tan "
    "left right top bottom upper lower middle central centre center front rear back first second third last big small "
    "large tiny huge little medium short long tall wide narrow thick thin high low old young new modern ancient round "
    "square circular rectangular triangular oval sunny rainy cloudy snowy foggy windy hot cold warm cool wet dry dark "
    "bright light happy sad angry surprised fearful neutral disgusted calm wooden metal metallic plastic rubber glass "
    "stone leather paper cotton steel ceramic male female human open closed empty full solid liquid gas true false "
    "real fake single double indoor outdoor urban rural realistic abstract vertical horizontal diagonal"
)
ADJECTIVE_ENDINGS = ("ful", "ous", "ive", "ish", "less", "able", "ible", "ed", "ing")

# Chinese and Japanese have no blanks: what may stand beside a text that is a word of its own.
CJK_BEFORE = frozenset(
    "がもとにをでるらたうへの见見出中了着到有確确唯独只即あ是为選选择個个只一的有张条匹头辆了在和与或叫像看到案位名种隻台把件本は近于属似该会能应叫做示现更最较很"
)
# A number behind these counts them: "step 3".
COUNTED_THINGS = words(
    "row rows column columns step steps figure fig table equation eq schritt étape paso passo stap krok шаг"
)
CJK_PREFIXES = frozenset("おご")
CJK_AFTER = frozenset("がもでとにをへのだやかはね呢啊色的了在和与或吗吧因是站坐躺跑而们正也都")

# What may follow a capital A, or I, that is an option and not a word.
AFTER_A = words(
    "als und oder ist sind est sont é è jest passt stimmt ou oraz или is was because since as or and but "
    "seems looks appears shows nor vs fits matches"
)
AFTER_I = words("is because since or nor vs")
ANSWER_NOUNS = words("answer answers option options choice choices")
LABEL_NOUNS = words("option options choice letter")
# A full stop after these ends no sentence.
ABBREVIATIONS = words("mr mrs ms dr prof st vs fig nr approx etc")

# A bare capital counts as an option in running prose only after one of these, or before one of those
# verbs: "vitamin C", "Figure B", "plan B" and "Group A" are names of other things.
BEFORE_BARE = words(
    "is be it's that's was option choice answer letter say choose so thus therefore hence maybe perhaps probably "
    "possibly or and with for as to but either both that : → > = - , ; think believe guess pick "
    "select leaving leaves remains 是 选 为 选择 likely towards toward meant mean actually definitely certainly "
    "clearly surely doubt take "
    "really still indeed answered prefer favour favor ans"
)

AGREES = words("are you're that's")
SUBJECTS = words("it he she they there i we you this that the")
