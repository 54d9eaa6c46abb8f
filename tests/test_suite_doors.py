"""Suites in a folder that a user names work as Snellen's own; test_example_package.py has an installed package."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import small
import snellen
from snellen import registry
from snellen.catalogue import add_suites, entries, select, suite_facts
from snellen.catalogue.suites import parse_suite
from snellen.cli.verbs.doctor import diagnose_hooks
from snellen.common.faults import check_names
from snellen.errors import DataError
from snellen.metrics.declaration import metric_of
from snellen.runs.finding import find_benchmarks
from snellen.runs.journal import read_exchanges


@pytest.fixture(autouse=True)
def no_named_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test adds is gone after it."""
    monkeypatch.setenv("SNELLEN_SUITES", "")


# --- folders -----------------------------------------------------------------------------------------------------

ENTRY = """
name = "{name}"
title = "Animals"
formulation = "choice"
{more}
[source]
reader = "{reader}"
embedded = true
params = {{ file = "questions.jsonl" }}
"""


def folder_of_entries(
    folder: Path, name: str = "animals", more: str = "", reader: str = "table"
) -> Path:
    """A folder with one entry, and the questions beside it."""
    small.write(small.rows(4), folder / "questions.jsonl")
    (folder / f"{name.replace('/', '-')}.toml").write_text(
        ENTRY.format(name=name, more=more, reader=reader)
    )
    return folder


def test_a_folder_of_entries_named_on_the_command_line_is_run_and_so_are_its_workers(
    tmp_path: Path,
) -> None:
    folder_of_entries(tmp_path / "mine", more='dimension = "FG"')
    shown = small.snellen_commands(
        tmp_path,
        [
            "--suites",
            "mine",
            "run",
            "snellen:oracle",
            "animals",
            "--workers",
            "2",
            "--name",
            "x",
            "--json",
        ],
        ["list", "--where", "benchmark == 'animals'", "--json"],
    )
    rows = [json.loads(line) for line in next(shown).splitlines()]
    assert {row["value"] for row in rows if (row["metric"], row["slice"]) == ("accuracy", "")} == {
        1.0
    }
    assert json.loads(next(shown))["dimension"] == "fine-grained perception"


def test_entries_share_a_file_that_they_include_and_set_what_is_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    small.write(small.rows(4), folder / "questions.jsonl")
    (folder / "_shared.toml").write_text(
        ENTRY.format(name="", more='licence = "MIT"', reader="table").lstrip()
    )
    for name, more in (
        ("calm", ""),
        ("wild", 'title = "Wild animals"\n[source.params]\nlabel = "x"\n'),
    ):
        (folder / f"{name}.toml").write_text(f'name = "{name}"\ninclude = "_shared.toml"\n{more}')
    add_suites(folder)
    calm, wild = (entries()[name] for name in ("calm", "wild"))
    assert (calm.title, wild.title, wild.licence, wild.source.reader) == (
        "Animals",
        "Wild animals",
        "MIT",
        "table",
    )
    assert calm.source.params == {"file": "questions.jsonl"}
    assert wild.source.params == {"file": "questions.jsonl", "label": "x"}
    assert snellen.build("calm", to=tmp_path / "built").manifest.counts.questions == 4


def test_an_entry_without_a_name_has_that_of_its_file(tmp_path: Path) -> None:
    for folder, stem in (("zoo/entries", "lions"), ("zoo/entries", "zoo"), (".", "tigers")):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / f"{stem}.toml").write_text(entry("").replace('name = ""\n', ""))
    (tmp_path / "zoo/suite.toml").write_text('name = "zoo"\ntitle = "Zoo"')
    before = set(entries())
    add_suites(tmp_path)
    assert (
        set(entries()) - before == {"zoo/lions", "zoo", "tigers"}
        and entries()["zoo/lions"].name == "zoo/lions"
    )


@pytest.mark.parametrize(
    ("include", "shared", "fault"),
    [
        (
            "shared.toml",
            "",
            r"a.toml: include = 'shared.toml' must be a file in the same folder whose name begins with '_'",
        ),
        (
            "../_shared.toml",
            "",
            r"a.toml: include = '../_shared.toml' must be a file in the same folder",
        ),
        ("_other.toml", "", r"_other.toml: cannot read the file"),
        (
            "_shared.toml",
            'include = "_b.toml"',
            "_shared.toml: an included file cannot include another",
        ),
        ("_shared.toml", "name = ", "_shared.toml: "),
    ],
)
def test_a_wrong_include_is_refused_with_its_file(
    tmp_path: Path, include: str, shared: str, fault: str
) -> None:
    (tmp_path / "_shared.toml").write_text(shared)
    (tmp_path / "a.toml").write_text(f'name = "a"\ninclude = "{include}"\n')
    with pytest.raises(DataError, match=fault):
        add_suites(tmp_path)


def test_a_suite_in_a_folder_brings_modules_that_lie_beside_it(tmp_path: Path) -> None:
    suite = tmp_path / "suites/zoo"
    folder_of_entries(suite / "entries", "zoo/animals", reader="zoo-table")
    (suite / "suite.toml").write_text(
        'name = "zoo"\ntitle = "Zoo"\n[hooks.readers]\nzoo-table = "zoo_reader:read"\n'
        '[hooks.metrics]\nzoo_length = "zoo_reader:length"\n'
    )
    (suite / "zoo_reader.py").write_text(
        "from snellen.readers.table import read\n\n\ndef length(reply, references):\n    return float(len(reply))\n"
    )
    assert metric_of("zoo_length") is None
    snellen.add_suites(tmp_path / "suites")
    assert (
        registry.names("metrics").count("zoo_length") == 1 and metric_of("zoo_length") is not None
    )
    assert snellen.build("zoo", to=tmp_path / "built").manifest.counts.questions == 4
    # The folder of one suite itself will do; a copy of it is a clash.
    with pytest.raises(DataError, match="both have the suite 'zoo'"):
        add_suites(shutil.copytree(suite, tmp_path / "copy"))


def test_a_library_sees_what_it_has_added_and_no_more(tmp_path: Path) -> None:
    before = set(entries())
    add_suites(folder_of_entries(tmp_path / "mine"))
    add_suites(tmp_path / "mine")
    assert set(entries()) - before == {"animals"}
    assert select("animals")[0].suite == ""


SUITE = 'name = "a"\ntitle = "A"\n'


def entry(name: str, more: str = "") -> str:
    return ENTRY.format(name=name, more=more, reader="table")


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({}, "contains neither a suite (suite.toml) nor an entry (*.toml)"),
        ({"a.toml": entry("eyechart/word")}, "both have the benchmark 'eyechart/word'"),
        (
            {"a.toml": entry("a", 'dimension = "FGG"')},
            "a.toml: unknown dimension 'FGG'; did you mean FG",
        ),
        ({"suite.toml": 'name = "mmbench"\ntitle = "Mine"'}, "both have the suite 'mmbench'"),
        (
            {"suite.toml": SUITE + '[dimensions]\nFG = "football"'},
            "'FG' is 'fine-grained perception' in ",
        ),
        (
            {"suite.toml": SUITE + '[hooks.extractors]\nstandard = "a:b"'},
            "the extractor 'standard' is built into Snellen",
        ),
        (
            {"suite.toml": SUITE + '[hooks.templates]\nmmbench = "a:b"'},
            "both have the template",
        ),
        (
            {"suite.toml": SUITE, "entries/b.toml": entry("a/b", 'suite = "c"')},
            "b.toml: suite = 'c', but the entry belongs to the suite 'a'",
        ),
        (
            {
                "suite.toml": SUITE + 'taxonomy = "b"',
                "entries/b.toml": entry("a/b", 'dimension = "FG"'),
            },
            "unknown suite 'b'",
        ),
    ],
)
def test_a_wrong_folder_is_refused_in_one_line_and_leaves_nothing_behind(
    files: dict[str, str], fault: str, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError) as refused:
        add_suites(tmp_path)
    assert fault in str(refused.value) and "\n" not in str(refused.value)
    assert str(tmp_path) in str(refused.value)
    assert "a" not in suite_facts() and select("eyechart/word")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('nmae = "a"', "s.toml: unknown field 'nmae'; did you mean name"),
        ('name = "a"', "s.toml: .*missing required field `title`"),
        (SUITE + "[hooks.metrix]", "s.toml: unknown group of hooks 'metrix'; did you mean metrics"),
        (
            'name = "a"\ntitle = "A"\n[hooks.metrics]\nm = "module"',
            "hooks.metrics.m is 'module'; write it as module:attr",
        ),
        (SUITE + '[aggregation]\nover = "days"', "s.toml: Invalid enum value 'days'"),
        (
            SUITE + "[as_published]\nscales = { share = 100 }",
            r"s.toml: as_published: unknown field 'scales'; did you mean sc",
        ),
        (
            SUITE + 'taxonomy = "b"\n[dimensions]\nX = "y"',
            "either its own dimensions or the taxonomy",
        ),
        ("name = ", "s.toml: "),
    ],
)
def test_a_wrong_suite_is_refused_with_its_file(text: str, fault: str) -> None:
    with pytest.raises(DataError, match=fault):
        parse_suite(text, "s.toml")


def test_a_suite_that_is_not_installed_whole_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match="no such folder; give a folder with suites"):
        add_suites(tmp_path / "nowhere")
    monkeypatch.setitem(registry._NAMES["suites"], "ghost", "snellen.ghost")
    monkeypatch.setenv("SNELLEN_SUITES", str(folder_of_entries(tmp_path / "mine")))
    with pytest.raises(DataError, match=r"the suite 'ghost' \(snellen.ghost\) cannot be read"):
        entries()


def test_all_that_suites_name_can_be_found() -> None:
    for suite in suite_facts().values():
        for group, targets in suite.hooks.items():
            for name in targets:
                assert registry.find_registered(group, name) is not None


# --- what is wrong is said with its file, when the folder is named -------------------------------------------------


def test_a_protocol_that_nobody_has_is_refused_when_the_folder_is_named(tmp_path: Path) -> None:
    folder = folder_of_entries(tmp_path / "mine", more='generation = ["vanila"]')
    with pytest.raises(
        DataError,
        match=r"animals.toml: generation: unknown protocol 'vanila'; did you mean vanilla\?",
    ):
        add_suites(folder)
    assert "animals" not in entries()


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (
            'generation = ["vanila?labels=lower"]',
            "generation: unknown protocol 'vanila'; did you mean vanilla?",
        ),
        (
            'tasks.t.likelihood = ["likelihod"]',
            "tasks.t.likelihood: unknown protocol 'likelihod'; did you mean lik",
        ),
        ('templates = "plane"', "templates: unknown template 'plane'; did you mean plain?"),
        ('taxonomy = "mmbenhc"', "taxonomy: unknown suite 'mmbenhc'; did you mean mmbench?"),
        (
            'pools.both = ["animals", "plants"]',
            "pools.both: unknown benchmark 'plants'; known: animals",
        ),
        (
            'as_published.judge_prompt = "delimitted"',
            "as_published.judge_prompt: unknown matching prompt 'delimitted';",
        ),
        (
            'as_published.extractor = "strikt"',
            "as_published.extractor: unknown extractor 'strikt'; did you mean strict",
        ),
        (
            'as_published.templates = "leter"',
            "as_published.templates: unknown template 'leter'; did you mean letter",
        ),
        (
            'as_published.metrics.t = ["anlz"]',
            "as_published.metrics.t: unknown metric 'anlz'; did you mean anls",
        ),
    ],
)
def test_a_name_in_a_suite_that_nobody_has_is_told_with_its_file_and_key(
    line: str, fault: str, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    folder_of_entries(folder / "entries", "mine/animals")
    (folder / "suite.toml").write_text(f'name = "mine"\ntitle = "Mine"\n{line}\n')
    with pytest.raises(DataError, match=re.escape(f"suite.toml: {fault}")):
        add_suites(folder)
    assert "mine" not in suite_facts()


@pytest.mark.parametrize(
    ("more", "source", "fault"),
    [
        (
            'metrics = ["anls", "exact_mach"]',
            "",
            "metrics: unknown metric 'exact_mach'; did you mean exact_match?",
        ),
        (
            'likelihood = ["likelihod"]',
            "",
            "likelihood: unknown protocol 'likelihod'; did you mean likelihood?",
        ),
        (
            'prompts.own.form = "leter"',
            "",
            "prompts.own.form: unknown template 'leter'; did you mean letter?",
        ),
        ("", 'reader = "tabel"', "source.reader: unknown reader 'tabel'; did you mean table?"),
        (
            "",
            'files_of = "eyechart/wrod"',
            "source.files_of: unknown benchmark 'eyechart/wrod'; did you mean eye",
        ),
        (
            "",
            'distractors = "pool:2,randm:1"',
            "source.distractors: unknown distractor source 'randm'; did you mean r",
        ),
        (
            "",
            'places = [{ kind = "hub", repo = "a/b", importer = "reform-evel" }]',
            "source.places.importer: unknown ",
        ),
    ],
)
def test_a_name_in_an_entry_that_nobody_has_is_told_with_its_file_and_key(
    more: str, source: str, fault: str, tmp_path: Path
) -> None:
    text = entry("animals", more)
    text = text.replace('reader = "table"', source) if "reader" in source else f"{text}{source}\n"
    (tmp_path / "animals.toml").write_text(text)
    with pytest.raises(DataError, match=re.escape(f"animals.toml: {fault}")):
        add_suites(tmp_path)


def test_suites_and_entries_of_snellen_name_nothing_that_is_not_there() -> None:
    catalogue = entries()
    for name, spec in catalogue.items():
        check_names(spec, name, {"templates": spec.prompts, "benchmarks": catalogue})
    short = {spec.short for spec in catalogue.values()}
    for name, suite in suite_facts().items():
        check_names(suite, name, {"suites": suite_facts(), "benchmarks": short})
    rules = [suite.as_published for suite in suite_facts().values() if suite.as_published]
    headlines = {
        *(spec.headline for spec in catalogue.values()),
        *(rule.headline for rule in rules),
    }
    for row in {*headlines, *(row for rule in rules for row in rule.instead.values())} - {""}:
        assert metric_of(row), row


def test_a_formulation_that_the_questions_do_not_have_is_refused_by_the_build(
    tmp_path: Path,
) -> None:
    folder = folder_of_entries(tmp_path / "mine")
    entry_of_text = (
        (folder / "animals.toml")
        .read_text()
        .replace('formulation = "choice"', 'formulation = "text"')
    )
    (folder / "animals.toml").write_text(entry_of_text)
    add_suites(folder)
    with pytest.raises(
        DataError,
        match=r"animals.toml: formulation = 'text', but most of its questions have options",
    ):
        snellen.build("animals", to=tmp_path / "built")


@pytest.mark.parametrize("of_suite", [False, True])
def test_a_wording_is_the_default_of_an_entry_or_of_a_suite_and_a_run_says_otherwise(
    tmp_path: Path, of_suite: bool
) -> None:
    folder = tmp_path / "mine"
    line = 'templates = "short"'
    folder_of_entries(folder / "entries", "mine/animals", more="" if of_suite else line)
    (folder / "suite.toml").write_text(
        f'name = "mine"\ntitle = "Mine"\n{line if of_suite else ""}\n'
    )
    with (folder / "entries/mine-animals.toml").open("a") as file:
        file.write(
            '[prompts.short]\nform = "letter"\nlayout = { stop = " One letter." }\nmax_new_tokens = 4\n'
        )
    add_suites(folder)
    asked = {}
    for name, fields in {
        "own": {},
        "snellen": {"templates": "snellen"},
        "same": {"templates": "short"},
    }.items():
        fields = {"name": name, "runs": str(tmp_path / "runs"), **fields}
        run = snellen.evaluate("snellen:uniform", "mine/animals", limit=1, **fields).runs[0]
        [exchange] = read_exchanges(run.folder)
        asked[name] = exchange.request
        assert run.manifest.templates.startswith("of entries (") == (name == "own")
    assert (
        asked["own"].messages[0].text.endswith(" One letter.")
        and asked["own"].decoding.max_new_tokens == 4
    )
    assert asked["own"].key == asked["same"].key != asked["snellen"].key


def test_a_wrong_key_of_a_mapping_is_told_by_file_key_and_the_nearest_right_one(
    tmp_path: Path,
) -> None:
    folder = folder_of_entries(tmp_path / "mine", reader="mapped")
    add_suites(folder)
    with pytest.raises(
        DataError,
        match=r"animals.toml: source.params: unknown field 'file'; did you mean .*\?|known: ",
    ):
        snellen.build("animals", to=tmp_path / "built")


def test_a_folder_brings_protocols_and_models(tmp_path: Path) -> None:
    home = tmp_path / "mine"
    (home / "entries").mkdir(parents=True)
    folder_of_entries(home / "entries", "mine/animals", more='generation = ["twice"]')
    (home / "suite.toml").write_text(
        'name = "mine"\ntitle = "Mine"\n[hooks]\nprotocols.twice = "asking:Twice"\nmodels.first = "asking:first"\n'
    )
    (home / "asking.py").write_text(
        "from snellen.protocols.choice import Vanilla\nfrom snellen import Scripted\n\n\n"
        'class Twice(Vanilla, frozen=True):\n    """As vanilla."""\n\n\n'
        "def first(spec, **options):\n    return Scripted(lambda request: 'A', name=f'first:{spec.target}')\n"
    )
    shown = small.snellen_commands(
        tmp_path, ["--suites", "mine", "run", "first:one", "mine/animals", "--name", "x", "--json"]
    )
    rows = [json.loads(line) for line in next(shown).splitlines()]
    # The number of the run has its method in place of a protocol.
    own = [row for row in rows if row["protocol"] not in ("", row["method"])]
    assert {(row["model"], row["protocol"]) for row in own} == {("first:one", "twice")}


@pytest.mark.parametrize("embedded", ["true", "false"])
def test_files_beside_an_entry_that_have_changed_are_built_again_by_a_run_and_by_build(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    embedded: str,
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    folder = folder_of_entries(tmp_path / "mine", more='dimension = "FG"')
    entry = folder / "animals.toml"
    entry.write_text(entry.read_text().replace("embedded = true", f"embedded = {embedded}"))
    add_suites(folder)
    assert small.command(capsys, "build", "animals")[0] == 0
    said: list[str] = []

    def questions() -> int:
        [use] = find_benchmarks(["animals"], announce=said.append)
        return use.benchmark.manifest.counts.questions

    assert questions() == 4 and said == []
    small.write(small.rows(5), folder / "questions.jsonl")
    assert questions() == 5
    assert said == ["rebuilding animals: files beside its entry have changed"]
    small.write(small.rows(6), folder / "questions.jsonl")
    code, _, told = small.command(capsys, "build", "animals")
    assert code == 0 and "rebuilding animals: files beside its entry have changed" in told
    small.write([], folder / "notes.jsonl")  # not a file of the entry's
    assert questions() == 6 and len(said) == 1


READER = """from snellen.plugin_api import Draft, QuestionDraft

def read(params, folder):
    yield Draft("{word}", (QuestionDraft("Is it one of the {word}?", options=("yes", "no"), gold=(0,)),))
"""


def named_suite(folder: Path, word: str, *, reader: str = "table", embedded: bool = True) -> Path:
    """A suite `zoo` with a benchmark `zoo/animals` that asks about `word`: by its table, or by its module."""
    text = (
        entry("zoo/animals")
        .replace('"table"', f'"{reader}"')
        .replace("= true", f"= {str(embedded).lower()}")
    )
    (folder / "entries").mkdir(parents=True)
    text = text if reader == "table" else re.sub("params = .*", "", text)
    (folder / "entries/animals.toml").write_text(text)
    (folder / "suite.toml").write_text(
        'name = "zoo"\ntitle = "Zoo"\nhooks.readers = { drawn = "drawing:read" }\n'
    )
    (folder / "drawing.py").write_text(READER.format(word=word))
    small.write(
        [{**row, "question": f"{word} {row['question']}"} for row in small.rows(4)],
        folder / "entries/questions.jsonl",
    )
    return folder


@pytest.mark.parametrize("reader", ["table", "drawn"])
def test_two_folders_with_a_suite_of_one_name_never_share_what_is_built_of_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    said: list[str] = []
    for word in ("apples", "birds"):
        monkeypatch.setenv("SNELLEN_SUITES", str(named_suite(tmp_path / word, word, reader=reader)))
        [use] = find_benchmarks(["zoo"], announce=said.append)
        assert {word in sample.question for sample in use.benchmark.samples()} == {True}
    entries_of = [f"{tmp_path}/{word}/entries/animals.toml" for word in ("apples", "birds")]
    again = f"the existing build was made from {entries_of[0]}, not from {entries_of[1]}"
    assert said == ["building zoo/animals", f"rebuilding zoo/animals: {again}"]


def test_what_was_built_of_given_files_for_one_folder_is_not_asked_for_another_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    suites = {
        word: named_suite(tmp_path / word, word, embedded=False) for word in ("apples", "birds")
    }
    for word, suite in suites.items():
        (suite / "entries/questions.jsonl").rename(tmp_path / "official.jsonl")
        small.write(
            [{**row, "question": word} for row in small.rows(4)],
            tmp_path / f"files/{word}/questions.jsonl",
        )
    monkeypatch.setenv("SNELLEN_SUITES", str(suites["apples"]))
    snellen.build("zoo/animals", source=tmp_path / "files/apples")
    assert len(find_benchmarks(["zoo/animals"])) == 1
    assert '"from":"built"' in small.command(capsys, "list", "zoo/animals", "--json")[1]
    monkeypatch.setenv("SNELLEN_SUITES", str(suites["birds"]))
    with pytest.raises(
        DataError,
        match=r"made from .*apples/.*, not from .*birds/.*; obtain .*sn\.build\('zoo/animals', source=FOLDER\)",
    ):
        find_benchmarks(["zoo/animals"])
    assert '"from":"built"' not in small.command(capsys, "list", "zoo/animals", "--json")[1]
    source = str(tmp_path / "files/birds")
    assert small.command(capsys, "build", "zoo/animals", "--source", source)[0] == 0
    assert len(find_benchmarks(["zoo/animals"])) == 1


def test_a_module_that_reads_the_questions_is_one_of_the_files_that_they_are_built_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    folder = named_suite(tmp_path / "zoo", "apples", reader="drawn")
    monkeypatch.setenv("SNELLEN_SUITES", str(folder))
    find_benchmarks(["zoo"])
    for name in ("unrelated", "drawing"):
        (folder / f"{name}.py").write_text(READER.format(word="pears"))
        said: list[str] = []
        find_benchmarks(["zoo"], announce=said.append)
        assert bool(said) == (name == "drawing")


def test_what_cannot_be_read_of_another_package_is_left_out_said_and_diagnosed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library"
    entry = ENTRY.replace("embedded = true", 'embedded = true\nfolder = "../data"')
    for package, suite, name in (
        ("aquarium", 'title = "Fish"', ""),
        ("zoo", 'name = "zoo"\ntitle = "Zoo"', "lions"),
    ):
        (library / package / "entries").mkdir(parents=True)
        (library / package / "__init__.py").touch()
        (library / package / "suite.toml").write_text(suite)
        about = library / f"{package}-1.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        points = f"[snellen.suites]\n{package} = {package}\n[snellen.metrics]\n{package}_size = {package}:size\n"
        (about / "entry_points.txt").write_text(
            f"{points}[snellen.metrix]\nweight = {package}:weight\n"
        )
        small.write(small.rows(4), library / package / "data/questions.jsonl")
        for file in (name, "tigers", "bears") if name else ():
            own_name, more = (
                ("zoo/bears", 'metrics = ["anlz"]') if file == "bears" else ("zoo/lions", "")
            )
            text = entry.format(name=own_name, more=more, reader="table")
            (library / package / f"entries/{file}.toml").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(library))
    words = ["run", "snellen:oracle", "zoo/lions", "--limit", "2", "--runs", str(tmp_path)]
    told = subprocess.run(
        [sys.executable, "-m", "snellen", *words], capture_output=True, text=True, check=True
    )
    assert "100.0%" in told.stdout
    assert re.search(
        r"^snellen: skipped: .*aquarium/suite.toml: .*`name`", told.stderr, re.MULTILINE
    )
    fault = (
        "tigers.toml: name = 'zoo/lions', but a benchmark in this file must be named 'zoo/tigers'"
    )
    assert re.search(rf"^snellen: skipped: .*{fault}$", told.stderr, re.MULTILINE)
    diagnosed = subprocess.run(
        [sys.executable, "-m", "snellen", "doctor", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    rows = [
        row
        for line in map(json.loads, diagnosed.stdout.splitlines())
        if (row := line)["state"] == "broken"
    ]
    assert diagnosed.returncode == 1 and [(row["part"], row["name"]) for row in rows] == [
        ("packages", "suite"),
        ("packages", "suite"),
        ("packages", "suite"),
        ("hooks", "aquarium_size"),
        ("hooks", "zoo_size"),
        ("hooks", "snellen.metrix"),
    ]
    assert rows[1]["found"].endswith(fault)
    assert rows[2]["found"].endswith(
        "bears.toml: metrics: unknown metric 'anlz'; did you mean anls?"
    )
    assert "the metric 'zoo_size' (zoo:size) cannot be loaded: AttributeError" in rows[4]["found"]
    assert rows[5]["found"] == "unknown group of entry points 'metrix'; did you mean metrics?"


def test_doctor_names_each_hook_of_a_suite_that_cannot_be_imported_with_the_line_that_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = named_suite(tmp_path / "zoo", "apples")
    assert list(diagnose_hooks()) == []
    text = (
        folder / "suite.toml"
    ).read_text() + 'hooks.metrics = { lost = "gone:size", raising = "raising:size" }\n'
    (folder / "suite.toml").write_text(text)
    (folder / "raising.py").write_text("import json\n\nsize = json.loads('{')\n")
    monkeypatch.setenv("SNELLEN_SUITES", str(folder))
    lost, raising = diagnose_hooks()
    line = f"{folder}/suite.toml: hooks.metrics: the metric 'lost' (gone:size) cannot be loaded: ModuleNotFoundError: "
    assert lost.finding == f"{line}No module named 'gone'"
    assert (
        raising.finding.endswith(f" ({folder}/raising.py:3)")
        and "JSONDecodeError: Expecting" in raising.finding
    )


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (
            'yield draft()\n    raise KeyError("colour")',
            "the reader 'drawn' failed after the question q1 (discs.txt:1): KeyError: 'colour'",
        ),
        (
            'yield {"id": "q1"}',
            "the reader 'drawn' yielded {'id': 'q1'} before its first question; it has to",
        ),
        (
            'yield draft("an image")',
            "the reader 'drawn' gave discs.txt:1 the image 'an image'; an image is a Path,",
        ),
        (
            'yield draft(LazyImage("discs.txt:1", lambda: "an image"))',
            "discs.txt:1: the function of the LazyImage discs.txt:1 returned a str; it has to return the bytes",
        ),
        (
            'yield draft(LazyImage("discs.txt:1", lambda: 1 / 0))',
            "discs.txt:1: the image discs.txt:1 cannot be read: ZeroDivisionError: division by zero",
        ),
    ],
)
def test_a_reader_that_fails_is_told_with_its_name_and_place(
    body: str,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    suite = named_suite(tmp_path / "suite", "discs", reader="drawn")
    (suite / "drawing.py").write_text(
        "from snellen.plugin_api import Draft, LazyImage, QuestionDraft\n\n"
        "def draft(*images):\n"
        '    questions = (QuestionDraft("Which?", options=("red", "blue"), gold=(0,)),)\n'
        '    return Draft("q1", questions, images, "discs.txt:1")\n\n'
        f"def read(params, folder):\n    {body}\n"
    )
    monkeypatch.setenv("SNELLEN_SUITES", str(suite))
    code, _, err = small.command(capsys, "build", "zoo/animals")
    assert code == 2 and line in err, err
    assert "zoo/animals" in err or "animals.toml" in err or line.startswith("discs.txt")
    assert len(err.splitlines()) == 1
