"""What an exporter declares (the registry's group `exporters`), and what it writes: all presentations of a run with all
that belongs to each (question, gold, request, response, reading, scores), also as one table.
"""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from snellen.analysis.headline import first_text_metric
from snellen.building.benchmark import Benchmark
from snellen.building.kept_sources import check_overwrites_no_source
from snellen.callers import for_caller
from snellen.common.late import check_polars
from snellen.common.paths import slug
from snellen.errors import DataError
from snellen.formats.whole_files import write_atomically
from snellen.records import (
    Answer,
    Exchange,
    ImagePart,
    Message,
    Prediction,
    Result,
    Sample,
    Score,
    Turn,
    Variant,
)
from snellen.registry import names
from snellen.runs.journal import read_exchanges
from snellen.runs.own_questions import RunImages
from snellen.scoring.journal_reading import with_conclusions
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun, run_labels

if TYPE_CHECKING:
    import polars


class ExportJob(Struct, frozen=True):
    """The runs and results that are to be written for another tool, and the path."""

    runs: tuple[ScoredRun, ...]
    rows: tuple[Result, ...]
    """The results of all runs, as `results_of_all` gives them."""
    path: Path
    """A file, or a folder where the exporter has no suffix."""
    images: bool = False
    """Whether images are written too, where the form has a place for them."""
    answers: bool = False
    """Whether golds are written into forms that are made to be published."""


class BenchmarkJob(Struct, frozen=True):
    """Which built benchmark is to be written, and where."""

    benchmark: Benchmark
    path: Path
    """A file, or a folder where the exporter has no suffix."""
    answers: bool = False
    """Whether golds are written."""


class Exporter(Struct, frozen=True, kw_only=True):
    """A form in which runs are written for other tools.

    Examples:
        >>> def write_names(job):
        ...     job.path.write_text("\\n".join(run.manifest.model for run in job.runs))
        ...     return [job.path]
        >>> Exporter(title="names of models", write=write_names, suffix=".txt").suffix
        '.txt'
    """

    title: str
    """As in "logs of Inspect"."""
    write: Callable[[ExportJob], Sequence[Path]]
    """Writes the files and returns their paths. Raises DataError for what the form cannot hold, StoreError for a file
    that cannot be written."""
    suffix: str = ""
    """That of the one file that is written; empty for a form of several files in a folder."""
    further_suffixes: tuple[str, ...] = ()
    """Those of other kinds of files, of which `write` makes the one that the path names."""
    write_benchmark: Callable[[BenchmarkJob], Sequence[Path]] | None = None
    """The same for a built benchmark, where the form has a place for its questions."""
    for_hub: bool = False
    """Whether what is written is a dataset in the layout of the Hugging Face hub, which can be pushed there."""


def export_path(form: str, exporter: Exporter, path: str | Path | None, default: str) -> Path:
    """Return where an export is written.

    Args:
        form: Name of the exporter.
        exporter: The exporter.
        path: The path that the user named; None for one in the current folder.
        default: Name of that one, without the suffix of the exporter.

    Raises:
        DataError: If the exporter writes one file, and the path has the suffix of another format, or a benchmark was
            built from the file.
    """
    if path is None:
        return Path(default + exporter.suffix)
    suffixes = (*exporter.further_suffixes, exporter.suffix)
    if not exporter.suffix or Path(path).suffix.lower() in suffixes:
        check_overwrites_no_source(Path(path))
        return Path(path)

    *first_suffixes, last_suffix = suffixes
    endings = f"{', '.join(first_suffixes)} or {last_suffix}" if first_suffixes else last_suffix
    other_forms = ", ".join(name for name in names("exporters") if name != form)
    another = for_caller(
        f"another form with --as ({other_forms}), or have `snellen report -o` write the numbers",
        f"another form ({other_forms}), or write the numbers with report(PATH)",
    )
    raise DataError(
        f"{path}: the form {form} is a file that ends in {endings}; name it so, choose {another} as "
        ".csv, .json, .md, .tex or .html"
    )


_PresentationKey = tuple[str, str, str, Variant]
"""Protocol, benchmark, sample and variant."""


class Presentation(Struct, frozen=True):
    """One showing of a question, for example with its options in another order, and the reply to it."""

    scored: ScoredBenchmark
    sample: Sample
    answer: Answer | None
    """None where it is hidden or not at hand."""
    prediction: Prediction
    exchange: Exchange | None
    """The request as sent and the last response; of an answer to which steps led, the conclusion."""
    scores: tuple[Score, ...]
    """Of its question, over all of the question's presentations under its protocol."""
    verdict_metric: str = ""
    """The metric of open questions by which one is correct (1) or wrong (0); empty if it gives other values too."""

    @property
    def turn(self) -> Turn:
        return self.sample.rounds[self.prediction.turn]

    @property
    def golds(self) -> tuple[str, ...]:
        """The texts of the right options, or the accepted texts of an open question; empty if not known."""
        if self.answer is None:
            return ()
        return tuple(self.turn.options[i] for i in self.answer.options) or self.answer.texts

    @property
    def is_correct(self) -> bool | None:
        """Whether the reply is right: the option that was read is a right one, or the text is accepted.

        None if the right answer is not known or there is no reply, and for texts that are neither
        right nor wrong, such as captions.
        """
        if self.answer is None or self.prediction.error is not None:
            return None
        if self.turn.options:
            return self.prediction.choice in self.answer.options
        for score in self.scores:
            if score.metric == self.verdict_metric and score.value is not None:
                return score.value == 1
        return None

    @property
    def reply(self) -> str | None:
        """The reply as the model wrote it; None if there is none, or if only likelihoods were asked for."""
        return self.exchange.response.text if self.exchange else None


def presentations(run: ScoredRun) -> Iterator[Presentation]:
    """Yield all presentations of a run in the order of its predictions. Raises StoreError for a damaged journal."""
    exchanges = _exchanges(run)
    for scored in run.benchmarks:
        scores: dict[tuple[str, str, int], list[Score]] = defaultdict(list)
        for score in scored.scores:
            scores[score.protocol, score.sample_id, score.turn].append(score)
        verdict_metric = _verdict_metric(scored)
        for prediction in scored.predictions:
            sample_id = prediction.sample_id
            protocol = prediction.protocol
            exchange_key = (protocol, scored.spec.name, sample_id, prediction.variant)
            yield Presentation(
                scored,
                scored.samples[sample_id],
                scored.answers.get((sample_id, prediction.turn)),
                prediction,
                exchanges.get(exchange_key),
                tuple(scores[protocol, sample_id, prediction.turn]),
                verdict_metric,
            )


def _verdict_metric(scored: ScoredBenchmark) -> str:
    """Return the first metric of open questions if it is 0 or 1 for each of them, else an empty string."""
    metric = first_text_metric(scored.spec)
    is_verdict = all(score.value in (None, 0, 1) for score in scored.scores_of(metric))
    return metric if is_verdict else ""


def _exchanges(run: ScoredRun) -> dict[_PresentationKey, Exchange]:
    """Return the exchange of each presentation: the last answered one, as in scoring, or else the first failed one."""
    exchanges: dict[_PresentationKey, Exchange] = {}
    samples = {scored.spec.name: scored.samples for scored in run.benchmarks}
    for exchange in with_conclusions(read_exchanges(run.folder), run.manifest.protocols, samples):
        request = exchange.request
        key = exchange.protocol, request.benchmark, request.sample_id, request.variant
        if exchange.response.error is None or key not in exchanges:
            exchanges[key] = exchange
    return exchanges


# --- what logs of other tools hold one file for ----------------------------------------------------------------------


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class LogPart(Struct, frozen=True):
    """One benchmark of one run under one protocol."""

    run: ScoredRun
    label: str
    """The run's, as in tables."""
    benchmark: str
    protocol: str
    questions: tuple[tuple[Presentation, ...], ...]
    """The presentations of each question, in order."""
    rows: tuple[Result, ...]
    """The numbers of the whole benchmark."""

    @property
    def task(self) -> str:
        """A name for the benchmark and the protocol. The usual protocol, `vanilla`, is left out."""
        return slug(
            self.benchmark if self.protocol == "vanilla" else f"{self.benchmark}-{self.protocol}"
        )


def log_parts(runs: Sequence[ScoredRun], rows: Sequence[Result]) -> Iterator[LogPart]:
    """Yield the parts of runs, one for each benchmark and protocol, in order.

    Args:
        runs: The runs.
        rows: Their results. A part has those of its whole benchmark that have a value.

    Raises:
        StoreError: If a journal is damaged.
    """
    rows_by_part: dict[tuple[str, str, str], list[Result]] = defaultdict(list)
    for row in rows:
        if not row.slice and row.estimate.value is not None:
            rows_by_part[row.model, row.benchmark, row.protocol].append(row)

    for label, run in zip(run_labels(runs), runs, strict=True):
        parts: dict[tuple[str, str], dict[tuple[str, int], list[Presentation]]] = {}
        for presentation in presentations(run):
            prediction = presentation.prediction
            part = (presentation.scored.spec.name, prediction.protocol)
            question = (prediction.sample_id, prediction.turn)
            parts.setdefault(part, {}).setdefault(question, []).append(presentation)
        for (benchmark, protocol), questions in parts.items():
            yield LogPart(
                run,
                label,
                benchmark,
                protocol,
                tuple(tuple(presentations_of) for presentations_of in questions.values()),
                tuple(rows_by_part[label, benchmark, protocol]),
            )


def question_id(presentation: Presentation) -> str:
    """Return the id of a question; for a round of a dialogue, that of the dialogue with the round: `chat#2`."""
    return (
        f"{presentation.sample.id}#{presentation.prediction.turn + 1}"
        if presentation.sample.turns
        else presentation.sample.id
    )


def options_shown(presentation: Presentation) -> list[str]:
    """Return the options in the order in which this presentation showed them."""
    options = presentation.turn.options
    order = presentation.prediction.variant.order
    if not order:
        return list(options)
    return [options[index] for index in order]


def letters_of_gold(presentation: Presentation) -> list[str]:
    """Return the positions of the correct options among those shown, as letters.

    From the 27th option on, a position is a number, counted from 0. For a question without options, return its
    reference texts; for one without a known answer, an empty list.
    """
    if presentation.answer is None:
        return []
    options = presentation.turn.options
    if not options:
        return list(presentation.answer.texts)
    order = presentation.prediction.variant.order or tuple(range(len(options)))
    letters = []
    for position, option in enumerate(order):
        if option not in presentation.answer.options:
            continue
        letters.append(LETTERS[position] if position < len(LETTERS) else str(position))
    return letters


def write_json(path: Path, content: Any) -> Path:
    """Write a JSON file. Raises StoreError."""
    write_atomically(
        path, json.dumps(content, indent=2, ensure_ascii=False).encode("utf-8", "replace")
    )
    return path


PICTURE = "[image]"
"""The placeholder of an image in a request's text."""


def sample_table(runs: Sequence[ScoredRun]) -> polars.DataFrame:
    """Return a table with a row for each presentation (one way of showing a question) of each run.

    Tags of questions are columns `tag_NAME`, and metrics of questions `score_NAME`. The other columns are the same for
    all runs.

    Raises:
        StoreError: If a journal is damaged.
    """
    check_polars()
    import polars as pl

    schema = _schema()
    rows: list[dict[str, Any]] = []
    for label, run in zip(run_labels(runs), runs, strict=True):
        images = {use.name: RunImages(use, run.folder) for use in run.manifest.benchmarks}
        for presentation in presentations(run):
            row = _row(label, run, presentation)
            row["image_paths"] = _image_paths(presentation, images)
            rows.append(row)

    columns: dict[str, None] = {}  # in order, each once
    for row in rows:
        columns.update(dict.fromkeys(row))
    tag_columns = [name for name in columns if name.startswith("tag_")]
    score_columns = [name for name in columns if name.startswith("score_")]
    schema |= dict.fromkeys(tag_columns, pl.String())
    schema |= dict.fromkeys(score_columns, pl.Float64())
    return pl.DataFrame(rows, schema=schema)


def _image_paths(presentation: Presentation, images: Mapping[str, RunImages]) -> list[str | None]:
    """Return where the image files of a question are; None for an image that no folder of this machine has as a file."""
    store = images[presentation.scored.spec.name]
    paths: list[str | None] = []
    for image in presentation.sample.images:
        path = store.path(image)
        paths.append(None if path is None else str(path))
    return paths


def write_frame(frame: polars.DataFrame, path: Path) -> Path:
    """Write a frame as Parquet, complete or not at all. Raises StoreError."""
    # Polars reports a full disk as an error of its own, which is no OSError.
    content = io.BytesIO()
    frame.write_parquet(content)
    write_atomically(path, content.getvalue())
    return path


def _schema() -> dict[str, Any]:
    """Return the type of each column of the table of presentations, without those of tags and scores."""
    check_polars()
    import polars as pl

    text = pl.String()
    texts = pl.List(pl.String())
    indices = pl.List(pl.Int32())
    message = pl.Struct({"role": text, "text": text})
    return {
        "model": text,
        "benchmark": text,
        "protocol": text,
        "method": text,
        "sample_id": text,
        "turn": pl.Int32(),
        "presentation": pl.Int32(),
        "context": text,
        "question": text,
        "options": texts,
        "gold": texts,
        "images": texts,
        "image_paths": texts,
        "gold_options": indices,
        "group": text,
        "template": text,
        "order": indices,
        "labels": texts,
        "wording": pl.Int32(),
        "kind": text,
        "request": pl.List(message),
        "reply": text,
        "log_likelihoods": pl.List(pl.Float64()),
        "finish": text,
        "seconds": pl.Float64(),
        "prompt_tokens": pl.Int64(),
        "completion_tokens": pl.Int64(),
        "error": text,
        "error_detail": text,
        "reused": pl.Boolean(),
        "chosen": pl.Int32(),
        "chosen_text": text,
        "correct": pl.Boolean(),
        "extraction_method": text,
        "confidence": text,
        "reason": text,
        "detail": text,
        "follows_format": pl.Boolean(),
        "extractor": text,
    }


def _row(label: str, run: ScoredRun, presentation: Presentation) -> dict[str, Any]:
    """Return a presentation as a row of the table: question, request, response, what was read, and scores.

    Args:
        label: Label of the run.
        run: The run.
        presentation: One way in which a question was shown, with its reply.
    """
    prediction = presentation.prediction
    sample = presentation.sample
    turn = presentation.turn
    variant = prediction.variant
    row: dict[str, Any] = {
        "model": label,
        "benchmark": presentation.scored.spec.name,
        "protocol": prediction.protocol,
        "method": prediction.method,
        "sample_id": sample.id,
        "turn": prediction.turn,
        "presentation": variant.test,
        "context": sample.context,
        "question": turn.question,
        "options": list(turn.options),
        "gold": None,
        "gold_options": None,
        "images": [image.digest for image in sample.images],
        "group": sample.group,
        "template": variant.template,
        "order": list(variant.order),
        "labels": list(variant.labels),
        "wording": variant.wording,
        **_exchange_columns(presentation.exchange),
        "error": None,
        "error_detail": None,
        "chosen": prediction.choice,
        "chosen_text": prediction.text,
        "correct": presentation.is_correct,
        "extraction_method": prediction.extraction_method,
        "confidence": prediction.confidence,
        "reason": prediction.reason,
        "detail": prediction.detail,
        "follows_format": prediction.follows_format,
        "extractor": prediction.extractor_version,
    }
    if presentation.answer:
        row["gold"] = list(presentation.golds)
        row["gold_options"] = list(presentation.answer.options)
    if prediction.error:
        row["error"] = prediction.error.kind
        row["error_detail"] = prediction.error.detail
    if prediction.choice is not None:
        row["chosen_text"] = turn.options[prediction.choice]
    for name, value in sample.tags.items():
        row[f"tag_{name}"] = value
    for score in presentation.scores:
        row[f"score_{score.metric}"] = score.value
    return row


def _exchange_columns(exchange: Exchange | None) -> dict[str, Any]:
    """Return the columns of a request and its response; all None for a presentation that was never sent."""
    columns: dict[str, Any] = dict.fromkeys(
        (
            "kind",
            "request",
            "reply",
            "log_likelihoods",
            "finish",
            "seconds",
            "prompt_tokens",
            "completion_tokens",
            "reused",
        )
    )
    if exchange is None:
        return columns
    messages = []
    for message in exchange.request.messages:
        messages.append({"role": message.role, "text": message_text(message)})
    response = exchange.response
    columns["kind"] = exchange.request.kind
    columns["request"] = messages
    columns["reply"] = response.text
    columns["log_likelihoods"] = [score.sum for score in response.scores]
    columns["finish"] = response.finish
    columns["seconds"] = response.seconds
    columns["reused"] = exchange.reused
    if response.usage:
        columns["prompt_tokens"] = response.usage.prompt_tokens
        columns["completion_tokens"] = response.usage.completion_tokens
    return columns


def message_text(message: Message) -> str:
    """Return the text of a message, with a mark in place of each image."""
    return "".join(
        PICTURE if isinstance(part, ImagePart) else part.text for part in message.content
    )
