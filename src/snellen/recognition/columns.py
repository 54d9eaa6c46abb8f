"""Which column holds what: by the names that people give them, and by what their cells look like.

How a column of answers names the right option, decided by all rows: letter, text, or number from 0 or from 1.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from snellen.common.answer_forms import FORMS, AnswerForm
from snellen.formats.delimited import LETTERS
from snellen.formats.json_files import packaged_toml
from snellen.recognition.profiles import ColumnProfile

_LABELLED = re.compile(r"[(\[]?([A-Za-z])[)\].:]\s+\S.*", re.DOTALL)
_SEPARATORS = re.compile(r"[-_\s]+")
_SPLITS = ("\n", "|", ";")


def as_text(value: Any) -> str:
    """A value as text; JSON numbers and booleans as they are written, decimals and dates without quotation marks."""
    if isinstance(value, str):
        return value
    text = msgspec.json.encode(value).decode()
    return str(msgspec.json.decode(text)) if text.startswith('"') else text


def folded_name(name: str) -> str:
    """A column's name for comparison: small letters, one underscore for any run of spaces, dashes and underscores."""
    return _SEPARATORS.sub("_", name.strip().casefold())


def split_options(text: str) -> list[str] | None:
    """The options in a text that separates them by lines, `|` or `;`."""
    for sign in _SPLITS:
        if len(parts := [part.strip() for part in text.split(sign) if part.strip()]) > 1:
            return parts
    return None


def option_meant(
    form: AnswerForm, answer: Any, options: Sequence[str], names: Sequence[str] = ()
) -> int | None:
    """The index of the option that an answer names in this form, or None; `names` are those of the options' columns."""
    if isinstance(answer, list) and len(answer) == 1:
        [answer] = answer
    text = unicodedata.normalize("NFKC", as_text(answer)).strip()
    match form:
        case "letter":
            return _by_letter(text, options, names)
        case "text":
            return _by_text(text, options)
        case "index0" | "index1":
            number = _number(text)
            place = -1 if number is None else number - (form == "index1")
            return place if 0 <= place < len(options) else None
    return None


def _by_letter(text: str, options: Sequence[str], names: Sequence[str]) -> int | None:
    column = folded_name(text)
    if len(column) > 1 and column in (columns := [folded_name(name) for name in names]):
        return columns.index(column)
    labelled = _LABELLED.fullmatch(text)
    letter = (labelled[1] if labelled else text.strip("()[].:、， ")).upper()
    letters = LETTERS[: len(options)]
    return letters.index(letter) if len(letter) == 1 and letter in letters else None


def _by_text(text: str, options: Sequence[str]) -> int | None:
    for shape in (str.strip, lambda option: option.strip().casefold()):
        places = [
            place
            for place, option in enumerate(options)
            if shape(unicodedata.normalize("NFKC", option)) == shape(text)
        ]
        if len(places) == 1:
            return places[0]
    return None


def _number(text: str) -> int | None:
    match = re.fullmatch(r"(\d{1,4})(?:\.0+)?", text)
    return int(match[1]) if match else None


@lru_cache(maxsize=4096)
def _all_meant(
    answer: str, options: tuple[str, ...], names: tuple[str, ...]
) -> dict[str, int | None]:
    """The option that an answer means in each form."""
    return {form: option_meant(form, answer, options, names) for form in FORMS}


class AnswerColumn:
    """What the cells of a column may mean in each form, counted over the rows that have options."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows = 0
        self.fits = dict.fromkeys(FORMS, 0)
        self._own = 0
        self._differ: set[frozenset[str]] = set()
        self.meant: dict[str, list[int | None]] = {form: [] for form in FORMS}
        self.example: tuple[str, Any, Sequence[str]] | None = None

    def add(self, where: str, answer: Any, options: Sequence[str], names: Sequence[str]) -> None:
        if answer is None or answer == "" or not options:
            for form in FORMS:
                self.meant[form].append(None)
            return
        self.rows += 1
        value = answer[0] if isinstance(answer, list) and len(answer) == 1 else answer
        meant = _all_meant(as_text(value), tuple(options), tuple(names))
        for form in FORMS:
            self.fits[form] += meant[form] is not None
            self.meant[form].append(meant[form])
        is_number = isinstance(answer, int) and not isinstance(answer, bool)
        places = (meant["index0"],) if is_number else (meant["letter"], meant["text"])
        fits_own = any(place is not None for place in places)
        self._own += fits_own
        if all(place is None for place in meant.values()) and self.example is None:
            self.example = where, answer, options
        for first in FORMS if len(set(meant.values())) > 1 else ():
            for second in FORMS:
                if (
                    meant[first] is not None
                    and meant[second] is not None
                    and meant[first] != meant[second]
                ):
                    self._differ.add(frozenset((first, second)))

    @property
    def fit(self) -> float:
        """The greatest share of rows that one form explains, or the rule for mixed rows."""
        return max(*self.fits.values(), self._own) / self.rows if self.rows else 0.0

    @property
    def fit_in_words(self) -> float:
        """The same of letters and texts: a number may be anything."""
        return max(self.fits["letter"], self.fits["text"]) / self.rows if self.rows else 0.0

    def forms(self) -> tuple[AnswerForm, ...]:
        """The forms that explain as many rows as can be; more than one where they mean different options."""
        if self._own > max(self.fits.values()):
            return ("any",)
        best = [form for form in FORMS if self.fits[form] == max(self.fits.values())]
        first = best[0]
        rivals = [form for form in best[1:] if frozenset((first, form)) in self._differ]
        if first == "letter" and rivals == ["text"]:
            return ("any",)  # letters of columns go before; other rows are refused one by one
        return (first, *rivals)


SEVERAL = (
    "reply",
    "picture",
    "options",
    "distractors",
    "tag",
    "caption",
    "attributes",
    "fields",
    "box",
)
"""Roles that several columns may have together."""
MOST_CHOICES = 6
"""Columns that a line names where nobody can be asked."""
CLOSE = 0.15
"""A difference of scores that decides nothing."""
PARTLY = 0.5
"""What a name is worth of which only a part says what the column holds."""
_ASIDE = frozenset(
    "type count id ids width height size lang language source time date timestamp confidence score license licence "
    "category hash md5 sha256 split email details explanation rationale typ anzahl zeit datum".split()
)
"""Parts of names of columns that are about another column."""
_CORNERS = (
    ("xmin", "ymin", "xmax", "ymax"),
    ("left", "top", "right", "bottom"),
    ("x1", "y1", "x2", "y2"),
)
_ABOUT_DATA = frozenset("split source licence license lang language id".split())
_WORDS = re.compile(r"[^\W\d][^\d]*")
_BRACKETS = re.compile(r"[(\[（【].*?[)\]）】]|[:：*?]")
_SERIES = re.compile(r"(.*?)[-_.\s]*(\d{1,2}|(?<![A-Za-z])[A-Za-z]|(?<=[a-zäöüéó])[A-Z])[.)]?")


class Doubt(Struct, frozen=True):
    """What cannot be told from the data: a role and what may have it."""

    role: str
    choices: tuple[str, ...]
    why: str

    def line(self) -> str:
        """The choices with the flag that decides, in one line."""
        flags = " or ".join(self.flag(choice) for choice in self.choices[:MOST_CHOICES])
        more = (
            f" (or another of {len(self.choices)} columns)"
            if len(self.choices) > MOST_CHOICES
            else ""
        )
        return f"{self.why}; say {flags}{more}"

    def flag(self, choice: str) -> str:
        if self.role == "answer_is":
            return f"--answer-is {choice}"
        return " ".join(f"--column {self.role}={name}" for name in choice.split(" + "))


Roles = dict[str, tuple[str, ...]]
"""The columns of each role."""


@cache
def usual_names() -> Mapping[str, tuple[str, ...]]:
    """The usual names of columns, by what they hold, the surest first."""
    return packaged_toml("snellen.recognition", "names.toml", dict[str, tuple[str, ...]])


GROUND_TRUTH = "gt"
"""Begins names of right answers: `gt_gender`."""


def name_score(role: str, column: str) -> float:
    """How surely a name says that a column has a role, from 0 to 1."""
    name = folded_name(_BRACKETS.sub(" ", column).rpartition(".")[2])
    names = usual_names()[role]
    if name in names:
        return 1 - 0.3 * names.index(name) / len(names)
    parts = set(name.split("_"))
    telling = {usual for usual in names if len(usual) > 2 or usual == GROUND_TRUTH}
    if parts & _ASIDE or not parts & telling:
        return 0.0
    return PARTLY


def picture_columns(profiles: Mapping[str, ColumnProfile]) -> tuple[tuple[str, ...], Doubt | None]:
    """The columns of pictures: one, or several that are numbered."""
    looks = [name for name, profile in profiles.items() if profile.pictures >= 0.5]
    usual = [
        name
        for name in ("image", "image_path")
        if name in profiles and (profiles[name].pictures or not looks)
    ]
    embedded = [name for name in looks if profiles[name].is_embedded]
    if (
        len(usual) == 1
        and len(embedded) == 1
        and usual != embedded
        and usual[0] in folded_name(embedded[0]).split("_")
    ):
        return (embedded[0],), None  # decoded_image beside the names of files in image
    if len(usual) == 1:
        further = [place for place in range(2, 33) if f"image_{place}" in profiles]
        return (
            *usual,
            *(f"image_{place}" for place in range(2, max(further, default=0) + 1)),
        ), None
    for stem, members in series(looks).items():
        first = [name for name in looks if folded_name(name) == stem and name not in members]
        if len(first) + len(members) > 1:
            return (*first, *members), None
    here = [name for name in looks if not profiles[name].is_url] or looks
    scores = {name: name_score("picture", name) + 0.3 * profiles[name].is_embedded for name in here}
    return _best("picture", scores, "hold pictures", together=True)


def _best(
    role: str, scores: Mapping[str, float], phrase: str, *, together: bool = False
) -> tuple[tuple[str, ...], Doubt | None]:
    if not scores:
        return (), None
    ranked = sorted(scores, key=lambda name: -scores[name])
    rivals = [name for name in ranked if scores[ranked[0]] - scores[name] < CLOSE]
    if len(rivals) == 1:
        return (ranked[0],), None
    return (), rivalry(role, rivals, phrase, (" + ".join(rivals),) if together else ())


def rivalry(role: str, rivals: Sequence[str], phrase: str, joint: tuple[str, ...] = ()) -> Doubt:
    """The doubt which of several columns has a role."""
    return Doubt(
        role, (*rivals, *joint), f"the columns {' and '.join(map(repr, rivals))} may all {phrase}"
    )


def series(names: Sequence[str]) -> dict[str, list[str]]:
    """Columns that are numbered or lettered from the first on, by what their names have in common."""
    stems: dict[str, dict[str, str]] = {}
    for name in names:
        if match := _SERIES.fullmatch(name.strip()):
            stems.setdefault(folded_name(match[1]), {}).setdefault(match[2].upper(), name)
    chains: dict[str, list[str]] = {}
    for stem, members in stems.items():
        for labels in (
            [*LETTERS],
            [str(n) for n in range(1, 40)],
            [str(n) for n in range(40)],
            [str(n) for n in range(2, 40)],
        ):
            chain = [members[label] for label in labels[: _run(labels, members)]]
            if len(chain) > len(chains.get(stem, ())) and (len(chain) > 1 or labels[0] == "2"):
                chains[stem] = chain
    return chains


def _run(labels: Sequence[str], members: Mapping[str, str]) -> int:
    return next((place for place, label in enumerate(labels) if label not in members), len(labels))


def option_columns(
    profiles: Mapping[str, ColumnProfile], used: Sequence[str]
) -> tuple[tuple[str, ...], Doubt | None]:
    """The columns of options: one with lists, or one for each option."""
    free = {name: profile for name, profile in profiles.items() if name not in used}
    lettered = {name.strip().upper(): name for name in free if len(name.strip()) == 1}
    run = tuple(lettered[letter] for letter in LETTERS[: _run(LETTERS, lettered)])
    letters = max(run, tuple(letter for letter in LETTERS[:10] if letter in free), key=len)
    if "options" in free and len(letters) > 1:
        why = "the column 'options' and those of letters may all hold the options"
        return (), Doubt("options", ("options", " + ".join(letters)), why)
    if "options" in free:
        return ("options",), None
    if len(letters) > 1 or letters in (("A",), ("B",)):
        return letters, None
    lists = {
        name: score
        for name, profile in free.items()
        if profile.boxes + profile.messages < 0.5
        and not profile.are_letters
        and (score := name_score("options", name))
        and (profile.lists > 0.5 or _is_split(profile))
    }
    if lists:
        return _best("options", lists, "hold the options")
    chains = {
        stem: tuple(chain)
        for stem, chain in series(
            [name for name, profile in free.items() if profile.is_scalar]
        ).items()
        if len(chain) > 1 and not name_score("picture", stem) and chain[0][-1] != "2"
    }
    named_chains = {
        stem: chain for stem, chain in chains.items() if name_score("options", stem) or not stem
    }
    if len(named_chains or chains) == 1:
        [chain] = (named_chains or chains).values()
        return chain, None
    unnamed = [
        name
        for name, profile in free.items()
        if profile.lists > 0.8
        and not profile.boxes
        and not profile.messages
        and not any(
            name_score(role, name)
            for role in ("answer", "caption", "question", "objects", "relevance")
        )
    ]
    return (tuple(unnamed), None) if len(unnamed) == 1 else ((), None)


def distractor_columns(
    profiles: Mapping[str, ColumnProfile], used: Sequence[str]
) -> tuple[str, ...]:
    """The columns of wrong answers, where the right one has a column of its own."""
    free = [name for name, profile in profiles.items() if name not in used and profile.is_scalar]
    chains = [
        chain for stem, chain in series(free).items() if name_score("distractors", stem.rstrip("_"))
    ]
    alone = [
        name for name in profiles if name not in used and name_score("distractors", name) > PARTLY
    ]
    return tuple(sorted(chains, key=len)[-1]) if chains else tuple(alone)


def _is_split(profile: ColumnProfile) -> bool:
    cells = list(profile.texts)[:50]
    return bool(cells) and all(split_options(cell) for cell in cells)


def question_column(
    profiles: Mapping[str, ColumnProfile], used: Sequence[str], *, has_options: bool
) -> tuple[tuple[str, ...], Doubt | None]:
    """The column of questions, by its name or since its texts end in question marks."""
    if "question" in profiles:
        return ("question",), None
    scores = {}
    for name, profile in profiles.items():
        if name in used or not profile.is_text or profile.pictures >= 0.5:
            continue
        score_of_name = name_score("question", name)
        score = score_of_name + 0.7 * profile.questions
        is_plain_text = score_of_name < 0.95 and profile.questions < 0.2 and not has_options
        if score >= 0.5 and not (is_plain_text and name_score("caption", name)):
            scores[name] = score
    return _best("question", scores, "be the question")


def id_column(profiles: Mapping[str, ColumnProfile], used: Sequence[str]) -> tuple[str, ...]:
    """The column of ids: one whose name says so and whose cells all differ; of several any will do."""
    for usual in ("id", "index"):
        if usual in profiles and usual not in used:
            return (usual,)
    scores = {
        name: name_score("id", name)
        for name, profile in profiles.items()
        if name not in used
        and profile.is_scalar
        and name_score("id", name) > PARTLY
        and len(profile.texts) >= min(profile.filled, 1000)
    }
    return (max(scores, key=lambda name: scores[name]),) if scores else ()


def label_column(
    profiles: Mapping[str, ColumnProfile], *, only_sure: bool
) -> tuple[tuple[str, ...], Doubt | None]:
    """The column of class names; `category` and `name` beside each other may both be it."""
    scores = {
        name: score
        for name, profile in profiles.items()
        if profile.is_scalar
        and profile.words <= 4
        and (score := name_score("label", name)) > PARTLY
    }
    if sure := [name for name in scores if folded_name(name) in usual_names()["label"][:3]]:
        return (max(sure, key=lambda name: scores[name]),), None
    return ((), None) if only_sure else _best("label", scores, "be the class that a picture shows")


def box_columns(profiles: Mapping[str, ColumnProfile]) -> tuple[str, ...]:
    """The columns with left, top, right and bottom of a box."""
    by_folded_name = {folded_name(name).replace("_", ""): name for name in profiles}
    for corners in _CORNERS:
        if by_folded_name.keys() >= set(corners):
            return tuple(by_folded_name[corner] for corner in corners)
    return ()


def attribute_columns(profiles: Mapping[str, ColumnProfile]) -> tuple[str, ...]:
    """Columns of words that several pictures have, and that are not about the data: attributes."""
    return tuple(
        name
        for name, profile in profiles.items()
        if profile.has_short_texts
        and 1 < len(profile.texts) <= max(2, profile.filled // 4)
        and all(_WORDS.fullmatch(text) for text in profile.texts)
        and not set(folded_name(name).split("_")) & _ABOUT_DATA
    )


def one_by_name(
    role: str, profiles: Mapping[str, ColumnProfile], used: Sequence[str]
) -> tuple[str, ...]:
    """The column with a role by its whole name."""
    scores = {
        name: name_score(role, name)
        for name in profiles
        if name not in used and name_score(role, name) > PARTLY
    }
    return (max(scores, key=lambda name: scores[name]),) if scores else ()


# --- replies of a model -------------------------------------------------------------------------------------------------

_REPLY_WORDS = frozenset(
    "prediction predictions predicted pred response responses reply output outputs generated generation completion".split()
)
_RAW_WORDS = frozenset("full raw original whole".split())
_MADE_WORDS = frozenset(
    "extracted extraction parsed clean cleaned processed filtered norm normalized letter option choice idx index indexs "
    "label correct right score scores rating match hit judge judgement judgment eval evaluation log reason explanation "
    "confidence logprob logprobs prob probs token tokens length len time latency usage list class type id key status code "
    "file path image format".split()
)
"""Words in names of columns that a harness made of replies, or that are about them."""
_GOLDS = (
    "gt_answers",
    "gt_answer",
    "label",
    "gt",
    "ground_truth",
    "gold",
    "target",
    "y_true",
    "true_answer",
    "reference",
)
_WORD_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_a-zA-Z]+")


def reply_score(name: str, profile: ColumnProfile) -> float:
    """How surely a column holds the replies of a model, from 0 to 1: as they came, rather than what was read in them."""
    if profile.completions > 0.5:
        return 1.0
    return _reply_name_score(name) if profile.is_scalar or profile.lists > 0.5 else 0.0


def is_name_of_reply(name: str) -> bool:
    """Whether a column or field is called as if it held the replies of a model."""
    return _reply_name_score(name) > 0


def _reply_name_score(name: str) -> float:
    last = name.rpartition(".")[2]
    folded = folded_name(_BRACKETS.sub(" ", last))
    names = usual_names()["reply"]
    if folded in names:
        return 1 - 0.4 * names.index(folded) / len(names)
    words = {word.casefold() for word in _WORD_PARTS.findall(last)}
    is_answer_of = "answer" in words and not words.isdisjoint(_ANSWERERS)
    if not words & _REPLY_WORDS and not is_answer_of:
        return 0.0
    if words & _MADE_WORDS:
        return 0.2
    return 0.55 if words & _RAW_WORDS else PARTLY


_ANSWERERS = frozenset("model raw gpt llm vlm bot".split())


def says_of_reply(name: str, profile: ColumnProfile) -> bool:
    """Whether a column holds what was read in replies, or a verdict on them, rather than a fact about the question."""
    return bool(reply_score(name, profile)) or is_verdict(name)


def is_verdict(name: str) -> bool:
    """Whether a column is called as if it said of each reply whether it is right, or what was read in it."""
    words = {word.casefold() for word in _WORD_PARTS.findall(name.rpartition(".")[2])}
    return bool(words & _VERDICT_WORDS)


_VERDICT_WORDS = frozenset(
    "correct right hit match score rating judge verdict extracted extraction".split()
)


def reply_columns(
    profiles: Mapping[str, ColumnProfile], *, is_gold_known: bool = False
) -> tuple[str, ...]:
    """The columns that hold the replies of a model; of several that may, the one with replies as they came.

    A column that is usually the right answer (`output`, `response`) is it where another column has the replies and none
    else has right answers. `is_gold_known` says that the answers are known from elsewhere, so that `answer` may be the
    reply, as in POPE's files.
    """
    scores = {
        name: score for name, profile in profiles.items() if (score := reply_score(name, profile))
    }
    ranked = sorted(scores, key=lambda name: -scores[name])
    if ranked:
        other_golds = [
            name for name in profiles if name not in ranked and name_score("answer", name) > PARTLY
        ]
        if not other_golds and not is_gold_known:
            is_gold = {name: name_score("answer", name) > PARTLY for name in ranked}
            only_replies = [name for name in ranked if not is_gold[name]]
            if only_replies and len(only_replies) < len(ranked):
                return (only_replies[0],)
        return (ranked[0],)

    folded = {folded_name(name.rpartition(".")[2]): name for name in profiles}
    if "answer" in folded and (is_gold_known or any(gold in folded for gold in _GOLDS)):
        return (folded["answer"],)
    asks = "question" in folded or "prompt" in folded
    has_golds = any(gold in folded for gold in _GOLDS)
    if "text" in folded and (asks or ("question_id" in folded and not has_golds)):
        return (folded["text"],)
    if "caption" in folded and any(name in folded for name in ("image_id", "image", "id")):
        return (folded["caption"],)
    for name in ("result", "results"):
        if name in folded:
            return (folded[name],)
    return ()
