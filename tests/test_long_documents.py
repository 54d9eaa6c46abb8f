"""MMLongBench-Doc: built from its file of questions and folders of pages, and asked; its rule by format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import small
import snellen as sn
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.suites.modern.long_documents import document_score

ANSWERS = {
    "Int": "8",
    "Str": "Less well-off",
    "Float": "0.25",
    "List": "['White', '10%']",
    "None": "Not answerable",
}


def write(to: Path) -> Path:
    """A question of each format about two documents, of 121 pages and of two."""
    for document, pages in (("long", 121), ("short", 2)):
        folder = to / "pages" / document
        folder.mkdir(parents=True)
        for page in range(1, pages + 1):
            (folder / f"page-{page}.png").write_bytes(small.picture(page))
    records = []
    for number, (answer_format, answer) in enumerate(ANSWERS.items()):
        record = {
            "doc_id": "long.pdf" if number == 0 else "short.pdf",
            "doc_type": "Guidebook",
            "question": f"What is fact {number}?",
            "answer": answer,
            "evidence_pages": "[1]",
            "evidence_sources": "['Chart']",
            "answer_format": answer_format,
        }
        records.append(record)
    (to / "data").mkdir()
    (to / "data/samples.json").write_text(json.dumps(records))
    return to


def test_a_document_is_asked_with_its_first_120_pages(tmp_path: Path) -> None:
    spec = entries()["modern/mmlongbench-doc"]
    benchmark = build_benchmark(spec, source=write(tmp_path / "files"), to=tmp_path / "built")
    samples = list(benchmark.samples())
    assert [len(sample.images) for sample in samples] == [120, 2, 2, 2, 2]

    def score(model: object, name: str) -> float | None:
        results = sn.evaluate(model, str(benchmark.folder), runs=tmp_path, name=name)
        return results.value("mmlongbench_doc", benchmark="modern/mmlongbench-doc")

    assert score("snellen:oracle", "oracle") == 1.0
    assert score("snellen:uniform", "uniform") == 0.0
    assert score("snellen:always-a", "a") == 0.0
    assert score(sn.Scripted(lambda request: "Not answerable"), "none") == 1 / 5


@pytest.mark.parametrize(
    ("answer_format", "reply", "value"),
    [
        ("Int", "8.9", 1.0),
        ("Int", "eight", 0.0),
        ("Int", "inf", 0.0),
        ("Float", "25%", 1.0),
        ("Float", "0.2524", 1.0),
        ("Float", "0.26", 0.0),
        ("Float", "a quarter", 0.0),
        ("Str", "less well off", 1 - 1 / 13),
        ("Str", "better", 0.0),
        ("List", '["10%", "white"]', 1.0),
        ("List", "White", 0.0),
        ("List", "[White, 10%", 0.0),
        ("None", "not answerable", 1.0),
    ],
)
def test_a_reply_is_compared_as_the_format_of_its_answer_demands(
    answer_format: str, reply: str, value: float
) -> None:
    assert document_score(ANSWERS[answer_format], reply, answer_format) == pytest.approx(value)


def test_addresses_and_pages_have_to_be_equal() -> None:
    assert document_score("page 12", "page 13", "Str") == 0.0
    assert document_score("https://a.org/x", "https://a.org/y", "Str") == 0.0


def test_an_answer_that_is_not_of_its_format_is_never_given() -> None:
    assert document_score("21%", "21%", "Int") == document_score("yes", "yes", "Int") == 0.0
    assert document_score("[]", "[]", "List") == 1.0
