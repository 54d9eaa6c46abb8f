"""axe-core, which looks for what keeps people from using a page; its script is that of the package for Playwright."""

from __future__ import annotations

from importlib.resources import files

import pytest

from browser import Page

LOOK = """axe.run(document, {resultTypes: ['violations']}).then(found => found.violations.map(
one => `${one.id} (${one.impact}): ` + one.nodes.map(node => node.html.slice(0, 200)).join('; ')))"""


def violations(page: Page) -> list[str]:
    """What axe finds on the page that is open, of any impact: rule, impact, elements."""
    package = pytest.importorskip("axe_playwright_python", reason="waits for axe-playwright-python")
    page.run(files(package).joinpath("axe.min.js").read_text("utf-8") + ";0")
    found: list[str] = page.run(LOOK)
    return found
