"""Packed runs that are signed with an SSH key: who signed is named, and any change is refused."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import small
import snellen as sn
from snellen.errors import DataError
from snellen.interchange.signing import verify_run

pytestmark = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="ssh-keygen signs and checks, and is not installed"
)

Command = Callable[..., tuple[int, str, str]]


def make_key(path: Path, comment: str) -> Path:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)], check=True
    )
    return path


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    return lambda *words: small.command(capsys, *words)


@pytest.fixture
def received(tmp_path: Path, command: Command) -> Path:
    """A run of eight questions that Anna signed, as it lies at its receiver's."""
    make_key(tmp_path / "anna", "anna@example.org")
    small.write(small.rows(8), tmp_path / "questions.jsonl")
    sn.build("questions.jsonl")
    sn.evaluate("snellen:always-a", "questions", name="run", report=False)
    code, out, err = command(
        "pack", "runs/run", "--answers", "--images", "--sign", "anna", "-o", "run.zip"
    )
    assert code == 0, err
    assert out.endswith(", signed\n")
    with zipfile.ZipFile("run.zip") as archive:
        archive.extractall("received")
    return tmp_path / "received" / "run"


def test_a_signed_run_names_its_signer_and_is_scored_again_and_again(
    received: Path, command: Command
) -> None:
    for _ in range(2):  # the first scoring writes files, which nobody signed
        code, out, err = command("score", str(received), "--verify", "anna.pub")
        assert code == 0 and "n=8" in out
        assert f"{received}: signed by anna@example.org (SHA256:" in err


def test_other_programs_check_the_same_signature(received: Path, tmp_path: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=received, check=True)
    public_key = (tmp_path / "anna.pub").read_text()
    (tmp_path / "signers").write_text(f"anna@example.org {public_key}")
    verify = ["ssh-keygen", "-Y", "verify", "-n", "snellen", "-s", str(received / "SHA256SUMS.sig")]
    verify += ["-f", str(tmp_path / "signers"), "-I", "anna@example.org"]
    digests = (received / "SHA256SUMS").read_bytes()
    assert subprocess.run(verify, input=digests, check=False).returncode == 0
    assert verify_run(received, tmp_path / "signers").signer == "anna@example.org"


def test_a_key_that_is_not_in_the_file_is_refused_by_its_fingerprint(
    received: Path, tmp_path: Path, command: Command
) -> None:
    make_key(tmp_path / "ben", "ben")
    code, _, err = command("score", str(received), "--verify", "ben.pub")
    assert code == 2
    assert f"{received} was not signed by a key in ben.pub" in err
    listed = subprocess.run(
        ["ssh-keygen", "-l", "-f", "anna.pub"], capture_output=True, text=True, check=True
    )
    assert listed.stdout.split()[1] in err


@pytest.mark.parametrize("name", ["manifest.json", "journal-0.jsonl", "questions/questions/*.gz"])
def test_a_changed_file_is_refused_by_name(received: Path, tmp_path: Path, name: str) -> None:
    changed = min(received.glob(name))
    changed.write_bytes(changed.read_bytes() + b"\n")
    with pytest.raises(DataError, match=f"{changed.name} has changed since the run was signed"):
        verify_run(received, tmp_path / "anna.pub", with_scores=False)


def test_missing_and_added_files_are_refused(received: Path, tmp_path: Path) -> None:
    keys = tmp_path / "anna.pub"
    added = received / "journal-1.jsonl"
    shutil.copy(received / "journal-0.jsonl", added)
    with pytest.raises(DataError, match=r"journal-1\.jsonl was added after the run was signed"):
        verify_run(received, keys)
    added.unlink()
    labels = received / "labels.jsonl"
    labels.touch()
    from snellen.scoring.reply_labels import LABELS_FILE

    assert labels.name == LABELS_FILE
    with pytest.raises(DataError, match=r"labels\.jsonl was added"):
        verify_run(received, keys)
    labels.unlink()
    (received / "journal-0.jsonl").unlink()
    with pytest.raises(DataError, match=r"journal-0\.jsonl was signed but cannot be read"):
        verify_run(received, keys)


def test_scores_that_are_shown_must_be_those_that_were_signed(
    received: Path, tmp_path: Path, command: Command
) -> None:
    results = received / "results.json"
    results.write_text(results.read_text().replace("0.", "1.", 1))
    code, _, err = command("view", str(received), "--verify", "anna.pub", "--port", "0")
    assert code == 2 and "results.json has changed since the run was signed" in err
    assert verify_run(received, tmp_path / "anna.pub", with_scores=False).files > 0


def test_an_edited_list_of_digests_does_not_fit_the_signature(
    received: Path, tmp_path: Path
) -> None:
    journal = received / "journal-0.jsonl"
    before = (received / "SHA256SUMS").read_text()
    journal.write_bytes(journal.read_bytes() + b"\n")
    from snellen.interchange.signing import digest_of_file

    lines = [
        f"{digest_of_file(journal)}  {journal.name}" if line.endswith(journal.name) else line
        for line in before.splitlines()
    ]
    (received / "SHA256SUMS").write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match=r"the signature of anna@example\.org does not fit"):
        verify_run(received, tmp_path / "anna.pub")


def test_a_list_that_leads_out_of_the_folder_is_refused(received: Path, tmp_path: Path) -> None:
    """Even if the sender signed it."""
    (received / "SHA256SUMS").write_text(f"{'0' * 64}  ../secret\n")
    (received / "SHA256SUMS.sig").unlink()
    sign = ["ssh-keygen", "-Y", "sign", "-f", "anna", "-n", "snellen", str(received / "SHA256SUMS")]
    subprocess.run(sign, cwd=tmp_path, check=True, capture_output=True)
    with pytest.raises(DataError, match=r"line 1: expected `DIGEST  FILE`"):
        verify_run(received, tmp_path / "anna.pub")


def test_a_signature_for_another_purpose_is_refused(received: Path, tmp_path: Path) -> None:
    (received / "SHA256SUMS.sig").unlink()
    sign = ["ssh-keygen", "-Y", "sign", "-f", "anna", "-n", "git", str(received / "SHA256SUMS")]
    subprocess.run(sign, cwd=tmp_path, check=True, capture_output=True)
    with pytest.raises(DataError):
        verify_run(received, tmp_path / "anna.pub")


def test_what_cannot_be_signed_or_checked_is_said_in_one_line(
    received: Path, tmp_path: Path, command: Command
) -> None:
    code, _, err = command("pack", "runs/run", "--sign", "nokey", "-o", "no.zip")
    assert code == 2 and "--sign nokey: there is no such file" in err
    (tmp_path / "text").write_text("hello")
    code, _, err = command("pack", "runs/run", "--sign", "text", "-o", "no.zip")
    assert code == 2 and "--sign text: ssh-keygen cannot sign with it" in err
    assert not (tmp_path / "no.zip").exists()
    code, _, err = command("score", "runs/run", "--verify", "anna.pub")
    assert code == 2 and "runs/run is not signed (SHA256SUMS.sig is missing)" in err
    code, _, err = command("score", str(received), "--verify", "nofile")
    assert code == 2 and "--verify nofile: the file of trusted keys cannot be read" in err


def test_only_a_verified_run_is_published(
    received: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNELLEN_TOKEN", "snl_key")
    to = ("--to", "http://127.0.0.1:9", "--verify", "anna.pub")
    code, _, err = command("publish", "runs/run", *to)
    assert code == 2 and "is not signed" in err
    code, _, err = command("publish", str(received), *to)
    assert "signed by anna@example.org" in err and "cannot be reached" in err


def test_a_signed_benchmark_is_a_benchmark_where_it_is_unpacked(
    tmp_path: Path, command: Command
) -> None:
    make_key(tmp_path / "anna", "anna")
    small.write(small.rows(4), tmp_path / "questions.jsonl")
    sn.build("questions.jsonl")
    code, out, _ = command("pack", "questions", "--answers", "--sign", "anna")
    assert code == 0 and out.endswith("with answers, signed\n")
    with zipfile.ZipFile("questions.zip") as archive:
        archive.extractall("received")
    folder = tmp_path / "received" / "questions"
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=folder, check=True)
    assert sn.evaluate("snellen:oracle", str(folder), report=False).value() == 1.0
