"""Recognise the role of a column by its name and by the look of its cells.

`AnswerColumn` decides from all rows how answers name the correct option: by letter, text, or index from 0 or 1.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import combinations
from typing import Any, Literal

from msgspec import Struct

from snellen.callers import setting
from snellen.common.answer_forms import FORMS, AnswerForm
from snellen.formats.delimited import LETTERS
from snellen.formats.json_files import packaged_toml
from snellen.recognition.folding import as_text, folded_name
from snellen.recognition.named_option import named_option
from snellen.recognition.profiles import ColumnProfile

_SEPARATORS = ("\n", "|", ";")


def split_options(text: str) -> list[str] | None:
    """Return the options in a text that separates them by lines, `|` or `;`; None if it has fewer than two."""
    for separator in _SEPARATORS:
        parts = [part.strip() for part in text.split(separator) if part.strip()]
        if len(parts) > 1:
            return parts
    return None


@lru_cache(maxsize=4096)
def _all_meant(
    answer: str, options: tuple[str, ...], names: tuple[str, ...]
) -> dict[str, int | None]:
    """Return the index of the option that an answer names in each form, such as `letter` or `index0`.

    The index is None for forms in which it names no option: `B` is 1 as a letter and None as a
    number.
    """
    return {form: named_option(answer, options, form, columns=names) for form in FORMS}


class AnswerColumn:
    """Counts in how many rows a column names one of the options, for each form in which it may do so.

    A form is a way of naming an option: by letter, by text, or by a number that counts from 0 or 1.
    Only rows with an answer and options are counted.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows = 0
        self.fits = dict.fromkeys(FORMS, 0)
        self._any_fits = 0
        """Cells that fit the form `any`: numbers as indices from 0, texts as letters or option texts."""
        self._conflicts: set[frozenset[str]] = set()
        """Pairs of forms by which a cell names different options."""
        self._numbered_keys: Literal["index0", "index1", ""] = ""
        """Form of the keys, if options are an object with numbered keys: `{"1": "a cat", "2": "a dog"}`."""
        self.meant: dict[str, list[int | None]] = {form: [] for form in FORMS}
        """By form, the option that each row's cell names."""
        self.example: tuple[str, Any, Sequence[str]] | None = None
        """The first cell that fits no form: its place, the answer, and the options."""

    def add(self, where: str, answer: Any, options: Sequence[str], names: Sequence[str]) -> None:
        """Count a row.

        Args:
            where: The row, for messages.
            answer: The cell of this column.
            options: The options of the row.
            names: The columns of the options, if they have one column each.
        """
        if answer is None or answer == "" or not options:
            for form in FORMS:
                self.meant[form].append(None)
            return
        self.rows += 1
        keys = [name.rpartition(".")[2] for name in names if "." in name]
        if keys and keys == [str(number) for number in range(len(keys))]:
            self._numbered_keys = "index0"
        elif keys and keys == [str(number) for number in range(1, len(keys) + 1)]:
            self._numbered_keys = "index1"
        value = answer[0] if isinstance(answer, list) and len(answer) == 1 else answer
        meant = _all_meant(as_text(value), tuple(options), tuple(names))
        for form in FORMS:
            self.fits[form] += meant[form] is not None
            self.meant[form].append(meant[form])
        is_number = isinstance(answer, int) and not isinstance(answer, bool)
        if is_number:
            self._any_fits += meant["index0"] is not None
        else:
            self._any_fits += meant["letter"] is not None or meant["text"] is not None
        if all(option is None for option in meant.values()) and self.example is None:
            self.example = where, answer, options
        fitting = {form: option for form, option in meant.items() if option is not None}
        for first, second in combinations(fitting, 2):
            if fitting[first] != fitting[second]:
                self._conflicts.add(frozenset((first, second)))

    @property
    def fit(self) -> float:
        """The largest share of rows, from 0 to 1, in which a single form names an option.

        `any` counts as a form: numbers from 0 together with letters and texts.
        """
        return max(*self.fits.values(), self._any_fits) / self.rows if self.rows else 0.0

    @property
    def fit_in_words(self) -> float:
        """The largest share of rows in which letters, or texts, name an option.

        Numbers are ignored here, because they may mean anything.
        """
        return max(self.fits["letter"], self.fits["text"]) / self.rows if self.rows else 0.0

    def forms(self) -> tuple[AnswerForm, ...]:
        """Return the form in which most cells name an option.

        If other forms fit as well but name other options (1 is the first or the second one), these
        follow, so that the user can choose.
        """
        most = max(self.fits.values())
        # If the option texts fit as well, they are numbers themselves.
        if self._numbered_keys and self.fits[self._numbered_keys] == most > self.fits["text"]:
            return (self._numbered_keys,)
        if self._any_fits > max(self.fits.values()):
            return ("any",)
        best = [form for form in FORMS if self.fits[form] == max(self.fits.values())]
        first = best[0]
        rivals = [form for form in best[1:] if frozenset((first, form)) in self._conflicts]
        if first == "letter" and rivals == ["text"]:
            return ("any",)  # a letter names its column; the reader rejects other ambiguous rows
        return (first, *rivals)


SEVERAL = (
    "reply",
    "image",
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
"""The message about a doubt names at most this many columns."""
CLOSE = 0.15
"""Scores that differ by less than this do not decide between columns."""
PARTLY = 0.5
"""The score of a name that contains a usual name of the role, such as `gt_gender`. Full matches score higher."""
_ASIDE = frozenset(
    "type count id ids width height size lang language source time date timestamp confidence score license licence "
    "category objects hash md5 sha256 split email details explanation rationale typ anzahl zeit datum".split()
)
"""Words in the name of a column that describes another column: `image_width`."""
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
    """A choice that the user has to make, between columns that may have a role or between forms of answers."""

    role: str
    choices: tuple[str, ...]
    why: str

    def line(self) -> str:
        """Return one line with the reason and the flags to choose from."""
        flags = " or ".join(self.flag(choice) for choice in self.choices[:MOST_CHOICES])
        more = (
            f" (or another of {len(self.choices)} columns)"
            if len(self.choices) > MOST_CHOICES
            else ""
        )
        return f"{self.why}; say {flags}{more}"

    def flag(self, choice: str) -> str:
        if self.role == "answer_is":
            return setting("answer_is", choice)
        return setting("columns", {self.role: choice.split(" + ")})


Roles = dict[str, tuple[str, ...]]
"""The columns of each role."""


@cache
def usual_names() -> Mapping[str, tuple[str, ...]]:
    """Return the usual names of columns by role, the most certain first."""
    return packaged_toml("snellen.recognition", "names.toml", dict[str, tuple[str, ...]])


SUREST_OPTIONS = 3
"""How many of the usual names of options, the most certain first, an object with their texts and letters may have."""
GROUND_TRUTH = "gt"
"""Prefix in names of columns with the ground truth: `gt_gender`."""
_MARK_OF_GOLD = r"(?:gt|gold(?:en)?|ground_?truth|true|correct|right|refs?|references?|expected|target|standard|official)"
_NOUN_OF_ANSWER = (
    r"(?:final_)?(?:ans|answers?|labels?|options?|choices?|letters?|class|text|string|value|response|output|captions?|"
    r"solution|idx|index|indices|list|box|bbox|relation|number|final)"
)
_CALLED_GOLD = re.compile(
    rf"{_MARK_OF_GOLD}_{_NOUN_OF_ANSWER}|{_NOUN_OF_ANSWER}_{_MARK_OF_GOLD}|(?:gt|gold|expected|true)_(?:count|name|id)"
)
"""Names that say both that a column is the ground truth and that it holds answers: `gt_caption`, `answer_gold`."""
_CALLED_GOLD_SCORE = 0.72
_CALLED_SCORE = re.compile(
    r"^(?!gt_|gold_|true_|ground_?truth_).*_(?:match|f1|em|similarity|overlap|accuracy|acc|recall|precision|bleu|rouge|"
    r"meteor|anls|mrr|wer|cer|iou)$"
)
"""Names of columns with the score of a reply: `answer_exact_match`, `best_answer_similarity`."""
RIGHT_OF_ANOTHER_THING = re.compile(
    r"(?:correct|right)_(?:pages?|doc(?:ument)?s?|passages?|claims?|evidence|chunks?|images?|files?|format|language|"
    r"steps?|tools?|sources?)(?:_|$)|(?:^|_)(?:pages?|passages?|evidence|chunks?|format|language|steps?|tools?|sources?)_"
    r"(?:correct(?:ness)?|right|match|accuracy|score)$|(?:^|_)top_?(?:[2-9]|\d{2,})(?:_|$)"
    r"|(?:^|_)(?:api|http|requests?|calls?|retry|pars(?:e|ed|er|ing)|json|format|load(?:ing)?|downloads?|uploads?|inference|"
    r"generation|execution|response|status)_(?:success(?:ful(?:ly)?)?|succeeded|passed|pass|ok)$"
    r"|(?:^|_)(?:attack|jailbreak)s?_success|success(?:ful)?_(?:attack|jailbreak)s?(?:_|$)"
)
"""Names of verdicts on something else than the reply: `used_correct_page`, `format_correct`, `api_success`, `top5_hit` of
guesses, and `attack_success`, with which the model failed."""
_OF_QUESTIONS = frozenset("prompt prompts question questions instruction query template".split())
"""Words in the name of a column that holds a question, also where the name mentions its answer: `prompt_answer`."""


_OF_ANSWERS = frozenset("answer answers reply response output prediction refusal".split())
"""Words in the name of a column that holds no question, although the name may have a word such as `text`: `answer_text`."""
_ONLY_WHOLE = {"answer": frozenset(("response", "output")), "label": frozenset(("name",))}
"""Usual names that mean something else where they are only a part of a name: `agent_response`, `function_name`."""


def without_brackets(name: str) -> str:
    """Return the name of a column with spaces in place of brackets and what is in them, and of signs such as colons."""
    return _BRACKETS.sub(" ", name)


def name_score(role: str, column: str) -> float:
    """Return how certainly a column has a role by its name, from 0 to 1.

    A usual name of the role scores from 0.7 to 1, a name with a usual name as a part scores `PARTLY`.
    """
    outer, _, last = without_brackets(column).rpartition(".")
    name = folded_name(last)
    names = usual_names()[role]
    if folded_name(outer.rpartition(".")[2]) in usual_names()["options"][:SUREST_OPTIONS]:
        # In ARC, `choices` is an object: its field `text` has the options, and `label` their letters.
        if role == "options" and name in ("text", "texts"):
            return 1.0
        if role == "answer":
            return 0.0
    if name in names:
        return 1 - 0.3 * names.index(name) / len(names)
    parts = set(name.split("_"))
    if role == "answer" and parts & _OF_QUESTIONS:
        return 0.0
    if role == "answer" and _CALLED_GOLD.fullmatch(name):
        return _CALLED_GOLD_SCORE
    if role == "answer" and _CALLED_SCORE.search(name):
        return 0.0
    if role == "verdict" and RIGHT_OF_ANOTHER_THING.search(name):
        return 0.0
    if role == "question" and parts & _OF_ANSWERS and not parts & _OF_QUESTIONS:
        return 0.0
    usual_parts = {usual for usual in names if len(usual) > 2 or usual == GROUND_TRUTH}
    usual_parts -= _ONLY_WHOLE.get(role, frozenset())
    if parts & _ASIDE or not parts & usual_parts:
        return 0.0
    return PARTLY


def picture_columns(profiles: Mapping[str, ColumnProfile]) -> tuple[tuple[str, ...], Doubt | None]:
    """Return the columns of images: one, or several numbered ones such as `image_1` and `image_2`.

    If it is unclear which columns are meant, no columns and a doubt are returned. A doubt is a
    choice that the user has to make.
    """
    image_like = [name for name, profile in profiles.items() if profile.pictures >= 0.5]
    usual = [
        name
        for name in ("image", "image_path")
        if name in profiles and (profiles[name].pictures or not image_like)
    ]
    embedded = [name for name in image_like if profiles[name].is_embedded]
    if (
        len(usual) == 1
        and len(embedded) == 1
        and usual != embedded
        and usual[0] in folded_name(embedded[0]).split("_")
    ):
        return (embedded[0],), None  # `decoded_image`, where `image` holds names of files
    if len(usual) == 1:
        numbers = [number for number in range(2, 33) if f"image_{number}" in profiles]
        last_number = max(numbers, default=1)
        numbered = [f"image_{number}" for number in range(2, last_number + 1)]
        return (*usual, *numbered), None
    for stem, members in series(image_like).items():
        unnumbered = [
            name for name in image_like if folded_name(name) == stem and name not in members
        ]
        if len(unnumbered) + len(members) > 1:
            return (*unnumbered, *members), None
    candidates = [name for name in image_like if not profiles[name].is_url] or image_like
    scores = {
        name: name_score("image", name) + 0.3 * profiles[name].is_embedded for name in candidates
    }
    return _best("image", scores, "hold images", together=True)


def _best(
    role: str, scores: Mapping[str, float], phrase: str, *, together: bool = False
) -> tuple[tuple[str, ...], Doubt | None]:
    """Return the column with the highest score, or a doubt if others are close.

    Args:
        role: The role that the column gets.
        scores: Scores by column.
        phrase: What the columns may all do, for the message of the doubt.
        together: Whether all close columns together are a choice too.
    """
    if not scores:
        return (), None
    ranked = sorted(scores, key=lambda name: -scores[name])
    rivals = [name for name in ranked if scores[ranked[0]] - scores[name] < CLOSE]
    if len(rivals) == 1:
        return (ranked[0],), None
    return (), rivalry(role, rivals, phrase, (" + ".join(rivals),) if together else ())


def rivalry(role: str, rivals: Sequence[str], phrase: str, joint: tuple[str, ...] = ()) -> Doubt:
    """Return a doubt: a choice for the user between several columns that may have a role.

    Args:
        role: The role.
        rivals: The columns.
        phrase: What the columns may all do, for the message: `hold images`.
        joint: Further choices, each of several columns together: `image_1 + image_2`.
    """
    return Doubt(
        role, (*rivals, *joint), f"the columns {' and '.join(map(repr, rivals))} may all {phrase}"
    )


def series(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the longest series of numbered or lettered columns for each common stem of their names.

    A series begins with A, 0, 1 or 2 and has no gaps: `{"option": ["option_a", "option_b", "option_c"]}`.
    """
    stems: dict[str, dict[str, str]] = {}
    for name in names:
        match = _SERIES.fullmatch(name.strip())
        if match:
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
    """Return how many labels follow each other from the first one without a gap: 2 for A and B if C is missing.

    Args:
        labels: The labels in order.
        members: The labels that exist.
    """
    for count, label in enumerate(labels):
        if label not in members:
            return count
    return len(labels)


def option_columns(
    profiles: Mapping[str, ColumnProfile], used: Sequence[str]
) -> tuple[tuple[str, ...], Doubt | None]:
    """Return the columns of options: one column with lists, or one column for each option.

    Surer signs decide first: columns named A, B, C, ... or `options`, then lists under another usual name, then a series
    of columns such as `choice_1` and `choice_2`, and at last the only column of lists that has no other role.

    Args:
        profiles: The columns of the table.
        used: The columns that have a role already.

    Returns:
        The columns, none if there are no options; and a doubt if different columns may hold the options.
    """
    free = {name: profile for name, profile in profiles.items() if name not in used}
    letters = _letter_columns(free)
    if "options" in free and len(letters) > 1:
        why = "the column 'options' and those of letters may all hold the options"
        return (), Doubt("options", ("options", " + ".join(letters)), why)
    if "options" in free:
        return ("options",), None
    if len(letters) > 1 or letters in (("A",), ("B",)):
        return letters, None

    lists: dict[str, float] = {}
    for name, profile in free.items():
        score = name_score("options", name)
        has_other_lists = profile.boxes + profile.messages >= 0.5 or profile.are_letters
        if score and not has_other_lists and (profile.lists > 0.5 or _is_split(profile)):
            lists[name] = score
    if lists:
        return _best("options", lists, "hold the options")

    chains = _option_series([name for name, profile in free.items() if profile.is_scalar])
    named_like_options: list[tuple[str, ...]] = []
    for stem, chain in chains.items():
        if name_score("options", stem) or not stem:
            named_like_options.append(chain)
    candidates = named_like_options or list(chains.values())
    if len(candidates) == 1:
        return candidates[0], None

    unnamed = [name for name, profile in free.items() if _may_be_unnamed_options(profile)]
    if len(unnamed) == 1:
        return (unnamed[0],), None
    return (), None


def _letter_columns(names: Collection[str]) -> tuple[str, ...]:
    """Return the columns whose names are letters: A, B, C and so on, up to the first letter that is missing.

    If there are more capital letters from A to J, counting those after a gap, all of these are
    returned.
    """
    by_letter = {name.strip().upper(): name for name in names if len(name.strip()) == 1}
    without_gaps = tuple(by_letter[letter] for letter in LETTERS[: _run(LETTERS, by_letter)])
    capitals = tuple(letter for letter in LETTERS[:10] if letter in names)
    return capitals if len(capitals) > len(without_gaps) else without_gaps


def _option_series(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the series of numbered or lettered columns that may each hold one option, by the stem of their names.

    Images and scores may also be numbered, so series named like them are left out, as are series
    that begin with 2. If none remains, names that end in a small letter count: `opa`, `opb`, `opc`.
    """
    chains: dict[str, tuple[str, ...]] = {}
    for stem, chain in series(names).items():
        begins_with_two = chain[0].endswith("2")
        is_score = not METRIC_WORDS.isdisjoint(split_name(stem))
        if len(chain) < 2 or begins_with_two or is_score or name_score("image", stem):
            continue
        chains[stem] = tuple(chain)
    return chains or _lettered_at_the_end(names)


def _may_be_unnamed_options(profile: ColumnProfile) -> bool:
    """Return whether a column has lists that may be options although its name does not say so."""
    has_plain_lists = profile.lists > 0.8 and not profile.boxes and not profile.messages
    if not has_plain_lists:
        return False
    holds_scores = bool(split_name(profile.name) & _SCORE_LISTS)
    holds_guesses = _GUESSES.match(folded_name(profile.name)) is not None
    if holds_scores or holds_guesses:
        return False
    other_roles = ("answer", "caption", "question", "objects", "relevance")
    return not any(name_score(role, profile.name) for role in other_roles)


_SCORE_LISTS = frozenset(
    "similarity similarities score scores prob probs probability probabilities logit logits logprob logprobs".split()
)
"""Words in names of columns with a score for each of several texts, which are no options."""


_GUESSES = re.compile(r"(?:\w+_)?top_?(?:\d|k\b)")
"""Names of columns with a model's best guesses: `top5`."""
METRIC_WORDS = frozenset(
    "bleu rouge chrf f1 em bertscore meteor cider spice anls iou ious wer cer ndcg mrr map accuracy precision recall".split()
)
"""Words in names of columns with the score of each reply: `bleu_1` to `bleu_4` are no options."""


def _lettered_at_the_end(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return series of at least three columns that differ only in a last small letter, from a on: `opa`, `opb`, `opc`."""
    chains: dict[str, tuple[str, ...]] = {}
    for first in names:
        if len(first) < 2 or not first.endswith("a"):
            continue
        members = {name[-1].upper(): name for name in names if name[:-1] == first[:-1]}
        chain = tuple(members[letter] for letter in LETTERS[: _run(LETTERS, members)])
        if len(chain) >= FEWEST_LETTERED:
            chains[folded_name(first[:-1])] = chain
    return chains


FEWEST_LETTERED = 3


def distractor_columns(
    profiles: Mapping[str, ColumnProfile], used: Sequence[str]
) -> tuple[str, ...]:
    """Return the columns of wrong options, in a table whose correct option is in the column of answers."""
    free = [name for name, profile in profiles.items() if name not in used and profile.is_scalar]
    chains = [
        chain for stem, chain in series(free).items() if name_score("distractors", stem.rstrip("_"))
    ]
    if chains:
        return tuple(sorted(chains, key=len)[-1])
    return tuple(
        name for name in profiles if name not in used and name_score("distractors", name) > PARTLY
    )


def _is_split(profile: ColumnProfile) -> bool:
    cells = list(profile.texts)[:50]
    return bool(cells) and all(split_options(cell) for cell in cells)


def question_column(
    profiles: Mapping[str, ColumnProfile], used: Sequence[str], *, has_options: bool
) -> tuple[tuple[str, ...], Doubt | None]:
    """Find the column of questions: by its name, or because its texts end in question marks.

    A column that may hold captions as well, in a table without options, is not taken.

    Returns:
        The name of the column, or an empty tuple, and a doubt if several columns are as likely.
    """
    if "question" in profiles:
        return ("question",), None
    scores = {}
    for name, profile in profiles.items():
        if name in used or not profile.is_text or profile.pictures >= 0.5:
            continue
        score_of_name = name_score("question", name)
        score = score_of_name + 0.7 * profile.questions
        looks_like_questions = score_of_name >= 0.95 or profile.questions >= 0.2 or has_options
        may_be_caption = name_score("caption", name) > 0 and not looks_like_questions
        if score >= 0.5 and not may_be_caption:
            scores[name] = score
    return _best("question", scores, "be the question")


def id_column(profiles: Mapping[str, ColumnProfile], used: Sequence[str]) -> tuple[str, ...]:
    """Return a column of ids: one that is named like ids, and whose cells all differ."""
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
    """Return the column of class names.

    If several columns may be it, such as `category` and `name`, no column and a doubt are returned.

    Args:
        profiles: The columns of the table.
        only_sure: Whether to accept only the most usual names.
    """
    scores = {
        name: score
        for name, profile in profiles.items()
        if profile.is_scalar
        and profile.words <= 4
        and (score := name_score("label", name)) > PARTLY
    }
    if sure := [name for name in scores if folded_name(name) in usual_names()["label"][:3]]:
        return (max(sure, key=lambda name: scores[name]),), None
    if only_sure:
        return (), None
    return _best("label", scores, "be the class that an image shows")


def box_corners(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the left, top, right and bottom of a box, in this order; empty unless all four exist.

    Examples:
        >>> box_corners(["y_max", "x_max", "y_min", "x_min", "label"])
        ('x_min', 'y_min', 'x_max', 'y_max')
    """
    by_folded_name = {folded_name(name).replace("_", ""): name for name in names}
    for corners in _CORNERS:
        if by_folded_name.keys() >= set(corners):
            return tuple(by_folded_name[corner] for corner in corners)
    return ()


def attribute_columns(profiles: Mapping[str, ColumnProfile]) -> tuple[str, ...]:
    """Return the columns of attributes: words that several images share, except columns about the data set itself."""
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
    """Return the column whose full name is a usual name of a role.

    A name of which only a part is usual does not count. The result is the name of the column alone;
    empty if there is none.
    """
    scores = {
        name: name_score(role, name)
        for name in profiles
        if name not in used and name_score(role, name) > PARTLY
    }
    return (max(scores, key=lambda name: scores[name]),) if scores else ()


WORD_PARTS = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+(?![a-z])|\d+")


def split_name(name: str) -> frozenset[str]:
    """Return the words in the name of a column, in small letters: `{"is", "correct"}` for `eval.isCorrect`.

    Names of objects around it, such as `eval`, are left out.
    """
    return frozenset(word.casefold() for word in WORD_PARTS.findall(name.rpartition(".")[2]))
