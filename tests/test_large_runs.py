"""Runs are scored in parts and their records kept out of memory; nothing of what comes out may tell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from operator import attrgetter
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from slow_model import Slow
from snellen.analysis.aggregate import aggregate_run
from snellen.api import evaluate
from snellen.building.benchmark import Benchmark
from snellen.errors import StoreError
from snellen.experiments.scored_folders import score_folders
from snellen.protocols.base import parse_protocol
from snellen.records import Exchange, Request, Response, Result, Sample, Score, Step, Variant
from snellen.report import samples as gallery
from snellen.report.reported_runs import prepare_reported_runs
from snellen.runs.drivers import ProgressUpdate
from snellen.runs.journal import JournalReader, read_entries, read_exchanges
from snellen.runs.journal_lines import read_line, read_stored, write_line
from snellen.runs.plan import plan_run
from snellen.runs.run_folder import journals, read_manifest
from snellen.runs.run_store import RunStore
from snellen.runs.spec import JudgeSpec, ScoringSpec, run_spec
from snellen.runs.unfinished import unfinished_items
from snellen.runs.work_items import work_items
from snellen.scoring import stored_records
from snellen.scoring.kept_scoring import PREDICTIONS, load_scoring
from snellen.scoring.run_scoring import score_run
from snellen.scoring.scored_run import ScoredRun, by_row
from snellen.scoring.stored_records import PackedRecords, RecordSpool, StoredRecords

PROTOCOLS = ("vanilla", "circular", "instability?m=3", "likelihood?m=2", "dialogue?m=2")


@pytest.fixture(scope="module")
def folder(eyechart: Mapping[str, Benchmark], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of choices, captions and dialogues, with replies that cannot be read and requests that failed."""
    runs = tmp_path_factory.mktemp("runs")
    evaluate(
        Slow(failing=0.1),
        "eyechart",
        PROTOCOLS,
        runs=runs,
        name="run",
        limit=8,
        error_budget=1.0,
        report=False,
    )
    return runs / "run"


def everything(run: ScoredRun) -> list[tuple[object, ...]]:
    """All records of a run, out of whatever holds them."""
    return [
        (
            one.spec.name,
            dict(one.samples),
            tuple(one.predictions),
            {row: tuple(scores) for row, scores in one.score_rows.items()},
            dict(one.answers),
            tuple(one.tallies),
        )
        for one in run.benchmarks
    ]


@cache
def scored_whole(
    folder: Path, spec: ScoringSpec
) -> tuple[ScoredRun, list[tuple[object, ...]], list[Result]]:
    """A run scored in one part, with all its records and its rows."""
    whole = score_run(folder, spec)
    return whole, everything(whole), aggregate_run(whole)


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize(
    "spec",
    [
        ScoringSpec(metrics=("bleu_4", "cider", "exact_match", "pope")),
        ScoringSpec(
            unparsed="legacy-random", metrics=("bleu_2",)
        ),  # no metric that needs all replies at once
    ],
    ids=["corpus metrics", "random guesses"],
)
def test_scored_in_parts_a_run_has_the_very_same_numbers(
    folder: Path, size: int, spec: ScoringSpec
) -> None:
    whole, records, rows = scored_whole(folder, spec)
    parts = score_run(folder, spec, samples_at_once=size)
    assert everything(parts) == records
    assert (parts.distinct_requests, parts.reused, parts.roles, parts.costs) == (
        whole.distinct_requests,
        whole.reused,
        whole.roles,
        whole.costs,
    )
    assert aggregate_run(parts) == rows
    assert len(rows) > 100 and any(row.estimate.errors for row in rows)
    assert any(one.tallies for one in whole.benchmarks)


@pytest.mark.parametrize("in_memory", [True, False], ids=["in memory", "in files"])
def test_a_run_is_kept_and_opened_again_with_all_its_records(
    folder: Path, in_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not in_memory:
        monkeypatch.setattr(stored_records, "BYTES_IN_MEMORY", 1)
    [scored] = score_folders([folder], ScoringSpec(metrics=("bleu_1",)), JudgeSpec())
    assert scored.stored_in is not None
    records = everything(scored)
    again = load_scoring(folder, scored.stored_in.name)
    assert everything(again) == records
    assert aggregate_run(replace(again, stored_rows=None)) == aggregate_run(scored)
    # Whoever holds it goes on reading what it was, also after another scoring has taken the file's place.
    path = scored.stored_in / PREDICTIONS
    path.with_suffix(".new").write_bytes(b"")
    path.with_suffix(".new").replace(path)
    assert everything(again) == records


def test_a_run_whose_records_lie_in_files_is_kept_as_the_same_bytes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def files() -> dict[str, bytes]:
        [scored] = score_folders([folder], ScoringSpec(metrics=("bleu_1", "cider")), JudgeSpec())
        assert scored.stored_in is not None
        return {path.name: path.read_bytes() for path in scored.stored_in.glob("*.json*")}

    in_memory = files()
    monkeypatch.setattr(stored_records, "BYTES_IN_MEMORY", 1)
    assert files() == in_memory and in_memory[PREDICTIONS]


def test_two_threads_read_the_same_records_at_once(folder: Path) -> None:
    [benchmark, *_] = score_run(folder).benchmarks
    expected = list(benchmark.predictions)
    with ThreadPoolExecutor(4) as pool:
        assert all(
            read == expected for read in pool.map(lambda _: list(benchmark.predictions), range(40))
        )


def test_stored_records_have_places_as_those_of_a_list_have(folder: Path) -> None:
    records = score_run(folder).benchmarks[0].predictions
    everything = list(records)
    assert [records[place] for place in (0, 1, -1)] == [everything[place] for place in (0, 1, -1)]
    for place in (len(records), -len(records) - 1):
        with pytest.raises(IndexError, match=f"{place}: there are {len(records)} records"):
            _ = records[place]


def test_what_is_damaged_in_a_kept_file_is_told(tmp_path: Path) -> None:
    spool = RecordSpool(tmp_path)
    lines = spool.write([Score("p", "generation", "b", "s", 0, "accuracy", 1.0)])
    spool.file.name = "scores.jsonl"
    spool.file.content.seek(0)
    spool.file.content.write(b'{"protocol":7')
    with pytest.raises(StoreError, match=r"scores\.jsonl: .*score the run again"):
        list(StoredRecords(spool.file, Score, [lines]))


def test_packed_records_are_a_mapping_like_any_other() -> None:
    samples = {
        f"q{i}": Sample(f"q{i}", "b", f"What is {i}?", tags={"level": str(i % 3)})
        for i in range(1300)
    }
    packed = PackedRecords(Sample, attrgetter("id"), samples.values())
    assert (
        packed == samples
        and list(packed) == list(samples)
        and list(packed.values()) == list(samples.values())
    )
    assert packed["q1299"].question == "What is 1299?" and packed["q0"] == samples["q0"]
    assert "q5" in packed and "q1300" not in packed and packed.get("x") is None
    assert packed.keys() & {"q1", "other"} == {"q1"}
    twice = [samples["q0"], samples["q1"], replace(samples["q0"], question="Again?"), samples["q3"]]
    assert PackedRecords(Sample, attrgetter("id"), twice) == {one.id: one for one in twice}


def test_the_scores_of_a_row_lie_together_and_rows_stand_in_the_order_of_protocols_and_metrics(
    folder: Path,
) -> None:
    for one in score_run(folder, samples_at_once=3).benchmarks:
        assert {row: list(scores) for row, scores in one.score_rows.items()} == by_row(one.scores)
        protocols = [protocol for protocol, _, _ in one.score_rows]
        assert protocols == sorted(
            protocols, key=[parse_protocol(name).label for name in PROTOCOLS].index
        )
        for (protocol, _, metric), scores in one.score_rows.items():
            assert list(one.scores_of(metric, protocol)) == list(scores)
            assert (
                next(iter(scores)) in scores and replace(next(iter(scores)), turn=99) not in scores
            )


def test_predictions_stand_in_the_order_of_the_samples_whatever_came_first(
    folder: Path, tmp_path: Path
) -> None:
    backwards = tmp_path / "run"
    backwards.mkdir()
    (backwards / "manifest.json").write_bytes((folder / "manifest.json").read_bytes())
    lines = journals(folder)[0].read_bytes().splitlines(keepends=True)
    answered = [line for line in lines if b'"error"' not in line]
    (backwards / "journal-0.jsonl").write_bytes(b"".join(reversed(answered)))
    (tmp_path / "forwards").mkdir()
    (tmp_path / "forwards" / "manifest.json").write_bytes((folder / "manifest.json").read_bytes())
    (tmp_path / "forwards" / "journal-0.jsonl").write_bytes(b"".join(answered))
    for one, other in zip(
        score_run(backwards, samples_at_once=4).benchmarks,
        score_run(tmp_path / "forwards").benchmarks,
        strict=True,
    ):
        assert tuple(one.predictions) == tuple(other.predictions)
        assert list(dict.fromkeys(p.sample_id for p in one.predictions)) == [
            key for key in one.samples if key in {p.sample_id for p in one.predictions}
        ]


# --- the journal by places ---------------------------------------------------------------------------------------


def test_a_place_leads_to_the_exchange_whose_short_form_it_was_read_with(folder: Path) -> None:
    paths = journals(folder)
    found = list(read_entries(paths, read_manifest(folder).authors))
    with JournalReader(paths) as reader:
        exchanges = [reader.read(place) for place, _ in reversed(found)]
    assert exchanges[::-1] == list(read_exchanges(folder))
    for (_, entry), exchange in zip(found, exchanges[::-1], strict=True):
        assert (entry.protocol, entry.request.sample_id) == (
            exchange.protocol,
            exchange.request.sample_id,
        )
        assert (entry.response.error, entry.response.usage) == (
            exchange.response.error,
            exchange.response.usage,
        )


def test_an_exchange_as_stored_has_the_key_of_the_exchange(folder: Path) -> None:
    lines = journals(folder)[0].read_bytes().splitlines(keepends=True)
    for line in lines:
        exchange, stored = read_line(line), read_stored(line)
        assert stored.request.key == exchange.request.key
        assert bytes(stored.request.variant) == msgspec.json.encode(exchange.request.variant)
        assert stored.request.is_presentation == exchange.request.is_presentation
    edited = msgspec.json.decode(lines[0])
    del edited["crc"]
    loose = (
        json.dumps(edited, indent=None, separators=(", ", ": "), sort_keys=True).encode() + b"\n"
    )
    assert read_stored(loose).request.key == read_line(lines[0]).request.key


@pytest.mark.parametrize(
    "variant",
    [
        Variant(baseline="blank"),
        Variant(step=Step(1, "caption")),
        Variant(labels=('"step":', '"baseline":')),
    ],
)
def test_what_is_a_presentation_is_told_from_its_line(variant: Variant) -> None:
    exchange = Exchange("p", Request("b", "s", variant, ()), Response(text="x"))
    stored = read_stored(write_line(exchange, {}))
    assert (
        stored.request.is_presentation == exchange.request.is_presentation == bool(variant.labels)
    )
    assert stored.request.key == exchange.request.key


def test_a_line_whose_request_is_damaged_is_named(folder: Path, tmp_path: Path) -> None:
    lines = journals(folder)[0].read_bytes().splitlines(keepends=True)
    line = msgspec.json.decode(lines[2])
    del line["crc"]
    line["request"]["messages"] = "none"
    (tmp_path / "journal-0.jsonl").write_bytes(
        b"".join([*lines[:2], msgspec.json.encode(line) + b"\n", *lines[3:]])
    )
    (tmp_path / "manifest.json").write_bytes((folder / "manifest.json").read_bytes())
    with pytest.raises(StoreError, match=r"journal-0\.jsonl:3: .*mend"):
        score_run(tmp_path)


# --- a run that goes on --------------------------------------------------------------------------------------------


def test_what_is_finished_is_passed_over_and_what_is_not_is_gone_through(
    questions: Benchmark, tmp_path: Path
) -> None:
    protocols = ("instability?m=3", "vanilla", "circular")
    spec = run_spec(
        {
            "models": ("slow",),
            "benchmarks": (str(questions.folder),),
            "protocols": protocols,
            "runs": str(tmp_path),
            "name": "r",
        }
    )
    evaluate(
        Slow(), str(questions.folder), protocols, runs=tmp_path, name="r", limit=5, report=False
    )
    plan = plan_run(spec, print)
    asked = {exchange.request.sample_id for exchange in read_exchanges(tmp_path / "r")}
    told: list[ProgressUpdate] = []
    with RunStore(tmp_path / "r") as store:
        left = [
            (one.sample.id, one.label)
            for one in unfinished_items(work_items(plan), store, told.append)
        ]
    every = [(one.sample.id, one.label) for one in work_items(plan)]
    # Circular rotations may stop early, so what it asks next is known only to itself.
    assert left == [(key, label) for key, label in every if key not in asked or label == "circular"]
    assert sum(update.questions for update in told) == 2 * 5 and len(asked) == 5


def test_nothing_is_passed_over_where_the_requests_have_changed(
    questions: Benchmark, tmp_path: Path
) -> None:
    evaluate(Slow(), str(questions.folder), "vanilla", runs=tmp_path, name="r", report=False)
    spec = run_spec(
        {
            "models": ("slow",),
            "benchmarks": (str(questions.folder),),
            "runs": str(tmp_path),
            "name": "r",
        }
    )
    same = plan_run(spec.with_question(protocols=("vanilla",)), print)
    other = plan_run(spec.with_question(protocols=("vanilla",), max_new_tokens=7), print)
    with RunStore(tmp_path / "r") as store:
        assert list(unfinished_items(work_items(same), store, lambda update: None)) == []
        left = list(unfinished_items(work_items(other), store, lambda update: None))
    assert len(left) == len(list(work_items(other))) > 1


# --- reports -------------------------------------------------------------------------------------------------------


def test_of_a_large_benchmark_a_report_shows_samples_of_a_random_part_and_counts_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored = score_run(folder)
    reported_runs = prepare_reported_runs([scored], aggregate_run(scored))
    whole = gallery.choose_gallery(reported_runs)
    monkeypatch.setattr(gallery, "MAX_SAMPLES_TO_CHOOSE_FROM", 6)
    monkeypatch.setattr(gallery, "RANDOM_PART_SIZE", 4)
    part = gallery.choose_gallery(reported_runs)
    for one in scored.benchmarks:
        ids = {entry.sample.id for entry in part.entries if entry.sample.benchmark == one.spec.name}
        drawn = gallery.random_part(one)
        assert drawn is not None and len(drawn) == 4 and ids <= drawn
        assert drawn != frozenset(list(one.samples)[:4])
    assert part.entries and gallery.choose_gallery(reported_runs) == part

    def outcomes(chosen: gallery.Gallery) -> dict[str, int]:
        counts = dict[str, int](chosen.left_out.items())
        for entry in chosen.entries:
            counts[entry.outcome] = counts.get(entry.outcome, 0) + 1
        return counts

    assert outcomes(part) == outcomes(whole)
