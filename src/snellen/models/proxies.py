"""Find the proxy that environment variables such as HTTPS_PROXY name for a server."""

from __future__ import annotations

import ipaddress
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from aiohttp import encode_basic_auth
from msgspec import Struct

from snellen.errors import ModelError


class Proxy(Struct, frozen=True):
    """A proxy between this machine and a server."""

    url: str
    """Without a user and a password."""
    headers: dict[str, str]
    """What the proxy is told beside each request, or when it is to open a tunnel."""


def proxy_for(url: str) -> Proxy | None:
    """Return the proxy for `url` that environment variables name; None if there is none.

    A server on this machine is asked directly, whatever the environment says. Raises ModelError for a proxy that does not
    speak HTTP.
    """
    server = urlsplit(url)
    host = server.hostname or ""
    proxies = getproxies()
    named = proxies.get(server.scheme) or proxies.get("all")
    if not named or is_loopback(host) or proxy_bypass(host):
        return None
    address = urlsplit(named if "://" in named else f"http://{named}")
    if address.scheme not in ("http", "https"):
        raise ModelError(
            f"{url}: the environment names the proxy {address.scheme}://{address.hostname}, but only http proxies "
            f"are supported; set NO_PROXY={host} to connect directly"
        )
    headers: dict[str, str] = {}
    if address.username:
        user, password = unquote(address.username), unquote(address.password or "")
        headers["proxy-authorization"] = encode_basic_auth(user, password)
    return Proxy(f"{address.scheme}://{address.netloc.rpartition('@')[2]}", headers)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, by its name or its address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
