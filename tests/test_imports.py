"""What is imported when: the heavy packages only where they are used."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "torch", "transformers", "tokenizers", "accelerate", "polars", "pyarrow", "pandas", "numpy", "PIL", "httpx",
    "nltk", "scipy", "sklearn", "matplotlib", "ray", "starlette", "uvicorn", "jinja2",
    "fastapi", "sqlalchemy", "alembic", "easy_vqa", "pytest",
}  # fmt: skip


def loaded_by(code: str, folder: Path | None = None) -> set[str]:
    """Top-level packages and Snellen's modules that a fresh process has loaded after `code`."""
    show = "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code + show],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env=os.environ,
    )
    modules = json.loads(done.stdout.splitlines()[-1])
    return {name if name.startswith("snellen") else name.partition(".")[0] for name in modules}


def test_importing_snellen_loads_nothing_else() -> None:
    loaded = loaded_by("import snellen")
    assert not loaded & (HEAVY | {"msgspec", "click", "rich", "platformdirs", "asyncio"})
    assert {name for name in loaded if name.startswith("snellen")} == {
        "snellen",
        "snellen.absent_names",
    }


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["run", "--help"], ["list", "--help"]]
)
def test_help_loads_no_heavy_package(arguments: list[str]) -> None:
    code = f"import sys\nfrom snellen.cli import main\ntry:\n    main({arguments!r})\nexcept SystemExit:\n    pass"
    forbidden = HEAVY - ({"pyarrow", "numpy"} if arguments[0] == "run" else set())
    assert not loaded_by(code) & forbidden


def test_the_help_of_every_command_needs_no_extra() -> None:
    """As the site asks for it, which is built without them."""
    website = Path(__file__).parent.parent / "website"
    absent = sorted(HEAVY - {"pyarrow", "PIL", "jinja2"})
    code = f"import sys\nsys.modules |= dict.fromkeys({absent})\nsys.path.insert(0, {str(website)!r})\nimport hooks\n"
    loaded_by(f"{code}assert '## arena rate' in hooks.commands()")


def test_the_help_of_the_door_loads_neither_verbs_nor_the_library() -> None:
    code = "from snellen.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass"
    loaded = loaded_by(code)
    assert not loaded & (HEAVY | {"httpx", "rich.progress"})
    assert not {
        name
        for name in loaded
        if name.startswith(("snellen.api", "snellen.cli.verbs", "snellen.runs"))
    }


def test_a_run_with_an_instrument_never_loads_torch_or_a_network_client(tmp_path: Path) -> None:
    code = (
        "import snellen\n"
        "snellen.evaluate('snellen:oracle', 'eyechart/word', limit=2)\n"
        "snellen.evaluate('snellen:uniform', 'eyechart/shape', ['circular', 'likelihood'], limit=2)\n"
    )
    assert not loaded_by(code, tmp_path) & {
        "torch",
        "transformers",
        "httpx",
        "nltk",
        "polars",
        "matplotlib",
        "ray",
    }


def test_pages_over_runs_load_nothing_of_the_server_for_many() -> None:
    loaded = loaded_by("import snellen.viewing.local_pages")
    assert not loaded & {
        "fastapi",
        "pydantic",
        "sqlalchemy",
        "alembic",
        "argon2",
        "prometheus_client",
    }
    assert not {name for name in loaded if name.startswith("snellen_server.hosting")}


def test_pages_over_runs_need_no_torch(tmp_path: Path) -> None:
    code = (
        "import pathlib, snellen\n"
        "snellen.evaluate('snellen:oracle', 'eyechart/shape', limit=2, name='one')\n"
        "from snellen.viewing.library import RunLibrary\n"
        "import snellen.viewing.local_pages\n"
        "RunLibrary([pathlib.Path('runs')], pathlib.Path('index.sqlite')).refresh()\n"
    )
    assert not loaded_by(code, tmp_path) & {
        "torch",
        "transformers",
        "polars",
        "pandas",
        "scipy",
        "sqlalchemy",
    }


def test_threads_that_ask_for_a_name_at_once_all_get_it(tmp_path: Path) -> None:
    code = (
        "import threading\n"
        "from snellen.models.identity import identifying_string\n"
        "found = []\n"
        "ask = lambda: found.append(identifying_string('openai:m@http://127.0.0.1:1/v1'))\n"
        "threads = [threading.Thread(target=ask) for _ in range(8)]\n"
        "[thread.start() for thread in threads]\n"
        "[thread.join() for thread in threads]\n"
        "assert len(found) == 8, found\n"
    )
    loaded_by(code, tmp_path)


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from snellen.errors import MissingExtraError
    from snellen.installation import install_line

    error = MissingExtraError("easy-vqa", "demo", "the benchmark easy-vqa")
    assert (
        str(error) == f"the benchmark easy-vqa needs the package easy-vqa: {install_line('demo')}"
    )


def test_what_stands_beside_the_packages_imports_names_that_are_there() -> None:
    """Benches, training, examples and the site are run by hand, so no other test would see a name that has moved."""
    root = Path(__file__).parent.parent
    packages = {"snellen", "snellen_server"}
    if importlib.util.find_spec("snellen_lab"):
        packages.add("snellen_lab")
    missing = [
        f"{path.relative_to(root)}:{node.lineno}: {node.module}.{alias.name}"
        for folder in ("bench", "training", "website", "examples")
        for path in sorted((root / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in packages
        for alias in node.names
        if not is_there(node.module or "", alias.name)
    ]
    assert missing == []


def is_there(module: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(module), name) or bool(
            importlib.util.find_spec(f"{module}.{name}")
        )
    except ModuleNotFoundError:
        return False
