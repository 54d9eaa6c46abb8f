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

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase

from msgspec.structs import replace

from snellen.extraction.reading import (
    ExtractedChoice,
    NamedExtractor,
    labels_alone,
    no_choice,
    published_rule,
)
from snellen.interchange.predictions.forms import table_form
from snellen.interchange.predictions.rows import PredictedRow, PredictionFile
from snellen.metrics.declaration import reply_metric
from snellen.metrics.normalise import contains_words, legacy_ocr_normalise

ALPHABETS = (ascii_uppercase, ascii_lowercase, "123456789")
CAPTION_METRICS = ("cider", "rouge_l", "legacy_cider")
_FILE_NAME = re.compile(
    r"(.+)_(SingleChoice|Generation|OCROpenEnded|KIEOpenEnded)_(?:generation|likelihood)_(.+)"
)
"""The name that `run_eval.py` gives a result file: data set, formulation, method, model."""
TASKS = {"OCROpenEnded": "ocr", "KIEOpenEnded": "kie"}


def _with_formulation(path: Path, file: PredictionFile, columns: Collection[str]) -> PredictionFile:
    """Complete a result file with its dataset, model and task, and with the labels of the options of each row.

    The first three are in the name of the file: `VQA_SingleChoice_generation_x_y.json` is named after the dataset, the
    formulation of the questions, the method and the model. The labels, such as A or 1, are found in the prompts.

    Args:
        path: The result file, which may have a name of another form. Dataset, model and task are then empty.
        file: Its rows.
        columns: The columns that it has. With the column `references`, it has captions.
    """
    stem = path.name.removesuffix(".gz").removesuffix(".json")
    name = _FILE_NAME.fullmatch(stem)
    formulation = name[2] if name else ""
    is_of_captions = "references" in columns
    rows: list[PredictedRow] = []
    for row in file.rows:
        references = row.references
        if references and not is_of_captions:
            # The published metric compares with the words of a list as one text.
            references = (" ".join(references),)
        if formulation == "Generation" and not is_of_captions:
            # A choice asked openly: the loader drops the options and leaves the index of the right one.
            references = ()
        rows.append(replace(row, labels=_labels(row.options, row.prompt), references=references))
    return replace(
        file,
        rows=tuple(rows),
        repeats=True,
        title=name[1] if name else "",
        model=name[3] if name else "",
        suite="reform-eval",
        task="caption" if is_of_captions else TASKS.get(formulation, ""),
        metrics=CAPTION_METRICS if is_of_captions else (),
    )


def _labels(options: Sequence[str], prompt_text: str) -> tuple[str, ...]:
    """Return the labels of the options, such as A, B, C or 1, 2, 3, as the prompt shows them: `(A) a dog`.

    If the prompt shows none, capital letters are returned; an empty tuple if there are more options than letters.
    """
    if not options:
        return ()
    for alphabet in ALPHABETS:
        if len(options) > len(alphabet):
            continue
        labels = tuple(alphabet[: len(options)])
        shown_options = [
            f"({label}) {option}" for label, option in zip(labels, options, strict=True)
        ]
        if all(shown_option in prompt_text for shown_option in shown_options):
            return labels
    if len(options) > len(ascii_uppercase):
        return ()
    return tuple(ascii_uppercase[: len(options)])


PREDICTION_FORM = table_form(
    "a result file of ReForm-Eval",
    needs=("sample_id", "prediction"),
    columns={
        "id": ("sample_id",),
        "turn": ("round_id",),
        "image": ("image",),
        "question": ("question",),
        "prompt": ("text", "question_with_option"),
        # What loaders put into the wording of a question and keep beside it.
        "subject": ("anno", "method", "claim", "caption"),
        "template": ("instruct",),
        "options": ("answer_options",),
        "answer": ("references", "answer"),
        "reply": ("prediction",),
        "likelihood": ("prediction",),
    },
    answer_is="index0",
    finish=_with_formulation,
)


_LABEL = re.compile(r"\(([1-9A-Za-z])\)")


def reform_eval_first_label(
    reply: str, options: Sequence[str], labels: Sequence[str]
) -> ExtractedChoice:
    """Read a choice by ReForm-Eval's rule: the first single character in parentheses names the option.

    So (A), (a) and (1) all name the first option, whatever labels and texts were shown. If there are fewer options,
    the reply counts as following the format, but names no option, and so is wrong.
    """
    match = _LABEL.search(reply)
    if match is None:
        return no_choice("no match" if reply.strip() else "empty")
    character = match[1]
    if character.isdigit():
        index = int(character) - 1
    else:
        index = ord(character.upper()) - ord("A")
    if index >= len(options):
        return ExtractedChoice(
            None,
            None,
            "none",
            "a label beyond the options",
            match.span(1),
            follows_format=True,
            reason="no match",
        )
    return ExtractedChoice(index, "label", "certain", "", match.span(1), follows_format=True)


def _single_characters(labels: Sequence[str]) -> str:
    """Return a warning if labels were shown of which the rule does not find some, or no labels at all; "" otherwise."""
    if any(len(label) > 1 for label in labels):
        return "finds labels of one character alone, and some shown were longer"
    return labels_alone(labels)


FIRST_LABEL = NamedExtractor(
    "reform-eval-first-label",
    published_rule(reform_eval_first_label),
    _single_characters,
)


def ocr_match(reply: str, references: Sequence[str]) -> float:
    """ReForm-Eval, OCR: 1 if the reply contains the references, joined by blanks, as whole words.

    Otherwise it is 0. The paper calls it word-level accuracy (section 3.3.2), but it searches for the whole answer.
    Reply and references are compared without anything but ASCII letters and digits. So a reference that has none of
    these matches every reply that has a word.
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
