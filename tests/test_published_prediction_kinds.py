"""Kinds of published prediction files, each as a small invented sibling with the number that follows from its rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import snellen as sn
from snellen.common.paths import slug
from snellen.errors import DataError
from snellen.extraction.asked_reply import AskedReply
from snellen.extraction.yes_no import breaks_off
from snellen.interchange.predictions.several_answers import places_named
from snellen.interchange.predictions.shown_options import ShownOptions
from snellen.interchange.predictions.tables import prediction_rows, recognise_predictions
from snellen.interchange.predictions.taking import FileReading, import_runs, taken_files
from snellen.metrics.hallucination import read_yes_no
from snellen.metrics.ocr import word_error_counts
from snellen.report.findings import findings, sentences
from snellen.report.model_numbers import model_numbers
from snellen.report.reported_runs import prepare_reported_runs

N = 40


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_lines(name: str, rows: Sequence[Any]) -> Path:
    path = Path(name)
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    return path


def first_sentence(path: Path) -> str:
    results = sn.score(path)
    return findings(prepare_reported_runs(results.runs, results.rows))[0]


# --- verdicts that contradict the headline --------------------------------------------------------------------------


@pytest.mark.parametrize(("judged_right", "is_said"), [(0.8, True), (0.45, False), (1.0, False)])
def test_verdicts_far_from_the_reading_of_a_choice_are_in_the_first_sentence(
    judged_right: float, is_said: bool
) -> None:
    rows = [
        {
            "question": f"What is thing {n}?",
            "options": [f"cup {n}", f"jug {n}", f"pan {n}", f"pot {n}"],
            "answer": "ABCD"[n % 4],
            "response": "ABCD"[n % 4 if n % 5 < 2 else (n + 1) % 4],
            "correct": n < judged_right * N,
        }
        for n in range(N)
    ]
    sentence = first_sentence(write_lines("choices.jsonl", rows))
    assert "answers 40.0% of the questions correctly" in sentence
    assert (f"but {judged_right:.1%} by the file's own verdicts" in sentence) == is_said


# --- a column for each model -----------------------------------------------------------------------------------------

THINGS = ("red kite", "blue lamp", "old boat", "tall tree", "grey stone")
PAINTINGS = ("The Scream", "Guernica", "Sunflowers", "The Night Watch", "Water Lilies")


def answered_by(step: int) -> list[str]:
    """What a model says that is wrong on one in `step` paintings."""
    return [PAINTINGS[(n + (n % step == 0)) % 5] for n in range(N)]


@pytest.mark.parametrize(
    ("gold", "first", "second"),
    [
        ("answer", "GPT4V", "Gemini Pro"),
        ("ground_truth", "GPT4V_answer", "Gemini Pro_answer"),
        ("ground_truth", "baseline_prediction", "finetuned_prediction"),
        ("answer", "pred_vitb", "pred_vitl"),
        ("answer", "ours", "Random"),
        ("correct_answer", "resnet50-vqa", "clip_linear"),
    ],
)
def test_each_column_of_a_model_is_a_run(gold: str, first: str, second: str) -> None:
    rows: list[dict[str, Any]] = []
    for n, said in enumerate(zip(answered_by(4), answered_by(2), strict=True)):
        asked = {"image": f"{n}.jpg", "question": "Which painting is it?", "artist": f"Painter {n}"}
        rows.append({**asked, gold: PAINTINGS[n % 5], first: said[0], second: said[1]})
    runs = import_all(write_lines("paintings.jsonl", rows))
    assert [run.name.partition("-")[2].partition("-")[2] for run in runs] == [
        slug(first),
        slug(second),
    ]
    assert [sn.score(run).value() for run in runs] == [0.75, 0.5]


def import_all(path: Path) -> list[Path]:
    return import_runs([path], FileReading())


def test_options_and_kinds_of_answers_are_no_models() -> None:
    with_options = [
        {
            "stem": f"Which is {n}?",
            **{f"op{letter}": PAINTINGS[(n + place) % 5] for place, letter in enumerate("abcd")},
            "cop": n % 4,
            "raw_output": f"I say {'ABCD'[n % 4]}.",
            "final_output": "ABCD"[n % 4],
        }
        for n in range(N)
    ]
    [run] = import_all(write_lines("options.jsonl", with_options))
    assert sn.score(run).value() == 1.0
    unanswered = [
        {name: cell for name, cell in row.items() if not name.endswith("output")}
        for row in with_options
    ]
    with pytest.raises(DataError, match="no column is recognised as the replies"):
        import_all(write_lines("unanswered.jsonl", unanswered))


def test_verdicts_far_from_the_numbers_of_several_models_are_in_the_first_sentence() -> None:
    rows = [
        {
            "question": f"Is there a jar on table {n}?",
            "gt": ("yes", "no")[n % 2],
            "large_pred": ("yes", "no")[n % 2],
            "large_correct": int(n % 10 == 0),
            "small_pred": ("no", "yes")[n % 2],
            "small_correct": 0,
        }
        for n in range(N)
    ]
    runs = import_all(write_lines("tables.jsonl", rows))
    scored = [sn.score(run) for run in runs]
    reported_runs = [
        reported_run
        for results in scored
        for reported_run in prepare_reported_runs(results.runs, results.rows)
    ]
    numbers = [number for reported_run in reported_runs for number in model_numbers(reported_run)]
    [first, *_] = sentences(numbers, {})
    assert "large_pred 10.0% (here 100.0%)" in first
    assert "small_pred" not in first


def test_flags_are_no_replies_of_models() -> None:
    rows = [
        {"case": f"c{n}", "gold": ("true", "false")[n % 2], "is_control": n % 3 == 0, "ok": n < 9}
        for n in range(N)
    ]
    with pytest.raises(DataError, match="no column is recognised as the replies"):
        sn.score(write_lines("flags.jsonl", rows))


# --- layouts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["{kind}_{field}", "{field}_{kind}"])
def test_fields_side_by_side_are_a_question_each(name: str) -> None:
    fields = ("total", "date", "shop_name")
    rows: list[dict[str, Any]] = []
    for n in range(N):
        row: dict[str, Any] = {"image": f"{n}.png", "reply": json.dumps({"total": n})}
        for place, field in enumerate(fields):
            row[name.format(kind="gt", field=field)] = f"{field} {n}"
            if n % 10 != 1:  # the model gave no reply
                right = n % 4 or place
                row[name.format(kind="pred", field=field)] = f"{field} {n}" if right else "none"
        rows.append(row)
    results = sn.score(write_lines("receipts.jsonl", rows))
    assert results.value() == pytest.approx(1 - (10 + 4 * 3) / (3 * N))


def test_an_answer_and_its_explanation_are_no_fields() -> None:
    rows = [
        {
            "question": f"What is {n}?",
            "gt_answer": THINGS[n % 5],
            "gt_explanation": "it is",
            "pred_answer": THINGS[(n + (n % 4 == 0)) % 5],
            "pred_explanation": "I see it",
        }
        for n in range(N)
    ]
    assert sn.score(write_lines("explained.jsonl", rows)).value() == 0.75


def test_fields_beside_an_answer_leave_its_question() -> None:
    rows = [
        {
            "question": f"What is {n}?",
            "reference_answer": THINGS[n % 5],
            "reference_reasoning": f"it has ears {n}",
            "reference_id": f"r{n}",
            "model_answer": THINGS[(n + (n % 4 == 0)) % 5],
            "model_reasoning": f"because {n}",
            "model_id": f"m{n}",
        }
        for n in range(N)
    ]
    assert len(list(prediction_rows(write_lines("reasoned.jsonl", rows)))) == N


@pytest.mark.parametrize("name", ["{kind}_{corner}", "{corner}_{kind}"])
def test_corners_side_by_side_are_one_box(name: str) -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        row: dict[str, Any] = {"image": f"{n}.png", "question": "the red car"}
        box = {"x1": 10 + n % 7, "y1": 20, "x2": 60, "y2": 70}
        for corner, pixel in box.items():
            row[name.format(kind="gt", corner=corner)] = pixel
            row[name.format(kind="pred", corner=corner)] = pixel + (3 if n % 4 else 60)
        rows.append(row)
    results = sn.score(write_lines("boxes.jsonl", rows))
    assert results.value() == 0.75
    assert results.rows[0].n == N


def test_a_first_row_in_place_of_a_header_keeps_its_numbers() -> None:
    lines = [f"{n}.jpg\tIs it exit (2)\tYes\t{('Yes', 'No')[n % 4 == 0]}" for n in range(N)]
    path = Path("exits.tsv")
    path.write_text("\n".join(lines) + "\n")
    [first, second, *_] = prediction_rows(path)
    assert first.cells["question"] == second.cells["question"] == "Is it exit (2)"
    path.write_text(
        path.read_text().replace("0.jpg\tIs it exit (2)\tYes\tNo", "0.jpg\tExit?\tYes\tYes")
    )
    [first, *_] = prediction_rows(path)
    assert (first.cells["answer"], first.cells["prediction"]) == ("Yes", "Yes")


@pytest.mark.parametrize("is_image_first", [True, False])
def test_a_table_whose_header_names_an_image_has_none(is_image_first: bool) -> None:
    lines: list[str] = []
    for n in range(N):
        gold = ("Yes", "No")[n % 2]
        said = gold if n % 4 else "No"
        place = [f"{n // 2:06}.jpg", f"Is there a cat in image {n // 2}, or {n % 2}?"]
        lines.append("\t".join([*(place if is_image_first else place[::-1]), gold, said]))
    path = Path("existence.txt")
    path.write_text("\n".join(lines) + "\n")
    results = sn.score(path)
    assert results.value() == 0.75
    assert results.rows[0].estimate.n == N


def test_questions_that_are_keys_of_objects_are_rows() -> None:
    records = {
        f"coco_{image}": {
            "tifa_score": 0.5,
            "question_details": {
                f"is there a dog in {image}, {n}?": {
                    "choices": ["yes", "no"],
                    "answer": "yes",
                    "element_type": "animal",
                    "prediction": ("yes", "no")[n % 2 * (image % 2)],
                }
                for n in range(4)
            },
        }
        for image in range(10)
    }
    path = Path("tifa.json")
    path.write_text(json.dumps(records))
    results = sn.score(path)
    assert results.value() == 0.75
    assert results.rows[0].estimate.n == 40


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "sums.json",
            json.dumps(
                {"time": "noon", "conditions": {"clean": {"ious": [0.1, 0.5], "mean": 0.3}}}
            ),
            r"not a list of questions, but one object without rows .*'time', 'conditions'",
        ),
        (
            "cases.csv",
            "variant,case,chrf,rouge_l\n" + "".join(f"rag,c{n},0.{n},0.1\n" for n in range(1, 9)),
            r"scores of replies \('chrf', 'rouge_l'\), and neither these nor right answers",
        ),
    ],
)
def test_scores_without_replies_are_called_so(name: str, content: str, words: str) -> None:
    Path(name).write_text(content)
    with pytest.raises(DataError, match=words):
        sn.score(name)


# --- right answers ---------------------------------------------------------------------------------------------------


def test_captions_beside_predictions_are_their_references() -> None:
    rows = [
        {
            "image": f"{image}.jpg",
            "caption": f"{color} {thing} lies on the grass {number}",
            "prediction": f"{color} thing on the grass",
        }
        for image, (color, thing) in enumerate(
            (color, thing) for color in ("a red", "a blue") for thing in ("ball", "kite", "hat")
        )
        for number in range(5)
    ]
    [taken] = taken_files(write_lines("captions.json", rows), FileReading())
    assert taken.file.metrics[0] == "cider"
    assert [len(row.references) for row in taken.file.rows] == [5] * 6


@pytest.mark.parametrize(("words", "metric"), [(7, "rouge_l"), (2, "typed_match")])
def test_sentences_that_no_reply_repeats_are_long_texts(words: int, metric: str) -> None:
    rows = [
        {
            "id": n,
            "question": f"What is the matter with patient {n}?",
            "reference": " ".join(f"{word}{n}" for word in "abcdefghij"[:words]),
            "prediction": f"It is hard to say without seeing patient {n}.",
        }
        for n in range(N)
    ]
    [taken] = taken_files(write_lines("patients.jsonl", rows), FileReading())
    assert taken.file.metrics[0] == metric


@pytest.mark.parametrize(
    ("first", "second", "right"),
    [
        (lambda n: n % 5, lambda n: THINGS[n % 5], "label_name"),
        (lambda n: f"a photo of a {THINGS[n % 5]}, a thing", lambda n: THINGS[n % 5], "label_name"),
        (lambda n: THINGS[n % 5], lambda n: f"the {THINGS[n % 5]}, a thing", "label"),
    ],
)
def test_of_several_labels_that_counts_which_replies_have(
    first: Callable[[int], Any], second: Callable[[int], str], right: str
) -> None:
    rows = [
        {
            "id": f"x{n}",
            "label": first(n),
            "label_name": second(n),
            "response": f"It is the {THINGS[(n + (n % 4 == 0)) % 5]}.",
        }
        for n in range(N)
    ]
    path = write_lines("labels.jsonl", rows)
    assert recognise_predictions(path).column("answer") == right
    assert sn.score(path).value() == 0.75


def test_labels_that_replies_repeat_from_the_question_are_no_right_answers() -> None:
    rows = [
        {
            "id": f"x{n}",
            "question": f"What color is the {THINGS[n % 5]}?",
            "answer": ("red", "blue", "green")[n % 3],
            "class_name": THINGS[n % 5],
            "prediction": f"The {THINGS[n % 5]} is purple.",
        }
        for n in range(N)
    ]
    path = write_lines("colors.jsonl", rows)
    assert recognise_predictions(path).column("answer") == "answer"


def test_options_joined_in_a_cell_are_right_together() -> None:
    shown = ShownOptions(("Rising, then falling", "Falling", "Cannot be told", "Flat"))
    assert places_named("Cannot be told, Rising, then falling", shown) == (0, 2)
    assert places_named("Falling and flat", shown) == (1, 3)
    assert places_named("Rising, then falling", shown) == ()
    assert places_named("Falling, by and large", shown) == ()
    digits = ShownOptions(("1", "2", "3"))
    assert places_named("12", digits) == ()  # a right answer that is none of the options
    assert places_named("1 and 2", digits) == (0, 1)


def test_a_literal_in_a_cell_is_offered_as_the_right_answer_and_accepts_each_of_its_texts() -> None:
    pairs = [("Urdu", "Pakistan"), ("Malay", "Malaysia"), ("Telugu", "India"), ("Thai", "Thailand")]
    rows = [
        {
            "ID": f"x{n}",
            "Culture": str(pairs[n % 4]),
            "output": pairs[(n + (n % 4 == 3)) % 4][n % 2],
        }
        for n in range(N)
    ]
    path = write_lines("cultures.jsonl", rows)
    with pytest.raises(DataError, match="the cells of 'Culture' stand in many replies"):
        sn.score(path)
    assert sn.score(sn.import_run(path, columns={"answer": "Culture"})).value() == pytest.approx(
        0.75
    )


SENTENCES = [
    " ".join(f"{word}{n}" for word in "the ship sails along a far coast at dusk".split())
    for n in range(N)
]


@pytest.mark.parametrize(
    ("columns", "metric"),
    [
        (("audio", "reference", "hypothesis"), "word_error_rate"),
        (("image", "ground_truth", "ocr_prediction"), "character_error_rate"),
        (("image", "ground_truth", "prediction"), "typed_match"),
    ],
)
def test_transcripts_are_scored_by_their_errors(columns: tuple[str, str, str], metric: str) -> None:
    file, gold, said = columns
    rows = [
        {file: f"{n}.x", gold: text, said: text.replace("coast", "post") if n % 2 else text}
        for n, text in enumerate(SENTENCES)
    ]
    [taken] = taken_files(write_lines("transcripts.jsonl", rows), FileReading())
    assert taken.file.metrics[0] == metric


def test_long_near_copies_are_transcripts_without_any_hint() -> None:
    rows = [
        {"image": f"{n}.png", "answer": f"{text} and {text}", "response": f"{text} ant {text}"}
        for n, text in enumerate(SENTENCES)
    ]
    [taken] = taken_files(write_lines("pages.jsonl", rows), FileReading())
    assert taken.file.metrics[0] == "character_error_rate"


@pytest.mark.parametrize("scores", [("cer", "wer"), ("wer", "cer"), ("wer",)])
def test_columns_of_error_rates_call_for_them(scores: tuple[str, ...]) -> None:
    rows = [
        {"image": f"{n}.png", "reference": text, "hypothesis": text} | dict.fromkeys(scores, 0.0)
        for n, text in enumerate(SENTENCES)
    ]
    [taken] = taken_files(write_lines("scores.jsonl", rows), FileReading())
    expected = "character_error_rate" if "cer" in scores else "word_error_rate"
    assert taken.file.metrics[0] == expected


def test_the_word_error_rate_sums_edits_and_words() -> None:
    assert word_error_counts("the cat sat, on mat", ["The cat sat on the mat."]) == (1, 6)
    assert word_error_counts("", ["two words"]) == (2, 2)
    assert word_error_counts("b", ["a c", "B."]) == (0, 1)


@pytest.mark.parametrize(
    ("reply", "gold", "counts"),
    [
        ("...", "...", (0, 1)),
        ("no", "...", (1, 1)),
        ("¿Qué pasa?", "Qué pasa", (0, 2)),
        ("the dogs’ bowl", "the dogs' bowl", (0, 3)),
        ("a — b", "a b", (0, 2)),
        ("هل هذا؟", "هل هذا", (0, 2)),
        ("यह है।", "यह है", (0, 2)),
    ],
)
def test_punctuation_of_any_script_at_the_ends_of_words_is_no_error(
    reply: str, gold: str, counts: tuple[int, int]
) -> None:
    assert word_error_counts(reply, [gold]) == counts
    rows = [
        {"audio": f"{n}.wav", "reference": text, "hypothesis": text.partition(" ")[2]}
        for n, text in enumerate(SENTENCES)
    ]
    assert sn.score(write_lines("speech.jsonl", rows)).value() == pytest.approx(1 / 9)


@pytest.mark.parametrize(
    "names",
    [
        ("mscoco_gt_words", "mscoco_generated_words", "mscoco_hallucinated_words"),
        ("gt_objects", "mentioned", "hallucinated_objects"),
    ],
)
@pytest.mark.parametrize("reply", ["caption", "model_answer"])
def test_lists_of_objects_in_captions_give_chair(names: tuple[str, str, str], reply: str) -> None:
    gold, said, wrong = names
    rows = [
        {
            "image_id": n,
            reply: "A dog and a cat run.",
            gold: ["dog", "person"],
            said: ["dog", "cat", "dog"] if n % 4 == 0 else ["dog"],
            wrong: ([["kitten", "cat"]] if "mscoco" in wrong else ["cat"]) if n % 4 == 0 else [],
            "words": ["a", "dog", "and", "a", "cat", "run"],
        }
        for n in range(N)
    ]
    path = Path("chair.json")
    path.write_text(json.dumps({"sentences": rows, "overall_metrics": {"CHAIRs": 0.25}}))
    results = sn.score(path)
    assert results.value() == pytest.approx(10 / 60)
    assert results.value("chair_s") == 0.25
    assert results.value("object_recall") == 0.5


@pytest.mark.parametrize(
    "pair", [("有", "没有"), ("نعم", "لا"), ("có", "không"), ("예", "아니오"), ("对", "不对")]
)
def test_yes_and_no_in_other_languages_are_a_choice(pair: tuple[str, str]) -> None:
    rows = [
        {
            "question": f"{n}?",
            "answer": pair[n % 2],
            "response": f"{pair[(n + (n % 5 == 0)) % 2]}, {n}",
        }
        for n in range(N)
    ]
    path = write_lines("yes.jsonl", rows)
    [taken] = taken_files(path, FileReading())
    assert set(taken.file.rows[0].options) == set(pair)
    assert sn.score(path).value() == pytest.approx(0.8)


# --- replies that were cut ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "reply", "reading"),
    [
        ("Is the heart enlarged?", "The heart is", None),
        ("Is the heart enlarged?", "The heart appears to be", None),
        ("Is the heart enlarged?", "The heart is not", "no"),
        ("Are there lines in the lung fields?", "According to the chest X-ray,", None),
        ("Are there lines in the lung fields?", "According to the image, there are", None),
        ("Are there lines in the lung fields?", "According to the image, there are no", "no"),
        ("Is there a dog in the image?", "There is a", None),
        ("Is there a dog in the image?", "Yes, the image shows", "yes"),
        ("Is there a dog in the image?", "There is no dog visible in", "no"),
        ("Is there a dog in the image?", "Correct, there is", "yes"),
        ("Is there a dog in the image?", "True, there are", "yes"),
        ("Is there a dog in the image?", "Ja, da ist ein Hund,", "yes"),
        ("Is there a dog in the image?", "Oui, il y a un chien,", "yes"),
        ("Is there a dog in the image?", "Nee, dat is", "no"),
        ("Is there a dog in the image?", "Nein, es gibt keinen Hund,", "no"),
        ("Is the right lung clear?", "Right lung appears to be", None),
        ("Is there a dog in the image?", "According to the image, there", None),
        ("Is there a dog in the image?", "A dog is there", "yes"),
        ("Is there a dog in the image?", "The dog is in there", "yes"),
        ("Is there a dog in the image?", "It is hard to tell whether there is a dog", None),
    ],
)
def test_a_reply_that_was_cut_before_its_answer_says_neither(
    question: str, reply: str, reading: str | None
) -> None:
    assert read_yes_no(AskedReply(reply, question)) == reading
    if reading is not None:
        assert not breaks_off(reply)


# --- names that differ in a word ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gold", "said"),
    [
        ("actual_is_real", "is_real_prediction"),
        ("gt_has_dent", "predicted_has_dent"),
        ("fracture_gold", "fracture_output"),
        ("expected_alarm", "alarm_pred"),
    ],
)
def test_a_flag_beside_the_right_one_is_a_reply(gold: str, said: str) -> None:
    rows = [
        {
            said: n % 2 == (n % 10 != 0),
            "model_predictions": f"the detector gave 0.{n}",
            "actual_label": ("fake", "real")[n % 2],
            gold: n % 2,
        }
        for n in range(N)
    ]
    path = write_lines("flags.jsonl", rows)
    roles = recognise_predictions(path).roles.roles
    assert (roles["reply"], roles["answer"]) == ((said,), (gold,))
    assert "verdict" not in roles
    assert sn.score(path).value() == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("gold", "said"),
    [
        ("original_summary", "generated_summary"),
        ("human_caption", "generated_caption"),
        ("reference_report", "predicted_report"),
        ("target_descriptions", "description_generated"),
    ],
)
def test_texts_beside_generated_ones_are_their_references(gold: str, said: str) -> None:
    rows = [
        {
            "video": f"v{n}",
            gold: f"{SENTENCES[n]} while the crew {n} looks on",
            said: f"A ship numbered {n} and its crew travel somewhere near the land.",
            **{f"bleu_{order}": 0.1 / order for order in (1, 2, 3, 4)},
        }
        for n in range(N)
    ]
    path = write_lines("texts.jsonl", rows)
    [taken] = taken_files(path, FileReading())
    assert taken.file.metrics[0] == ("cider" if "caption" in gold else "rouge_l")
    assert not taken.file.rows[0].options
    named = FileReading(columns={"answer": [gold]})
    assert taken_files(path, named)[0].file.metrics[0] == taken.file.metrics[0]


@pytest.mark.parametrize("said", ["ocr_text", "extracted_text", "recognised_text"])
def test_a_text_read_in_an_image_stands_beside_the_text_itself(said: str) -> None:
    rows = [
        {"text": text, "label": ("benign", "hostile")[n % 2], said: text.replace("coast", "cost")}
        for n, text in enumerate(SENTENCES)
    ]
    path = write_lines("ocr.jsonl", rows)
    for columns in ({}, {"reply": [said]}):
        [taken] = taken_files(path, FileReading(columns=columns))
        assert taken.file.metrics[0] == "character_error_rate"
        assert taken.file.rows[0].references == (SENTENCES[0],)


def test_a_text_that_was_read_beside_another_text_is_no_reply_to_it() -> None:
    rows = [
        {"text": f"What does sign {n} say?", "ocr_text": f"NO PARKING {n} HERE"} for n in range(N)
    ]
    with pytest.raises(DataError, match="no column is recognised as the replies"):
        sn.score(write_lines("signs.jsonl", rows))


def test_questions_are_no_replies() -> None:
    rows = [
        {"question_id": n, "image": f"{n}.jpg", "text": f"Is there a cup {n}?\nAnswer in a word."}
        for n in range(N)
    ]
    with pytest.raises(DataError, match="no column is recognised as the replies"):
        sn.score(write_lines("pope.jsonl", rows))


@pytest.mark.parametrize(
    "verdicts",
    [("top1_hit", "top5_hit"), ("top_1_correct", "top_3_correct"), ("EM",), ("sample_accuracy",)],
)
def test_verdicts_of_many_names_are_found(verdicts: tuple[str, ...]) -> None:
    rows = [
        {
            "question": f"What is thing {n}?",
            "ground_truth": f"{THINGS[n % 5]} {n}",
            "pred": "something else" if n % 4 else f"{THINGS[n % 5]} {n}",
            **{name: float(n % 4 < 1 + place) for place, name in enumerate(verdicts)},
        }
        for n in range(N)
    ]
    path = write_lines("verdicts.jsonl", rows)
    assert recognise_predictions(path).column("verdict") == verdicts[0]
    assert sn.score(path).value("recorded_verdict") == 0.25


# --- objects and lists of tokens ------------------------------------------------------------------------------------


@pytest.mark.parametrize("objects", [("ground_truth", "prediction"), ("labels", "output")])
def test_fields_of_parallel_objects_are_a_question_each(objects: tuple[str, str]) -> None:
    gold, said = objects
    rows = [
        {
            "id": f"case_{n}",
            gold: {
                "is_abnormal": n % 2 == 0,
                "event_type": ("fall", "fall_recovery", "normal")[n % 3],
                "floors": n % 4,
                "evidence": "the person lies still",
                "advice": f"Call for help at once, case {n}, and stay.",
                "建议": f"请立即通知护理人员并检查老人的生命体征{n}。",
                "need_help": True,
            },
            said: {
                "is_abnormal": n % 2 == 0,
                "event_type": ("fall", "fall_recovery", "normal")[(n + (n % 4 == 0)) % 3],
                "floors": n % 4 + (n % 2),
                "evidence": "a person on the floor",
                "advice": "See a doctor soon, and do not move until then.",
                "建议": "请在家休息，并且尽快去看医生。",
                "confidence": 0.5,
            },
        }
        for n in range(N)
    ]
    path = write_lines("events.jsonl", rows)
    results = sn.score(path)
    assert results.value() == pytest.approx((1 + 0.75 + 0.5) / 3)
    assert results.rows[0].estimate.n == 3 * N


def test_boxes_in_parallel_objects_are_no_fields() -> None:
    rows = [
        {"id": n, "ground_truth": {"x": n, "y": 2, "w": 3}, "prediction": {"x": n, "y": 2, "w": 4}}
        for n in range(N)
    ]
    with pytest.raises(DataError):
        sn.score(write_lines("boxes.jsonl", rows))


@pytest.mark.parametrize(
    ("start", "end", "padding"),
    [("<SOS>", "<EOS>", "<PAD>"), ("[CLS]", "[SEP]", "[PAD]"), ("startseq", "endseq", "")],
)
@pytest.mark.parametrize("form", ["list", "literal", "text"])
def test_texts_of_a_tokenizer_are_scored_without_its_marks(
    start: str, end: str, padding: str, form: str
) -> None:
    def written(text: str) -> Any:
        tokens = [start, *text.split(), end, *[padding] * (3 if padding else 0)]
        return {"list": tokens, "literal": str(tokens), "text": " ".join(tokens)}[form]

    rows = [
        {"Predicted": written(f"a dog {n}"), "GT": written(f"a small dog {n}"), "Epoch": 1}
        for n in range(N)
    ]
    [taken] = taken_files(write_lines("captions.jsonl", rows), FileReading())
    assert taken.file.metrics[0] == "rouge_l"
    first = taken.file.rows[0]
    assert (first.reply, first.references) == ("a dog 0", ("a small dog 0",))


@pytest.mark.parametrize(
    "gold",
    [
        "The lion dance is shown in front of the shop",
        "舞狮队在商店门口表演，周围有很多人",
        "ร้านค้าหน้าตลาดมีคนมากมายกำลังซื้อของ",
    ],
)
def test_a_few_sentences_in_any_script_are_long_texts(gold: str) -> None:
    rows = [
        {"image": f"{n}.jpg", "reference": f"{gold} {n}", "response": f"Something else, {n}!"}
        for n in range(4)
    ]
    [taken] = taken_files(write_lines("few.jsonl", rows), FileReading())
    assert taken.file.metrics[0] == "rouge_l"


# --- refusals and the commands that they suggest ---------------------------------------------------------------------


def test_a_named_column_of_replies_that_meets_no_right_answer_is_refused() -> None:
    rows = [
        {"label": f"kind {n % 7}", "said_of_it": f"A {THINGS[n % 5]}.", "thing": THINGS[n % 5]}
        for n in range(N)
    ]
    path = write_lines("both.jsonl", rows)
    with pytest.raises(DataError, match=r"no reply in 'said_of_it' has the right answer .*'label'"):
        sn.import_run(path, columns={"reply": "said_of_it"})
    both = {"reply": "said_of_it", "answer": "thing"}
    assert sn.score(sn.import_run(path, columns=both)).value() == 1.0


def test_detected_boxes_without_right_ones_are_called_so() -> None:
    rows = [
        {"image_id": n, "category_id": n % 3, "bbox": [n, 2.5, 30, 40], "score": 0.9}
        for n in range(N)
    ]
    path = Path("detections.json")
    path.write_text(json.dumps(rows))
    with pytest.raises(DataError, match=r"boxes that a model detected .* and no right ones"):
        sn.score(path)


@pytest.mark.parametrize("exact", ["EM", "exact_match"])
def test_an_exact_match_beside_another_score_is_no_verdict(exact: str) -> None:
    rows = [
        {"question": f"Who is {n}?", "answer": f"Ann {n}", "pred": f"An {n}", "anls": 0.8, exact: 0}
        for n in range(N)
    ]
    path = write_lines("scores.jsonl", rows)
    [taken] = taken_files(path, FileReading())
    assert taken.file.metrics[0] == "anls"
    assert {row.verdict for row in taken.file.rows} == {None}
