"""Make a benchmark of MMBench's form from a table of questions and a folder of images.

The questions are divided into two splits, dev and test, and the answers of test are in a file of their own. Warnings say
what makes numbers from these questions unreliable.
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
"""Share of the questions that are in dev, as in MMBench."""
MIN_TEST_QUESTIONS = 25
"""With fewer questions of an ability in test, a single one counts for more than 4 points."""
MAX_SIZE_RATIO = 4
"""The largest ability may have this many times as many questions as the smallest one."""


class BalanceItem(Struct, frozen=True):
    """The facts of a question that matter for the balance of a benchmark."""

    index: str
    leaf: Leaf
    """Its ability."""
    count: int
    """Number of its options."""
    gold: int
    """Index of the correct option."""
    picture: str
    """Digest of its image."""


class LeafBalance(Struct, frozen=True):
    """The balance of the questions of one ability, or of all questions if `leaf` is empty."""

    leaf: Leaf
    dev: int
    """Number of questions in dev."""
    test: int
    """Number of questions in test."""
    chance: float
    """Accuracy of random answers."""
    letters: tuple[int, ...]
    """How often A, B, ... is correct."""

    @property
    def total(self) -> int:
        """Number of questions in both splits."""
        return self.dev + self.test


def choose_dev(items: Sequence[BalanceItem], name: str) -> frozenset[str]:
    """Draw the questions of the dev split at random: 40% of all, and 40% of each ability, rounded up or down.

    An ability with two questions or more has at least one in each split.

    Args:
        items: All questions.
        name: Name of the benchmark, which seeds the draw.

    Returns:
        The indices of the drawn questions.
    """
    by_leaf = _by_leaf(items)
    quotas = {leaf: DEV_SHARE * len(members) for leaf, members in by_leaf.items()}
    counts = {leaf: math.floor(quota) for leaf, quota in quotas.items()}

    # The largest remainder method: abilities whose quota was rounded down most get one question more.
    def most_rounded_down_first(leaf: Leaf) -> tuple[float, Leaf]:
        return counts[leaf] - quotas[leaf], leaf

    missing_count = round(DEV_SHARE * len(items)) - sum(counts.values())
    for leaf in sorted(by_leaf, key=most_rounded_down_first)[:missing_count]:
        counts[leaf] += 1

    chosen: list[str] = []
    for leaf, members in by_leaf.items():
        indices = [item.index for item in members]
        rng_for(name, "/".join(leaf), "split").shuffle(indices)
        minimum = min(1, len(members) // 2)
        chosen += indices[: max(minimum, counts[leaf])]
    return frozenset(chosen)


def _by_leaf(items: Sequence[BalanceItem]) -> dict[Leaf, list[BalanceItem]]:
    """Return the questions of each ability, the abilities in alphabetical order."""
    by_leaf: dict[Leaf, list[BalanceItem]] = defaultdict(list)
    for item in items:
        by_leaf[item.leaf].append(item)
    return dict(sorted(by_leaf.items()))


def balance_by_leaf(items: Sequence[BalanceItem], dev: frozenset[str]) -> list[LeafBalance]:
    """Return the balance of the questions of each ability, and last that of all questions.

    Args:
        items: All questions.
        dev: Indices of the questions in dev; the others are in test.
    """
    balances = [_balance(leaf, members, dev) for leaf, members in _by_leaf(items).items()]
    all_leaves = ("", "")
    balances.append(_balance(all_leaves, items, dev))
    return balances


def _balance(leaf: Leaf, items: Sequence[BalanceItem], dev: frozenset[str]) -> LeafBalance:
    """Return the balance of some questions.

    Args:
        leaf: Their ability.
        items: The questions.
        dev: Indices of the questions in dev.
    """
    n_dev = sum(item.index in dev for item in items)
    gold_counts = Counter(item.gold for item in items)
    most_options = max(item.count for item in items)
    return LeafBalance(
        leaf=leaf,
        dev=n_dev,
        test=len(items) - n_dev,
        chance=sum(1 / item.count for item in items) / len(items),
        letters=tuple(gold_counts[position] for position in range(most_options)),
    )


def balance_warnings(items: Sequence[BalanceItem], dev: frozenset[str]) -> list[str]:
    """Return a line for each reason why numbers from these questions are unreliable.

    Args:
        items: All questions.
        dev: Indices of the questions in dev; the others are in test.
    """
    *leaves, all_questions = balance_by_leaf(items, dev)
    warnings: list[str] = []
    for balance in leaves:
        warnings += _split_warnings(balance)
    warnings += _letter_warnings(all_questions, items, "all questions")
    for balance in leaves:
        of_leaf = [item for item in items if item.leaf == balance.leaf]
        warnings += _letter_warnings(balance, of_leaf, balance.leaf[1])

    smallest = min(leaves, key=lambda balance: balance.total)
    largest = max(leaves, key=lambda balance: balance.total)
    if largest.total > MAX_SIZE_RATIO * smallest.total:
        warnings.append(
            f"{largest.leaf[1]} has {largest.total} questions and {smallest.leaf[1]} {smallest.total}: the overall "
            "accuracy is mostly that of the large ones"
        )

    dev_images = {item.picture for item in items if item.index in dev}
    test_images = {item.picture for item in items if item.index not in dev}
    shared = dev_images & test_images
    if shared:
        warnings.append(
            f"images in both splits: {len(shared)}; a model trained on dev has seen them"
        )
    return warnings


def _split_warnings(balance: LeafBalance) -> Iterator[str]:
    """Yield a warning if an ability has no question in a split, or too few in test."""
    name = balance.leaf[1]
    if not balance.dev or not balance.test:
        yield f"{name} has {balance.dev} questions in dev and {balance.test} in test: it has too few to be split"
    elif balance.test < MIN_TEST_QUESTIONS:
        yield f"{name} has {balance.test} questions in test: one of them is {100 / balance.test:.1f} points"


def _letter_warnings(
    balance: LeafBalance, items: Sequence[BalanceItem], name: str
) -> Iterator[str]:
    """Yield a warning if one letter is the correct answer far too often (by more than three standard deviations).

    A model that always chooses it then scores above chance.

    Args:
        balance: The balance of the questions.
        items: The questions.
        name: Their name in the warning.
    """
    position = max(range(len(balance.letters)), key=lambda index: balance.letters[index])
    share = balance.letters[position] / balance.total
    # The share if each option of a question were equally often correct; the letter needs enough options.
    expected = sum(1 / item.count for item in items if item.count > position) / balance.total
    standard_deviation = math.sqrt(expected * (1 - expected) / balance.total)
    if share - expected > 3 * standard_deviation:
        yield (
            f"{name}: {LETTERS[position]} is correct {share:.0%} of the time, {expected:.0%} would be even; shuffle the "
            "options (CircularEval forgives it, one pass does not)"
        )


SCAFFOLD_COLUMNS = ("question", "image", "A", "B", "answer", "category")
OPTIONAL_COLUMNS = ("index", "hint", "l2-category", "source", "comment")


class NewQuestion(Struct, frozen=True):
    """A question as a row of the user's table states it."""

    index: str
    cells: dict[str, str]
    """The cells of the row by column."""
    options: tuple[str, ...]
    gold: int
    """Index of the correct option."""
    picture: Path
    """The file of its image."""
    digest: str
    """Digest of the image."""
    leaf: taxonomy.Leaf
    """Its ability."""

    @property
    def item(self) -> BalanceItem:
        """The facts that matter for balance."""
        return BalanceItem(
            index=self.index,
            leaf=self.leaf,
            count=len(self.options),
            gold=self.gold,
            picture=self.digest,
        )


class ScaffoldedBenchmark(Struct, frozen=True):
    """The files of a new benchmark, and the balance of its questions."""

    dev: Path
    test: Path
    answers: Path
    abilities: Path
    parts: list[LeafBalance]
    """The balance of each ability, and last that of all questions."""
    weak: list[str]
    """Notes, and warnings about what makes the numbers unreliable; one line each."""


def scaffold(
    questions: Path, images: Path | None, folder: Path, name: str = ""
) -> ScaffoldedBenchmark:
    """Make a benchmark of MMBench's form in a new folder, from a table of questions.

    The files are NAME-dev.tsv with answers, NAME-test.tsv without, NAME-test-answers.tsv, and taxonomy.toml.

    Args:
        questions: A .csv or .tsv file with the columns question, image (a path below `images`), A, B, ..., answer (a
            letter) and category, and if there are any l2-category, hint, source, comment and index.
        images: Folder of the images; by default that of the table.
        folder: The new folder.
        name: Name of the benchmark, by default that of the folder. It seeds the splits.

    Raises:
        DataError: If rows are wrong; the message names the file and the line of up to ten. Nothing is written then.
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
        dev=folder / f"{name}-dev.tsv",
        test=folder / f"{name}-test.tsv",
        answers=folder / f"{name}-test-answers.tsv",
        abilities=folder / taxonomy.TAXONOMY_FILE,
        parts=balance_by_leaf(items, dev),
        weak=[*notes, *_taxonomy_warnings(new_questions), *balance_warnings(items, dev)],
    )
    in_dev = [question for question in new_questions if question.index in dev]
    in_test = [question for question in new_questions if question.index not in dev]
    _write(benchmark.dev, in_dev, "dev")
    _write(benchmark.test, in_test, "test")
    with writing_table(benchmark.answers, ("index", "answer")) as write_row:
        for question in in_test:
            write_row({"index": question.index, "answer": LETTERS[question.gold]})
    benchmark.abilities.write_text(_abilities(new_questions), "utf-8")
    return benchmark


def _read(path: Path, images: Path) -> tuple[list[NewQuestion], list[str]]:
    """Read the user's table of questions.

    Args:
        path: The table.
        images: Folder of the images.

    Returns:
        The questions, and notes on columns that are left out.

    Raises:
        DataError: If rows are wrong; the message names the line of up to ten.
    """
    if path.suffix.lower() not in TABLES:
        raise DataError(f"{path}: a table of questions ends with {' or '.join(TABLES)}")
    faults = Faults()
    by_index: dict[str, NewQuestion] = {}
    with open_text(path) as file:
        table = DelimitedTable(file, path)
        unused_columns = _check_header(table)
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
    notes = [f"{name!r} left out: such columns mean nothing here" for name in unused_columns]
    return list(by_index.values()), notes


def _check_header(table: DelimitedTable) -> list[str]:
    """Return the columns that are not used. Raises DataError if a needed column is missing."""
    where = f"{table.path}:1"
    known = {*SCAFFOLD_COLUMNS, *OPTIONAL_COLUMNS, *L2_COLUMNS, *LETTERS}
    unused_columns = unknown_columns(table.header, known, where)
    for name in SCAFFOLD_COLUMNS:
        if name not in table.header:
            header = ", ".join(table.header) or "none"
            raise DataError(f"{where}: the column {name!r} is missing; there are {header}")
    return unused_columns


def _question(row: DelimitedRow, number: int, images: Path) -> NewQuestion:
    """Read a row of the user's table.

    Args:
        row: The row.
        number: Its number, from 1: the index of the question if the table has no indices.
        images: Folder of the images.

    Raises:
        RowError: If a cell is missing or wrong, or the image cannot be read.
    """
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
    image = images / cells["image"]
    return NewQuestion(
        index=index,
        cells=cells,
        options=options,
        gold=gold,
        picture=image,
        digest=_digest(image),
        leaf=(_l2_of_row(cells), cells["category"]),
    )


def _l2_of_row(cells: dict[str, str]) -> str:
    """Return the L-2 ability (second level) of a row: the one that it states, or the published one of its category.

    Only the first of the columns for it that the row has is read.

    Returns:
        The name, or "" if the row does not state it and the category is not a published ability.
    """
    for column in L2_COLUMNS:
        if column in cells:
            if cells[column]:
                return cells[column]
            break
    for leaf in taxonomy.packaged_taxonomy().leaf:
        if leaf.name == cells["category"]:
            return leaf.l2
    return ""


def _digest(image: Path) -> str:
    """Return the digest of an image file. Raises RowError if it cannot be read."""
    try:
        return inspect_image(read_file(image, IMAGE_BYTES), str(image)).digest
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RowError(
            "an image that cannot be read", f"cannot read the image {image} ({reason})"
        ) from None
    except DataError as error:
        raise RowError("an image that cannot be read", str(error)) from None


def _write(path: Path, questions: Sequence[NewQuestion], split: str) -> None:
    """Write the questions of a split as a table of MMBench's form; the answers only for `dev`."""
    most_options = max((len(question.options) for question in questions), default=2)
    columns = ["index", "question", "hint", *LETTERS[:most_options]]
    if split == "dev":
        columns.append("answer")
    columns += ["category", "image", "source", "l2-category", "comment", "split"]

    files = {question.digest: question.picture for question in questions}

    def read_image(digest: str) -> bytes:
        return read_file(files[digest], IMAGE_BYTES)

    image_cells = ImageCells()
    with writing_table(path, columns) as write_row:
        for question in questions:
            cells = dict(question.cells)
            cells["index"] = question.index
            cells["image"] = image_cells.cell(question.index, (question.digest,), read_image)
            cells["l2-category"] = question.leaf[0]
            cells["split"] = split
            cells["answer"] = LETTERS[question.gold]
            write_row(cells)


def _taxonomy_warnings(questions: Sequence[NewQuestion]) -> Iterator[str]:
    """Yield a warning for each ability without an L-2 ability, and for each L-2 ability without an L-1 ability."""
    published = taxonomy.packaged_taxonomy()
    leaves = list(dict.fromkeys(question.leaf for question in questions))
    for l2, leaf in leaves:
        if not l2:
            yield f"{leaf} has no l2-category: give it one, or it is in no group of abilities"
    for l2 in dict.fromkeys(l2 for l2, _ in leaves):
        if l2 and not published.l1_of(l2):
            yield f"the l1 of {l2} is not known: fill it in in {taxonomy.TAXONOMY_FILE}"


def _abilities(questions: Sequence[NewQuestion]) -> str:
    """Return the content of taxonomy.toml: the abilities of these questions in three levels.

    Published abilities have their titles and definitions; those of other abilities are empty, to be filled in.
    """
    published = taxonomy.packaged_taxonomy()
    leaves = sorted({question.leaf for question in questions})
    l2_names = sorted({l2 for l2, _ in leaves if l2})
    l2_abilities = [_l2_ability(published, name) for name in l2_names]
    l1_titles: dict[str, str] = {}
    for ability in l2_abilities:
        if ability.l1:
            l1_titles[ability.l1] = published.l1.get(ability.l1, "")

    parts = [
        "# The abilities of this benchmark. Every leaf belongs to an l2, every l2 to an l1; titles are for reports.\n",
        f"[l1]\n{tomli_w.dumps(l1_titles)}",
    ]
    for ability in l2_abilities:
        fields = {"name": ability.name, "title": ability.title, "l1": ability.l1}
        parts.append(f"[[l2]]\n{tomli_w.dumps(fields)}")
    for leaf in leaves:
        leaf_ability = _leaf_ability(published, leaf)
        fields = {
            "name": leaf_ability.name,
            "l2": leaf_ability.l2,
            "title": leaf_ability.title,
            "definition": leaf_ability.definition,
        }
        parts.append(f"[[leaf]]\n{tomli_w.dumps(fields)}")
    return "\n".join(parts)


def _l2_ability(published: Taxonomy, name: str) -> SecondLevel:
    """Return the published L-2 ability with this name, or a new one without a title."""
    for ability in published.l2:
        if ability.name == name:
            return ability
    return SecondLevel(name)


def _leaf_ability(published: Taxonomy, leaf: taxonomy.Leaf) -> LeafAbility:
    """Return the published ability of the third level with this key, or a new one without a title."""
    for ability in published.leaf:
        if ability.key == leaf:
            return ability
    l2, name = leaf
    return LeafAbility(name, l2)
