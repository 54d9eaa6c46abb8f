"""People audit a benchmark's questions: what is drawn, what labels come to, the exact bound, the forms, the command."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

import msgspec
import numpy as np
import pytest
from scipy import stats as witness

import axe
import small
from browser import CHROMIUM, browsing
from snellen.building.benchmark import Benchmark
from snellen.errors import DataError
from snellen.formats.json_files import add_lines
from snellen_lab.verification.audit_form import AuditForm, write_audit_page
from snellen_lab.verification.audit_labels import AuditLabel, labels_file, read_audit_labels
from snellen_lab.verification.audit_outcome import (
    AuditOutcome,
    audit_outcome,
    few_bad_probability,
    keep_good,
    most_bad,
    with_bound,
)
from snellen_lab.verification.audit_server import AuditServer
from snellen_lab.verification.audited_questions import audited_items, named_items
from view_runs import until


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Benchmark:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return small.built(small.rows(60), tmp_path / "home" / "benchmarks" / "mine")


def outcome_of(benchmark: Benchmark, limit: int = 20) -> AuditOutcome:
    items = audited_items(benchmark, limit)
    return audit_outcome(
        items, benchmark.manifest.counts.samples, read_audit_labels(labels_file(benchmark))
    )


def label(benchmark: Benchmark, by: str, limit: int = 20, **said: str) -> None:
    """Label what is drawn as good, but for what `said` names by its place (`at3`)."""
    items = audited_items(benchmark, limit)
    labels = (
        AuditLabel(item.id, said.get(f"at{place}", "good"), by, item.sample.id)
        for place, item in enumerate(items)
    )  # type: ignore[arg-type]
    add_lines(labels_file(benchmark), *labels)


# --- the draw and the bound ------------------------------------------------------------------------------------------


def test_every_beginning_of_the_draw_is_a_draw_and_another_seed_draws_others(
    mine: Benchmark,
) -> None:
    names = [item.sample.id for item in audited_items(mine, 60)]
    assert sorted(names) == [f"q{i:03d}" for i in range(60)] != names
    assert [item.sample.id for item in audited_items(mine, 7)] == names[:7]
    assert [item.sample.id for item in audited_items(mine, 7, seed=1)] != names[:7]
    assert [item.sample.id for item in named_items(mine, ["q005", "q001"])] == ["q005", "q001"]
    with pytest.raises(DataError, match="mine has no question 'q999' with a known answer"):
        named_items(mine, ["q999"])


@pytest.mark.parametrize("of, drawn", [(60, 20), (200, 150), (1000, 150), (30, 30)])
def test_the_bound_is_that_of_the_hypergeometric_distribution(of: int, drawn: int) -> None:
    for bad in range(min(drawn, 12)):
        in_all = np.arange(bad, of - drawn + bad + 1)
        assert (
            most_bad(of, drawn, bad)
            == in_all[witness.hypergeom.cdf(bad, of, in_all, drawn) > 0.05].max()
        )
    assert few_bad_probability(of, of // 5, drawn, 3) == pytest.approx(
        witness.hypergeom.cdf(3, of, of // 5, drawn)
    )


@pytest.mark.parametrize("of, drawn", [(60, 20), (300, 150)])
def test_the_bound_holds_in_no_less_than_95_of_100_audits_whatever_the_truth(
    of: int, drawn: int
) -> None:
    at_most = np.array([most_bad(of, drawn, bad) for bad in range(drawn + 1)])
    for bad_in_all in range(of + 1):
        likely = witness.hypergeom.pmf(np.arange(drawn + 1), of, bad_in_all, drawn)
        assert likely[bad_in_all <= at_most].sum() >= 0.95 - 1e-9


def test_what_one_knows_after_looking_at_everything_is_exact() -> None:
    assert most_bad(40, 40, 3) == 3 and most_bad(150, 150, 0) == 0


# --- what labels come to ---------------------------------------------------------------------------------------------


def test_two_raters_who_differ_are_settled_and_what_is_not_settled_is_bad(mine: Benchmark) -> None:
    assert not outcome_of(mine).is_complete
    label(mine, "ann", at3="wrong answer", at4="two right options")
    assert outcome_of(mine).raters == ("ann",) and outcome_of(mine).bound().bad == 2
    label(mine, "ben", at3="unclear or other", at5="no image needed")
    outcome = outcome_of(mine)
    bound = outcome.bound()
    assert (
        bound.sample_size,
        bound.population_size,
        bound.bad,
        bound.disagreements,
        bound.raters,
    ) == (
        20,
        60,
        3,
        2,
        ("ann", "ben"),
    )
    assert bound.at_most == most_bad(60, 20, 3) / 60 and bound.kappa == pytest.approx(
        0.4444, abs=1e-3
    )
    assert [verdict.reason for verdict in outcome.bad] == [
        "people: wrong answer and unclear or other",
        "people: not settled, ann says two right options, ben says good",
        "people: not settled, ann says good, ben says no image needed",
    ]
    items = audited_items(mine, 20)
    add_lines(labels_file(mine), AuditLabel(items[4].id, "good", "eve", settles=True))
    add_lines(labels_file(mine), AuditLabel(items[5].id, "no image needed", "eve", settles=True))
    outcome = outcome_of(mine)
    assert [verdict.reason for verdict in outcome.bad][1:] == ["people: no image needed"]
    assert outcome.bound().disagreements == 2 and outcome.bound().kappa == bound.kappa


def test_labels_of_earlier_revisions_are_read_under_their_present_name(mine: Benchmark) -> None:
    [item] = audited_items(mine, 1)
    earlier = {"item": item.id, "label": "no picture needed", "by": "ann", "answer": "B"}
    labels_file(mine).write_text(json.dumps(earlier) + "\n")
    [kept] = read_audit_labels(labels_file(mine))
    assert kept == AuditLabel(item.id, "no image needed", "ann", answer="B")


def test_a_rater_who_is_not_done_does_not_count_yet_and_a_label_can_be_taken_back(
    mine: Benchmark,
) -> None:
    label(mine, "ann")
    label(mine, "ben", limit=5, at0="wrong answer")
    outcome = outcome_of(mine)
    assert (
        outcome.raters == ("ann",)
        and outcome.unlabelled == {"ann": 0, "ben": 15}
        and outcome.is_complete
    )
    add_lines(labels_file(mine), AuditLabel(audited_items(mine, 1)[0].id, None, "ann"))
    outcome = outcome_of(mine)
    assert outcome.unlabelled["ann"] == 1 and not outcome.is_complete


def test_labels_stay_when_a_benchmark_is_built_again_and_are_not_of_changed_questions(
    mine: Benchmark, tmp_path: Path
) -> None:
    label(mine, "ann")
    rows = small.rows(60)
    changed = audited_items(mine, 20)[0].sample.id
    rows[int(changed[1:])]["question"] = "Something else?"
    again = small.built(rows, mine.folder)
    assert outcome_of(again).unlabelled == {"ann": 1}


def test_what_is_bad_is_taken_out_and_the_bound_is_that_of_the_rest(
    mine: Benchmark, tmp_path: Path
) -> None:
    label(mine, "ann", at3="wrong answer")
    outcome = outcome_of(mine)
    whole = with_bound(mine, outcome.bound())
    assert (
        whole.manifest.verification is not None
        and whole.manifest.verification.bound == outcome.bound()
    )
    kept = keep_good(whole, outcome, "audited", to=tmp_path / "audited")
    bound = kept.manifest.verification.bound  # type: ignore[union-attr]
    assert bound is not None and (bound.bad, bound.removed, bound.population_size) == (1, 1, 60)
    assert bound.at_most == (most_bad(60, 20, 1) - 1) / 59
    [apart] = kept.set_apart()
    assert apart.sample.id == audited_items(mine, 20)[3].sample.id and apart.reasons == (
        "people: wrong answer",
    )


# --- the forms -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(CHROMIUM is None, reason="waits for chromium")
def test_the_page_of_the_local_server_keeps_each_label_at_once(
    mine: Benchmark, tmp_path: Path
) -> None:
    items, path = audited_items(mine, 4), labels_file(mine)
    server = AuditServer(AuditForm(mine, items, "ann"), path)
    with small.running(server), browsing(tmp_path) as page:
        page.open(server.address)
        assert page.run("document.images[0].naturalWidth") == 8
        assert "(the key)" not in page.run("document.body.innerText")
        page.press("1")  # no label before the key is shown
        page.press("a")
        told = "(the key)" in page.run("document.body.innerText")
        page.press("1", " ", "3", "u", " ", "2", "s", "b", "5")
        page.wait_until("document.querySelector('output').textContent.includes('1 to label')")
        until(lambda: len({given.item for given in read_audit_labels(path)}) == 3)
        page.open(server.address)
        assert told and "1 to label, by ann" in page.run(
            "document.querySelector('output').textContent"
        )
        assert not page.complaints and set(page.requested) == {server.address}
    labels = {given.item: given.label for given in read_audit_labels(path)}
    assert [labels.get(item.id) for item in items] == [
        "good",
        "wrong answer",
        None,
        "unclear or other",
    ]


@pytest.mark.skipif(CHROMIUM is None, reason="waits for chromium")
@pytest.mark.parametrize("width, scheme", [(390, "dark"), (1280, "light")])
def test_axe_finds_nothing_on_the_page_before_and_after_the_key_and_at_its_end(
    mine: Benchmark, tmp_path: Path, width: int, scheme: str
) -> None:
    write_audit_page(AuditForm(mine, audited_items(mine, 1), "ann"), tmp_path / "page.html")
    with browsing(tmp_path) as page:
        page.resize(width)
        page.prefer(scheme)
        page.open((tmp_path / "page.html").as_uri())
        for key in ("", "b", "1"):
            page.press(*key)
            assert axe.violations(page) == []
            assert page.run("document.documentElement.scrollWidth") <= width


@pytest.mark.skipif(CHROMIUM is None, reason="waits for chromium")
def test_a_page_that_was_sent_saves_labels_that_are_read_back(
    mine: Benchmark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = small.command(capsys, "audit", "mine", "--limit", "2", "--page", "for-ben.html")
    assert code == 0 and "for-ben.html: 2 questions" in out
    with browsing(tmp_path) as page:
        page.open((tmp_path / "for-ben.html").as_uri())
        page.press(*"Ben")
        page.press("Enter", "a", "1", "c", "2")
        assert (
            page.run("document.getElementById('left').textContent")
            == "All questions are labelled. Thank you."
        )
        page.download("document.getElementById('save').click()")
        assert not page.complaints
    code, out, err = small.command(
        capsys, "audit", "mine", "--limit", "2", "--labels", "labels-Ben.jsonl"
    )
    assert code == 0 and "2 of 2 labels match questions of mine" in err
    assert (
        "1 good, 1 wrong answer" in out
        and "2 of 60 were drawn, 1 of them bad, according to Ben" in out
    )


def test_the_server_keeps_nothing_from_who_does_not_know_its_address(mine: Benchmark) -> None:
    path = labels_file(mine)
    server = AuditServer(AuditForm(mine, audited_items(mine, 2), "ann"), path)
    with small.running(server):
        root = server.address.rpartition("/")[0]
        for address, content, status in (
            (f"{root}/", None, 404),
            (f"{root}/other", b"{}", 404),
            (server.address, b"not json", 500),
        ):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(address, content)
            assert refused.value.code == status
            refused.value.close()
        sent = msgspec.json.encode(AuditLabel("x", "good", "ann"))
        with urllib.request.urlopen(server.address, sent) as answer:
            assert answer.read() == b"kept"
    assert [given.item for given in read_audit_labels(path)] == ["x"]


def test_a_label_that_arrives_after_its_successor_is_not_kept(mine: Benchmark) -> None:
    path = labels_file(mine)
    server = AuditServer(AuditForm(mine, audited_items(mine, 2), "ann"), path)

    def send(label: str, visit: str, order: int) -> None:
        request = urllib.request.Request(
            server.address,
            msgspec.json.encode(AuditLabel("x", label, "ann")),
            {"Audit-Visit": visit, "Audit-Order": str(order)},
        )
        with urllib.request.urlopen(request) as answer:
            assert answer.read() == b"kept"

    with small.running(server):
        send("good", "first", 1)
        send("wrong answer", "first", 3)
        send("two right options", "first", 2)
        assert [given.label for given in read_audit_labels(path)] == ["wrong answer"]
        send("good", "second", 1)
    assert [given.label for given in read_audit_labels(path)] == ["good"]


def test_a_page_shows_texts_as_texts(tmp_path: Path) -> None:
    rows = small.rows(2)
    rows[0]["question"] = "</script><script>document.title='run'</script>"
    benchmark = small.built(rows, tmp_path / "mine")
    write_audit_page(AuditForm(benchmark, audited_items(benchmark, 2)), tmp_path / "page.html")
    assert "<script>document.title" not in (tmp_path / "page.html").read_text()


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_says_what_is_missing_and_then_the_bound(
    mine: Benchmark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def audit(*words: str) -> tuple[int, str, str]:
        return small.command(capsys, "audit", "mine", "--limit", "20", *words)

    assert "no labels yet; label with `snellen audit mine --by NAME`" in audit()[1]
    assert "name the labeller with --by NAME" in audit("--form")[2]
    label(mine, "ann", at3="wrong answer")
    assert "nothing to settle: no two raters disagree" in audit("--settle", "--by", "eve")[2]
    label(mine, "ben", limit=5)
    code, out, _ = audit()
    assert code == 0 and "ann is done; ben has 15 to label" in out and "1 good" not in out
    assert (
        "At most 18.4% of the questions are bad, with 95% confidence: 20 of 60 were drawn, 1 of them bad, according to ann."
        in out
    )
    label(mine, "ben")
    code, out, _ = audit("--json")
    assert json.loads(out)["raters"] == ["ann", "ben"]
    assert "1 not settled (counted as bad): snellen audit mine --settle --by NAME" in audit()[1]
    code, out, _ = audit("--keep", "audited")
    assert code == 0 and "built audited" in out and "1 of them bad, 1 removed" in out
    (tmp_path / "list.jsonl").write_text('{"id": "q001", "reason": "all miss it"}\n')
    label_of = AuditLabel(named_items(mine, ["q001"])[0].id, "two right options", "eve")
    add_lines(labels_file(mine), label_of)
    code, out, _ = small.command(
        capsys, "audit", "mine", "--only", "list.jsonl", "--keep", "without"
    )
    assert (
        code == 0
        and "1 two right options" in out
        and "at most" not in out
        and "59 questions" in out
    )
    code, _, err = audit("--settle", "--judge", "snellen:uniform")
    assert code == 2 and "--judge: mine is a benchmark, which people audit" in err


def test_flags_of_benchmarks_are_refused_for_runs(
    mine: Benchmark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        small.command(capsys, "run", "snellen:uniform", "mine", "--name", "x", "--limit", "4")[0]
        == 0
    )
    code, _, err = small.command(capsys, "audit", "runs/x", "--settle")
    assert (
        code == 2
        and "--settle: runs/x is a run, but this option is for benchmarks; remove it" in err
    )
    code, _, err = small.command(capsys, "audit", "nothing-there")
    assert code == 2 and "nothing-there" in err and len(err.splitlines()) == 1


def test_labels_that_are_none_are_refused_with_their_line(
    mine: Benchmark, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("wrong.jsonl").write_text(
        '{"item": "a", "label": "good", "by": "ann"}\n{"item": "a", "label": "fine"}\n'
    )
    code, _, err = small.command(capsys, "audit", "mine", "--labels", "wrong.jsonl")
    assert code == 2 and "wrong.jsonl:2: not a label of an audit" in err
    Path("nobody.jsonl").write_text('{"item": "a", "label": "good", "by": ""}\n')
    assert "has no rater" in small.command(capsys, "audit", "mine", "--labels", "nobody.jsonl")[2]
    assert (
        "the file of labels does not exist"
        in small.command(capsys, "audit", "mine", "--labels", "missing.jsonl")[2]
    )
