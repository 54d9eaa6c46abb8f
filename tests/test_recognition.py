"""What a file is and which column is what: real files of each form, odd names, and what is asked or refused."""

from __future__ import annotations

import base64
import csv
import io
import json
import shutil
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import datasets
import openpyxl
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from openpyxl.drawing.image import Image as SheetImage
from PIL import Image

import small
import snellen as sn
from endless_server import endless
from place_servers import FileServer, HubServer, Repo
from snellen.building.benchmark import Benchmark
from snellen.cli.preview import image_code, terminal_of
from snellen.cli.verbs.build import ask_user
from snellen.common.drafts import read_params
from snellen.errors import DataError, UnknownNameError
from snellen.readers.annotations import Params, read_pictures
from snellen.recognition import Doubt, recognise
from snellen.recognition.recognising import TableSettings
from snellen.scoring.answers import open_answers
from test_fetching import point_at

COLOURS = ("red", "blue", "green", "yellow")
COUNT = 8


def picture(number: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8 + number, 6), COLOURS[number % 4]).save(file, "PNG")
    return file.getvalue()


def right(number: int) -> str:
    return COLOURS[number % 4]


def options(number: int) -> list[str]:
    """Three options; the right one is nowhere always."""
    listed = [COLOURS[(number + step) % 4] for step in range(3)]
    return listed[number % 3 :] + listed[: number % 3]


def place(number: int) -> int:
    return options(number).index(right(number))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    Path("files").mkdir()
    for number in range(COUNT):
        Path(f"files/p{number}.png").write_bytes(picture(number))
    yield tmp_path


def rows(**cells: Any) -> list[dict[str, Any]]:
    """Rows whose cells are functions of a number, or the same in each row."""
    return [
        {name: cell(n) if callable(cell) else cell for name, cell in cells.items()}
        for n in range(COUNT)
    ]


def name(number: int) -> str:
    return f"p{number}.png"


def question(number: int) -> str:
    return f"Which colour has picture {number}?"


def save(
    table: list[dict[str, Any]], path: str, delimiter: str = ",", encoding: str = "utf-8"
) -> Path:
    with Path(path).open("w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, list(table[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(table)
    return Path(path)


def check_right(built: Benchmark, count: int = COUNT) -> None:
    """Each question has its image, and the right answer is the colour of that image."""
    golds = open_answers(built.folder)
    samples = list(built.samples())
    assert len(samples) == count
    for sample in samples:
        [image] = sample.images
        colour = right(image.width - 8)
        gold = golds[sample.id, 0]
        texts = {sample.options[index] for index in gold.options} or {gold.texts[0]}
        assert texts == {colour}


# --- names and forms of columns ---------------------------------------------------------------------------------------

PICTURES = "img picture path file_name image_path photo Bild 图片 screenshot something".split()
ANSWERS = "label gold gt ground_truth correct target Lösung respuesta 正确答案 zzz".split()


@pytest.mark.parametrize("column", PICTURES)
def test_a_column_of_pictures_is_known_by_name_or_content(column: str) -> None:
    path = save(rows(**{column: name, "question": question, "answer": right}), "t.csv")
    check_right(sn.build(path, to="made"))


@pytest.mark.parametrize("column", ANSWERS)
def test_a_column_of_answers_is_known_by_name_or_content(column: str) -> None:
    path = save(
        rows(
            img=name, question=question, choices=lambda n: json.dumps(options(n)), **{column: right}
        ),
        "t.csv",
    )
    check_right(sn.build(path, to="made"))


def options_in(*names: str) -> dict[str, Any]:
    """Each option in a column of its own."""
    return {column: lambda n, at=at: options(n)[at] for at, column in enumerate(names)}


def lettered(number: int) -> str:
    return "\n".join(
        f"{letter}) {text}" for letter, text in zip("ABC", options(number), strict=True)
    )


FORMS: dict[str, dict[str, Any]] = {
    "letters in columns": {**options_in("A", "B", "C"), "answer": lambda n: "ABC"[place(n)]},
    "numbered, from 1": {
        **options_in("Wahl 1", "Wahl 2", "Wahl 3"),
        "Richtig": lambda n: place(n) + 1,
    },
    "small letters, text": {**options_in("option_a", "option_b", "option_c"), "correct": right},
    "a column's name": {
        **options_in("opt1", "opt2", "opt3"),
        "correct": lambda n: f"opt{place(n) + 1}",
    },
    "list of Python, from 0": {"choices": lambda n: repr(options(n)), "answer_idx": place},
    "lines": {"choices": lettered, "key": lambda n: "abc"[place(n)]},
    "bars": {"options": lambda n: " | ".join(options(n)), "gold": right},
    "distractors": {
        "distractor1": lambda n: COLOURS[(n + 1) % 4],
        "distractor2": lambda n: COLOURS[(n + 2) % 4],
        "correct_answer": right,
    },
}


@pytest.mark.parametrize("cells", FORMS.values(), ids=FORMS)
def test_options_and_answers_have_many_forms(cells: dict[str, Any]) -> None:
    built = sn.build(save(rows(img=name, Frage=question, **cells), "t.csv"), to="made")
    check_right(built)
    assert {len(sample.options) for sample in built.samples()} == {3}


def test_an_index_that_fits_from_0_and_from_1_is_asked_and_never_guessed() -> None:
    table = rows(
        img=name, question=question, options=lambda n: options(n), answer=lambda n: 1 + n % 2
    )
    Path("t.json").write_text(json.dumps(table))
    with pytest.raises(
        DataError,
        match=r"both as index0 and as index1; say answer_is='index0' or answer_is='index1'$",
    ):
        sn.build("t.json", to="made")
    with pytest.raises(
        UnknownNameError, match="unknown value of answer_is 'indx1'; did you mean index1"
    ):
        sn.build("t.json", to="made", answer_is="indx1")
    assert sn.build("t.json", to="made", answer_is="index1").count() == COUNT
    [doubt] = recognise("t.json").doubts
    assert (doubt.role, doubt.choices) == ("answer_is", ("index0", "index1"))


def test_two_columns_that_may_be_the_answer_are_asked_unless_they_say_the_same() -> None:
    listed = {"img": name, "question": question, "choices": lambda n: json.dumps(options(n))}
    save(rows(**listed, first_rater=right, second_rater=lambda n: options(n)[n % 2]), "t.csv")
    with pytest.raises(
        DataError,
        match=r"may all be the answer; say columns={'answer': 'first_rater'} or columns={'answer': 'sec",
    ):
        sn.build("t.csv", to="made")
    check_right(sn.build("t.csv", to="made", columns={"answer": "first_rater"}))
    save(rows(**listed, answer_letter=lambda n: "ABC"[place(n)], answer_text=right), "u.csv")
    check_right(sn.build("u.csv", to="other"))


def test_answers_that_name_no_option_are_one_line() -> None:
    path = save(rows(img=name, question=question, A="x", B="y", answer="why"), "t.csv")
    with pytest.raises(
        DataError,
        match=r"t.csv:2: the answers in 'answer' name no option: 'why' beside 'x', 'y'; say",
    ) as e:
        sn.build(path, to="made")
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("cells", "lines"),
    [
        (
            {3: "why", 5: "Z"},
            [
                "t.csv:5: answer 'why' is neither one of the letters A-B nor the text of an option",
                "t.csv:7: answer 'Z' is neither one of the letters A-B nor the text of an option",
            ],
        ),
        (
            dict.fromkeys(range(1, COUNT), "same"),
            [
                f"t.csv:{n + 2}: the options A and B are both 'same', like the answer; change one of them"
                for n in range(1, COUNT)
            ],
        ),
    ],
)
def test_each_wrong_answer_is_named_with_its_line(cells: dict[int, str], lines: list[str]) -> None:
    """Be it one, a few, or more than there are right ones."""
    same = {number for number, cell in cells.items() if cell == "same"}
    path = save(
        rows(
            img=name,
            question=question,
            A=lambda n: "same" if n in same else "x",
            B=lambda n: "same" if n in same else "y",
            answer=lambda n: cells.get(n, "A"),
        ),
        "t.csv",
    )
    with pytest.raises(DataError) as refused:
        sn.build(path, to="made")
    assert str(refused.value).splitlines() == lines


def test_a_single_wrong_cell_does_not_advise_another_column() -> None:
    path = save(rows(img=name, question=question, A="x", B="y", answer="why")[:1], "t.csv")
    with pytest.raises(DataError) as refused:
        sn.build(path, to="made")
    assert (
        str(refused.value)
        == "t.csv:2: answer 'why' is neither one of the letters A-B nor the text of an option"
    )


def test_pictures_are_found_by_name_in_folders_of_folders() -> None:
    Path("deep/er").mkdir(parents=True)
    Path("files").rename("deep/er/files")
    for cell in (lambda n: f"C:\\scans\\P{n}.PNG", lambda n: f"p{n}"):
        built = sn.build(
            save(rows(image_id=cell, question=question, answer=right), "t.csv"), to="made"
        )
        check_right(built)
        assert built.manifest.spec.source.params["find_images"] is True


@pytest.mark.parametrize(
    ("delimiter", "encoding"),
    [(";", "utf-8-sig"), (";", "cp1252"), (",", "utf-16"), (";", "cp1251")],
)
def test_spreadsheets_write_many_kinds_of_csv(delimiter: str, encoding: str) -> None:
    names = ("Вопрос", "Ответ") if encoding == "cp1251" else ("Frage für dich", "Lösung")
    asked = (
        "Какого цвета картинка" if encoding == "cp1251" else "Welche Farbe, größtenteils, hat Bild"
    )
    table = rows(**{"img": name, names[0]: lambda n: f"{asked} {n}?", names[1]: right})
    built = sn.build(save(table, "t.csv", delimiter, encoding), to="made")
    check_right(built)
    assert next(iter(built.samples())).question.startswith(asked)


# --- files of each form -----------------------------------------------------------------------------------------------


def test_a_spreadsheet_has_titles_other_sheets_and_pictures_in_its_cells() -> None:
    book = openpyxl.Workbook()
    book.active.append(["How to fill this in"])
    sheet = book.create_sheet("Fragen")
    sheet.append(["Umfrage 2024"])
    sheet.append([])
    sheet.append(["Bild", "Frage", "opt1", "opt2", "opt3", "Lösung", "Notiz"])
    for number in range(COUNT):
        sheet.append(
            [
                None,
                question(number),
                *options(number),
                "ABC"[place(number)],
                "gut" if number else None,
            ]
        )
        sheet.add_image(SheetImage(io.BytesIO(picture(number))), f"A{number + 4}")
    book.save("fragen.xlsx")
    check_right(sn.build("fragen.xlsx", to="made"))
    lines = "\n".join(recognise("fragen.xlsx").lines())
    for words in (
        "8 rows, read as multiple choice",
        "`Bild` (in the file)",
        "`opt1`-`opt3`",
        "not used  `Notiz`",
    ):
        assert words in lines


def test_parquet_arrow_and_objects_are_the_same_questions() -> None:
    import datasets

    listed = rows(question=question, choices=options, answer=place)
    held = [{**row, "image": {"bytes": picture(n), "path": None}} for n, row in enumerate(listed)]
    pq.write_table(pa.Table.from_pylist(held), "t.parquet")
    dataset = datasets.Dataset.from_list(held).cast_column("image", datasets.Image())
    dataset.save_to_disk("saved")
    dataset.save_to_disk("in_parts", num_shards=3)
    pictured = [{**row, "image": Image.open(f"files/p{n}.png")} for n, row in enumerate(listed)]
    frame = polars.DataFrame([{**row, "image": picture(n)} for n, row in enumerate(listed)])
    sources = ("t.parquet", "saved", "in_parts", dataset, frame, frame.to_pandas(), pictured)
    versions = []
    for number, source in enumerate(sources):
        built = sn.build(source, name="same", to=f"made{number}")
        check_right(built)
        versions.append([(s.question, s.options) for s in built.samples()])
    assert all(version == versions[0] for version in versions)
    check_right(sn.build("t.parquet", to="by-build"))
    assert sn.build(pictured).folder == sn.build(pictured).folder


def test_objects_of_json_are_rows_by_their_keys_or_in_a_list() -> None:
    cells = {
        "question": question,
        "choices": options,
        "answer": place,
        "image": name,
        "hint": "look",
    }
    Path("keys.json").write_text(json.dumps({f"k{n}": row for n, row in enumerate(rows(**cells))}))
    Path("list.json").write_text(
        json.dumps({"version": 2, "data": rows(**cells, meta=lambda n: {"by": "me", "n": n})})
    )
    for file in ("keys.json", "list.json"):
        built = sn.build(file, to=file.removesuffix(".json"))
        check_right(built)
        assert {sample.context for sample in built.samples()} == {"look"}
    assert {sample.id for sample in Benchmark(Path("keys")).samples()} == {
        f"k{n}" for n in range(COUNT)
    }


@pytest.mark.parametrize("form", ["llava", "sharegpt"])
def test_conversations_are_open_questions_and_dialogues(form: str) -> None:
    who, said = ("from", "value") if form == "llava" else ("role", "content")
    user, model = ("human", "gpt") if form == "llava" else ("user", "assistant")

    def talk(n: int) -> list[dict[str, str]]:
        turns = [(user, f"<image>\n{question(n)}"), (model, right(n))] + [
            (user, "Sure?"),
            (model, "yes"),
        ] * (n % 2)
        return [{who: speaker, said: text} for speaker, text in turns]

    cells = (
        {"image": name, "conversations": talk}
        if form == "llava"
        else {"images": lambda n: [name(n)], "messages": talk}
    )
    Path("t.json").write_text(json.dumps(rows(**cells)))
    built = sn.build("t.json", to="made")
    assert (built.manifest.counts.samples, built.manifest.counts.questions) == (
        COUNT,
        COUNT + COUNT // 2,
    )
    assert {sample.question for sample in built.samples() if not sample.turns} == {
        question(n) for n in range(0, COUNT, 2)
    }
    Path("t.json").write_text(json.dumps(rows(image=name, conversations=lambda n: talk(n)[:1] * 2)))
    with pytest.raises(DataError, match=r"t.json: record 1: .* says something out of turn"):
        sn.build("t.json", to="other")


def openai_part(path: str) -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": path}}


def data_part(path: str) -> dict[str, object]:
    encoded = base64.b64encode(Path("files", path).read_bytes()).decode()
    return openai_part(f"data:image/png;base64,{encoded}")


def anthropic_part(path: str) -> dict[str, object]:
    encoded = base64.b64encode(Path("files", path).read_bytes()).decode()
    source = {"type": "base64", "media_type": "image/png", "data": encoded}
    return {"type": "image", "source": source}


@pytest.mark.parametrize(
    "part",
    [
        openai_part,
        data_part,
        anthropic_part,
        lambda path: {"type": "image_url", "image_url": path},
        lambda path: {"type": "input_image", "image_url": path},
        lambda path: {"type": "image", "image": path},
        lambda path: {"type": "image", "path": path},
        lambda path: {"image": path},
        lambda path: openai_part(Path("files", path).resolve().as_uri()),
    ],
    ids=[
        "openai",
        "data",
        "anthropic",
        "text",
        "responses",
        "transformers",
        "swift",
        "qwen",
        "file-url",
    ],
)
def test_messages_of_a_chat_hold_their_images(
    part: Callable[[str], dict[str, object]], capsys: pytest.CaptureFixture[str]
) -> None:
    """As files for fine-tuning have them: the assistant's turn is the reference."""

    def messages(n: int) -> list[dict[str, object]]:
        asked = [part(name(n)), {"type": "text", "text": question(n)}]
        return [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": asked},
            {"role": "assistant", "content": [{"type": "text", "text": right(n)}]},
        ]

    lines = [json.dumps(row) for row in rows(messages=messages)]
    Path("files/chat.jsonl").write_text("\n".join(lines))
    built = sn.build("files/chat.jsonl", to="made")
    assert built.manifest.counts.samples == COUNT
    samples = list(built.samples())
    assert {sample.question for sample in samples} == {question(n) for n in range(COUNT)}
    assert all(len(sample.images) == 1 for sample in samples)
    assert sn.evaluate("snellen:oracle", "./made", name="chat").value() == 1
    for _ in range(2):  # the second follows the entry that the first has written
        code, _, error = small.command(capsys, "build", "files/chat.jsonl", "--to", "again")
        assert code == 0, error
        assert Benchmark(Path("again")).manifest.version == built.manifest.version


def test_addresses_in_messages_are_fetched_only_if_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = [openai_part("http://127.0.0.1:9/cat.png"), {"type": "text", "text": "What is it?"}]
    talk = [{"role": "user", "content": asked}, {"role": "assistant", "content": "a cat"}]
    Path("far.jsonl").write_text("\n".join([json.dumps({"messages": talk})] * 3))
    code, _, error = small.command(capsys, "build", "far.jsonl")
    assert code == 2 and "the images in the messages are addresses" in error
    assert "--fetch-images" in error and len(error.splitlines()) == 1
    with pytest.raises(DataError, match="fetch_images=True"):
        sn.build("far.jsonl")
    code, _, error = small.command(capsys, "build", "far.jsonl", "--fetch-images")
    assert code == 2 and "127.0.0.1:9" in error


def test_unusual_messages_are_read_or_refused_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [openai_part("p0.png"), {"type": "text", "text": {"value": "What is it?"}}]
    said = {"role": "assistant", "content": ["a cat"]}
    Path("files/threads.json").write_text(
        json.dumps([{"messages": [{"role": "user", "content": asked}, said]}])
    )
    code, _, error = small.command(capsys, "build", "files/threads.json", "--to", "made")
    assert code == 0, error
    [sample] = Benchmark(Path("made")).samples()
    assert sample.question == "What is it?"
    assert open_answers(Path("made"))[sample.id, 0].texts == ("a cat",)

    Path("files/roles.json").write_text(
        json.dumps([{"messages": [{"role": ["user"], "content": asked}, said]}])
    )
    code, _, error = small.command(capsys, "build", "files/roles.json", "--to", "other")
    assert code == 2 and "record 1" in error and "out of turn" in error
    assert "Traceback" not in error


LISTED = "What is it?\nA. a cat\nB. a dog\nAnswer with the letter."


def listing_row(kind: str, text: str, answer: str) -> dict[str, Any]:
    """Return a row whose question lists options: of OpenAI's chat format, of LLaVA's, or of a plain table."""
    if kind == "chat":
        asked = [openai_part("p0.png"), {"type": "text", "text": text}]
        said = [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
        return {"messages": said}
    if kind == "llava":
        said = [{"from": "human", "value": f"<image>\n{text}"}, {"from": "gpt", "value": answer}]
        return {"image": "p0.png", "conversations": said}
    return {"image": "p0.png", "question": text, "answer": answer}


@pytest.mark.parametrize("kind", ["chat", "llava", "table"])
@pytest.mark.parametrize("answers", ["AB", ("a cat", "b."), ("A) a cat", "(B)")])
def test_options_within_the_text_of_a_question_are_read(
    capsys: pytest.CaptureFixture[str], kind: str, answers: Sequence[str]
) -> None:
    rows = [listing_row(kind, LISTED, answer) for answer in answers]
    Path("files/letters.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for _ in range(2):  # the second follows the entry that the first has written
        code, out, error = small.command(capsys, "build", "files/letters.jsonl", "--to", "made")
        assert code == 0, error
    assert "in the text of the question" in f"{out}{error}" or Path("files/letters.toml").exists()
    built = Benchmark(Path("made"))
    for sample in built.samples():
        assert (sample.question, sample.options) == ("What is it?", ("a cat", "a dog"))
    golds = open_answers(built.folder)
    assert [golds[sample.id, 0].options for sample in built.samples()] == [(0,), (1,)]
    assert sn.evaluate("snellen:oracle", "./made").value("accuracy") == 1


@pytest.mark.parametrize("kind", ["chat", "llava", "table"])
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (LISTED, "maybe"),
        ("What is it?\nA. a cat\nC. a dog", "A"),
        ("What is it?\nA. a cat\nB. a dog\nIt was seen at noon.", "A"),
        ("A plan.\nA. a kitchen\nB. a bath\nWhich option is larger?", "A"),
        ("A. a cat\nB. a dog", "A"),
    ],
    ids=["other-answer", "gap", "text-after", "question-after", "no-question"],
)
def test_unclear_options_within_a_text_leave_all_questions_open_and_say_so(
    kind: str, text: str, answer: str
) -> None:
    rows = [listing_row(kind, LISTED, "B"), listing_row(kind, text, answer)]
    Path("files/letters.jsonl").write_text("\n".join(map(json.dumps, rows)))
    if kind == "table" and answer == "A":
        with pytest.raises(DataError, match="or list them in the text of each question"):
            sn.build("files/letters.jsonl", to="made")
        return
    lines = " ".join(recognise("files/letters.jsonl").lines())
    if answer == "maybe":
        assert "in the text, but not every answer names one (1 of 2), so all are open" in lines
    else:
        assert "in the text of 1 of 2 questions only, so all are open" in lines
    built = sn.build("files/letters.jsonl", to="made")
    assert built.spec.formulation == "text"
    if kind != "table":
        assert any(
            "list options and are answered by a letter" in note for note in built.manifest.warnings
        )


def test_numbers_as_answers_to_options_with_letters_leave_questions_open(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [listing_row("table", LISTED, "") | {"answer": number} for number in (0, 1)]
    Path("files/numbers.jsonl").write_text("\n".join(map(json.dumps, rows)))
    lines = " ".join(recognise("files/numbers.jsonl").lines())
    assert "in the text, but not every answer names one (0 of 2), so all are open" in lines
    code, _, error = small.command(capsys, "build", "files/numbers.jsonl", "--to", "made")
    assert code == 0, error
    assert Benchmark(Path("made")).spec.formulation == "text"


def test_marks_within_a_conversation_say_where_its_pictures_stand(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def talk(*said: str) -> list[dict[str, str]]:
        return [{"from": ("human", "gpt")[n % 2], "value": text} for n, text in enumerate(said)]

    two = ["p0.png", "p1.png"]
    conversations = [
        {"image": two, "conversations": talk("Is <image> larger than <image>?", "no")},
        {"image": two, "conversations": talk("<image>\n<image>\nSame?", "no")},
        {
            "image": two,
            "conversations": talk("What is this?\n<image>", "red", "<image>\nAnd this?", "blue"),
        },
        {
            "image": "P0",
            "conversations": [
                {"role": "user", "content": [{"type": "text", "text": "Why "}, {"type": "image"}]}
            ],
        },
    ]
    Path("t.json").write_text(json.dumps(conversations))
    for _ in range(2):  # the second knows the entry that the first has written
        code, _, error = small.command(
            capsys, "build", "t.json", "--images", "files", "--to", "made"
        )
        assert code == 0
    note = "t.json: 1 conversations show the images of later messages with the first one (record 3)"
    built = Benchmark(Path("made"))
    assert note in error and note in built.manifest.warnings
    asked = [[turn.question for turn in sample.rounds] for sample in built.samples()]
    assert sorted(asked) == [
        ["Is <image 1> larger than <image 2>?"],
        ["Same?"],
        ["What is this?", "And this?"],
        ["Why"],
    ]
    sn.evaluate("snellen:uniform", "./made", name="talk")
    assert (
        "choosing" not in Path("runs/talk/journal-0.jsonl").read_text()
    )  # as other open questions are asked
    for said, fault in (
        (("Is <image> it?", "no"), "1 marks <image>"),
        (("Hm?", "no", "Is <image> it?"), "a later message"),
    ):
        Path("t.json").write_text(json.dumps([{"image": two, "conversations": talk(*said)}] * 2))
        with pytest.raises(DataError, match=fault):
            sn.build("t.json", to="other", images="files")


def test_fields_of_an_object_are_known_again(capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.json").write_text(
        json.dumps(rows(image=name, fields=lambda n: {"company": f"{right(n)} Ltd", "total": n}))
    )
    for _ in range(2):
        code, _, error = small.command(
            capsys, "build", "t.json", "--images", "files", "--to", "made"
        )
        assert code == 0 and "fields  `fields`" in error and "not used" not in error


def test_annotations_are_told_from_questions() -> None:
    for colour in COLOURS:
        Path("photos", colour).mkdir(parents=True)
        Path("photos", colour, "1.png").write_bytes(picture(1))
    boxes = [{"id": n, "image_id": n, "category_id": 1, "bbox": [0, 0, 2, 2]} for n in range(COUNT)]
    images = [{"id": n, "file_name": name(n), "width": 8, "height": 6} for n in range(COUNT)]
    coco = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "dog"}]}
    Path("instances.json").write_text(json.dumps(coco))
    save(rows(filename=name, label=right), "labels.csv")
    save(rows(picture=name, caption="A picture in the sun."), "captions.csv")
    by_rows = {"form": "rows", "images": "files"}
    expected = {
        "photos": {"form": "class-folders", "images": "photos"},
        "instances.json": {"form": "coco", "file": "instances.json", "images": "files"},
        "labels.csv": {
            **by_rows,
            "file": "labels.csv",
            "columns": {"image": "filename", "label": "label"},
        },
        "captions.csv": {
            **by_rows,
            "file": "captions.csv",
            "columns": {"image": "picture", "caption": "caption"},
        },
    }
    for target, params in expected.items():
        recognition = recognise(target)
        assert (recognition.kind, recognition.reader, recognition.params) == (
            "annotations",
            "annotations",
            params,
        )
    for place in ("one/all/cat", "two/train/cat", "two/train/dog", "two/val/cat", "two/val/dog"):
        Path(place).mkdir(parents=True)
        Path(place, "1.png").write_bytes(picture(1))
    with pytest.raises(DataError, match=r"it holds 'all' with folders; name one: one/all"):
        recognise("one")
    assert recognise("two").params == {"form": "class-folders", "images": "two", "split": "val"}


def test_rare_columns_say_nothing_and_category_beside_name_is_asked() -> None:
    """As in emoji-datasource: `text` and `texts` are smileys of a few rows, and both others may be the class."""
    made = [
        {**row, "text": ":)" if n == 3 else None}
        for n, row in enumerate(rows(image=name, name=right) * 4)
    ]
    made = [
        {**row, "category": ("warm", "cold")[n % 2], "uses": {f"key {n}": "x"}}
        for n, row in enumerate(made)
    ]
    Path("icons.json").write_text(json.dumps(made))
    [doubt] = recognise("icons.json", TableSettings(as_annotations=True)).doubts
    assert doubt.line() == (
        "the columns 'category' and 'name' may all be the class that an image shows; say columns={'label': 'category'} or "
        "columns={'label': 'name'}"
    )
    columns = recognise(
        "icons.json", TableSettings(as_annotations=True, columns={"label": ["name"]})
    ).params["columns"]
    assert columns == {"image": "image", "label": "name", "attributes": {"category": "category"}}
    many = Doubt(
        "answer", tuple(f"c{n}" for n in range(200)), "no column is called like answers"
    ).line()
    assert many.endswith("columns={'answer': 'c5'} (or another of 200 columns)") and len(many) < 250


def test_pictures_that_are_called_what_they_show_are_taken_so_only_when_somebody_says_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("data").mkdir()
    for number, stem in enumerate(("red_fox-1", "red_fox-2", "owl", "grey seal", "0123")):
        Path("data", f"{stem}.png").write_bytes(picture(number))
    Path("data/README.txt").write_text("pictures of animals\n")
    code, _, err = small.command(capsys, "reform", "data")
    assert code == 2 and "if their names say what they show (grey seal, owl, red fox ...)" in err
    assert "say --column label=file-name" in err
    code, _, _ = small.command(
        capsys, "reform", "data", "--column", "label=file-name", "--to", "made"
    )
    assert code == 0
    built = Benchmark(Path("made"))
    assert {text for sample in built.samples() for text in sample.options} == {
        "red fox",
        "owl",
        "grey seal",
    }
    Path("data/labels.csv").write_text(
        "id,x\n1,2\n"
    )  # a table that nothing is known of: who made it meant something
    with pytest.raises(DataError, match=r"labels\.csv: no column"):
        recognise("data")


def test_rows_with_boxes_or_captions_of_the_same_picture_are_one() -> None:
    boxes = [
        {
            "filename": name(n % 4),
            "class": ("cat", "dog")[n // 4],
            "xmin": n,
            "ymin": 1,
            "xmax": n + 40,
            "ymax": 30,
        }
        for n in range(8)
    ]
    save(boxes, "boxes.csv")
    recognition = recognise("boxes.csv")
    assert recognition.params["columns"]["box"] == ["xmin", "ymin", "xmax", "ymax"]
    pictures, _ = read_pictures(read_params(recognition.params, Params), Path())
    assert [[thing.name for thing in one.objects] for one in pictures] == [["cat", "dog"]] * 4
    assert pictures[1].objects[1].box == (5.0, 1.0, 40.0, 29.0)
    assert not pictures[
        0
    ].is_exhaustive  # nobody says that all objects have a row: none is counted, or missing
    lines = [f"{name(n // 2)}| {n % 2}| picture {n} of the sun ." for n in range(8)]
    Path("results.csv").write_text("\n".join(["image_name| comment_number| comment", *lines]))
    captions = recognise("results.csv")
    pictures, _ = read_pictures(read_params(captions.params, Params), Path())
    assert [one.captions for one in pictures][1] == (
        "picture 2 of the sun .",
        "picture 3 of the sun .",
    )


def test_wrong_rows_are_refused_or_left_out_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    made = rows(img=name, question=question, answer=right)
    made[2]["img"], made[5]["question"] = "gone.png", ""
    save(made, "t.csv")
    with Path("t.csv").open("a") as file:
        file.write("p1.png,What?\n")
    code, _, err = small.command(capsys, "build", "t.csv")
    assert f"t.csv:{COUNT + 2}: 2 cells, but the header has 3 columns" in err
    assert (
        code == 2
        and "--lenient skips and counts them" in err
        and "t.csv:4: " in err
        and "t.csv:7: " in err
    )
    code, out, err = small.command(capsys, "build", "t.csv", "--lenient")
    assert (
        code == 0
        and f"{COUNT - 2} questions" in out
        and "note: 3 rows were skipped: t.csv:4: " in err
    )
    labels = rows(img=name, label=right)
    labels[1]["img"] = "gone.png"
    save(labels, "labels.csv")
    code, out, err = small.command(capsys, "reform", "labels.csv", "--lenient")
    assert code == 0 and "note: 1 rows were skipped" in err


def test_errors_name_rows_in_memory_by_their_numbers() -> None:
    row = {"question": "Which?", "choices": ["a", "b"], "answer": "a", "image": "files/p0.png"}
    for wrong, fault in (
        ({"question": ""}, "row 2: the question is empty"),
        (
            {"image": "files/no.png"},
            "row 2: cannot read the image files/no.png (No such file or directory)",
        ),
        ({"choices": ["a", None]}, "row 2: option 2 is null; write its text, or remove it"),
    ):
        with pytest.raises(DataError) as refused:
            sn.build([row, {**row, **wrong}], name="mine", to="made")
        assert str(refused.value) == fault
    with pytest.raises(
        DataError,
        match=r"^your rows: the answers in 'answer' name an option both as index0 and as",
    ):
        sn.build([{**row, "answer": 1}], name="mine", to="made")


def test_labels_in_memory_are_the_same_benchmark_each_time() -> None:
    rows = [
        {"image": Image.new("RGB", (8, 6), COLOURS[number]), "label": COLOURS[number]}
        for number in range(4)
    ]
    first, second = (sn.build(rows, name="labels", to=f"made-{number}") for number in (1, 2))
    assert next(iter(first.samples())).id == "1/class"
    assert first.manifest.version == second.manifest.version


# --- images from elsewhere, datasets of the hub ---------------------------------------------------------------------


def test_pictures_at_addresses_are_fetched_only_when_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("SNELLEN_DATA", str(Path("data").absolute()))
    with FileServer({f"p{n}.png": picture(n) for n in range(COUNT)}) as server:
        save(
            rows(image_url=lambda n: f"{server.url}/p{n}.png", question=question, answer=right),
            "t.csv",
        )
        with pytest.raises(
            DataError,
            match="are addresses, and nothing is fetched unless you say fetch_images=True",
        ):
            sn.build("t.csv", to="made")
        check_right(sn.build("t.csv", to="made", fetch_images=True))
        save(
            rows(
                image_url=lambda n: f"{server.url}/ä {n}.png?s=<{n}>",
                question=question,
                answer=right,
            ),
            "v.csv",
        )
        with pytest.raises(
            DataError, match=r"v.csv:2: http://.*/%C3%A4%200.png.s=%3C0%3E no longer exists \(404\)"
        ):
            sn.build("v.csv", to="third", fetch_images=True)
        save(rows(image_url="http://[::1/a.png", question=question, answer=right), "w.csv")
        with pytest.raises(DataError, match=r"w.csv:2: http://\[::1/a.png is not an address"):
            sn.build("w.csv", to="fourth", fetch_images=True)
        save(
            rows(
                image_url=lambda n: f"{server.url}/{n % 2 or 9}.png",
                question=question,
                answer=right,
            ),
            "u.csv",
        )
        with pytest.raises(DataError, match=r"u.csv:2: http.*9.png no longer exists \(404\)"):
            sn.build("u.csv", to="other", fetch_images=True)


@pytest.mark.parametrize(
    ("pause", "limit", "fault"),
    [
        (
            0,
            ("IMAGE_BYTES", 1e6),
            r"t.csv:2: http.*0.png has more than 1.0 MB; .*SNELLEN_LIMITS=10",
        ),
        (
            0,
            ("BUILD_BYTES", 1e6),
            r"^the downloads of this build has more than 1.0 MB; .*SNELLEN_LIMITS=10",
        ),
        (0.2, ("IMAGE_SECONDS", 1), r"t.csv:2: http.*0.png took more than 1 seconds"),
        (0.2, ("BUILD_SECONDS", 1), r"^the downloads of this build took more than 1 seconds"),
    ],
)
def test_images_at_addresses_are_fetched_within_limits(
    pause: float, limit: tuple[str, float], fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("SNELLEN_DATA", str(Path("data").absolute()))
    name, value = limit
    monkeypatch.setattr(f"snellen.fetching.image_urls.{name}", value)
    piece = b"x" if pause else bytes(1 << 16)
    with endless(piece=piece, pause=pause) as server:
        table = rows(image_url=lambda n: f"{server}/{n}.png", question=question, answer=right)
        save(table, "t.csv")
        with pytest.raises(DataError, match=fault):
            sn.build("t.csv", to="made", fetch_images=True)
    assert sum(path.stat().st_size for path in Path("data").rglob("*") if path.is_file()) < 20e6


def test_a_dataset_of_the_hub_is_built_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [
        {**row, "image": {"bytes": picture(n), "path": None}}
        for n, row in enumerate(rows(question=question, answer=right))
    ]
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(held), file)
    parts = {
        "data/test-00000-of-00001.parquet": file.getvalue(),
        "data/train-00000-of-00001.parquet": file.getvalue(),
    }
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    with HubServer({"org/colours": Repo(parts)}) as server:
        point_at(server, tmp_path, monkeypatch)
        with pytest.raises(
            DataError,
            match=r"which table. Name one of hf://org/colours:test, hf://org/colours:train$",
        ):
            sn.build("hf://org/colours", to="made")
        train = sn.build("hf://org/colours:train")
        built = sn.build("hf://org/colours:test", to="made")
    check_right(built)
    assert (built.name, train.name) == ("colours-test", "colours-train")
    assert built.manifest.build_info.origin.startswith("hf://org/colours:test@")


def split_rows(first: int, count: int) -> pa.Table:
    held = []
    for number in range(first, first + count):
        image = {"bytes": picture(number), "path": None}
        held.append({"image": image, "question": f"Number {number}?", "answer": str(number)})
    return pa.Table.from_pylist(held)


def test_a_dataset_in_a_local_folder_is_built_split_by_split_under_the_name_of_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "birds/data"
    data.mkdir(parents=True)
    (data.parent / "README.md").write_text("---\nconfigs:\n- config_name: default\n---\n# Birds\n")
    pq.write_table(split_rows(0, 3), data / "train-00000-of-00002.parquet")
    pq.write_table(split_rows(3, 3), data / "train-00001-of-00002.parquet")
    code, _, _ = small.command(capsys, "build", "birds")
    assert code == 0 and sn.load_benchmark("birds").to_pandas().shape[0] == 6

    pq.write_table(split_rows(6, 2), data / "test-00000-of-00001.parquet")
    code, _, err = small.command(capsys, "build", "birds")
    assert code == 2
    assert err == "snellen: birds: which table? Name one of birds:test, birds:train\n"
    for target in ("birds:test", "birds:test"):  # the second time by the entry that the first wrote
        code, out, err = small.command(capsys, "build", target)
        assert code == 0 and "built birds-test version" in out and "2 questions" in out
    assert err.startswith("birds:test: as birds-test.toml says")
    assert sn.build("birds:train").count() == 6
    with pytest.raises(
        DataError, match=r"^birds:dev: which table\? Name one of birds:test, birds:tr"
    ):
        sn.build("birds:dev")

    # The current folder has a name, too.
    (data / "test-00000-of-00001.parquet").unlink()
    monkeypatch.chdir("birds")
    assert sn.build(".", to="made").name == "birds"


def images_with_metadata(folder: Path, *, name: str = "metadata.csv") -> None:
    """Write two images and the table beside them that `imagefolder` of `datasets` expects."""
    folder.mkdir(parents=True)
    rows = []
    for number in range(2):
        (folder / f"{number}.png").write_bytes(picture(number))
        rows.append(
            {"file_name": f"{number}.png", "question": f"Number {number}?", "answer": f"n{number}"}
        )
    table = polars.DataFrame(rows)
    if name.endswith(".csv"):
        table.write_csv(folder / name)
    else:
        table.write_ndjson(folder / name)


@pytest.mark.parametrize("place", ["birds", "birds/train", "birds/data/train"])
def test_a_folder_of_images_with_metadata_is_called_after_the_folder(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    images_with_metadata(Path(place), name="metadata.jsonl")
    for _ in range(2):  # the second time by the entry that the first wrote
        code, out, err = small.command(capsys, "build", "birds")
        assert code == 0 and "built birds version" in out and "2 questions, 2 images" in out
    assert "as birds.toml says" in err


def test_the_splits_of_a_folder_of_images_with_metadata_are_told_apart() -> None:
    images_with_metadata(Path("birds/train"))
    images_with_metadata(Path("birds/test"))
    with pytest.raises(DataError, match=r"which table\? Name one of birds:test, birds:train$"):
        sn.build("birds")
    assert sn.build("birds:test").name == "birds-test"
    assert sn.build("birds:train").name == "birds-train"
    images_with_metadata(Path("languages/de"))
    images_with_metadata(Path("languages/en"))
    assert sn.build("languages:en").name == "languages-en"


def test_a_split_of_class_folders_is_named_like_that_of_a_table() -> None:
    for split, count in (("train", 3), ("val", 2)):
        for label in ("cat", "dog"):
            folder = Path("pets", split, label)
            folder.mkdir(parents=True)
            for number in range(count):
                (folder / f"{number}.png").write_bytes(
                    picture(number + 10 * len(split) + 100 * (label == "dog"))
                )
    train = sn.build("pets:train")
    assert train.name == "pets-train" and train.count() == 6
    assert sn.build("pets").count() == 4  # of the split val
    with pytest.raises(DataError, match=r"which table\? Name one of pets:train, pets:val$"):
        sn.build("pets:test")


def test_the_configs_of_a_dataset_in_a_local_folder_are_told_apart(tmp_path: Path) -> None:
    for config, first in (("en", 0), ("de", 5)):
        Path("birds", config).mkdir(parents=True)
        pq.write_table(split_rows(first, 2), Path("birds", config, "test-00000-of-00001.parquet"))
    with pytest.raises(DataError, match=r"which table\? Name one of birds/de:test, birds/en:test$"):
        sn.build("birds")
    built = sn.build("birds/de:test")
    assert built.name == "de"
    assert [sample.question for sample in built.samples()] == ["Number 5?", "Number 6?"]


def test_parquet_files_that_are_not_called_after_splits_are_one_table(tmp_path: Path) -> None:
    Path("birds").mkdir()
    for part in range(2):
        pq.write_table(split_rows(2 * part, 2), f"birds/part-{part}.parquet")
    assert (sn.build("birds").name, sn.build("birds").count()) == ("birds", 4)


def test_a_saved_dataset_dict_is_built_split_by_split(tmp_path: Path) -> None:
    rows_by_split = {}
    for split, count in (("train", 3), ("test", 2)):
        held = [{"question": f"Is it {n}?", "answer": "yes"} for n in range(count)]
        rows_by_split[split] = datasets.Dataset.from_list(held)
    datasets.DatasetDict(rows_by_split).save_to_disk("saved")
    with pytest.raises(DataError, match=r"which table\? Name one of saved:test, saved:train$"):
        sn.build("saved", no_images=True)
    built = sn.build("saved:test", no_images=True)
    assert (built.name, built.count()) == ("saved-test", 2)


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_says_what_it_takes_and_the_next_build_does_as_the_entry_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    save(rows(Foto=name, Frage=question, x=right, Thema="Farbe"), "fragen.csv")
    code, _, err = small.command(capsys, "build", "fragen.csv", "--column", "answer=x")
    assert (
        code == 0
        and "`Foto` (file names)" in err
        and "tag  `Thema`" in err
        and "saved to fragen.toml" in err
    )
    code, out, err = small.command(capsys, "build", "fragen.csv")
    assert code == 0 and err.splitlines() == [
        "fragen.csv: as fragen.toml says",
        "next: `snellen run MODEL fragen`; `snellen pack fragen --answers` makes one file of it for a colleague",
    ]
    version = out.split("version ")[1].split(":")[0]
    code, out, _ = small.command(capsys, "build", "fragen.toml")
    assert code == 0 and version in out
    code, _, err = small.command(capsys, "build", "fragen.csv", "--column", "tag=Thema")
    assert (
        code == 0
        and tomllib.loads(Path("fragen.toml").read_text())["source"]["params"]["columns"].items()
        >= {"tag": ["Thema"], "answer": "x"}.items()
    )
    save(rows(Foto=name, Question=question, x=right), "fragen.csv")
    code, _, err = small.command(capsys, "build", "fragen.csv")
    assert (
        code == 2
        and "no row has the column 'Frage', which the entry names as question" in err
        and err.count("\n") == 2
    )
    assert "to have them recognised; the columns are Foto, Question, x" in err
    save(rows(Foto=name, Fragen=question, x=right), "fragen.csv")
    code, _, err = small.command(capsys, "build", "fragen.csv")
    assert code == 2 and "to have them recognised; did you mean Fragen?" in err


def test_a_choice_is_offered_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("snellen.cli.show.error_console._force_terminal", True)
    monkeypatch.setattr("click.getchar", lambda: "2")
    assert (
        ask_user(Path("t.csv"), Doubt("answer_is", ("index0", "index1"), "two forms fit"))
        == "index1"
    )
    assert "1  number of an option from 0" in capsys.readouterr().err.replace(
        "\x1b[1;36m", ""
    ).replace("\x1b[0m", "")


@pytest.mark.usefixtures("own_home")
def test_an_entry_in_another_folder_is_built_from_where_one_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("own").mkdir()
    Path("files").rename("own/pictures")
    save(
        rows(img=name, question=question, A="red", B="blue", answer=lambda n: "AB"[n % 2]),
        "own/t.csv",
    )
    first = small.command(
        capsys, "build", "own/t.csv", "--images", "own/pictures", "--name", "mine"
    )
    assert first[0] == 0 and "saved to own/mine.toml" in first[2]
    assert (
        tomllib.loads(Path("own/mine.toml").read_text())["source"]["params"]["images"] == "pictures"
    )
    assert small.command(capsys, "build", "own/mine.toml")[:2] == first[:2]


def test_columns_that_are_tags_by_their_names_are_said_and_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cells = {
        "tag_kind": "round",
        "tag_level": lambda n: ("easy", "hard")[n % 2],
        "answer_tag_why": "seen",
    }
    save(rows(img=name, question=question, A="red", B="blue", answer="A", **cells), "t.csv")
    code, _, err = small.command(capsys, "build", "t.csv")
    assert code == 0
    assert (
        "  tag  `tag_kind` `tag_level`                      answer tag  `answer_tag_why`\n" in err
    )
    assert tomllib.loads(Path("t.toml").read_text())["source"]["params"]["columns"]["tag"] == [
        "tag_kind",
        "tag_level",
    ]
    tags = {"kind": {"round": COUNT}, "level": {"easy": COUNT // 2, "hard": COUNT // 2}}
    assert sn.build("t.toml", to="made").manifest.tags == tags


def test_an_entry_is_never_written_over_something_else(capsys: pytest.CaptureFixture[str]) -> None:
    save(rows(img=name, question=question, answer=right), "t.csv")
    Path("t.toml").write_text(
        'name = "other"\ntitle = "Other"\nformulation = "text"\n[source]\nreader = "table"\n'
    )
    code, _, err = small.command(capsys, "build", "t.csv")
    assert (
        code == 2
        and "t.toml is the entry of another table; give this one another name: `snellen build t.csv --name t-csv`"
        in err
    )
    assert 'name = "other"' in Path("t.toml").read_text()


def test_open_questions_become_multiple_choice_where_that_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    save(rows(img=name, question=question, answer=right), "t.csv")
    code, _, _ = small.command(
        capsys, "build", "t.csv", "--options", "3", "--distractors", "pool", "--to", "made"
    )
    assert code == 0
    built = Benchmark(Path("made"))
    assert {len(sample.options) for sample in built.samples()} == {3}
    check_right(built)
    save(rows(img=name, question=question, A="red", B="x", answer="A"), "u.csv")
    for flags in (("--options", "3"), ("--distractors", "pool"), ("--writer", "snellen:uniform")):
        code, _, err = small.command(capsys, "build", "u.csv", *flags)
        assert (
            code == 2
            and "make options for open questions, and these have options of their own" in err
        )
    assert sn.build("t.csv", to="other", options=4, distractors="pool").count() == COUNT


def test_pictures_in_terminals() -> None:
    assert terminal_of({"KITTY_WINDOW_ID": "1"}) == "kitty"
    assert terminal_of({"TERM_PROGRAM": "iTerm.app"}) == "iterm"
    assert terminal_of({"TERM": "xterm"}) == ""
    content = picture(1) * 60
    assert base64.b64encode(content).decode() in image_code(content, "iterm")
    sent = image_code(content, "kitty")
    pieces = [part.partition(";")[2] for part in sent.split("\033\\")[:-1]]
    assert base64.b64decode("".join(pieces)) == content and max(map(len, pieces)) <= 4096


def test_a_benchmark_built_into_the_folder_of_its_images_is_built_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("cat", "dog"):
        Path("photos", name).mkdir(parents=True)
        for n in range(3):
            shutil.copy(Path("files", f"p{n}.png"), Path("photos", name, f"{n}.png"))
    versions: set[str] = set()
    for _ in range(2):
        code, _, error = small.command(capsys, "build", "photos", "--to", "photos/made")
        assert code == 0, error
        versions.add(Benchmark(Path("photos/made")).manifest.version)
    assert len(versions) == 1


def test_classes_that_the_user_removes_leave_open_questions_by_typed_match(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = ["question\tanswer"]
    for number in range(12):
        lines.append(f"What colour is {number}?\t{'red' if number % 2 else 'green'}")
    Path("colours.tsv").write_text("\n".join(lines))
    assert small.command(capsys, "build", "colours.tsv", "--no-images")[0] == 0
    entry = Path("colours.toml").read_text()
    before, _, after = entry.partition("classes = [")
    assert "green" in after
    Path("open.toml").write_text(before.replace('"colours"', '"open"') + after.partition("]\n")[2])
    spec = sn.build("open.toml").spec
    assert (spec.formulation, spec.metrics[0]) == ("text", "typed_match")

    def in_sentences(question: str, images: Sequence[Any]) -> str:
        return "The answer is green (a)."

    results = sn.evaluate(in_sentences, "open", report=False)
    # By hand: 6 of the 12 answers are green.
    assert results.value("typed_match") == 0.5


def test_an_entry_whose_questions_list_their_options_stays_a_choice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows: list[dict[str, str]] = []
    for number in range(12):
        asked = f"What colour is {number}?\nA. green\nB. red\nC. blue"
        rows.append({"question": asked, "answer": "ABC"[number % 3]})
    Path("listed.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert small.command(capsys, "build", "listed.jsonl", "--no-images")[0] == 0
    spec = sn.build("listed.toml").spec
    assert (spec.formulation, spec.metrics) == ("choice", ())


def test_images_that_a_parquet_or_arrow_file_only_names_are_found_in_their_folder() -> None:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    cells = [{"bytes": None, "path": name(number)} for number in range(COUNT)]
    table = {
        "image": pa.array(cells, kind),
        "question": [question(number) for number in range(COUNT)],
        "answer": [right(number) for number in range(COUNT)],
    }
    pq.write_table(pa.table(table), "names.parquet")
    with pa.ipc.new_stream("names.arrow", pa.table(table).schema) as writer:
        writer.write_table(pa.table(table))
    Path("pictures").mkdir()
    for number in range(COUNT):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(Path("pictures", name(number)))
    for file in ("names.parquet", "names.arrow"):
        built = sn.build(file, images="pictures", name=file.replace(".", "-"))
        assert built.count() == built.manifest.counts.images == COUNT
        assert [sample.question for sample in built.samples()] == table["question"]
