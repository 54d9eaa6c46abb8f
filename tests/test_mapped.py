"""Data sets by TOML alone: IconQA, and what the declarative reader refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reform
import small
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.common.drafts import Draft
from snellen.errors import DataError
from snellen.readers.mapped import read
from snellen.readers.mapped.templates import FieldError, Template

FIELDS = {"question": "text", "choices": ["text"], "answer": "integer", "grade": "text?"}
MAPPING = {"id": "{@row}", "question": "{question}", "options": "{choices}", "answer": "{answer}"}


def icon_qa(folder: Path) -> Path:
    """Twelve questions with two to five options; `10` comes behind `9`."""
    for number in range(12):
        options = [f"{place} stars" for place in range(2 + number % 4)]
        record = {
            "question": f"How many stars are there, {number}?",
            "choices": options,
            "answer": number % len(options),
            "ques_type": "choose_txt",
            "grade": "grade1",
            "label": "S2",
        }
        reform.write_json(
            folder / "iconqa" / "test" / "choose_txt" / str(number) / "data.json", record
        )
        reform.write_picture(
            folder / "iconqa" / "test" / "choose_txt" / str(number) / "image.png", number
        )
    return folder


def test_iconqa_goes_through_build_run_and_score(tmp_path: Path) -> None:
    benchmark = build_benchmark(
        entries()["lvlm-ehub/icon-qa"], source=icon_qa(tmp_path / "files"), to=tmp_path / "built"
    )
    samples = list(benchmark.samples())
    assert [sample.id for sample in samples] == [str(number) for number in range(12)]
    assert benchmark.manifest.counts.images == 12 and samples[3].tags == {"grade": "grade1"}
    golds = reform.golds(benchmark)
    assert [golds[str(number), 0] for number in range(12)] == [
        f"{number % (2 + number % 4)} stars" for number in range(12)
    ]
    reform.holds_together(benchmark, tmp_path / "runs")


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"answer": 3', '"answer": 5', r"choose_txt/3/data.json: answer 5 but choices are 0-4"),
        (
            '"answer": 3',
            '"answer": "3"',
            r"choose_txt/3/data.json: Expected `int`, got `str` - at `\$.answer`",
        ),
        (
            '"question"',
            '"quest"',
            r"choose_txt/3/data.json: Object missing required field `question`",
        ),
        ('"How many stars are there, 3?"', '" "', r"choose_txt/3/data.json: question is empty"),
        ('"0 stars"', '""', r"choose_txt/3/data.json: option 0 is empty"),
        ('"0 stars"', '"1 stars"', r"choose_txt/3/data.json: the option '1 stars' appears twice"),
        ("}", "", r"choose_txt/3/data.json: .*is the download complete"),
    ],
)
def test_a_broken_record_of_iconqa_is_refused_with_its_file(
    old: str, new: str, fault: str, tmp_path: Path
) -> None:
    source = icon_qa(tmp_path / "files")
    reform.broken(source / "iconqa" / "test" / "choose_txt" / "3" / "data.json", old, new)
    with pytest.raises(DataError, match=fault):
        build_benchmark(entries()["lvlm-ehub/icon-qa"], source=source, to=tmp_path / "built")
    assert not (tmp_path / "built").exists()


def test_a_missing_picture_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    source = icon_qa(tmp_path / "files")
    (source / "iconqa" / "test" / "choose_txt" / "3" / "image.png").unlink()
    with pytest.raises(
        DataError, match=r"choose_txt/3/data.json: cannot read the image .*choose_txt/3/image.png"
    ):
        build_benchmark(entries()["lvlm-ehub/icon-qa"], source=source, to=tmp_path / "built")
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        DataError, match="test/choose_txt or choose_txt is missing; is this the folder"
    ):
        build_benchmark(
            entries()["lvlm-ehub/icon-qa"], source=tmp_path / "empty", to=tmp_path / "built"
        )


def drafts(folder: Path, rows: list[dict[str, Any]], **params: Any) -> list[Draft]:
    small.write(rows, folder / "rows.jsonl")
    records = {"file": ["rows.jsonl"], "fields": FIELDS, **params.pop("records", {})}
    return list(
        read({"id": "{question}", "question": "{question}", "records": records, **params}, folder)
    )


ROWS: list[dict[str, Any]] = [
    {
        "question": f"{number}?",
        "choices": ["yes", "no"],
        "answer": number % 2,
        "grade": "ab"[number % 2],
    }
    for number in range(4)
]


@pytest.mark.parametrize(
    ("params", "fault"),
    [
        (
            {"question": "{quest}"},
            r"^source.params: the template '\{quest\}': unknown field 'quest'; did you mean question\?",
        ),
        (
            {"records": {"fields": {**FIELDS, "choics": "text"}}},
            r"l:1: .* `choics`; did you write it as choices\?",
        ),
        (
            {"records": {"fields": {**FIELDS, "xyz": "text"}}},
            "`xyz`; it has question, choices, answer, grade",
        ),
        ({"question": "{question:strap}"}, "unknown transform 'strap'; did you mean strip?"),
        ({"question": "{question"}, "has a brace without its other one"),
        ({"question": "{question[}"}, "is not a field of a record"),
        ({"keep": "grde == 'a'"}, "unknown field 'grde'; did you mean grade?"),
        ({"keep": "grade == 'z'"}, "no record meets \"grade == 'z'\"; is this the right file"),
        ({"options": "{choices}!", "answer": "{answer}"}, "is not a field with a list"),
        ({"leave_out": [{"why": "x"}]}, "leave_out 'x': give one of when, empty, same and matches"),
        (
            {"records": {"fields": {**FIELDS, "grade": "txt"}}},
            "grade = 'txt' is not a type; a type is text, integer",
        ),
        ({"images": "x"}, "unknown field 'images'; did you mean image"),
        ({"answer": "{choices[answer]}", "options": {"yes": "Yes"}}, "'no' is none of yes"),
        ({"each": ["choices", "question"]}, "each: 'question' is not a field with a list"),
        (
            {"gather": "grade"},
            "gather: the field 'grade' may be left out; take the . from its type",
        ),
    ],
)
def test_a_mapping_that_does_not_fit_is_refused_in_one_line(
    params: dict[str, Any], fault: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=fault) as told:
        drafts(tmp_path, ROWS, **params)
    assert "\n" not in str(told.value)


def test_answers_may_be_an_index_a_letter_a_text_or_a_label(tmp_path: Path) -> None:
    rows = [
        {**row, "letter": "AB"[row["answer"]], "text": row["choices"][row["answer"]]}
        for row in ROWS
    ]
    fields = {"records": {"fields": {**FIELDS, "letter": "text", "text": "text"}}}
    told = (
        {"options": "{choices}", "answer": "{answer}"},
        {"options": "{choices}", "answer": "{letter}", "answer_is": "letter"},
        {"options": ["{choices[0]}", "{choices[1]}"], "answer": "{text}", "answer_is": "text"},
        {"options": {"A": "yes", "B": "no"}, "answer": "{letter}"},
    )
    questions = [
        [draft.rounds[0] for draft in drafts(tmp_path, rows, **way, **fields)] for way in told
    ]
    assert questions[0] == questions[1] == questions[2] == questions[3]
    assert [question.gold for question in questions[0]] == [(0,), (1,), (0,), (1,)]


def test_what_is_left_out_is_counted_and_what_should_have_been_is_told(tmp_path: Path) -> None:
    rules = [
        {"when": "grade == 'b'", "why": "of grade b"},
        {"matches": ["{question}", "never"], "why": "never", "none_met": "no question says never"},
    ]
    found = drafts(tmp_path, ROWS, answer="{choices[answer]}", leave_out=rules)
    assert [draft.id for draft in found] == ["0?", "2?"]
    assert found[-1].notes == (
        "rows.jsonl: 2 skipped: of grade b",
        "rows.jsonl: no question says never",
    )


def test_distractors_come_from_pools_the_nearest_first(tmp_path: Path) -> None:
    found = drafts(
        tmp_path,
        ROWS,
        answer="{question}",
        distractors={"pools": ["{grade}", ""], "fillers": ["Not sure"]},
    )
    spec = found[1].rounds[0].distractors
    assert (
        spec
        and spec.tiers == (("1?", "3?"), ("0?", "1?", "2?", "3?"))
        and spec.fillers == ("Not sure",)
    )


@given(st.text(min_size=1), st.integers(0, 10**12))
def test_a_template_keeps_what_stands_around_its_fields(text: str, number: int) -> None:
    template = Template("<{a}|{n:012d}>", {"a": "text?", "n": "integer"})
    kept = "" if text.isspace() else text
    assert template.fill({"a": text, "n": number}) == f"<{kept}|{number:012d}>"


def test_a_path_past_the_end_of_a_list_has_no_value() -> None:
    template = Template("{answers.1.text}", {"answers": ["object"]})
    assert template.fill({"answers": [{"text": "first"}, {"text": "second"}]}) == "second"
    with pytest.raises(FieldError, match=r"answers\.1\.text is empty"):
        template.fill({"answers": [{"text": "first"}]})


def test_of_two_files_of_the_same_questions_the_one_that_can_be_read_is_read_and_said(
    tmp_path: Path,
) -> None:
    """As in LVLM-eHub's folder of POPE, where `coco_pope_random.json` is a list cut in lines."""
    fields = {"ask": "text"}
    layouts = [
        {"records": {"file": ["asked.json"], "form": "lines", "fields": fields}},
        {"records": {"file": ["asked1.json"], "fields": fields}},
    ]
    params = {"id": "{ask}", "question": "{ask}", "answer": "yes", "layouts": layouts}
    reform.write_json(tmp_path / "asked1.json", [{"ask": "Is it there?"}, {"ask": "And here?"}])
    (tmp_path / "asked.json").write_text('[{"ask": "Is it there?"},\n{"ask": "And here?"}]\n')
    first, second = read(params, tmp_path)
    assert (first.rounds[0].question, second.notes) == ("Is it there?", ())
    assert first.notes[0].startswith(
        "asked1.json is read, as another file of the same questions cannot be: "
    )
    (tmp_path / "asked.json").write_text('{"ask": "Is this a line?"}\n')
    [only] = read(params, tmp_path)
    assert (only.rounds[0].question, only.notes) == ("Is this a line?", ())
    for name in ("asked.json", "asked1.json"):
        (tmp_path / name).write_text("spoilt")
    with pytest.raises(DataError, match=r"asked\.json"):
        list(read(params, tmp_path))
