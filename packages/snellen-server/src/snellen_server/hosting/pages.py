"""Pages made on the server, and the files beside them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import PackageLoader, PrefixLoader
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from snellen.plugin_api import page_style, template_environment
from snellen_server.hosting.features import Feature, NavigationEntry

if TYPE_CHECKING:
    from snellen_server.hosting.callers import Caller

HOUSE = "house"
"""Under which name templates and files of the house itself are found: `house/base.html`."""
PACKAGE = "snellen_server.hosting"
TYPES = {
    ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".png": "image/png", ".woff2": "font/woff2",
}  # fmt: skip


@dataclass(frozen=True)
class Asset:
    """A file that pages ask for, in memory; its address changes with its content."""

    address: str
    media_type: str
    content: bytes


class Pages:
    """Templates and files of the features of one server."""

    def __init__(self, features: Sequence[Feature]) -> None:
        packages = {HOUSE: PACKAGE, **{feature.name: feature.package for feature in features}}
        entries = [entry for feature in features for entry in feature.navigation]
        self._entries = sorted(entries, key=lambda entry: entry.shown_to != "everybody")
        self._environment = template_environment(
            PrefixLoader(
                {name: PackageLoader(package) for name, package in packages.items() if _has(package, "templates")}
            )
        )
        self.assets = _assets(packages)
        self._environment.globals["asset"] = lambda name: self.assets[name].address
        for feature in features:
            self._environment.globals |= feature.template_values
        self._environment.filters["minute"] = lambda moment: moment.strftime("%Y-%m-%d %H:%M UTC")

    def render(
        self,
        request: Request,
        template: str,
        values: Mapping[str, Any] | None = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> HTMLResponse:
        """A page. Every template also has `caller`, `navigation`, `path`, and `csrf_field()` for its forms.

        The name is `FEATURE/FILE`, or `house/FILE`.
        """
        # A page for an error that came before the guard knows nobody.
        caller: Caller | None = getattr(request.state, "caller", None)
        token = caller.csrf_token if caller else ""
        text = self._environment.get_template(template).render(
            {
                "caller": caller,
                "navigation": [entry for entry in self._entries if _is_shown(entry, caller)],
                "path": request.url.path,
                "csrf_token": token,
                "csrf_field": lambda: Markup('<input type="hidden" name="csrf_token" value="{}">').format(token),
                **(values or {}),
            }
        )
        return HTMLResponse(text, status, headers=headers)

    def part(self, template: str, values: Mapping[str, Any]) -> Markup:
        """A part of a page, escaped by its template."""
        return Markup(self._environment.get_template(template).render(values))  # noqa: S704


def _is_shown(entry: NavigationEntry, caller: Caller | None) -> bool:
    account = caller.account if caller else None
    return entry.shown_to == "everybody" or (account is not None and (entry.shown_to == "accounts" or account.is_admin))


def _assets(packages: Mapping[str, str]) -> dict[str, Asset]:
    """All files by `FEATURE/FILE`: what is not listed here has no address, so no path can lead out."""
    contents = {f"{HOUSE}/report.css": ("text/css", page_style().encode())}
    for name, package in packages.items():
        if _has(package, "static"):
            for file in files(package).joinpath("static").iterdir():
                kind = TYPES.get(f".{file.name.rpartition('.')[2]}")
                if kind:
                    contents[f"{name}/{file.name}"] = (kind, file.read_bytes())
    return {
        name: Asset(f"/assets/{name}?v={hashlib.sha256(content).hexdigest()[:12]}", kind, content)
        for name, (kind, content) in contents.items()
    }


def _has(package: str, folder: str) -> bool:
    return files(package).joinpath(folder).is_dir()
