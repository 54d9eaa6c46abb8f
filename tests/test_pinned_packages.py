"""What images and workflows fetch from elsewhere: packages by hash, actions by commit."""

from __future__ import annotations

import re
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "deploy" / "requirements.lock"


def locked_requirements() -> dict[str, list[str]]:
    """The lines of the lock by package: the version first, then the hashes."""
    text = LOCK.read_text().replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {canonicalize_name(words[0].partition("==")[0]): words for words in lines}


def test_every_locked_package_has_hashes_and_the_version_of_the_constraints() -> None:
    locked = locked_requirements()
    assert "torch" not in locked  # its index depends on the processor
    for name, words in locked.items():
        assert "==" in words[0], name
        assert any(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", word) for word in words), name

    constraints = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = [Requirement(line) for line in constraints if line and not line.startswith("#")]
    for requirement in pinned:
        words = locked.get(canonicalize_name(requirement.name))
        if words is not None:
            version = words[0].partition("==")[2]
            assert requirement.specifier.contains(version), f"{requirement}: run `make lock`"


def test_the_lock_has_what_the_packages_need() -> None:
    import tomllib

    locked = locked_requirements()
    needed = []
    for project in (".", "packages/snellen-lab", "packages/snellen-server"):
        declared = tomllib.loads((ROOT / project / "pyproject.toml").read_text())["project"]
        needed += declared["dependencies"]
    for line in needed:
        requirement = Requirement(line)
        if not requirement.name.startswith("snellen"):
            assert canonicalize_name(requirement.name) in locked, f"{line}: run `make lock`"


def test_workflows_name_actions_by_commit() -> None:
    used = []
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        used += re.findall(r"uses: (\S+)", workflow.read_text())
    assert used
    for action in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action


def test_images_install_from_the_lock() -> None:
    files = [ROOT / "deploy" / "Dockerfile", *(ROOT / "docker").glob("*.Dockerfile")]
    assert len(files) == 3
    for file in files:
        assert "--require-hashes --no-deps -r " in file.read_text(), file.name
    assert "!deploy/requirements.lock" in (ROOT / ".dockerignore").read_text()


def test_images_of_containers_are_named_by_digest() -> None:
    compose = (ROOT / "deploy" / "compose.yaml").read_text("utf-8")
    images = re.findall(r"^ +image: (.+)$", compose, re.MULTILINE)
    for file in [ROOT / "deploy" / "Dockerfile", *(ROOT / "docker").glob("*.Dockerfile")]:
        images += re.findall(r"^FROM (\S+)", file.read_text("utf-8"), re.MULTILINE)
    assert len(images) == 5
    for image in images:
        assert re.fullmatch(r"\w+:[\w.-]+@sha256:[0-9a-f]{64}", image), image
