"""What `snellen score FILE` says of real files of predictions, next to the right values, the worst first.

    python bench/real_prediction_files.py CLONES [--only WORDS] [--held-out]

CLONES has the repositories as OWNER+NAME/repo. `real_prediction_files.toml` lists facts alone: repository, path, and the
right value in percent, as the authors print it or a script finds it that was written for that file. A file without a
value has no right answers or no replies, so that it should be refused with the next command. One is right within a
point; of a report of several models the nearest number counts. A third of the files is held out: it is looked at after
the others have been mended.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

FACTS = Path(__file__).with_suffix(".toml")
RIGHT_WITHIN = 1.0
HEADLINE = re.compile(r" (?:answers|scores) ([\d.]+)(%?) ")
"""A share in percent, or a rate such as that of wrong characters."""
COMPARES = re.compile(r" is better than | is not significantly different from ")
"""What the report of several models begins with."""
OF_A_MODEL = re.compile(r" ([\d.]+)% \[")
"""A share in the table of a report that compares several models, before its interval."""


class RealFile(Struct, frozen=True):
    repository: str
    path: str
    right: float | None = None
    """In percent; None for a file that nothing can be computed of."""
    known_by: str = ""
    """How the right value is known, or what the file lacks."""
    commit: str = "HEAD"
    """The commit that has the file, where today's does not."""

    @property
    def is_held_out(self) -> bool:
        name = f"{self.repository}/{self.path}"
        return int(hashlib.sha256(name.encode()).hexdigest(), 16) % 3 == 0


class Facts(Struct, frozen=True):
    files: tuple[RealFile, ...]


class Finding(Struct, frozen=True):
    file: RealFile
    value: float | None
    """The headline; None for a file that is refused, or whose report begins with what it needs."""
    line: str

    @property
    def distance(self) -> float:
        """Points between the headline and the right value; 100 where only one of them is there."""
        if (self.value is None) != (self.file.right is None):
            return 100.0
        if self.value is None or self.file.right is None:
            return 0.0
        return abs(self.value - self.file.right)


def clone_of(clones: Path, file: RealFile) -> Path:
    """The folder of a file's repository."""
    return clones / file.repository.replace("/", "+") / "repo"


def scored(clones: Path, file: RealFile) -> Finding:
    """What the command says of a file."""
    clone = clone_of(clones, file)
    command = ["git", "-C", str(clone), "show", f"{file.commit}:{file.path}"]
    content = subprocess.run(command, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / Path(file.path).name
        copy.write_bytes(content)
        done = subprocess.run(
            [sys.executable, "-m", "snellen", "score", str(copy)],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    output = done.stdout if done.returncode == 0 else done.stderr
    [first_line, *_] = output.strip().splitlines() or [""]
    headline = HEADLINE.search(first_line)
    value = None
    if headline and done.returncode == 0:
        value = float(headline[1])
        is_share = not headline[2] and value <= 1  # a rate, and no mean error in units of its own
        value *= 100 if is_share else 1
    elif COMPARES.search(output) and file.right is not None:
        of_models = [float(share) for share in OF_A_MODEL.findall(output)]
        value = min(of_models, key=lambda share: abs(share - (file.right or 0.0)), default=None)
    return Finding(file, value, first_line)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clones", type=Path)
    parser.add_argument("--only", default="", help="words in the repository or path")
    parser.add_argument("--held-out", action="store_true")
    chosen = parser.parse_args(arguments)
    files = msgspec.toml.decode(FACTS.read_bytes(), type=Facts).files
    files = tuple(
        file
        for file in files
        if chosen.only in f"{file.repository}/{file.path}" and file.is_held_out == chosen.held_out
    )
    there = [file for file in files if clone_of(chosen.clones, file).is_dir()]
    findings = [scored(chosen.clones, file) for file in there]
    findings.sort(key=lambda finding: -finding.distance)
    print("| file | right | Snellen |\n|---|---|---|")
    for finding in findings:
        file = finding.file
        right = "refused" if file.right is None else f"{file.right:.1f}"
        value = "refused" if finding.value is None else f"{finding.value:.1f}"
        print(f"| {file.repository} {file.path} | {right} | {value} |")
    right_count = sum(finding.distance <= RIGHT_WITHIN for finding in findings)
    print(
        f"\n{right_count} of {len(findings)} right, of {len({f.repository for f in there})} repositories"
    )
    if len(there) < len(files):
        print(
            f"{len(files) - len(there)} files left out, whose repositories are not in {chosen.clones}"
        )


if __name__ == "__main__":
    main()
