"""A MMBench-like benchmark from a table of questions and a folder of images: two splits, answers of test apart.

How well a set of questions is spread: dev and test by ability, and what would make its numbers weak.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import tomli_w
from msgspec import Struct

from snellen.callers import setting
from snellen.common.decoding import inspect_image
from snellen.common.foreign import IMAGE_BYTES, read_file
from snellen.common.paths import slug
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.formats.delimited import (
    LETTERS,
    TABLES,
    DelimitedRow,
    DelimitedTable,
    open_text,
    unknown_columns,
)
from snellen.suites.mmbench import taxonomy
from snellen.suites.mmbench.reader import MAX_FAULTS
from snellen.suites.mmbench.survey import (
    L2_COLUMNS,
    ROTATION_STEP,
    Faults,
    RowError,
    normal_index,
    parse_answer,
    parse_options,
)
from snellen.suites.mmbench.taxonomy import Leaf, LeafAbility, SecondLevel, Taxonomy
from snellen.suites.mmbench.writer import ImageCells, writing_table

DEV_SHARE = 0.4
"""Share of the dev split: MMBench has dev and test as 4 to 6."""
MIN_TEST_QUESTIONS = 25
"""Questions of an ability in test below which one of them counts for more than 4 points."""
MAX_SIZE_RATIO = 4
"""How many times as large as the smallest ability the largest one may be."""


class BalanceItem(Struct, frozen=True):
    """What of a question bears on balance. `picture` is a digest."""

    index: str
    leaf: Leaf
    count: int
    """Number of its options."""
    gold: int
    picture: str


class LeafBalance(Struct, frozen=True):
    """One ability (a leaf), or with an empty leaf all of them."""

    leaf: Leaf
    dev: int
    test: int
    chance: float
    """Share of questions that guessing gets right."""
    letters: tuple[int, ...]
    """How often A, B, ... is correct."""

    @property
    def total(self) -> int:
        return self.dev + self.test


def choose_dev(items: Sequence[BalanceItem], name: str) -> frozenset[str]:
    """Indexes of the dev split: 40 % of each ability within one question, and of all together.

    Drawn by `name` (of the benchmark) and the ability alone. An ability with two questions or more has some in
    both splits.
    """
    by_leaf = _by_leaf(items)
    quota = {leaf: DEV_SHARE * len(members) for leaf, members in by_leaf.items()}
    counts = {leaf: math.floor(share) for leaf, share in quota.items()}
    most = sorted(by_leaf, key=lambda leaf: (counts[leaf] - quota[leaf], leaf))
    for leaf in most[: round(DEV_SHARE * len(items)) - sum(counts.values())]:
        counts[leaf] += 1
    chosen: list[str] = []
    for leaf, members in by_leaf.items():
        indexes = [item.index for item in members]
        rng_for(name, "/".join(leaf), "split").shuffle(indexes)
        least = min(1, len(members) // 2)
        chosen += indexes[: max(least, counts[leaf])]
    return frozenset(chosen)


def _by_leaf(items: Sequence[BalanceItem]) -> dict[Leaf, list[BalanceItem]]:
    by_leaf: dict[Leaf, list[BalanceItem]] = defaultdict(list)
    for item in items:
        by_leaf[item.leaf].append(item)
    return dict(sorted(by_leaf.items()))


def balance_by_leaf(items: Sequence[BalanceItem], dev: frozenset[str]) -> list[LeafBalance]:
    """Return the balance of each ability, then that of all questions."""
    return [
        _part(leaf, members, dev)
        for leaf, members in (*_by_leaf(items).items(), (("", ""), list(items)))
    ]


def _part(leaf: Leaf, items: Sequence[BalanceItem], dev: frozenset[str]) -> LeafBalance:
    golds = Counter(item.gold for item in items)
    in_dev = sum(item.index in dev for item in items)
    return LeafBalance(
        leaf,
        in_dev,
        len(items) - in_dev,
        sum(1 / item.count for item in items) / len(items),
        tuple(golds[place] for place in range(max(item.count for item in items))),
    )


def balance_warnings(items: Sequence[BalanceItem], dev: frozenset[str]) -> list[str]:
    """Return a line for each reason why numbers from these questions would be weak."""
    *leaves, whole = balance_by_leaf(items, dev)
    warnings = [line for part in leaves for line in _split_warnings(part)]
    warnings += _letter_warnings(whole, items, "all questions")
    for part in leaves:
        warnings += _letter_warnings(
            part, [item for item in items if item.leaf == part.leaf], part.leaf[1]
        )
    smallest, largest = (pick(leaves, key=lambda part: part.total) for pick in (min, max))
    if largest.total > MAX_SIZE_RATIO * smallest.total:
        warnings.append(
            f"{largest.leaf[1]} has {largest.total} questions and {smallest.leaf[1]} {smallest.total}: the overall "
            "accuracy is mostly that of the large ones"
        )
    pictures = {
        split: {i.picture for i in items if (i.index in dev) == split} for split in (True, False)
    }
    if shared := pictures[True] & pictures[False]:
        warnings.append(
            f"images in both splits: {len(shared)}; whoever trains on dev has seen them"
        )
    return warnings


def _split_warnings(part: LeafBalance) -> Iterator[str]:
    if not part.dev or not part.test:
        yield f"{part.leaf[1]} has {part.dev} questions in dev and {part.test} in test: it has too few to be split"
    elif part.test < MIN_TEST_QUESTIONS:
        yield f"{part.leaf[1]} has {part.test} questions in test: one of them is {100 / part.test:.1f} points"


def _letter_warnings(part: LeafBalance, items: Sequence[BalanceItem], name: str) -> Iterator[str]:
    """Warn of a letter that is correct far more often than expected, so that always choosing it gets that share."""
    place = max(range(len(part.letters)), key=lambda place: part.letters[place])
    even = sum(1 / item.count for item in items if item.count > place) / part.total
    share = part.letters[place] / part.total
    if share - even > 3 * math.sqrt(even * (1 - even) / part.total):
        yield (
            f"{name}: {LETTERS[place]} is correct {share:.0%} of the time, {even:.0%} would be even; shuffle the "
            "options (CircularEval forgives it, one pass does not)"
        )


SCAFFOLD_COLUMNS = ("question", "image", "A", "B", "answer", "category")
OPTIONAL_COLUMNS = ("index", "hint", "l2-category", "source", "comment")


class NewQuestion(Struct, frozen=True):
    index: str
    cells: dict[str, str]
    options: tuple[str, ...]
    gold: int
    picture: Path
    digest: str
    leaf: taxonomy.Leaf

    @property
    def item(self) -> BalanceItem:
        return BalanceItem(self.index, self.leaf, len(self.options), self.gold, self.digest)


class ScaffoldedBenchmark(Struct, frozen=True):
    """What was written, and how the questions are spread."""

    dev: Path
    test: Path
    answers: Path
    abilities: Path
    parts: list[LeafBalance]
    weak: list[str]
    """What would make the numbers weak, one line each."""


def scaffold(
    questions: Path, images: Path | None, folder: Path, name: str = ""
) -> ScaffoldedBenchmark:
    """Make a benchmark of MMBench's form in a new folder: NAME-dev.tsv with answers, NAME-test.tsv without,
    NAME-test-answers.tsv, and taxonomy.toml.

    `questions` is a .csv or .tsv with the columns question, image (a path below `images`, else beside the
    table), A, B, ..., answer (a letter) and category; l2-category, hint, source, comment and index if there are
    any. `name` is the folder's unless given; the splits are drawn by it.

    Raises DataError naming file and line of up to ten wrong rows; then nothing is written.
    """
    name = name or folder.resolve().name
    if name != slug(name):
        raise DataError(
            f"{name!r} cannot be part of a file's name; call it {slug(name)!r} with {setting('name')}"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} exists and is not an empty folder; choose another one")
    new_questions, notes = _read(questions, images or questions.parent)
    items = [question.item for question in new_questions]
    dev = choose_dev(items, name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot make {folder}: {error.strerror}; choose another folder") from None
    benchmark = ScaffoldedBenchmark(
        folder / f"{name}-dev.tsv",
        folder / f"{name}-test.tsv",
        folder / f"{name}-test-answers.tsv",
        folder / taxonomy.TAXONOMY_FILE,
        balance_by_leaf(items, dev),
        [*notes, *_taxonomy_warnings(new_questions), *balance_warnings(items, dev)],
    )
    in_test = [question for question in new_questions if question.index not in dev]
    _write(benchmark.dev, [question for question in new_questions if question.index in dev], "dev")
    _write(benchmark.test, in_test, "test")
    with writing_table(benchmark.answers, ("index", "answer")) as table:
        for question in in_test:
            table({"index": question.index, "answer": LETTERS[question.gold]})
    benchmark.abilities.write_text(_abilities(new_questions), "utf-8")
    return benchmark


def _read(path: Path, images: Path) -> tuple[list[NewQuestion], list[str]]:
    """Return the questions, and notes on their table."""
    if path.suffix.lower() not in TABLES:
        raise DataError(f"{path}: a table of questions ends with {' or '.join(TABLES)}")
    faults, by_index = Faults(), dict[str, NewQuestion]()
    with open_text(path) as file:
        table = DelimitedTable(file, path)
        strange = _check_header(table)
        for number, row in enumerate(table, 1):
            try:
                question = _question(row, number, images)
                if question.index in by_index:
                    raise RowError("an index twice", f"the index {question.index} appears twice")
                by_index[question.index] = question
            except RowError as error:
                faults.add(str(row.line), error.kind, f"{path}:{row.line}: {error}")
    faults.refuse(MAX_FAULTS)
    if len(by_index) < 2:
        raise DataError(
            f"{path}: two questions are needed for two splits, there are {len(by_index)}"
        )
    return list(by_index.values()), [
        f"{name!r} left out: such columns mean nothing here" for name in strange
    ]


def _check_header(table: DelimitedTable) -> list[str]:
    """Return the columns that mean nothing here."""
    where = f"{table.path}:1"
    strange = unknown_columns(
        table.header, {*SCAFFOLD_COLUMNS, *OPTIONAL_COLUMNS, *L2_COLUMNS, *LETTERS}, where
    )
    if missing := [name for name in SCAFFOLD_COLUMNS if name not in table.header]:
        header = ", ".join(table.header) or "none"
        raise DataError(f"{where}: the column {missing[0]!r} is missing; there are {header}")
    return strange


def _question(row: DelimitedRow, number: int, images: Path) -> NewQuestion:
    """Raises RowError."""
    cells = row.cells
    index = normal_index(cells.get("index", str(number)))
    if not index.isdecimal() or int(index) >= ROTATION_STEP:
        raise RowError(
            "no index", f"the index {index!r} is not a whole number under {ROTATION_STEP}"
        )
    for name in ("question", "category", "image"):
        if not cells.get(name, "").strip():
            raise RowError(f"no {name}", f"the {name} is empty")
    options = parse_options(cells)
    gold = parse_answer(cells.get("answer", ""), len(options))
    if gold is None:
        raise RowError("no answer", "the answer is empty")
    picture = images / cells["image"]
    leaf = (_l2_of_row(cells), cells["category"])
    return NewQuestion(index, cells, options, gold, picture, _digest(picture), leaf)


def _l2_of_row(cells: dict[str, str]) -> str:
    """Return the L2 ability that the row states, or else the one that the published taxonomy has for its leaf."""
    stated = next((cells[name] for name in L2_COLUMNS if name in cells), "")
    return stated or next(
        (leaf.l2 for leaf in taxonomy.packaged_taxonomy().leaf if leaf.name == cells["category"]),
        "",
    )


def _digest(picture: Path) -> str:
    try:
        return inspect_image(read_file(picture, IMAGE_BYTES), str(picture)).digest
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RowError(
            "an image that cannot be read", f"cannot read the image {picture} ({reason})"
        ) from None
    except DataError as error:
        raise RowError("an image that cannot be read", str(error)) from None


def _write(path: Path, questions: Sequence[NewQuestion], split: str) -> None:
    count = max((len(question.options) for question in questions), default=2)
    columns = [
        "index",
        "question",
        "hint",
        *LETTERS[:count],
        *(["answer"] if split == "dev" else []),
        "category",
        "image",
        "source",
        "l2-category",
        "comment",
        "split",
    ]
    pictures, files = ImageCells(), {question.digest: question.picture for question in questions}
    with writing_table(path, columns) as table:
        for question in questions:
            image = pictures.cell(
                question.index,
                (question.digest,),
                lambda digest: read_file(files[digest], IMAGE_BYTES),
            )
            changed = {
                "index": question.index,
                "image": image,
                "l2-category": question.leaf[0],
                "split": split,
            }
            table({**question.cells, **changed, "answer": LETTERS[question.gold]})


def _taxonomy_warnings(questions: Sequence[NewQuestion]) -> Iterator[str]:
    shipped = taxonomy.packaged_taxonomy()
    leaves = dict.fromkeys(question.leaf for question in questions)
    for l2, leaf in leaves:
        if not l2:
            yield f"{leaf} has no l2-category: give it one, or it is in no group of abilities"
    for l2 in dict.fromkeys(l2 for l2, _ in leaves):
        if l2 and not shipped.l1_of(l2):
            yield f"the l1 of {l2} is not known: fill it in in {taxonomy.TAXONOMY_FILE}"


def _abilities(questions: Sequence[NewQuestion]) -> str:
    """Return the abilities that occur, as TOML: the published facts, and blanks to fill in."""
    shipped = taxonomy.packaged_taxonomy()
    leaves = dict.fromkeys(sorted(question.leaf for question in questions))
    seconds = [_l2_ability(shipped, l2) for l2 in dict.fromkeys(l2 for l2, _ in leaves) if l2]
    thirds = [_leaf_ability(shipped, leaf) for leaf in leaves]
    titles = {
        l1: shipped.l1.get(l1, "") for l1 in dict.fromkeys(second.l1 for second in seconds) if l1
    }
    tables = [f"[l1]\n{tomli_w.dumps(titles)}"]
    for ability in seconds:
        fields = {name: getattr(ability, name) for name in ("name", "title", "l1")}
        tables.append(f"[[l2]]\n{tomli_w.dumps(fields)}")
    for leaf_ability in thirds:
        fields = {
            name: getattr(leaf_ability, name) for name in ("name", "l2", "title", "definition")
        }
        tables.append(f"[[leaf]]\n{tomli_w.dumps(fields)}")
    first = "# The abilities of this benchmark. Every leaf belongs to an l2, every l2 to an l1; titles are for reports."
    return "\n".join([f"{first}\n", *tables])


def _l2_ability(shipped: Taxonomy, name: str) -> SecondLevel:
    return next((second for second in shipped.l2 if second.name == name), SecondLevel(name))


def _leaf_ability(shipped: Taxonomy, leaf: taxonomy.Leaf) -> LeafAbility:
    return next(
        (third for third in shipped.leaf if third.key == leaf), LeafAbility(leaf[1], leaf[0])
    )
