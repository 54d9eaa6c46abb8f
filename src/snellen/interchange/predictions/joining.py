"""Match each row of a file of predictions to a question of a built benchmark.

A row is matched by its id, or else by its text and image; its other cells must agree with the question. A row that fits
several questions is an error: if it were skipped, its question would count as unanswered.

Matched rows are numbered as presentations of their question, and become the exchanges of a run.
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
from snellen.callers import setting
from snellen.errors import DataError
from snellen.interchange.predictions.rows import (
    Findings,
    PredictedRow,
    PredictionFile,
    count_named,
    folded_question,
    is_empty_cell,
    name_of,
    places_of,
)
from snellen.interchange.predictions.scoring_call import scoring_call
from snellen.protocols.choice import circular_orders, rotations
from snellen.recognition.folding import folded, whole_number
from snellen.recognition.named_option import named_option
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
"""Id of a sample, and the round of its dialogue (0 for a single question)."""
Order = tuple[int, ...]
"""For each shown position, the index of the question's option that appears there."""


class PlacedRow(Struct, frozen=True):
    """A row of a file of predictions with the question that it answers, and the order in which it showed the options.

    Examples:
        >>> row = PredictedRow(where="replies.csv:2", id="q1", reply="(B)")
        >>> PlacedRow(row, "q1", 0, order=(0, 1)).sample
        'q1'
    """

    row: PredictedRow
    sample: str
    turn: int
    order: Order = ()
    """For each shown position, the index of the option; empty for an open question."""
    wording: int = 0
    test: int = 0

    @property
    def key(self) -> Key:
        return self.sample, self.turn

    @property
    def showing(self) -> tuple[Order, int | None]:
        """The order of the options, and the number of this presentation; None if the file has no numbers."""
        return self.order, self.row.presentation

    @property
    def distinguishing_fields(self) -> tuple[object, ...]:
        """Everything in which two rows of a question can differ. Rows that are equal in all of it are copies."""
        row = self.row
        return (
            *self.showing,
            self.wording,
            row.template,
            row.prompt,
            row.reply,
            row.likeliest_option,
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
    """Return the rows, each with the number that its presentation has among those of its question.

    A presentation is one showing of a question, for example with its options in another order. If a
    request failed and was repeated, only the row with the reply is returned; of equal rows, only
    one is.

    Args:
        path: The file of predictions, for messages.
        placed: Rows with their questions.
        samples: Samples of the benchmark by id.
        repeats: Whether several rows with the same id are presentations of one question. If not,
            rows are presentations of one question only if they show its options in different
            orders.
        findings: Receives notes about retries, duplicates, contradictions and failures.

    Raises:
        DataError: If more than `FEW_CONTRADICTIONS` of the questions have rows that contradict each
            other.
    """
    groups: dict[Key, list[PlacedRow]] = defaultdict(list)
    for row in placed:
        groups[row.key].append(row)
    # 0 if the file does not repeat ids; then each order of the options is a presentation.
    expected = expected_presentations(map(len, groups.values())) if repeats else 0
    numbered: list[PlacedRow] = []
    contradicting: list[list[PlacedRow]] = []
    for rows in groups.values():
        remaining = rows
        if len(remaining) > expected:
            remaining = _without_retries(remaining, expected, findings)
        if len(remaining) > expected:
            remaining = _without_copies(remaining, expected, findings)
        max_presentations = expected or len({row.showing for row in remaining})
        if len(remaining) > max_presentations:
            contradicting.append(remaining)
        else:
            numbered += _numbered(remaining, samples)
    if len(contradicting) > FEW_CONTRADICTIONS * len(groups):
        all_rows = [row for rows in contradicting for row in rows]
        raise DataError(f"{path}: {_contradiction(all_rows, repeats)}")
    for first, *_ in contradicting:
        findings.add(
            "questions with several rows that say different things, of which the first counts",
            name_of(first.row),
        )
        numbered += _numbered([first], samples)
    for row in numbered:
        if row.row.failure:
            findings.add("replies that never came, which count as not right", name_of(row.row))
    return numbered


FEW_CONTRADICTIONS = 0.01
"""Share of the questions that may have contradicting rows before the file is rejected."""


def _contradiction(rows: Sequence[PlacedRow], repeats: bool) -> str:
    """Return the error message for rows that contradict each other, with up to six of the rows."""
    replies = ", ".join(
        f"{name_of(row.row)} ({row.row.where}: {_reply_excerpt(row.row)})" for row in rows[:6]
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


def _reply_excerpt(row: PredictedRow) -> str:
    reply_text = row.failure or row.reply or ""
    return f"{reply_text[:40]!r}" if row.method == "generation" else "a likelihood"


def _without_retries(
    rows: Sequence[PlacedRow], expected: int, findings: Findings
) -> list[PlacedRow]:
    """Return the rows without failed requests that were repeated and have a reply in another row.

    All rows are returned if fewer than `expected` would remain.
    """
    answered = {row.showing for row in rows if not row.row.failure}
    remaining = [row for row in rows if not (row.row.failure and row.showing in answered)]
    if expected and len(remaining) < expected:
        return list(rows)
    for row in rows:
        if row not in remaining:
            findings.add(
                "rows whose request failed and was asked again, counted as it was answered",
                name_of(row.row),
            )
    return remaining


def expected_presentations(counts: Iterable[int]) -> int:
    """Return how many rows a question has if nothing is missing; 1 if there are no questions.

    It is the largest number of rows that at least a tenth of the questions have. A question has
    fewer rows if the run ended early, and more if rows were written twice (for example the last
    batch of several processes).

    Args:
        counts: The number of rows of each question.
    """
    questions_by_count = Counter(counts)
    frequent_counts = [
        count
        for count, questions in questions_by_count.items()
        if questions * 10 >= questions_by_count.total()
    ]
    return max(frequent_counts, default=1)


def _without_copies(
    rows: Sequence[PlacedRow], expected: int, findings: Findings
) -> list[PlacedRow]:
    """Return the rows without exact copies of earlier ones.

    Args:
        rows: The rows of a question.
        expected: How many rows a question should have. Copies are removed only until this many rows
            remain; 0 removes all of them.
        findings: Receives a note about each removed row.
    """
    remaining: list[PlacedRow] = []
    droppable = len(rows) - expected if expected else len(rows)
    for row in rows:
        is_copy = any(
            row.distinguishing_fields == earlier.distinguishing_fields for earlier in remaining
        )
        if droppable and is_copy:
            findings.add("rows that are there twice, counted once", name_of(row.row))
            droppable -= 1
        else:
            remaining.append(row)
    return remaining


def _numbered(rows: Sequence[PlacedRow], samples: Mapping[str, Sample]) -> list[PlacedRow]:
    """Return the rows of a question with the numbers of their presentations.

    The numbers of the file are used if all are different. If the rows show rotations of the
    options, each gets the index of the option that it shows first, so that the original order is 0.
    Other rows are numbered in the order of the file.
    """
    stated_numbers = [row.row.presentation for row in rows]
    if None not in stated_numbers and len(set(stated_numbers)) == len(stated_numbers):
        return [replace(row, test=row.row.presentation or 0) for row in rows]
    if are_rotations(rows, samples):
        return [replace(row, test=row.order[0]) for row in rows]
    return [replace(row, test=test) for test, row in enumerate(rows)]


def are_rotations(rows: Sequence[PlacedRow], samples: Mapping[str, Sample]) -> bool:
    """Return whether each row of a question shows its options in a different order that CircularEval uses."""
    orders = {row.order for row in rows}
    if len(orders) < len(rows):
        return False
    circular = set(_rotated_orders(samples[rows[0].sample], rows[0].turn))
    return orders <= circular - {()}


def _rotated_orders(sample: Sample, turn: int) -> list[Order]:
    """Return the orders in which CircularEval shows the options of a question."""
    if sample.turns:
        return list(rotations(len(sample.rounds[turn].options)))
    return circular_orders(sample)


def exchanges_of(
    placed: Iterable[PlacedRow], samples: dict[str, Sample], label: str
) -> Iterator[Exchange]:
    """Yield the requests and replies of a run, rebuilt from the rows of a file of predictions.

    Args:
        placed: Rows with their questions.
        samples: Samples of the benchmark by id.
        label: The label of the protocol.
    """
    for row in placed:
        sample = samples[row.sample]
        yield Exchange(label, _request(row, sample), _response(row, sample))


def _request(placed: PlacedRow, sample: Sample) -> Request:
    """Rebuild the request that a row answers, from its prompt or else from the question and its shown options."""
    row = placed.row
    question = sample.rounds[placed.turn]
    labels: Sequence[str] = ()
    if row.lists_options:
        labels = row.labels or shown_labels(len(placed.order))
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
    """Return a row's reply: its failure, its text, its likeliest option, or a score for each option."""
    row = placed.row
    options = sample.rounds[placed.turn].options
    if row.failure:
        return Response(error=Failure("server", row.failure))
    if row.method == "generation":
        return Response(text=row.reply or "", verdict=row.verdict)
    if len(row.scores) != len(options) or not placed.order:
        likeliest = row.likeliest_option
        if likeliest is None:
            likeliest = row.scores.index(max(row.scores))
        return Response(likeliest_option=likeliest)
    score_by_option = dict(zip(placed.order, row.scores, strict=True))
    scores = [
        ContinuationScore(score_by_option[i], 1, len(option.encode()))
        for i, option in enumerate(options)
    ]
    return Response(scores=tuple(scores))


def shown_labels(count: int) -> tuple[str, ...]:
    """Return the labels to assume for `count` options: letters, or numbers from 1 if there are more than 26."""
    if count <= 26:
        return tuple(ascii_uppercase[:count])
    return tuple(str(number) for number in range(1, count + 1))


ROTATION_STEP = 1_000_000
"""CircularEval's files add this to the index of a question for each rotation."""


def join_rows(
    path: Path, file: PredictionFile, benchmark: Benchmark, findings: Findings
) -> list[PlacedRow]:
    """Return the rows of a file with their questions in a benchmark.

    Raises:
        DataError: If fewer than half of the rows fit a question, or a row fits several.
    """
    finder = QuestionFinder(benchmark, findings)
    placed = finder.in_order(file.rows)
    if placed is None:
        placed = [placed_row for row in file.rows if (placed_row := finder.place(row))]
    reasons = "; ".join(findings.notes()) or "it has no rows"
    if finder.ambiguous:
        raise DataError(
            f"{path}: {len(finder.ambiguous):,} of {len(file.rows):,} rows fit several questions of {benchmark.name} "
            f"({', '.join(finder.ambiguous[:3])}, ...), and nothing tells of which they are: give each row the id of "
            "its question, or the name of its image"
        )
    if 2 * len(placed) < len(file.rows) or not placed:
        count = f"only {len(placed):,} of {len(file.rows):,} rows fit" if placed else "no row fits"
        raise DataError(
            f"{path}: {count} {benchmark.name} ({reasons}); is that the benchmark that was asked? Name another with "
            f"{setting('benchmark')}, or have the file's own answers count: {scoring_call(path)}"
        )
    return placed


class QuestionFinder:
    """Finds the question of a benchmark that a row of a file of predictions answers.

    `findings` receives a note about each row for which none is found.

    Args:
        benchmark: The benchmark.
        findings: Receives notes about rows.
    """

    def __init__(self, benchmark: Benchmark, findings: Findings) -> None:
        self.samples = {sample.id: sample for sample in benchmark.samples()}
        self.ambiguous: list[str] = []
        """Names of rows that fit several questions."""
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
        pictures = benchmark.source_images()
        self._pictures = ImageNames(pictures)
        self._taken: set[Key] = set()
        self._order = [
            (name, turn) for name in pictures for turn in range(len(self.samples[name].rounds))
        ]

    def _questions(self) -> Iterator[str]:
        for sample in self.samples.values():
            yield from (question.question.strip() for question in sample.rounds)

    def in_order(self, rows: Sequence[PredictedRow]) -> list[PlacedRow] | None:
        """Return the rows with the questions at the same positions in the benchmark.

        None unless the file has as many rows as the benchmark has questions, with the same texts in
        the same order, and no row has an id or an image.
        """
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
        """Return the row with its question and the order of its options.

        None if it has no question; a note then says why.
        """
        key, fault = self._by_id(row)
        if key is None:
            fitting, question_fault = self._by_question(row)
            if key := self._choose_question(fitting):
                how = (
                    "the text of their question"
                    if row.question or row.prompt
                    else "the name of their image"
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

    def _choose_question(self, fitting: Sequence[Key]) -> Key | None:
        """Return the question that a row is to have, of those that fit it; None if none fits or the choice is unclear.

        If several fit, they must be equal in image, text, options and answer. Then the first one
        without a row is returned.
        """
        if not fitting:
            return None
        if len(fitting) == 1:
            return fitting[0]
        contents = set()
        for name, turn in fitting:
            sample, answer = self.samples[name], self._answers.get((name, turn))
            golds = (answer.options, answer.texts) if answer else None
            contents.add((sample.images, sample.rounds[turn], golds))
        have_images = bool(self.samples[fitting[0][0]].images)
        if len(contents) > 1 or not have_images:
            return None
        return next((key for key in fitting if key not in self._taken), None)

    def _by_id(self, row: PredictedRow) -> tuple[Key | None, str]:
        """Return the question with the id of a row.

        Returns:
            The question and an empty text; or None and the reason, such as that no question has
            this id or that the row has other options.
        """
        name = self._sample_with_id(row)
        if not name:
            name = self._sample_named_like_image(row)
            if name:
                self._findings.add(
                    "rows joined by the name of their image, as no id is theirs", name_of(row)
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

    def _sample_with_id(self, row: PredictedRow) -> str:
        """Return the id of the sample that a row names; empty if none has it.

        Files for CircularEval repeat a question for each rotation of its options, and add a
        multiple of `ROTATION_STEP` to its id. Such a row gets the original sample if it has the
        options that show its order.
        """
        if row.id in self.samples:
            return row.id
        if row.id in self._refs:
            return self._refs[row.id][0]
        number = whole_number(row.id)
        if number is None or not row.options:
            return ""
        base_id = str(number % ROTATION_STEP)
        return base_id if base_id in self.samples else ""

    def _sample_named_like_image(self, row: PredictedRow) -> str:
        """Return the id of a sample that is the path of the row's image, or an end of it; empty if none is.

        For `images/val/cat_1.jpg`, this may be `val/cat_1.jpg` or `cat_1`. The longest such end is
        preferred.
        """
        parts = PurePosixPath(row.picture.replace("\\", "/")).parts
        candidates: list[str] = []
        for first in range(len(parts)):
            path_end = "/".join(parts[first:])
            candidates += [path_end, str(PurePosixPath(path_end).with_suffix(""))]
        sample_name = next((name for name in candidates if name in self.samples), "")
        return "" if self._pictures.contradict(sample_name, row.picture) else sample_name

    def _checked(self, row: PredictedRow, key: Key) -> tuple[Key | None, str]:
        """Check that a row agrees with the question that its id names, for example in its options.

        Returns:
            The question and an empty text; or None and what does not agree.
        """
        sample_id, turn = key
        sample = self.samples[sample_id]
        options = sample.rounds[turn].options
        if row.method == "likelihood" and not options:
            return None, "with likelihoods, of an open question"
        if row.options and not options:
            return None, "with options, of an open question"
        if row.options and self._order_shown(row, key) is None:
            return None, "with other options than their question has"
        if row.scores and len(row.scores) != len(row.options or options):
            return None, "whose scores are not one for each option"
        if row.likeliest_option is not None and not 0 <= row.likeliest_option < len(
            row.options or options
        ):
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
        """Return whether a row with another wording surely belongs to a question.

        It does if no other question has its options, or if its right answers are those of the
        question.
        """
        if row.options:
            return self._option_sets[frozenset(map(folded, row.options))] == 1
        answer = self._answers.get(key)
        return (
            bool(row.references) and answer is not None and set(row.references) == set(answer.texts)
        )

    def _by_question(self, row: PredictedRow) -> tuple[list[Key], str]:
        """Return the questions that have the text, options and image of a row.

        Returns:
            The questions, and an empty text. If only the image differs, no questions and a reason.
        """
        named_samples = self._pictures.samples(row.picture) if row.picture else []
        image_keys = [
            (name, turn) for name in named_samples for turn in range(len(self.samples[name].rounds))
        ]
        if not (row.question or row.prompt):
            keys = [key for key in image_keys if key[1] == (row.turn or 0)]
            return [key for key in keys if self._checked(row, key)[0]], ""
        options = frozenset(map(folded, row.options))
        fitting: dict[Key, None] = {}
        for text in self._texts(row):
            if options:
                candidates = self._by_text_and_options.get((text, options), {})
            else:
                candidates = self._by_text.get(text, {})
            named_keys = [key for key in image_keys if key in candidates]
            if named_keys:
                candidates = dict.fromkeys(named_keys)
            fitting.update(dict.fromkeys(key for key in candidates if self._agrees(row, key)))
        if not row.picture:
            return list(fitting), ""
        keys = [key for key in fitting if not self._pictures.contradict(key[0], row.picture)]
        if fitting and not keys:
            return [], "whose question is asked, but of other images"
        return keys, ""

    def _texts(self, row: PredictedRow) -> Iterator[str]:
        """Yield the texts in a row that may be a question: its question, or else parts of its prompt.

        A part is a number of lines that follow each other, as many as any question of the benchmark
        has.
        """
        if row.question:
            yield folded_question(row.question)
            return
        lines = row.prompt.strip().splitlines()
        for count in self._lines:
            for first in range(len(lines) - count + 1):
                yield folded_question("\n".join(lines[first : first + count]))

    def _agrees(self, row: PredictedRow, key: Key) -> bool:
        """Return whether a row and a question have the same round and options.

        A row without options agrees if its prompt contains all options, or if it has no prompt.
        """
        sample_id, turn = key
        question = self.samples[sample_id].rounds[turn]
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
        """Return a row with its question. The question counts as taken from now on."""
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
        """Return the order in which a row shows the options of a question; None if it shows other options.

        If the benchmark was built from a row with the same id, its order is used, provided that the
        texts agree. Otherwise the order is found by the texts of the options, or it is the only
        rotation that fits.
        """
        sample_id, turn = key
        sample = self.samples[sample_id]
        options = sample.rounds[turn].options
        known_order = self._refs.get(row.id, ("", ()))[1]
        if known_order and _shows(row.options, options, known_order):
            return known_order
        if (
            len(row.options) == len(options)
            and (places := places_of(row.options, options)) is not None
        ):
            return places
        matching_rotations = [
            order for order in _rotated_orders(sample, turn) if _shows(row.options, options, order)
        ]
        return matching_rotations[0] if len(matching_rotations) == 1 else None

    def _check_gold(self, row: PredictedRow, key: Key, order: Sequence[int]) -> None:
        """Add a note if the right answer in a row differs from that of the benchmark."""
        answer = self._answers.get(key)
        if answer is None:
            return
        golds = {order[place] for place in row.gold if place < len(order)}
        options = self.samples[key[0]].rounds[key[1]].options
        if not golds and options:
            named_options = [named_option(text, options, "text") for text in row.references]
            golds = {place for place in named_options if place is not None}
        differs = golds and answer.options and golds != set(answer.options)
        row_texts = {folded(text) for text in row.references}
        gold_texts = {folded(text) for text in answer.texts}
        if differs or (row_texts and gold_texts and row_texts != gold_texts):
            self._findings.add(
                "rows whose file has another right answer; the benchmark's counts", name_of(row)
            )


def _wordings(sample: Sample, turn: int) -> list[str]:
    """Return the texts of a question in small letters: the original, then its other wordings.

    Only the first round of a dialogue can have other wordings.
    """
    texts = [sample.rounds[turn].question]
    if turn == 0:
        texts += sample.rewordings
    return [folded_question(text) for text in texts]


def _shows(cells: Sequence[str], options: Sequence[str], order: Order) -> bool:
    """Return whether the cells of a row are the options in a certain order. Cells missing at the end count as empty."""
    missing = len(order) - len(cells)
    if missing < 0:
        return False
    padded = [*cells, *[""] * missing]
    return all(
        _is_same_text(cell, options[index]) for cell, index in zip(padded, order, strict=True)
    )


def _is_same_text(cell: str, option: str) -> bool:
    """Return whether a cell is an option as a spreadsheet may have changed it.

    Spreadsheets write numbers in another way, and empty cells such as `None`.
    """
    if cell == option or cell.strip() == option.strip():
        return True
    if not cell:
        return is_empty_cell(option)
    try:
        return float(cell) == float(option)
    except ValueError:
        return False


def absent_questions(
    benchmark: Benchmark, placed: Sequence[PlacedRow], *, circular: bool
) -> list[str]:
    """Return notes on the numbers of rows and questions, and on questions or rotations without a row.

    Args:
        benchmark: The benchmark that the rows were matched to.
        placed: Rows with their questions.
        circular: Whether the rows are scored by CircularEval.
    """
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
    lacking = list(_lacking_rotations(samples, orders)) if circular else []
    if lacking:
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
    """Yield `ID: MISSING of EXPECTED` for each sample that has rows, but not for all its rotations."""
    for sample in samples:
        present = orders.get((sample.id, 0))
        if not present:
            continue
        expected = circular_orders(sample)
        missing = len(set(expected) - present)
        if missing:
            yield f"{sample.id}: {missing} of {len(expected)}"


# --- Questions by the file name of their image ---


class ImageNames:
    """The names of each sample's images, without suffixes, for finding samples by an image."""

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
        """Return the samples with an image of this name. If the folder agrees for some, only these are returned."""
        name_parts = _parts(picture)
        same_stem = list(self._by_stem.get(name_parts[0], ()))
        same_folder = [
            sample
            for sample in same_stem
            if any(parts[:2] == name_parts[:2] for parts in self._by_sample[sample])
        ]
        return same_folder or same_stem

    def contradict(self, sample: str, picture: str) -> bool:
        """Return whether a sample's images have known names, and none of them is the name of `picture`."""
        sample_parts = self._by_sample.get(sample, frozenset())
        stem = _parts(picture)[0]
        return bool(sample_parts) and all(parts[0] != stem for parts in sample_parts)


def _parts(path: str) -> tuple[str, ...]:
    """Return the stem of a path (POSIX or Windows) and then its folders, the innermost first.

    The stem of a COCO image is its number, as in COCO's result files: `COCO_val2014_000000000042.jpg` gives `42`.
    """
    pure_path = PurePosixPath(path.replace("\\", "/").casefold())
    coco_number = _COCO_IMAGE.fullmatch(pure_path.stem)
    stem = coco_number[1] if coco_number else pure_path.stem
    return stem, *reversed(pure_path.parts[:-1])


_COCO_IMAGE = re.compile(r"(?:coco_[a-z]+\d{4}_)?0*(\d+)")
