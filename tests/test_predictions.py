"""Files of predictions of other toolkits: read as they are written, joined or by themselves, scored like a run."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import small
import snellen as sn
from snellen.api import Results
from snellen.building.benchmark import Benchmark
from snellen.records import Exchange, Sample
from snellen.report.table import estimate_note
from snellen.runs.journal import read_exchanges
from snellen.runs.run_folder import read_manifest
from snellen.scoring.answers import open_answers

TDIUC = Path(__file__).parent / "witness_tdiuc.json"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def save(content: Any, name: str) -> Path:
    path = Path(name)
    lines = (
        [json.dumps(row) for row in content] if path.suffix == ".jsonl" else [json.dumps(content)]
    )
    path.write_text("\n".join(lines), "utf-8")
    return path


def notes(folder: Path) -> str:
    return "\n".join(read_manifest(folder).notes)


def values(results: Results) -> dict[str, float | None]:
    return {
        row.metric: row.estimate.value
        for row in results.rows
        if not row.slice and row.benchmark != "*"
    }


def by_question(results: Results, metric: str) -> dict[tuple[str, int], float | None]:
    [one] = results.runs[0].benchmarks
    return {
        (score.sample_id, score.turn): score.value for score in one.scores if score.metric == metric
    }


# --- a run's exchanges in the layout of each toolkit --------------------------------------------------------------

Layout = Callable[[Benchmark, Path], Path]


def exchanges(folder: Path) -> Iterator[tuple[Exchange, int]]:
    """Each exchange, with how many of its question came before."""
    seen: dict[tuple[str, int], int] = {}
    for exchange in read_exchanges(folder):
        key = exchange.request.sample_id, exchange.request.variant.turn
        yield exchange, seen.get(key, 0)
        seen[key] = seen.get(key, 0) + 1


def as_reform_eval(benchmark: Benchmark, run: Path) -> Path:
    samples, answers = {s.id: s for s in benchmark.samples()}, open_answers(benchmark.folder)
    rows = []
    for exchange, _ in exchanges(run):
        request, variant = exchange.request, exchange.request.variant
        sample = samples[request.sample_id]
        turn, answer = sample.rounds[variant.turn], answers[sample.id, variant.turn]
        row: dict[str, Any] = {"sample_id": sample.id, "question": turn.question}
        if sample.turns:
            row |= {"sample_id": f"{sample.id}_{variant.turn}", "round_id": variant.turn}
        if turn.options:
            order = variant.order or tuple(range(len(turn.options)))
            shown = [turn.options[i] for i in order]
            listed = "; ".join(
                f"({mark}) {text}" for mark, text in zip(variant.labels, shown, strict=False)
            )
            row |= {
                "answer": str(order.index(answer.options[0])),
                "answer_options": shown,
                "text": f"Options: {listed}.",
            }
            scores = (
                [exchange.response.scores[i].sum for i in order] if exchange.response.scores else []
            )
            row["prediction"] = scores.index(max(scores)) if scores else exchange.response.text
        else:
            row |= {"references": list(answer.texts), "prediction": exchange.response.text}
        rows.append(row)
    return save(rows, "Own_SingleChoice_generation_x_y.json")


def as_inspect_json(benchmark: Benchmark, run: Path) -> Path:
    return save(
        {"version": 2, "eval": INSPECT_EVAL, "samples": list(inspect_samples(benchmark, run))},
        "log.json",
    )


def as_inspect_eval(benchmark: Benchmark, run: Path) -> Path:
    with zipfile.ZipFile("log.eval", "w") as archive:
        archive.writestr("header.json", json.dumps({"version": 2, "eval": INSPECT_EVAL}))
        for sample in inspect_samples(benchmark, run):
            archive.writestr(
                f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample)
            )
    return Path("log.eval")


INSPECT_EVAL = {"task": "made/animals", "model": "made/model"}


def inspect_samples(benchmark: Benchmark, run: Path) -> Iterator[dict[str, Any]]:
    samples, answers = {s.id: s for s in benchmark.samples()}, open_answers(benchmark.folder)
    for exchange, number in exchanges(run):
        sample = samples[exchange.request.sample_id]
        answer, order = answers[sample.id, 0], exchange.request.variant.order
        targets = (
            ["ABCDEFGH"[order.index(i)] for i in answer.options]
            if sample.options
            else list(answer.texts)
        )
        message = {
            "role": "user",
            "content": [{"type": "text", "text": "attachment://q"}, {"type": "image"}],
        }
        yield {
            "id": sample.id,
            "epoch": number + 1,
            "input": [message],
            **({"choices": [sample.options[i] for i in order]} if sample.options else {}),
            "target": targets,
            "output": {
                "choices": [{"message": {"role": "assistant", "content": exchange.response.text}}]
            },
            "attachments": {"q": sample.question},
        }


def as_lmms_eval(benchmark: Benchmark, run: Path) -> Path:
    samples, answers = {s.id: s for s in benchmark.samples()}, open_answers(benchmark.folder)
    rows = []
    for exchange, _ in exchanges(run):
        sample = samples[exchange.request.sample_id]
        answer, order = answers[sample.id, 0], exchange.request.variant.order
        listed = [
            f"{mark}. {sample.options[i]}" for mark, i in zip("ABCDEFGH", order, strict=False)
        ]
        if exchange.response.scores:
            losses = [[str(-score.sum), "False"] for score in exchange.response.scores]
            said = {
                "resps": [[pair] for pair in losses],
                "filtered_resps": losses,
                "target": str(answer.options[0]),
            }
            listed = [
                f"{mark}. {text}" for mark, text in zip("ABCDEFGH", sample.options, strict=False)
            ]
        else:
            target = (
                "ABCDEFGH"[order.index(answer.options[0])] if sample.options else answer.texts[0]
            )
            said = {"filtered_resps": exchange.response.text, "target": target}
        prompt = "\n".join([sample.question, *listed, "Answer with the option's letter."])
        rows.append(
            {"doc_id": sample.id, **said, "doc_hash": "0", "input": prompt, "made_acc": 0.0}
        )
    return save(rows, "20260101_000000_samples_animals.jsonl")


def as_vlmevalkit(benchmark: Benchmark, run: Path) -> Path:
    from snellen.formats.text_table import write_text_table

    samples, answers = {s.id: s for s in benchmark.samples()}, open_answers(benchmark.folder)
    rows = []
    for exchange, _ in exchanges(run):
        sample, said = samples[exchange.request.sample_id], exchange.response.text or ""
        texts = list(answers[sample.id, 0].texts)
        answer = repr(texts) if len(texts) > 1 else texts[0]
        rows.append(
            {"index": sample.id, "question": sample.question, "answer": answer, "prediction": said}
        )
    write_text_table(Path("m_D.xlsx"), ("index", "question", "answer", "prediction"), rows)
    return Path("m_D.xlsx")


def animals(count: int = 12) -> Benchmark:
    sn.build(small.write(small.rows(count), Path("animals.jsonl")), to="animals")
    return Benchmark(Path("animals"))


def open_questions(count: int = 8) -> Benchmark:
    rows = [
        {
            "id": f"t{i}",
            "question": f"What is written on {i}?",
            "answer": [f"shop {i}", f"store {i}"],
            "image": small.cell(i),
        }
        for i in range(count)
    ]
    sn.build(small.write(rows, Path("texts.jsonl")), to="texts")
    return Benchmark(Path("texts"))


def wobbling(reply: str = "") -> sn.Scripted:
    """Replies that differ between presentations: letters, sentences, and ones that name nothing."""

    def say(request: sn.Request) -> str:
        variant = request.variant
        number = sum(request.sample_id.encode()) + 7 * variant.test
        if reply or not variant.labels:
            return reply or f"it says shop {number % 9}"
        label = variant.labels[number % len(variant.labels)]
        return (f"({label})", f"The answer is {label}.", "no idea", "(Z)")[number % 4]

    return sn.Scripted(say, name="wobbling")


CHOICE_METRICS = (
    "accuracy",
    "accuracy_of_parsed",
    "accuracy_upper",
    "instability",
    "hit_rate",
)


@pytest.mark.parametrize("joined", [False, True], ids=["alone", "joined"])
@pytest.mark.parametrize("layout", [as_reform_eval, as_inspect_json, as_inspect_eval])
def test_several_presentations_score_as_the_run_that_made_them(
    layout: Layout, joined: bool
) -> None:
    benchmark = animals()
    own = sn.evaluate(wobbling(), "./animals", "instability?m=5", name="own")
    folder = sn.import_run(layout(benchmark, Path("runs/own")), "./animals" if joined else "")
    again = sn.score(folder)
    assert values(again)["instability"] > 0.3  # type: ignore[operator]
    for metric in CHOICE_METRICS:
        assert by_question(again, metric) == by_question(own, metric), metric
        assert values(again)[metric] == values(own)[metric]
    assert "60 rows of 12 questions" in notes(folder)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.integers(0, 10**6),
    st.integers(1, 6),
    st.sampled_from(["upper", "lower", "number", "random"]),
)
def test_any_labels_orders_and_number_of_presentations_survive_the_published_layout(
    seed: int, m: int, labels: str
) -> None:
    if not Path("animals").exists():
        animals()
    label = f"instability?m={m}&labels={labels}&seed={seed}"
    own = sn.evaluate(wobbling(), "./animals", label, name=f"own-{seed}-{m}-{labels}")
    path = as_reform_eval(Benchmark(Path("animals")), Path(f"runs/own-{seed}-{m}-{labels}"))
    for benchmark in ("", "./animals"):
        again = sn.score(
            sn.import_run(path, benchmark, to=f"taken-{seed}-{m}-{labels}-{bool(benchmark)}")
        )
        for metric in CHOICE_METRICS:
            if m > 1 or "instability" not in metric:
                assert by_question(again, metric) == by_question(own, metric), metric


@pytest.mark.parametrize("joined", [False, True], ids=["alone", "joined"])
@pytest.mark.parametrize("layout", [as_reform_eval, as_lmms_eval])
def test_likelihoods_score_as_the_run_that_made_them(layout: Layout, joined: bool) -> None:
    benchmark = animals()
    m = "?m=3" if layout is as_reform_eval else ""
    own = sn.evaluate("snellen:uniform", "./animals", f"likelihood{m}", name="own")
    folder = sn.import_run(layout(benchmark, Path("runs/own")), "./animals" if joined else "")
    again = sn.score(folder)
    assert {row.method for row in again.rows} == {"likelihood"}
    assert by_question(again, "accuracy") == by_question(own, "accuracy")
    if m:
        assert by_question(again, "instability") == by_question(own, "instability")
    again.report("r.html")


@pytest.mark.parametrize("joined", [False, True], ids=["alone", "joined"])
@pytest.mark.parametrize("layout", [as_reform_eval, as_inspect_json, as_lmms_eval, as_vlmevalkit])
def test_open_questions_score_as_the_run_that_made_them(layout: Layout, joined: bool) -> None:
    benchmark = open_questions()
    own = sn.evaluate(wobbling(), "./texts", name="own")
    folder = sn.import_run(layout(benchmark, Path("runs/own")), "./texts" if joined else "")
    metrics = ["exact_match", "word_accuracy", "anls", "cider", "rouge_l"]
    if layout is as_lmms_eval and not joined:  # it writes one target
        metrics = ["exact_match"]
    again, own = sn.score(folder, metrics=metrics), sn.score("runs/own", metrics=metrics)
    for metric in metrics:
        assert by_question(again, metric) == by_question(own, metric), metric


def test_choices_asked_once_score_as_the_run_that_made_them() -> None:
    benchmark = animals()
    own = sn.evaluate(wobbling(), "./animals", name="own")
    path = as_lmms_eval(benchmark, Path("runs/own"))
    for asked in ("", "./animals"):
        again = sn.score(sn.import_run(path, asked))
        for metric in ("accuracy", "hit_rate"):
            assert by_question(again, metric) == by_question(own, metric)


def test_dialogues_are_scored_round_by_round() -> None:
    benchmark = dialogues()
    own = sn.evaluate(wobbling(), "./talks", "dialogue?m=2", name="own")
    path = as_reform_eval(benchmark, Path("runs/own"))
    for asked in ("", "./talks"):
        folder = sn.import_run(path, asked)
        again = sn.score(folder)
        for metric in ("accuracy", "instability", "hit_rate"):
            assert by_question(again, metric) == by_question(own, metric)
        assert values(again)["round_slope"] == values(own)["round_slope"]


def dialogues() -> Benchmark:
    from snellen.building.builder import build_benchmark
    from snellen.catalogue import BenchmarkSpec, SourceSpec
    from snellen.common.drafts import Draft, QuestionDraft
    from snellen.registry import register

    def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
        for number in range(6):
            rounds = tuple(
                QuestionDraft(
                    f"Round {turn} of {number}?",
                    ("one", "two", f"{number} and {turn}"),
                    ((number + turn) % 3,),
                )
                for turn in range(4)
            )
            yield Draft(id=str(number), rounds=rounds, dialogue=True)

    register("readers", "talks", read)
    spec = BenchmarkSpec(
        name="talks", title="talks", formulation="dialogue", source=SourceSpec("talks")
    )
    return build_benchmark(spec, to=Path("talks"))


@pytest.mark.parametrize(
    "name", ["eyechart/dialogue", "eyechart/caption", "eyechart/odd", "eyechart/exists"]
)
def test_an_embedded_benchmark_scores_from_a_published_layout_as_from_its_run(name: str) -> None:
    from snellen.runs.finding import find_benchmarks

    [use] = find_benchmarks([name])
    several = "" if use.benchmark.spec.formulation == "text" else "instability?m=3"
    own = sn.evaluate(wobbling(), name, several or "vanilla", name="own", limit=6)
    path = as_reform_eval(use.benchmark, Path("runs/own"))
    for asked in ("", name):
        again = sn.score(sn.import_run(path, asked), metrics="rouge_l")
        for metric in ("accuracy", "instability", "hit_rate") if several else ("rouge_l",):
            known = by_question(sn.score("runs/own", metrics="rouge_l"), metric)
            assert {
                key: value for key, value in by_question(again, metric).items() if key in known
            } == known
        assert own.runs[0].manifest.protocols == again.runs[0].manifest.protocols


# --- a published file ---------------------------------------------------------------------------------------------


def test_a_published_result_file_gives_the_numbers_in_its_published_log() -> None:
    """Indexes and predictions of FudanDISC/ReForm-Eval, test_output/SingleChoice (Apache-2.0), and its log.txt."""
    rows = [
        {
            "sample_id": name,
            "question": f"Which of {name}?",
            "answer": gold,
            "answer_options": [f"o{i}" for i in shown],
            "prediction": prediction,
        }
        for name, shown, gold, prediction in json.loads(TDIUC.read_text())
    ]
    results = sn.score(
        sn.import_run(save(rows, "TDIUC_SingleChoice_likelihood_imagebindLLM_imagebindLLM.json"))
    )
    assert values(results)["accuracy"] == pytest.approx(0.5818181818181818, abs=1e-12)
    assert values(results)["instability"] == pytest.approx(0.7122099355998233, abs=1e-12)
    results.report("r.html")
    assert "gives 25.0%" in Path("r.html").read_text()


# --- never another row's prediction -------------------------------------------------------------------------------


def record(name: object, prediction: object, **fields: Any) -> dict[str, Any]:
    return {
        "sample_id": name,
        "question": "What is it?",
        "answer": 0,
        "answer_options": ["cat", "dog"],
        "prediction": prediction,
        **fields,
    }


def test_rows_with_the_same_question_and_picture_keep_their_own_predictions() -> None:
    rows = [record(1, "(A)", image="one.png"), record(2, "(B)", image="one.png")]
    results = sn.score(sn.import_run(save(rows, "p.json")))
    assert by_question(results, "accuracy") == {("1", 0): 1.0, ("2", 0): 0.0}


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"image": "two.png"}, "show different images"),
        ({"answer": 1}, "have different right answers"),
        ({"question": "Is it big?"}, "ask different questions"),
    ],
)
def test_rows_of_one_id_that_are_not_one_question_are_refused_by_name(
    other: dict[str, Any], words: str
) -> None:
    rows = [
        record(7, "(A)", image="one.png"),
        record(7, "(B)", **{"image": "one.png", **other}),
        record(8, "(A)"),
        record(8, "(B)"),
    ]
    with pytest.raises(
        sn.DataError, match=rf"rows of one id {words}.*: 2 \(7, 7\); give each question an id"
    ):
        sn.import_run(save(rows, "p.json"))


def test_questions_that_share_their_text_are_told_apart_by_id_alone() -> None:
    rows = [
        {
            "id": name,
            "question": "What is it?",
            "options": ["cat", "dog"],
            "answer": gold,
            "image": small.cell(1),
        }
        for name, gold in (("a", 0), ("b", 1))
    ]
    sn.build(small.write(rows, Path("same.jsonl")), to="same")
    folder = sn.import_run(save([record("b", "(B)"), record("a", "(B)")], "p.json"), "./same")
    assert by_question(sn.score(folder), "accuracy") == {("a", 0): 0.0, ("b", 0): 1.0}
    # Left out, a row of either question would make it one without an answer.
    with pytest.raises(sn.DataError, match=r"1 of 3 rows fit several questions of same \(c, ...\)"):
        sn.import_run(
            save([record("b", "(B)"), record("a", "(B)"), record("c", "(A)")], "q.json"), "./same"
        )


def test_an_id_of_another_data_set_joins_nothing() -> None:
    animals()
    rows = [
        record(
            "q001", "(A)", question="How many legs?", answer_options=["cat", "dog", "horse", "cow"]
        ),
        record("q002", "(A)", question="Which animal is number 2?", answer_options=["red", "blue"]),
        record(
            "x",
            "(C)",
            question="which animal is number 5",
            answer_options=["cat", "dog", "horse", "cow"],
        ),
    ]
    with pytest.raises(
        sn.DataError, match=r"only 1 of 3 rows fit animals .*is that the benchmark that was asked"
    ):
        sn.import_run(save(rows, "few.json"), "./animals")
    rows += [
        record(
            f"y{i}",
            "(C)",
            question=f"Which animal is number {i}?",
            answer_options=["cat", "dog", "horse", "cow"],
        )
        for i in (6, 7)
    ]
    folder = sn.import_run(save(rows, "p.json"), "./animals")
    assert sorted(e.request.sample_id for e in read_exchanges(folder)) == ["q005", "q006", "q007"]
    for line in (
        "with the id of a question but the text of another: 1 (q001)",
        "with other options than their question has: 1 (q002)",
        "rows joined by the text of their question, as no id is theirs: 3 (x, y6, y7)",
        "rows whose file has another right answer; the benchmark's counts: 3 (x, y6, y7)",
        "questions of 12 without any row: 9 (q000, q001, q002, ...)",
    ):
        assert line in notes(folder)


def test_a_row_that_is_there_again_counts_once_and_one_that_says_something_else_is_refused() -> (
    None
):
    open_questions()
    said = [("t1", "shop 1"), ("t1", "shop 1"), ("t2", "shop 2"), ("t9", "x")]
    table = Path("p.tsv")

    def write(said: list[tuple[str, str]]) -> Path:
        table.write_text(
            "index\tprediction\n" + "".join(f"{name}\t{text}\n" for name, text in said)
        )
        return table

    folder = sn.import_run(write(said), "./texts")
    assert {e.request.sample_id for e in read_exchanges(folder)} == {"t1", "t2"}
    assert "rows that are there twice, counted once: 1 (t1)" in notes(folder)
    assert "with an id that is not among the questions: 1 (t9)" in notes(folder)
    assert (
        "rows joined by their id alone, as they have nothing to check it by: 3 (t1, t1, t2)"
        in notes(folder)
    )
    with pytest.raises(
        sn.DataError, match=r"say different things: t2 \(line 4: 'shop 2'\), t2 \(line 6: 'store'\)"
    ):
        sn.import_run(write([*said, ("t2", "store")]), "./texts", to="other")


def test_a_request_that_failed_and_was_asked_again_counts_as_it_was_answered() -> None:
    rows = [
        {"index": "1", "question": "Q?", "answer": "x", "prediction": said}
        for said in ["Failed to obtain answer via API.", "x"]
    ]
    folder = sn.import_run(save(rows, "m_D.json"))
    assert by_question(sn.score(folder), "exact_match") == {("1", 0): 1.0}
    assert "asked again, counted as it was answered: 1 (1)" in notes(folder)


def test_more_rows_than_others_have_are_dropped_only_where_they_are_copies() -> None:
    rows = [record(i, f"({'AB'[p % 2]})", instruct=f"w{p}") for i in range(25) for p in range(3)]
    folder = sn.import_run(save([*rows, rows[0]], "p.json"))
    assert "rows that are there twice, counted once: 1 (0)" in notes(folder)
    assert read_manifest(folder).protocols == ("instability?m=3",)
    with pytest.raises(sn.DataError, match="more rows of an id than others have, which differ: 1 "):
        sn.import_run(save([*rows, rows[0], record(1, "(B)", instruct="other")], "q.json"))


# --- which form, and what is wrong --------------------------------------------------------------------------------


def test_a_file_without_replies_is_refused_with_the_next_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    save([{"name": 1}], "strange.json")
    code, _, err = small.command(capsys, "score", "strange.json")
    assert (code, err.count("\n")) == (2, 1)
    assert "there are 'name'; name it: snellen score strange.json --column reply=NAME" in err
    code, _, err = small.command(capsys, "score", "strange.json", "--as", "lmms-eval")
    assert (code, "its first records have no doc_id and no filtered_resps" in err) == (2, True)
    code, _, err = small.command(capsys, "score", "strange.json", "--as", "lmms")
    assert (code, "lmms-eval" in err) == (2, True)


def test_a_file_is_scored_from_the_command_line_with_and_without_a_benchmark(
    capsys: pytest.CaptureFixture[str],
) -> None:
    animals()
    sn.evaluate(wobbling(), "./animals", "instability?m=5", name="own")
    path = as_reform_eval(Benchmark(Path("animals")), Path("runs/own"))
    for flags in ([], ["--benchmark", "./animals"], ["--as", "reform-eval", "--as-published"]):
        code, out, err = small.command(capsys, "score", str(path), *flags)
        assert (code, "read as a result file of ReForm-Eval" in err) == (0, True), err
        assert "instability" in out


@pytest.mark.parametrize(
    ("content", "name", "fault"),
    [
        (
            [record(1, 5)],
            "p.json",
            "by itself (rows left out, whose prediction is none of their options",
        ),
        (
            [record(1, "(A)", answer=9)],
            "p.json",
            "whose right answer is none of their options: 1 (1)",
        ),
        (
            [{"doc_id": 1, "filtered_resps": "x"}],
            "p.jsonl",
            "has replies without right answers; if a column has them",
        ),
        (
            [{"doc_id": 1, "filtered_resps": [["1.0", "False"], ["2.0", "True"]], "target": "1"}],
            "p.jsonl",
            "with likelihoods but without options",
        ),
        ({"eval": {}, "samples": [3]}, "p.json", "sample 1: not a sample, as it has no id"),
    ],
)
def test_a_fault_is_told_in_one_true_line(
    content: Any, name: str, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = small.command(capsys, "score", str(save(content, name)))
    assert (code, fault in err, err.count("\n")) == (2, True, 1), err


def test_an_unknown_id_is_told_in_words_that_fit_open_questions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    open_questions()
    rows = [
        {"sample_id": 500 + i, "question": f"Who is {i}?", "answer": "x", "prediction": "y"}
        for i in range(3)
    ]
    code, _, err = small.command(
        capsys, "score", str(save(rows, "p.json")), "--benchmark", "./texts"
    )
    assert code == 2
    assert (
        "no row fits texts (rows left out, with an id that is not among the questions: 3 (500, 501, 502))"
        in err
    )


def test_a_table_with_options_joined_to_open_questions_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    open_questions()
    Path("p.tsv").write_text("index\tA\tB\tprediction\nt1\tcat\tdog\tA\n")
    code, _, err = small.command(capsys, "score", "p.tsv", "--benchmark", "./texts")
    assert (code, "rows left out, with options, of an open question: 1 (t1)" in err) == (2, True), (
        err
    )


def test_a_failed_request_is_no_reply_and_not_right() -> None:
    said = ["x", "Failed to obtain answer via API. ", ""]
    rows = [
        {"index": str(i), "question": "Q?", "answer": "x", "prediction": text}
        for i, text in enumerate(said)
    ]
    results = sn.score(sn.import_run(save(rows, "m_D.json")))
    [row] = [row for row in results.rows if row.metric == "exact_match" and row.benchmark != "*"]
    assert (row.estimate.value, row.estimate.n, row.estimate.absent) == (1 / 3, 3, 2)
    assert "2 of 3 questions have no reply and are scored as wrong" in estimate_note(
        row.estimate, str
    )
    assert values(results)["exact_match_of_answered"] == 1.0


def test_a_log_packed_as_this_python_cannot_read_says_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = as_inspect_eval(animals(), evaluated())
    path.write_bytes(
        path.read_bytes().replace(
            b"PK\x01\x02\x14\x03\x14\x00\x00\x00\x00\x00",
            b"PK\x01\x02\x14\x03\x14\x00\x00\x00\x5d\x00",
        )
    )
    code, _, err = small.command(capsys, "score", str(path))
    assert (code, "inspect log convert --to json" in err) == (2, True), err


def evaluated() -> Path:
    sn.evaluate(wobbling(), "./animals", name="own")
    return Path("runs/own")


def test_presentations_that_a_run_did_not_come_to_are_not_right_and_leave_no_instability() -> None:
    rows = [record(i, "(A)", instruct=f"w{p}") for p in range(3) for i in range(10)][:-8]
    results = sn.score(sn.import_run(save(rows, "p.json")))
    assert sorted(by_question(results, "accuracy").values()) == [*[2 / 3] * 8, 1.0, 1.0]
    assert values(results)["accuracy_of_answered"] == 1.0
    assert sum(value is not None for value in by_question(results, "instability").values()) == 2


def test_the_place_of_an_option_that_the_file_does_not_have_is_no_reference(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [{"sample_id": 1, "question": "What is it?", "answer": "2", "prediction": "2"}]
    code, _, err = small.command(
        capsys, "score", str(save(rows, "VQA_Generation_generation_x_y.json"))
    )
    assert (code, "has replies without right answers" in err) == (2, True), err


def test_a_run_of_another_file_is_left_as_it_is() -> None:
    first = sn.import_run(save([record(1, "(A)")], "p.json"), to="here")
    before = sorted((path, path.read_bytes()) for path in first.rglob("*") if path.is_file())
    with pytest.raises(sn.StoreError, match="contains another run"):
        sn.import_run(save([record(2, "(A)")], "q.json"), to="here")
    assert (
        sorted((path, path.read_bytes()) for path in first.rglob("*") if path.is_file()) == before
    )


def test_choices_in_a_table_are_scored_by_the_tables_own_answers() -> None:
    from snellen.formats.text_table import write_text_table

    rows = [
        {
            "index": str(i),
            "question": f"Q{i}?",
            "A": "cat",
            "B": "dog",
            "answer": "A",
            "prediction": "AB"[i % 2],
        }
        for i in range(1, 5)
    ]
    for name in ("m.xlsx", "m.tsv", "m.json"):
        write_text_table(Path(name), tuple(rows[0]), rows)
        assert values(sn.score(sn.import_run(name)))["accuracy"] == 0.5
    write_text_table(Path("n.xlsx"), ("index", "question", "A", "B", "prediction"), rows)
    with pytest.raises(
        sn.DataError, match="has replies without right answers; if a column has them"
    ):
        sn.import_run("n.xlsx")


def test_options_that_are_not_the_same_in_all_rows_are_read_against_their_own() -> None:
    rows = [
        record(1, "(A)", answer_options=["cat", "dog"], answer=0),
        record(1, "(B)", answer_options=["owl", "cat"], answer=1),
        record(1, "owl", answer_options=["cat", "owl"], answer=0),
    ]
    results = sn.score(sn.import_run(save(rows, "p.json")), unparsed="legacy-random")
    [(_, accuracy)] = by_question(results, "accuracy").items()
    assert accuracy == 2 / 3


def test_a_question_put_in_several_wordings_is_one_where_the_wordings_recur() -> None:
    words = ("What is written?", "Which word is there?")
    rows = [
        {"sample_id": i, "question": text, "answer": f"w{i}", "prediction": f"w{i}"}
        for i in range(3)
        for text in words
    ]
    results = sn.score(sn.import_run(save(rows, "p.json")))
    assert values(results)["exact_match"] == 1.0
    sample: Sample = next(iter(results.runs[0].benchmarks[0].samples.values()))
    assert (sample.question, sample.rewordings) == (words[0], words[1:])


def test_log_likelihoods_of_lm_eval_are_not_losses() -> None:
    options = ["cat", "dog", "owl"]
    rows = [
        {
            "doc_id": number,
            "doc": {"question": f"What is on picture {number}?", "choices": options},
            "target": str(number % 3),
            "filtered_resps": [
                ["-0.5" if place == number % 3 else "-4.0", "False"] for place in range(3)
            ],
        }
        for number in range(6)
    ]
    results = sn.score(sn.import_run(save(rows, "samples_zoo.jsonl")))
    assert values(results)["accuracy"] == 1.0


def test_the_column_of_answers_to_open_questions_may_be_named() -> None:
    rows = [
        {"id": n, "question": f"What is {n}?", "said by hand": f"w {n}", "prediction": f"w {n}"}
        for n in range(4)
    ]
    folder = sn.import_run(save(rows, "p.jsonl"), columns={"answer": "said by hand"})
    assert values(sn.score(folder))["exact_match"] == 1.0


def test_a_sample_of_inspect_that_failed_says_why() -> None:
    samples = [
        {"id": n, "epoch": 1, "input": f"What is {n}?", "target": "x", "output": {"choices": []}}
        for n in range(2)
    ]
    samples[0]["output"] = {"choices": [{"message": {"role": "assistant", "content": "x"}}]}
    samples[1]["error"] = {"message": "the model was not there"}
    folder = sn.import_run(save({"eval": {"task": "zoo"}, "samples": samples}, "log.json"))
    assert values(sn.score(folder))["exact_match"] == 0.5
    [failed] = [e for e in read_exchanges(folder) if e.response.error is not None]
    assert failed.response.error is not None
    assert failed.response.error.detail == "the model was not there"
