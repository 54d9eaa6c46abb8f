"""The feature `accounts`: sign-in, invitations, API keys, personal data, pages for administrators."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from pydantic import BaseModel
from sqlalchemy import select

from snellen import DataError
from snellen_server.hosting import accounts, tables
from snellen_server.hosting.accounts import Account, erase_person, export_person, purge
from snellen_server.hosting.callers import (
    EVERYTHING,
    AccountDep,
    AdminDep,
    CallerDep,
    Limited,
    PersonDep,
    ServicesDep,
    cookie,
    refuse_too_many,
)
from snellen_server.hosting.configuration import Configuration
from snellen_server.hosting.credentials import fault_of
from snellen_server.hosting.features import Feature, Job, NavigationEntry, PersonalData
from snellen_server.hosting.limits import RateLimit
from snellen_server.hosting.services import Services

router = APIRouter()
AUDIT_PAGE = 200
SIGN_IN_BY_NAME = "sign in by name"
"""The limit of attempts at one account name."""
Text = Annotated[str, Form(max_length=200)]


# --- signing in and out ------------------------------------------------------------------------------------------


@router.get("/sign-in", include_in_schema=False)
async def sign_in_page(request: Request, services: ServicesDep, next: str = "/") -> HTMLResponse:  # noqa: A002
    return _sign_in_form(request, services, next)


@router.post("/sign-in", include_in_schema=False, dependencies=[Depends(Limited("sign in"))])
async def sign_in(
    request: Request,
    services: ServicesDep,
    name: Text,
    password: Text,
    next: Text = "/",  # noqa: A002
) -> Response:
    """Sign in with a name and a password, and redirect to the address `next`.

    If name or password is wrong, the form is shown again. Attempts to sign in under one name are
    limited (429), from all networks together and whether or not the name exists.
    """
    folded_name = accounts.fold_name(name)
    refuse_too_many(services, SIGN_IN_BY_NAME, folded_name, folded_name)
    credentials = await services.database.read(accounts.find_account, name)
    account, password_hash = credentials or (None, None)
    # Also checked without an account, so that the time of the answer does not tell whether a name exists.
    is_right = await services.passwords.is_right(password, password_hash)
    if account is None or not is_right:
        return _sign_in_form(request, services, next, name, "The name or the password is wrong.")
    return await _signed_in(request, services, account, _local_address(next))


@router.post("/sign-out", include_in_schema=False)
async def sign_out(services: ServicesDep, caller: CallerDep) -> Response:
    await services.database.write(accounts.end_session, caller.session)
    return _signed_out(services)


@router.get(
    "/invitation/{token}", include_in_schema=False, dependencies=[Depends(Limited("sign in"))]
)
async def invitation_page(token: str, request: Request, services: ServicesDep) -> HTMLResponse:
    """Show the form of an invitation: for a new account, or for a new password of an existing one."""
    invitation = await services.database.read(accounts.find_invitation, token)
    return _account_form(
        request, services, invitation.name or "", is_new=invitation.account_id is None
    )


@router.post(
    "/invitation/{token}", include_in_schema=False, dependencies=[Depends(Limited("sign in"))]
)
async def submit_invitation(
    token: str, request: Request, services: ServicesDep, password: Text, name: Text = ""
) -> Response:
    """Accept an invitation with a name and a password, and sign in; a refused one shows the form again."""
    invitation = await services.database.read(accounts.find_invitation, token)
    try:
        hashed = await _hashed(services, password)
        account = await services.database.write(accounts.accept_invitation, token, name, hashed)
    except DataError as error:
        is_new = invitation.account_id is None
        return _account_form(request, services, invitation.name or name, str(error), is_new=is_new)
    return await _signed_in(request, services, account, "/")


@router.get("/register", include_in_schema=False)
async def register_page(request: Request, services: ServicesDep) -> HTMLResponse:
    _require_open_registration(services)
    return _account_form(request, services)


@router.post("/register", include_in_schema=False, dependencies=[Depends(Limited("register"))])
async def submit_registration(
    request: Request, services: ServicesDep, name: Text, password: Text
) -> Response:
    """Create an account without an invitation, on servers that allow it, and sign in."""
    _require_open_registration(services)
    try:
        hashed = await _hashed(services, password)
        account = await services.database.write(accounts.create_account, name, hashed)
    except DataError as error:
        return _account_form(request, services, name, str(error))
    return await _signed_in(request, services, account, "/")


# --- one's own account -------------------------------------------------------------------------------------------


class AccountFacts(BaseModel):
    """The account that an API key or a session belongs to."""

    name: str
    is_admin: bool
    scopes: list[str] | None
    """What the key allows; null for a session, which may do all that the account may."""


class KeyFacts(BaseModel):
    """The description of an API key, without its secret token."""

    id: str
    title: str
    scopes: list[str]
    created: str
    expires: str | None


@router.get("/api/v1/me", tags=["accounts"])
async def who_am_i(account: AccountDep, caller: CallerDep) -> AccountFacts:
    """Return the account that this API key or session belongs to."""
    scopes = None if caller.scopes is None else sorted(caller.scopes)
    return AccountFacts(name=account.name, is_admin=account.is_admin, scopes=scopes)


@router.get("/api/v1/keys", tags=["accounts"])
async def show_keys(account: AccountDep, services: ServicesDep) -> list[KeyFacts]:
    """Return the API keys of this account, without their secret tokens."""
    keys = await services.database.read(accounts.list_keys, account)
    facts = []
    for key in keys:
        expires = key.expires.isoformat() if key.expires else None
        facts.append(
            KeyFacts(
                id=key.id,
                title=key.title,
                scopes=list(key.scopes),
                created=key.created.isoformat(),
                expires=expires,
            )
        )
    return facts


@router.get("/account", include_in_schema=False)
async def account_page(request: Request, account: PersonDep, services: ServicesDep) -> HTMLResponse:
    return await _account_page(request, services, account)


@router.post("/account/keys", include_in_schema=False, dependencies=[Depends(Limited("keys"))])
async def make_key(
    request: Request,
    account: PersonDep,
    services: ServicesDep,
    title: Annotated[str, Form(min_length=1, max_length=100)],
    scopes: Annotated[list[str] | None, Form()] = None,
    days: Annotated[int, Form(ge=0, le=3650)] = 0,
) -> HTMLResponse:
    """Create an API key with the chosen scopes, and show its secret token this one time.

    It is valid for `days` days; 0 means that it does not expire.
    """
    chosen_scopes = scopes or []
    if strangers := set(chosen_scopes) - set(_scopes(services, account)):
        raise DataError(f"there is no scope called {sorted(strangers)[0]!r} for this account")
    token, _ = await services.database.write(
        accounts.create_key, account, title, chosen_scopes, days or None
    )
    return await _account_page(request, services, account, token)


@router.post("/account/keys/{key_id}/delete", include_in_schema=False)
async def submit_key_deletion(key_id: str, account: PersonDep, services: ServicesDep) -> Response:
    await services.database.write(accounts.delete_key, account, key_id)
    return RedirectResponse("/account", 303)


@router.post(
    "/account/password", include_in_schema=False, dependencies=[Depends(Limited("sign in"))]
)
async def change_own_password(
    request: Request,
    account: PersonDep,
    caller: CallerDep,
    services: ServicesDep,
    password: Text,
    new_password: Text,
) -> Response:
    """Change one's password, and end all other sessions."""
    credentials = await services.database.read(accounts.find_account, account.name)
    if credentials is None or not await services.passwords.is_right(password, credentials[1]):
        fault = "The password is wrong; nothing was changed."
        return await _account_page(request, services, account, fault=fault)
    try:
        hashed = await _hashed(services, new_password)
    except DataError as error:
        return await _account_page(request, services, account, fault=f"Not changed: {error}.")
    await services.database.write(accounts.change_password, account, hashed, caller.session)
    return await _account_page(request, services, account, done="Your password was changed.")


@router.post("/account/sign-out-everywhere", include_in_schema=False)
async def sign_out_everywhere(account: PersonDep, services: ServicesDep) -> Response:
    await services.database.write(accounts.end_sessions, account)
    return _signed_out(services)


@router.get("/account/export", include_in_schema=False, dependencies=[Depends(Limited("keys"))])
async def export_account(account: PersonDep, services: ServicesDep) -> JSONResponse:
    """Download all that the server knows about the person who asks."""
    records = await services.database.read(export_person, account.actor)
    return JSONResponse(
        records, headers={"content-disposition": 'attachment; filename="snellen-account.json"'}
    )


@router.post("/account/erase", include_in_schema=False, dependencies=[Depends(Limited("sign in"))])
async def erase_account(
    request: Request, account: PersonDep, services: ServicesDep, password: Text
) -> Response:
    """Erase one's account and data, after the password is given again."""
    credentials = await services.database.read(accounts.find_account, account.name)
    if credentials is None or not await services.passwords.is_right(password, credentials[1]):
        return await _account_page(
            request, services, account, fault="The password is wrong; nothing was erased."
        )
    await services.database.write(erase_person, account.actor, account.actor)
    return _signed_out(services)


# --- administration ----------------------------------------------------------------------------------------------


@router.get("/admin/accounts", include_in_schema=False)
async def accounts_page(request: Request, admin: AdminDep, services: ServicesDep) -> HTMLResponse:
    return await _accounts_page(request, services, admin)


@router.post("/admin/invitations", include_in_schema=False)
async def make_invitation(
    request: Request,
    admin: AdminDep,
    services: ServicesDep,
    is_admin: Annotated[bool, Form()] = False,
    account_id: Annotated[str | None, Form(max_length=24)] = None,
) -> HTMLResponse:
    """Create an invitation and show its link: for a new account, or a new password of the account `account_id`."""
    token = await services.database.write(
        accounts.invite, admin.actor, is_admin=is_admin, account_id=account_id
    )
    return await _accounts_page(
        request, services, admin, invitation_address(services.configuration, token)
    )


@router.post("/admin/accounts/{account_id}/{action}", include_in_schema=False)
async def change_account(
    account_id: str, action: str, admin: AdminDep, services: ServicesDep
) -> Response:
    """Disable or enable another person's account."""
    if action not in ("disable", "enable"):
        raise HTTPException(404, "there is no such action")
    if account_id == admin.id:
        raise HTTPException(422, "you cannot disable your own account; ask another administrator")
    await services.database.write(
        accounts.set_disabled, admin.actor, account_id, is_disabled=action == "disable"
    )
    return RedirectResponse("/admin/accounts", 303)


@router.get("/admin/audit", include_in_schema=False)
async def audit_page(request: Request, admin: AdminDep, services: ServicesDep) -> HTMLResponse:
    """Show the latest entries of the audit log, which records what administrators and accounts did."""
    query = select(tables.audit).order_by(tables.audit.c.id.desc()).limit(AUDIT_PAGE)
    rows = await services.database.read(lambda connection: connection.execute(query).all())
    return services.pages.render(request, "accounts/audit.html", {"rows": rows, "most": AUDIT_PAGE})


def invitation_address(configuration: Configuration, token: str) -> str:
    """Return the complete link of an invitation, to be given to one person."""
    return f"{configuration.public_url.rstrip('/')}/invitation/{token}"


# --- parts -------------------------------------------------------------------------------------------------------


def _sign_in_form(
    request: Request, services: Services, address: str, name: str = "", fault: str = ""
) -> HTMLResponse:
    """Show the form to sign in; with a fault, the status is 403."""
    values = {
        "next": _local_address(address),
        "fault": fault,
        "name": name,
        "is_open": _is_open(services),
        "identity_sign_in": services.configuration.identity_sign_in,
    }
    return services.pages.render(request, "accounts/sign_in.html", values, 403 if fault else 200)


def _account_form(
    request: Request, services: Services, name: str = "", fault: str = "", *, is_new: bool = True
) -> HTMLResponse:
    """Return the page with the form that creates an account or changes its password.

    Args:
        request: The request for the page; the form is sent to the same address.
        services: The server.
        name: Name that the form is filled in with.
        fault: What was wrong with the form as it was sent; the page then has the status 422.
        is_new: Whether the form creates an account.
    """
    values = {"action": request.url.path, "name": name, "is_new": is_new, "fault": fault}
    status = 422 if fault else 200
    return services.pages.render(request, "accounts/register.html", values, status)


def _local_address(address: str) -> str:
    """Return an address of this server unchanged, and "/" in place of any other.

    Otherwise a link to the sign-in form could lead people on to another site.
    """
    is_path = address.startswith("/") and address.isprintable() and "\\" not in address
    return address if is_path and not address.startswith("//") else "/"


def _scopes(services: Services, account: Account) -> dict[str, str]:
    """Return the scopes that an account may give to its API keys, with a description of each."""
    scopes: dict[str, str] = {}
    for feature in services.features:
        scopes.update(feature.scopes)
    if account.is_admin:
        scopes[EVERYTHING] = "all that an administrator may do"
    return scopes


def _is_open(services: Services) -> bool:
    return services.configuration.registration == "open"


def _require_open_registration(services: Services) -> None:
    """Refuse with 404 if accounts are created by invitation only."""
    if not _is_open(services):
        raise HTTPException(
            404, "accounts are created by invitation; ask an administrator for a link"
        )


async def _hashed(services: Services, password: str) -> str:
    """Return the hash of a new password; raises DataError if the password is too weak."""
    if fault := fault_of(password):
        raise DataError(fault)
    return await services.passwords.hash(password)


async def _signed_in(
    request: Request, services: Services, account: Account, address: str
) -> Response:
    """Begin a session of an account, and redirect to an address with the session's cookie.

    An earlier session of the same browser is ended, so that a token that another person set there is useless (session
    fixation).
    """
    earlier_token = request.cookies.get(services.session_cookie, "")
    days = services.configuration.session_days
    token = await services.database.write(
        accounts.begin_session, account, days, replacing=earlier_token
    )
    set_cookie = cookie(services, services.session_cookie, token, days)
    return RedirectResponse(address, 303, {"set-cookie": set_cookie})


def _signed_out(services: Services) -> Response:
    """Go to the front page and delete the session's cookie."""
    return RedirectResponse(
        "/", 303, {"set-cookie": cookie(services, services.session_cookie, "", 0)}
    )


async def _account_page(
    request: Request,
    services: Services,
    account: Account,
    token: str = "",
    fault: str = "",
    done: str = "",
) -> HTMLResponse:
    """Show one's account: its keys, a new key's token (shown once), a fault, or what was done."""
    keys = await services.database.read(accounts.list_keys, account)
    values: dict[str, Any] = {
        "account": account,
        "keys": keys,
        "scopes": _scopes(services, account),
    }
    status = 403 if fault else 200
    return services.pages.render(
        request,
        "accounts/account.html",
        {**values, "token": token, "fault": fault, "done": done},
        status,
    )


async def _accounts_page(
    request: Request, services: Services, admin: Account, link: str = ""
) -> HTMLResponse:
    """Show all accounts to an administrator, with the link of a new invitation, if there is one."""
    account_list = await services.database.read(accounts.list_accounts)
    values = {
        "accounts": account_list,
        "link": link,
        "hours": accounts.INVITATION_HOURS,
        "own": admin.id,
    }
    return services.pages.render(request, "accounts/accounts.html", values)


async def _purge(services: Services) -> None:
    await services.database.write(purge, services.configuration)


def _at_once(configuration: Configuration) -> int:
    return 0


FEATURE = Feature(
    name="accounts",
    title="Accounts",
    router=router,
    package="snellen_server.hosting",
    tables=(
        tables.account,
        tables.session,
        tables.api_key,
        tables.invitation,
        tables.audit,
        tables.job_lease,
    ),
    navigation=(
        NavigationEntry("Accounts", "/admin/accounts", "admins"),
        NavigationEntry("Audit", "/admin/audit", "admins"),
    ),
    jobs=(Job("purge", 6 * 3600, _purge),),
    limits=(
        RateLimit("sign in", "10/minute", "30/minute"),
        RateLimit(SIGN_IN_BY_NAME, "60/hour", "60/hour"),
        RateLimit("register", "3/hour", "20/hour"),
        RateLimit("keys", "20/hour", "100/hour"),
    ),
    personal=(
        PersonalData(
            tables.session,
            "account_id",
            hidden=("digest",),
            time_column="expires",
            keep_days=_at_once,
        ),
        PersonalData(
            tables.invitation,
            "account_id",
            hidden=("digest",),
            time_column="expires",
            keep_days=_at_once,
        ),
        PersonalData(tables.api_key, "account_id", hidden=("digest",)),
        PersonalData(
            tables.audit,
            actor_column="actor",
            on_erasure={"actor": "erased"},
            time_column="at",
            keep_days=attrgetter("keep_days"),
        ),
        PersonalData(tables.account, "id", hidden=("password",)),
    ),
)
