"""Why an attempt at a server failed, by the status and the words of its reply. No I/O."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from msgspec import Struct

from snellen.formats.json_files import JSON_FAULTS
from snellen.formats.retry_after import parse_retry_after
from snellen.models.connections import HttpReply
from snellen.records import ErrorKind


class ServerFault(Struct, frozen=True):
    """Why an attempt failed.

    Examples:
        >>> ServerFault("server", "overloaded", retry=True).retry
        True
    """

    kind: ErrorKind
    detail: str
    retry: bool = False
    retry_after: float | None = None
    """Seconds that the server asked for."""
    fatal: bool = False
    """Every other request would fail too, so the run should end."""
    rejected_parameter: str = ""
    """The parameter that the server does not accept."""


class ReportedError(Struct, frozen=True):
    """The error that a server reports in the body of its reply. Fields are empty if the server does not fill them.

    Examples:
        >>> ReportedError("too many requests", code="rate_limit", retry_after=3.0).retry_after
        3.0
    """

    message: str = ""
    code: str = ""
    parameter: str = ""
    retry_after: float | None = None
    """Seconds to wait, if the body or one of the provider's own headers names them."""


def read_reported_error(body: bytes) -> ReportedError:
    """Return the error that the JSON body of a reply reports.

    Servers write it as `{"error": "..."}`, `{"error": {"message": ..., "code": ...}}` or
    `{"message": ...}`. All fields of the result are empty if the body is not JSON.
    """
    try:
        content = msgspec.json.decode(body)
    except JSON_FAULTS:
        return ReportedError()
    error = content.get("error", content) if isinstance(content, dict) else content
    if isinstance(error, dict):
        message = error.get("message") or error.get("detail") or ""
        code = error.get("code") or error.get("type") or ""
        return ReportedError(str(message), str(code), str(error.get("param") or ""))
    return ReportedError(error) if isinstance(error, str) else ReportedError()


def no_completion(body: bytes, error: Exception) -> ServerFault:
    """Return the fault for a reply that should be a chat completion and is not.

    If the reply is not JSON, for example the error page of a gateway, the message quotes its
    beginning.
    """
    beginning = " ".join(body[:200].decode("utf-8", "replace").split())[:60]
    reason = (
        str(error)
        if beginning.startswith("{")
        else f"it begins with {beginning!r}"
        if beginning
        else "it is empty"
    )
    return ServerFault("malformed", f"the reply is not a chat completion: {reason}", retry=True)


def fault_of_reported(error: ReportedError) -> ServerFault:
    """Return the fault for an error that a server reports with the HTTP status 200.

    It may be in the body, in a choice, or in an event of a stream. Routers such as OpenRouter
    forward a provider's HTTP status as the `code` of the error.
    """
    detail = f"HTTP 200 with an error: {error.message or error.code or 'no reason given'}"
    if error.code in _FILTER_CODES or error.code == "403":
        return ServerFault("refused", detail)
    if error.code in _NO_CREDIT_CODES or error.code == "402":
        return ServerFault("auth", detail, fatal=True)
    if error.code in _BUSY_CODES:
        return ServerFault("rate_limit", detail, retry=True, retry_after=error.retry_after)
    if error.code in _LATE_CODES:
        return ServerFault("timeout", detail, retry=True)
    return ServerFault("server", detail, retry=True)


_BUSY_CODES = {"429", "529", "rate_limit_error", "rate_limit_exceeded", "overloaded_error"}
_LATE_CODES = {"408", "504", "timeout_error"}
_FILTER_CODES = {"content_filter", "content_policy_violation", "moderation_blocked"}
_NO_CREDIT_CODES = {"insufficient_quota", "billing_error"}
_BAD_KEY_CODES = {
    "API_KEY_INVALID",
    "authentication_error",
    "ExpiredTokenException",
    "UnrecognizedClientException",
}
KEY_HINT = "check the API key"
ADDRESS_HINT = "check the model's name and that the URL ends in /v1"


def fault_of_status(
    reply: HttpReply,
    error: ReportedError,
    now: float,
    address_hint: str,
    rejected_parameter: str = "",
) -> ServerFault:
    """Return the fault for a reply with an error status.

    The status decides whether the request may be sent again (such as 429 and 503) and whether the
    run must end (such as 401 and 404).

    Args:
        reply: The reply.
        error: The error in its body.
        now: The time in seconds since 1970, for a `Retry-After` that names a date.
        address_hint: What the user should check after a 404.
        rejected_parameter: The parameter that a bad request was rejected for; empty if it is not
            known.
    """
    reason = (
        error.message
        or reply.body[:200].decode("utf-8", "replace").strip()
        or _phrase(reply.status)
    )
    detail = f"HTTP {reply.status}: {reason}"
    retry_after = _retry_after(reply, now)
    retry_after = error.retry_after if retry_after is None else retry_after
    if retry_after is not None:
        detail += f"; Retry-After {retry_after:.0f} s"
    match reply.status:
        case 400 | 403 if error.code in _FILTER_CODES:
            return ServerFault("refused", detail)
        case _ if error.code in _NO_CREDIT_CODES:
            return ServerFault("auth", detail, fatal=True)
        case 401 | 403:
            return ServerFault("auth", f"{detail}; check the API key", fatal=True)
        case 400 if error.code in _BAD_KEY_CODES:
            return ServerFault("auth", f"{detail}; check the API key", fatal=True)
        case 404:
            return ServerFault("model", f"{detail}; {address_hint}", fatal=True)
        case 402:
            return ServerFault("auth", detail, fatal=True)
        case 429 | 529:
            return ServerFault("rate_limit", detail, retry=True, retry_after=retry_after)
        case 503 if retry_after is not None:
            return ServerFault("rate_limit", detail, retry=True, retry_after=retry_after)
        case 408 | 504:
            return ServerFault("timeout", detail, retry=True, retry_after=retry_after)
        case status if status >= 500 or status in (409, 424, 425):
            return ServerFault("server", detail, retry=True, retry_after=retry_after)
        case status if 300 <= status < 400:
            where = reply.headers.get("location", "elsewhere")
            return ServerFault(
                "model", f"{detail}: redirected to {where}; give that URL", fatal=True
            )
        case _:
            return ServerFault("bad_request", detail, rejected_parameter=rejected_parameter)


def _retry_after(reply: HttpReply, now: float) -> float | None:
    """Return the seconds to wait that the headers ask for; None if they ask for none.

    The header `retry-after-ms`, which Azure sends, takes precedence over `retry-after`.
    """
    milliseconds = parse_retry_after(reply.headers.get("retry-after-ms", ""), now)
    if milliseconds is not None:
        return milliseconds / 1000
    return parse_retry_after(reply.headers.get("retry-after", ""), now)


def says_unsupported(error: ReportedError) -> bool:
    """Return whether an error 400 says that a parameter is not accepted, whatever its value."""
    lowered = error.message.lower()
    return error.code in ("unsupported_parameter", "unsupported_value") or any(
        word in lowered
        for word in (
            "unsupported",
            "not supported",
            "does not support",
            "unrecognized",
            "unknown",
            "deprecated",
            "extra inputs are not permitted",
            "cannot both be specified",
        )
    )


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no reason given"
