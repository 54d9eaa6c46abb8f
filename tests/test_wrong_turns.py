"""Wrong turns of people who use Snellen for the first time, each through the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

import small
import snellen as sn

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
    assert "there is no file gone.py" in snellen("run", "gone.py", "open")[2]


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
