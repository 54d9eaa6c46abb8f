"""A run as the file that an evaluation server scores: one row per rotation, as in the official file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from snellen.catalogue.hooks import SubmissionWriter
from snellen.errors import DataError
from snellen.formats.delimited import LETTERS
from snellen.formats.text_table import write_text_table
from snellen.protocols.base import Protocol, declaration_of, parse_protocol
from snellen.protocols.prediction import predict
from snellen.records import Exchange, RowRef, Sample
from snellen.registry import unknown
from snellen.runs.journal import read_exchanges
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.run_folder import BenchmarkUse, RunManifest, read_manifest
from snellen.scoring.journal_reading import with_conclusions
from snellen.suites.mmbench.writer import cells_of, columns_of, row_refs, rows_by_pass

ALL_PASSES = "circular?all_passes=true"
Order = tuple[int, ...]
RowReply = str | int
"""What was replied, or under likelihood which option is the most likely."""


class SubmissionSummary(Struct, frozen=True):
    """What a file holds, and what it does not."""

    benchmark: str
    protocol: str
    rows: int
    never: tuple[str, ...]
    """Indexes of rows that were never asked."""
    failed: tuple[str, ...]
    """Indexes of rows whose request failed."""
    empty: int
    """Rows whose reply is empty."""
    stopped_early: bool = False
    """Whether the protocol leaves out requests by what was replied."""

    @property
    def missing(self) -> str:
        """What is left out and how to ask for it; empty when nothing is."""
        total = self.rows + len(self.never) + len(self.failed)
        reasons = []
        if self.never:
            cause = ", as CircularEval ends a question that has failed" if self.stopped_early else ""
            reasons.append(
                f"{len(self.never):,} of {total:,} rows were never asked{cause} ({_first(self.never)}): run the same "
                f"model again with -p '{ALL_PASSES}' and the --name of this run, which asks for these alone"
            )
        if self.failed:
            reasons.append(
                f"{len(self.failed):,} requests failed ({_first(self.failed)}): the same run asks them again"
            )
        return "; ".join(reasons)


def _first(indexes: Sequence[str]) -> str:
    return ", ".join(indexes[:3]) + (", ..." if len(indexes) > 3 else "")


def write_submission(
    folder: Path, path: Path, *, benchmark: str = "", protocol: str = "", partial: bool = False
) -> SubmissionSummary:
    """Write the replies of a run to one benchmark as MMBench's evaluation server expects them.

    There are all columns of the official file but the pictures, the answers left empty, and `prediction`. The form is
    that of the suffix: .xlsx, .tsv, .csv, .json or .jsonl; what is written is read again and compared.

    Raises DataError when rows are missing (unless `partial`), for a text that the form cannot hold and for a
    benchmark without options; UnknownNameError for a benchmark or protocol that the run does not have.
    """
    manifest = read_manifest(folder)
    use = _use(manifest, benchmark)
    opened = reopen_benchmark(use, folder)
    samples = {sample.id: _checked(sample) for sample in opened.samples()}
    label = _label(use.protocols or manifest.protocols, protocol, samples.values())
    protocol_asked = parse_protocol(label)
    replies, failed = _replies(
        with_conclusions(read_exchanges(folder), [label], {use.name: samples}), protocol_asked, use.name, samples
    )
    origins = opened.origins()
    ids = origins if origins.keys() == samples.keys() else samples
    rows_of = {name: origin.rows for name, origin in origins.items()}
    question_rows = list(row_refs([samples[name] for name in ids], rows_of, rotated=True))
    rows: list[dict[str, str]] = []
    never: list[str] = []
    failed_rows: list[str] = []
    for sample, row in rows_by_pass(question_rows):
        reply = _reply_of(replies, sample, row)
        if reply is None:
            (failed_rows if (sample.id, row.order) in failed else never).append(row.index)
            continue
        source_cells = origins[sample.id].cells if sample.id in origins else {}
        rows.append({**source_cells, **cells_of(sample, row, None), "prediction": reply})
    empty = sum(not row["prediction"] for row in rows)
    summary = SubmissionSummary(
        use.name, label, len(rows), tuple(never), tuple(failed_rows), empty, declaration_of(protocol_asked).stops_early
    )
    if summary.missing and not partial:
        raise DataError(f"{path} is not written: {summary.missing}; --partial writes what there is")
    columns = [name for name in columns_of(question_rows, hidden=False) if name != "image"]
    write_text_table(path, [*columns, "prediction"], rows)
    return summary


def _use(manifest: RunManifest, name: str) -> BenchmarkUse:
    uses = {use.name: use for use in manifest.benchmarks}
    if name not in uses and (name or len(uses) > 1):
        if name:
            raise unknown("benchmark", name, uses)
        raise DataError(f"the run has {len(uses)} benchmarks; name one with --benchmark: {', '.join(uses)}")
    return uses[name] if name else manifest.benchmarks[0]


def _label(labels: Sequence[str], requested: str, samples: Collection[Sample]) -> str:
    """The protocol whose replies are written: the one wanted, else that with the most rotations."""
    fit = {label: parse_protocol(label) for label in labels if _fits(parse_protocol(label), samples)}
    if requested:
        requested = parse_protocol(requested).label
        if requested not in fit:
            raise unknown("protocol with one reply a row", requested, fit)
        return requested
    if not fit:
        raise DataError(f"no protocol of the run gives one reply a row: {', '.join(labels)}; run it with {ALL_PASSES}")
    return max(fit, key=lambda label: _worth(fit[label]))


def _fits(protocol: Protocol, samples: Collection[Sample]) -> bool:
    """Whether a row has one reply: of each rotation, or of the question."""
    declared = declaration_of(protocol)
    once = declared.circular or (declared.presentations == 1 and not declared.baselines)
    return once and all(map(protocol.applies, samples))


def _worth(protocol: Protocol) -> tuple[bool, bool, int]:
    """Replies of the model alone before those that others helped it to."""
    declared = declaration_of(protocol)
    return protocol.method == "generation", not declared.roles, declared.circular * (1 + (not declared.stops_early))


def _checked(sample: Sample) -> Sample:
    if sample.formulation != "choice" or len(sample.options) > len(LETTERS):
        raise DataError(
            f"{sample.benchmark}: sample {sample.id!r} has no options A to Z; MMBench's form cannot hold it"
        )
    return sample


def _replies(
    exchanges: Iterable[Exchange], protocol: Protocol, benchmark: str, samples: Mapping[str, Sample]
) -> tuple[dict[tuple[str, Order], RowReply], set[tuple[str, Order]]]:
    """The replies by sample and order (an empty order fits any), and the requests that failed."""
    replies: dict[tuple[str, Order], RowReply] = {}
    failed: set[tuple[str, Order]] = set()
    for exchange in exchanges:
        request, response = exchange.request, exchange.response
        if (exchange.protocol, request.benchmark) != (protocol.label, benchmark) or request.sample_id not in samples:
            continue
        key = request.sample_id, request.variant.order
        if response.error is not None:
            failed.add(key)
        elif protocol.method == "generation":
            replies[key] = response.text or ""
        else:
            turn = samples[request.sample_id].rounds[0]
            choice = predict(protocol.label, turn, request, response).choice
            replies[key] = "" if choice is None else choice
    return replies, failed


def _reply_of(replies: Mapping[tuple[str, Order], RowReply], sample: Sample, row: RowRef) -> str | None:
    """The text of a row; None for a reply that never came."""
    reply = replies.get((sample.id, row.order))
    if reply is None:
        reply = replies.get((sample.id, ()))
    return LETTERS[row.order.index(reply)] if isinstance(reply, int) else reply


SUBMISSION_FORM: SubmissionWriter = write_submission
