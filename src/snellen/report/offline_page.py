"""What pages that open offline share: a policy that allows their own style and script and nothing else."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from msgspec import Struct


class OfflinePage(Struct, frozen=True):
    """The frame of such a page (`templates/offline.html`): its only style, and its only script with what it reads."""

    title: str
    style: str
    script: str = ""
    content_name: str = ""
    """Identifier of the JSON element that the script reads."""
    content: Any = None
    talks: bool = False
    """Whether the script may send to the place that the page is from."""

    @property
    def policy(self) -> str:
        """The content security policy: this style and this script are allowed, and nothing is requested elsewhere."""
        scripts = f"script-src '{_digest(self.script)}'; " if self.script else ""
        connections = "connect-src 'self'; " if self.talks else ""
        return (
            f"default-src 'none'; {scripts}{connections}style-src '{_digest(self.style)}'; img-src data:; "
            "base-uri 'none'; form-action 'none'"
        )


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def data_uri(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"
