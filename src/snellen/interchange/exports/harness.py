"""Files of lm-evaluation-harness and of lmms-eval: results by task, and samples line by line.

A task is a benchmark; a protocol is the filter behind the comma of a metric's name (`accuracy,vanilla`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any

from snellen import __version__
from snellen.common.paths import slug
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
    write_json,
)
from snellen.scoring.scored_run import ScoredRun


def _write_results(job: ExportJob) -> list[Path]:
    """`MODEL/results_TIME.json` for each run, as `lm_eval --output_path` writes it."""
    return [
        write_json(
            job.path / slug(label) / f"results_{_time(run).isoformat().replace(':', '-')}.json",
            content,
        )
        for label, run, content in _results(job)
    ]


def _write_samples(job: ExportJob) -> list[Path]:
    """`MODEL/TIME_samples_TASK.jsonl` and `MODEL/TIME_results.json`, as `lmms-eval --log_samples` writes them."""
    paths = []
    for label, run, content in _results(job):
        folder, time = job.path / slug(label), _time(run).strftime("%Y%m%d_%H%M%S")
        for part in log_parts([run], ()):
            presentations = (
                presentation for question in part.questions for presentation in question
            )
            lines = [
                json.dumps(_line(number, presentation), ensure_ascii=False)
                for number, presentation in enumerate(presentations)
            ]
            path = folder / f"{time}_samples_{part.task}.jsonl"
            write_atomically(
                path, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
            )
            paths.append(path)
        paths.append(write_json(folder / f"{time}_results.json", content))
    return paths


def _time(run: ScoredRun) -> datetime:
    return datetime.fromisoformat(run.manifest.started).replace(tzinfo=None)


def _results(job: ExportJob) -> list[tuple[str, ScoredRun, dict[str, Any]]]:
    by_run: dict[str, list[LogPart]] = defaultdict(list)
    for part in log_parts(job.runs, job.rows):
        by_run[part.label].append(part)
    return [(label, parts[0].run, _content(label, parts)) for label, parts in by_run.items()]


def _content(label: str, parts: list[LogPart]) -> dict[str, Any]:
    results: dict[str, dict[str, Any]] = {}
    better: dict[str, dict[str, bool]] = defaultdict(dict)
    counts: dict[str, dict[str, int]] = {}
    for part in parts:
        numbers = results.setdefault(part.benchmark, {"alias": part.benchmark})
        for row in part.rows:
            error = row.estimate.stderr
            numbers[f"{row.metric},{part.protocol}"] = row.estimate.value
            numbers[f"{row.metric}_stderr,{part.protocol}"] = "N/A" if error is None else error
            if row.better != "neither":
                better[part.benchmark][row.metric] = row.better == "higher"
        original = len(part.questions)
        counts[part.benchmark] = {"original": original, "effective": original}
    manifest = parts[0].run.manifest
    shots = manifest.few_shot[0] if manifest.few_shot else 0
    versions = {use.name: use.version for use in manifest.benchmarks}
    return {
        "results": results,
        "group_subtasks": {},
        "configs": {
            name: {"task": name, "metadata": {"version": versions[name]}} for name in results
        },
        "versions": {name: versions[name] for name in results},
        "n-shot": dict.fromkeys(results, shots),
        "higher_is_better": better,
        "n-samples": counts,
        "config": {"model": label, "model_args": None, "limit": None, "gen_kwargs": None},
        "git_hash": None,
        "date": _time(parts[0].run).timestamp(),
        "model_source": "snellen",
        "model_name": label,
        "model_name_sanitized": slug(label),
        "snellen": __version__,
    }


def _line(number: int, presentation: Presentation) -> dict[str, Any]:
    """A presentation is a document of its own, since each shows its options in its own order."""
    request = presentation.exchange.request if presentation.exchange else None
    golds, reply = letters_of_gold(presentation), _reply(presentation)
    return {
        "doc_id": number,
        "doc": {
            "id": question_id(presentation),
            "question": presentation.turn.question,
            "options": options_shown(presentation),
            "presentation": presentation.prediction.variant.test,
            "protocol": presentation.prediction.protocol,
        },
        "input": "\n".join(message_text(message) for message in request.messages)
        if request
        else "",
        "target": golds[0] if golds else "",
        "resps": [[reply]],
        "filtered_resps": [reply],
        "doc_hash": request.key if request else "",
        **({"error": presentation.prediction.error.kind} if presentation.prediction.error else {}),
        **{score.metric: score.value for score in presentation.scores},
    }


def _reply(presentation: Presentation) -> str:
    """The reply; under likelihood the text of the option that was the most likely; empty where none came."""
    if presentation.reply is not None:
        return presentation.reply
    return (
        presentation.turn.options[presentation.prediction.choice]
        if presentation.prediction.choice is not None
        else ""
    )


LM_EVAL = Exporter(title="results of lm-evaluation-harness (JSON)", write=_write_results)
LMMS_EVAL = Exporter(title="samples (JSONL) and results of lmms-eval", write=_write_samples)
