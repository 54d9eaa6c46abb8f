"""What places say of themselves today, without fetching them: whether they are there, have moved, or have changed."""

from __future__ import annotations

import http
import http.client
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from typing import IO, TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen import __version__
from snellen.catalogue import BenchmarkSpec
from snellen.catalogue.lock import KnownDataset, KnownFile, Lock
from snellen.catalogue.places import ByHandPlace, HubPlace, SourceFile, UrlPlace, fits
from snellen.errors import DataError, MissingExtraError
from snellen.fetching.attendance import is_offline
from snellen.fetching.download import PlaceError, check_kind, ssl_context, unreached
from snellen.fetching.sources import source_places
from snellen.progress_bars import import_tqdm

if TYPE_CHECKING:
    from huggingface_hub.hf_api import DatasetInfo

PATIENCE = 30.0
"""Seconds that a server may take for its answer."""
AT_ONCE = 8
State = Literal["fine", "moved", "gated", "changed", "vanished", "cannot be reached"]
_NO_HEAD = (http.HTTPStatus.FORBIDDEN, http.HTTPStatus.METHOD_NOT_ALLOWED, http.HTTPStatus.NOT_IMPLEMENTED)
"""Where one byte is asked for instead; addresses that are signed for GET forbid HEAD."""


class PlaceLook(Struct, frozen=True):
    """What one place says."""

    state: State
    told: str = ""
    """What was found, in words."""
    known: KnownFile | KnownDataset | None = None
    """What the lock should say of it from now on; None where that stays as it is."""


class Address(Struct, frozen=True):
    """An address of a file, or of a page on which people find it, and what is known of what is there."""

    url: str
    known: KnownFile | None
    """None for a page."""
    is_mirror: bool = False

    @property
    def name(self) -> str:
        return self.url

    def look(self) -> PlaceLook:
        return _look_at_address(self)


class Dataset(Struct, frozen=True):
    """A dataset of the hub, what is known of it, and the patterns of the files that benchmarks read."""

    repo: str
    known: KnownDataset
    revision: str = ""
    patterns: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.repo}{f'@{self.revision}' if self.revision else ''}"

    def look(self) -> PlaceLook:
        return _look_at_dataset(self)


Seen = Address | Dataset


def look_at_places(specs: Iterable[BenchmarkSpec], known: Lock) -> list[tuple[Seen, tuple[str, ...], PlaceLook]]:
    """Each place of benchmarks once, in the order of the benchmarks, with these and with what it says.

    Raises DataError where the network is forbidden, MissingExtraError where a dataset is among them and the hub's
    client is not installed.
    """
    if is_offline():
        raise DataError("places are looked at over the network, which HF_HUB_OFFLINE forbids")
    places: dict[str, Seen] = {}
    benchmarks: dict[str, dict[str, None]] = {}
    for spec in specs:
        for place in _places(spec, known):
            places[place.name] = _joined(places.get(place.name), place)
            benchmarks.setdefault(place.name, {})[spec.name] = None
    if any(isinstance(place, Dataset) for place in places.values()):
        _import_hub()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        looks = list(pool.map(lambda place: place.look(), places.values()))
    return [(place, tuple(benchmarks[place.name]), look) for place, look in zip(places.values(), looks, strict=True)]


def updated(known: Lock, looks: Iterable[tuple[Seen, PlaceLook]], date: str) -> Lock:
    """The lock with what places say that are as they should be; of others it stays, for somebody to look into."""
    files, hub = dict(known.files), dict(known.hub)
    for place, look in looks:
        if isinstance(look.known, KnownFile) and isinstance(place, Address) and not place.is_mirror:
            files[place.url] = replace(look.known, date=date, rests_on=_reached(look.known.rests_on))
        elif isinstance(look.known, KnownDataset) and isinstance(place, Dataset) and not place.revision:
            hub[place.repo] = replace(look.known, date=date, rests_on=_reached(look.known.rests_on))
    return replace(known, files=files, hub=hub)


def _reached(rests_on: str) -> str:
    return rests_on.replace("not reached", "reached") or "reached"


def _places(spec: BenchmarkSpec, known: Lock) -> Iterable[Seen]:
    for place in source_places(spec):
        match place:
            case UrlPlace():
                for file in place.files:
                    content = known.files.get(file.url) or _said(file)
                    yield Address(file.url, content)
                    yield from (Address(mirror, content, is_mirror=True) for mirror in file.mirrors)
            case HubPlace():
                facts = known.hub.get(place.repo) or KnownDataset()
                yield Dataset(place.repo, facts, place.revision, place.patterns)
            case ByHandPlace():
                yield Address(place.url, None)


def _said(file: SourceFile) -> KnownFile:
    return KnownFile(size=file.size, sha256=file.sha256, md5=file.md5)


def _joined(earlier: Seen | None, place: Seen) -> Seen:
    """One place of what two benchmarks say of it."""
    if isinstance(earlier, Dataset) and isinstance(place, Dataset):
        return replace(earlier, patterns=tuple(dict.fromkeys((*earlier.patterns, *place.patterns))))
    if isinstance(earlier, Address) and isinstance(place, Address) and (earlier.known or earlier.is_mirror):
        return earlier if not earlier.is_mirror else place
    return place


# --- addresses ---------------------------------------------------------------------------------------------------


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Goes on with the same method, and notes whether a server called the other address the lasting one."""

    has_moved = False

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        self.has_moved |= code in (http.HTTPStatus.MOVED_PERMANENTLY, http.HTTPStatus.PERMANENT_REDIRECT)
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None:
            request.method = req.get_method()
        return request


def _look_at_address(address: Address) -> PlaceLook:
    redirects = _Redirects()
    try:
        try:
            final, headers = _asked(address.url, redirects, "HEAD", {})
        except urllib.error.HTTPError as error:
            error.close()
            if error.code not in _NO_HEAD:
                raise
            final, headers = _asked(address.url, redirects, "GET", {"Range": "bytes=0-0"})
        if address.known:
            check_kind(address.url, headers)
    except urllib.error.HTTPError as error:
        error.close()
        return _refused(error.code)
    except PlaceError:
        return PlaceLook("changed", "a page for people stands where data should be")
    except (OSError, http.client.HTTPException) as error:
        return PlaceLook("cannot be reached", str(unreached(address.url, error)))
    size = _size(headers) if address.known else 0
    if address.known and size and address.known.size and size != address.known.size:
        return PlaceLook("changed", f"it has {size:,} bytes, not {address.known.size:,}")
    known = replace(address.known, size=address.known.size or size) if address.known else None
    told = f"{size:,} bytes" if size else ""
    where = final.partition("?")[0]
    if redirects.has_moved:
        return PlaceLook("moved", f"to {where}", known)
    return PlaceLook("fine", ", ".join(filter(None, (told, f"at {where}" if final != address.url else ""))), known)


def _asked(
    url: str, redirects: _Redirects, method: Literal["HEAD", "GET"], more: Mapping[str, str]
) -> tuple[str, Message]:
    """The final address and what a server says of what is there; nothing of that is read. Raises OSError."""
    headers = {"User-Agent": f"snellen/{__version__}", "Accept-Encoding": "identity", **more}
    opener = urllib.request.build_opener(redirects, urllib.request.HTTPSHandler(context=ssl_context()))
    request = urllib.request.Request(url, headers=headers, method=method)  # noqa: S310 (of entries: http or https)
    with opener.open(request, timeout=PATIENCE) as reply:
        return reply.url, reply.headers


def _size(headers: Message) -> int:
    whole = str(headers.get("Content-Range", "")).rpartition("/")[2]
    told = whole or str(headers.get("Content-Length", ""))
    return int(told) if told.isdecimal() else 0


def _refused(code: int) -> PlaceLook:
    match code:
        case 401 | 403:
            return PlaceLook("gated", f"it wants a sign-in ({code})")
        case 404 | 410:
            return PlaceLook("vanished", f"it answers {code}")
        case _:
            return PlaceLook("cannot be reached", f"it answers {code}")


# --- datasets ----------------------------------------------------------------------------------------------------


def _import_hub() -> None:
    import_tqdm()
    try:
        import huggingface_hub  # noqa: F401
    except ImportError:
        raise MissingExtraError("huggingface_hub", "hub", "looking at datasets of the hub") from None


def _look_at_dataset(place: Dataset) -> PlaceLook:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    hub, commit = HfApi(), place.revision or place.known.commit
    try:
        there = hub.dataset_info(place.repo, revision=commit or None, files_metadata=True, timeout=PATIENCE)
        newest = hub.dataset_info(place.repo, timeout=PATIENCE).sha if commit else there.sha
    except GatedRepoError:
        return PlaceLook("gated", "its terms are to be accepted")
    except RevisionNotFoundError:
        return PlaceLook("vanished", f"there is no commit {commit}")
    except RepositoryNotFoundError:
        return PlaceLook("vanished", "there is no such dataset, or it is private")
    except HfHubHTTPError as error:
        return PlaceLook("cannot be reached", " ".join(str(error).split())[:200])
    except Exception as error:  # what a failed connection raises depends on the HTTP library of the hub's client
        return PlaceLook("cannot be reached", " ".join(str(error).split())[:200] or type(error).__name__)
    return _compared(place, there, newest or "")


def _compared(place: Dataset, there: DatasetInfo, newest: str) -> PlaceLook:
    """What the hub says of a dataset beside what is known of it."""
    files = _files_of(place, there)
    if missing := [one for one in place.patterns if not any(fits(name, (one,)) for name in files)]:
        return PlaceLook("vanished", f"it has no file called {', '.join(missing)}")
    changed = [name for name, file in place.known.files.items() if name in files and _differs(file, files[name])]
    if changed and place.known.commit in (there.sha, ""):
        return PlaceLook("changed", f"other bytes than known in {', '.join(changed)}")
    known = replace(
        place.known,
        commit=place.known.commit or newest,
        licence=place.known.licence or _licence(there),
        gated=bool(there.gated),
        files={**place.known.files, **files},
    )
    told = [f"commit {(there.sha or '')[:7]}"]
    if newest and newest != there.sha:
        told.append(f"main is at {newest[:7]}")
    if there.id != place.repo:
        return PlaceLook("moved", ", ".join([f"to {there.id}", *told]), known)
    return PlaceLook("gated" if there.gated else "fine", ", ".join(told), known)


def _files_of(place: Dataset, there: DatasetInfo) -> dict[str, KnownFile]:
    """The files that benchmarks read, with size and SHA-256 where the hub tells it."""
    files = {}
    for file in there.siblings or ():
        if fits(file.rfilename, place.patterns):
            known = place.known.files.get(file.rfilename, KnownFile())
            digest = file.lfs.sha256 if file.lfs else known.sha256
            files[file.rfilename] = replace(known, size=file.size or known.size, sha256=digest)
    return files


def _differs(known: KnownFile, there: KnownFile) -> bool:
    return bool(
        (known.size and there.size and known.size != there.size)
        or (known.sha256 and there.sha256 and known.sha256 != there.sha256)
    )


def _licence(there: DatasetInfo) -> str:
    told: Any = there.card_data.get("license") if there.card_data else ""
    return ", ".join(map(str, told)) if isinstance(told, list) else str(told or "")
