"""Which question of a built benchmark a row is of: found by its id, by its text and picture, and checked by all it has.

A row that several questions fit is refused: left out, its question would count as one without an answer.

Rows that have found their question are numbered as its presentations; exchanges are made of them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from string import ascii_uppercase

from msgspec import Struct
from msgspec.structs import replace

from snellen.building.benchmark import Benchmark
from snellen.errors import DataError
from snellen.interchange.predictions.rows import (
    Findings,
    PredictedRow,
    PredictionFile,
    count_named,
    folded,
    folded_question,
    name_of,
    places_of,
)
from snellen.protocols.choice import circular_orders, rotations
from snellen.records import (
    ContinuationScore,
    Exchange,
    Failure,
    ImagePart,
    Message,
    Request,
    Response,
    Sample,
    TextPart,
    Variant,
)
from snellen.scoring.answers import open_answers

Key = tuple[str, int]
"""Sample and round."""
Order = tuple[int, ...]
EMPTY_CELLS = frozenset(
    "#N/A|#N/A N/A|#NA|-1.#IND|-1.#QNAN|-NaN|-nan|1.#IND|1.#QNAN|<NA>|N/A|NA|NULL|NaN|None|n/a|nan|null".split(
        "|"
    )
)
"""Texts that pandas reads as empty cells, and so writes as such."""


class PlacedRow(Struct, frozen=True):
    """A row with its question and the order in which it showed the options."""

    row: PredictedRow
    sample: str
    turn: int
    order: Order = ()
    """Index among the question's options of the option in each place; empty for an open question."""
    wording: int = 0
    test: int = 0

    @property
    def key(self) -> Key:
        return self.sample, self.turn

    @property
    def said(self) -> tuple[object, ...]:
        """All that distinguishes it from another presentation of its question."""
        row = self.row
        return (
            self.order,
            self.wording,
            row.template,
            row.prompt,
            row.reply,
            row.chosen,
            row.scores,
            row.failure,
        )


def number_presentations(
    path: Path,
    placed: Sequence[PlacedRow],
    samples: Mapping[str, Sample],
    repeats: bool,
    findings: Findings,
) -> list[PlacedRow]:
    """Rows with the numbers of their presentations; a row that is there again is counted once.

    Where rows of an id are its presentations, they are numbered by the file or else as they come; else rows are
    presentations of one question where they show its options in different orders. A request that failed and was asked
    again counts as it was answered. Raises DataError naming rows that contradict each other.
    """
    groups: dict[Key, list[PlacedRow]] = defaultdict(list)
    for row in placed:
        groups[row.key].append(row)
    most = expected_presentations(map(len, groups.values())) if repeats else 0
    numbered: list[PlacedRow] = []
    contradicting: list[PlacedRow] = []
    for rows in groups.values():
        remaining = (
            rows if repeats and len(rows) <= most else _without_retries(rows, most, findings)
        )
        remaining = (
            remaining if len(remaining) <= most else _without_copies(remaining, most, findings)
        )
        if len(remaining) > (most or len({row.order for row in remaining})):
            contradicting += remaining
        else:
            numbered += _numbered(remaining, samples)
    if contradicting:
        raise DataError(f"{path}: {_contradiction(contradicting, repeats)}")
    for row in numbered:
        if row.row.failure:
            findings.add("replies that never came, which count as not right", name_of(row.row))
    return numbered


def _contradiction(rows: Sequence[PlacedRow], repeats: bool) -> str:
    replies = ", ".join(
        f"{name_of(row.row)} ({row.row.where}: {_said(row.row)})" for row in rows[:6]
    )
    more = ", ..." if len(rows) > 6 else ""
    fault = (
        "more rows of an id than others have, which differ"
        if repeats
        else "rows of one question say different things"
    )
    return (
        f"{fault}: {replies}{more}, {len(rows):,} rows in all; keep the one that counts of each question, and give the "
        "replies of another run or model a file of their own"
    )


def _said(row: PredictedRow) -> str:
    reply_text = row.failure or row.reply or ""
    return f"{reply_text[:40]!r}" if row.method == "generation" else "a likelihood"


def _without_retries(rows: Sequence[PlacedRow], most: int, findings: Findings) -> list[PlacedRow]:
    """The rows without those that failed where another shows the same and did not."""
    answered = {row.order for row in rows if not row.row.failure}
    remaining = [row for row in rows if not (row.row.failure and row.order in answered)]
    if most and len(remaining) < most:
        return list(rows)
    for row in rows:
        if row not in remaining:
            findings.add(
                "rows whose request failed and was asked again, counted as it was answered",
                name_of(row.row),
            )
    return remaining


def expected_presentations(counts: Iterable[int]) -> int:
    """How many rows a question has: the most that at least a tenth of the questions have; 1 without any.

    Fewer are what a run that ended early left; more are rows that were written twice, as of the last batch of several
    processes.
    """
    frequency = Counter(counts)
    return max(
        (count for count, many in frequency.items() if many * 10 >= frequency.total()), default=1
    )


def _without_copies(rows: Sequence[PlacedRow], most: int, findings: Findings) -> list[PlacedRow]:
    """The rows less enough exact copies to be as many as expected; less all where no number is."""
    remaining: list[PlacedRow] = []
    spare = len(rows) - most if most else len(rows)
    for row in rows:
        if spare and any(row.said == earlier.said for earlier in remaining):
            findings.add("rows that are there twice, counted once", name_of(row.row))
            spare -= 1
        else:
            remaining.append(row)
    return remaining


def _numbered(rows: Sequence[PlacedRow], samples: Mapping[str, Sample]) -> list[PlacedRow]:
    """By the file's numbers; else by how far a rotation is turned, the base row first; else as they come."""
    stated_numbers = [row.row.presentation for row in rows]
    if None not in stated_numbers and len(set(stated_numbers)) == len(stated_numbers):
        return [replace(row, test=row.row.presentation or 0) for row in rows]
    if are_rotations(rows, samples):
        return [replace(row, test=row.order[0]) for row in rows]
    return [replace(row, test=test) for test, row in enumerate(rows)]


def are_rotations(rows: Sequence[PlacedRow], samples: Mapping[str, Sample]) -> bool:
    """Whether rows of a question show its options in different orders, each of which CircularEval shows too."""
    orders = {row.order for row in rows}
    return len(orders) == len(rows) and orders <= set(
        _turned(samples[rows[0].sample], rows[0].turn)
    ) - {()}


def _turned(sample: Sample, turn: int) -> list[Order]:
    """The orders in which CircularEval shows a question's options."""
    return (
        list(rotations(len(sample.rounds[turn].options)))
        if sample.turns
        else circular_orders(sample)
    )


def exchanges_of(
    placed: Iterable[PlacedRow], samples: dict[str, Sample], label: str
) -> Iterator[Exchange]:
    """The journal of a run in which the model said what the rows say."""
    for row in placed:
        sample = samples[row.sample]
        yield Exchange(label, _request(row, sample), _response(row, sample))


def _request(placed: PlacedRow, sample: Sample) -> Request:
    row, question = placed.row, sample.rounds[placed.turn]
    labels = row.labels or shown_labels(len(placed.order)) if row.lists_options else ()
    option_lines = [
        f"{label}. {question.options[option]}"
        for label, option in zip(labels, placed.order, strict=bool(labels))
    ]
    context = [sample.context] if sample.context else []
    text = row.prompt or "\n".join((*context, row.question or question.question, *option_lines))
    message = Message("user", (*map(ImagePart, sample.images), TextPart(text)))
    variant = Variant(
        test=placed.test,
        turn=placed.turn,
        template=row.template,
        order=placed.order,
        labels=tuple(labels) if row.method == "generation" else (),
        wording=placed.wording,
    )
    if row.method == "generation":
        return Request(sample.benchmark, sample.id, variant, (message,))
    return Request(
        sample.benchmark, sample.id, variant, (message,), "loglikelihood", question.options
    )


def _response(placed: PlacedRow, sample: Sample) -> Response:
    row, count = placed.row, len(sample.rounds[placed.turn].options)
    if row.failure:
        return Response(error=Failure("server", row.failure))
    if row.method == "generation":
        return Response(text=row.reply or "")
    if len(row.scores) != count or not placed.order:
        return Response(chosen=row.chosen if row.chosen is not None else _best(row.scores))
    by_option = dict(zip(placed.order, row.scores, strict=True))
    texts = sample.rounds[placed.turn].options
    return Response(
        scores=tuple(
            ContinuationScore(by_option[i], 1, len(texts[i].encode()))
            for i in range(len(by_option))
        )
    )


def _best(scores: Sequence[float]) -> int:
    return scores.index(max(scores))


def shown_labels(count: int) -> tuple[str, ...]:
    """Labels where a file does not say which were shown: letters, or numbers beyond 26 options."""
    return (
        tuple(ascii_uppercase[:count]) if count <= 26 else tuple(str(i + 1) for i in range(count))
    )


ROTATION_STEP = 1_000_000
"""What CircularEval's files add to an index for each rotation."""


def join_rows(
    path: Path, file: PredictionFile, benchmark: Benchmark, findings: Findings
) -> list[PlacedRow]:
    """The rows of a file that fit questions of a benchmark. Raises DataError where most do not, or some fit several."""
    finder = QuestionFinder(benchmark, findings)
    placed = finder.in_order(file.rows)
    if placed is None:
        placed = [placed_row for row in file.rows if (placed_row := finder.place(row))]
    reasons = "; ".join(findings.notes()) or "it has no rows"
    if finder.ambiguous:
        raise DataError(
            f"{path}: {len(finder.ambiguous):,} of {len(file.rows):,} rows fit several questions of {benchmark.name} "
            f"({', '.join(finder.ambiguous[:3])}, ...), and nothing tells of which they are: give each row the id of "
            "its question, or the name of its picture"
        )
    if 2 * len(placed) < len(file.rows) or not placed:
        count = f"only {len(placed):,} of {len(file.rows):,} rows fit" if placed else "no row fits"
        raise DataError(
            f"{path}: {count} {benchmark.name} ({reasons}); is that the benchmark that was asked? Name another with "
            f"--benchmark, or have the file's own answers count: snellen score {path}"
        )
    return placed


class QuestionFinder:
    """Finds the question of each row among those of a benchmark, or says in `findings` why it has none."""

    def __init__(self, benchmark: Benchmark, findings: Findings) -> None:
        self.samples = {sample.id: sample for sample in benchmark.samples()}
        self.ambiguous: list[str] = []
        """Rows that several questions fit."""
        self._findings = findings
        self._answers = open_answers(benchmark.folder)
        self._by_text: dict[str, dict[Key, None]] = defaultdict(dict)
        self._by_text_and_options: dict[tuple[str, frozenset[str]], dict[Key, None]] = defaultdict(
            dict
        )
        self._option_sets: Counter[frozenset[str]] = Counter()
        for sample in self.samples.values():
            for turn, question in enumerate(sample.rounds):
                options = frozenset(map(folded, question.options))
                self._option_sets[options] += 1
                for text in _wordings(sample, turn):
                    self._by_text[text][sample.id, turn] = None
                    self._by_text_and_options[text, options][sample.id, turn] = None
        self._lines = {text.count("\n") + 1 for text in self._questions()}
        self._refs = {
            row.index: (name, row.order)
            for name, origin in benchmark.origins().items()
            for row in origin.rows
        }
        pictures = benchmark.source_pictures()
        self._pictures = PictureNames(pictures)
        self._taken: set[Key] = set()
        self._order = [
            (name, turn) for name in pictures for turn in range(len(self.samples[name].rounds))
        ]

    def _questions(self) -> Iterator[str]:
        for sample in self.samples.values():
            yield from (question.question.strip() for question in sample.rounds)

    def in_order(self, rows: Sequence[PredictedRow]) -> list[PlacedRow] | None:
        """Rows without ids and pictures by their place, where they ask just what the benchmark asks, one by one."""
        if len(rows) != len(self._order) or any(
            row.id or row.picture or not row.question for row in rows
        ):
            return None
        pairs = list(zip(rows, self._order, strict=True))
        if not all(self._asks(row, key) and self._agrees(row, key) for row, key in pairs):
            return None
        self._findings.add(
            "rows joined by their place, as they ask in order what the benchmark asks",
            rows[0].where,
        )
        return [self._placed(row, key) for row, key in pairs]

    def _asks(self, row: PredictedRow, key: Key) -> bool:
        return folded_question(row.question) in _wordings(self.samples[key[0]], key[1])

    def place(self, row: PredictedRow) -> PlacedRow | None:
        """The row with its question and the order of its options; None, which is noted, where it has none."""
        key, fault = self._by_id(row)
        if key is None:
            fitting, question_fault = self._by_question(row)
            if key := self._only(fitting):
                how = (
                    "the text of their question"
                    if row.question or row.prompt
                    else "the name of their picture"
                )
                self._findings.add(f"rows joined by {how}, as no id is theirs", name_of(row))
                return self._placed(row, key)
            if fitting:
                self.ambiguous.append(name_of(row))
                return None
            fault = question_fault or fault
        if key is None or fault:
            self._findings.add(f"rows left out, {fault}", name_of(row))
            return None
        return self._placed(row, key)

    def _only(self, fitting: Sequence[Key]) -> Key | None:
        """The one question that fits, or the first left of those that ask the very same with the same answer."""
        if len(fitting) < 2:
            return fitting[0] if fitting else None
        contents = set()
        for name, turn in fitting:
            sample, answer = self.samples[name], self._answers.get((name, turn))
            golds = (answer.options, answer.texts) if answer else None
            contents.add((sample.images, sample.rounds[turn], golds))
        alike = len(contents) == 1 and bool(self.samples[fitting[0][0]].images)
        return next((key for key in fitting if key not in self._taken), None) if alike else None

    def _by_id(self, row: PredictedRow) -> tuple[Key | None, str]:
        """The question with the row's id if all else agrees, and why it is not that."""
        name = self._named(row)
        if not name and (name := self._called_by_picture(row)):
            self._findings.add(
                "rows joined by the name of their picture, as no id is theirs", name_of(row)
            )
        if not name:
            missing = (
                "with an id that is not among the questions"
                if row.id
                else "without an id or a known question"
            )
            return None, missing
        sample = self.samples[name]
        turn = row.turn or 0
        if turn >= len(sample.rounds):
            return (
                None,
                f"of a round that their dialogue does not have (it has {len(sample.rounds)})",
            )
        return self._checked(row, (name, turn))

    def _named(self, row: PredictedRow) -> str:
        """The sample with the row's id; of a rotation, whose options tell its order, that of its base row."""
        if row.id in self.samples:
            return row.id
        if row.id in self._refs:
            return self._refs[row.id][0]
        base = str(int(row.id) % ROTATION_STEP) if row.options and row.id.isdecimal() else ""
        return base if base in self.samples else ""

    def _called_by_picture(self, row: PredictedRow) -> str:
        """The sample that is called by the row's picture: by as much of the end of its path as can be."""
        parts = PurePosixPath(row.picture.replace("\\", "/")).parts
        ends = ["/".join(parts[first:]) for first in range(len(parts))]
        names = [name for end in ends for name in (end, str(PurePosixPath(end).with_suffix("")))]
        sample_name = next((name for name in names if name in self.samples), "")
        return "" if self._pictures.contradict(sample_name, row.picture) else sample_name

    def _checked(self, row: PredictedRow, key: Key) -> tuple[Key | None, str]:
        sample, turn = self.samples[key[0]], key[1]
        options = sample.rounds[turn].options
        if row.method == "likelihood" and not options:
            return None, "with likelihoods, of an open question"
        if row.options and not options:
            return None, "with options, of an open question"
        if row.options and self._order_shown(row, key) is None:
            return None, "with other options than their question has"
        if row.scores and len(row.scores) != len(row.options or options):
            return None, "whose scores are not one for each option"
        if row.chosen is not None and not 0 <= row.chosen < len(row.options or options):
            return None, "whose prediction is none of their options"
        if not (row.question or row.prompt):
            if not row.options:
                self._findings.add(
                    "rows joined by their id alone, as they have nothing to check it by",
                    name_of(row),
                )
            return key, ""
        wordings = _wordings(sample, turn)
        if any(text in wordings for text in self._texts(row)) or self._identified(row, key):
            return key, ""
        return None, "with the id of a question but the text of another"

    def _identified(self, row: PredictedRow, key: Key) -> bool:
        """Whether a row that words its question otherwise has options or references that no other question has."""
        if row.options:
            return self._option_sets[frozenset(map(folded, row.options))] == 1
        answer = self._answers.get(key)
        return (
            bool(row.references) and answer is not None and set(row.references) == set(answer.texts)
        )

    def _by_question(self, row: PredictedRow) -> tuple[list[Key], str]:
        """The questions that have the row's text, options and picture; where none has the picture, that."""
        named_samples = self._pictures.samples(row.picture) if row.picture else []
        about = [
            (name, turn) for name in named_samples for turn in range(len(self.samples[name].rounds))
        ]
        if not (row.question or row.prompt):
            keys = [key for key in about if key[1] == (row.turn or 0)]
            return [key for key in keys if self._checked(row, key)[0]], ""
        options = frozenset(map(folded, row.options))
        fitting: dict[Key, None] = {}
        for text in self._texts(row):
            candidates = (
                self._by_text_and_options.get((text, options), {})
                if options
                else self._by_text.get(text, {})
            )
            if named_keys := [key for key in about if key in candidates]:
                candidates = dict.fromkeys(named_keys)
            fitting.update(dict.fromkeys(key for key in candidates if self._agrees(row, key)))
        if not row.picture:
            return list(fitting), ""
        keys = [key for key in fitting if not self._pictures.contradict(key[0], row.picture)]
        return (
            keys,
            "whose question is asked, but of other pictures" if fitting and not keys else "",
        )

    def _texts(self, row: PredictedRow) -> Iterator[str]:
        """The row's question; of a prompt, each stretch of lines that is as long as some question."""
        if row.question:
            yield folded_question(row.question)
            return
        lines = row.prompt.strip().splitlines()
        for count in self._lines:
            for first in range(len(lines) - count + 1):
                yield folded_question("\n".join(lines[first : first + count]))

    def _agrees(self, row: PredictedRow, key: Key) -> bool:
        sample, turn = self.samples[key[0]], key[1]
        question = sample.rounds[turn]
        if row.turn is not None and row.turn != turn:
            return False
        if row.options:
            return self._order_shown(row, key) is not None
        prompt = folded(row.prompt)
        return (
            not prompt
            or row.method == "likelihood"
            or all(folded(option) in prompt for option in question.options)
        )

    def _placed(self, row: PredictedRow, key: Key) -> PlacedRow:
        self._taken.add(key)
        sample, turn = self.samples[key[0]], key[1]
        question = sample.rounds[turn]
        order = self._order_shown(row, key) if row.options else tuple(range(len(question.options)))
        self._check_gold(row, key, order or ())
        if row.options and ("" in row.options or len(row.options) < len(question.options)):
            self._findings.add(
                "rows with an option that a spreadsheet has emptied (NA, None, ...)", name_of(row)
            )
        wordings = _wordings(sample, turn)
        text = folded_question(row.question)
        return PlacedRow(
            row, sample.id, turn, order or (), wordings.index(text) if text in wordings else 0
        )

    def _order_shown(self, row: PredictedRow, key: Key) -> Order | None:
        """The order in which a row shows a question's options: that of its index in the source's file where its texts
        are those, else by the texts, else the one rotation that fits; None where it shows others."""
        sample, turn = self.samples[key[0]], key[1]
        options = sample.rounds[turn].options
        known_order = self._refs.get(row.id, ("", ()))[1]
        if known_order and _shows(row.options, options, known_order):
            return known_order
        if (
            len(row.options) == len(options)
            and (places := places_of(row.options, options)) is not None
        ):
            return places
        fitting = [order for order in _turned(sample, turn) if _shows(row.options, options, order)]
        return fitting[0] if len(fitting) == 1 else None

    def _check_gold(self, row: PredictedRow, key: Key, order: Sequence[int]) -> None:
        answer = self._answers.get(key)
        if answer is None:
            return
        golds = {order[place] for place in row.gold if place < len(order)}
        differs = golds and golds != set(answer.options)
        row_texts, gold_texts = ({*map(folded, texts)} for texts in (row.references, answer.texts))
        if differs or (row_texts and gold_texts and row_texts != gold_texts):
            self._findings.add(
                "rows whose file has another right answer; the benchmark's counts", name_of(row)
            )


def _wordings(sample: Sample, turn: int) -> list[str]:
    """The folded texts of a question, the original first."""
    return [
        folded_question(text)
        for text in (sample.rounds[turn].question, *(sample.rewordings if not turn else ()))
    ]


def _shows(cells: Sequence[str], options: Sequence[str], order: Order) -> bool:
    """Whether the cells of a row are the options in this order; at its end cells may be missing that are empty."""
    padded = (*cells, *[""] * (len(order) - len(cells)))
    return len(padded) == len(order) and all(
        _is_same_text(cell, options[place]) for cell, place in zip(padded, order, strict=True)
    )


def _is_same_text(cell: str, option: str) -> bool:
    """Whether a cell is an option, but for what spreadsheets do to texts that look like numbers or like nothing."""
    if cell == option or cell.strip() == option.strip():
        return True
    if not cell:
        return option.strip() in EMPTY_CELLS
    try:
        return float(cell) == float(option)
    except ValueError:
        return False


def absent_questions(
    benchmark: Benchmark, placed: Sequence[PlacedRow], *, circular: bool
) -> list[str]:
    """How many rows there are of how many questions, and which questions or rotations have none."""
    orders: dict[Key, set[Order]] = defaultdict(set)
    for row in placed:
        orders[row.key].add(row.order)
    samples = list(benchmark.samples())
    all_keys = [(sample.id, turn) for sample in samples for turn in range(len(sample.rounds))]
    absent = [
        f"{name} round {turn}" if turn else name
        for name, turn in all_keys
        if (name, turn) not in orders
    ]
    notes = [f"{len(placed):,} rows of {len(orders):,} questions"]
    if absent:
        notes.append(f"questions of {len(all_keys):,} without any row: {count_named(absent)}")
    if circular and (lacking := list(_lacking_rotations(samples, orders))):
        notes.append(
            f"questions that lack rotations, and so are not right under CircularEval: {count_named(lacking)}"
        )
    if not circular and any(len(origin.rows) > 1 for origin in benchmark.origins().values()):
        notes.append(
            "base rows only: this is VanillaEval; circular accuracy needs a row for each rotation"
        )
    return notes


def _lacking_rotations(
    samples: Iterable[Sample], orders: Mapping[Key, set[Order]]
) -> Iterator[str]:
    for sample in samples:
        if (present := orders.get((sample.id, 0))) and (
            missing := len(set(circular_orders(sample)) - present)
        ):
            yield f"{sample.id}: {missing} of {len(circular_orders(sample))}"


# --- Which questions are about the picture that a row names: by its file's name, and its folder where ---


class PictureNames:
    """The names of the pictures of each sample; suffixes of files do not count."""

    def __init__(self, names: Mapping[str, Iterable[str]]) -> None:
        self._by_sample = {
            sample: frozenset(map(_parts, pictures))
            for sample, pictures in names.items()
            if pictures
        }
        self._by_stem: dict[str, dict[str, None]] = defaultdict(dict)
        for sample, pictures in self._by_sample.items():
            for parts in pictures:
                self._by_stem[parts[0]][sample] = None

    def samples(self, picture: str) -> list[str]:
        """The samples whose picture has that name; those alone whose folder agrees too, if there are any."""
        own_parts = _parts(picture)
        same_stem = list(self._by_stem.get(own_parts[0], ()))
        same_folder = [
            sample
            for sample in same_stem
            if any(parts[:2] == own_parts[:2] for parts in self._by_sample[sample])
        ]
        return same_folder or same_stem

    def contradict(self, sample: str, picture: str) -> bool:
        """Whether a sample's pictures are known, and none is called so."""
        sample_parts = self._by_sample.get(sample, frozenset())
        return bool(sample_parts) and all(parts[0] != _parts(picture)[0] for parts in sample_parts)


def _parts(path: str) -> tuple[str, ...]:
    """The stem and the folders of a path, of any system, the innermost first.

    An image of COCO is called by its number, as in files of results: `COCO_val2014_000000000042.jpg` is 42.
    """
    pure = PurePosixPath(path.replace("\\", "/").casefold())
    numbered = _COCO_IMAGE.fullmatch(pure.stem)
    stem = numbered[1] if numbered else pure.stem
    return stem, *reversed(pure.parts[:-1])


_COCO_IMAGE = re.compile(r"(?:coco_[a-z]+\d{4}_)?0*(\d+)")
