"""The one table of a run: a row for each presentation, as a frame and as a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snellen.errors import StoreError
from snellen.formats.frames import check_polars
from snellen.interchange.exports.declaration import Exporter, ExportJob
from snellen.interchange.exports.presentations import Presentation, presentations
from snellen.records import ImagePart, Message
from snellen.scoring.scored_run import ScoredRun, run_labels

if TYPE_CHECKING:
    import polars

PICTURE = "[picture]"
"""The placeholder of a picture in a request's text."""


def sample_table(runs: Sequence[ScoredRun]) -> polars.DataFrame:
    """A row for each presentation of each run. Tags are columns `tag_NAME`, a question's metrics `score_NAME`.

    Columns are the same whatever a run holds, except those of tags and scores. Raises StoreError.
    """
    check_polars()
    import polars as pl

    rows = [
        _row(label, run, presentation)
        for label, run in zip(run_labels(runs), runs, strict=True)
        for presentation in presentations(run)
    ]
    columns = dict.fromkeys(name for row in rows for name in row)
    schema = _schema()
    tags = {name: pl.String() for name in columns if name.startswith("tag_")}
    scores = {name: pl.Float64() for name in columns if name.startswith("score_")}
    return pl.DataFrame(rows, schema={**schema, **tags, **scores})


def write_frame(frame: polars.DataFrame, path: Path) -> Path:
    """Write a frame as Parquet, complete or not at all. Raises StoreError."""
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.write_parquet(part)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StoreError(f"{path} cannot be written ({error.strerror or error})") from None
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
        **dict.fromkeys(("options", "gold", "images"), texts),
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
        "right": pl.Boolean(),
        **dict.fromkeys(("extraction_method", "confidence", "reason", "detail"), pl.String()),
        "follows_format": pl.Boolean(),
        "extractor": pl.String(),
    }


def _row(label: str, run: ScoredRun, presentation: Presentation) -> dict[str, Any]:
    prediction, variant, sample = presentation.prediction, presentation.prediction.variant, presentation.sample
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
        "request": [{"role": m.role, "text": message_text(m)} for m in request.messages] if request else None,
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
        "right": presentation.is_right,
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
    """What a message says, with a sign in the place of each picture."""
    return "".join(PICTURE if isinstance(part, ImagePart) else part.text for part in message.content)


def _write(job: ExportJob) -> list[Path]:
    return [write_frame(sample_table(job.runs), job.path)]


EXPORTER = Exporter(title="one table of all presentations, as Parquet", write=_write, suffix=".parquet")
