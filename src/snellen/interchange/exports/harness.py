"""Files of lm-evaluation-harness and of lmms-eval: results by task, and samples line by line.

A task is a benchmark; a protocol is the filter behind the comma of a metric's name (`accuracy,vanilla`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime
from itertools import chain
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
    """Write `MODEL/results_TIME.json` for each run, as `lm_eval --output_path` does, and return the paths."""
    paths = []
    for label, run, content in _results(job):
        time = _time(run).isoformat().replace(":", "-")
        paths.append(write_json(job.path / slug(label) / f"results_{time}.json", content))
    return paths


def _write_samples(job: ExportJob) -> list[Path]:
    """Write `MODEL/TIME_samples_TASK.jsonl` and `MODEL/TIME_results.json`, as `lmms-eval --log_samples` does.

    Returns:
        The paths of the files.
    """
    paths = []
    for label, run, content in _results(job):
        folder = job.path / slug(label)
        time = _time(run).strftime("%Y%m%d_%H%M%S")
        for part in log_parts([run], ()):
            lines: list[str] = []
            for presentation in chain.from_iterable(part.questions):
                line = _line(len(lines), presentation)
                lines.append(json.dumps(line, ensure_ascii=False) + "\n")
            path = folder / f"{time}_samples_{part.task}.jsonl"
            write_atomically(path, "".join(lines).encode("utf-8", "replace"))
            paths.append(path)
        paths.append(write_json(folder / f"{time}_results.json", content))
    return paths


def _time(run: ScoredRun) -> datetime:
    return datetime.fromisoformat(run.manifest.started).replace(tzinfo=None)


def _results(job: ExportJob) -> list[tuple[str, ScoredRun, dict[str, Any]]]:
    """Return the label of each run, the run, and the content of its file of results."""
    parts_by_run: dict[str, list[LogPart]] = defaultdict(list)
    for part in log_parts(job.runs, job.rows):
        parts_by_run[part.label].append(part)
    results = []
    for label, parts in parts_by_run.items():
        results.append((label, parts[0].run, _content(label, parts)))
    return results


def _content(label: str, parts: list[LogPart]) -> dict[str, Any]:
    """Return the content of a run's file of results.

    Args:
        label: Label of the run.
        parts: Its parts: a benchmark under a protocol each.
    """
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
    n_examples = manifest.few_shot[0] if manifest.few_shot else 0
    versions = {}
    configs = {}
    for use in manifest.benchmarks:
        if use.name in results:
            versions[use.name] = use.version
            configs[use.name] = {"task": use.name, "metadata": {"version": use.version}}
    return {
        "results": results,
        "group_subtasks": {},
        "configs": configs,
        "versions": versions,
        "n-shot": dict.fromkeys(results, n_examples),
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
    """Return a line of a file of samples. A presentation is a document, because each has its own order of options.

    Args:
        number: Index of the line.
        presentation: One way in which a question was shown, with its reply.
    """
    prediction = presentation.prediction
    ground_truths = letters_of_gold(presentation)
    reply = _reply(presentation)
    prompt = ""
    request_key = ""
    if presentation.exchange:
        request = presentation.exchange.request
        prompt = "\n".join(message_text(message) for message in request.messages)
        request_key = request.key
    line: dict[str, Any] = {
        "doc_id": number,
        "doc": {
            "id": question_id(presentation),
            "question": presentation.turn.question,
            "options": options_shown(presentation),
            "presentation": prediction.variant.test,
            "protocol": prediction.protocol,
        },
        "input": prompt,
        "target": ground_truths[0] if ground_truths else "",
        "resps": [[reply]],
        "filtered_resps": [reply],
        "doc_hash": request_key,
    }
    if prediction.error:
        line["error"] = prediction.error.kind
    for score in presentation.scores:
        line[score.metric] = score.value
    return line


def _reply(presentation: Presentation) -> str:
    """Return the reply of a model.

    If only likelihoods were asked for, return the text of the most likely option. The text is empty
    if the request failed.
    """
    if presentation.reply is not None:
        return presentation.reply
    return (
        presentation.turn.options[presentation.prediction.choice]
        if presentation.prediction.choice is not None
        else ""
    )


LM_EVAL = Exporter(title="results of lm-evaluation-harness (JSON)", write=_write_results)
LMMS_EVAL = Exporter(title="samples (JSONL) and results of lmms-eval", write=_write_samples)
