"""Wrong turns of people who use Snellen for the first time, each through the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

import small

Command = Callable[..., tuple[int, str, str]]

OPEN_TABLE = "question\tanswer\timage\nWhich colour?\tred\tred.png\nAnd here?\tdeep blue\tblue.png\n"
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
