"""The lint that finds code which goes around the doors for bytes from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import foreign_door

Lint = Callable[[Path], tuple[int, str]]


@pytest.fixture
def lint(capsys: pytest.CaptureFixture[str]) -> Lint:
    """Looks at a folder, and returns the exit code and what was printed. `make style` looks at the source itself."""

    def look(folder: Path) -> tuple[int, str]:
        code = foreign_door.main([str(folder)])
        return code, capsys.readouterr().out

    return look


@pytest.mark.parametrize(
    "line",
    [
        "rows = open(path).readlines()",
        "rows = path.open().readlines()",
        'rows = path.open("rb").read()',
        "rows = path.open(mode).read()",
        "rows = path.read_text('utf-8')",
        "rows = Path(folder, name).read_bytes()",
        "rows = gzip.open(path).read()",
        "rows = zipfile.ZipFile(path).namelist()",
        "rows = Image.open(path).size",
        "rows = pq.ParquetFile(path).metadata",
        "rows = pa.memory_map(str(path))",
        "rows = urllib.request.urlopen(address).read()",
        "rows = importlib.import_module(name)",
        "rows = importlib.util.spec_from_file_location(name, path)",
    ],
)
def test_a_reader_that_opens_a_users_file_itself_is_found(
    line: str, tmp_path: Path, lint: Lint
) -> None:
    reader = tmp_path / "readers" / "new.py"
    reader.parent.mkdir()
    reader.write_text(f"def read(params, path):\n    {line}\n    return rows\n")
    code, found = lint(tmp_path)
    assert code == 1
    assert found.startswith(f"{reader}:2: ") and "in read goes around the doors" in found


@pytest.mark.parametrize(
    "line",
    [
        "rows = open_file(path).read()",
        "rows = read_text(path)",
        'rows = files("snellen.report").joinpath("a.toml").read_text("utf-8")',
        'path.open("w").write("x")',
        'path.open(mode="ab").write(b"x")',
        "rows = pq.ParquetFile(regular_file(path)).metadata",
        "rows = pa.memory_map(str(regular_file(path)))",
        "with open_file(path) as packed, gzip.open(packed) as file: file.read()",
    ],
)
def test_what_goes_through_a_door_is_not(line: str, tmp_path: Path, lint: Lint) -> None:
    (tmp_path / "new.py").write_text(f"def read(params, path):\n    {line}\n")
    assert lint(tmp_path) == (0, "")
