"""Columns of predictions that are told by what their cells say, whatever they are called, and what is said of files."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import snellen as sn
from snellen.callers import called_from_command_line
from snellen.errors import DataError
from snellen.formats.containers import records_in
from snellen.interchange.predictions.own_summary import outer_object, printed_accuracy
from snellen.interchange.predictions.scoring_call import given, scoring_call
from snellen.interchange.predictions.taking import FileReading, import_runs, taken_files
from snellen.recognition.columns import split_name
from snellen.recognition.said_in_cells import how_often_said, in_whole_words
from snellen.runs.run_folder import read_manifest

N = 40
THINGS = ("a red car", "two dogs", "a kitchen", "a bus stop", "the moon")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def table(name: str, rows: Sequence[dict[str, Any]]) -> str:
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return name


def thing(n: int) -> str:
    return THINGS[n % 5]


def said(n: int) -> str:
    """The right thing, and in each fourth row that of the next row: 30 of 40 are right."""
    return thing(n) if n % 4 else thing(n + 1)


# --- names in any language -------------------------------------------------------------------------------------------


def test_numbers_of_options_are_read_in_sentences_of_any_language() -> None:
    rows = [
        {
            "문항": f"그림 {n}에서 옳은 것은?",
            **{f"보기{place}": f"{animal}{place}" for place, animal in enumerate("개소말닭", 1)},
            "정답": n % 4 + 1,
            "모델출력": f"정답은 {n % 4 + 1 if n % 8 else 4}번입니다.",  # wrong where n is 0, 8, 16, 24, 32
        }
        for n in range(N)
    ]
    assert sn.score(table("items.csv", rows)).value() == 35 / 40


def test_short_answers_of_scripts_without_blanks_are_met_by_sentences() -> None:
    things = ("犬", "猫", "車", "木")
    rows = [
        {
            "質問": f"{n}には何がありますか？",
            "正解": things[n % 4],
            "回答文": f"これは{things[n % 4]}です。",
        }
        for n in range(N)
    ]
    rows[0]["回答文"] = rows[1]["回答文"]
    rows[2]["回答文"] = rows[1]["回答文"]
    assert sn.score(table("items.csv", rows)).value() == pytest.approx(38 / 40)


@pytest.mark.parametrize(
    ("question", "answer", "reply", "before"),
    [
        ("pregunta", "respuesta_correcta", "respuesta_modelo", "Es "),
        ("pregunta", "respuesta_esperada", "respuesta_generada", ""),
        ("pergunta", "gabarito", "saida_do_modelo", "Resposta: "),
        ("soru", "beklenen", "tahmin", ""),
        ("question", "vérité", "prédiction", ""),
        ("câu hỏi", "nhãn", "dự đoán", ""),
        ("问题描述", "真实标签", "模型预测结果", ""),
        ("question", "answer", "content", "It shows "),
        ("질문", "정답", "모델출력", "그것은 "),
    ],
)
def test_replies_are_told_by_the_right_answers_that_they_say(
    question: str, answer: str, reply: str, before: str
) -> None:
    rows = [
        {"nr": n, question: f"What is in {n}?", answer: thing(n), reply: f"{before}{said(n)}"}
        for n in range(N)
    ]
    assert sn.score(table("said.csv", rows)).value() == 0.75


def test_an_explanation_of_the_right_answer_is_no_reply() -> None:
    rows = [
        {"question": f"What is in {n}?", "answer": thing(n), "erklärung": f"Man sieht {thing(n)}."}
        for n in range(N)
    ]
    with pytest.raises(DataError, match="its answers may be replies or right answers"):
        taken_files(Path(table("explained.csv", rows)), FileReading())


def test_facts_that_go_together_are_no_replies_and_right_answers() -> None:
    # Each row's maker stands in its title, and a title never has the maker of another row.
    rows = [
        {
            "question": f"What is {n}?",
            "maker": f"maker{n}",
            "title": f"a car by maker{n if n % 4 else 'none'}",
        }
        for n in range(N)
    ]
    with pytest.raises(DataError, match="no column is recognised as the replies"):
        taken_files(Path(table("facts.csv", rows)), FileReading())


def test_columns_called_after_two_models_that_no_one_knows_are_two_runs() -> None:
    rows = [
        {
            "question": f"What is in {n}?",
            "answer": thing(n),
            "base_model": f"I see {thing(n) if n % 2 else thing(n + 1)} there",
            "finetuned_model": said(n),
        }
        for n in range(N)
    ]
    runs = import_runs([Path(table("two.csv", rows))], FileReading())
    assert [sn.score(run).value() for run in runs] == [0.5, 0.75]


def test_how_often_words_are_said() -> None:
    texts = [in_whole_words(text) for text in ("two dogs", "a cat", "I see a cat", "none")]
    words = [[in_whole_words(text)] for text in ("two dogs", "a cat", "two dogs", "a cat")]
    found = how_often_said(texts, words, [""] * 4)
    # Of the four texts the first two have the words of their rows, and three have those of any row.
    assert (found.share, found.share_in_words, found.share_having) == (0.5, 0.5, 0.75)
    assert how_often_said(texts, words, [in_whole_words("two dogs or a cat?")] * 4).share == 0


def test_accents_do_not_split_the_words_of_a_name() -> None:
    assert split_name("prédiction_du_modèle") == {"prédiction", "du", "modèle"}
    assert split_name("eval.isCorrectÉtat") == {"is", "correctétat"}


# --- several results in a file ---------------------------------------------------------------------------------------


def test_parts_that_ask_the_same_questions_are_runs_each_also_without_questions() -> None:
    parts = {
        "run1": [{"id": n, "answer": thing(n), "prediction": said(n)} for n in range(N)],
        "run2": [{"id": n, "answer": thing(n), "prediction": thing(n)} for n in range(N)],
    }
    Path("runs.json").write_text(json.dumps(parts))
    runs = import_runs([Path("runs.json")], FileReading())
    assert [sn.score(run).value() for run in runs] == [0.75, 1.0]
    assert any("'run1', 'run2'" in note for note in read_manifest(runs[0]).notes)


def test_a_column_whose_values_ask_the_same_questions_tells_runs_apart() -> None:
    rows = [
        {
            "seed": seed,
            "id": n,
            "question": f"What is in {n}?",
            "answer": thing(n),
            "prediction": said(n) if seed == 1 else thing(n),
        }
        for seed in (1, 2)
        for n in range(N)
    ]
    runs = import_runs([Path(table("seeds.csv", rows))], FileReading())
    assert [sn.score(run).value() for run in runs] == [0.75, 1.0]
    with_models = [{"model": model, **row} for model in ("a", "b") for row in rows]
    assert len(import_runs([Path(table("both.csv", with_models))], FileReading())) == 4


def test_each_question_twice_without_anything_that_tells_rows_apart_is_said() -> None:
    rows = [
        {"question": f"What is in {n}?", "answer": thing(n), "prediction": reply}
        for n in range(N)
        for reply in (thing(n), thing(n + 1))
    ]
    [taken] = taken_files(Path(table("twice.csv", rows)), FileReading())
    assert any("each of 40 questions is in the file 2 times" in note for note in taken.file.notes)
    [taken] = taken_files(Path(table("once.csv", rows[::2])), FileReading())
    assert not any("is in the file" in note for note in taken.file.notes)


# --- what scores say -------------------------------------------------------------------------------------------------


def test_how_sure_a_model_is_is_no_verdict() -> None:
    rows = [
        {
            "question": f"What is in {n}?",
            "answer": thing(n),
            "prediction": said(n),
            "score": 0.5 + n / 100,
        }
        for n in range(N)
    ]
    [taken] = taken_files(Path(table("sure.csv", rows)), FileReading())
    assert {row.verdict for row in taken.file.rows} == {None}
    # Of the similarity of texts, equal ones have 1.
    similar = [
        {**row, "score": 1.0 if row["prediction"] == row["answer"] else 0.1 + n / 100}
        for n, row in enumerate(rows)
    ]
    of_texts = [
        {
            **row,
            "prediction": f"{row['prediction']} {n % 3 * 'indeed'}".strip(),
            "score": 0.7 if n % 3 else row["score"],
        }
        for n, row in enumerate(similar)
    ]
    [taken] = taken_files(Path(table("similar.csv", of_texts)), FileReading())
    assert None not in {row.verdict for row in taken.file.rows}


def test_the_number_of_grades_without_replies_is_their_mean() -> None:
    grades = (0.0, 0.5, 1.0, 0.1)
    # As MM-Vet's evaluator writes them; the mean of the four is 0.4.
    content = {
        f"v1_{n}": {"model": ["gpt-4"], "content": [str(grades[n % 4])], "score": [grades[n % 4]]}
        for n in range(N)
    }
    Path("grade.json").write_text(json.dumps(content))
    assert sn.score("grade.json").value("recorded_verdict") == pytest.approx(0.4)


def test_the_accuracy_that_a_file_prints_is_compared() -> None:
    results = [
        {"question": f"What is in {n}?", "answer": thing(n), "prediction": said(n)}
        for n in range(N)
    ]

    def notes(printed: dict[str, Any]) -> list[str]:
        Path("printed.json").write_text(json.dumps({**printed, "results": results}))
        [taken] = taken_files(Path("printed.json"), FileReading())
        return [note for note in taken.file.notes if "the file prints" in note]

    [note] = notes({"accuracy": 0.5})
    assert "prints 50.0% in 'accuracy', and as its replies are read here 75.0% are right" in note
    assert notes({"summary": {"accuracy": 55.0, "total": N}})
    assert not notes({"accuracy": 0.75})
    assert not notes({"summary": {"acc": 75.0}})
    assert not notes({"by_type": {"a": {"accuracy": 0.5}, "b": {"accuracy": 1.0}}})  # of parts
    Path("list.json").write_text("[1]")
    assert printed_accuracy(outer_object(Path("list.json"))) is None


# --- containers and commands -----------------------------------------------------------------------------------------


def test_a_few_records_under_their_ids_are_records() -> None:
    content = {
        "101": {"question": "What?", "answer": "a dog", "response": "a dog"},
        "102": {"question": "Who?", "answer": "a cat", "response": "a cow"},
    }
    assert records_in(content) == [{"id": key, **value} for key, value in content.items()]
    # Two maps by id stay such.
    maps = {"results": {"7": 1, "8": 0, "9": 1}, "outputs": {"7": "B", "8": "C", "9": "D"}}
    assert records_in(maps)[0] == {"id": "7", "results": 1, "outputs": "B"}  # type: ignore[index]


def test_suggested_commands_keep_what_the_user_said() -> None:
    said_of_file = given(
        columns={"reply": ("x",)}, answer_is="letter", model="mine", to=Path("there")
    )
    with called_from_command_line(), given(flags=("--metric", "anls")), said_of_file:
        command = scoring_call(Path("a.csv"), columns={"answer": "NAME"})
    assert command == (
        "snellen score a.csv --column reply=x --column answer=NAME --answer-is letter --to there --model mine "
        "--metric anls"
    )
    with pytest.raises(DataError, match=r"columns=\{'answer': 'NAME'\}, model='mine'"):
        rows = [{"question": "What?", "prediction": "a dog"}]
        import_runs([Path(table("no_gold.csv", rows))], FileReading(), model="mine")


# --- replies that reason, and files of harnesses ----------------------------------------------------------------------


def test_replies_that_frame_their_answer_are_cut_to_it() -> None:
    # Ten references make VQA accuracy, which compares whole texts.
    rows = [
        {
            "question": f"What is in {n}?",
            "answer": [thing(n)] * 10,
            "prediction": f"<SUMMARY> I look. </SUMMARY> <CONCLUSION> {said(n)} </CONCLUSION>",
        }
        for n in range(N)
    ]
    Path("framed.json").write_text(json.dumps(rows))
    assert sn.score("framed.json").value() == 0.75
    [taken] = taken_files(Path("framed.json"), FileReading())
    assert any("what they frame as the answer" in note for note in taken.file.notes)
    # One framed reply among others is no rule.
    for row in rows[1:]:
        row["prediction"] = "I see a red car"
    Path("one.json").write_text(json.dumps(rows))
    [taken] = taken_files(Path("one.json"), FileReading())
    assert "<CONCLUSION>" in (taken.file.rows[0].reply or "")


def sample(n: int, **fields: Any) -> dict[str, Any]:
    """A line of lmms-eval's samples, with the names of the settings of decoding by their numbers."""
    return {
        "doc_id": n,
        "doc": {"question": f"What is in {n}?", "answer": thing(n)},
        "target": thing(n),
        "arguments": {"0": "max_new_tokens", "1": "temperature", "2": "do_sample"},
        "resps": [[said(n)]],
        "filtered_resps": [said(n)],
        "doc_hash": "ab",
        "input": f"What is in {n}?",
        **fields,
    }


def written(name: str, rows: Sequence[dict[str, Any]]) -> Path:
    Path(name).write_text("\n".join(map(json.dumps, rows)))
    return Path(name)


def test_numbered_settings_are_no_options() -> None:
    path = written("20260101_samples_things.jsonl", [sample(n) for n in range(N)])
    assert sn.score(import_runs([path], FileReading())[0]).value() == 0.75


def test_the_score_of_a_task_is_the_verdict_on_its_samples() -> None:
    rows = [sample(n, things_score=float(n % 2), things_of_half=0.5) for n in range(N)]
    for row in rows[: N // 2]:
        row.pop("things_of_half")
    [taken] = taken_files(written("20260101_samples_things.jsonl", rows), FileReading())
    assert [row.verdict for row in taken.file.rows[:4]] == [0.0, 1.0, 0.0, 1.0]
    in_objects = [sample(n, judge={"score": 1.0, "why": "fine"}) for n in range(N)]
    [taken] = taken_files(written("20260102_samples_things.jsonl", in_objects), FileReading())
    assert {row.verdict for row in taken.file.rows} == {1.0}
    of_two = [sample(n, one=1.0, two=0.0) for n in range(N)]
    [taken] = taken_files(written("20260103_samples_things.jsonl", of_two), FileReading())
    assert {row.verdict for row in taken.file.rows} == {None}


def test_counts_of_tokens_are_no_right_answers() -> None:
    rows = [
        {"index": n, "model_output": {"response": said(n), "usage": {"output_tokens": 10 + n}}}
        for n in range(N)
    ]
    with pytest.raises(DataError, match="replies without right answers"):
        import_runs([written("tokens.jsonl", rows)], FileReading())


def test_reasons_that_are_all_right_are_noted() -> None:
    reasons = " ".join(["because it looks so"] * 6)
    rows = [
        {"question": f"What is in {n}?", "answer": thing(n), "response": f"{reasons}: {thing(n)}"}
        for n in range(60)
    ]
    [taken] = taken_files(written("all.jsonl", rows), FileReading())
    assert any("texts to learn from" in note for note in taken.file.notes)
    rows[0]["response"] = f"{reasons}: no idea"
    [taken] = taken_files(written("not_all.jsonl", rows), FileReading())
    assert not any("texts to learn from" in note for note in taken.file.notes)


def test_conditions_of_true_and_false_have_their_column_in_the_name() -> None:
    rows = [
        {
            "zoomed": zoomed,
            "question": f"What is in {n}?",
            "answer": thing(n),
            "prediction": thing(n),
        }
        for zoomed in ("True", "False")
        for n in range(N)
    ]
    files = taken_files(Path(table("zoomed.csv", rows)), FileReading())
    assert [taken.file.model for taken in files] == ["zoomed True", "zoomed False"]


def test_a_fact_on_each_image_is_no_right_answer_to_its_questions() -> None:
    questions = (
        "Is this a sagittal view?",
        "Which plane is visible?",
        "Is it taken from the front?",
    )
    rows = [
        {
            "image": f"{n}.png",
            "question": question,
            "ground_truth": f"finding number {n}",
            "response": f"It may be the axial plane of image {n}.",
        }
        for n in range(N)
        for question in questions
    ]
    with pytest.raises(DataError, match="the same right answer to different questions"):
        taken_files(Path(table("facts.csv", rows)), FileReading())
    # Who names the column is believed.
    named = FileReading(columns={"answer": ("ground_truth",)})
    assert len(taken_files(Path("facts.csv"), named)[0].file.rows) == len(rows)
    # One that replies meet is an answer.
    met = [{**row, "response": row["ground_truth"]} for row in rows]
    taken_files(Path(table("met.csv", met)), FileReading())


def test_a_vocabulary_with_samples_among_its_words_is_no_log() -> None:
    Path("vocab.json").write_text(json.dumps({"eval": 1, "samples": 2, "a": 3, "b": 4}))
    with pytest.raises(DataError, match="without right answers"):
        import_runs([Path("vocab.json")], FileReading())


def test_what_a_model_extracted_from_replies_is_read_as_vlmevalkit_does() -> None:
    rows = [
        {
            "index": n,
            "question": f"How many are in {n}?",
            "answer": n % 7,
            "prediction": f"I count {n % 7} of them, or perhaps {n % 7 + 1}",
            "res": n % 7 if n % 4 else 9,
            "log": "Succeed",
        }
        for n in range(N)
    ]
    path = Path(table("model_gpt.csv", rows))
    assert sn.score(path).value() == 0.75
    [taken] = taken_files(path, FileReading(columns={"reply": ("prediction",)}))
    assert (taken.file.rows[0].reply or "").startswith("I count")
    without_log = [{name: row[name] for name in row if name != "log"} for row in rows]
    [taken] = taken_files(Path(table("other.csv", without_log)), FileReading())
    assert (taken.file.rows[0].reply or "").startswith("I count")


def test_annotations_beside_answers_are_the_right_ones() -> None:
    # As the scripts of Qwen-VL and InternVL write them.
    rows = [
        {
            "question_id": n,
            "question": f"What is in {n}?",
            "answer": f"It is {said(n)}.",
            "annotation": thing(n),
        }
        for n in range(N)
    ]
    path = Path("vqa.json")
    path.write_text(json.dumps(rows))
    [taken] = taken_files(path, FileReading())
    assert (taken.file.rows[0].reply or "").startswith("It is")
    assert sn.score(path).value() == 0.75
    several = [{**row, "annotation": [row["annotation"]] * 10} for row in rows]
    path.write_text(json.dumps(several))
    assert taken_files(path, FileReading())[0].file.metrics[0] == "vqa_accuracy"


def test_records_under_ids_of_several_models_and_beside_facts() -> None:
    records = {
        str(n): {"question": f"What is in {n}?", "answer": thing(n), "prediction": said(n)}
        for n in range(N)
    }
    right = {key: {**record, "prediction": record["answer"]} for key, record in records.items()}
    Path("models.json").write_text(json.dumps({"llava": records, "qwen": right}))
    runs = import_runs([Path("models.json")], FileReading())
    assert [sn.score(run).value() for run in runs] == [0.75, 1.0]
    # As OpenCompass writes the details of a result.
    details = {"accuracy": 75.0, "details": {"type": "GEN", **records}}
    Path("details.json").write_text(json.dumps(details))
    assert sn.score("details.json").value() == 0.75


def test_points_are_one_reply_each_also_where_many_are_missing() -> None:
    # As ScreenSpot-Pro's script writes them; a third has no point, and of the others each second one is in its box.
    rows = [
        {
            "img_path": f"{n}.png",
            "prompt": f"Close window {n}",
            "bbox": [10, 10, 50, 40],
            "pred": None if n % 3 == 0 else [20.5, 30.25] if n % 2 else [200.5, 300.25],
        }
        for n in range(60)
    ]
    Path("points.json").write_text(json.dumps(rows))
    [taken] = taken_files(Path("points.json"), FileReading())
    assert len(taken.file.rows) == 60 and taken.file.metrics[0] == "points"
    assert sn.score("points.json").value() == pytest.approx(20 / 60)


def test_a_column_that_is_marked_as_right_and_met_far_more_often_has_the_right_answers() -> None:
    # The value stands in each tenth reply, and the verdict in three of four.
    rows = [
        {
            "image": f"{n}.jpg",
            "ground_truth_value": n + 100,
            "expected_verdict": ("SAFE", "UNSAFE")[n % 2],
            "model_response": f"Q1: {n + 100 if n % 10 == 0 else 7} bar. Q2: {('SAFE', 'UNSAFE')[n % 2 if n % 4 else 1]}.",
        }
        for n in range(N)
    ]
    assert sn.score(table("gauges.csv", rows)).value() == 0.75


def test_models_of_which_one_lacks_some_ids_are_kept_apart() -> None:
    records = {
        str(n): {"question": f"What is in {n}?", "answer": thing(n), "prediction": said(n)}
        for n in range(N)
    }
    fewer = {
        key: {**record, "prediction": record["answer"]}
        for key, record in records.items()
        if int(key) < N - 4
    }
    Path("models.json").write_text(json.dumps({"llava": records, "qwen": fewer}))
    runs = import_runs([Path("models.json")], FileReading())
    # Of 40 questions, 36 have a reply, and each is right.
    assert [sn.score(run).value() for run in runs] == [0.75, 0.9]


def test_facts_with_some_questions_in_common_are_no_runs() -> None:
    asked = {"kitchen": "dog cat sink lamp", "bath": "dog cat sink", "hall": "dog lamp"}
    rows = [
        {"room": room, "question": f"Is there a {name}?", "answer": "yes", "response": "yes"}
        for room, names in asked.items()
        for name in names.split()
    ]
    [taken] = taken_files(Path(table("rooms.csv", rows)), FileReading())
    assert len(taken.file.rows) == 9
    # Of runs, rows may be missing.
    runs = [{"run": place, **row} for place in (1, 2) for row in rows[:4]]
    del runs[-1]["room"]
    assert len(taken_files(Path(table("runs.csv", runs[:-1])), FileReading())) == 2


def test_wrong_replies_to_paraphrases_are_scored() -> None:
    rows = [
        {
            "image": f"{n}.png",
            "question": question,
            "answer": thing(n),
            "response": f"I see {thing(n + 2)}.",
        }
        for n in range(N)
        for question in ("What is in the image?", "Name what you see.")
    ]
    assert sn.score(table("paraphrases.csv", rows)).value() == 0


def test_a_resolution_beside_the_path_of_a_log_is_no_extracted_answer() -> None:
    rows = [
        {
            "question": f"What is in {n}?",
            "answer": thing(n),
            "prediction": said(n),
            "res": 448,
            "log": f"logs/{n}.txt",
        }
        for n in range(N)
    ]
    assert sn.score(table("resolutions.csv", rows)).value() == 0.75


def test_numbers_in_sentences_that_options_say_count_no_options() -> None:
    rows = [
        {
            "question": f"How many are in {n}?",
            "options": json.dumps(["two", "three", "four", "five"]),
            "answer": n % 4,
            "response": f"The answer is {2 + n % 4}.",
        }
        for n in range(N)
    ]
    assert sn.score(table("counts.csv", rows)).value() == 1


def test_a_number_in_a_sentence_beside_replies_that_are_numbers_names_no_option() -> None:
    rows = [
        {
            "question": f"Which colour is car {n}?",
            "options": json.dumps(["red", "green", "blue", "black"]),
            "answer": n % 4,
            "response": n % 4 if n < N - 2 else "There are 2 people, I cannot tell.",
        }
        for n in range(N)
    ]
    # Right but for the last two; of the last but one, option 2 is the right one.
    assert sn.score(table("colours.csv", rows)).value() == (N - 2) / N


@pytest.mark.parametrize(
    "name", ["spiegazione", "пояснение", "açıklama", "raciocínio", "理由", "Begründung"]
)
def test_reasons_in_more_languages_are_no_replies(name: str) -> None:
    rows = [
        {
            "Frage": f"Was ist auf Bild {n}?",
            "Antwort": thing(n),
            "Begriff_Modell": said(n),
            name: f"{n}: {thing(n)}",
        }
        for n in range(N)
    ]
    assert sn.score(table("reasons.csv", rows)).value() == 0.75


@pytest.mark.parametrize(
    ("right", "attack"),
    [
        ("label", "target_class"),
        ("true_label", "target_label"),
        ("answer", "expected_wrong_answer"),
    ],
)
def test_a_word_that_misleads_a_model_is_no_right_answer(right: str, attack: str) -> None:
    rows = [
        {
            "question": f"What is in {n}?",
            right: thing(n),
            attack: thing(n + 2),
            "response": f"It is {thing(n if n % 10 == 0 else n + 2)}.",
        }
        for n in range(N)
    ]
    assert sn.score(table("attacks.csv", rows)).value() == 0.1


@pytest.mark.parametrize(
    ("metric", "noted"), [("relaxed_overall", ["'relaxed_overall': 75.0%"]), ("wer", [])]
)
def test_an_error_rate_of_a_task_is_no_verdict_and_others_keep_their_name(
    metric: str, noted: list[str]
) -> None:
    lines = [
        {
            "doc_id": n,
            "doc": {"question": f"What is in {n}?"},
            "target": thing(n),
            "filtered_resps": [said(n)],
            metric: float(bool(n % 4)),
        }
        for n in range(N)
    ]
    path = Path("1_samples_task.jsonl")
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    [taken] = taken_files(path, FileReading())
    verdicts = [note for note in taken.file.notes if "own verdicts, in" in note]
    assert len(verdicts) == len(noted)
    assert all(part in note for part, note in zip(noted, verdicts, strict=True))


@pytest.mark.parametrize("missing", [0, 1])
def test_lists_of_the_same_length_are_compared_as_sets(missing: int) -> None:
    rows = [
        {
            "question": f"Which two are in {n}?",
            "answer": [thing(n), thing(n + 1)],
            "prediction": [thing(n + 1), thing(n) if n % 4 else "a sofa"],
        }
        for n in range(N)
    ]
    for row in rows[::5] if missing else []:
        row["prediction"] = None
    Path("lists.json").write_text(json.dumps(rows))
    # Each fourth row is wrong, and each fifth has no reply: 24 of 40 are right then.
    assert sn.score("lists.json").value() == (24 / 40 if missing else 30 / 40)


def test_counts_with_words_among_them_are_a_choice() -> None:
    labels = ("1", "2", "more than 2", "none")
    rows = [
        {
            "question": f"How many are in {n}?",
            "answer": labels[n % 4],
            "response": f"{labels[n % 4 if n % 5 else (n + 1) % 4]}.".capitalize(),
        }
        for n in range(N)
    ]
    assert sn.score(table("counts.csv", rows)).value() == 0.8


def test_few_answers_of_several_kinds_are_no_choice() -> None:
    answers = ("red", "yes", "dark red", "no")
    replies = ("It is red", "Yes, it is red", "It is dark red", "No")
    rows = [
        {
            "question": (f"What colour is {n}?", f"Is {n} big?")[n % 2],
            "answer": answers[n % 4],
            "response": replies[n % 4 if n % 8 else 3],
        }
        for n in range(N)
    ]
    # Each eighth reply says no where the answer is red.
    assert sn.score(table("mixed.csv", rows)).value() == 7 / 8


# --- words in names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noun", ["answer", "output", "class", "response", ""])
@pytest.mark.parametrize(
    ("right", "replied"),
    [
        ("expected", "actual"),
        ("actual", "predicted"),
        ("actual", "output"),
        ("gold", "actual"),
        ("target", "generated"),
        ("true", "pred"),
        ("reference", "candidate"),
        ("correct", "model"),
        ("ideal", "llm"),
        ("truth", "system"),
    ],
)
def test_one_word_beside_a_noun_says_which_column_is_right(
    right: str, replied: str, noun: str
) -> None:
    if not noun and {right, replied} & {"correct", "model", "llm", "system"}:
        return  # without a noun, these are verdicts and names of models
    names = [f"{word}_{noun}".strip("_") for word in (replied, right)]
    if len(set(names)) < 2 or names[0] == "output_output":
        return
    rows = [
        {"question": f"What is in {n}?", names[0]: f"I see {said(n)}", names[1]: thing(n)}
        for n in range(N)
    ]
    assert sn.score(table("words.csv", rows)).value() == 0.75
    swapped = [{name: row[name] for name in reversed(row)} for row in rows]
    assert sn.score(table("swapped.csv", swapped)).value() == 0.75


def test_each_object_of_a_model_has_its_reply() -> None:
    def of_model(label: str) -> dict[str, Any]:
        return {"scores": {"cat": 0.5, "dog": 0.5}, "predicted_label": label}

    rows = [
        {
            "image": f"{n}.png",
            "true_label": thing(n),
            "models": {"clip-a": of_model(thing(n)), "my_net": of_model(said(n))},
        }
        for n in range(N)
    ]
    path = Path("models.json")
    path.write_text(json.dumps(rows))
    one, two = taken_files(path, FileReading())
    assert (one.file.model, two.file.model) == ("clip-a", "my_net")
    assert [sn.score(run).value() for run in import_runs([path], FileReading())] == [1, 0.75]


def test_names_of_other_things_are_neither_questions_nor_right_answers() -> None:
    rows = [
        {
            "prompt_text": f"What is in {n}?",
            "answer_text": f"It seems to me that there is {said(n)} in this picture, as far as I can see it.",
            "agent_response": "a long log",
            "tool": {"function": {"name": ("zoom", "crop")[n % 2]}},
            "annotation": thing(n),
        }
        for n in range(N)
    ]
    Path("log.json").write_text(json.dumps(rows))
    [taken] = taken_files(Path("log.json"), FileReading(columns={"reply": ("answer_text",)}))
    assert sorted(taken.file.rows[0].options) == sorted(THINGS)  # as all annotations are
    assert "What is in 0?" in (taken.file.rows[0].question, taken.file.rows[0].prompt)
    copied = [
        {"raw_response": row["answer_text"], **row, "annotation": None, "tool": None}
        for row in rows
    ]
    Path("copied.json").write_text(json.dumps(copied))
    with pytest.raises(DataError, match=r"replies without right answers \('answer_text' is what"):
        taken_files(Path("copied.json"), FileReading())


def test_an_answer_that_replies_repeat_is_not_right_beside_a_right_one() -> None:
    rows = [
        {
            "question": f"What is in {n}?",
            "gold_answer": thing(n),
            "answer": said(n),
            "full_response": json.dumps({"reasoning": "I looked.", "answer": said(n)}),
        }
        for n in range(N)
    ]
    Path("read.json").write_text(json.dumps({str(n): row for n, row in enumerate(rows)}))
    assert sn.score("read.json").value() == 0.75


# --- lists and objects -----------------------------------------------------------------------------------------------


def test_lists_without_repetitions_rank_answers_and_others_are_samples() -> None:
    ranked = [
        {"image": f"{n}.png", "label": thing(n), "pred": [said(n), f"thing {n}", "a cat"][: n % 4]}
        for n in range(N)
    ]
    # 30 of 40 say the right thing first; 10 lists are empty, as n % 4 is 0 where the reply is wrong.
    Path("ranked.json").write_text(json.dumps(ranked))
    [taken] = taken_files(Path("ranked.json"), FileReading())
    assert [row.reply for row in taken.file.rows if row.reply][:2] == [said(1), said(2)]
    assert sn.score("ranked.json").value() == 0.75
    samples = [{**row, "pred": [said(n), said(n), "a cat"]} for n, row in enumerate(ranked)]
    Path("samples.json").write_text(json.dumps(samples))
    [taken] = taken_files(Path("samples.json"), FileReading())
    assert len(taken.file.rows) == 3 * N


@pytest.mark.parametrize("values", [(0, 1), ("B-PER", "O", "I-PER")])
def test_long_lists_in_which_values_recur_answer_a_question_for_each_item(
    values: tuple[int | str, ...],
) -> None:
    rows = []
    for run in range(3):
        golds = [values[n % len(values)] for n in range(60)]
        replies = [golds[n] if n % 4 else values[-1] for n in range(60)]
        rows.append({"run_name": f"r{run}", "labels": golds, "predictions": replies})
    equal = sum(gold == reply for gold, reply in zip(golds, replies, strict=True))
    Path("lists.json").write_text(json.dumps(rows))
    assert sn.score("lists.json").value() == pytest.approx(equal / 60)
    boxes = [
        {"question": "Where?", "answer": [n, 2, 3, 4], "prediction": [n, 2, 3, 4]} for n in range(N)
    ]
    Path("boxes.json").write_text(json.dumps(boxes))
    assert len(taken_files(Path("boxes.json"), FileReading())[0].file.rows) == N


@pytest.mark.parametrize("spell", [repr, json.dumps])
def test_objects_in_texts_are_compared_field_by_field_in_any_order(
    spell: Callable[[Any], str],
) -> None:
    rows = []
    for n in range(N):
        right = {
            "heading": f"{n:03}",
            "target": f"grey, black and green fighter plane {n % 3}",
            "tool": "surface-to-air missiles",
        }
        replied = {
            "tool": "surface - to - air missiles" if n % 4 else "a net",
            "target": right["target"],
            "heading": right["heading"],
        }
        rows.append({"key": n, "truth": spell(right), "prediction": spell(replied)})
    # Two fields of three are always right, and the tool in three rows of four.
    assert sn.score(table("objects.csv", rows)).value() == pytest.approx((1 + 1 + 0.75) / 3)


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_a_single_record_under_its_id_is_a_question(suffix: str) -> None:
    record = {"question": "What is it?", "answer": "a cat", "prediction": "a cat"}
    Path(f"one.{suffix}").write_text(json.dumps({"q1": record}))
    assert sn.score(f"one.{suffix}").value() == 1
    summary = {"model": "m", "split": "test", "accuracy": 1.0}
    Path("summary.json").write_text(json.dumps({"run": summary}))
    with pytest.raises(DataError):
        sn.score("summary.json")


def test_rates_of_errors_say_what_a_mean_hides() -> None:
    def line(n: int) -> dict[str, Any]:
        # Right texts of 2 and 22 characters; the reply to a short one has 21 more than the text.
        right = "no" if n % 4 == 0 else f"the lively song of n {n % 10}"
        return {"id": n, "gt_text": right, "ocr_text": right + "!" * 21 * (n % 4 == 0), "cer": 0.5}

    path = Path(table("lines.csv", [line(n) for n in range(N)]))
    [taken] = taken_files(path, FileReading())
    [pooled] = [note for note in taken.file.notes if "over all characters" in note]
    # 10 short lines have 21 errors each, of 10 * 2 + 30 * 22 characters.
    assert f"{210 / 680:.3f}" in pooled
    run = sn.score(path)
    assert run.value() == pytest.approx(21 / 2 / 4)
    assert "in character error rate, more errors than the right texts have characters" in str(run)


def test_transcripts_of_a_file_about_speech_are_scored_by_words() -> None:
    rows = [{"key": n, "transcript": f"engage {thing(n)}", "prediction": said(n)} for n in range(N)]
    for name, metric in (("asr_results", "word_error_rate"), ("results", "character_error_rate")):
        [taken] = taken_files(Path(table(f"{name}.csv", rows)), FileReading())
        assert taken.file.metrics[0] == metric


def test_transcripts_that_nearly_all_replies_repeat_are_the_right_ones() -> None:
    words = "turret, prepare to deploy the net; heading zero six five, target is a grey and white jet number"
    rows = [
        {"key": n, "transcript": f"{words} {n}", "prediction": f"{words} {n}"} for n in range(N)
    ]
    rows[0]["prediction"] = "nothing"
    [taken] = taken_files(Path(table("asr.csv", rows)), FileReading())
    assert taken.file.metrics[0] == "word_error_rate"
    assert taken.file.rows[1].references == (f"{words} 1",)


def test_a_run_keeps_the_name_that_its_model_was_given() -> None:
    rows = [
        {"question": f"What is in {n}?", "answer": thing(n), "reply": said(n)} for n in range(N)
    ]
    named = Path(table("named_things.csv", rows))
    rows[0]["reply"] = thing(0)
    other = Path(table("other_things.csv", rows))
    import_runs([named], FileReading(), model="lynx")

    runs = import_runs([named, other], FileReading())
    assert [read_manifest(run).model for run in runs] == ["lynx", "other"]
    [run] = import_runs([named], FileReading())
    assert read_manifest(run).model == "lynx"
    [run] = import_runs([named], FileReading(), model="puma")
    assert read_manifest(run).model == "puma"
