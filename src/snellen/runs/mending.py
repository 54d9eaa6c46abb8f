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
from snellen.runs.own_questions import ASKED, QUESTIONS, reopen_benchmark
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
        place = f"{self.path}:{self.line}" if self.line else str(self.path)
        return f"{place}: {self.why}"


def describe_mismatch(request: Request, sample: Sample) -> str:
    """Return why a stored request cannot belong to a sample, such as an option that the sample does not have.

    Returns:
        The reason; empty if it can belong to the sample.
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
    """Raise StoreError, naming file and line, if an exchange of a run does not belong to a sample."""
    why = describe_mismatch(exchange.request, sample)
    if not why:
        return
    for path in journals(folder):
        for number, (_, stored) in enumerate(read_journal(path), 1):
            if stored == exchange:
                raise StoreError(
                    f"{path}:{number}: {why}; run `snellen mend {shell_word(folder)}` to move damaged lines aside"
                )


def mend_run(folder: Path) -> list[Damage]:
    """Restore a damaged manifest, and set aside lines of the journals that are not exchanges of this run.

    Raises:
        StoreError: The folder is not a run, or is in use.
        DataError: A benchmark has changed since the run.
    """
    repairs = _mend_manifest(folder)
    manifest = read_manifest(folder)
    samples: dict[str, dict[str, Sample]] = {}
    for use in manifest.benchmarks:
        benchmark = reopen_benchmark(use, folder)
        samples[use.name] = {sample.id: sample for sample in benchmark.samples(Selection())}

    def fault(line: bytes) -> str:
        """Return what is wrong with a line of a journal; empty if it is a response to a question of the run."""
        try:
            exchange = read_line(line, manifest.authors)
        except StoreError as error:
            return str(error)
        sample = samples.get(exchange.request.benchmark, {}).get(exchange.request.sample_id)
        return describe_mismatch(exchange.request, sample) if sample else ""

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
    file_of_damaged = path.parent / DAMAGED / path.name
    if path.is_dir():
        file_of_damaged.parent.mkdir(exist_ok=True)
        path.rename(file_of_damaged)
        return [Damage(path, 0, "a folder and no journal")]
    intact = bytearray()
    damaged = bytearray()
    damages: list[Damage] = []
    with open_file(path) as file:
        for number, line in enumerate(lines_of(file), 1):
            reason = fault(line) if line.endswith(b"\n") else "a truncated line"
            if reason:
                damages.append(Damage(path, number, reason))
                damaged.extend(line)
            else:
                intact.extend(line)
    if damages:
        moved_before = b""
        if file_of_damaged.exists():
            moved_before = read_file(file_of_damaged, TABLE_BYTES)
        write_atomically(file_of_damaged, moved_before + bytes(damaged))
        write_atomically(path, bytes(intact))
    return damages


# --- a manifest that is damaged or gone -------------------------------------------------------------------------------


def _mend_manifest(folder: Path) -> list[Damage]:
    """Restore a damaged manifest from its copy or, without a copy, from the journals and the run's questions."""
    path = folder / RUN_MANIFEST
    raw = read_file(path) if path.is_file() else b""
    if not raw and not holds_answers(folder):
        return []  # not a run; the caller's reading of the manifest raises
    try:
        decode_manifest(folder, raw)
        return []
    except JSON_FAULTS:
        pass
    with locked_run(folder):
        restored = _copied_manifest(folder)
        source = "restored from its copy"
        if restored is None:
            restored = _manifest_by_journals(folder, raw)
            source = "recreated from the journals; repeat the run's command to complete it"
        if raw:
            write_atomically(folder / DAMAGED / RUN_MANIFEST, raw)
        write_manifest(folder, restored)
    return [Damage(path, 0, f"damaged or missing, {source}")]


def _copied_manifest(folder: Path) -> RunManifest | None:
    """Return the copy of a run's manifest; None if there is no usable one."""
    try:
        return decode_manifest(folder, read_file(folder / MANIFEST_COPY))
    except (OSError, StoreError, *JSON_FAULTS):
        return None


def _manifest_by_journals(folder: Path, raw: bytes) -> RunManifest:
    """Make a manifest from the journals, the run's questions, and the beginning of the damaged manifest.

    Raises:
        StoreError: The run does not have its own questions, or no replies.
    """
    intact_fields = _beginning(raw)
    authors_by_role: dict[str, Counter[str]] = defaultdict(Counter)
    protocols_by_benchmark: dict[str, dict[str, None]] = defaultdict(dict)
    for entry in _whole_entries(folder):
        authors_by_role[entry.request.role][entry.answered_by] += 1
        protocols_by_benchmark[entry.request.benchmark][entry.protocol] = None

    author_of_role: dict[str, str] = {}
    model_of_role: dict[str, str] = {}
    for role, authors in authors_by_role.items():
        [(author, _)] = authors.most_common(1)
        author_of_role[role] = author
        model_of_role[role] = author.rpartition("#")[0]

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
    question = QuestionSpec(models=(model,), benchmarks=tuple(use.name for use in uses))
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


def _whole_entries(folder: Path) -> Iterator[JournalEntry]:
    """Yield the undamaged entries of a run's journals."""
    for path in journals(folder):
        with suppress(OSError), open_file(path) as file:
            for line in lines_of(file):
                with suppress(StoreError):
                    yield read_entry(line)


def _uses_of_own_questions(folder: Path, left: dict[str, Any]) -> Iterator[BenchmarkUse]:
    """Yield the benchmarks whose questions are stored in the run, with the facts that the damaged manifest has of each."""
    known_uses: dict[str, BenchmarkUse] = {}
    for table in left.get("benchmarks") or ():
        with suppress(msgspec.ValidationError):
            use = msgspec.convert(table, BenchmarkUse)
            known_uses[use.name] = use
    for path in sorted((folder / QUESTIONS).glob(f"**/{MANIFEST}")):
        try:
            manifest = Benchmark(path.parent).manifest
        except DataError:
            continue
        asked_part = manifest.build_info.recipe.get(ASKED, {})
        part = msgspec.convert(asked_part["part"], QuestionPart) if "part" in asked_part else None
        known_use = known_uses.get(manifest.spec.name)
        yield BenchmarkUse(
            manifest.spec.name,
            manifest.version,
            known_use.folder if known_use else str(path.parent.resolve()),
            asked_part.get("where", ""),
            asked_part.get("limit"),
            questions=manifest.questions,
            part=part,
            examples_from=known_use.examples_from if known_use else "",
            examples=known_use.examples if known_use else "",
            origin=manifest.build_info.origin,
        )


def _beginning(raw: bytes) -> dict[str, Any]:
    """Return the complete fields of a JSON object that was cut off."""
    text = raw.decode("utf-8", "ignore").rstrip("\0")
    open_brackets: list[str] = []
    """The closing brackets that are missing, the outermost first."""
    is_in_string = False
    is_escaped = False
    longest_valid = ""
    """The longest beginning so far that is JSON once its brackets are closed, with these brackets."""
    for index, character in enumerate(text):
        if is_in_string:
            is_in_string = is_escaped or character != '"'
            is_escaped = character == "\\" and not is_escaped
        elif character == '"':
            is_in_string = True
        elif character in "{[":
            open_brackets.append("}" if character == "{" else "]")
        elif character in "}]" and open_brackets:
            open_brackets.pop()
            longest_valid = text[: index + 1] + "".join(reversed(open_brackets))
        elif character == ",":
            longest_valid = text[:index] + "".join(reversed(open_brackets))
    try:
        content = json.loads(longest_valid)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
