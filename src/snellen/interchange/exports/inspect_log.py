"""Logs of Inspect (.eval, log format 2): one for each benchmark and protocol of a run, for `inspect view`.

A presentation is an epoch of its sample: `choices` and `target` are as that presentation showed them, so that the reply
beside them can be judged. Scores are Snellen's, of the question over all of its presentations.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from snellen import __version__
from snellen.common.decoding import data_uri, to_plain_file
from snellen.formats.whole_files import write_atomically
from snellen.interchange.exports.base import (
    Exporter,
    ExportJob,
    LogPart,
    Presentation,
    letters_of_gold,
    log_parts,
    message_text,
    options_shown,
    question_id,
)
from snellen.records import ImagePart, Message, Part, TextPart
from snellen.runs.own_questions import RunImages

LOG_FORMAT = 2


def _write(job: ExportJob) -> list[Path]:
    return [_write_part(part, job) for part in log_parts(job.runs, job.rows)]


def _write_part(part: LogPart, job: ExportJob) -> Path:
    pictures = None
    if job.images:
        [use] = [use for use in part.run.manifest.benchmarks if use.name == part.benchmark]
        pictures = RunImages(use, part.run.folder)
    started = part.run.manifest.started
    digest = hashlib.blake2b(
        f"{part.run.folder.resolve()} {part.task}".encode(), digest_size=11
    ).hexdigest()
    samples = [
        _sample(presentation, epoch, pictures)
        for question in part.questions
        for epoch, presentation in enumerate(question, 1)
    ]
    spec = _spec(part, digest)
    plan = {"name": "snellen", "steps": []}
    header: dict[str, Any] = {
        "version": LOG_FORMAT,
        "status": "success",
        "eval": spec,
        "plan": plan,
        "results": _results(part, samples),
        "stats": {"started_at": started, "completed_at": started, "model_usage": {}},
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "_journal/start.json", {"version": LOG_FORMAT, "eval": spec, "plan": plan})
        for sample in samples:
            _add(
                archive,
                f"samples/{_file_name(str(sample['id']))}_epoch_{sample['epoch']}.json",
                sample,
            )
        _add(archive, "summaries.json", [_summary(sample) for sample in samples])
        _add(archive, "header.json", header)
    path = job.path / f"{started.replace(':', '-')}_{part.task}_{digest}.eval"
    write_atomically(path, content.getvalue())
    return path


def _add(archive: zipfile.ZipFile, name: str, value: Any) -> None:
    archive.writestr(name, json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _file_name(sample_id: str) -> str:
    return sample_id.replace("/", "_").replace("\\", "_")


def _spec(part: LogPart, digest: str) -> dict[str, Any]:
    manifest = part.run.manifest
    ids = [question_id(question[0]) for question in part.questions]
    epochs = max(map(len, part.questions), default=1)
    return {
        "eval_id": digest,
        "run_id": digest,
        "created": manifest.started,
        "task": part.task,
        "task_id": digest,
        "dataset": {
            "name": part.benchmark,
            "samples": len(ids),
            "sample_ids": ids,
            "shuffled": False,
        },
        "model": part.label,
        "config": {"epochs": epochs},
        "packages": {"snellen": __version__},
        "metadata": {
            "protocol": part.protocol,
            "extractors": list(part.run.extractors),
            "run": part.run.folder.name,
        },
    }


def _results(part: LogPart, samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    scores = []
    for row in part.rows:
        metrics = {"mean": {"name": "mean", "value": row.estimate.value}}
        if row.estimate.stderr is not None:
            metrics["stderr"] = {"name": "stderr", "value": row.estimate.stderr}
        counts = {
            "scored_samples": row.estimate.n,
            "unscored_samples": row.estimate.unscored + row.estimate.unanswered,
        }
        scores.append({"name": row.metric, "scorer": row.metric, "metrics": metrics, **counts})
    completed = sum("error" not in sample for sample in samples)
    return {"total_samples": len(samples), "completed_samples": completed, "scores": scores}


def _sample(presentation: Presentation, epoch: int, pictures: RunImages | None) -> dict[str, Any]:
    request = presentation.exchange.request if presentation.exchange else None
    messages = [_message(message, pictures) for message in request.messages] if request else []
    prediction = presentation.prediction
    options = options_shown(presentation)
    answer = (
        presentation.turn.options[prediction.choice]
        if prediction.choice is not None
        else prediction.text
    )
    sample: dict[str, Any] = {
        "id": question_id(presentation),
        "epoch": epoch,
        "input": _question(presentation, pictures),
        "choices": options or None,
        "target": letters_of_gold(presentation),
        "messages": messages,
        "output": {"model": "", "choices": []},
        "scores": {
            score.metric: {
                "value": score.value,
                "answer": answer,
                "explanation": prediction.detail or None,
            }
            for score in presentation.scores
            if score.value is not None
        },
        "metadata": {
            **presentation.sample.tags,
            "template": prediction.variant.template,
            "reason": prediction.reason,
        },
    }
    if prediction.error is not None:
        fault = f"{prediction.error.kind}: {prediction.error.detail}"
        return {**sample, "error": {"message": fault, "traceback": "", "traceback_ansi": ""}}
    reply = {
        "role": "assistant",
        "content": presentation.reply if presentation.reply is not None else answer or "",
    }
    output = {
        "model": "",
        "choices": [{"message": reply, "stop_reason": "stop"}],
        "completion": reply["content"],
    }
    return {**sample, "messages": [*messages, reply], "output": output}


def _question(presentation: Presentation, pictures: RunImages | None) -> str | list[dict[str, Any]]:
    """The question as the benchmark has it; the messages say how it was put to the model."""
    text = "\n".join(filter(None, (presentation.sample.context, presentation.turn.question)))
    if pictures is None:
        return text
    parts: list[Part] = [*map(ImagePart, presentation.sample.images), TextPart(text)]
    return [{"role": "user", "content": [_content(part, pictures) for part in parts]}]


def _message(message: Message, pictures: RunImages | None) -> dict[str, Any]:
    if message.role != "user" or pictures is None:
        return {"role": message.role, "content": message_text(message)}
    return {"role": message.role, "content": [_content(part, pictures) for part in message.content]}


def _content(part: Part, pictures: RunImages) -> dict[str, Any]:
    if not isinstance(part, ImagePart):
        return {"type": "text", "text": part.text}
    media_type, content = to_plain_file(part.image, pictures.read(part.image))
    return {"type": "image", "image": data_uri(media_type, content)}


def _summary(sample: dict[str, Any]) -> dict[str, Any]:
    fields = ("id", "epoch", "input", "choices", "target", "scores", "metadata")
    fault = {"error": sample["error"]["message"]} if "error" in sample else {}
    return {
        **{name: sample[name] for name in fields},
        **fault,
        "completed": True,
        "message_count": len(sample["messages"]),
    }


EXPORTER = Exporter(
    title="logs of Inspect (.eval), one for each benchmark and protocol", write=_write
)
