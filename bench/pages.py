"""Every kind of page in a browser: what is sent, when it is painted, whether it shifts, where its first chart ends.

    python bench/pages.py [--rounds 5]

The pages are those of docs/evidence/pages.md, at 1,280 x 820 pixels, each opened `rounds` times with an empty cache of
pictures; times are the least, in milliseconds from the start of navigation, as the browser itself tells them
(`first-contentful-paint`, `largest-contentful-paint`, `layout-shift`). A chart that ends above 820 stands on the first
screen and is painted with it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "website")]
from browser import Page, browsing  # noqa: E402
from page_pictures import RUNS, house, local_pages, server_pages, view_pages  # noqa: E402
from pictures import run  # noqa: E402
from view_runs import serving  # noqa: E402

WIDTH, HEIGHT = 1280, 820
MEASURED = """new Promise(done => setTimeout(() => {
    const seen = {}, observer = new PerformanceObserver(() => {});
    const of = kind => { observer.observe({type: kind, buffered: true}); return observer.takeRecords(); };
    const chart = document.querySelector('svg.chart');
    const parts = performance.getEntriesByType('resource');
    const page = performance.getEntriesByType('navigation')[0];
    done({
        kilobytes: (page.decodedBodySize + parts.reduce((sum, one) => sum + one.decodedBodySize, 0)) / 1000,
        parts: parts.length,
        first: performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0,
        largest: of('largest-contentful-paint').at(-1)?.startTime ?? 0,
        shift: of('layout-shift').reduce((sum, one) => sum + one.value, 0),
        chart: chart ? chart.getBoundingClientRect().bottom + scrollY : 0,
    });
}, 300))"""


def pages(folder: Path, page: Page, stack: ExitStack) -> Iterator[tuple[str, str]]:
    """Name and address of each kind."""
    server = stack.enter_context(house(folder, RUNS))
    yield from local_pages(folder)
    client = stack.enter_context(serving(folder / "demo", index=folder / "index", may_change=True))
    yield from view_pages(str(client.base_url).rstrip("/"), RUNS)
    yield from server_pages(page, server, RUNS[0])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        os.chdir(name)
        run("demo", "--limit", "12", "--runs", "demo")
        page = stack.enter_context(browsing(Path("browser")))
        page.resize(WIDTH, HEIGHT)
        print(
            "| page | kB | parts | first paint, ms | largest paint, ms | layout shift | first chart ends at, px |"
        )
        print("|---|---|---|---|---|---|---|")
        for kind, address in pages(Path.cwd(), page, stack):
            found = []
            for _ in range(rounds):
                page.open(address)
                found.append(page.run(MEASURED))
            first, largest = (min(each[key] for each in found) for key in ("first", "largest"))
            last = found[-1]
            chart = f"{last['chart']:,.0f}" if last["chart"] else ""
            print(
                f"| {kind} | {last['kilobytes']:,.0f} | {last['parts']} | {first:.0f} | {largest:.0f} | "
                f"{max(each['shift'] for each in found):.3f} | {chart} |"
            )


if __name__ == "__main__":
    main()
