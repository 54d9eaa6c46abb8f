"""Wrong turns of people who use Snellen for the first time, each through the command line."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from PIL import Image

import small
import snellen as sn
from servers import Fault, start_server
from snellen.building.benchmark import Benchmark
from snellen.common.paths import benchmark_folder
from snellen.errors import DataError, ModelError
from snellen.models import worker
from snellen.runs.failed_starts import removed_if_unanswered

Command = Callable[..., tuple[int, str, str]]

OPEN_TABLE = (
    "question\tanswer\timage\nWhich colour?\tred\tred.png\nAnd here?\tdeep blue\tblue.png\n"
)
CHOICE_TABLE = (
    "question\tA\tB\tanswer\timage\nWhich colour?\tred\tblue\tA\tred.png\n"
    "And here?\tred\tblue\tB\tblue.png\n"
)


@pytest.fixture
def snellen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """The command line in a folder with a table of open questions, one with options, and images by class."""
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    folder = tmp_path / "work"
    for colour in ("red", "blue"):
        for number in range(2):
            image = folder / "fruit" / colour / f"{number}.png"
            image.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (16, 16 + number), colour).save(image)
    monkeypatch.chdir(folder)
    Path("pictures").mkdir()
    for colour in ("red", "blue"):
        Image.new("RGB", (16, 16), colour).save(f"pictures/{colour}.png")
    Path("open.tsv").write_text(OPEN_TABLE)
    Path("questions.tsv").write_text(CHOICE_TABLE)

    def command(*words: str) -> tuple[int, str, str]:
        return small.command(capsys, *words)

    return command


# --- a TOML file that was edited after the build ---------------------------------------------------------------------


def test_a_run_says_that_the_toml_file_was_edited_and_what_to_type(snellen: Command) -> None:
    code, _, err = snellen("build", "open.tsv", "--images", "pictures")
    assert code == 0 and "edit that file, then `snellen build open.toml`" in err
    assert "has changed" not in snellen("run", "snellen:oracle", "open")[2]

    entry = Path("open.toml")
    text = entry.read_text()
    entry.write_text(f"# a comment\n{text}")
    assert "has changed" not in snellen("run", "snellen:oracle", "open")[2]
    entry.write_text(text.replace('"exact_match"', '"anls"'))
    fault = (
        f"{entry.resolve()} has changed since open was built from it; this uses the earlier build. To use the current "
        "file, build it again: `snellen build open.toml`"
    )
    for words in (("run", "snellen:oracle", "open"), ("pack", "open", "--answers")):
        code, _, err = snellen(*words)
        assert code == 0 and fault in err.splitlines(), words
    entry.write_text("metrics = [")
    assert fault in snellen("run", "snellen:oracle", "open")[2]

    entry.write_text(text.replace('"exact_match"', '"anls"'))
    assert snellen("build", "open.toml")[0] == 0
    code, out, err = snellen("run", "snellen:oracle", "open", "--details")
    assert code == 0 and "has changed" not in err and "ANLS" in out


def test_comments_in_the_toml_file_survive_a_build_that_writes_it_again(snellen: Command) -> None:
    snellen("build", "questions.tsv", "--images", "pictures")
    entry = Path("questions.toml")
    first, rest = entry.read_text().split("\n", 1)
    rest = rest.replace("[source]", "# Where it comes from.\n[source]")
    rest = rest.replace('images = "pictures"', 'images = "pictures"  # of 2024')
    entry.write_text(f"{first}\n{rest}# The end.\n")
    assert (
        snellen("build", "questions.tsv", "--images", "pictures", "--answer-is", "letter")[0] == 0
    )
    text = entry.read_text()
    assert "# Where it comes from.\n[source]" in text
    assert 'images = "pictures"  # of 2024\n' in text and text.endswith("# The end.\n")
    assert text.count("#") == 4 and 'answer_is = "letter"' in text
    assert snellen("build", "questions.toml")[0] == 0


def test_the_toml_file_of_annotations_and_of_a_named_build_is_looked_at_too(
    snellen: Command,
) -> None:
    code, _, err = snellen("reform", "fruit", "--name", "ripe")
    assert code == 0 and "edit that file, then `snellen reform ripe.toml`" in err
    snellen("build", "questions.tsv", "--images", "pictures", "--name", "colours")
    for name, line in (
        ("ripe", "`snellen reform ripe.toml`"),
        ("colours", "`snellen build colours.toml`"),
    ):
        assert "has changed" not in snellen("run", "snellen:oracle", name)[2]
        entry = Path(f"{name}.toml")
        entry.write_text(f'licence = "CC0"\n{entry.read_text()}')
        assert line in snellen("run", "snellen:oracle", name)[2]
        verb = line.split()[1]
        assert snellen(verb, f"{name}.toml")[0] == 0
        assert "has changed" not in snellen("run", "snellen:oracle", name)[2]


# --- code of one's own ---------------------------------------------------------------------------------------------


@pytest.fixture
def mine(snellen: Command) -> Path:
    """A file with a model, a metric and helpers, which must never be imported by a command that does not name it."""
    code = Path("mine.py")
    code.write_text(
        "import pathlib\n\npathlib.Path('imported').touch()\n\n\n"
        "def load(path):\n    return path\n\n\n"
        "class Settings:\n    size = 3\n\n\n"
        "def answer(question, images):\n    return 'red'\n"
    )
    return code


@pytest.mark.parametrize(
    "words", [("mine.py", "open"), ("open", "mine.py"), ("./mine.py", "open"), ("mine.py",)]
)
def test_a_file_alone_is_answered_with_the_only_model_in_it(
    snellen: Command, mine: Path, words: tuple[str, ...]
) -> None:
    code, _, err = snellen("run", *words)
    assert code == 2 and "names no function or class; write mine.py:answer\n" in err
    assert not Path("imported").exists()


def test_a_class_or_one_of_several_models_is_named(snellen: Command) -> None:
    Path("two.py").write_text(
        "def size(image):\n    return 3\n\n\nclass Model:\n    def generate(self, requests, images):\n        return []\n"
    )
    assert snellen("run", "two.py", "open")[2].endswith("write two.py:Model\n")
    Path("three.py").write_text(
        f"{Path('two.py').read_text()}\n\ndef ask(q, i=None):\n    return ''\n"
    )
    assert snellen("run", "three.py", "open")[2].endswith("write three.py:Model or three.py:ask\n")
    Path("none.py").write_text("def size(image):\n    return 3\n")
    assert snellen("run", "none.py", "open")[2].endswith("write none.py:size\n")
    for model in ("gone.py", "gone.py:look"):
        assert "there is no file gone.py; check the path\n" in snellen("run", model, "open")[2]


METRIC = "def halves(reply, references):\n    return 0.5\n\n\ndef helper(text):\n    return text\n"


@pytest.mark.parametrize("name", ["own.py:halffile", "own:halfmodule"])
def test_a_metric_of_ones_own_is_named_by_file_or_by_module(snellen: Command, name: str) -> None:
    metric = name.partition(":")[2]
    Path("own.py").write_text(METRIC.replace("halves", metric))
    snellen("build", "open.tsv", "--images", "pictures")
    code, out, err = snellen("run", "snellen:oracle", "open", "--name", "x", "--metric", name)
    assert code == 0, err
    assert metric in out and "50.0%" in out
    assert metric in snellen("score", "runs/x", "--metric", name)[1]
    for keyword in ("metrics", "metric", "scorer"):
        assert sn.score("runs/x", **{keyword: name}).value(metric) == 0.5  # type: ignore[arg-type]
    with pytest.raises(sn.DataError, match="are the same; keep one"):
        sn.score("runs/x", metrics="anls", metric=name)  # type: ignore[arg-type]
    code, _, err = snellen("score", "runs/x", "--metric", "own.py")
    assert code == 2 and err.endswith(f"write own.py:{metric}\n")


@pytest.mark.parametrize("name", ["own.py:halves", "own:halves"])
def test_a_benchmark_names_no_code_and_says_what_to_type(snellen: Command, name: str) -> None:
    Path("own.py").write_text(f"raise SystemExit('imported')\n{METRIC}")
    line = "leave it out here and write `snellen run MODEL BENCHMARK --metric own.py:halves`"
    code, _, err = snellen("build", "open.tsv", "--images", "pictures", "--metric", name)
    assert code == 2 and line in err and "own.py:halves is your own code" in err
    assert not Path("open.toml").exists()
    assert snellen("build", "open.tsv", "--images", "pictures")[0] == 0
    entry = Path("open.toml")
    entry.write_text(entry.read_text().replace("exact_match", name))
    for words in (("build", "open.toml"), ("run", "snellen:oracle", "open.tsv")):
        code, _, err = snellen(*words)
        assert code == 2 and line in err and "open.toml: metrics: own.py:halves is" in err


# --- packed files and built benchmarks -----------------------------------------------------------------------------


def test_packing_without_answers_does_not_replace_a_file_with_them(snellen: Command) -> None:
    snellen("build", "questions.tsv", "--images", "pictures")
    assert snellen("pack", "questions", "--answers")[0] == 0
    whole = Path("questions.zip").read_bytes()
    code, _, err = snellen("pack", "questions")
    assert code == 2 and err.splitlines()[-1] == (
        "snellen: questions.zip has the answers, and this file would not; keep them (--answers), write another file "
        "(-o FILE.zip), or replace this one (--force)"
    )
    assert Path("questions.zip").read_bytes() == whole
    assert snellen("pack", "questions", "--answers")[0] == 0  # again, as after a correction
    assert snellen("pack", "questions", "-o", "open.zip")[0] == 0
    assert snellen("pack", "questions", "-o", "open.zip", "--answers")[0] == 0
    code, out, _ = snellen("pack", "questions", "--force")
    assert code == 0 and "without answers" in out


def test_packing_replaces_neither_other_runs_nor_files_of_other_programs(snellen: Command) -> None:
    snellen("build", "questions.tsv", "--images", "pictures")
    for name in ("a", "b", "c"):
        snellen("run", "snellen:oracle", "questions", "--name", name)
    assert snellen("pack", "runs/a", "runs/b", "--answers")[0] == 0
    code, _, err = snellen("pack", "runs/b", "runs/c", "--answers")
    assert code == 2 and "runs.zip exists and has a; write another file" in err
    code, _, err = snellen("pack", "runs/a", "runs/b")
    assert code == 2 and "runs.zip has the answers, and this file would not" in err
    Path("questions.zip").write_bytes(b"pictures")
    code, _, err = snellen("pack", "questions")
    assert code == 2 and "questions.zip exists and was not packed by Snellen" in err
    assert Path("questions.zip").read_bytes() == b"pictures"


def test_an_export_of_a_dataset_replaces_only_what_snellen_wrote(snellen: Command) -> None:
    snellen("build", "questions.tsv", "--images", "pictures")
    for file, content in (("README.md", "My notes"), ("data/test-00000-of-00001.parquet", "mine")):
        path = Path("project") / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        code, _, err = snellen("export", "questions", "--as", "dataset", "-o", "project")
        assert code == 2 and f"{path} exists and was not written by Snellen" in err
        assert "-o project/dataset" in err
        assert path.read_text() == content
        path.unlink()
    for _ in range(2):  # an earlier export is replaced
        assert snellen("export", "questions", "--as", "dataset", "-o", "project")[0] == 0


def received(snellen: Command, *flags: str) -> None:
    """Pack the table's benchmark and unpack it into `received`."""
    snellen("build", "questions.tsv", "--images", "pictures")
    snellen("pack", "questions", *flags)
    with zipfile.ZipFile("questions.zip") as archive:
        archive.extractall("received")


def test_what_needs_hidden_answers_says_that_they_are_hidden(snellen: Command) -> None:
    received(snellen)
    code, _, err = snellen("run", "snellen:oracle", "received/questions")
    assert code == 2 and "the answers of questions are hidden here, and snellen:oracle" in err
    assert not list(Path("runs").glob("*/manifest.json"))  # nothing was begun
    for words in (
        ("pack", "received/questions", "--answers", "-o", "x.zip"),
        ("export", "received/questions", "--as", "dataset", "--answers", "-o", "x"),
    ):
        code, _, err = snellen(*words)
        assert code == 2 and "the answers of questions are hidden" in err, words
    # Together with a benchmark whose answers are here, the oracle answers that one.
    code, _, err = snellen(
        "run", "snellen:oracle", "received/questions", "eyechart/shape", "--limit", "2"
    )
    assert code == 3 and "the answer to this question is hidden from the oracle" in err


def test_a_packed_file_that_is_to_be_listed_is_answered_with_what_to_type(snellen: Command) -> None:
    received(snellen, "--answers")
    code, _, err = snellen("list", "questions.zip")
    assert code == 2 and "questions.zip was packed by Snellen; unpack it with `python" in err
    # What was unpacked is listed by its folder, or by the folder that it is in.
    for folder in ("received/questions", "received"):
        code, out, err = snellen("list", folder, "--json")
        assert code == 0, err
        [row] = map(json.loads, out.splitlines())
        assert (row["name"], row["from"]) == ("questions", "received/questions")


@pytest.mark.parametrize("verb", ["build", "reform", "run"])
def test_a_packed_file_or_a_built_folder_is_answered_with_what_to_type(
    snellen: Command, verb: str
) -> None:
    received(snellen, "--answers")
    model = ("snellen:oracle",) if verb == "run" else ()
    unpacked = "unpack it with `python -m zipfile -e questions.zip received`, then `snellen run MODEL received/questions`"
    code, _, err = snellen(verb, *model, "questions.zip")
    assert code == 2 and f"questions.zip was packed by Snellen; {unpacked}" in err
    if verb != "run":
        for folder in ("received/questions", "received"):
            code, _, err = snellen(verb, folder)
            assert code == 2 and err == (
                "snellen: received/questions is a benchmark that is already built; run it with "
                "`snellen run MODEL received/questions`\n"
            )
    code, out, _ = snellen("run", "snellen:oracle", "received/questions", "--name", "x")
    assert code == 0 and "100.0%" in out
    assert "runs/x is a run, and no questions to build" in snellen("build", "runs/x")[2]
    for word in ("unpack", "unzip"):
        code, _, err = snellen(word, "questions.zip")
        assert code == 2 and unpacked in err
    snellen("pack", "runs/x")
    assert "then `snellen view received`" in snellen("report", "x.zip")[2]
    with zipfile.ZipFile("pictures.zip", "w") as archive:
        archive.write("pictures/red.png")
    code, _, err = snellen("build", "pictures.zip")
    assert code == 2 and "unpack it with `unzip pictures.zip`, then name the file or folder" in err


def test_a_run_that_does_not_exist_is_answered_with_near_names(snellen: Command) -> None:
    fault = "there is no folder"
    assert f"{fault} runs/x; make a run with" in snellen("report", "runs/x")[2]
    snellen("run", "snellen:oracle", "eyechart/shape", "--limit", "2", "--name", "first")
    for verb in ("report", "score", "export", "pack", "card", "view"):
        assert f"{fault} runs/fist; did you mean runs/first?" in snellen(verb, "runs/fist")[2], verb
        assert f"{fault} fist; did you mean runs/first?" in snellen(verb, "fist")[2], verb
    assert f"{fault} other; there are runs/first" in snellen("score", "other")[2]
    Path("empty").mkdir()
    assert "empty is not a run (manifest.json is missing)" in snellen("report", "empty")[2]


# --- the end of each command ---------------------------------------------------------------------------------------


def test_commands_end_with_what_is_typed_next(snellen: Command) -> None:
    run = ("run", "snellen:oracle", "questions")
    for words, following in (
        (("build", "questions.tsv", "--images", "pictures"), "`snellen run MODEL questions`"),
        (("reform", "fruit"), "`snellen run MODEL fruit`"),
        (("build", "eyechart/shape"), "`snellen run MODEL eyechart/shape`"),
        (
            ("build", "eyechart/shape", "eyechart/count"),
            "`snellen run MODEL eyechart/shape eyechart/count`",
        ),
        (("fetch", "eyechart/shape"), "`snellen run MODEL eyechart/shape`"),
        ((*run, "--name", "a"), "`snellen view runs/a`"),
        ((*run, "--name", "b c"), "`snellen view 'runs/b c'`"),
        ((run[0], "snellen:always-a", *run[1:]), "`snellen compare runs/snellen-"),
        (("score", "runs/a"), "`snellen report runs/a`"),
        (("report", "runs/a"), "`snellen view runs/a`"),
        (("compare", "runs/a", "runs/b c"), "`snellen view runs/a 'runs/b c'`"),
        (("pack", "questions"), "then `snellen run MODEL received/questions`"),
        (("pack", "runs/a"), "then `snellen view received`"),
    ):
        code, _, err = snellen(*words)
        assert code == 0 and following in err.splitlines()[-1], words
    assert "next:" not in snellen("score", "runs/a", "--json")[2]


def test_a_function_that_needs_no_worker_is_not_served(snellen: Command, mine: Path) -> None:
    with pytest.raises(
        SystemExit,
        match=r"worker: mine.py:answer takes \(question, images\), but is called with nothing",
    ):
        worker.load("mine.py:answer")
    assert "Traceback" not in snellen("worker", "mine.py:answer")[2]


# --- a folder that holds several runs --------------------------------------------------------------------------------


@pytest.fixture
def two_runs(snellen: Command) -> Command:
    """The command line with two runs in the folder `runs`."""
    for model, name in (("snellen:oracle", "first"), ("snellen:always-a", "second")):
        code, _, err = snellen("run", model, "eyechart/colour", "--limit", "4", "--name", name)
        assert code == 0, err
    return snellen


@pytest.mark.parametrize(
    "words",
    [
        ("export", "runs", "-o", "replies.jsonl"),
        ("score", "runs"),
        ("compare", "runs"),
        ("card", "runs"),
        ("pack", "runs", "-o", "both.zip"),
        ("report", "runs", "-o", "both.csv"),
        ("analyse", "backbones", "runs"),
    ],
    ids=lambda words: words[0],
)
def test_a_folder_of_runs_stands_for_its_runs(two_runs: Command, words: tuple[str, ...]) -> None:
    code, out, err = two_runs(*words)
    assert code == 0, err
    written = Path(words[-1])
    if written.suffix == ".zip":
        said = " ".join(zipfile.ZipFile(written).namelist())
        assert "first/manifest.json" in said and "second/manifest.json" in said
        return
    said = written.read_text() if written.is_file() else f"{out}{err}"
    assert "snellen:oracle" in said and "snellen:always-a" in said


@pytest.mark.parametrize(
    "words",
    [
        ("submit", "runs", "-o", "x.xlsx"),
        ("batches", "runs"),
        ("mend", "runs"),
        ("reconcile", "runs", "runs/first"),
    ],
    ids=lambda words: words[0],
)
def test_what_takes_one_run_names_those_in_the_folder(
    two_runs: Command, words: tuple[str, ...]
) -> None:
    code, _, err = two_runs(*words)
    assert code == 2 and "it contains the runs runs/" in err


def test_a_run_that_is_named_beside_its_folder_is_given_once(two_runs: Command) -> None:
    code, _, err = two_runs("compare", "runs", "runs/first")
    assert code == 2 and "is given more than once" in err
    code, _, err = two_runs("export", "runs", "runs/first", "--as", "csv")
    assert code == 2 and "is given more than once" in err


def test_a_table_of_several_runs_is_not_named_after_one(two_runs: Command) -> None:
    code, out, err = two_runs("export", "runs/first", "runs/second", "--as", "csv")
    assert code == 0 and out == "replies.csv\n", err
    models = {line.partition(",")[0] for line in Path("replies.csv").read_text().splitlines()[1:]}
    assert models == {"snellen:oracle", "snellen:always-a"}
    assert two_runs("export", "runs/first", "--as", "csv")[1] == "first.csv\n"
    code, out, _ = two_runs("export", "runs", "--as", "inspect")
    assert code == 0 and out.count("runs-inspect/") == 2


def test_a_line_of_another_harness_without_a_verb_is_written_out(snellen: Command) -> None:
    words = "--model hf --model_args pretrained=org/name --tasks mmstar,pope --limit 5"
    code, _, err = snellen(*words.split())
    assert code == 2
    assert "no option --model; write `snellen run hf:org/name mmstar pope --limit 5`" in err


def test_an_option_before_the_verb_is_moved_behind_it(snellen: Command) -> None:
    code, _, err = snellen(*"--model hf:org/name run mmstar --limit 5".split())
    assert code == 2
    assert "write `snellen run hf:org/name mmstar --limit 5`" in err


def test_an_option_before_another_verb_is_not_written_out_as_a_run(snellen: Command) -> None:
    code, _, err = snellen(*"--model hf:org/name score runs/mine".split())
    assert code == 2
    assert "hf:org/name" not in err


# --- the same questions, named in another way or more of them ---------------------------------------------------------


def test_a_larger_limit_names_the_run_that_can_go_on(snellen: Command) -> None:
    line = ("run", "snellen:oracle", "eyechart/shape", "--limit")
    assert snellen(*line, "4")[0] == 0
    [first] = Path("runs").iterdir()
    go_on = (
        f"{first} has replies to 4 of these questions; add --name {first.name} to resume that run"
    )
    assert go_on in snellen(*line, "9")[2]
    assert "to resume that run" not in snellen(*line, "9")[2]
    assert "to resume that run" not in snellen(*line, "3")[2]
    assert "5 requests" in snellen(*line, "9", "--name", first.name)[2]


def test_a_run_says_that_it_has_a_part_of_another_benchmark(snellen: Command) -> None:
    first = ("run", "snellen:oracle", "eyechart/shape", "--limit", "2", "--name", "x")
    assert "also has questions" not in snellen(*first)[2] + snellen(*first)[2]
    _, _, err = snellen("run", "snellen:oracle", "eyechart/colour", "--limit", "2", "--name", "x")
    assert "runs/x also has questions of eyechart/shape (first 2) from earlier calls" in err
    assert "--name x-2" in err


def test_a_table_and_the_benchmark_built_from_it_have_one_run(snellen: Command, mine: Path) -> None:
    table = small.write(small.rows(3), Path("open.jsonl"))
    for benchmark in (str(table), "open"):
        code, _, err = snellen("run", "snellen:oracle", benchmark)
        assert code == 0, err
    assert len(list(Path("runs").iterdir())) == 1


def test_a_built_table_is_named_to_build_with_what_to_type(snellen: Command) -> None:
    table = small.write(small.rows(3), Path("zebras.jsonl"))
    assert snellen("build", str(table))[0] == 0
    code, _, err = snellen("build", "zebras")
    assert code == 2
    assert (
        "zebras is already built; run it with `snellen run MODEL zebras`, or build it again" in err
    )
    assert "`snellen build zebras.toml`" in err
    with pytest.raises(
        DataError, match=r"already built; run it with sn\.evaluate\(MODEL, 'zebras'\)"
    ):
        sn.build("zebras")


def test_a_build_says_which_runs_it_makes_unscorable(snellen: Command) -> None:
    build = ("build", "questions.tsv", "--images", "pictures")
    snellen(*build)
    snellen("run", "snellen:oracle", "questions", "--name", "x")
    assert "this replaces" not in snellen(*build)[2]
    table = Path("questions.tsv").read_text()
    Path("questions.tsv").write_text(table.replace("And here?", "And there?"))
    code, _, err = snellen(*build)
    assert code == 0
    assert (
        "with 2 questions; its runs (runs/x) keep their scores, but cannot be scored again" in err
    )


def test_a_loaded_benchmark_says_that_its_table_has_changed(
    snellen: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = small.write(small.rows(3), Path("zebras.jsonl"))
    assert snellen("build", str(table))[0] == 0
    small.write(small.rows(4), table)
    said: list[str] = []
    monkeypatch.setattr("snellen.api.default_announce", lambda: said.append)
    assert len(sn.load_benchmark("zebras")) == 3
    assert "zebras.jsonl has changed since zebras was built from it" in " ".join(said)


def test_a_setting_of_scoring_beside_its_table_is_sent_there(snellen: Command) -> None:
    lines = ['models = ["snellen:oracle"]', 'benchmarks = ["eyechart/word"]', 'metrics = ["anls"]']
    Path("exam.toml").write_text("\n".join(lines))
    code, _, err = snellen("run", "exam.toml")
    assert code == 2
    assert "exam.toml: metrics is a field of the table scoring; write it under [scoring]" in err
    code, _, err = snellen("run", "absent.toml")
    assert code == 2 and "there is no file absent.toml" in err


def test_files_of_predictions_that_were_scored_alone_are_compared_after_all(
    snellen: Command,
) -> None:
    questions = [(f"q{i}", f"Which colour is disc {i}?", "red", "blue") for i in range(4)]
    header = "id\tquestion\tA\tB\tanswer\tprediction\n"
    for name, reply in (("one_colours", "A"), ("two_colours", "B")):
        rows = ["\t".join((*question, "A", reply)) for question in questions]
        Path(f"{name}.tsv").write_text(header + "\n".join(rows) + "\n")
        assert snellen("score", f"{name}.tsv")[0] == 0
    files = ("one_colours.tsv", "two_colours.tsv")
    runs = sorted(str(path) for path in Path("runs").iterdir())
    together = f"`snellen score {' '.join(files)}`"
    assert together in snellen("compare", *files)[2]
    assert f"score them together, which makes them runs of one benchmark: {together}" in " ".join(
        snellen("compare", *runs)[2].split()
    )

    code, _, err = snellen("score", *files)
    assert code == 0, err
    assert sorted(str(path) for path in Path("runs").iterdir()) == runs
    # A file that is scored alone again stays comparable.
    assert snellen("score", files[0], "--extractor", "strict")[0] == 0
    assert snellen("score", runs[1], "--extractor", "strict")[0] == 0
    code, out, err = snellen("compare", *runs, "--json")
    assert code == 0, err
    assert json.loads(out.splitlines()[0])["first_value"] == 1.0


# --- a function as metric and as judge -------------------------------------------------------------------------------


@pytest.fixture
def own_code(snellen: Command) -> Command:
    """The command line with a run of questions with options, and a file of two functions."""
    Path("mine.py").write_text(
        "def short(reply, references):\n    return float(len(reply) < 4)\n\n\n"
        "def named(question, reply, reference):\n    return float(reference in reply)\n"
    )
    code, _, err = snellen(
        "run", "snellen:oracle", "eyechart/colour", "--limit", "4", "--name", "x"
    )
    assert code == 0, err
    return snellen


def test_a_metric_of_texts_on_options_says_what_to_type(own_code: Command) -> None:
    for words in (("score", "runs/x"), ("report", "runs/x", "-o", "x.md")):
        code, out, err = own_code(*words, "--metric", "mine.py:short")
        said = " ".join(f"{out}{err}".split())
        assert code == 0
        assert (
            "whose questions have options; if it judges replies, write --judge mine.py:short."
            in said
        )
    said = " ".join(own_code("score", "runs/x", "--metric", "anls")[1].split())
    assert "whose questions have options; metrics with a value are accuracy," in said
    with pytest.warns(UserWarning, match=r"the metric short has no number.*judge=short also calls"):
        sn.score("runs/x", metrics="mine.py:short")


@pytest.mark.parametrize("judge", ["mine.py:short", "mine:short"])
def test_marks_of_a_function_say_how_many_and_how_to_report_them(
    own_code: Command, judge: str
) -> None:
    code, out, err = own_code("score", "runs/x", "--judge", judge)
    assert code == 0 and "short" in out
    assert "judge mine.py:short: 4 marks for questions of runs/x; the metric short is" in err
    assert "`snellen report runs/x --judge mine.py:short` writes the report" in err
    assert (
        "runs/x: scored with judge mine.py:short; other scorings: standard"
        in own_code("report", "runs/x")[2]
    )


def test_a_metric_leaves_the_marks_of_the_same_function_alone(own_code: Command) -> None:
    assert own_code("score", "runs/x", "--judge", "mine.py:named")[0] == 0
    assert own_code("report", "runs/x", "--metric", "mine.py:named", "-o", "metric.csv")[0] == 0
    assert ",named," not in Path("metric.csv").read_text()
    assert own_code("report", "runs/x", "--judge", "mine.py:named", "-o", "judge.csv")[0] == 0
    assert "eyechart/colour,named,1.0," in Path("judge.csv").read_text()


def test_a_report_as_a_table_has_the_marks_of_judges(own_code: Command) -> None:
    assert own_code("score", "runs/x", "--judge", "mine.py:named")[0] == 0
    for name in ("x.csv", "x.json"):
        assert own_code("report", "runs/x", "-o", name)[0] == 0
    assert "eyechart/colour,named,1.0," in Path("x.csv").read_text()
    assert '"named"' in Path("x.json").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--metric", "mine.py:short", "--judge", "mine.py:short"), "give it once"),
        (("--metric", "mine:short", "--judge", "mine.py:short"), "give it once"),
        (("--metric", "judge:mine.py:short"), "this is a judge; write --judge mine.py:short"),
    ],
)
def test_a_function_is_a_metric_or_a_judge(
    own_code: Command, words: tuple[str, ...], message: str
) -> None:
    code, _, err = own_code("score", "runs/x", *words)
    assert code == 2 and message in err


def test_the_advice_after_a_failed_judge_repeats_its_flag(own_code: Command) -> None:
    Path("bad.py").write_text("def bad(question, reply, reference):\n    return float(1 / 0)\n")
    code, _, err = own_code("score", "runs/x", "--judge", "bad.py:bad")
    assert code == 2 and "ZeroDivisionError" in err
    assert "correct the problem, then run `snellen score runs/x --judge bad.py:bad`" in err


def test_a_function_with_other_parameters_is_no_judge(own_code: Command) -> None:
    Path("wrong.py").write_text("def one(a):\n    return 1.0\n\n\ndef two(a, b):\n    return 1.0\n")
    for name, parameters in (("one", "(a)"), ("two", "(a, b)")):
        code, _, err = own_code("score", "runs/x", "--judge", f"wrong.py:{name}")
        assert code == 2 and f"{name}{parameters} cannot judge: a judge is a function of" in err
        assert "(question, reply, reference)" in err
    with pytest.raises(sn.DataError, match=r"the judge\(a\) cannot judge"):
        sn.score("runs/x", judge=lambda a: 1.0)


def test_a_judge_whose_verdicts_are_stored_says_so(snellen: Command) -> None:
    replies = Path("talker.py")
    replies.write_text("def talk(question, images):\n    return 'I would rather not say'\n")
    words = ("run", "talker.py:talk", "eyechart/colour", "--limit", "4", "--name", "talk")
    assert snellen(*words)[0] == 0
    first = snellen("score", "runs/talk", "--judge", "snellen:always-a", "--judge-failures", "1")
    assert first[0] == 0 and "calls made" in first[2], first[2]
    again = snellen("score", "runs/talk", "--judge", "snellen:always-a", "--judge-failures", "1")
    assert again[0] == 0
    assert "no call was made, because all its verdicts on runs/talk were given earlier" in again[2]


# --- a run without replies -------------------------------------------------------------------------------------------


def test_an_address_that_does_not_answer_leaves_no_run_behind(snellen: Command) -> None:
    nothing_listens = "openai:m@http://127.0.0.1:9/v1?patience=0"
    for words in ((), ("--workers", "2"), ("--name", "typo")):
        code, _, err = snellen("run", nothing_listens, "questions.tsv", *words)
        assert code == 2 and "no request got through" in err, words
        assert list(Path("runs").iterdir()) == []
    not_found = Fault(status=404, body="no such model", times=100)
    with start_server(script=[not_found]) as server:
        code, _, err = snellen("run", f"openai:m@{server.url}", "questions.tsv")
        assert code == 2 and "HTTP 404" in err
    assert list(Path("runs").iterdir()) == []

    # A run that has replies is kept, whatever happens to a later session.
    refused = Fault(status=404, body="gone", times=100)
    with start_server() as server:
        model = f"openai:m@{server.url}"
        assert snellen("run", model, "questions.tsv", "--name", "kept", "--limit", "1")[0] == 0
        journal = Path("runs/kept/journal-0.jsonl").read_bytes()
        with start_server(script=[refused]) as other:
            moved = ("--name", "kept", "--moved")
            code, _, err = snellen("run", f"openai:m@{other.url}", "questions.tsv", *moved)
        assert code == 2 and "HTTP 404" in err
    assert Path("runs/kept/journal-0.jsonl").read_bytes().startswith(journal)


def test_a_first_session_that_submitted_a_batch_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    with pytest.raises(ModelError), removed_if_unanswered(folder):
        (folder / "manifest.json").write_text("{}")
        (folder / "batches.jsonl").write_text("{}\n")
        raise ModelError("the server went away")
    assert (folder / "batches.jsonl").exists()


def test_a_first_session_that_the_user_stops_is_kept(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), removed_if_unanswered(tmp_path):
        (tmp_path / "manifest.json").write_text("{}")
        raise KeyboardInterrupt
    assert (tmp_path / "manifest.json").exists()


def test_files_of_the_user_are_kept_when_a_first_session_fails(tmp_path: Path) -> None:
    photo = tmp_path / "exam" / "questions" / "photo.jpg"
    photo.parent.mkdir(parents=True)
    photo.write_bytes(b"the only copy")
    with pytest.raises(ModelError), removed_if_unanswered(tmp_path / "exam"):
        (tmp_path / "exam" / "manifest.json").write_text("{}")
        raise ModelError("the server went away")
    assert photo.read_bytes() == b"the only copy"


@pytest.fixture
def failed_run(two_runs: Command) -> Command:
    """Two runs, and one all requests of which failed."""
    with start_server(script=[Fault(status=400, body="no", times=100)]) as server:
        words = ("run", f"openai:m@{server.url}", "eyechart/colour", "--name", "failed")
        assert two_runs(*words, "--limit", "4")[0] != 0
    assert Path("runs/failed/results.json").exists()
    return two_runs


@pytest.mark.parametrize(
    "words",
    [("compare", "runs"), ("export", "runs", "-o", "replies.csv"), ("card", "runs")],
    ids=["compare", "export", "card"],
)
def test_a_run_without_replies_is_left_out_by_name(
    words: tuple[str, ...], failed_run: Command
) -> None:
    code, out, err = failed_run(*words)
    assert code == 0
    reasons = [line for line in err.splitlines() if "none of its requests received" in line]
    assert len(reasons) == 1 and reasons[0].startswith("runs/failed is left out")
    assert "openai:m" not in out
    assert "runs/failed" not in err.splitlines()[-1]
    if words[0] == "export":
        assert "openai:m" not in Path("replies.csv").read_text()
    if words[0] != "compare":
        code, _, err = failed_run(words[0], "runs/failed")
        assert code == 2 and "runs/failed: no request received a reply" in err


def test_a_comparison_in_python_says_which_run_it_leaves_out(failed_run: Command) -> None:
    comparison = sn.compare("runs")
    reason = "none of its requests received a reply"
    assert comparison.left_out == {"runs/failed": reason}
    assert (
        str(comparison).splitlines()[-1] == f"runs/failed is left out of the comparison: {reason}"
    )
    alone = sn.compare("runs/first", "runs/second")
    assert comparison.labels == alone.labels and comparison.rows == alone.rows
    assert alone.left_out == {}
    with pytest.raises(DataError, match="no request of runs/failed received a reply"):
        sn.compare("runs/first", "runs/failed")


# --- names and numbers that were not understood ----------------------------------------------------------------------


def test_a_wide_interval_says_how_many_questions_narrow_it(two_runs: Command) -> None:
    # 1.96² · 0.5 · 0.5 / 0.05² = 384.2 questions for ±5 points at worst.
    sentence = "The interval is wide because there are questions on only 4 images: about 400 give ±5 points."
    code, out, _ = two_runs("score", "runs/second")
    assert code == 0 and out.splitlines()[-1] == sentence
    assert str(sn.load_run("runs/second")).splitlines()[-1].endswith("give ±5 points.")
    assert "±5" not in two_runs("run", "snellen:oracle", "eyechart/shape", "--name", "whole")[1]
    # Questions without an image are not counted as images.
    rows = [{"question": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(4)]
    Path("texts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert two_runs("build", "texts.jsonl", "--no-images")[0] == 0
    _, out, _ = two_runs("run", "snellen:oracle", "texts", "--name", "texts")
    assert out.splitlines()[-1].startswith(
        "The interval is wide because there are only 4 questions:"
    )


def test_a_wide_interval_names_unsure_readings_if_they_make_it_wide(snellen: Command) -> None:
    # "A red box" names a part of an option, so it is read with doubt, and a purple circle is none. By sampling alone,
    # Wilson's interval for 18 of 24 is 55.1 to 88.0%.
    colours = ["blue", "green", "red", "yellow"]
    rows = [
        {
            "id": n,
            "question": f"Which square is number {n}?",
            "answer": f"a {colours[n % 4]} square",
        }
        for n in range(24)
    ]
    Path("free.jsonl").write_text("\n".join(map(json.dumps, rows)))
    Path("say.py").write_text(
        f"COLOURS = {colours}\n\n"
        "def colour(question):\n"
        "    number = question.split('?')[0].split()[-1]\n"
        "    return COLOURS[int(number) % 4]\n\n"
        "def boxes(question, images):\n"
        "    name = colour(question)\n"
        "    return 'I see a purple circle.' if name == 'blue' else f'I see a {name} box.'\n\n"
        "def squares(question, images):\n"
        "    name = colour(question)\n"
        "    return 'a red square' if name == 'blue' else f'a {name} square'\n"
    )
    assert snellen("build", "free.jsonl", "--no-images")[0] == 0
    code, out, _ = snellen("run", "say.py:boxes", "free", "--name", "boxes")
    last = " ".join(out.split()).partition("The interval of")[2]
    assert code == 0
    assert "is wide because 24 of 24 replies are read with a confidence below 90%" in last
    assert "use --judge" in last and "±5 points" not in last
    # The same share of right answers, read without doubt: the number of questions is the cause.
    code, out, _ = snellen("run", "say.py:squares", "free", "--name", "squares")
    last = out.splitlines()[-1]
    assert code == 0 and "75.0%" in out
    assert (
        last
        == "The interval is wide because there are only 24 questions: about 400 give ±5 points."
    )


def test_a_metric_of_open_questions_keeps_them_open(snellen: Command) -> None:
    rows = [
        {"id": n, "question": f"Which square is number {n}?", "answer": f"a {colour} square"}
        for n, colour in enumerate(["red", "blue", "green"] * 8)
    ]
    Path("free.jsonl").write_text("\n".join(map(json.dumps, rows)))
    code, _, told = snellen("build", "free.jsonl", "--no-images")
    assert code == 0
    assert "as all answers are (--metric typed_match keeps the questions open)" in told
    # The entry that is now beside the table lists the classes.
    for line in (("--no-images",), ()):
        assert (
            snellen("build", "free.jsonl", *line, "--metric", "typed_match", "--name", "kept")[0]
            == 0
        )
        spec = Benchmark(benchmark_folder("kept")).spec
        assert (spec.formulation, spec.metrics) == ("text", ("typed_match",))
        assert "classes" not in spec.source.params


def test_a_metric_of_open_questions_is_refused_for_questions_with_options(snellen: Command) -> None:
    code, _, told = snellen("build", "questions.tsv", "--metric", "judged_correct")
    assert code == 2
    assert "judged_correct is for open questions, and those of questions.tsv have options" in told
    assert not Path("questions.toml").exists()
    # A metric of groups has a value for both kinds.
    assert snellen("build", "questions.tsv", "--metric", "same_image_accuracy")[0] == 0


def test_a_judge_that_says_yes_is_told_the_words_of_a_verdict(snellen: Command) -> None:
    Path("reply.py").write_text(
        "def words(question, images):\n    return 'hm'\n\n"
        "def judge(question, images):\n    return 'yes'\n"
    )
    snellen("run", "reply.py:words", "questions.tsv", "--name", "said")
    code, _, told = snellen("score", "runs/said", "--judge", "reply.py:judge")
    assert code != 0
    assert (
        "asks for: 'Output exactly one of A, B" in told and "or X, without any other word" in told
    )


def test_a_table_in_latex_is_no_export(snellen: Command) -> None:
    snellen("run", "snellen:oracle", "questions.tsv", "--name", "told")
    code, _, told = snellen("export", "runs/told", "--as", "latex")
    assert code == 2 and "`snellen report runs/told -o results.tex`" in told


def test_a_submission_of_ones_own_benchmark_says_whose_columns_it_has(snellen: Command) -> None:
    snellen("run", "snellen:oracle", "questions.tsv", "--name", "sent")
    code, _, told = snellen("submit", "runs/sent", "-o", "sent.tsv", "--partial")
    assert code == 0
    assert "questions is a benchmark of your own, for which no server is known" in told
    assert "the columns of another benchmark's submissions" in told


def test_an_entry_says_where_its_folder_of_images_is_written(snellen: Command) -> None:
    assert snellen("build", "questions.tsv")[0] == 0
    code, _, told = snellen("build", "questions.toml", "--images", "pictures")
    assert code == 2
    assert 'for the images, write `images = "pictures"` under `[source.params]`' in told


def test_the_hit_rate_is_explained_and_left_out_if_all_replies_were_read(snellen: Command) -> None:
    Path("reply.py").write_text(
        "def words(question, images):\n    return 'red'\n\n"
        "def mumbled(question, images):\n    return 'hm'\n"
    )
    code, out, _ = snellen("run", "reply.py:words", "questions.tsv")
    assert code == 0 and "50.0%" in out and "hit rate" not in out.lower()
    code, out, _ = snellen("run", "reply.py:mumbled", "questions.tsv")
    assert code == 0 and "unparsed rate" in out
    assert "Hit rate: the share of replies that name an option's label" in out


def test_built_benchmarks_are_listed_alone(snellen: Command) -> None:
    code, _, err = snellen("list", "--built")
    assert code == 2 and "nothing is built yet; `snellen build FILE`" in err
    snellen("build", "questions.tsv", "--images", "pictures")
    snellen("build", "eyechart/shape")
    code, out, _ = snellen("list", "benchmarks", "--built", "--json")
    names = [msgspec.json.decode(line)["name"] for line in out.splitlines()]
    assert code == 0 and names == ["eyechart/shape", "questions"]
    assert "questions" in snellen("list", "--built", "quest")[1]
    code, _, err = snellen("list", "my-questions")
    assert code == 2 and "`snellen list --built`" in err
    code, _, err = snellen("list", "models", "--built")
    assert code == 2 and "--built applies to benchmarks, not to models" in err


def test_a_folder_of_splits_is_answered_by_what_was_built_from_it(snellen: Command) -> None:
    snellen("build", "questions.tsv", "--images", "pictures")
    snellen("build", "open.tsv", "--images", "pictures")
    Path("open.toml").rename("fruit-test.toml")
    entry = Path("fruit-test.toml")
    entry.write_text(entry.read_text().replace('name = "open"', 'name = "fruit-test"'))
    assert snellen("build", "fruit-test.toml")[0] == 0
    code, _, err = snellen("run", "snellen:oracle", "fruit")
    assert code == 2 and "did you mean fruit-test? Or build one from the folder fruit" in err


def test_a_command_without_runs_says_how_to_name_all_of_them(snellen: Command) -> None:
    for verb in ("report", "compare", "export", "card", "score"):
        code, _, err = snellen(verb)
        assert code == 2 and f"`snellen {verb} runs` takes all runs of the folder `runs`" in err


def test_a_run_in_the_place_of_a_model_is_told_apart(two_runs: Command) -> None:
    code, _, err = two_runs("run", "runs/first", "eyechart/colour")
    assert code == 2 and "did you mean replay:runs/first?" in err
    code, _, err = two_runs("reproduce", "runs/first")
    assert (
        code == 2 and "runs/first is a run" in err and "`snellen reproduce snellen:oracle`" in err
    )


def test_a_submission_without_a_file_says_what_to_add(two_runs: Command) -> None:
    code, _, err = two_runs("submit", "runs/first", "--format", "mmbench")
    assert code == 2 and "add -o first.json, or -o first.xlsx" in err


def test_a_card_names_the_benchmark_of_a_file_without_its_suffix(snellen: Command) -> None:
    snellen("run", "snellen:oracle", "questions.tsv", "--name", "a")
    code, out, err = snellen("card", "runs/a")
    assert code == 0 and "questions.tsv" not in out and "questions " in out
    assert "`snellen card runs/a -o card.md` writes it to a file" in err.splitlines()[-1]
    assert "`snellen report runs/a`" in snellen("card", "runs/a", "-o", "card.md")[2]


def test_a_keyword_that_a_metric_lacks_is_answered() -> None:
    with pytest.raises(TypeError, match=r"metric\(\) has no keyword 'low'; unit='share' is for"):
        sn.metric(low=0)


def test_a_flag_of_build_on_a_run_is_answered_by_the_build(snellen: Command) -> None:
    code, _, err = snellen("run", "snellen:oracle", "questions.tsv", "--images", "pictures")
    assert code == 2
    assert "build the benchmark first: `snellen build questions.tsv --images pictures`" in err


def test_a_split_of_a_folder_says_how_it_is_built(snellen: Command) -> None:
    code, _, err = snellen("run", "snellen:oracle", "fruit:test")
    assert code == 2 and "with `snellen build fruit:test`" in err


def test_the_next_step_of_a_folder_of_runs_names_the_folder(two_runs: Command) -> None:
    for words in (("report", "runs"), ("compare", "runs"), ("export", "runs", "-o", "x.csv")):
        last = two_runs(*words)[2].splitlines()[-1]
        assert "runs/first" not in last and " runs`" in last, words


def test_a_class_that_answers_one_question_is_pointed_to_a_function(own_code: Command) -> None:
    Path("one.py").write_text(
        "class Model:\n    def generate(self, question, images):\n        return 'red'\n"
    )
    code, _, err = own_code("run", "one.py:Model", "questions.tsv")
    assert code == 2 and "a function f(question, images) answers one question at a time" in err
