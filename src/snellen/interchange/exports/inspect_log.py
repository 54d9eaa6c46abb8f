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
    """Write the log of a part of a run (a benchmark under a protocol), and return its path.

    The log is a zip file of JSON files, with the names that Inspect expects.
    """
    manifest = part.run.manifest
    pictures = None
    if job.images:
        [benchmark_use] = [use for use in manifest.benchmarks if use.name == part.benchmark]
        pictures = RunImages(benchmark_use, part.run.folder)
    identity = f"{part.run.folder.resolve()} {part.task}"
    digest = hashlib.blake2b(identity.encode(), digest_size=11).hexdigest()

    samples = []
    for question in part.questions:
        for epoch, presentation in enumerate(question, 1):
            samples.append(_sample(presentation, epoch, pictures))
    spec = _spec(part, digest)
    plan = {"name": "snellen", "steps": []}
    start = {"version": LOG_FORMAT, "eval": spec, "plan": plan}
    header: dict[str, Any] = {
        "version": LOG_FORMAT,
        "status": "success",
        "eval": spec,
        "plan": plan,
        "results": _results(part, samples),
        "stats": {
            "started_at": manifest.started,
            "completed_at": manifest.started,
            "model_usage": {},
        },
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "_journal/start.json", start)
        for sample in samples:
            name = f"{_file_name(str(sample['id']))}_epoch_{sample['epoch']}.json"
            _add(archive, f"samples/{name}", sample)
        _add(archive, "summaries.json", [_summary(sample) for sample in samples])
        _add(archive, "header.json", header)
    time = manifest.started.replace(":", "-")
    path = job.path / f"{time}_{part.task}_{digest}.eval"
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
    """Return the results of a part: how many samples were completed, and a score for each metric."""
    scores = []
    for row in part.rows:
        metrics = {"mean": {"name": "mean", "value": row.estimate.value}}
        if row.estimate.stderr is not None:
            metrics["stderr"] = {"name": "stderr", "value": row.estimate.stderr}
        scores.append(
            {
                "name": row.metric,
                "scorer": row.metric,
                "metrics": metrics,
                "scored_samples": row.estimate.n,
                "unscored_samples": row.estimate.unscored + row.estimate.unanswered,
            }
        )
    completed = sum("error" not in sample for sample in samples)
    return {"total_samples": len(samples), "completed_samples": completed, "scores": scores}


def _sample(presentation: Presentation, epoch: int, pictures: RunImages | None) -> dict[str, Any]:
    """Return a presentation of a question as a sample of Inspect.

    Args:
        presentation: One way in which the question was shown, with its reply.
        epoch: Number of the presentation, from 1.
        pictures: Images of the run; None to write a mark in place of each image.
    """
    prediction = presentation.prediction
    answer = prediction.text
    if prediction.choice is not None:
        answer = presentation.turn.options[prediction.choice]
    messages = []
    if presentation.exchange:
        for message in presentation.exchange.request.messages:
            messages.append(_message(message, pictures))
    scores = {}
    for score in presentation.scores:
        if score.value is not None:
            scores[score.metric] = {
                "value": score.value,
                "answer": answer,
                "explanation": prediction.detail or None,
            }
    sample: dict[str, Any] = {
        "id": question_id(presentation),
        "epoch": epoch,
        "input": _question(presentation, pictures),
        "choices": options_shown(presentation) or None,
        "target": letters_of_gold(presentation),
        "messages": messages,
        "output": {"model": "", "choices": []},
        "scores": scores,
        "metadata": {
            **presentation.sample.tags,
            "template": prediction.variant.template,
            "reason": prediction.reason,
        },
    }
    if prediction.error is not None:
        fault = f"{prediction.error.kind}: {prediction.error.detail}"
        sample["error"] = {"message": fault, "traceback": "", "traceback_ansi": ""}
        return sample

    completion = answer or ""
    if presentation.reply is not None:
        completion = presentation.reply
    reply = {"role": "assistant", "content": completion}
    sample["messages"] = [*messages, reply]
    sample["output"] = {
        "model": "",
        "choices": [{"message": reply, "stop_reason": "stop"}],
        "completion": completion,
    }
    return sample


def _question(presentation: Presentation, pictures: RunImages | None) -> str | list[dict[str, Any]]:
    """Return the question as the benchmark has it; the messages show how the model received it."""
    texts = [presentation.sample.context, presentation.turn.question]
    text = "\n".join(text for text in texts if text)
    if pictures is None:
        return text
    parts: list[Part] = [ImagePart(image) for image in presentation.sample.images]
    parts.append(TextPart(text))
    content = [_content(part, pictures) for part in parts]
    return [{"role": "user", "content": content}]


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
