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
    """What is to be written, and where."""

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
    """Where a form is written: `path`, or `default` here with the form's suffix. Raises DataError for a file whose name
    ends as another form."""
    if path is None:
        return Path(default + exporter.suffix)
    suffixes = (*exporter.further_suffixes, exporter.suffix)
    if exporter.suffix and Path(path).suffix.lower() not in suffixes:
        *first_suffixes, last_suffix = suffixes
        endings = f"{', '.join(first_suffixes)} or {last_suffix}" if first_suffixes else last_suffix
        others = ", ".join(name for name in names("exporters") if name != form)
        another = for_caller(
            f"another form with --as ({others}), or have `snellen report -o` write the numbers",
            f"another form ({others}), or write the numbers with report(PATH)",
        )
        raise DataError(
            f"{path}: the form {form} is a file that ends in {endings}; name it so, choose {another} as "
            ".csv, .json, .md, .tex or .html"
        )
    return Path(path)


_Place = tuple[str, str, str, Variant]


class Presentation(Struct, frozen=True):
    """One way in which a question was asked, and what became of it."""

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
        """The texts of right options, or reference texts."""
        if self.answer is None:
            return ()
        return tuple(self.turn.options[i] for i in self.answer.options) or self.answer.texts

    @property
    def is_correct(self) -> bool | None:
        """Whether the option that was read is right, or the text of an open question.

        None without a gold or a reply, and for a text that is neither right nor wrong, such as a caption.
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
        """The reply as received; None where there was none, as under likelihood."""
        return self.exchange.response.text if self.exchange else None


def presentations(run: ScoredRun) -> Iterator[Presentation]:
    """All presentations of a run, in the order of its predictions. Raises StoreError for a damaged journal."""
    exchanges = _exchanges(run)
    for scored in run.benchmarks:
        scores: dict[tuple[str, str, int], list[Score]] = defaultdict(list)
        for score in scored.scores:
            scores[score.protocol, score.sample_id, score.turn].append(score)
        verdict_metric = _verdict_metric(scored)
        for prediction in scored.predictions:
            question = prediction.sample_id, prediction.turn
            yield Presentation(
                scored,
                scored.samples[prediction.sample_id],
                scored.answers.get(question),
                prediction,
                exchanges.get(
                    (
                        prediction.protocol,
                        scored.spec.name,
                        prediction.sample_id,
                        prediction.variant,
                    )
                ),
                tuple(scores[prediction.protocol, *question]),
                verdict_metric,
            )


def _verdict_metric(scored: ScoredBenchmark) -> str:
    """Return the first metric of open questions if it is 0 or 1 for each of them, else an empty string."""
    metric = first_text_metric(scored.spec)
    is_verdict = all(score.value in (None, 0, 1) for score in scored.scores_of(metric))
    return metric if is_verdict else ""


def _exchanges(run: ScoredRun) -> dict[_Place, Exchange]:
    """Of several exchanges of one presentation the last one answered, as in scoring."""
    exchanges: dict[_Place, Exchange] = {}
    samples = {scored.spec.name: scored.samples for scored in run.benchmarks}
    for exchange in with_conclusions(read_exchanges(run.folder), run.manifest.protocols, samples):
        request = exchange.request
        place = exchange.protocol, request.benchmark, request.sample_id, request.variant
        if exchange.response.error is None or place not in exchanges:
            exchanges[place] = exchange
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
        """A name for it: the benchmark's, with the protocol where that is not the plain one."""
        return slug(
            self.benchmark if self.protocol == "vanilla" else f"{self.benchmark}-{self.protocol}"
        )


def log_parts(runs: Sequence[ScoredRun], rows: Sequence[Result]) -> Iterator[LogPart]:
    """The parts of runs, whose results are `rows`, in order. Raises StoreError for a damaged journal."""
    for label, run in zip(run_labels(runs), runs, strict=True):
        parts: dict[tuple[str, str], dict[tuple[str, int], list[Presentation]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for presentation in presentations(run):
            prediction = presentation.prediction
            parts[presentation.scored.spec.name, prediction.protocol][
                prediction.sample_id, prediction.turn
            ].append(presentation)
        for (benchmark, protocol), questions in parts.items():
            yield LogPart(
                run,
                label,
                benchmark,
                protocol,
                tuple(map(tuple, questions.values())),
                tuple(
                    row
                    for row in rows
                    if (row.model, row.benchmark, row.protocol, row.slice)
                    == (label, benchmark, protocol, "")
                    and row.estimate.value is not None
                ),
            )


def question_id(presentation: Presentation) -> str:
    """The sample's id; of a round of a dialogue with its number."""
    return (
        f"{presentation.sample.id}#{presentation.prediction.turn + 1}"
        if presentation.sample.turns
        else presentation.sample.id
    )


def options_shown(presentation: Presentation) -> list[str]:
    """The options in the order in which this presentation showed them."""
    options, order = presentation.turn.options, presentation.prediction.variant.order
    return [options[i] for i in order] if order else list(options)


def letters_of_gold(presentation: Presentation) -> list[str]:
    """The places of the right options among those shown, as letters; reference texts of a question without options."""
    if presentation.answer is None:
        return []
    if not presentation.turn.options:
        return list(presentation.answer.texts)
    order = presentation.prediction.variant.order or tuple(range(len(presentation.turn.options)))
    return [
        LETTERS[place] if place < len(LETTERS) else str(place)
        for place, i in enumerate(order)
        if i in presentation.answer.options
    ]


def write_json(path: Path, content: Any) -> Path:
    """Write a JSON file. Raises StoreError."""
    write_atomically(
        path, json.dumps(content, indent=2, ensure_ascii=False).encode("utf-8", "replace")
    )
    return path


PICTURE = "[image]"
"""The placeholder of an image in a request's text."""


def sample_table(runs: Sequence[ScoredRun]) -> polars.DataFrame:
    """A row for each presentation of each run. Tags are columns `tag_NAME`, a question's metrics `score_NAME`.

    Columns are the same whatever a run holds, except those of tags and scores. Raises StoreError.
    """
    check_polars()
    import polars as pl

    rows: list[dict[str, Any]] = []
    for label, run in zip(run_labels(runs), runs, strict=True):
        images = {use.name: RunImages(use, run.folder) for use in run.manifest.benchmarks}
        for presentation in presentations(run):
            row = _row(label, run, presentation)
            row["image_paths"] = _image_paths(presentation, images)
            rows.append(row)
    columns = dict.fromkeys(name for row in rows for name in row)
    schema = _schema()
    tags = {name: pl.String() for name in columns if name.startswith("tag_")}
    scores = {name: pl.Float64() for name in columns if name.startswith("score_")}
    return pl.DataFrame(rows, schema={**schema, **tags, **scores})


def _image_paths(presentation: Presentation, images: Mapping[str, RunImages]) -> list[str | None]:
    """Return where the image files of a question are; None for an image that no folder of this machine has as a file."""
    stores = images[presentation.scored.spec.name]
    paths = [stores.path(image) for image in presentation.sample.images]
    return [None if path is None else str(path) for path in paths]


def write_frame(frame: polars.DataFrame, path: Path) -> Path:
    """Write a frame as Parquet, complete or not at all. Raises StoreError."""
    # Polars reports a full disk as an error of its own, which is no OSError.
    content = io.BytesIO()
    frame.write_parquet(content)
    write_atomically(path, content.getvalue())
    return path


def _schema() -> dict[str, Any]:
    check_polars()
    import polars as pl

    texts = pl.List(pl.String())
    message = pl.Struct({"role": pl.String(), "text": pl.String()})
    return {
        **dict.fromkeys(("model", "benchmark", "protocol", "method", "sample_id"), pl.String()),
        **dict.fromkeys(("turn", "presentation"), pl.Int32()),
        **dict.fromkeys(("context", "question"), pl.String()),
        **dict.fromkeys(("options", "gold", "images", "image_paths"), texts),
        "gold_options": pl.List(pl.Int32()),
        "group": pl.String(),
        "template": pl.String(),
        "order": pl.List(pl.Int32()),
        "labels": texts,
        "wording": pl.Int32(),
        "kind": pl.String(),
        "request": pl.List(message),
        "reply": pl.String(),
        "log_likelihoods": pl.List(pl.Float64()),
        "finish": pl.String(),
        "seconds": pl.Float64(),
        **dict.fromkeys(("prompt_tokens", "completion_tokens"), pl.Int64()),
        **dict.fromkeys(("error", "error_detail"), pl.String()),
        "reused": pl.Boolean(),
        "chosen": pl.Int32(),
        "chosen_text": pl.String(),
        "correct": pl.Boolean(),
        **dict.fromkeys(("extraction_method", "confidence", "reason", "detail"), pl.String()),
        "follows_format": pl.Boolean(),
        "extractor": pl.String(),
    }


def _row(label: str, run: ScoredRun, presentation: Presentation) -> dict[str, Any]:
    prediction, variant, sample = (
        presentation.prediction,
        presentation.prediction.variant,
        presentation.sample,
    )
    request = presentation.exchange.request if presentation.exchange else None
    response = presentation.exchange.response if presentation.exchange else None
    usage = response.usage if response else None
    return {
        "model": label,
        "benchmark": presentation.scored.spec.name,
        "protocol": prediction.protocol,
        "method": prediction.method,
        "sample_id": sample.id,
        "turn": prediction.turn,
        "presentation": variant.test,
        "context": sample.context,
        "question": presentation.turn.question,
        "options": list(presentation.turn.options),
        "gold": list(presentation.golds) if presentation.answer else None,
        "gold_options": list(presentation.answer.options) if presentation.answer else None,
        "images": [image.digest for image in sample.images],
        "group": sample.group,
        "template": variant.template,
        "order": list(variant.order),
        "labels": list(variant.labels),
        "wording": variant.wording,
        "kind": request.kind if request else None,
        "request": [{"role": m.role, "text": message_text(m)} for m in request.messages]
        if request
        else None,
        "reply": presentation.reply,
        "log_likelihoods": [score.sum for score in response.scores] if response else None,
        "finish": response.finish if response else None,
        "seconds": response.seconds if response else None,
        "prompt_tokens": usage.prompt_tokens if usage else None,
        "completion_tokens": usage.completion_tokens if usage else None,
        "error": prediction.error.kind if prediction.error else None,
        "error_detail": prediction.error.detail if prediction.error else None,
        "reused": presentation.exchange.reused if presentation.exchange else None,
        "chosen": prediction.choice,
        "chosen_text": presentation.turn.options[prediction.choice]
        if prediction.choice is not None
        else prediction.text,
        "correct": presentation.is_correct,
        "extraction_method": prediction.extraction_method,
        "confidence": prediction.confidence,
        "reason": prediction.reason,
        "detail": prediction.detail,
        "follows_format": prediction.follows_format,
        "extractor": prediction.extractor_version,
        **{f"tag_{name}": value for name, value in sample.tags.items()},
        **{f"score_{score.metric}": score.value for score in presentation.scores},
    }


def message_text(message: Message) -> str:
    """What a message says, with a sign in the place of each image."""
    return "".join(
        PICTURE if isinstance(part, ImagePart) else part.text for part in message.content
    )
