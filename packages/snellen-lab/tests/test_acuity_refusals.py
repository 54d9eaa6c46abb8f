"""`snellen acuity` says in one line what it lacks, before anything is built."""

from __future__ import annotations

from pathlib import Path

import pytest

import small
from snellen.cli import main
from snellen.installation import install_line
from test_installed_packages import absent


def test_a_verb_whose_package_is_missing_ends_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent(
        monkeypatch,
        "numpy",
        "snellen_lab.acuity.measuring",
        "snellen_lab.acuity.acuity_run",
        "snellen_lab.acuity.posterior",
        "snellen_lab.cli.acuity",
    )
    with pytest.raises(SystemExit) as stopped:
        main(["acuity", "snellen:oracle"])
    assert stopped.value.code == 2
    line = f"snellen: snellen acuity needs the package numpy: {install_line('')}"
    assert capsys.readouterr().err.splitlines() == [line]


def test_a_budget_that_is_too_small_is_said_before_any_test_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    code, _, error = small.command(capsys, "acuity", "snellen:uniform", "--budget", "120")
    assert code == 2 and "24 tests need 144 questions at least" in error
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("model", "line"),
    [
        ("snellen:oracl", "unknown embedded model 'oracl'; did you mean oracle?"),
        ("hf:./nowhere", "hf:./nowhere: there is no folder nowhere; check the path"),
    ],
)
def test_a_model_that_cannot_exist_is_refused_before_anything_is_built(
    model: str,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    code, _, error = small.command(capsys, "acuity", model, "--test", "letter-size")
    assert code == 2 and line in error and not list(tmp_path.rglob("manifest.json"))
