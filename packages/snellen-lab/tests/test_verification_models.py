"""Checks of questions by models: a jury that sees the image, and blind solvers; and `snellen lint`."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import small
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.common.drafts import Draft
from snellen.formats.json_files import add_lines
from snellen.records import Request
from snellen.verification.verify import Solvers, verify
from snellen_lab.verification.audit_labels import AuditLabel, Label, labels_file
from snellen_lab.verification.audited_questions import named_items
from snellen_lab.verification.blind import BlindVotes, solved_blind
from test_verification import builder, built, rows
from test_verification import home as home  # fixtures
from test_verification import source as source


def told(request: Request) -> str:
    return "".join(message.text for message in request.messages)


def labelled(request: Request, text: str) -> str:
    """The label under which an option is shown."""
    match = re.search(rf"\(([A-Z])\) {text}\b", told(request))
    return f"({match[1]})" if match else "hm"


def juror(right: Callable[[int, str], bool], name: str = "juror") -> sn.Scripted:
    """Says of each option whether it is right, by the question's number."""

    def reply(request: Request) -> str:
        number = int(re.search(r"number (\d+)", told(request))[1])  # type: ignore[index]
        answer = re.search(r"proposed answer: (.+)", told(request))[1]  # type: ignore[index]
        return labelled(request, "Yes" if right(number, answer) else "No")

    return sn.Scripted(reply, name=name, fingerprint=name)


def solvers(tmp_path: Path, **models: Any) -> Solvers:
    return Solvers(runs=str(tmp_path / "runs"), **models)


# --- checks by models ------------------------------------------------------------------------------------------------


def test_a_distractor_that_is_right_too_is_replaced_and_a_wrong_answer_set_apart(
    source: list[Draft], tmp_path: Path
) -> None:
    build, golds = (
        builder(tmp_path / "mine"),
        {i: draft.rounds[0].texts[0] for i, draft in enumerate(source)},
    )
    first = {sample.id: sample for sample in build({}).samples()}
    also = next(option for option in first["q000"].options if option != golds[0])

    def right(number: int, answer: str) -> bool:
        return (
            answer == also
            if number == 0 and answer != golds[0]
            else answer == golds[number] and number != 5
        )

    jury = (
        juror(right, "a"),
        juror(right, "b"),
        juror(lambda number, answer: answer == golds[number], "c"),
    )
    benchmark = verify(build, "mine", solvers(tmp_path, jury=jury))
    verification = benchmark.manifest.verification
    assert verification is not None and (
        verification.candidates,
        verification.passing_questions,
    ) == (24, 23)
    check = verification.checks[-1]
    assert (check.name, check.checked, check.failed, check.repaired) == ("jury", 24, 2, 1)
    assert (
        check.by == ("a", "b", "c")
        and "c says yes to 100.0% of the answers and 0.0% of the distr" in check.detail
    )
    [apart] = benchmark.set_apart()
    assert apart.sample.id == "q005" and apart.reasons == (
        f"2 of 3 of the jury say that the answer {golds[5]!r} is wrong",
    )
    [mended] = [sample for sample in benchmark.samples() if sample.id == "q000"]
    assert also not in mended.options and len(mended.options) == 4


def test_the_second_round_asks_the_jury_only_what_is_new(
    source: list[Draft], tmp_path: Path
) -> None:
    asked: list[str] = []
    build, golds = (
        builder(tmp_path / "mine"),
        {i: draft.rounds[0].texts[0] for i, draft in enumerate(source)},
    )
    bad = {
        sample.id: next(
            o for o in sample.options if o not in golds.values() or o != golds[int(sample.id[1:])]
        )
        for sample in build({}).samples()
    }

    def reply(request: Request) -> str:
        asked.append(told(request))
        number = int(re.search(r"number (\d+)", told(request))[1])  # type: ignore[index]
        answer = re.search(r"proposed answer: (.+)", told(request))[1]  # type: ignore[index]
        return labelled(
            request,
            "Yes"
            if answer == golds[number] or (number < 3 and answer == bad[f"q{number:03d}"])
            else "No",
        )

    benchmark = verify(
        build, "mine", solvers(tmp_path, jury=(sn.Scripted(reply, name="a", fingerprint="a"),))
    )
    assert benchmark.manifest.counts.samples == 24 and len(benchmark.decisions()) == 3
    assert 96 < len(asked) <= 96 + 3 and len(set(asked)) == len(asked)


def test_a_juror_that_cannot_tell_answers_from_distractors_has_no_vote(
    source: list[Draft], tmp_path: Path
) -> None:
    lines: list[str] = []
    jury = (juror(lambda number, answer: True, "yea-sayer"),)
    benchmark = verify(
        builder(tmp_path / "mine"),
        "mine",
        Solvers(jury=jury, runs=str(tmp_path), announce=lines.append),
    )
    assert benchmark.manifest.counts.samples == 24 and benchmark.manifest.verification is not None
    assert benchmark.manifest.verification.checks[-1].by == ()
    assert any(
        "yea-sayer says yes to 100.0% of the answers and 100.0% of the distractors, which is not informative"
        in line
        for line in lines
    )


def test_questions_solved_without_their_pictures_are_set_apart(tmp_path: Path) -> None:
    table = rows(120)
    known = {i: row["options"][row["answer"]] for i, row in enumerate(table[:30])}

    def solver(name: str) -> sn.Scripted:
        def reply(request: Request) -> str:
            number = int(re.search(r"number (\d+)", told(request))[1])  # type: ignore[index]
            guess = random.Random(f"{name} {number}").choice(sorted(table[number]["options"]))
            return labelled(request, known.get(number, guess))

        return sn.Scripted(reply, name=name, fingerprint=name)

    whole = built(table, tmp_path)
    blind = tuple(solver(name) for name in "abc")
    kept = solvers(tmp_path, blind=blind).keep_passing(
        whole, "kept", to=tmp_path / "kept", names=["blind"]
    )
    apart = {one.sample.id for one in kept.set_apart()}
    assert {f"q{i:03d}" for i in known} <= apart and len(apart) <= 30 / 0.8
    [check] = kept.manifest.verification.checks  # type: ignore[union-attr]
    assert (
        check.detail.startswith("without images, 4") and "of the questions kept, 2" in check.detail
    )
    uniform = solvers(tmp_path, blind=(sn.load_model("snellen:uniform"),))
    same = uniform.keep_passing(whole, "same", to=tmp_path / "s")
    assert same.manifest.counts.samples == 120


def test_of_what_is_set_apart_as_solved_blind_no_more_is_good_than_was_said() -> None:
    wrongly, of_all = 0, 0
    for seed in range(60):
        rng = random.Random(seed)
        votes = []
        for i in range(400):
            gold, named = rng.randrange(4), [0.0] * 4
            for _ in range(4):  # solvers share a prejudice, so they do not err independently
                named[gold if i < 40 else i % 4 if rng.random() < 0.3 else rng.randrange(4)] += 0.25
            votes.append(BlindVotes(f"{i}", f"{i}", frozenset({gold}), tuple(named)))
        apart = solved_blind(votes, 0.2)
        wrongly += sum(int(vote.sample_id) >= 40 for vote in apart)
        of_all += len(apart)
    assert of_all > 60 * 20 and wrongly / of_all <= 0.2


# --- the doors -------------------------------------------------------------------------------------------------------


def test_lint_shows_checks_of_questions_and_keeps_those_that_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table = rows()
    table[1]["options"] = ["lamp", "The Boats", "tree", "boat"]
    folder = str(built(table, tmp_path).folder)
    code, out, _ = small.command(capsys, "lint", folder, "--blind", "snellen:uniform")
    assert code == 0 and "options-alike" in out and "(asked: snellen:uniform)" in out
    benchmark = Benchmark(Path(folder))
    items = named_items(benchmark, ["q001", "q002", "q003"])
    said: tuple[Label, ...] = ("two right options", "good", "wrong answer")
    labels = [AuditLabel(item.id, label, "ann") for item, label in zip(items, said, strict=True)]
    add_lines(labels_file(benchmark), *labels, AuditLabel(items[2].id, "good", "ben", settles=True))
    code, out, _ = small.command(capsys, "lint", folder, "--blind", "snellen:uniform", "--json")
    assert "of 2 questions that people found good 0 fail, of 1 that they found bad 1" in out
    code, out, err = small.command(capsys, "lint", folder, "--keep", "kept")
    assert code == 0 and "options-alike: 1 of 60 failed" in out and "kept 59 of 60" in out
    assert "`snellen audit kept`" in err
    code, _, err = small.command(
        capsys, "lint", folder, "--keep", "half", "--jury", "snellen:nobody"
    )
    assert (
        code == 2 and "nobody" in err and not (tmp_path / "home" / "benchmarks" / "half").exists()
    )
    code, _, err = small.command(capsys, "lint", folder, "--keep", "mine")
    assert code == 2 and "a part of mine needs a different name" in err
