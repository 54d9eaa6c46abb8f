"""Which faults would the tests not notice? Mutants of a room, each run against the tests that run its line.

    python bench/mutation.py protocols --sample 60 --seed 1
    python bench/mutation.py protocols --again .mutation/survivors-protocols.txt

Operators are mutmut's, and five of our own that take a rule away (a condition, an operand of `and`, an element of a
table, an alternative of a pattern, a statement). mutmut's own runner is not used: it starts each function through a
trampoline, which leaves tables at the top of a module alone, and knows nothing of processes that a test starts.

A mutant is written into a copy of the repository, and a forked process runs the nearest tests that reach its line, the
quickest first, until one fails. A mutant is killed by a failure or by running out of time. One that no test can tell
from the original stands in `mutation-equivalent.txt` with the reason, and is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import coverage
import hypothesis.strategies  # noqa: F401 -- loaded before a fork, once for all mutants, as are the next two
import libcst as cst
import libcst.matchers as m
import numpy  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pytest
from libcst.metadata import (
    ByteSpanPositionProvider,
    CodeSpan,
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
)
from mutmut.mutation.mutators import mutation_operators, operator_string

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
EQUIVALENT = Path(__file__).with_name("mutation-equivalent.txt")
CACHE = ROOT / ".mutation"  # what tests run which lines; made again when a file changes

ROOMS: dict[str, dict[str, str]] = {
    "protocols": {
        "protocols/choice.py": "protocols presentations likelihood_rules",
        "protocols/prediction.py": "protocols presentations likelihood_rules",
        "protocols/base.py": "protocols presentations likelihood_rules",
    },
    "runs": {
        "runs/journal.py": "journal drivers resume budget",
        "runs/journal_lines.py": "journal drivers resume budget",
        "runs/run_store.py": "journal drivers resume budget",
        "runs/drivers.py": "journal drivers resume spec",
        "runs/async_driver.py": "drivers openai roles",
        "runs/driving.py": "drivers roles",
        "runs/forecast.py": "budget matching",
    },
    "formats": {
        "formats/text_table.py": "text_table",
        "formats/xlsx.py": "text_table",
        "formats/xlsx_parts.py": "text_table",
    },
    "scoring": {
        "scoring/choice_metrics.py": "declaration protocols scoring likelihood_rules",
        "scoring/choice_scoring.py": "declaration protocols scoring likelihood_rules",
        "metrics/open_questions.py": "scoring metrics_pooled declaration marking unfinished",
        "scoring/run_scoring.py": "scoring likelihood_rules presentations declaration matching headlines",
        "metrics/questions.py": "scoring metrics_pooled likelihood_rules unfinished",
        "metrics/question_counts.py": "scoring metrics_pooled likelihood_rules unfinished",
        "scoring/journal_reading.py": "likelihood_rules presentations",
        "scoring/unparsed.py": "matching",
    },
    "analysis": {
        "analysis/quantiles.py": "statistics aggregate",
        "analysis/group_spread.py": "statistics aggregate",
        "analysis/intervals.py": "statistics aggregate",
        "analysis/group_means.py": "statistics aggregate",
        "analysis/combined_estimates.py": "statistics aggregate",
        "analysis/linearisation.py": "metrics_pooled statistics declaration",
        "analysis/aggregate.py": "statistics aggregate",
        "analysis/benchmark_rows.py": "statistics aggregate",
        "analysis/choice_values.py": "statistics aggregate",
        "analysis/pools.py": "statistics aggregate",
        "analysis/paired/differences.py": "compare statistics",
    },
    "extraction": {
        "extraction/standard.py": "extract replies",
        "extraction/statements.py": "extract replies",
        "extraction/mentions.py": "extract replies",
        "extraction/tokens.py": "extract replies",
        "extraction/features.py": "extract replies",
        "extraction/propositions.py": "extract replies",
        "extraction/relation_words.py": "reply_styles replies",
        "extraction/claims.py": "reply_styles replies",
        "extraction/claim_verdicts.py": "reply_styles replies",
        "extraction/relations.py": "reply_styles replies",
        "extraction/reader.py": "extract replies",
        "extraction/cue_words.py": "extract replies",
        "extraction/normalisation.py": "extract replies",
    },
}
"""For each module the test files that stand nearest to it."""

SECONDS_FOR_A_FIXTURE = {"eyechart": 5.0}
"""What a fixture of the whole session costs its first test, so that tests without it come first."""
SLOWEST = 60.0
PYTEST = "-q -p no:cacheprovider --hypothesis-seed=0 --tb=line -W ignore::pytest.PytestAssertRewriteWarning".split()


@dataclass(frozen=True)
class Mutant:
    """One change of one module."""

    module: str
    line: int
    lines: frozenset[int]
    """Lines by which coverage knows the statement."""
    before: str
    after: str
    source: str
    at_import: bool
    """Whether it stands outside of functions: then all tests run it, also where the first one imports the module."""

    @property
    def key(self) -> str:
        """The changed line, before and after: the same wherever in the file it stands."""
        return f"{self.module} | {self.before} | {self.after}"


# --- operators ---------------------------------------------------------------------------------------------------


def negated(test: cst.BaseExpression) -> cst.BaseExpression:
    """The opposite of a condition of `if`, `while` or a comprehension."""
    return cst.UnaryOperation(
        cst.Not(), test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    )


def drop_operand(node: cst.BooleanOperation) -> Iterator[cst.BaseExpression]:
    yield node.left
    yield node.right


def drop_condition(node: cst.CompFor) -> Iterator[cst.CompFor]:
    for i in range(len(node.ifs)):
        yield node.with_changes(ifs=[*node.ifs[:i], *node.ifs[i + 1 :]])


def drop_element(node: cst.Tuple | cst.List | cst.Set | cst.Dict) -> Iterator[cst.CSTNode]:
    if len(node.elements) > 2:
        for i in range(len(node.elements)):
            yield node.with_changes(elements=[*node.elements[:i], *node.elements[i + 1 :]])


def drop_alternative(node: cst.SimpleString) -> Iterator[cst.SimpleString]:
    """One of the alternatives of a regular expression, which raw strings are here, or one of a list of words."""
    quote = node.quote
    body = node.raw_value
    parts = re.split(r"(?<!\\)\|", body) if "r" in node.prefix else body.split(" ")
    if len(parts) < 3:
        return
    glue = "|" if "r" in node.prefix else " "
    for i in range(len(parts)):
        rest = glue.join([*parts[:i], *parts[i + 1 :]])
        if "r" not in node.prefix or _balanced(rest) == _balanced(body):
            yield node.with_changes(value=f"{node.prefix}{quote}{rest}{quote}")


def _balanced(pattern: str) -> int:
    return pattern.count("(") - pattern.count(")")


def drop_statement(node: cst.Expr) -> Iterator[cst.BaseSmallStatement]:
    if not isinstance(node.value, cst.Ellipsis):
        yield cst.Pass()


def longer_string(node: cst.BaseString) -> Iterator[cst.BaseString]:
    """mutmut's first mutation of a text; its changes of case say little more."""
    yield from list(operator_string(node))[:1]


OPERATORS: list[tuple[type, Callable[[Any], Iterable[cst.CSTNode]]]] = [
    *((kind, operator) for kind, operator in mutation_operators if operator is not operator_string),
    (cst.SimpleString, longer_string),
    (cst.CompFor, drop_condition),
    (cst.BooleanOperation, drop_operand),
    (cst.Tuple, drop_element),
    (cst.List, drop_element),
    (cst.Set, drop_element),
    (cst.Dict, drop_element),
    (cst.SimpleString, drop_alternative),
    (cst.Expr, drop_statement),
]

NOT_CODE = (cst.Annotation, cst.Import, cst.ImportFrom, cst.Decorator, cst.TypeAlias)
TYPES = m.Subscript(value=m.Name("Literal") | m.Name("Callable"))


STRICT = re.compile(r",? ?strict=\w+| ?, ?(?=\))")
"""`zip(..., strict=True)` is an assertion that holds: without it nothing comes out differently."""


class Collector(cst.CSTVisitor):
    """All mutations of a module: pairs of a node and what stands in its place."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[tuple[cst.CSTNode, cst.CSTNode]] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, NOT_CODE) or m.matches(node, TYPES) or self._is_docstring(node):
            return False
        for kind, operator in OPERATORS:
            if isinstance(node, kind):
                self.pairs.extend((node, changed) for changed in operator(node))
        if isinstance(node, cst.If | cst.While | cst.CompIf):
            self.pairs.append((node.test, negated(node.test)))
        return True

    def _is_docstring(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.Expr) and isinstance(node.value, cst.BaseString)


def mutants_of(module: str) -> list[Mutant]:
    """All mutants of a module that are another program and can be compiled."""
    original = (SOURCE / "snellen" / module).read_text("utf-8")
    wrapper = MetadataWrapper(cst.parse_module(original))
    collector = Collector()
    wrapper.visit(collector)
    program = wrapper.module.bytes
    spans = wrapper.resolve(ByteSpanPositionProvider)
    positions = wrapper.resolve(PositionProvider)
    parents = wrapper.resolve(ParentNodeProvider)
    mutants: dict[str, Mutant] = {}
    for node, changed in collector.pairs:
        source = replaced(program, wrapper.module, node, changed, spans[node])
        if source == original or source in mutants or not compiles(source):
            continue
        before, after = changed_lines(original, source)
        if STRICT.sub("", before) == STRICT.sub("", after):
            continue
        span = positions[node]
        lines = statement_lines(node, parents, positions) | set(
            range(span.start.line, span.end.line + 1)
        )
        at_import = not inside_function(node, parents)
        mutants[source] = Mutant(
            module, span.start.line, frozenset(lines), before, after, source, at_import
        )
    return list(mutants.values())


def replaced(
    program: bytes, module: cst.Module, node: cst.CSTNode, changed: cst.CSTNode, span: CodeSpan
) -> str:
    """The program with another node in its place; by bytes where these are the node's, which is quicker."""
    here = program[span.start : span.start + span.length].decode()
    if here.strip() != module.code_for_node(node).strip():
        return str(module.deep_replace(node, changed).code)  # type: ignore[arg-type]
    text = here.replace(here.strip(), module.code_for_node(changed).strip())
    return (program[: span.start] + text.encode() + program[span.start + span.length :]).decode()


def compiles(source: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "mutant", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def statement_lines(node: cst.CSTNode, parents: Any, positions: Any) -> set[int]:
    """First line of the statement around the node."""
    while node in parents and not isinstance(
        node, cst.SimpleStatementLine | cst.If | cst.For | cst.While | cst.With
    ):
        node = parents[node]
    return {positions[node].start.line} if node in parents else set()


def inside_function(node: cst.CSTNode, parents: Any) -> bool:
    while node in parents and not isinstance(node, cst.FunctionDef | cst.Lambda):
        node = parents[node]
    return node in parents


def changed_lines(before: str, after: str) -> tuple[str, str]:
    """What differs between two programs, as one line each."""
    old, new = before.splitlines(), after.splitlines()
    start = next(i for i in range(len(old) + 1) if i >= min(len(old), len(new)) or old[i] != new[i])
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    clean = [" ".join(" ".join(lines[start : len(lines) - end]).split()) for lines in (old, new)]
    return clean[0], clean[1]


# --- tests -------------------------------------------------------------------------------------------------------


class Tracer:
    """Notes which test runs which lines, and how long each takes."""

    def __init__(self, measure: coverage.Coverage) -> None:
        self.measure = measure
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.measure.switch_context(item.nodeid)
        started = time.monotonic()
        try:
            return (yield)
        finally:
            fixtures = getattr(item, "fixturenames", ())
            dear = sum(SECONDS_FOR_A_FIXTURE.get(name, 0.0) for name in fixtures)
            self.seconds[item.nodeid] = dear + min(time.monotonic() - started, SLOWEST)
            self.measure.switch_context("")


class Ordered:
    """Runs only some tests, in this order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self.rank = {test: i for i, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (i for i in items if i.nodeid in self.rank), key=lambda i: self.rank[i.nodeid]
        )


def in_fork(work: Callable[[], int], seconds: float) -> int | None:
    """What `work` returns in a process of its own, or None when it takes longer."""
    child = os.fork()
    if child == 0:
        os.setsid()
        quiet = os.open(CACHE / "last-output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        code = 99
        try:
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__")


def use_copy(copy: Path) -> None:
    """Work in a copy of the repository, this process and those that its tests start."""
    os.environ["PYTHONPATH"] = str(copy / "src")
    sys.path[:0] = [str(copy / "src"), str(copy / "tests")]
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.chdir(copy)


@cache
def traced(test: str, copy: Path) -> dict[str, Any]:
    """For one test file: {"lines": {module: {line: [tests]}}, "seconds": {test: s}}, kept until something changes."""
    path = copy / "tests" / f"test_{test}.py"
    kept = CACHE / f"{test}.json"
    newest = max(file.stat().st_mtime for file in [path, *(copy / "src").rglob("*.py")])
    if kept.exists() and kept.stat().st_mtime > newest:
        return dict(json.loads(kept.read_text()))

    def work() -> int:
        use_copy(copy)
        measure = coverage.Coverage(
            data_file=None, source_pkgs=["snellen"], branch=False, config_file=False
        )
        tracer = Tracer(measure)
        measure.start()
        code = pytest.main([*PYTEST, str(path)], plugins=[tracer])
        measure.stop()
        lines: dict[str, Any] = {}
        for file in measure.get_data().measured_files():
            name = Path(file).relative_to(copy.resolve() / "src" / "snellen").as_posix()
            lines[name] = measure.get_data().contexts_by_lineno(file)
        kept.write_text(json.dumps({"lines": lines, "seconds": tracer.seconds}))
        return int(code)

    if in_fork(work, 900) != 0:
        raise SystemExit(f"{path} fails without any mutation; see {CACHE / 'last-output.txt'}")
    return dict(json.loads(kept.read_text()))


def tests_for(mutant: Mutant, files: Sequence[str], quick: float, copy: Path) -> dict[str, float]:
    """Tests that run the mutant's line with their seconds, the quickest first; all of the files when it runs at import.

    Tests that took longer than `quick` seconds are left out.
    """
    tests: dict[str, float] = {}
    for file in files:
        trace = traced(file, copy)
        lines = trace["lines"].get(mutant.module, {})
        contexts = {test for line in mutant.lines for test in lines.get(str(line), ())}
        reached = (
            trace["seconds"] if contexts and (mutant.at_import or "" in contexts) else contexts
        )
        tests.update((test, trace["seconds"][test]) for test in reached)
    return {
        test: tests[test]
        for test in sorted(tests, key=lambda test: tests[test])
        if tests[test] <= quick
    }


def passes(tests: Sequence[str], seconds: float, copy: Path) -> bool:
    files = sorted({test.partition("::")[0] for test in tests})

    def work() -> int:
        use_copy(copy)
        return int(pytest.main([*PYTEST, "-x", *files], plugins=[Ordered(tests)]))

    return in_fork(work, 60 + 5 * seconds) == 0


def survives(mutant: Mutant, tests: Mapping[str, float], copy: Path) -> bool:
    path = copy / "src" / "snellen" / mutant.module
    original, times = path.read_bytes(), path.stat()
    path.write_text(mutant.source, "utf-8")
    try:
        return passes(list(tests), sum(tests.values()), copy)
    finally:
        path.write_bytes(original)
        os.utime(path, (times.st_atime, times.st_mtime))  # or its tests would be traced again


# --- the run -----------------------------------------------------------------------------------------------------


def equivalents() -> set[str]:
    lines = EQUIVALENT.read_text("utf-8").splitlines() if EQUIVALENT.exists() else []
    return {line.strip() for line in lines if line.strip() and not line.startswith(("#", "    "))}


def sample_of(given: argparse.Namespace) -> tuple[list[Mutant], int]:
    """The mutants to try, and of how many."""
    every = [
        mutant
        for module in ROOMS[given.room]
        if given.only in module
        for mutant in mutants_of(module)
    ]
    if given.again:
        keys = set(given.again.read_text("utf-8").splitlines())
        return [mutant for mutant in every if mutant.key in keys], len(every)
    rng = random.Random(f"{given.room} {given.seed}")
    return rng.sample(every, min(given.sample, len(every))), len(every)


def run(given: argparse.Namespace) -> None:
    """Try each mutant of the sample, print those that survive, and keep their keys for `--again`."""
    chosen, total = sample_of(given)
    equal = equivalents()
    counts: Counter[str] = Counter()
    survivors: list[Mutant] = []
    sound: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(ROOT, Path(folder) / "copy", ignore=NOT_COPIED))
        for mutant in chosen:
            if mutant.key in equal:
                counts["equivalent"] += 1
                continue
            tests = tests_for(mutant, ROOMS[given.room][mutant.module].split(), given.quick, copy)
            if not sound.issuperset(tests):
                check_sound(
                    {test: seconds for test, seconds in tests.items() if test not in sound}, copy
                )
                sound.update(tests)
            outcome = "survived" if not tests or survives(mutant, tests, copy) else "killed"
            counts[outcome] += 1
            if outcome == "survived":
                survivors.append(mutant)
                print(
                    f"{mutant.module}:{mutant.line} ({len(tests)} tests)\n  - {mutant.before}\n  + {mutant.after}"
                )
            print(f"{sum(counts.values())} of {len(chosen)}", file=sys.stderr)
            sys.stdout.flush()
    (CACHE / f"survivors-{given.room}.txt").write_text(
        "".join(f"{mutant.key}\n" for mutant in survivors), "utf-8"
    )
    judged = counts["killed"] + counts["survived"]
    share = counts["killed"] / judged if judged else 1.0
    print(
        f"{given.room}: {len(chosen)} of {total} mutants, {counts['equivalent']} equivalent, "
        f"{counts['killed']} killed, {counts['survived']} survived: {share:.1%}"
    )


def check_sound(tests: Mapping[str, float], copy: Path) -> None:
    """Tests that fail on the copy without any mutation would kill everything."""
    if not passes(list(tests), sum(tests.values()), copy):
        raise SystemExit(f"tests fail without any mutation; see {CACHE / 'last-output.txt'}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("room", choices=ROOMS)
    parser.add_argument("--sample", type=int, default=40, help="how many mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="modules whose path contains this")
    parser.add_argument("--again", type=Path, help="only the mutants of this file of survivors")
    parser.add_argument(
        "--quick", type=float, default=SLOWEST, help="leave out tests that take longer, in seconds"
    )
    given = parser.parse_args()
    CACHE.mkdir(exist_ok=True)
    run(given)


if __name__ == "__main__":
    main()
