"""Replies and options changed in ways that must not change what is read, or only to open."""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from snellen.errors import DataError
from snellen.extraction import ExtractedChoice, likeness, read_choice
from snellen.extraction.reader import MODEL

REPLIES = Path(__file__).parent / "replies"
Case = dict[str, Any]


def cases(*names: str, every: int = 1) -> list[Case]:
    found = [
        json.loads(line)
        for name in names
        for line in (REPLIES / f"{name}.jsonl").read_text("utf-8").splitlines()
    ]
    return [case for case in found if not case["ambiguous"]][::every]


def read(case: Case, **changes: Any) -> ExtractedChoice:
    used = case | changes
    return read_choice(
        used["reply"],
        used["options"],
        used["labels"],
        finish=used["finish"],
        question=used["question"],
    )


NATURAL = cases("natural-a", "natural-b", "natural-c", every=4)


def test_full_stops_behind_options_turn_no_reading() -> None:
    turned = []
    for case in NATURAL:
        before = read(case).choice
        after = read(case, options=[f"{option.rstrip('.')}." for option in case["options"]]).choice
        if None not in (before, after) and before != after:
            turned.append(case["id"])
    assert turned == []


def test_options_in_another_order_are_read_alike_where_the_reply_has_no_labels() -> None:
    turned, compared = [], 0
    for case in NATURAL:
        before = read(case)
        if before.choice is None or before.extraction_method != "text":
            continue
        compared += 1
        options = case["options"][::-1]
        after = read(case, options=options).choice
        if after is not None and options[after] != case["options"][before.choice]:
            turned.append(case["id"])
    assert compared > 20
    assert turned == []


def test_a_reply_cut_at_any_word_is_misread_hardly_ever() -> None:
    wrong = total = 0
    for case in NATURAL[::3]:
        words = case["reply"].split(" ")
        for count in range(1, len(words), max(1, len(words) // 12)):
            reading = read(case, reply=" ".join(words[:count]), finish="length")
            total += 1
            wrong += reading.choice not in (None, case["gold"])
    assert total > 150
    assert wrong <= 0.02 * total


def rows(case: Case) -> list[str]:
    return [line for line in case["reply"].split("\n") if line.strip()]


def test_rows_left_out_or_doubled_turn_no_reading() -> None:
    turned, compared = [], 0
    for case in cases("natural-b", "natural-c", every=2):
        lines = rows(case)
        before = read(case).choice
        if len(lines) < 3 or before is None:
            continue
        for at in range(len(lines)):
            for changed in (lines[:at] + lines[at + 1 :], [*lines[:at], lines[at], *lines[at:]]):
                compared += 1
                after = read(case, reply="\n".join(changed)).choice
                if after not in (None, before):
                    turned.append((case["id"], at))
    assert compared > 100
    assert len(turned) <= 0.01 * compared


def test_switching_mechanisms_off_shows_what_they_earn() -> None:
    sys.path.insert(0, str(Path(__file__).parent.parent / "bench"))
    from ablate_extraction import KEPT, MECHANISMS, ablation, kept_cases

    table = {name: counts for name, *counts in ablation(kept_cases(KEPT.glob("*.jsonl"), 50))}
    assert list(table) == list(MECHANISMS)
    lost, _, _, _ = table["the reader"]
    assert lost > 10
    assert all(
        counts[1] <= max(2, counts[0]) for counts in table.values()
    )  # none costs more than it earns


def test_the_reader_was_trained_on_the_replies_and_the_clues_of_today() -> None:
    sys.path.insert(0, str(Path(__file__).parent.parent / "training" / "reader"))
    from inputs import digest, hands, looked_at, sampled

    with files("snellen.extraction").joinpath(MODEL).open("rb") as file, np.load(file) as held:
        about, sample = json.loads(str(held["about"])), held["sample"]
    everything = hands()
    assert about["inputs"] == digest(everything, about["names"]), (
        "run: python training/reader/train.py"
    )
    views = [looked_at(case) for case in sampled(everything)]
    weighed = np.vstack([values for _, _, values, _ in views if len(values)])
    assert {names for _, names, values, _ in views if len(values)} == {tuple(about["names"])}
    assert len(weighed) > 60
    np.testing.assert_allclose(
        weighed, sample, atol=1e-3, err_msg="run: python training/reader/train.py"
    )


def test_a_package_without_its_data_says_which_file_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(likeness, "TABLE", "absent.npz")
    with pytest.raises(
        DataError, match=r"absent\.npz: this file of Snellen is missing.*install Snellen again"
    ):
        likeness._table.__wrapped__()
