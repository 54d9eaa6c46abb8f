"""A server with a board, and what is uploaded to it."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import small
from http_browser import Browser
from snellen.building.benchmark import Benchmark
from snellen.formats.xlsx import write_sheet

LETTERS = "ABCD"
QUESTIONS = 40


def hidden_benchmark(folder: Path, name: str = "animals", count: int = QUESTIONS) -> Benchmark:
    """Questions whose right answers go round: question i has option i % 4."""
    return small.built(small.rows(count, pictures=count), folder / name, name=name)


def board(benchmark: Benchmark, **settings: Any) -> dict[str, Any]:
    return {
        "name": "animals",
        "benchmarks": [str(benchmark.folder)],
        "a_day": 1000,
        "noise_answers": 2.0,
        "budget": 1e6,
        "alike": 0.0,
        **settings,
    }


def gold(number: int) -> str:
    return LETTERS[number % 4]


def other(number: int) -> str:
    return LETTERS[(number + 1) % 4]


def predictions(
    answer: Callable[[int], str] = gold, count: int = QUESTIONS
) -> list[dict[str, Any]]:
    return [{"id": f"q{i:03d}", "prediction": answer(i)} for i in range(count)]


def as_jsonl(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def as_parquet(rows: list[dict[str, Any]]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


def as_xlsx(rows: list[dict[str, Any]], path: Path) -> bytes:
    columns = list(rows[0])
    write_sheet(path, columns, [[str(row.get(name, "")) for name in columns] for row in rows])
    return path.read_bytes()


def upload(
    program: Browser,
    content: bytes,
    name: str = "predictions.jsonl",
    board: str = "animals",
    **fields: str,
) -> Any:
    """The answer to an upload by the API."""
    return program.http.post(
        f"/api/v1/boards/{board}/submissions",
        files={"file": (name, content, "application/octet-stream")},
        data={"model": "A model", **fields},
    )


def settled(program: Browser, submission_id: str, seconds: float = 60) -> dict[str, Any]:
    """The submission when it no longer waits."""
    end = time.monotonic() + seconds
    while True:
        facts: dict[str, Any] = program.get(f"/api/v1/submissions/{submission_id}").json()
        if facts.get("state") != "waiting":
            return facts
        assert time.monotonic() < end, "it still waits"
        time.sleep(0.05)


def scored(
    program: Browser, content: bytes, name: str = "predictions.jsonl", **fields: str
) -> dict[str, Any]:
    answer = upload(program, content, name, **fields)
    assert answer.status_code == 201, answer.text
    return settled(program, answer.json()["id"])


SECRET = "quagga"
"""In every right answer of the open questions, and nowhere else."""


def open_benchmark(folder: Path, count: int = 12) -> Benchmark:
    """Open questions, whose answers stand in nothing that is shown."""
    rows = [
        {
            "id": f"o{i:03d}",
            "question": f"What is on picture {i}?",
            "answer": f"{SECRET} {i}",
            "image": small.cell(i),
        }
        for i in range(count)
    ]
    return small.built(rows, folder / "open", name="open")
