"""The configuration of a server: one record, from a TOML file and the command line."""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import DataError
from snellen.plugin_api import read_text
from snellen_server.hosting.limits import parse_networks, parse_rate

_HEADER = re.compile(r"[A-Za-z0-9-]+")
DATABASE, KEY_FILE, PICTURES = "snellen.sqlite", "key", "pictures"
"""What lies in the folder of a server."""


class LimitRates(Struct, frozen=True, forbid_unknown_fields=True):
    """Rates that replace the default ones of a rate limit, such as `30/minute`."""

    per_visitor: str | None = None
    per_network: str | None = None


class Configuration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a server is run. docs/reference/server.md describes each field."""

    folder: Path
    database: str = ""
    """A URL of SQLAlchemy's; empty is SQLite in the folder."""
    public_url: str = ""
    """The address that people use; empty is this machine, at the port that is listened on."""
    hosts: tuple[str, ...] = ()
    """Further names under which it answers."""
    trusted_proxies: tuple[str, ...] = ()
    identity_header: str = ""
    """The header in which a trusted proxy names who has signed in with it, such as `X-Auth-Request-Email`; empty for
    none."""
    identity_admins: tuple[str, ...] = ()
    """Who of these is an administrator, as the header names them."""
    identity_sign_in: str = ""
    """The address at which the proxy signs people in, for a link on the page for signing in."""
    metrics_networks: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    """Which features are shown; empty is all that are installed."""
    moderators: tuple[str, ...] = ()
    moderation_model: str = ""
    """A model string: the model that looks at images and texts before anybody else does; empty for none."""
    moderation_seconds: float = 10.0
    blocked_texts: tuple[str, ...] | None = None
    """Regular expressions of texts that are refused, regardless of case; None for those that ship with the server."""
    registration: Literal["closed", "open"] = "closed"
    session_days: int = 14
    visitor_days: int = 365
    keep_days: int = 365
    """How long records of activity (the audit log) are kept."""
    request_bytes: int = 256 * 1024
    image_bytes: int = 10 * 1024 * 1024
    image_pixels: int = 20_000_000
    grace_seconds: int = 30
    """How long a stop waits for answers that are under way."""
    limits: dict[str, LimitRates] = {}
    feature: dict[str, dict[str, Any]] = {}
    """A table for each feature that has settings: `[feature.NAME]`."""
    settings_files: dict[str, Path] = {}
    """The file with the settings of a feature, which the feature may read again while the server runs."""

    def at_port(self, port: int) -> Configuration:
        """Return the configuration at a local address with this port, unless it has another address."""
        return self if self.public_url else replace(self, public_url=f"http://127.0.0.1:{port}")

    @property
    def is_secure(self) -> bool:
        return urlsplit(self.public_url).scheme == "https"

    @property
    def looks_at_images(self) -> bool:
        """Return whether something moderates uploaded images before they are shown.

        This is a model (`moderation_model`) or another moderator that the operator has named.
        """
        return bool(self.moderation_model or self.moderators)

    @property
    def url(self) -> str:
        """The database's URL."""
        if self.database:
            return self.database.replace("postgresql://", "postgresql+psycopg://", 1)
        return f"sqlite:///{self.folder / DATABASE}"

    @property
    def all_hosts(self) -> tuple[str, ...]:
        """The host names under which the server answers."""
        return (
            urlsplit(self.public_url).hostname or "localhost",
            "127.0.0.1",
            "localhost",
            "::1",
            *self.hosts,
        )


def load_configuration(folder: Path, file: Path | None = None, **overrides: Any) -> Configuration:
    """Return the configuration in a TOML file. Values in `overrides` replace those of the file.

    Raises DataError.
    """
    where, content = "the command line", ""
    if file is not None:
        where = str(file)
        try:
            content = read_text(file)
        except OSError as error:
            raise DataError(
                f"{file} cannot be read ({error.strerror}); give another TOML file as the configuration"
            ) from None
        except UnicodeDecodeError:
            raise DataError(f"{file} is not text in UTF-8; save it in that encoding") from None
    try:
        decoded = msgspec.toml.decode(content, type=dict[str, Any])
        for name in ("folder", "settings_files"):
            if name in decoded:
                raise DataError(f"{where}: {name} follows from the command line; remove `{name}`")
        if file is not None and isinstance(decoded.get("feature"), dict):
            overrides["settings_files"] = dict.fromkeys(decoded["feature"], file)
        configuration = msgspec.convert({**decoded, **overrides, "folder": folder}, Configuration)
    except msgspec.DecodeError as error:
        raise DataError(f"{where}: {error}; docs/reference/server.md has the fields") from None
    _check(configuration, where)
    return configuration


def _check(configuration: Configuration, where: str) -> None:
    """Raise DataError for a setting that is wrong or unsafe; `where` names the file or flag in the message."""
    address = urlsplit(configuration.public_url or "http://127.0.0.1")
    if address.scheme not in ("http", "https") or not address.hostname:
        raise DataError(
            f"{where}: public_url {configuration.public_url!r} is not an http(s) address; write https://HOST"
        )
    if address.scheme == "http" and not _is_local(address.hostname):
        raise DataError(
            f"{where}: public_url {configuration.public_url!r} would send passwords unencrypted; put a proxy with TLS "
            "before the server (deploy/) and write https://HOST"
        )
    parse_networks(configuration.trusted_proxies, f"{where}: trusted_proxies")
    for pattern in configuration.blocked_texts or ():
        try:
            re.compile(pattern)
        except re.error as error:
            raise DataError(
                f"{where}: blocked_texts: {pattern!r} is no regular expression ({error})"
            ) from None
    parse_networks(configuration.metrics_networks, f"{where}: metrics_networks")
    if configuration.identity_header and not _HEADER.fullmatch(configuration.identity_header):
        raise DataError(
            f"{where}: identity_header {configuration.identity_header!r} is not the name of a header; write "
            "X-Auth-Request-Email"
        )
    if configuration.identity_header and not configuration.trusted_proxies:
        raise DataError(
            f"{where}: identity_header needs trusted_proxies, or anybody could send {configuration.identity_header}; "
            "name the address of your proxy"
        )
    if configuration.identity_admins and not configuration.identity_header:
        raise DataError(f"{where}: identity_admins needs identity_header")
    for name, rates in configuration.limits.items():
        for rate in (rates.per_visitor, rates.per_network):
            if rate is not None:
                parse_rate(rate, f"{where}: limits.{name}")


def _is_local(host: str) -> bool:
    """Return whether a host name means this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
