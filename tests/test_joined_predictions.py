"""Files of predictions joined to a benchmark: by ids, by text and image, by place; what is missing is not right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mini_ehub
import reform
import small
import snellen as sn
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.errors import DataError
from snellen.interchange.predictions.joining import ImageNames
from snellen.interchange.predictions.rows import is_empty_cell, is_failure
from snellen.runs.journal import read_exchanges
from snellen.runs.run_folder import read_manifest

FAILED = "Failed to obtain answer via API."
COLOURS = ["red", "blue", "green", "grey"]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def benchmark(count: int = 10, *, ids: bool = True, folders: int = 1) -> list[dict[str, Any]]:
    """A choice about each of `count` images; of two folders the images have the same names."""
    rows = []
    for n in range(count):
        picture = f"img/{'ab'[n % folders]}/{n // folders:03d}.png"
        reform.write_picture(Path(picture), n)
        row = {
            "image": picture,
            "question": "Which colour is it?",
            "options": COLOURS,
            "answer": COLOURS[n % 4],
        }
        rows.append({"id": f"q{n}", **row} if ids else row)
    sn.build(small.write(rows, Path("table.jsonl")), to="bench")
    return rows


def write(name: str, rows: list[dict[str, Any]]) -> Path:
    path = Path(name)
    path.write_text(
        "\n".join(map(json.dumps, rows)) if path.suffix == ".jsonl" else json.dumps(rows)
    )
    return path


def scored(path: Path) -> dict[str, float | None]:
    results = sn.score(sn.import_run(path, "./bench"))
    return {
        row.metric: row.estimate.value
        for row in results.rows
        if not row.slice and row.benchmark != "*"
    }


def test_the_right_half_of_the_rows_is_half_right(capsys: pytest.CaptureFixture[str]) -> None:
    rows = benchmark(20)
    path = write(
        "half.jsonl", [{"id": row["id"], "prediction": row["answer"]} for row in rows[::2]]
    )
    values = scored(path)
    assert (values["accuracy"], values["accuracy_of_answered"], values["accuracy_upper"]) == (
        0.5,
        1.0,
        1.0,
    )
    assert values["unparsed_rate"] == 0.0
    code, out, err = small.command(capsys, "score", str(path), "--benchmark", "./bench")
    assert code == 0 and "questions of 20 without any row: 10" in err
    assert "questions have no reply and are scored as wrong" in " ".join(out.split())


def test_failed_and_empty_rows_are_not_right() -> None:
    rows = benchmark(8)
    said = [row["answer"] for row in rows[:4]] + [
        FAILED,
        "",
        "[ERROR] Request failed after 5 retries",
        "nan",
    ]
    pairs = zip(rows, said, strict=True)
    values = scored(write("p.json", [{"id": row["id"], "prediction": text} for row, text in pairs]))
    assert (values["accuracy"], values["accuracy_of_answered"], values["unparsed_rate"]) == (
        0.5,
        1.0,
        0.0,
    )


def test_open_questions_without_an_answer_have_the_worst_value() -> None:
    rows = [
        {
            "id": f"t{n}",
            "question": f"What is written on {n}?",
            "answer": f"shop {n}",
            "image": small.cell(n),
        }
        for n in range(4)
    ]
    sn.build(small.write(rows, Path("table.jsonl")), to="bench")
    said = [
        {"id": "t0", "prediction": "shop 0"},
        {"id": "t1", "prediction": "shop 1"},
        {"id": "t2", "prediction": ""},
    ]
    values = scored(write("p.json", said))
    assert (values["exact_match"], values["exact_match_of_answered"], values["word_accuracy"]) == (
        0.5,
        1.0,
        0.5,
    )


@pytest.mark.parametrize(
    "text",
    [
        FAILED,
        "**NETWORK ERROR DUE TO HIGH TRAFFIC. PLEASE REGENERATE OR REFRESH THIS PAGE.**",
        "$ERROR$",
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "Connection error.",
        "Request timed out.",
        "A timeout error occurred while processing the request.",
        "Error code: 429 - {'error': {}}",
        "openai.RateLimitError: Rate limit reached",
        "Failed to get response after 3 attempts",
        "API Error: 500",
        "504 Gateway Time-out",
        "Error: HTTPSConnectionPool(host='h', port=443): Read timed out.",
    ],
)
def test_what_harnesses_write_in_place_of_a_reply_is_known(text: str) -> None:
    assert is_failure(text) and not is_failure(text, [text])


@pytest.mark.parametrize(
    "text",
    [
        "A. Failed",
        "Failed",
        'B. an error message (it says "Connection error.")',
        "Error",
        "error message",
        "The server is down.",
        "An error",
        "None of the above",
        "C",
        "Network",
        "The screen shows: Error code: 404",
        "500 people",
        "Error: the sign is misspelt",
    ],
)
def test_a_reply_that_speaks_of_an_error_is_a_reply(text: str) -> None:
    assert not is_failure(text)


def test_a_cell_without_anything_is_no_reply_unless_an_option_says_so() -> None:
    assert is_empty_cell(" ") and is_empty_cell("NaN") and is_empty_cell("none")
    assert not is_empty_cell("None", ["one", "none"]) and not is_empty_cell("nano")


def test_pictures_are_told_by_name_and_folder_whatever_the_system_and_the_suffix() -> None:
    names = ImageNames({"a": ["day/000.png"], "b": ["night/000.png"], "c": ["x/one.jpg"], "d": []})
    assert names.samples("C:\\pictures\\night\\000.PNG") == ["b"]
    assert names.samples("000.png") == ["a", "b"]
    assert names.samples("/data/one.png") == ["c"]
    assert names.contradict("a", "001.png") and not names.contradict("d", "001.png")


@pytest.mark.parametrize("folders", [1, 2])
def test_rows_without_ids_are_joined_by_the_question_and_the_name_of_its_picture(
    folders: int,
) -> None:
    rows = benchmark(10, ids=False, folders=folders)
    said = [
        {
            "image": f"D:\\set\\{row['image'].replace('/', chr(92))}",
            "question": row["question"],
            "reply": row["answer"],
        }
        for row in reversed(rows)
    ]
    assert scored(write("p.jsonl", said))["accuracy"] == 1.0
    only = [{"file_name": row["image"], "response": row["answer"]} for row in rows]
    assert scored(write("q.jsonl", only))["accuracy"] == 1.0


def test_a_question_about_another_picture_is_not_joined_by_its_text() -> None:
    rows = benchmark(4)
    said = [
        {"image": "img/a/099.png", "question": row["question"], "prediction": row["answer"]}
        for row in rows
    ]
    with pytest.raises(sn.DataError, match=r"no row fits table .*asked, but of other images: 4"):
        sn.import_run(write("p.jsonl", said), "./bench")


def test_rows_that_several_questions_fit_are_refused() -> None:
    rows = benchmark(4)
    said = [{"question": row["question"], "prediction": row["answer"]} for row in [*rows, rows[0]]]
    with pytest.raises(
        sn.DataError, match=r"5 of 5 rows fit several questions of table .*name of its image"
    ):
        sn.import_run(write("p.jsonl", said), "./bench")


def test_lines_of_pope_s_form_are_joined_by_their_place_where_every_question_agrees() -> None:
    rows = [
        {
            "image": f"img/{n // 3}.png",
            "question": f"Is there a {thing} in the image?",
            "answer": ["yes", "no"][n % 2],
        }
        for n, thing in enumerate(["cup", "dog", "cat", "cup", "cat", "dog"])
    ]
    for n in range(2):
        reform.write_picture(Path(f"img/{n}.png"), n)
    sn.build(small.write(rows, Path("table.jsonl")), to="bench")
    said = [{"question": row["question"], "answer": row["answer"]} for row in rows]
    path = write("p.jsonl", said)
    assert scored(path)["pope_accuracy"] == 1.0
    for spoilt in (said[1:], [said[1], said[0], *said[2:]]):
        with pytest.raises(sn.DataError, match="fit several questions"):
            sn.import_run(write("q.jsonl", spoilt), "./bench")
    with pytest.raises(
        sn.DataError,
        match=r"if they are replies, it looks like POPE.*sn.import_run\('p\.jsonl', benchmark=",
    ):
        sn.import_run(path)


def llava(name: str, prompt: str, text: str, **fields: Any) -> dict[str, Any]:
    return {
        "question_id": name,
        "prompt": prompt,
        "text": text,
        "answer_id": "x",
        "model_id": "llava",
        **fields,
    }


def test_llava_s_answers_are_read_against_the_options_of_their_prompt() -> None:
    rows = benchmark(4)
    said = []
    for n, row in enumerate(rows):
        shown = [*COLOURS[n:], *COLOURS[:n]]
        listed = "\n".join(f"{letter}. {text}" for letter, text in zip("ABCD", shown, strict=True))
        letter = "ABCD"[shown.index(row["answer"])]
        prompt = f"{row['question']}\n{listed}\nAnswer with the option's letter from the given choices directly."
        said.append(llava(row["id"], prompt, letter))
    path = write("answers.jsonl", said)
    assert scored(path)["accuracy"] == 1.0
    assert read_manifest(sn.import_run(path, "./bench")).model == "llava"
    with pytest.raises(sn.DataError, match="has replies of 2 models; they are the runs"):
        sn.import_run(write("two.jsonl", [*said, {**said[0], "model_id": "other"}]), "./bench")


def test_llava_s_rounds_of_a_question_are_its_rotations() -> None:
    rows = benchmark(4)
    said = []
    for row in rows:
        for turn in range(4):
            shown = [*COLOURS[turn:], *COLOURS[:turn]]
            text = "ABCD"[shown.index(row["answer"])] if row is not rows[3] or turn != 2 else "?"
            said.append(llava(row["id"], row["question"], text, round_id=turn, options=shown))
    path = write("answers.jsonl", said)
    values = scored(path)
    assert (values["circular_accuracy"], values["accuracy"]) == (0.75, 1.0)
    assert scored(write("less.jsonl", said[:-1]))["circular_accuracy_of_answered"] == 1.0


def test_options_in_another_order_in_every_row_are_read_in_that_order() -> None:
    rows = benchmark(6)
    said = []
    for row in rows:
        shown = [COLOURS[n] for n in (2, 0, 3, 1)]
        letter = "ABCD"[shown.index(row["answer"])]
        said.append(
            {"id": row["id"], **dict(zip("ABCD", shown, strict=True)), "prediction": letter}
        )
    path = write("p.json", said)
    assert scored(path)["accuracy"] == 1.0
    orders = {
        exchange.request.variant.order
        for exchange in read_exchanges(sn.import_run(path, "./bench"))
    }
    assert orders == {(2, 0, 3, 1)}


def test_record_files_of_a_benchmark_whose_questions_repeat_are_joined_by_their_pictures() -> None:
    """LVLM-eHub's own records of POPE: neither text nor image alone is unique, and none has an id."""
    folder = mini_ehub.official("pope-popular", Path("files"))
    built = build_benchmark(entries()["lvlm-ehub/pope-popular"], source=folder, to=Path("bench"))
    asked = json.loads(
        "[" + ",".join(next(folder.glob("coco_pope_popular.json")).read_text().splitlines()) + "]"
    )
    records = [
        {
            "question": row["text"],
            "answer": row["label"] if n % 3 else "perhaps",
            "gt_answers": row["label"],
            "image_path": f"/nvme/MSCOCO/val2014/{row['image']}",
            "model_name": "BLIP2",
        }
        for n, row in enumerate(asked)
    ]
    values = scored(write("MSCOCO_pope_popular.json", records[::-1]))
    right = sum(record["answer"] == record["gt_answers"] for record in records)
    assert (
        values["typed_match"] == pytest.approx(right / len(records))
        and len(records) == built.manifest.counts.samples
    )


def letter_rows(count: int, replies: list[str]) -> list[dict[str, Any]]:
    """Rows with the letter of the right answer of `benchmark`, and no options."""
    return [
        {"id": f"q{n}", "pred": replies[n % len(replies)], "gt": "ABCD"[n % 4]}
        for n in range(count)
    ]


def test_letters_of_right_answers_leave_the_options_of_the_benchmark() -> None:
    # Right: q0 ("A"), q1 ("blue") and so on; each fourth reply, "red" for grey, is wrong: 6 of 8.
    benchmark(8)
    sn.build("table.jsonl", name="colours")
    rows = letter_rows(8, ["A", "blue", "The answer is (C).", "red"])
    rows[0]["gt"] = "D"
    write("plain.jsonl", rows)

    run = sn.import_run("plain.jsonl", benchmark="colours")

    assert sn.score(run).value() == 0.75
    notes = read_manifest(run).notes
    assert "rows whose file has another right answer; the benchmark's counts: 1 (q0)" in notes


def test_a_right_answer_in_words_is_compared_with_the_options_of_the_benchmark() -> None:
    benchmark(8)
    rows = [{"id": f"q{n}", "pred": "A", "gt": COLOURS[n % 4]} for n in range(8)]
    rows[3]["gt"] = "blue"  # the benchmark has grey
    run = sn.import_run(write("words.jsonl", rows), benchmark="./bench")
    notes = read_manifest(run).notes
    assert "rows whose file has another right answer; the benchmark's counts: 1 (q3)" in notes


def test_a_file_with_letters_alone_says_which_replies_need_the_options() -> None:
    benchmark(8)
    sn.build("table.jsonl", name="colours")
    write("plain.jsonl", letter_rows(8, ["A", "blue", "The answer is (C).", "red"]))

    notes = read_manifest(sn.import_run("plain.jsonl")).notes

    note = next(note for note in notes if "name no letter" in note)
    assert note.startswith("replies of 8 that name no letter: 4 (q1, q3, q5, ...)")
    assert "colours, which is built, has these ids" in note
    assert note.endswith("sn.import_run('plain.jsonl', benchmark='colours')")


def test_each_built_benchmark_that_fits_a_file_without_answers_is_named() -> None:
    benchmark(8)
    asked = [{"id": f"q{n}", "question": "Which sign?", "answer": f"sign {n}"} for n in range(8)]
    sn.build(write("open.jsonl", asked), name="an-open-one", no_images=True)
    letters = write("letters.jsonl", [{"id": f"q{n}", "prediction": "B"} for n in range(8)])
    texts = write("texts.jsonl", [{"id": f"q{n}", "prediction": "It is red"} for n in range(8)])
    sn.build("table.jsonl", name="colours")
    cases = [
        (letters, "colours, which is built, has questions", "benchmark='colours'"),
        (texts, "an-open-one and colours, which are built, have questions", "benchmark='NAME'"),
    ]
    for path, names, call in cases:
        with pytest.raises(sn.DataError) as raised:
            sn.import_run(path)
        assert f"{names} with these ids" in str(raised.value)
        assert call in str(raised.value).replace('"', "'")


def test_a_file_whose_replies_all_name_letters_needs_no_note() -> None:
    write("plain.jsonl", letter_rows(8, ["A", "(B)", "The answer is (C).", "A"]))
    notes = read_manifest(sn.import_run("plain.jsonl")).notes
    assert not any("name no letter" in note for note in notes)


def test_a_table_with_pictures_scores_replies_without_the_pictures(tmp_path: Path) -> None:
    # Right: the replies to q0 and q4 of 8, whose right answer is red.
    benchmark(8)
    write("bare.jsonl", [{"id": f"q{n}", "prediction": "red"} for n in range(8)])
    for picture in tmp_path.glob("img/**/*.png"):
        picture.unlink()
    run = sn.import_run("bare.jsonl", benchmark="table.jsonl")
    assert sn.score(run).value() == 0.25


def test_replies_without_right_answers_name_a_built_benchmark_with_their_ids() -> None:
    benchmark(8)
    sn.build("table.jsonl", name="colours")
    write("bare.jsonl", [{"id": f"q{n}", "prediction": "red"} for n in range(8)])
    with pytest.raises(DataError) as error:
        sn.import_run("bare.jsonl")
    assert "sn.import_run('bare.jsonl', benchmark='colours')" in str(error.value)
