"""Samples that ask the very same although their answers differ are refused, told, or asked one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import small
from snellen import DataError, Results, Scripted, evaluate
from snellen.building.benchmark import Benchmark
from snellen.records import Request
from snellen.runs.journal import read_exchanges
from snellen.runs.run_folder import read_manifest


def captions(count: int = 6, **same: Any) -> list[dict[str, Any]]:
    """Rows that ask for a caption in the same words, each with a caption of its own and no image."""
    return [
        {"id": f"c{i}", "question": "Describe the picture.", "answer": f"caption {i}", **same}
        for i in range(count)
    ]


@pytest.fixture
def imageless(tmp_path: Path) -> Benchmark:
    return small.built(captions(), tmp_path / "made", name="captions", metrics=("exact_match",))


def run(model: Any, benchmark: Benchmark, folder: Path, **how: Any) -> Results:
    return evaluate(model, str(benchmark.folder), "vanilla", runs=folder, name="run", **how)


def asked(folder: Path) -> int:
    return sum(not exchange.reused for exchange in read_exchanges(folder / "run"))


def test_captions_without_pictures_are_counted_when_they_are_built(imageless: Benchmark) -> None:
    assert imageless.manifest.indistinguishable == 6
    found = imageless.indistinguishable()
    assert {question.sample_id for question in found} == {f"c{i}" for i in range(6)}
    assert {question.group for question in found} == {0}
    assert sorted(question.kind for question in found) == list(range(6))


def test_a_run_on_them_is_refused_in_one_line_before_anything_is_asked(
    imageless: Benchmark, tmp_path: Path
) -> None:
    with pytest.raises(
        DataError, match=r"captions: 6 samples, e\.g\. c0, c1, c2.*allow_same_requests=True"
    ) as caught:
        run("snellen:uniform", imageless, tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_allowed_they_share_one_reply_and_the_run_says_so(
    imageless: Benchmark, tmp_path: Path
) -> None:
    run("snellen:uniform", imageless, tmp_path, allow_same_requests=True)
    assert asked(tmp_path) == 1
    [note] = read_manifest(tmp_path / "run").notes
    assert note == "captions: 6 samples share a reply with a sample that has a different answer"


def test_an_entry_may_say_that_its_published_data_ask_so(tmp_path: Path) -> None:
    made = small.built(
        captions(), tmp_path / "made", name="captions", metrics=("exact_match",), same_requests=True
    )
    run("snellen:uniform", made, tmp_path)
    assert read_manifest(tmp_path / "run").notes != ()


def test_a_model_that_answers_by_sample_is_asked_sample_by_sample(
    imageless: Benchmark, tmp_path: Path
) -> None:
    replies = {f"c{i}": f"caption {i}" for i in range(6)}
    for number, model in enumerate((Scripted(replies), "snellen:oracle", BySample(replies))):
        results = run(model, imageless, tmp_path / str(number))
        assert results.value("exact_match", benchmark="captions") == 1.0
        assert asked(tmp_path / str(number)) == 6
        assert read_manifest(tmp_path / str(number) / "run").answers_by_sample
        again = run(model, imageless, tmp_path / str(number))
        assert (again.rows, asked(tmp_path / str(number))) == (results.rows, 6)


class BySample:
    """A model of the user's own that says that it looks up who asks."""

    answers_by_sample = True

    def __init__(self, replies: dict[str, str]) -> None:
        self.replies = replies

    def generate(self, requests: list[Request], images: Any) -> list[str]:
        return [self.replies[request.sample_id] for request in requests]


def test_a_rule_that_looks_at_the_sample_can_say_so(imageless: Benchmark, tmp_path: Path) -> None:
    def rule(request: Request) -> str:
        return f"caption {request.sample_id[1:]}"

    with pytest.raises(DataError, match="samples with different answers send the same request"):
        run(Scripted(rule), imageless, tmp_path)
    results = run(Scripted(rule, answers_by_sample=True), imageless, tmp_path)
    assert results.value("exact_match", benchmark="captions") == 1.0


def test_a_replay_gives_each_sample_its_own_reply(imageless: Benchmark, tmp_path: Path) -> None:
    first = run(Scripted({f"c{i}": f"caption {i}" for i in range(6)}), imageless, tmp_path)
    results = run(f"replay:{tmp_path / 'run'}", imageless, tmp_path / "again")
    assert (
        results.value("exact_match", benchmark="captions")
        == first.value("exact_match", benchmark="captions")
        == 1.0
    )


def test_the_same_answer_is_asked_for_once_as_before(tmp_path: Path) -> None:
    rows = [{**row, "answer": "a cat"} for row in captions(3)]
    made = small.built(rows, tmp_path / "made", name="captions", metrics=("exact_match",))
    assert (made.manifest.indistinguishable, made.indistinguishable()) == (0, [])
    run("snellen:uniform", made, tmp_path)
    assert asked(tmp_path) == 1


def test_another_picture_context_or_order_of_options_tells_questions_apart(tmp_path: Path) -> None:
    one = {"question": "Which?", "options": ["cat", "dog"], "answer": 0, "image": small.cell(1)}
    rows = [
        {"id": "a", **one},
        {"id": "b", **one, "answer": 1, "image": small.cell(2)},
        {"id": "c", **one, "options": ["dog", "cat"]},
        {"id": "d", **one, "context": "It barks.", "answer": 1},
    ]
    assert small.built(rows, tmp_path / "made", name="apart").manifest.indistinguishable == 0
    both = small.built([*rows, {"id": "e", **one, "answer": 1}], tmp_path / "both", name="both")
    assert [(q.sample_id, q.kind) for q in both.indistinguishable()] == [("a", 0), ("e", 1)]


def test_questions_about_one_picture_are_refused_too_and_a_part_without_both_is_not(
    tmp_path: Path,
) -> None:
    made = small.built(
        captions(2, image=small.cell(1)),
        tmp_path / "made",
        name="captions",
        metrics=("exact_match",),
    )
    run("snellen:uniform", made, tmp_path, limit=1)
    with pytest.raises(DataError, match="captions: 2 samples"):
        run("snellen:uniform", made, tmp_path)


def test_hidden_answers_are_different_only_where_there_is_no_picture(tmp_path: Path) -> None:
    hidden = [
        {name: value for name, value in row.items() if name != "answer"} for row in captions(3)
    ]
    assert small.built(hidden, tmp_path / "made", name="hidden").manifest.indistinguishable == 3
    shown = [{**row, "image": small.cell(1)} for row in hidden]
    assert small.built(shown, tmp_path / "shown", name="shown").manifest.indistinguishable == 0


def test_workers_refuse_what_one_process_refuses(imageless: Benchmark, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="captions: 6 samples"):
        run("snellen:uniform", imageless, tmp_path, workers=2)


def test_build_and_run_say_it_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    small.write(captions(), tmp_path / "captions.jsonl")
    code, _, told = small.command(capsys, "build", "captions.jsonl", "--no-images")
    assert code == 0
    assert "warning: 6 of 6 questions send the same request as another question" in " ".join(
        told.split()
    )
    code, _, told = small.command(capsys, "run", "snellen:uniform", "captions")
    assert (code, "--allow-same-requests" in told) == (2, True)
    assert (
        small.command(capsys, "run", "snellen:uniform", "captions", "--allow-same-requests")[0] == 0
    )


def test_lint_says_it_too(imageless: Benchmark) -> None:
    lab = pytest.importorskip("snellen_lab", reason="waits for snellen-lab")
    found = {finding.check: finding for finding in lab.lint(imageless)}
    finding = found["indistinguishable"]
    assert (finding.severity, finding.count, finding.total) == ("serious", 6, 6)
