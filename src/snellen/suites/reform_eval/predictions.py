"""Result files of the original system: a JSON list of records, as `run_eval.py` writes it (November 2023).

A record has `sample_id`, `prediction` (a reply, or under likelihood the place of an option) and what the data set's
loader gave it: `question`, `answer_options` in the order shown, `answer` (the place of the right one, a number or its
digits; of open questions a text or several), `references` of a caption, `round_id` of a dialogue's round, `instruct`,
`text` (the prompt) and `question_with_option`. Nothing numbers the presentations of a sample: they are counted as they
come.

ReForm-Eval's rule for reading a reply, faults included (section 3.3.1).

ReForm-Eval's scorers of open questions, defect for defect, to reproduce its numbers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from snellen.catalogue.suites import PredictionForm
from snellen.errors import DataError
from snellen.extraction.reading import (
    ExtractedChoice,
    NamedExtractor,
    labels_alone,
    no_choice,
    published_rule,
)
from snellen.formats.json_files import read_json_rows
from snellen.interchange.predictions.rows import PredictedRow, PredictionFile, needs
from snellen.metrics.declaration import reply_metric
from snellen.metrics.normalise import contains_words, legacy_ocr_normalise

LONGEST_PATH = 1024
ALPHABETS = (ascii_uppercase, ascii_lowercase, "123456789")
NEEDED = ("sample_id", "prediction")
CAPTION_METRICS = ("cider", "rouge_l", "legacy_cider")
SUBJECTS = ("anno", "method", "claim", "caption")
"""What loaders put into the wording of a question and keep beside it."""
NAME = re.compile(
    r"(.+)_(SingleChoice|Generation|OCROpenEnded|KIEOpenEnded)_(?:generation|likelihood)_(.+)"
)
"""What `run_eval.py` calls a file: data set, formulation, method, model."""
TASKS = {"OCROpenEnded": "ocr", "KIEOpenEnded": "kie"}


def _read_rows(path: Path) -> PredictionFile:
    """The file's records. Raises DataError naming a record that has no prediction or one of another type."""
    records = read_json_rows(path)
    name = NAME.fullmatch(path.name.removesuffix(".gz").removesuffix(".json"))
    captions = any("references" in record for record in records)
    if name and name[2] == "Generation" and not captions:
        # A choice asked openly: the loader drops the options and leaves the place of the right one.
        records = [{**record, "answer": None} for record in records]
    rows = tuple(
        _row(record, f"record {n}", f"{path}: record {n}") for n, record in enumerate(records, 1)
    )
    return PredictionFile(
        rows=rows,
        repeats=True,
        title=name[1] if name else "",
        model=name[3] if name else "",
        suite="reform-eval",
        task="caption" if captions else TASKS.get(name[2], "") if name else "",
        metrics=CAPTION_METRICS if captions else (),
    )


def _row(record: Mapping[str, Any], name: str, where: str) -> PredictedRow:
    prediction = _prediction(record, where)
    options = _texts(record.get("answer_options"), f"{where}: answer_options")
    sample, turn = str(record.get("sample_id", "")), record.get("round_id")
    if turn is not None:
        turn = _place(turn, f"{where}: round_id")
        sample = sample.removesuffix(f"_{turn}")
    references = _texts(record.get("references"), f"{where}: references")
    answer = record.get("answer")
    if not options and not references and answer is not None:
        # The published metric compares with the words of a list as one text.
        references = (" ".join(_texts(answer, f"{where}: answer")),)
    prompt_text = str(record.get("question_with_option") or record.get("text") or "")
    return PredictedRow(
        where=name,
        id=sample,
        turn=turn,
        question=str(record.get("question", "")),
        prompt=str(record.get("text", "")),
        subject=next((str(record[key]) for key in SUBJECTS if record.get(key)), ""),
        options=options,
        labels=_labels(options, prompt_text),
        gold=(_place(answer, f"{where}: answer"),) if options and answer is not None else (),
        references=references,
        reply=prediction if isinstance(prediction, str) else None,
        chosen=prediction if isinstance(prediction, int) else None,
        template=str(record.get("instruct", "")),
        picture=_picture(record.get("image")),
    )


def _prediction(record: Mapping[str, Any], where: str) -> str | int:
    prediction = record.get("prediction")
    if isinstance(prediction, bool) or not isinstance(prediction, (str, int)):
        raise DataError(
            f"{where}: the prediction is {prediction!r}; a reply is a text, a likelihood the place of an option"
        )
    return prediction


def _picture(image: object) -> str:
    """The picture's path; of one in base64 its digest."""
    text = image if isinstance(image, str) else ""
    return text if len(text) <= LONGEST_PATH else hashlib.sha256(text.encode()).hexdigest()


def _place(value: object, where: str) -> int:
    text = str(value).strip()
    if not text.isdecimal():
        raise DataError(f"{where} is {value!r}; it counts from 0")
    return int(text)


def _texts(value: object, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, (str, int, float)):
        return (str(value),)
    if isinstance(value, list) and all(isinstance(text, (str, int, float)) for text in value):
        return tuple(map(str, value))
    raise DataError(f"{where} is neither a text nor a list of texts")


def _labels(options: Sequence[str], prompt_text: str) -> tuple[str, ...]:
    """The marks in front of the options, where the prompt shows which; capital letters otherwise."""
    for alphabet in ALPHABETS:
        marks = tuple(alphabet[: len(options)])
        listed = all(
            f"({mark}) {option}" in prompt_text
            for mark, option in zip(marks, options, strict=False)
        )
        if options and len(marks) == len(options) and listed:
            return marks
    return tuple(ascii_uppercase[: len(options)]) if len(options) <= len(ascii_uppercase) else ()


PREDICTION_FORM = PredictionForm(
    title="a result file of ReForm-Eval", fault=needs(read_json_rows, NEEDED), rows=_read_rows
)


_LABEL = re.compile(r"\(([1-9A-Za-z])\)")


def reform_eval_first_label(
    reply: str, options: Sequence[str], labels: Sequence[str]
) -> ExtractedChoice:
    """The first single character in parentheses, read in its own alphabet: (A), (a) and (1) are the first option.

    The labels and texts shown are not consulted; a label beyond the options is a hit of the format, and wrong.
    """
    match = _LABEL.search(reply)
    if match is None:
        return no_choice("no match" if reply.strip() else "empty")
    character = match[1]
    place = int(character) - 1 if character.isdigit() else ord(character.upper()) - ord("A")
    if place >= len(options):
        return ExtractedChoice(
            None,
            None,
            "none",
            "a label beyond the options",
            match.span(1),
            follows_format=True,
            reason="no match",
        )
    return ExtractedChoice(place, "label", "certain", "", match.span(1), follows_format=True)


def _single_characters(labels: Sequence[str]) -> str:
    long = any(len(label) > 1 for label in labels)
    return (
        "finds labels of one character alone, and some shown were longer"
        if long
        else labels_alone(labels)
    )


FIRST_LABEL = NamedExtractor(
    "reform-eval-first-label",
    published_rule(reform_eval_first_label),
    _single_characters,
)


def ocr_match(reply: str, references: Sequence[str]) -> float:
    """ReForm-Eval, OCR: 1 if the references, joined by blanks, stand in the reply between word boundaries.

    Called word-level accuracy in the paper (section 3.3.2), but the whole answer is looked for. Both
    sides lose all but ASCII letters and digits: a gold without any matches every reply that has a word.
    """
    return float(
        contains_words(legacy_ocr_normalise(reply), legacy_ocr_normalise(" ".join(references)))
    )


OCR_MATCH = reply_metric(
    ocr_match,
    name="legacy_ocr_match",
    unit="share",
    title="legacy OCR match",
    limit="where several answers are accepted a reply has to hold all of them, and a gold without a letter or digit "
    "matches no reply without one",
)
