"""Find out who sends a request, and check what they may do.

The server does this for each request before any feature sees it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote, urlsplit

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from snellen_server.hosting.accounts import Account, key_account, session_account
from snellen_server.hosting.identities import identified_account
from snellen_server.hosting.limits import retry_words
from snellen_server.hosting.services import Services

SAFE = ("GET", "HEAD", "OPTIONS")
CSRF_FIELD, CSRF_HEADER = "csrf_token", "x-csrf-token"
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
EVERYTHING = "admin"
"""The scope that allows what an administrator may do."""


@dataclass(frozen=True)
class Caller:
    """Who sent a request."""

    visitor: str
    """The random id in the visitor's signed cookie; a new one if there is no cookie."""
    network: str
    """The /24 or /64 of the address, for rate limits. It must never be stored; a pseudonym whose key expires may be."""
    account: Account | None = None
    scopes: frozenset[str] | None = None
    """The scopes of the API key; None for a person at a browser, who may do all that the account may."""
    csrf_token: str = ""
    session: str = ""

    @property
    def actor(self) -> str:
        """Return the caller as the audit log names them: `account:ID` or `visitor:ID`."""
        return self.account.actor if self.account else f"visitor:{self.visitor}"

    @property
    def is_admin(self) -> bool:
        may = self.scopes is None or EVERYTHING in self.scopes
        return self.account is not None and self.account.is_admin and may

    def may(self, scope: str) -> bool:
        """Return whether the caller is an account that is allowed to do what `scope` stands for."""
        return self.account is not None and (self.scopes is None or scope in self.scopes)


class SignInError(HTTPException):
    """Raised if a caller must sign in.

    A person at a browser is redirected to the form; a program is told that it needs an API key.
    """

    def __init__(self, request: Request) -> None:
        """Store the address of the sign-in form, which leads back to the page of this request."""
        super().__init__(
            401,
            "sign in, or send an API key (Authorization: Bearer ...)",
            {"www-authenticate": "Bearer"},
        )
        self.address = f"/sign-in?next={quote(request.url.path)}"


_bearer = HTTPBearer(auto_error=False, description="An API key, as `snl_...`")


async def guard(
    request: Request, bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> None:
    """Find out who sends a request, and refuse forged changes.

    This runs before the code of any route. A request that changes something must come from a page
    of this server, unless it has an API key: otherwise a page of another site could make the
    browser of a signed-in person send it.
    """
    services = services_of(request)
    caller = await _caller(request, services, bearer.credentials if bearer else None)
    request.state.caller = caller
    if request.method not in SAFE and caller.scopes is None:
        await _check_origin(request, services)
        await _check_token(request, services, caller)


# Dependencies are asynchronous, because FastAPI would run others in a thread, which takes longer than their work.


def services_of(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


def caller_of(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


async def account_of(request: Request) -> Account:
    """Return the account of the caller. Refuses (401) a caller who is not signed in."""
    caller = caller_of(request)
    if caller.account is None:
        raise SignInError(request)
    return caller.account


async def person_of(request: Request) -> Account:
    """Return the account of a person at a browser, for what no key may do, such as making keys."""
    account = await account_of(request)
    if caller_of(request).scopes is not None:
        raise HTTPException(403, "sign in to do this; an API key is not accepted")
    return account


async def admin_of(request: Request) -> Account:
    """Return the account of an administrator; refuses all others (401 or 403)."""
    account = await account_of(request)
    if not caller_of(request).is_admin:
        raise HTTPException(403, "only administrators may do this")
    return account


async def _services(request: Request) -> Services:
    return services_of(request)


async def _a_caller(request: Request) -> Caller:
    return caller_of(request)


ServicesDep = Annotated[Services, Depends(_services)]
CallerDep = Annotated[Caller, Depends(_a_caller)]
AccountDep = Annotated[Account, Depends(account_of)]
PersonDep = Annotated[Account, Depends(person_of)]
AdminDep = Annotated[Account, Depends(admin_of)]


class Scope:
    """A dependency of routes that returns the account of the caller.

    An API key is refused (403) unless it has the scope `name`.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    async def __call__(self, request: Request) -> Account:
        """Return the caller's account; refuses (403) an API key without this scope."""
        account = await account_of(request)
        if not caller_of(request).may(self.name):
            raise HTTPException(
                403,
                f"this key does not allow {self.name}; create one that does on your account page",
            )
        return account


class Limited:
    """A dependency of routes that refuses callers who send too many requests (429).

    `name` is the name of a declared RateLimit.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    async def __call__(self, request: Request) -> None:
        """Refuse the request (429) if the account or visitor, or their network, has sent too many."""
        services = services_of(request)
        caller = caller_of(request)
        visitor = caller.account.id if caller.account else caller.visitor
        refuse_too_many(services, self.name, visitor, caller.network)


def refuse_too_many(services: Services, limit: str, visitor: str, network: str) -> None:
    """Count a request under a rate limit, or refuse it (429) if there were too many before.

    Args:
        services: The services of the server.
        limit: Name of the declared limit.
        visitor: Who sends the request, such as the id of an account.
        network: The network that it comes from.
    """
    seconds = services.wait_seconds(limit, visitor, network)
    if seconds:
        services.metrics["snellen_refusals"].labels(f"limit {limit}").inc()
        wait = int(seconds) + 1
        raise HTTPException(429, f"too often; {retry_words(wait)}", {"retry-after": str(wait)})


async def _caller(request: Request, services: Services, key: str | None) -> Caller:
    """Return who sends a request.

    The sender is found by the API key, else by the name that a trusted proxy gives, else by the
    session cookie. Without any of these it is a visitor. An invalid API key is refused (401).
    """
    visitor, network = request.state.visitor, request.state.network
    if key is not None:
        key_owner = await services.database.read(key_account, key)
        if key_owner is None:
            raise HTTPException(401, "this API key is not valid", {"www-authenticate": "Bearer"})
        return Caller(visitor, network, key_owner[0], key_owner[1])
    if request.state.identity:
        identified = await identified_account(services, request.state.identity)
        csrf_token = services.signer.signature("csrf", f"visitor {visitor}")
        return Caller(visitor, network, identified, None, csrf_token)
    token = request.cookies.get(services.session_cookie, "")
    account = await services.database.read(session_account, token) if token else None
    bound_to = f"session {token}" if account else f"visitor {visitor}"
    return Caller(
        visitor,
        network,
        account,
        None,
        services.signer.signature("csrf", bound_to),
        token if account else "",
    )


async def _check_origin(request: Request, services: Services) -> None:
    """Refuse a request (403) that the browser sent from a page of another site (cross-site request forgery)."""
    origin = request.headers.get("origin")
    is_foreign = False
    if origin is not None:
        is_foreign = urlsplit(origin).hostname not in services.configuration.all_hosts
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        is_foreign = True
    if is_foreign:
        services.metrics["snellen_refusals"].labels("origin").inc()
        raise HTTPException(403, "this request came from a page of another site")


async def _check_token(request: Request, services: Services, caller: Caller) -> None:
    """Refuse (403) a request without the CSRF token of its session, which pages of other sites cannot know.

    The token is in a header or, for forms, in a field.
    """
    token = request.headers.get(CSRF_HEADER)
    if (
        token is None
        and request.headers.get("content-type", "").partition(";")[0].strip().lower() in FORMS
    ):
        field = (await request.form()).get(CSRF_FIELD)
        token = field if isinstance(field, str) else None
    bound_to = f"session {caller.session}" if caller.session else f"visitor {caller.visitor}"
    if token is None or not services.signer.is_valid("csrf", bound_to, token):
        services.metrics["snellen_refusals"].labels("csrf").inc()
        raise HTTPException(
            403,
            "the page has expired or the request came from another site; reload the page and try again",
        )


def cookie(services: Services, name: str, value: str, days: int) -> str:
    """Return a cookie that scripts cannot read and that other sites' forms do not send. Without days it is deleted."""
    secure = "; Secure" if services.configuration.is_secure else ""
    return f"{name}={value}; Path=/; Max-Age={days * 86400}; HttpOnly; SameSite=Lax{secure}"
