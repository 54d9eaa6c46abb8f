"""Addresses of models behind OpenAI-compatible servers, and the options of their model strings."""

from __future__ import annotations

import os
import re
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from snellen.errors import ModelError
from snellen.models.client import ClientOptions, answering_string
from snellen.models.connections import check_url
from snellen.models.model_strings import ModelSpec

OPENAI_HOST = "api.openai.com"
DEFAULT_URL = f"https://{OPENAI_HOST}/v1"
AZURE_ADDRESS = "AZURE_OPENAI_ENDPOINT"
"""Environment variable with the address of a resource, for model strings without one."""


class OpenAIOptions(ClientOptions, frozen=True):
    """Options after the `?` of a model string; docs/models-openai.md explains each."""

    prefix: Literal["auto", "send", "drop"] = "auto"
    max_tokens_field: Literal["auto", "max_tokens", "max_completion_tokens"] = "auto"
    likelihood: Literal[
        "auto", "extension", "next_tokens", "generate", "prompt_logprobs", "letters", "off"
    ] = "auto"
    """How continuations are scored (see `served`); auto uses what the server offers, but never letters."""
    detail: Literal["", "auto", "low", "high", "original"] = ""
    """The detail in which the service looks at an image (`image_url.detail`); empty if the service decides."""
    batch: bool = False
    """Whether a run submits its requests in batches, at half price and within a day."""
    cache_images: bool = False
    """Whether images are marked with `cache_control`, for services such as OpenRouter that forward it to Claude."""


class AzureOptions(OpenAIOptions, frozen=True):
    """Options of a deployment on Azure."""

    api_version: str = ""
    """Version of the dated interface, such as 2024-10-21; empty for the interface without dates, under /openai/v1."""


class Place(Struct, frozen=True):
    """The addresses of a model's servers, with the API key and the HTTP headers for them."""

    urls: tuple[str, ...]
    """Addresses of servers with the same model, all with the same path."""
    hosted: bool = False
    """Whether it is a hosted service that accepts the newest variant of OpenAI's format."""
    query: str = ""
    """Query string that is appended to every path."""
    headers: dict[str, str] = {}
    key: str = ""
    """API key, which is never stored or printed."""


def identity_of_string(spec: ModelSpec) -> str:
    """Return the part of a model string that identifies the model: `openai:NAME@PATH?options`.

    Hosts, and options such as timeouts, are left out, because replies do not depend on them.
    OpenAI's own models have no path. Raises ModelError if the string is invalid.
    """
    model, urls = split_target(spec)
    return answering_string(
        spec, model if is_openai(urls[0]) else f"{model}@{urlsplit(urls[0]).path}"
    )


def identity_of_deployment(spec: ModelSpec) -> str:
    """Return the part of a model string on Azure that identifies the model: the names of deployment and resource.

    Options such as timeouts are left out, because replies do not depend on them.
    """
    deployment, _, url = spec.target.partition("@")
    return answering_string(
        spec, f"{deployment}@{urlsplit(url or os.environ.get(AZURE_ADDRESS, '')).netloc}"
    )


def split_target(spec: ModelSpec) -> tuple[str, tuple[str, ...]]:
    """Return the model's name and the addresses in `NAME[@URL[,URL...]]`; without a URL, the address of OpenAI.

    Raises ModelError if the string is invalid, or if the addresses have different paths.
    """
    match = re.fullmatch(r"(?P<model>[^@].*?)(?:@(?P<urls>https?://[^/].*))?", spec.target)
    looks_like_url = re.search(r"://|@[\w.]+(:\d|/)", spec.target)
    if match is None or (not match["urls"] and looks_like_url):
        raise ModelError(
            f"{spec.text}: invalid model string; write openai:NAME@http://HOST:PORT/v1, or openai:NAME for OpenAI"
        )
    addresses = re.split(r",(?=https?://)", match["urls"] or DEFAULT_URL)
    urls = tuple(dict.fromkeys(url.rstrip("/") for url in addresses))
    paths = set()
    for url in urls:
        check_url(spec.text, url)
        paths.add(OPENAI_HOST if is_openai(url) else urlsplit(url).path)
    if len(paths) > 1:
        raise ModelError(
            f"{spec.text}: all servers of a model must have the same path after the host; make the URLs end alike"
        )
    return match["model"], urls


def is_openai(url: str) -> bool:
    """Return whether an address is OpenAI's own."""
    address = urlsplit(url)
    return address.scheme == "https" and address.hostname == OPENAI_HOST
