"""Files for the evaluation servers of test splits: VQA v2, TextVQA, VizWiz, DocVQA, InfographicVQA, ST-VQA and MMMU.

Formats:
    VQA v2, TextVQA (EvalAI): a list of `{"question_id": 458752000, "answer": "net"}`. visualqa.org, page
        evaluation.html, and lmms-eval (75571cfe), tasks/textvqa/utils.py.
    VizWiz (EvalAI): a list of `{"image": "VizWiz_test_00000000.jpg", "answer": "net"}`. OpenGVLab/InternVL (2410d1d),
        internvl_chat/eval/vqa/evaluate_vqa.py, and lmms-eval, tasks/vizwiz_vqa/utils.py.
    DocVQA, InfographicVQA (rrc.cvc.uab.es): a list of `{"questionId": 49153, "answer": "0.28"}`. The same two.
    ST-VQA (rrc.cvc.uab.es): as VQA v2. lmms-eval, tasks/stvqa/utils.py.
    MMMU (EvalAI): `{"test_Accounting_1": "D"}`, a letter or the answer to an open question. MMMU-Benchmark/MMMU
        (bb0b95a), mmmu/example_outputs/llava1.5_13b/total_val_output.json.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.building.kept_sources import check_overwrites_no_source
from snellen.callers import for_caller, setting
from snellen.catalogue.suites import SubmissionWriter
from snellen.errors import DataError
from snellen.formats.delimited import LETTERS
from snellen.formats.whole_files import write_atomically
from snellen.protocols.base import declaration_of, parse_protocol
from snellen.protocols.prediction import predict
from snellen.records import Exchange, Sample
from snellen.registry import unknown_name
from snellen.runs.journal import read_exchanges
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.run_folder import BenchmarkUse, RunManifest, read_manifest
from snellen.scoring.journal_reading import with_conclusions

SHOWN = 3
"""Ids that a message shows."""


class AnswerSummary(Struct, frozen=True):
    """What a file of answers for an evaluation server contains, and which questions are missing in it."""

    benchmark: str
    protocol: str
    rows: int
    never: tuple[str, ...]
    """Ids of questions without a reply."""
    failed: tuple[str, ...]
    """Ids of questions whose request failed."""
    empty: int
    """Questions whose answer is empty."""

    @property
    def missing(self) -> str:
        """Which questions the file lacks, and how to get their replies, as one sentence; empty if it lacks none."""
        total = self.rows + len(self.never) + len(self.failed)
        reasons = []
        if self.never:
            reasons.append(
                f"{len(self.never):,} of {total:,} questions were never asked ({_first_ids(self.never)}): the same run "
                f"without {for_caller('--limit and --where', 'limit and where')} asks them"
            )
        if self.failed:
            reasons.append(
                f"{len(self.failed):,} requests failed ({_first_ids(self.failed)}): the same run asks them again"
            )
        return "; ".join(reasons)


def _first_ids(ids: tuple[str, ...]) -> str:
    return ", ".join(ids[:SHOWN]) + (", ..." if len(ids) > SHOWN else "")


def _numbered_list(id_field: str) -> Callable[[Mapping[str, str]], Any]:
    """Return a function that lays out answers as a list of records: `[{"id": 7, "answer": "B"}, ...]`.

    Args:
        id_field: Name of the field for the number of a question, such as `id`.
    """

    def layout(answers: Mapping[str, str]) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        for question_id, answer in answers.items():
            records.append({id_field: _number(question_id), "answer": answer})
        return records

    return layout


def _number(name: str) -> int:
    if not name.isdecimal():
        raise DataError(
            f"the question {name!r} has no number for an id, as the server needs; build the benchmark from its dataset"
        )
    return int(name)


def _image_list(answers: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"image": f"{name}.jpg", "answer": answer} for name, answer in answers.items()]


LAYOUTS: Mapping[str, Callable[[Mapping[str, str]], Any]] = {
    "modern/vqav2": _numbered_list("question_id"),
    "modern/textvqa": _numbered_list("question_id"),
    "modern/st-vqa": _numbered_list("question_id"),
    "modern/docvqa": _numbered_list("questionId"),
    "modern/infovqa": _numbered_list("questionId"),
    "modern/vizwiz": _image_list,
    "modern/mmmu": dict,
}
"""By benchmark: the content of the file, from the answers by id. Test splits have the name with `-test`."""


def write_answers(
    folder: Path, path: Path, *, benchmark: str = "", protocol: str = "", partial: bool = False
) -> AnswerSummary:
    """Write the answers of a run to one benchmark as its evaluation server takes them, as JSON.

    Args:
        folder: The run.
        path: The file to write: .json.
        benchmark: The benchmark, if the run has several.
        protocol: The protocol, if the run has several.
        partial: Whether to write the file although questions are missing.

    Raises:
        DataError: Questions are missing, the file does not end in .json, the benchmark has no server, or the protocol
            has several replies for a question.
        UnknownNameError: The run does not have the benchmark or protocol.
    """
    if path.suffix.lower() != ".json":
        raise DataError(
            f"{path}: the server takes JSON; name the file {path.with_suffix('.json').name}"
        )
    manifest = read_manifest(folder)
    use = _used_benchmark(manifest, benchmark)
    layout = LAYOUTS.get(use.name.removesuffix("-test"))
    if layout is None:
        known = ", ".join(name.removeprefix("modern/") for name in LAYOUTS)
        raise DataError(
            f"{use.name} has no evaluation server that Snellen knows; there are those of {known}"
        )
    samples = {sample.id: sample for sample in reopen_benchmark(use, folder).samples()}
    label = _single_reply_protocol(use.protocols or manifest.protocols, protocol)
    exchanges = with_conclusions(read_exchanges(folder), [label], {use.name: samples})
    answers, failed = _answers(exchanges, label, use.name, samples)

    written = {}
    failed_questions = []
    never_asked = []
    n_empty = 0
    for name in samples:
        if name in answers:
            written[name] = answers[name]
            if not answers[name]:
                n_empty += 1
        elif name in failed:
            failed_questions.append(name)
        else:
            never_asked.append(name)
    summary = AnswerSummary(
        benchmark=use.name,
        protocol=label,
        rows=len(written),
        never=tuple(never_asked),
        failed=tuple(failed_questions),
        empty=n_empty,
    )
    if summary.missing and not partial:
        raise DataError(
            f"{path} is not written: {summary.missing}; {setting('partial', True)} writes what there is"
        )
    check_overwrites_no_source(path)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(layout(written)), indent=1))
    return summary


def _used_benchmark(manifest: RunManifest, name: str) -> BenchmarkUse:
    uses = {use.name: use for use in manifest.benchmarks}
    if name:
        if name not in uses:
            raise unknown_name("benchmark", name, uses)
        return uses[name]
    if len(uses) > 1:
        raise DataError(
            f"the run has {len(uses)} benchmarks; name one with {setting('benchmark')}: {', '.join(uses)}"
        )
    return manifest.benchmarks[0]


def _single_reply_protocol(labels: Iterable[str], requested: str) -> str:
    """Return the protocol whose replies are written to the file. It must give exactly one reply per question.

    Args:
        labels: Labels of the run's protocols.
        requested: The protocol that the user wants; empty to take the only possible one.

    Raises:
        UnknownNameError: The requested protocol is not possible.
        DataError: No protocol is possible, or several are and the user has to choose.
    """
    fitting = []
    for label in labels:
        declared = declaration_of(parse_protocol(label))
        if declared.presentations == 1 and not declared.baselines and not declared.circular:
            fitting.append(label)
    if requested:
        requested = parse_protocol(requested).label
        if requested not in fitting:
            raise unknown_name("protocol with one reply for a question", requested, fitting)
        return requested
    if not fitting:
        raise DataError(
            "no protocol of the run has one reply for a question; run it with "
            + for_caller("-p vanilla", "protocols='vanilla'")
        )
    if len(fitting) > 1:
        raise DataError(f"choose the protocol with {setting('protocol')}: {', '.join(fitting)}")
    return fitting[0]


def _answers(
    exchanges: Iterable[Exchange], label: str, benchmark: str, samples: Mapping[str, Sample]
) -> tuple[dict[str, str], set[str]]:
    """Return the answers of a run to one benchmark, and the questions that have a failed request.

    Args:
        exchanges: All requests of the run with their responses.
        label: The protocol.
        benchmark: Name of the benchmark.
        samples: Its questions by id.

    Returns:
        By the id of the question, the text of the answer, or the letter of the chosen option; and the set of ids of
        questions with a failed request.
    """
    answers: dict[str, str] = {}
    failed: set[str] = set()
    for exchange in exchanges:
        request, response = exchange.request, exchange.response
        if exchange.protocol != label or request.benchmark != benchmark:
            continue
        sample = samples.get(request.sample_id)
        if sample is None:
            continue
        if response.error is not None:
            failed.add(sample.id)
            continue
        prediction = predict(label, sample.rounds[0], request, response)
        if prediction.choice is not None:
            answers[sample.id] = LETTERS[prediction.choice]
        else:
            answers[sample.id] = (prediction.text or "").strip()
    return answers, failed


class AnswerWriter:
    """Calls `write_answers`. It is offered only for benchmarks of this suite, whose servers take its format."""

    suite_only = True

    def __call__(
        self,
        folder: Path,
        path: Path,
        *,
        benchmark: str = "",
        protocol: str = "",
        partial: bool = False,
    ) -> AnswerSummary:
        return write_answers(folder, path, benchmark=benchmark, protocol=protocol, partial=partial)


SUBMISSION_FORM: SubmissionWriter = AnswerWriter()
