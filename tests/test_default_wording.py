"""Suites whose benchmarks are asked in the words of their published number when a run names no prompts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import modern_tables
import small
import snellen as sn
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries, suite_facts
from snellen.catalogue.published_number import OWN_DECODING, OWN_WORDING
from snellen.plugin_api import read_exchanges
from snellen.protocols.prompts.templates import default_templates
from snellen.records import Request
from snellen.runs.plan import plan_run, prompt_of
from snellen.runs.spec import run_spec

SUITE = """
name = "zoo"
title = "Animals"
published_prompts = true

[as_published]
by_entry = true
"""
ENTRY = """
title = "Animals by their voices"
formulation = "choice"
metrics = ["accuracy"]
max_new_tokens = 9

[source]
reader = "table"
embedded = true
folder = "."
params = { file = "voices.jsonl", no_images = true }

[prompts.official]
form = "plain"
layout = { stop = "\\nOne letter." }
max_new_tokens = 4

[prompts.long]
form = "plain"
layout = { stop = "\\nThink first." }

[published]
prompt = "official"
"""
WITHOUT_PROMPT = ENTRY.replace('prompt = "official"', 'split = "all"')
ROWS = (
    '{"id": "1", "question": "Which says moo?", "options": ["cow", "cat"], "answer": "cow"}\n'
    '{"id": "2", "question": "Which says meow?", "options": ["cow", "cat"], "answer": "cat"}\n'
)
OFFICIAL = "Which says moo?\nA. cow\nB. cat\nOne letter."
OWN_OPTIONS = "Options: (A) cow; (B) cat."


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SNELLEN_SUITES", "")


def zoo(suite: str = SUITE, **entry_of: str) -> None:
    home = Path("zoo/entries")
    home.mkdir(parents=True)
    Path("zoo/suite.toml").write_text(suite)
    (home / "voices.jsonl").write_text(ROWS)
    for name, entry in (entry_of or {"voices": ENTRY}).items():
        (home / f"{name}.toml").write_text(entry)
    sn.add_suites("zoo")


def requests(protocol: str = "vanilla", sample: str = "1", **settings: object) -> list[Request]:
    results = sn.evaluate("snellen:oracle", "zoo/voices", protocol, **settings)  # type: ignore[arg-type]
    exchanges = read_exchanges(results.runs[0].folder)
    return [one.request for one in exchanges if one.request.sample_id == sample]


def words(request: Request) -> str:
    """The question; Snellen's own prompt opens the reply after it."""
    return [message.text for message in request.messages if message.role == "user"][-1]


def test_a_run_without_prompts_asks_in_the_words_of_the_published_number() -> None:
    zoo()
    [request] = requests()
    assert words(request) == OFFICIAL and len(request.messages) == 1
    assert request.decoding.max_new_tokens == 4
    [longer] = requests(max_new_tokens=7)
    assert words(longer) == OFFICIAL and longer.decoding.max_new_tokens == 7


def test_named_prompts_and_ones_own_take_precedence() -> None:
    zoo()
    [own] = requests(templates="snellen")
    assert OWN_OPTIONS in own.messages[0].text and own.decoding.max_new_tokens == 9
    [long] = requests(templates="long")
    assert words(long).endswith("Think first.")
    # One's own prompt is not followed by the makers' instruction.
    [prompt] = requests(prompt="Be brief. {question}")
    assert prompt.messages[0].text == f"Be brief. Which says moo? {OWN_OPTIONS}"


def test_templates_of_an_entry_take_precedence_over_its_published_number() -> None:
    zoo(voices='templates = "long"\n' + ENTRY)
    [request] = requests()
    assert words(request).endswith("Think first.")


def test_a_run_names_what_is_asked_in_snellens_words(capsys: pytest.CaptureFixture[str]) -> None:
    zoo(voices=ENTRY, other=WITHOUT_PROMPT)
    _, _, err = small.command(capsys, "run", "snellen:oracle", "zoo", "--name", "both")
    assert err.count(OWN_WORDING) == 1
    assert f"in {OWN_WORDING}, because no prompt with a source is declared: zoo/other" in err
    by_benchmark = {
        one.request.benchmark: words(one.request)
        for one in read_exchanges(Path("runs/both"))
        if one.request.sample_id == "1"
    }
    assert by_benchmark["zoo/voices"] == OFFICIAL

    arguments = ["run", "snellen:oracle", "zoo", "--name"]
    _, _, err = small.command(capsys, *arguments, "own", "--templates", "snellen")
    assert OWN_WORDING not in err
    _, _, err = small.command(capsys, *arguments, "published", "--as-published")
    assert err.count(OWN_WORDING) == 1 and "as published, in" in err


def test_a_protocol_that_varies_the_wording_keeps_several(
    capsys: pytest.CaptureFixture[str],
) -> None:
    zoo()
    varied = requests("instability?m=3&perturb=template")
    assert len({request.messages[0].text for request in varied}) == len(varied) == 3
    orders = requests("instability?m=2&perturb=order&in_context=false")
    assert {words(request) for request in orders} == {
        OFFICIAL,
        "Which says moo?\nA. cat\nB. cow\nOne letter.",
    }

    arguments = ["run", "snellen:oracle", "zoo/voices", "-p", "instability?m=3"]
    _, _, err = small.command(capsys, *arguments)
    assert f"instability?m=3 needs several prompts, so it asks in {OWN_WORDING}" in err
    _, _, err = small.command(capsys, *arguments, "--templates", "official")
    assert (
        "instability?m=3 varies the templates, but the prompts of the run have one for zoo/voices; "
        "--templates snellen has several" in err
    )
    _, _, err = small.command(capsys, *arguments, "-p", "vanilla", "--templates", "snellen")
    assert "needs several" not in err and "varies the templates" not in err


def test_both_kinds_of_protocol_in_one_run() -> None:
    zoo()
    results = sn.evaluate("snellen:oracle", "zoo/voices", ["vanilla", "instability?m=2"])
    texts_by_protocol: dict[str, list[str]] = {}
    for exchange in read_exchanges(results.runs[0].folder):
        texts_by_protocol.setdefault(exchange.protocol, []).append(words(exchange.request))
    assert all(text.endswith("One letter.") for text in texts_by_protocol["vanilla"])
    assert all("Options: (A)" in text for text in texts_by_protocol["instability?m=2"])


def test_likelihood_is_asked_as_before() -> None:
    zoo()
    results = sn.evaluate("snellen:oracle", "zoo/voices", "likelihood")
    # The options are not shown, so that the makers' form would leave the bare question.
    assert results.runs[0].manifest.templates == default_templates().id
    [own] = requests("likelihood", templates="snellen")
    [request] = requests("likelihood")
    assert request.messages == own.messages
    assert request.messages[0].text.endswith("\nWhich says moo?")


def test_a_protocol_with_steps_of_its_own_keeps_its_instructions() -> None:
    zoo()
    roles = {"questioner": "snellen:oracle", "reasoner": "snellen:oracle"}
    settings = {"models": ["snellen:oracle"], "benchmarks": ["zoo/voices"], "roles": roles}
    plan = plan_run(run_spec({**settings, "protocols": ["reasoning"]}))
    [protocol] = plan.protocols
    templates = prompt_of(plan.benchmarks[0].benchmark.spec, "choice", protocol, plan).templates
    assert templates.named("caption.generation.0") != ""


def test_examples_are_shown_in_the_same_words() -> None:
    zoo()
    sn.build("zoo/voices", examples=1)
    [request] = requests(few_shot=1) or requests(few_shot=1, sample="2")
    example, reply, question = request.messages
    asked = {example.text, question.text}
    assert asked == {OFFICIAL, "Which says meow?\nA. cow\nB. cat\nOne letter."}
    assert reply.text == ("A. cow" if example.text == OFFICIAL else "B. cat")


def test_a_run_of_an_earlier_version_is_continued_with_its_own_words() -> None:
    zoo()
    results = sn.evaluate(
        "snellen:oracle", "zoo/voices", "vanilla", templates="snellen", limit=1, name="old"
    )
    manifest = results.runs[0].folder / "manifest.json"
    content = json.loads(manifest.read_text())
    # Then, no prompts had to be named for them.
    content["asked"][0]["templates"] = ""
    manifest.write_text(json.dumps(content))

    with pytest.raises(
        sn.SnellenError,
        match=r"templates snellen \(templates='snellen' continues it\), now as its entries declare",
    ):
        requests(name="old")
    # Both questions, the first reply kept.
    both = sn.evaluate("snellen:oracle", "zoo/voices", "vanilla", templates="snellen", name="old")
    texts = [words(one.request) for one in read_exchanges(both.runs[0].folder)]
    assert len(texts) == 2 and all(OWN_OPTIONS in text for text in texts)


def test_a_suite_has_one_default() -> None:
    with pytest.raises(sn.DataError, match="either templates for all its benchmarks or published"):
        zoo(SUITE.replace("published_prompts", 'templates = "letter"\npublished_prompts'))


def test_modern_asks_as_the_makers_do(tmp_path: Path) -> None:
    assert suite_facts()["modern"].published_prompts
    source = modern_tables.write("mmstar", tmp_path / "hub")
    spec = entries()["modern/mmstar"].from_hub()
    folder = str(build_benchmark(spec, source=source, to=tmp_path / "built").folder)
    assert spec.published is not None
    by_default = sn.evaluate("snellen:oracle", folder, limit=3)
    named = sn.evaluate("snellen:oracle", folder, templates=spec.published.prompt, limit=3)
    requests_of = [
        [one.request for one in read_exchanges(results.runs[0].folder)]
        for results in (by_default, named)
    ]
    assert requests_of[0] == requests_of[1]
    # MMStar's makers ask in the form of VLMEvalKit, as MMBench's do.
    assert all("Please select the correct answer" in words(one) for one in requests_of[0])
    # How replies are scored does not change.
    rows = {(row.metric, row.value) for row in by_default.rows}
    assert rows == {(row.metric, row.value) for row in named.rows}


OF_OTHERS = f'{ENTRY}prompt_by = "lmms-eval"\n'
NEVER_PUBLISHED = ENTRY.replace('prompt = "official"', 'no_prompt = "they train classifiers"')


@pytest.mark.parametrize(
    ("entry", "templates", "setting", "line", "note"),
    [
        (ENTRY, "", "in the makers' wording", "", ""),
        (
            OF_OTHERS,
            "",
            "in the published wording of lmms-eval",
            "in the wording of others, because no prompt of their makers is known: lmms-eval (zoo/voices)",
            "In the published wording of others than the makers: zoo/voices (lmms-eval).",
        ),
        (OF_OTHERS, "snellen", "in Snellen's own wording", "", ""),
        (OF_OTHERS, "long", "prompts long", "", ""),
        (
            NEVER_PUBLISHED,
            "",
            "in Snellen's own wording",
            "in Snellen's own wording, because no prompt was published: zoo/voices: they train classifiers",
            "Snellen's own wording, no prompt with a source is known: zoo/voices (they train classifiers).",
        ),
    ],
)
def test_runs_reports_and_cards_say_whose_wording_it_was(
    entry: str,
    templates: str,
    setting: str,
    line: str,
    note: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    zoo(voices=entry)
    chosen = ("--templates", templates) if templates else ()
    _, _, err = small.command(
        capsys, "run", "snellen:oracle", "zoo/voices", "--name", "run", *chosen
    )
    lines = [told for told in err.splitlines() if "wording" in told]
    assert lines == ([line] if line else [])
    _, card, _ = small.command(capsys, "card", "runs/run", "-o", "card.tex")
    assert f"0-shot, vanilla, {setting}" in card
    assert setting.replace("'", "") in Path("card.tex").read_text().replace("'", "")
    small.command(capsys, "report", "runs/run", "-o", "report.md")
    notes = re.findall(
        r"(?:In the published|Snellen's own) wording.*", Path("report.md").read_text()
    )
    assert notes == ([note] if note else [])


def test_runs_lists_and_reports_say_that_no_decoding_was_published(
    capsys: pytest.CaptureFixture[str],
) -> None:
    no_decoding = ENTRY + 'no_decoding = "they ask no model"\n'
    zoo(voices=no_decoding)
    _, out, _ = small.command(capsys, "list", "zoo/voices", "--json")
    assert f'"decoding":"{OWN_DECODING}: no decoding was published"' in out

    for name, flags in (("plain", ()), ("published", ("--as-published",))):
        _, out, err = small.command(
            capsys, "run", "snellen:oracle", "zoo/voices", "--name", name, *flags
        )
        assert f"with {OWN_DECODING}, because none was published: zoo/voices" in err
        assert f"{OWN_DECODING}, none was published: zoo/voices." in out
    _, out, _ = small.command(capsys, "card", "runs/plain")
    assert OWN_DECODING in out
    # Who chooses the prompts does not ask for the published number.
    _, out, err = small.command(
        capsys, "run", "snellen:oracle", "zoo/voices", "--name", "long", "--templates", "long"
    )
    assert OWN_DECODING not in out + err


def test_every_entry_applies_the_decoding_that_it_declares() -> None:
    """The words of `decoding` and the settings of the set that it names are the same facts."""
    wrong: list[str] = []
    for name, spec in entries().items():
        published = spec.published
        if published is None or not published.decoding or not published.prompt:
            continue
        assert not published.no_decoding, name
        if "greedy" in published.differs:  # the set cannot apply it, and the entry says so
            continue
        prompts = spec.prompts[published.prompt]
        longest = prompts.max_new_tokens or spec.max_new_tokens
        stated = re.search(r"at most (\d+) tokens", published.decoding)
        if stated and int(stated[1]) != longest:
            wrong.append(f"{name}: {stated[0]}, but {longest}")
        temperature = re.search(r"temperature ([\d.]+)", published.decoding)
        wanted = float(temperature[1]) if temperature else 0.0
        if prompts.temperature != wanted:
            wrong.append(f"{name}: temperature {wanted}, but {prompts.temperature}")
    assert wrong == []


def test_lists_say_that_no_prompt_was_published(capsys: pytest.CaptureFixture[str]) -> None:
    zoo(voices=NEVER_PUBLISHED)
    _, out, _ = small.command(capsys, "list", "zoo/voices", "--json")
    assert f'"wording":"{OWN_WORDING}: no prompt was published"' in out
