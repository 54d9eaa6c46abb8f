"""The folder of a run and its manifest, and suggestions for users who name a folder that is not a run.

manifest.json       the models, benchmarks and settings of the run, and all that the replies depend on
journal-0.jsonl     one Exchange per line, in order of arrival; one file per worker
withdrawn-0.txt     keys of requests that are being sent again because their answers may be wrong
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

import msgspec
from msgspec import Struct, field

from snellen.building.benchmark import MANIFEST, ChosenPart, QuestionPart, RandomPart, Selection
from snellen.callers import for_caller, is_command_line, setting
from snellen.common.foreign import LimitError, NotAFileError, read_file
from snellen.common.paths import shell_word
from snellen.errors import StoreError
from snellen.formats.json_files import JSON_FAULTS
from snellen.formats.packed_files import RECEIVED, how_to_unpack
from snellen.formats.whole_files import write_atomically
from snellen.models.identity import identifying_string
from snellen.records import EVALUATED, Decoding
from snellen.runs.spec import ExecutionSpec, QuestionSpec

RUN_FORMAT = 3
RUN_MANIFEST = "manifest.json"
"""The file that makes a folder a run."""
MANIFEST_COPY = ".manifest.json"
"""A copy of the manifest, from which `snellen mend` restores a damaged one."""
JOURNALS = "journal-*.jsonl"
MAX_NAMED_RUNS = 3
"""Maximum number of runs that a message names."""

# --- the manifest -----------------------------------------------------------------------------------------------------


class BenchmarkUse(Struct, frozen=True):
    """How a run used a benchmark: its version, and which of its samples under which protocols.

    Examples:
        >>> use = BenchmarkUse("animals", version="5f1c", folder="benchmarks/animals", limit=10)
        >>> use.selection.limit
        10
    """

    name: str
    version: str
    folder: str
    where: str = ""
    limit: int | None = None
    protocols: tuple[str, ...] = ()
    """Labels of the protocols that asked it; empty for all protocols of the run."""
    questions: str = ""
    """Digest of its questions, which a build with other answers shares."""
    part: QuestionPart | None = None
    """The part of the questions that an adaptive run has evaluated; None for all."""
    examples_from: str = ""
    """Folder of the benchmark whose few-shot examples were shown; empty if there were none."""
    examples: str = ""
    """SHA-256 of the file of these examples."""
    origin: str = ""
    """Origin of the files that it was built from, as text for a reader."""

    @property
    def selection(self) -> Selection:
        """The samples that the run selected."""
        return Selection(self.where, self.limit, self.part)

    def matches_build(self, version: str, questions: str) -> bool:
        """Return whether a build of the benchmark has the questions that the run sent.

        Args:
            version: Version of the build.
            questions: Digest of its questions. It suffices if this matches, because a build may differ in its answers
                alone.
        """
        if self.version == version:
            return True
        return self.questions != "" and self.questions == questions


class RoleModel(Struct, frozen=True):
    """A model of a run in a role other than the evaluated one. The fields are as in `RunManifest`."""

    model: str
    fingerprint: dict[str, str]
    fingerprint_after_session: dict[str, str] = field(default_factory=dict, name="left_as")
    answers_by_sample: bool = False

    @property
    def identity(self) -> str:
        """Name of the model, without how it is reached."""
        return identifying_string(self.model)


class RunSession(Struct, frozen=True):
    """Part of a run with unchanged model addresses, at servers that stated the same about their models."""

    started: str
    """UTC, ISO 8601."""
    models: dict[str, str]
    """Model string by role, as it was given; the role of the evaluated model is ''."""
    servers: dict[str, dict[str, str]] = {}
    """Statements of a model's servers about it, by role; roles whose servers stated nothing are absent."""


class RunManifest(Struct, frozen=True):
    """Description of a run: enough to resume it, to score it, and to trace its numbers.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> results.runs[0].manifest.protocols
        ('vanilla',)
    """

    format: int
    model: str
    fingerprint: dict[str, str]
    benchmarks: tuple[BenchmarkUse, ...]
    protocols: tuple[str, ...]
    templates: str
    """Digest of the template file."""
    question_specs: tuple[QuestionSpec, ...] = field(name="asked")
    """What the sessions of this run asked, without duplicates; empty for imported predictions."""
    software: dict[str, str]
    hardware: dict[str, str]
    started: str
    """UTC, ISO 8601."""
    notes: tuple[str, ...] = ()
    """Notes for readers of its scores."""
    fingerprint_after_session: dict[str, str] = field(default_factory=dict, name="left_as")
    """Fingerprint of a model after its last reply, if it is a Python object that replying changes.

    Some objects count their calls or keep a cache. Both fingerprints are then those of the model that replied.
    """
    answers_by_sample: bool = False
    """Whether the model looks up the sample, so that samples with the same request may get different replies."""
    roles: dict[str, RoleModel] = {}
    """Models in other roles than the evaluated one."""
    sessions: tuple[RunSession, ...] = field(default=(), name="stretches")
    """Sessions in order; a new one begins when an address or the statement of a server changes."""
    wording_versions: dict[str, str] = field(default_factory=dict, name="words")
    """By the label of a protocol, the version of the texts of its own that it adds to the prompt templates."""
    executed: tuple[ExecutionSpec, ...] = ()
    """How the sessions were carried out, without duplicates."""
    authors_by_journal: dict[str, str] = {}
    """Identity of the model in each role, as the journals name it.

    Only a manifest that `snellen mend` restored from journals has it. The command of the run writes a complete
    manifest again.
    """

    @property
    def is_imported(self) -> bool:
        """Whether another toolkit made the run, so that missing replies will never arrive."""
        return not self.question_specs

    @property
    def undecided(self) -> tuple[str, ...]:
        """The benchmarks on which a comparison with another model stopped before one of the two was significantly better."""
        names = []
        for use in self.benchmarks:
            if isinstance(use.part, RandomPart) and use.part.awaits_verdict:
                names.append(use.name)
        return tuple(names)

    @property
    def adaptive_rules(self) -> tuple[str, ...]:
        """Procedures that chose questions of this run by earlier replies; empty for most runs."""
        rules: dict[str, None] = {}
        for use in self.benchmarks:
            if isinstance(use.part, ChosenPart):
                rules[use.part.rule] = None
        return tuple(rules)

    @property
    def by_sample(self) -> frozenset[str]:
        """Roles whose models need to know which sample a request is for, such as the oracle, which looks up the answer."""
        roles = {role for role, model in self.roles.items() if model.answers_by_sample}
        if self.answers_by_sample:
            roles.add(EVALUATED)
        return frozenset(roles)

    @property
    def authors(self) -> dict[str, str]:
        """The identity of the model in each role: its name, and a digest of its properties and of how it is prompted."""
        if self.authors_by_journal:
            return self.authors_by_journal
        name_and_fingerprint = {EVALUATED: (identifying_string(self.model), self.fingerprint)}
        for role, model in self.roles.items():
            name_and_fingerprint[role] = (model.identity, model.fingerprint)
        prompt_settings = (self.templates, self.decoding, self.prefix, *self.few_shot)
        authors = {}
        for role, (name, fingerprint) in name_and_fingerprint.items():
            digest = _digest((name, fingerprint, prompt_settings))
            authors[role] = f"{name}#{digest}"
        return authors

    @property
    def decoding(self) -> Decoding:
        """Sampling of replies; the maximum length is 0 if each benchmark has its own."""
        return self.question_specs[0].decoding if self.question_specs else Decoding()

    @property
    def prefix(self) -> bool:
        """Whether replies to questions with options were opened by a prefix."""
        return bool(self.question_specs) and self.question_specs[0].prefix

    @property
    def few_shot(self) -> tuple[int, ...]:
        """Number of few-shot examples and how they were drawn; empty without examples."""
        return self.question_specs[0].few_shot_drawing if self.question_specs else ()


def journals(folder: Path) -> list[Path]:
    """Return the journals of a run.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> [path.name for path in journals(results.runs[0].folder)]
        ['journal-0.jsonl']
    """
    return sorted(folder.glob(JOURNALS))


def holds_answers(folder: Path) -> bool:
    """Return whether a journal of a folder has content.

    Examples:
        >>> holds_answers(Path("no-run"))
        False
    """
    return any(path.is_file() and path.stat().st_size for path in journals(folder))


def read_manifest(folder: Path) -> RunManifest:
    """Read the manifest of a run.

    Raises:
        StoreError: The folder is not a run, its manifest is damaged, or another version of Snellen made it. The
            message says what to do.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> read_manifest(results.runs[0].folder).model
        'snellen:oracle'
    """
    path = folder / RUN_MANIFEST
    try:
        raw = read_file(path)
    except (NotAFileError, LimitError) as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror})") from None
    except OSError:
        advice = suggest_unpacking(folder)
        if advice:
            raise StoreError(advice) from None
        if holds_answers(folder):
            remedy = f"; its journals contain replies: repeat the {for_caller('command', 'call')} of the run to resume it"
        else:
            remedy = suggest_runs(folder)
        if not folder.exists():
            raise StoreError(f"there is no folder {folder}{remedy}") from None
        raise StoreError(f"{folder} is not a run ({RUN_MANIFEST} is missing){remedy}") from None
    try:
        return decode_manifest(folder, raw)
    except JSON_FAULTS as error:
        is_empty = not raw.strip(b"\0 \n")
        fault = "it is empty, perhaps because of a power failure" if is_empty else str(error)
        raise StoreError(
            f"{path} is damaged ({fault}); run `snellen mend {shell_word(folder)}` to restore it"
        ) from None


def decode_manifest(folder: Path, raw: bytes) -> RunManifest:
    """Decode the manifest of a run.

    Args:
        folder: The folder of the run, for error messages.
        raw: The content of the file.

    Raises:
        JSON_FAULTS: The content is damaged.
        StoreError: Another version of Snellen wrote it, whose format this version cannot read.
    """
    fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    run_format = bytes(fields.get("format", b"none")).decode()
    if run_format != str(RUN_FORMAT):
        raise StoreError(
            f"{folder} is a run of format {run_format}, but this version of Snellen reads {RUN_FORMAT}; choose "
            f"another {setting('name')}, or use the version that created it"
        )
    return msgspec.json.decode(raw, type=RunManifest)


def write_manifest(folder: Path, manifest: RunManifest) -> None:
    """Write the manifest of a run, and a copy from which it can be restored. Raises StoreError."""
    content = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    write_atomically(folder / MANIFEST_COPY, content)
    write_atomically(folder / RUN_MANIFEST, content)


def _digest(facts: object) -> str:
    """Return eight hexadecimal digits of a digest of values that JSON can hold."""
    content = msgspec.json.encode(facts, order="sorted")
    return hashlib.blake2b(content, digest_size=4).hexdigest()


# --- suggestions for users who name a folder that is not a run ---------------------------------------------------------


def suggest_unpacking(path: Path) -> str:
    """Return a sentence on how to unpack a path that is a .zip archive of runs; empty if it is not an archive."""
    if path.suffix != ".zip" or not path.is_file():
        return ""
    instruction = how_to_unpack(path)
    if instruction:
        return f"{path} is an archive; {instruction}"
    command = shlex.join(("python", "-m", "zipfile", "-e", str(path), RECEIVED))
    return f"{path} is an archive; unpack it with `{command}`, then use {RECEIVED} or a run in it"


def suggest_runs(folder: Path) -> str:
    """Return what the user can name instead of a folder that is not a run, as the end of an error message.

    The first of these that exists is suggested: runs in the folder, the run of this name in `runs`, runs next to the
    folder with a similar name, the latest runs next to it. If there are none, the text says how to make a run.

    Returns:
        The text, which begins with a semicolon.
    """
    inner_runs = _latest_runs_in(folder)
    if inner_runs:
        return f"; it contains the runs {_list_first(inner_runs)}; use one of them"
    in_default_folder = Path("runs", folder)
    if not folder.is_absolute() and (in_default_folder / RUN_MANIFEST).is_file():
        return f"; did you mean {in_default_folder}?"
    neighbouring_runs = _latest_runs_in(folder.parent)
    is_name_without_folder = folder.parent == Path()
    if not neighbouring_runs and is_name_without_folder:
        neighbouring_runs = _latest_runs_in(Path("runs"))
    similar_names = get_close_matches(folder.name, [run.name for run in neighbouring_runs])
    if similar_names:
        folder_of_runs = neighbouring_runs[0].parent
        similar_runs = " or ".join(str(folder_of_runs / name) for name in similar_names)
        return f"; did you mean {similar_runs}?"
    if neighbouring_runs:
        return f"; there are {_list_first(neighbouring_runs)}"
    # The recognition of files takes a while to import, and only this message needs it.
    from snellen.recognition.unbuilt import how_to_build

    is_begun_run = bool(journals(folder))
    build = how_to_build(folder, "a benchmark") if folder.is_dir() and not is_begun_run else ""
    if build:
        then = for_caller("`snellen run MODEL BENCHMARK`", "sn.evaluate(MODEL, BENCHMARK)")
        return f"; {build}, then {then}"
    if folder.is_file() and not is_command_line():
        return f"; sn.import_run({str(folder)!r}) makes a run of a file of predictions"
    way = for_caller(
        "`snellen demo` or `snellen run MODEL BENCHMARK`", "sn.evaluate(MODEL, BENCHMARK)"
    )
    return f"; make a run with {way}"


def runs_in(paths: Iterable[str | Path]) -> list[Path]:
    """Return the runs that some paths name.

    The folder of a run, or any other path, is returned as it is. A folder of runs is replaced by its runs, sorted by
    name.

    Examples:
        >>> for name in ("first", "second"):
        ...     _ = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, name=name)
        >>> [str(run) for run in runs_in(["runs"])]
        ['runs/first', 'runs/second']
        >>> [str(run) for run in runs_in(["runs/first", "elsewhere"])]
        ['runs/first', 'elsewhere']
    """
    folders: list[Path] = []
    for path in map(Path, paths):
        is_run = (path / RUN_MANIFEST).exists() or holds_answers(path)
        is_benchmark = (path / MANIFEST).exists()
        inner_runs: list[Path] = []
        if not is_run and not is_benchmark:
            inner_runs = sorted(manifest.parent for manifest in path.glob(f"*/{RUN_MANIFEST}"))
        folders += inner_runs or [path]
    return folders


def only_run_in(path: Path) -> Path:
    """Return the run in a folder that contains a single run. Any other path is returned unchanged.

    Examples:
        >>> _ = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, name="first")
        >>> str(only_run_in(Path("runs"))), str(only_run_in(Path("runs/first")))
        ('runs/first', 'runs/first')
    """
    runs = runs_in([path])
    return runs[0] if len(runs) == 1 else path


def _latest_runs_in(folder: Path) -> list[Path]:
    """Return the runs in a folder, the latest first."""
    manifests = list(folder.glob(f"*/{RUN_MANIFEST}"))
    manifests.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    return [manifest.parent for manifest in manifests]


def _list_first(runs: Sequence[Path]) -> str:
    """Join the first few paths of runs, and say how many more there are: `runs/a, runs/b and 7 more`."""
    listed = ", ".join(str(run) for run in runs[:MAX_NAMED_RUNS])
    n_unnamed = len(runs) - MAX_NAMED_RUNS
    if n_unnamed > 0:
        listed += f" and {n_unnamed:,} more"
    return listed
