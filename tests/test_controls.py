"""Controls: the same questions with a grey image, another question's, or none, and what they say of a score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import small
import snellen as sn
from snellen.common.images import BLANK
from snellen.errors import DataError, UnknownNameError
from snellen.protocols import parse_protocol
from snellen.protocols.wrapping import Control
from snellen.records import ImagePart, Request, Response
from snellen.report.control_tables import control_tables
from snellen.report.markdown import markdown_report
from snellen.report.reported_runs import prepare_reported_runs

CONTROLS = ("blank", "shuffled", "text")


class Looker:
    """Names the first option, or, where it is shown the question's own image, the right one."""

    name = "looker"
    kinds = frozenset({"generate"})
    fingerprint = "looker-1"

    def __init__(self, own: dict[str, str]) -> None:
        self.own = own
        self.seen: list[tuple[str, tuple[str, ...]]] = []

    def generate(self, requests: list[Request], images: Any) -> list[Response]:
        return [Response(text=self._reply(request)) for request in requests]

    def _reply(self, request: Request) -> str:
        shown = [
            part.image.digest
            for m in request.messages
            for part in m.content
            if isinstance(part, ImagePart)
        ]
        self.seen.append((request.sample_id, tuple(shown)))
        place = int(request.sample_id[1:]) % 4
        return f"({'ABCD'[place]})" if shown == [self.own[request.sample_id]] else "(A)"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[sn.Results, Looker]:
    monkeypatch.chdir(tmp_path)
    benchmark = small.built(small.rows(16), tmp_path / "mine")
    model = Looker({sample.id: sample.images[0].digest for sample in benchmark.samples()})
    return sn.evaluate(model, "./mine", "vanilla", controls=CONTROLS, name="x"), model


def test_a_control_shows_a_grey_picture_another_ones_or_none(
    asked: tuple[sn.Results, Looker],
) -> None:
    _, model = asked
    by_sample: dict[str, list[tuple[str, ...]]] = {}
    for sample_id, shown in model.seen:
        by_sample.setdefault(sample_id, []).append(shown)
    others: dict[str, set[str]] = {}
    for sample_id, shown in by_sample.items():
        own = model.own[sample_id]
        assert {(own,), (BLANK.digest,), ()} < set(shown) and len(shown) == 4
        [[other]] = [one for one in shown if one not in {(own,), (BLANK.digest,), ()}]
        assert other in set(model.own.values()) - {own}
        others.setdefault(own, set()).add(other)
    assert all(len(found) == 1 for found in others.values())
    assert set().union(*others.values()) == set(model.own.values())


def test_the_report_pairs_a_score_with_its_controls(asked: tuple[sn.Results, Looker]) -> None:
    results, _ = asked
    [table] = control_tables(prepare_reported_runs(results.runs, results.rows))
    assert [row[3] for row in table.rows] == [
        "a grey image",
        "another question's image",
        "no image",
    ]
    for row in table.rows:
        difference = row[7].estimate  # type: ignore[union-attr]
        assert (row[5], row[6], row[8]) == ("100.0%", "25.0%", "25.0%")
        assert (
            row[9] == "12 of 16"
        )  # with any other image it says A, which is right for every fourth
        assert (
            difference.value == 0.75
            and difference.n == 16
            and 0 < difference.low < 0.75 < difference.high
        )
    assert "What the images contribute" in markdown_report(
        prepare_reported_runs(results.runs, results.rows)
    )


class LikelihoodsOfGrey:
    """A model whose likelihoods depend on whether the image is grey, and on nothing else that it is shown."""

    def generate(self, requests: list[Request], images: object) -> list[str]:
        return ["A" for _ in requests]

    def loglikelihood(self, requests: list[Request], images: object) -> list[list[float]]:
        found = []
        for request in requests:
            shift = 1.0 if BLANK in request.images else 0.0
            found.append([-place * (1.0 + shift) for place in range(len(request.continuations))])
        return found


def test_a_control_counts_the_answers_that_change_with_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small.built(small.rows(16), tmp_path / "mine")
    models = {
        "likelihood": (LikelihoodsOfGrey(), ["16 of 16", "0 of 16"]),
        "vanilla": ("snellen:always-a", ["0 of 16", "0 of 16"]),
    }
    for protocol, (model, expected) in models.items():
        results = sn.evaluate(
            model, "./mine", protocol, controls=["blank", "shuffled"], name=protocol
        )
        [table] = control_tables(prepare_reported_runs(results.runs, results.rows))
        assert [row[9] for row in table.rows] == expected


def test_a_control_never_stands_for_the_model(asked: tuple[sn.Results, Looker]) -> None:
    results, _ = asked
    [reported_run] = prepare_reported_runs(results.runs, results.rows)
    number = reported_run.method_rows[0].lookup("accuracy", "mine")
    assert number is not None and number.protocol == "vanilla" and number.estimate.value == 1.0


def test_a_run_that_goes_on_with_more_samples_shuffles_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    benchmark = small.built(small.rows(16), tmp_path / "mine")
    model = Looker({sample.id: sample.images[0].digest for sample in benchmark.samples()})
    sn.evaluate(model, "./mine", "vanilla", controls="shuffled", limit=6, name="x")
    before = list(model.seen)
    sn.evaluate(model, "./mine", "vanilla", controls="shuffled", name="x")
    assert len(before) == 12 and len(model.seen) == 32 and len(set(model.seen)) == 32


def test_one_picture_cannot_be_shuffled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small.built(small.rows(4, pictures=1), tmp_path / "mine")
    with pytest.raises(DataError, match="same image"):
        sn.evaluate("snellen:uniform", "./mine", "vanilla", controls="shuffled")


def test_blind_is_a_control_of_vanilla(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small.built(small.rows(8), tmp_path / "mine")
    results = sn.evaluate("snellen:uniform", "./mine", ["vanilla", "blind"])
    [table] = control_tables(prepare_reported_runs(results.runs, results.rows))
    assert [row[2:4] for row in table.rows] == [("vanilla", "no image")]


@pytest.mark.parametrize(
    "of", ["vanilla", "instability?m=3&seed=1", "likelihood?pmi=blank", "circular?all_passes=true"]
)
def test_a_control_is_found_again_by_its_label(of: str) -> None:
    control = Control(picture="shuffled", of=of)
    assert parse_protocol(control.label) == control and control.declaration.control_of == of
    with pytest.raises(UnknownNameError, match="is itself a control"):
        Control(of=control.label)


def test_without_controls_there_is_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small.built(small.rows(4), tmp_path / "mine")
    results = sn.evaluate("snellen:uniform", "./mine", "vanilla")
    assert control_tables(prepare_reported_runs(results.runs, results.rows)) == []
