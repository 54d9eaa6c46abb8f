"""Repair runs: set damaged lines of journals aside, and restore a damaged manifest.

Damaged parts are moved to `damaged/` in the run's folder. Repeating the run's command sends their requests again.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import __version__
from snellen.building.benchmark import MANIFEST, Benchmark, QuestionPart, Selection
from snellen.common.foreign import TABLE_BYTES, lines_of, open_file, read_file
from snellen.common.paths import shell_word
from snellen.errors import DataError, StoreError
from snellen.formats.json_files import JSON_FAULTS
from snellen.formats.whole_files import write_atomically
from snellen.records import EVALUATED, Exchange, Request, Sample
from snellen.runs.journal import read_journal
from snellen.runs.journal_lines import JournalEntry, read_entry, read_line
from snellen.runs.locks import locked_run
from snellen.runs.own_questions import QUESTIONS, SELECTION, reopen_benchmark
from snellen.runs.run_folder import (
    JOURNALS,
    MANIFEST_COPY,
    RUN_FORMAT,
    RUN_MANIFEST,
    BenchmarkUse,
    RoleModel,
    RunManifest,
    decode_manifest,
    holds_answers,
    journals,
    read_manifest,
    write_manifest,
)
from snellen.runs.spec import QuestionSpec

DAMAGED = "damaged"


class Damage(Struct, frozen=True):
    """A line of a journal that was set aside, or a whole file (line 0)."""

    path: Path
    line: int
    why: str

    def __str__(self) -> str:
        location = f"{self.path}:{self.line}" if self.line else str(self.path)
        return f"{location}: {self.why}"


def describe_mismatch(request: Request, sample: Sample) -> str:
    """Return why a stored request cannot belong to a sample, for example because it shows an option too many.

    Returns:
        The reason, as a part of an error message; empty if the request can belong to the sample.
    """
    variant = request.variant
    n_turns = len(sample.rounds)
    if not 0 <= variant.turn < n_turns:
        return f"turn {variant.turn} of {sample.id}, which has {n_turns}"
    n_options = len(sample.rounds[variant.turn].options)
    for option in variant.order:
        if not 0 <= option < n_options:
            return f"option {option} of {sample.id}, which has {n_options}"
    if variant.labels and len(variant.labels) != len(variant.order):
        return f"{len(variant.labels)} labels for {len(variant.order)} options of {sample.id}"
    return ""


def check_matches_sample(folder: Path, exchange: Exchange, sample: Sample) -> None:
    """Check that a stored exchange can belong to a sample.

    Args:
        folder: The folder of the run.
        exchange: The exchange, which is in a journal of the run.
        sample: The sample that it names.

    Raises:
        StoreError: It cannot belong to the sample. The message names the file and the line.
    """
    mismatch = describe_mismatch(exchange.request, sample)
    if not mismatch:
        return
    for path in journals(folder):
        for line_number, (_, stored) in enumerate(read_journal(path), 1):
            if stored == exchange:
                raise StoreError(
                    f"{path}:{line_number}: {mismatch}; run `snellen mend {shell_word(folder)}` to move damaged "
                    "lines aside"
                )


def mend_run(folder: Path) -> list[Damage]:
    """Restore a damaged manifest, and set aside lines of the journals that are not exchanges of this run.

    Args:
        folder: The folder of the run.

    Returns:
        What was damaged; empty if nothing was.

    Raises:
        StoreError: The folder is not a run, or is in use.
        DataError: A benchmark has changed since the run.
    """
    repairs = _mend_manifest(folder)
    manifest = read_manifest(folder)
    sample_by_name: dict[tuple[str, str], Sample] = {}
    for use in manifest.benchmarks:
        benchmark = reopen_benchmark(use, folder)
        for sample in benchmark.samples(Selection()):
            sample_by_name[use.name, sample.id] = sample

    def fault(line: bytes) -> str:
        """Return what is wrong with a line of a journal; empty if it is a response to a question of the run."""
        try:
            exchange = read_line(line, manifest.authors)
        except StoreError as error:
            return str(error)
        request = exchange.request
        sample = sample_by_name.get((request.benchmark, request.sample_id))
        if sample is None:
            return ""
        return describe_mismatch(request, sample)

    with locked_run(folder):
        for path in sorted(folder.glob(JOURNALS)):
            repairs.extend(_mend_journal(path, fault))
    return repairs


def count_lines_set_aside(folder: Path) -> int:
    """Count the lines of a run's journals that were set aside."""
    count = 0
    for path in journals(folder / DAMAGED):
        if path.is_file():
            count += read_file(path, TABLE_BYTES).count(b"\n")
    return count


def _mend_journal(path: Path, fault: Callable[[bytes], str]) -> list[Damage]:
    """Move the damaged lines of a journal to a file in the folder `damaged/`, and return what was damaged.

    Args:
        path: The journal.
        fault: Function that returns what is wrong with a line; empty if it is intact.
    """
    path_of_damaged = path.parent / DAMAGED / path.name
    if path.is_dir():
        path_of_damaged.parent.mkdir(exist_ok=True)
        path.rename(path_of_damaged)
        return [Damage(path, 0, "a folder and no journal")]
    intact_lines = bytearray()
    damaged_lines = bytearray()
    damages: list[Damage] = []
    with open_file(path) as file:
        for line_number, line in enumerate(lines_of(file), 1):
            reason = fault(line) if line.endswith(b"\n") else "a truncated line"
            if reason:
                damages.append(Damage(path, line_number, reason))
                damaged_lines.extend(line)
            else:
                intact_lines.extend(line)
    if damages:
        moved_before = b""
        if path_of_damaged.exists():
            moved_before = read_file(path_of_damaged, TABLE_BYTES)
        write_atomically(path_of_damaged, moved_before + bytes(damaged_lines))
        write_atomically(path, bytes(intact_lines))
    return damages


# --- a manifest that is damaged or gone -------------------------------------------------------------------------------


def _mend_manifest(folder: Path) -> list[Damage]:
    """Restore a damaged manifest from its copy or, without a copy, from the journals and the run's questions."""
    path = folder / RUN_MANIFEST
    raw = read_file(path) if path.is_file() else b""
    if not raw and not holds_answers(folder):
        return []  # not a run; the caller reads the manifest, which raises an error
    try:
        decode_manifest(folder, raw)
        return []
    except JSON_FAULTS:
        pass
    with locked_run(folder):
        restored = _copied_manifest(folder)
        repair = "restored from its copy"
        if restored is None:
            restored = _manifest_from_journals(folder, raw)
            repair = "recreated from the journals; repeat the run's command to complete it"
        if raw:
            write_atomically(folder / DAMAGED / RUN_MANIFEST, raw)
        write_manifest(folder, restored)
    return [Damage(path, 0, f"damaged or missing, {repair}")]


def _copied_manifest(folder: Path) -> RunManifest | None:
    """Return the copy of a run's manifest; None if there is no usable one."""
    try:
        return decode_manifest(folder, read_file(folder / MANIFEST_COPY))
    except (OSError, StoreError, *JSON_FAULTS):
        return None


def _manifest_from_journals(folder: Path, raw: bytes) -> RunManifest:
    """Make a manifest from the journals, the run's questions, and the beginning of the damaged manifest.

    Args:
        folder: The folder of the run.
        raw: What is left of the damaged manifest; empty if it is missing.

    Raises:
        StoreError: The run has no replies, or no copy of its own questions.
    """
    intact_fields = _complete_fields(raw)
    authors_by_role: dict[str, Counter[str]] = defaultdict(Counter)
    protocols_by_benchmark: dict[str, dict[str, None]] = defaultdict(dict)
    for entry in _intact_entries(folder):
        authors_by_role[entry.request.role][entry.answered_by] += 1
        protocols_by_benchmark[entry.request.benchmark][entry.protocol] = None

    author_of_role: dict[str, str] = {}
    model_of_role: dict[str, str] = {}
    for role, authors in authors_by_role.items():
        [(most_frequent_author, _)] = authors.most_common(1)
        author_of_role[role] = most_frequent_author
        # An author is the name of the model, `#`, and a digest of its properties.
        model_of_role[role] = most_frequent_author.rpartition("#")[0]

    uses: list[BenchmarkUse] = []
    protocols: dict[str, None] = {}
    for use in _uses_of_own_questions(folder, intact_fields):
        labels = protocols_by_benchmark.get(use.name, {})
        uses.append(replace(use, protocols=tuple(labels)))
        protocols.update(labels)
    if not uses or not author_of_role:
        raise StoreError(
            f"{folder / RUN_MANIFEST} cannot be restored, because the run has neither a copy of it nor its own "
            "questions; remove it and repeat the run's command (replies are kept)"
        )
    model = intact_fields.get("model") or model_of_role.get(EVALUATED, "")
    benchmark_names = tuple(use.name for use in uses)
    question = QuestionSpec(models=(model,), benchmarks=benchmark_names)
    roles = {}
    for role, name in model_of_role.items():
        if role != EVALUATED:
            roles[role] = RoleModel(name, {})
    return RunManifest(
        format=RUN_FORMAT,
        model=model,
        fingerprint=intact_fields.get("fingerprint") or {},
        benchmarks=tuple(uses),
        protocols=tuple(protocols),
        templates="",
        question_specs=(question,),
        software={"snellen": __version__},
        hardware={},
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        notes=("the manifest was lost and was recreated from the journals",),
        roles=roles,
        authors_by_journal=author_of_role,
    )


def _intact_entries(folder: Path) -> Iterator[JournalEntry]:
    """Yield the exchanges in the undamaged lines of a run's journals, without their texts."""
    for path in journals(folder):
        with suppress(OSError), open_file(path) as file:
            for line in lines_of(file):
                with suppress(StoreError):
                    yield read_entry(line)


def _uses_of_own_questions(folder: Path, intact_fields: dict[str, Any]) -> Iterator[BenchmarkUse]:
    """Yield how the run used each benchmark whose questions are stored in its folder.

    Args:
        folder: The folder of the run.
        intact_fields: The fields of the damaged manifest that could be read. They may say where a benchmark is, and
            which few-shot examples were shown.
    """
    uses_in_manifest: dict[str, BenchmarkUse] = {}
    for table in intact_fields.get("benchmarks") or ():
        with suppress(msgspec.ValidationError):
            use = msgspec.convert(table, BenchmarkUse)
            uses_in_manifest[use.name] = use
    for path in sorted((folder / QUESTIONS).glob(f"**/{MANIFEST}")):
        try:
            manifest = Benchmark(path.parent).manifest
        except DataError:
            continue
        benchmark_folder = str(path.parent.resolve())
        examples_from = ""
        examples = ""
        use_in_manifest = uses_in_manifest.get(manifest.spec.name)
        if use_in_manifest is not None:
            benchmark_folder = use_in_manifest.folder
            examples_from = use_in_manifest.examples_from
            examples = use_in_manifest.examples
        selection = manifest.build_info.recipe.get(SELECTION, {})
        part = None
        if "part" in selection:
            part = msgspec.convert(selection["part"], QuestionPart)
        yield BenchmarkUse(
            name=manifest.spec.name,
            version=manifest.version,
            folder=benchmark_folder,
            where=selection.get("where", ""),
            limit=selection.get("limit"),
            questions=manifest.questions,
            part=part,
            examples_from=examples_from,
            examples=examples,
            origin=manifest.build_info.origin,
        )


def _complete_fields(raw: bytes) -> dict[str, Any]:
    """Return the complete fields of a JSON object whose end is missing; empty if there are none.

    The text is cut at its last comma or closing bracket outside of a string, and the brackets that are open there are
    closed.
    """
    text = raw.decode("utf-8", "ignore").rstrip("\0")
    missing_brackets: list[str] = []  # the closing brackets of what is open, the outermost first
    is_in_string = False
    is_escaped = False
    completed_json = ""
    for index, character in enumerate(text):
        if is_in_string:
            is_in_string = is_escaped or character != '"'
            is_escaped = character == "\\" and not is_escaped
        elif character == '"':
            is_in_string = True
        elif character in "{[":
            missing_brackets.append("}" if character == "{" else "]")
        elif character in "}]" and missing_brackets:
            missing_brackets.pop()
            completed_json = text[: index + 1] + "".join(reversed(missing_brackets))
        elif character == ",":
            completed_json = text[:index] + "".join(reversed(missing_brackets))
    try:
        content = json.loads(completed_json)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
