"""Recognise the benchmark of the catalogue that a file without right answers asked, by its name, ids or questions.

Ids, names of images and questions are those that the authors published. Each pattern fits one
benchmark only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from snellen.building.benchmark import Benchmark, own_benchmarks
from snellen.catalogue import entries
from snellen.common.paths import benchmark_folder
from snellen.errors import SnellenError
from snellen.interchange.predictions.cells import text_in_cell
from snellen.interchange.predictions.known_names import known_benchmark, named_within
from snellen.interchange.predictions.scoring_call import scoring_call
from snellen.recognition.folding import folded_name


class Sign(NamedTuple):
    """A pattern of cells by which a benchmark can be recognised, such as ids like `validation_Art_1` for MMMU."""

    benchmark: str
    pattern: re.Pattern[str]
    is_of_names: bool = False
    """Whether the ids of an object (`{"validation_Art_1": "A"}`) have this form as well as cells."""


_SIGNS = (
    Sign("modern/mmmu", re.compile(r"(?:validation|dev)_[A-Z][A-Za-z_]+_\d+"), True),
    Sign("modern/mmmu-test", re.compile(r"test_[A-Z][A-Za-z_]+_\d+"), True),
    Sign("modern/mm-vet", re.compile(r"v1_\d+"), True),
    Sign("modern/vizwiz", re.compile(r"VizWiz_val_\d+(?:\.jpg)?"), True),
    Sign("modern/vizwiz-test", re.compile(r"VizWiz_test_\d+(?:\.jpg)?"), True),
    Sign("modern/chartqa", re.compile(r"(?:.*/)?(?:two|multi)_col_\d+(?:\.png)?")),
    Sign("modern/pope", re.compile(r"Is there an? [\w -]+ in the (?:image|imange)\?.*", re.DOTALL)),
    Sign("modern/mme", re.compile(r".*\? ?Please answer yes or no\.", re.DOTALL)),
)
FITTING = 0.2
"""The share of the cells that have to look so; a column of images has other forms beside it."""
LOOKED_AT = 300
_NAMES_OF_DATA = frozenset(
    "dataset benchmark data_source dataset_name benchmark_name task task_name".split()
)


def asked_benchmark_of(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the name of the benchmark whose questions a file answers; empty if it cannot be recognised.

    Examples:
        >>> asked_benchmark_of(Path("replies.json"), [{"id": "validation_Art_1", "response": "A"}])
        'modern/mmmu'
    """
    known = known_benchmark(path.name.partition(".")[0])
    if known is not None:
        return known.spec.name
    looked_at = rows[:LOOKED_AT]
    return (
        _by_column_of_names(looked_at)
        or _by_signs(looked_at)
        or named_within(path.name.partition(".")[0])
    )


def _by_column_of_names(rows: Sequence[Mapping[str, Any]]) -> str:
    names: set[str] = set()
    for cells in rows:
        for column, cell in cells.items():
            if folded_name(column.rpartition(".")[2]) in _NAMES_OF_DATA:
                names.add(text_in_cell(cell))
    if len(names) != 1:
        return ""
    known = known_benchmark(names.pop())
    return known.spec.name if known is not None else ""


def _by_signs(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the benchmark whose sign, such as its form of ids, a column of a table has; empty if there is none.

    The first of `_SIGNS` counts that at least a share `FITTING` of the cells of a column match. For some signs, the
    names of the columns count as cells of a further column.
    """
    texts_by_column: dict[str, list[str]] = {}
    for cells in rows:
        for column, cell in cells.items():
            texts_by_column.setdefault(column, []).append(text_in_cell(cell))
    for sign in _SIGNS:
        columns = list(texts_by_column.values())
        if sign.is_of_names:
            columns.append(list(texts_by_column))
        for texts in columns:
            n_matches = sum(sign.pattern.fullmatch(text) is not None for text in texts)
            has_sign = n_matches > 0 and n_matches >= FITTING * len(texts)
            if has_sign and sign.benchmark in entries():
                return sign.benchmark
    return ""


def built_benchmarks_with_ids(ids: Collection[str], *, with_options: bool = False) -> list[str]:
    """Return the names of benchmarks built by the user that contain all given ids.

    Args:
        ids: Ids of the questions of a file. The list is empty if there are none.
        with_options: Whether each of these questions must have options, because the replies are letters.
    """
    if not ids:
        return []
    names: list[str] = []
    for name in own_benchmarks():
        benchmark = Benchmark(benchmark_folder(name))
        try:
            known_ids = {
                sample.id
                for sample in benchmark.samples()
                if not with_options or all(turn.options for turn in sample.rounds)
            }
        except SnellenError:  # damaged, or of a version that has to be built again
            continue
        if known_ids.issuperset(ids):
            names.append(name)
    return names


BENCHMARK_TO_NAME = "NAME"
"""How a command calls the benchmark that the user has to name."""
NAMED_AT_MOST = 8


def built_names_clause(names: Sequence[str]) -> str:
    """Return built benchmarks as the subject of a clause: `a and b, which are built, have`.

    Examples:
        >>> built_names_clause(["mine"]), built_names_clause(["mine", "yours"])
        ('mine, which is built, has', 'mine and yours, which are built, have')
    """
    if len(names) == 1:
        return f"{names[0]}, which is built, has"
    named = list(names[:NAMED_AT_MOST])
    n_others = len(names) - len(named)
    last = f"{n_others} more" if n_others else named.pop()
    return f"{', '.join(named)} and {last}, which are built, have"


_LETTER = re.compile(r"\(?[A-Z][).]?")

TABLE_TO_GIVE = "ANSWERS.csv"
"""A placeholder in commands for a table of right answers that the user has."""


def how_to_give_answers(
    path: Path,
    rows: Sequence[Mapping[str, Any]],
    *,
    replies: Sequence[str] = (),
    may_be_column: bool = True,
) -> str:
    """Return what to type in order to score a file that has replies but no right answers.

    Args:
        path: The file.
        rows: The cells of its rows.
        replies: The replies of its rows, if they are known. If all are letters, only questions with options fit.
        may_be_column: Whether a column of the file may have the right answers under an unusual
            name.
    """
    own = scoring_call(path, benchmark=TABLE_TO_GIVE)
    how = (
        "give the right answers in a table with the columns id and answer, and the options if the questions have any: "
        f"{own}"
    )
    if may_be_column:
        how = (
            f"if a column has them: {scoring_call(path, columns={'answer': 'NAME'})}; if not, {how}"
        )
    name = asked_benchmark_of(path, rows)
    if not name:
        ids = {str(cells.get("id", "")) for cells in rows} - {""}
        are_letters = bool(replies) and all(map(_LETTER.fullmatch, replies))
        built = built_benchmarks_with_ids(ids, with_options=are_letters)
        if built:
            benchmark = built[0] if len(built) == 1 else BENCHMARK_TO_NAME
            call = scoring_call(path, benchmark=benchmark)
            return f"{built_names_clause(built)} questions with these ids: {call}; otherwise, {how}"
        return how
    return f"it looks like {entries()[name].title}: {scoring_call(path, benchmark=name)}; otherwise, {how}"
