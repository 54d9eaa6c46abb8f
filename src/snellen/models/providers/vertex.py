"""Gemini on Google Cloud: `vertex:MODEL?project=...`. The format is Gemini's; the token is that of google-auth."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from snellen.errors import MissingExtraError, ModelError
from snellen.models.base import ModelSpec
from snellen.models.client import ClientOptions
from snellen.models.provider import HeaderSource, OutgoingRequest
from snellen.models.providers.gemini import GEMINI

SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class VertexOptions(ClientOptions, frozen=True):
    """Where a project runs its models."""

    project: str = ""
    location: str = "us-central1"


def open_headers(spec: ModelSpec, options: VertexOptions) -> HeaderSource:
    """Headers with a token of the credentials that google-auth finds: a service account, or gcloud's login.

    Raises MissingExtraError without google-auth and ModelError without credentials.
    """
    try:
        auth = importlib.import_module("google.auth")
        transport = importlib.import_module("google.auth.transport.requests")
    except ImportError as error:
        raise MissingExtraError(error.name or "google-auth", "vertex", spec.text) from None
    try:
        credentials, _ = auth.default(scopes=[SCOPE])
    except auth.exceptions.GoogleAuthError as error:
        raise ModelError(f"{spec.text}: no credentials for Google Cloud; {error}") from None
    return _Tokens(spec, credentials, transport.Request(), auth.exceptions.GoogleAuthError).headers


class _Tokens:
    """A token that is renewed, by one request at a time, when it has expired."""

    def __init__(self, spec: ModelSpec, credentials: Any, transport: Any, fault: type[Exception]) -> None:
        self._spec, self._credentials, self._transport, self._fault = spec, credentials, transport, fault
        self._renewing: asyncio.Lock | None = None

    async def headers(self, request: OutgoingRequest) -> Mapping[str, str]:
        if not self._credentials.valid:
            self._renewing = self._renewing or asyncio.Lock()
            async with self._renewing:
                if not self._credentials.valid:
                    await self._renew()
        return {"authorization": f"Bearer {self._credentials.token}"}

    async def _renew(self) -> None:
        try:
            await asyncio.to_thread(self._credentials.refresh, self._transport)
        except self._fault as error:
            raise ModelError(f"{self._spec.text}: Google Cloud gives no token; {error}") from None


VERTEX = replace(
    GEMINI,
    name="vertex",
    url="https://{location}-aiplatform.googleapis.com/v1/projects/{project}/locations/{location}/publishers/google",
    key_variables=(),
    options=VertexOptions,
    open_headers=open_headers,
)
