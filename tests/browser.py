"""A real browser, offline, driven over its own protocol: pipes instead of a port, so no client library is needed."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]
LONGEST = 60


KEYS = {
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowRight": 39,
}
"""What a browser calls keys that type no letter (virtual key codes of Windows)."""

BROKEN_WORDS = """(() => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), broken = new Set();
    while (walker.nextNode()) {
        const node = walker.currentNode;
        if (!node.parentElement.checkVisibility()) continue;
        if (node.parentElement.closest('svg, .hide, .skip, .entry, .view-page thead')) continue;
        for (const word of node.data.matchAll(/[A-Za-z]{2,}/g)) {
            const range = document.createRange();
            range.setStart(node, word.index);
            range.setEnd(node, word.index + word[0].length);
            if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1) broken.add(word[0]);
        }
    }
    return [...broken];
})()"""
"""Words of which a part stands on another line; replies, which may hold anything, aside."""


LOST_LABELS = """[...document.querySelectorAll('.scroll')].flatMap(box => {
    box.scrollLeft = 500;
    const left = box.getBoundingClientRect().left, rows = [...box.querySelectorAll('tbody tr')];
    return !box.scrollLeft ? [] : rows.filter(row => row.checkVisibility()).filter(row => {
        const labels = [...row.querySelectorAll('th')].filter(label => label.checkVisibility());
        return labels.length != 1 || Math.abs(labels[0].getBoundingClientRect().left - left) > 1;
    }).map(row => row.textContent);
})"""
"""Rows of tables that have lost a label, or show only one of several, once the other columns were scrolled."""


class Page:
    """One page of a running browser."""

    def __init__(self, send: int, receive: int, downloads: Path) -> None:
        self._send, self._receive, self._waiting, self._count = send, receive, b"", 0
        self._events: list[dict[str, Any]] = []
        self._session = ""
        self.complaints: list[str] = []
        """Errors of the page: exceptions, and what the browser refused or logged as an error."""
        self.requested: list[str] = []
        """What the page has asked for: every URL but those of data that it holds itself."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        self._call("Page.setLifecycleEventsEnabled", enabled=True)
        self._call(
            "Browser.setDownloadBehavior",
            behavior="allow",
            downloadPath=str(downloads),
            eventsEnabled=True,
        )

    def open(self, url: str) -> None:
        """Open a page, and wait for the load event of this very document: that of an earlier one may come late."""
        self._events.clear()
        loader = self._call("Page.navigate", url=url)["loaderId"]
        while True:
            event = self._until("Page.lifecycleEvent")
            if (event["name"], event["loaderId"]) == ("load", loader):
                return

    def resize(self, width: int, height: int = 900) -> None:
        """Shows pages as on a screen of that many pixels; one narrower than 600 is a phone's."""
        is_phone = width < 600
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=is_phone,
        )

    def prefer(self, scheme: str) -> None:
        """Shows pages as to somebody who prefers them `light` or `dark`."""
        self._call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def wait_for_load(self, do: Callable[[], object]) -> None:
        """Do what leads to another page, and wait until it is there."""
        self._events.clear()
        do()
        self._until("Page.loadEventFired")

    def run(self, script: str) -> Any:
        """The value of an expression on the page, or of what it promises. An error on the page is one here."""
        answer = self._call(
            "Runtime.evaluate",
            expression=script,
            returnByValue=True,
            userGesture=True,
            awaitPromise=True,
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def photograph(self, place: str) -> bytes:
        """What is to be seen of the page from the first element on that a selector finds, as PNG."""
        self.run(
            f"document.querySelector({json.dumps(place)}).scrollIntoView({{behavior: 'instant'}})"
        )
        # What comes into view is drawn in the frame after.
        frames = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self._call("Runtime.evaluate", expression=frames, awaitPromise=True)
        return base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])

    def screen(self) -> bytes:
        """What is seen of the page now, as PNG."""
        return base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])

    def press(self, *keys: str) -> None:
        for key in keys:
            code = KEYS.get(key, 0)
            text = {"Enter": "\r"}.get(key, "" if code else key)
            for kind in ("keyDown", "keyUp"):
                self._call(
                    "Input.dispatchKeyEvent",
                    type=kind,
                    key=key,
                    text=text,
                    windowsVirtualKeyCode=code,
                )

    def choose_file(self, place: str, file: Path) -> None:
        """Put a file into the field that a selector finds, as its dialogue would."""
        root = self._call("DOM.getDocument")["root"]["nodeId"]
        node = self._call("DOM.querySelector", nodeId=root, selector=place)["nodeId"]
        self._call("DOM.setFileInputFiles", nodeId=node, files=[str(file)])

    def wait_until(self, condition: str) -> None:
        """Wait until an expression on the page is true.

        It is looked at again whenever the document has changed, so that no short state is missed,
        and 20 times a second, since an image that has been loaded changes no document.
        """
        self.run(
            f"""new Promise((done, failed) => {{
                const end = () => (watcher.disconnect(), clearInterval(clock), clearTimeout(limit));
                const look = () => ({condition}) && (end(), done(true));
                const fail = () => (end(), failed(new Error({json.dumps(condition)} + ' does not come true')));
                const watcher = new MutationObserver(look);
                const clock = setInterval(look, 50);
                const limit = setTimeout(fail, {LONGEST * 250});
                watcher.observe(document, {{subtree: true, childList: true, attributes: true, characterData: true}});
                look();
            }})"""
        )

    def download(self, script: str) -> None:
        """Run a script that saves a file, and wait until it lies there."""
        self._events.clear()
        self.run(script)
        while self._until("Browser.downloadProgress")["state"] != "completed":
            pass

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._count += 1
        where = {"sessionId": self._session} if self._session else {}
        os.write(
            self._send,
            json.dumps({"id": self._count, "method": method, "params": params, **where}).encode()
            + b"\0",
        )
        while True:
            message = self._next()
            if message.get("id") == self._count:
                assert "error" not in message, message
                answer: dict[str, Any] = message["result"]
                return answer

    def _until(self, event: str) -> dict[str, Any]:
        """The next event of this kind, which may have come while an answer was waited for."""
        while True:
            while self._events:
                message = self._events.pop(0)
                if message["method"] == event:
                    params: dict[str, Any] = message["params"]
                    return params
            self._next()

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._waiting:
            ready, _, _ = select.select([self._receive], [], [], LONGEST)
            assert ready, f"the browser has said nothing for {LONGEST} seconds"
            part = os.read(self._receive, 1 << 20)
            assert part, "the browser has gone"
            self._waiting += part
        line, _, self._waiting = self._waiting.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if message.get("method") == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            if not url.startswith(("data:", "blob:")):
                self.requested.append(url)
        if message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(message["params"]["exceptionDetails"]))
        if (
            message.get("method") == "Log.entryAdded"
            and message["params"]["entry"]["level"] == "error"
        ):
            self.complaints.append(str(message["params"]["entry"]))
        if "method" in message:
            self._events.append(message)
        return message


@contextmanager
def browsing(folder: Path) -> Iterator[Page]:
    """A page of a browser of its own, which keeps all it has under `folder` and is ended after the block."""
    assert CHROMIUM is not None
    to_browser, from_us = os.pipe()
    to_us, from_browser = os.pipe()

    def wire() -> None:
        # The protocol has it that the browser reads from 3 and writes to 4.
        os.dup2(to_browser, 13)
        os.dup2(from_browser, 14)
        os.dup2(13, 3)
        os.dup2(14, 4)

    words = [CHROMIUM, *QUIET, "--remote-debugging-pipe", f"--user-data-dir={folder / 'profile'}"]
    browser = subprocess.Popen(
        words,
        preexec_fn=wire,
        close_fds=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(to_browser)
    os.close(from_browser)
    try:
        yield Page(from_us, to_us, folder)
    finally:
        # Its helper processes too: one that lives on would write into a profile that is being removed.
        os.killpg(browser.pid, signal.SIGKILL)
        browser.wait()
        os.close(from_us)
        os.close(to_us)
