"""Parse numbers, units and LaTeX in texts, for extraction rules and metrics.

A quantity is an exact value (a fraction times a square root and a power of pi) with the canonical name of its unit.
"1,200" is 1200 and "12,50" is 12.5. If a separator may be decimal or of thousands, a quantity has both values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from snellen.common.late import late_pattern

DecimalSign = Literal[",", "."]

# --- LaTeX -------------------------------------------------------------------------------------------------------

_LATEX_SIGNS = {
    "pi": "π", "cdot": "·", "times": "×", "div": "÷", "pm": "±", "leq": "≤", "le": "≤", "geq": "≥", "ge": "≥",
    "neq": "≠", "ne": "≠", "approx": "≈", "infty": "∞", "circ": "°", "degree": "°", "rightarrow": "→", "to": "→",
    "Rightarrow": "→", "implies": "→", "Longrightarrow": "→", "therefore": "∴", "theta": "θ", "alpha": "α",
    "beta": "β", "gamma": "γ", "Delta": "Δ", "Omega": "Ω", "mu": "μ", "prime": "'",
}  # fmt: skip
_LATEX_SIGN = late_pattern(
    rf"\\({'|'.join(sorted(_LATEX_SIGNS, key=len, reverse=True))})(?![A-Za-z])"
)
_FRACTION = late_pattern(r"\\[dtc]?frac\s?(?:\{([^{}]{1,80})\}|(\d))\s?(?:\{([^{}]{1,80})\}|(\d))")
_ROOT = late_pattern(r"\\sqrt\s?(?:\{([^{}]{1,80})\}|(\d))")
_SCRIPT = late_pattern(r"\^\s?\{\s?([^{}]{1,40})\}")
_WRAPPED = late_pattern(
    r"\\(?:text|textbf|textrm|textit|mathrm|mathbf|mathsf|mathbb|mathit|operatorname)\s?\{([^{}]{0,200})\}"
)
_LATEX_ESCAPE = late_pattern(r"\\([%$#&_])")
_LATEX_SPACE = late_pattern(r"\\[,;:!]|(?<![\\\s])~(?=[A-Za-z\\])|(?<=\{)~")
_SIMPLE = late_pattern(r"[\w.,√π]+")
_MAX_NESTED_COMMANDS = 4


def plain_latex(text: str) -> str:
    r"""Replace LaTeX by plain signs: `2\sqrt{3}` becomes `2√3`, and `\frac{1}{2}` becomes `1/2`.

    Each replacement is padded with blanks to the length of what it replaces, so that all other characters keep their
    positions in the text.
    """
    if "\\" not in text and "^" not in text:
        return text

    def padded(replacement: str, match: re.Match[str]) -> str:
        return replacement.ljust(len(match[0]))

    def sign(match: re.Match[str]) -> str:  # \pi becomes π
        return padded(_LATEX_SIGNS[match[1]], match)

    def content_of_wrapper(match: re.Match[str]) -> str:  # \text{cm} becomes cm
        return padded(match[1], match)

    def exponent(match: re.Match[str]) -> str:  # ^{2} becomes ^2
        return padded(f"^{_in_brackets_if_needed(match[1])}", match)

    text = _LATEX_ESCAPE.sub(r"\1 ", text)
    text = _LATEX_SPACE.sub(lambda match: " " * len(match[0]), text)
    text = _LATEX_SIGN.sub(sign, text)
    # Commands may be inside one another; each round replaces the innermost ones.
    for _ in range(_MAX_NESTED_COMMANDS):
        before = text
        text = _WRAPPED.sub(content_of_wrapper, text)
        text = _ROOT.sub(_as_root, text)
        text = _FRACTION.sub(_as_fraction, text)
        text = _SCRIPT.sub(exponent, text)
        if text == before:
            break
    return text


def _in_brackets_if_needed(part: str) -> str:
    """Return a part of a formula in brackets, unless it is a single number or variable."""
    part = part.strip()
    is_simple = _SIMPLE.fullmatch(part) is not None or part in ("°", "'")
    return part if is_simple else f"({part})"


def _as_root(match: re.Match[str]) -> str:
    """Return `√a` for a match of `\\sqrt{a}`, filled up with blanks."""
    radicand = _in_brackets_if_needed(match[1] or match[2])
    return f"√{radicand}".ljust(len(match[0]))


def _as_fraction(match: re.Match[str]) -> str:
    """Return `a/b` for a match of `\\frac{a}{b}`, filled up with blanks."""
    numerator = _in_brackets_if_needed(match[1] or match[2])
    denominator = _in_brackets_if_needed(match[3] or match[4])
    return f"{numerator}/{denominator}".ljust(len(match[0]))


# --- units -------------------------------------------------------------------------------------------------------

_UNIT_FORMS = {
    "$": "$ usd us$ dollar dollars dólares dolar dolarów доллар долларов 美元 ドル 달러",
    "€": "€ eur euro euros euroa евро 欧元 ユーロ 유로",
    "£": "£ gbp pound pounds 英镑 ポンド",
    "yen": "円 yen jpy",
    "yuan": "元 yuan rmb cny",
    "¥": "¥",
    "₩": "₩ 원 won krw",
    "zł": "zł złoty złote złotych pln",
    "đ": "đ đồng vnd",
    "₽": "₽ руб рублей рубля rub",
    "₹": "₹ rupees rupee inr रुपये",
    "%": "% percent pct prozent procent процент процента процентов 퍼센트 パーセント",
    "°C": "℃ °c celsius",
    "°F": "℉ °f fahrenheit",
    "°": "° degree degrees deg grad gradi grados graus degrés "
    "graden stopni градусов градуса градус derece "
    "derajat 度 도",
    "mm": "mm millimetre millimetres millimeter millimeters мм",
    "cm": "cm centimetre centimetres centimeter centimeters "
    "centimètres centimètre centímetros centimetri см 厘米 "
    "センチ",
    "m": "m metre metres meter meters mètres mètre metros metro metri м 米 メートル 미터",
    "km": "km kilometre kilometres kilometer kilometers kilomètres kilomètre kilómetros quilômetros "
    "chilometri км 公里 千米 キロ",
    "in": "inch inches",
    "ft": "ft foot feet",
    "yd": "yd yard yards",
    "mi": "mi mile miles",
    "mg": "mg milligram milligrams",
    "g": "g gram grams gramm grammes gramme gramos gramas grammi г 克 グラム 그램",
    "kg": "kg kilogram kilograms kilogramm kilogrammes kilos kilo kilogramos кг 公斤 千克",
    "t": "tonne tonnes tons",
    "lb": "lb lbs",
    "oz": "oz ounce ounces",
    "ml": "ml millilitre millilitres milliliter milliliters мл 毫升",
    "l": "l litre litres liter liters litros litri литров л 升 リットル",
    "s": "s sec secs second seconds sekunden secondes segundos secondi секунд 秒 초",
    "min": "min mins minute minutes minuten minutos minuti минут 分钟 分 분",
    "h": "h hr hrs hour hours stunden heures horas ore часов 小时 時間 시간",
    "W": "w watt watts",
    "V": "v volt volts",
    "A": "amp amps ampere amperes",
    "N": "newton newtons",
    "J": "j joule joules",
    "mph": "mph",
    "Hz": "hz",
}
_UNITS = {form: unit for unit, forms in _UNIT_FORMS.items() for form in forms.split()}
_DEGREES = frozenset({"°", "°C", "°F"})
_YENS = frozenset({"¥", "yen", "yuan"})
_PHRASES = {
    "per cent": "%", "por ciento": "%", "por cento": "%", "per cento": "%", "pour cent": "%", "phần trăm": "%",
    "degrees celsius": "°C", "degrees fahrenheit": "°F", "grad celsius": "°C", "degrés celsius": "°C",
    "grados celsius": "°C", "graus celsius": "°C", "gradi celsius": "°C", "km/h": "km/h", "m/s": "m/s",
    "kilometers per hour": "km/h", "kilometres per hour": "km/h", "miles per hour": "mph",
    "meters per second": "m/s", "metres per second": "m/s",
}  # fmt: skip
_SCALES = {
    **dict.fromkeys(
        "thousand tausend mille mil mila duizend tysięcy tysiące тыс тысяч тысячи bin ribu nghìn ngàn हज़ार".split(),
        10**3,
    ),
    **dict.fromkeys(
        "million millions mio millionen millones milhões milhão millón milioni milione miljoen mln miliona milionów "
        "миллион миллиона миллионов млн milyon juta triệu".split(),
        10**6,
    ),
    **dict.fromkeys(
        "billion billions bn mrd milliarde milliarden milliard milliards miljard mld млрд миллиардов milyar".split(),
        10**9,
    ),
    "k": 10**3,
    "千": 10**3,
    "천": 10**3,
    "万": 10**4,
    "萬": 10**4,
    "만": 10**4,
    "亿": 10**8,
    "億": 10**8,
    "억": 10**8,
    "百": 10**2,
    "百万": 10**6,
    "십": 10,
    "백": 10**2,
    "천만": 10**7,
    "백만": 10**6,
}


def _alternatives(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_NUMBER = late_pattern(
    r"\d{1,3}(?:[ \u00a0\u202f']\d{3})+(?![\d])(?:[.,]\d+)?|\d+(?:[.,]\d+)*|\.\d+"
)
_NOT_LETTER_AHEAD = r"(?![^\W\d_²³])"
_ASCII_SCALES = [scale for scale in _SCALES if ord(scale[0]) < 0x2E80]
_DENSE_SCALES = [scale for scale in _SCALES if ord(scale[0]) >= 0x2E80]
_SCALE = late_pattern(
    rf" ?(?:(?P<dense>{_alternatives(_DENSE_SCALES)})|(?P<word>{_alternatives(_ASCII_SCALES)}){_NOT_LETTER_AHEAD}\.?)"
    r"(?: (?:de|di|d'))?(?= |$|\W|[^\x00-\u2e7f])",
    re.IGNORECASE,
)
_DENSE_UNITS = [
    unit
    for unit in _UNITS
    if not unit[0].isascii() and (not unit[0].isalpha() or ord(unit[0]) >= 0x2E80)
]
_WORD_UNITS = [unit for unit in _UNITS if unit not in _DENSE_UNITS and unit not in ("$", "%")]
_UNIT = late_pattern(
    rf"(?: {{0,3}}|-)(?:(?P<shape>square|sq\.?|cubic|квадратных|quadrat) "
    rf")?(?:(?P<phrase>{_alternatives(_PHRASES)})(?![^\W\d_])"
    rf"|(?P<dense>[$%]|{_alternatives(_DENSE_UNITS)}(?![a-z]))"
    rf"|(?P<word>{_alternatives(_WORD_UNITS)}){_NOT_LETTER_AHEAD})"
    r"(?P<power> {0,12}(?:\^ ?\(?[23]\)?|[²³]|(?<=m)[23](?!\d)))?(?P<per>/(?:h|s|min|kg|l|m)(?![a-z]))?",
    re.IGNORECASE,
)
_CURRENCY_BEFORE = late_pattern(
    r"(?:[$€£¥₩₹₽]|(?:eur|usd|gbp|us\$|euro|rmb) ?)\s?\Z", re.IGNORECASE
)
_FACTOR = late_pattern(r" ?(?:√ ?\(?(?P<root>\d{1,9})\)?|(?P<pi>π))")
_OVER = late_pattern(r" ?/ ?")
_DATE_LIKE = late_pattern(r"\d{1,4}([/.-])\d{1,2}\1\d{2,4}(?!\d)|\d{1,2}:\d{2}")
_START = late_pattern(r"[\d√π.]")
_POWER_BEHIND = late_pattern(r" ?\^")
_VARIABLE_BEHIND = late_pattern(r"[a-zA-Z]")


class Quantity(Struct, frozen=True):
    """A number with its unit in a text, such as `5 km`.

    It is at the characters from `start` up to `end`.
    """

    values: tuple[Fraction, ...]
    """The numbers that the digits may mean.

    There are two if it is unclear whether a separator is decimal: `1.250` may be 1.25 or 1250.
    """
    root: int
    """A whole number whose square root the value is multiplied by: 3 for `2√3`, and 1 if there is
    no root.
    """
    pi: int
    """The power of pi that the value is multiplied by: 1 for `2π`, and 0 if there is no pi."""
    unit: str
    """The unit in a uniform spelling, such as `km`; empty if there is none."""
    start: int
    end: int

    def equals(self, other: Quantity) -> bool:
        """Return whether two quantities can mean the same.

        A quantity without a unit equals one with any unit.
        """
        is_same_number = (
            self.root == other.root
            and self.pi == other.pi
            and not set(self.values).isdisjoint(other.values)
        )
        return is_same_number and units_agree(self.unit, other.unit)


def units_agree(first: str, second: str) -> bool:
    """Return whether two units can be the same: equal ones, a missing one, or a less specific one
    (`°` and `°C`, `¥` and `yen`).
    """
    if first == second or not first or not second:
        return True
    units = {first, second}
    are_degrees = "°" in units and units <= _DEGREES
    are_yen_or_yuan = "¥" in units and units <= _YENS
    return are_degrees or are_yen_or_yuan


def quantities(text: str, decimal: DecimalSign | None = None) -> list[Quantity]:
    """Return the quantities of a text in order, without dates and times of day.

    Args:
        text: Any text, with or without LaTeX.
        decimal: The decimal separator, if it is known; else 1.250 has two values.
    """
    text = plain_latex(text)
    return list(_quantities(text, decimal))


def whole_quantity(text: str, decimal: DecimalSign | None = None) -> Quantity | None:
    """Return the quantity that a text consists of; None if the text contains anything else, or
    several quantities.
    """
    is_latex = text.strip().startswith(("$\\", "\\"))
    text = plain_latex(text).strip(" $.\n" if is_latex else " \n")
    quantities = list(_quantities(text, decimal))
    if len(quantities) != 1:
        return None
    [quantity] = quantities
    has_other_text = text[: quantity.start].strip() or text[quantity.end :].strip(" .")
    return None if has_other_text else quantity


def _quantities(text: str, decimal: DecimalSign | None) -> Iterator[Quantity]:
    """Yield the quantities in a text, from left to right. Dates and times are skipped.

    Args:
        text: The text.
        decimal: The decimal separator, if it is known.
    """
    position = 0
    while True:
        possible_start = _START.search(text, position)
        if possible_start is None:
            return
        start = possible_start.start()
        date = _DATE_LIKE.match(text, start)
        if date is not None:
            position = date.end()
            continue
        position = start + 1
        quantity = _quantity_at(text, start, decimal)
        if quantity is not None:
            yield quantity
            position = max(position, quantity.end)
            continue
        # A number that is not a quantity, such as one in a formula, is skipped as a whole.
        number = _NUMBER.match(text, start)
        if number is not None:
            position = max(position, number.end())


def _quantity_at(text: str, start: int, decimal: DecimalSign | None) -> Quantity | None:
    """Return the quantity whose number begins at `start`, with its unit, such as `-2√3 cm` or `$1/2`.

    A quantity has a number, perhaps with a root or pi, perhaps divided by another one, followed by words for powers of
    ten such as "million" and by a unit. A currency and a sign may precede it.

    Args:
        text: The text.
        start: Index of the first digit, root or pi.
        decimal: The decimal separator, if it is known.

    Returns:
        The quantity. None if there is none, or if it is a part of a word or of a formula, such as `x2` or `2^n`.
    """
    character_before = text[start - 1] if start else ""
    is_ascii_word = character_before.isascii() and character_before.isalnum()
    is_script = character_before != "" and character_before in "_^"
    if is_ascii_word or is_script:
        return None
    numerator = _parse_term(text, start, decimal)
    if numerator is None:
        return None
    values, root, pi, end = numerator
    slash = _OVER.match(text, end)
    denominator = _parse_term(text, slash.end(), None) if slash else None
    if denominator is not None:
        divisors, divisor_root, divisor_pi, denominator_end = denominator
        if all(divisors):  # none is 0
            # sqrt(a) / sqrt(b) = sqrt(a b) / b
            outside, root = _squarefree(root * divisor_root)
            values = tuple(value / divisors[0] * outside / divisor_root for value in values)
            pi -= divisor_pi
            end = denominator_end
    if _POWER_BEHIND.match(text, end):
        return None
    scale, end = _parse_scale(text, end, decimal)
    values = tuple(scale(value) for value in values)
    unit, end = _parse_unit(text, end)
    begin = start
    currency = _CURRENCY_BEFORE.search(text, max(0, start - 5), start)
    if currency is not None and not unit:
        begin = currency.start()
        unit = _UNITS.get(currency[0].strip().lower(), "")
    negative, begin = _parse_sign(text, begin)
    if not unit and _VARIABLE_BEHIND.match(text, end):
        return None
    if negative:
        values = tuple(-value for value in values)
    return Quantity(tuple(dict.fromkeys(values)), root, pi, unit, begin, end)


_MAX_DIGITS = 40
Term = tuple[tuple[Fraction, ...], int, int, int]


def _parse_term(text: str, start: int, decimal: DecimalSign | None) -> Term | None:
    """Parse a number, a square root, pi, or a number times one of these: `2`, `√3`, `π`, `2√3`, `2π`.

    Args:
        text: The text.
        start: Where the term begins.
        decimal: The decimal separator, if it is known.

    Returns:
        The possible values of the number (1 if there is none), the number under the root (1 for no root), the power of
        pi, and the end of the term. None if there is no term.
    """
    number = _NUMBER.match(text, start)
    if number is not None and len(number[0]) > _MAX_DIGITS:
        return None
    values: tuple[Fraction, ...] = (Fraction(1),)
    end = start
    if number is not None:
        values = readings(number[0], decimal)
        end = number.end()

    factor = _FACTOR.match(text, end)
    if factor is None:
        return None if number is None else (values, 1, 0, end)
    if factor["pi"]:
        return values, 1, 1, factor.end()
    outside, radicand = _squarefree(int(factor["root"]))
    return tuple(value * outside for value in values), radicand, 0, factor.end()


def readings(digits: str, decimal: DecimalSign | None = None) -> tuple[Fraction, ...]:
    """Return the possible values of digits with separators, the most likely first.

    "1.250" may be 1.25 or 1250; if `decimal` gives the decimal separator, there is only one value.
    """
    digits = re.sub(r"[ \u00a0\u202f']", "", digits)
    separators = [character for character in digits if character in ",."]
    if not separators:
        return (Fraction(int(digits)),)
    last_separator = separators[-1]
    before, _, after = digits.rpartition(last_separator)
    integer_digits = before.replace(",", "").replace(".", "")
    fraction = Fraction(int(after or "0"), 10 ** len(after))
    as_decimal = Fraction(int(integer_digits or "0")) + fraction
    as_thousands = Fraction(int(integer_digits + after)) if integer_digits else as_decimal
    if len(separators) > 1:
        # 1,250,000 has groups of thousands; in 1,250.5, the last separator is the decimal one.
        is_same_throughout = len(set(separators)) == 1
        return (as_thousands,) if is_same_throughout else (as_decimal,)

    has_groups = re.fullmatch(rf"\d{{1,3}}(?:\{last_separator}\d{{3}})+", digits) is not None
    may_be_thousands = has_groups and not digits.startswith("0")
    if not may_be_thousands or decimal == last_separator:
        return (as_decimal,)
    if decimal is not None:
        return (as_thousands,)
    if last_separator == ",":
        return (as_thousands, as_decimal)
    return (as_decimal, as_thousands)


def _squarefree(number: int) -> tuple[int, int]:
    """Return (outside, inside) with number = outside² · inside, extracting squares of numbers up to 100."""
    outside = 1
    for factor in range(2, 101):
        while number and number % (factor * factor) == 0:
            number //= factor * factor
            outside *= factor
    return outside, number


_FOLLOWER = late_pattern(r" ?(\d[\d,.]{0,20})(?!\d)")


class _Scale(Struct, frozen=True):
    factor: int
    added: Fraction

    def __call__(self, value: Fraction) -> Fraction:
        return value * self.factor + self.added


def _parse_scale(text: str, end: int, decimal: DecimalSign | None) -> tuple[_Scale, int]:
    """Parse the words for powers of ten after a number, such as "million", 万 and 억.

    In East Asian scripts, a smaller number may follow: 1억 2천만 is 1 * 10^8 + 2 * 10^7.

    Args:
        text: The text.
        end: End of the number.
        decimal: The decimal separator, if it is known.

    Returns:
        The scale, which multiplies the number by a power of ten and adds the smaller number; and the end of the words.
    """
    factor = 1
    while factor < 10**12:
        match = _SCALE.match(text, end)
        if match is None:
            break
        scale_word = match["dense"] or match["word"]
        factor *= _SCALES[scale_word.lower()]
        end = match.end()
        if not match["dense"]:
            break

    added = Fraction(0)
    is_east_asian = factor > 1 and not text[end - 1].isascii()
    follower = _FOLLOWER.match(text, end) if is_east_asian else None
    if follower is not None:
        smaller_scale, smaller_end = _parse_scale(text, follower.end(1), decimal)
        if 1 < smaller_scale.factor < factor:
            smaller_number = readings(follower[1].rstrip(",."), decimal)[0]
            added = smaller_scale(smaller_number)
            end = smaller_end
    return _Scale(factor, added), end


def _parse_unit(text: str, end: int) -> tuple[str, int]:
    """Return the canonical name of the unit that follows a number ("square metres" is `m^2`), and where it ends.

    Args:
        text: The text.
        end: End of the number. It is returned, with an empty unit, if no unit follows.
    """
    match = _UNIT.match(text, end)
    if match is None:
        return "", end
    written = match["phrase"] or match["dense"] or match["word"]
    lower_case = written.lower()
    unit = _PHRASES.get(lower_case) or _UNITS.get(lower_case) or _UNITS.get(written, "")

    power = match["power"] or ""  # `²` or `^2` after the unit
    shape = (match["shape"] or "").lower()  # "square" or "cubic" before it
    if "2" in power or "²" in power or shape.startswith(("sq", "q", "к")):
        unit += "^2"
    elif "3" in power or "³" in power or shape == "cubic":
        unit += "^3"
    return unit + (match["per"] or ""), match.end()


def _parse_sign(text: str, start: int) -> tuple[bool, int]:
    """Return whether a number is negative, and the index at which it begins, including its sign.

    A minus, written as a sign or as the word, does not make the number negative if it is a hyphen (`A-3`), the dash of a
    range (`2-3`), or a subtraction (`5 -3`).
    """
    sign_at = start - 1
    has_sign = sign_at >= 0 and text[sign_at] in "-−–"
    if not has_sign:
        word = _MINUS_WORD.search(text, max(0, start - 12), start)
        if word is None:
            return False, start
        earlier = text[: word.start()].rstrip()[-1:]
        if earlier.isdigit():
            return False, start
        return True, word.start()

    before = text[max(0, sign_at - 1) : sign_at]
    if before == " ":
        # "5 -3" is a subtraction, but "about -3" is not.
        is_subtraction = text[:sign_at].rstrip()[-1:].isdigit()
    else:
        is_subtraction = before.isalnum() or before in tuple(")]%π²³")
    if is_subtraction:
        return False, start
    return True, sign_at


_MINUS_WORD = late_pattern(
    r"\b(?:minus|negative|moins|meno|menos|минус|マイナス|负|負|마이너스) ?\Z", re.IGNORECASE
)


# --- agreement of texts ------------------------------------------------------------------------------------------


@lru_cache(maxsize=8192)
def _of_text(text: str) -> tuple[Quantity, ...]:
    return tuple(quantities(text[:10_000]))


def quantities_agree(reply: str, gold: str) -> bool:
    """Return whether a reply has the same quantities as the correct answer, in the same order.

    Signs and units count: -5 is not 5, $10 is not EUR 10, and 5 km is not 5 cm.
    """
    reply_quantities = _of_text(reply)
    gold_quantities = _of_text(gold)
    if len(reply_quantities) != len(gold_quantities):
        return False
    pairs = zip(reply_quantities, gold_quantities, strict=True)
    return all(stated.equals(expected) for stated, expected in pairs)


def holds_quantities(reply: str, gold: str) -> bool:
    """Return whether a reply contains every quantity of the correct answer, in any order; True if
    the answer has none.
    """
    reply_quantities = _of_text(reply)
    for expected in _of_text(gold):
        if not any(quantity.equals(expected) for quantity in reply_quantities):
            return False
    return True
