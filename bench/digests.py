"""The digests of what is built: of all embedded benchmarks, and of miniatures of the official files of two suites.

    python bench/digests.py FILES > before.tsv      # makes FILES, once
    PYTHONPATH=other-revision/src python bench/digests.py FILES > after.tsv
    diff before.tsv after.tsv

A line for each benchmark: its name and its version, or why it was not built.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import snellen as sn
from snellen.catalogue import entries, select
from snellen.errors import SnellenError

TESTS = Path(__file__).parent.parent / "tests"


def make_files(folder: Path) -> None:
    """The miniatures that the tests build from."""
    sys.path.insert(0, str(TESTS))
    import mini_ehub
    import test_lvlm_ehub
    import test_reform_suite

    folder.mkdir(parents=True)
    test_reform_suite.official(folder / "reform-eval")
    for name in test_lvlm_ehub.MINIATURES:
        mini_ehub.official(name, folder / "lvlm-ehub" / name)


def main(files: Path) -> None:
    if not files.exists():
        make_files(files)
    os.environ["SNELLEN_HOME"] = tempfile.mkdtemp()
    embedded = [(spec, None) for spec in entries().values() if spec.source.embedded]
    miniature = [
        (spec, spec.source_in(files / suite))
        for suite in ("reform-eval", "lvlm-ehub")
        for spec in select(suite)
    ]
    for spec, source in (*embedded, *miniature):
        try:
            said = sn.build(spec, source=source).manifest.version
        except SnellenError as error:
            said = str(error).splitlines()[0].replace(str(files), "FILES")
        print(spec.name, said, sep="\t", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
