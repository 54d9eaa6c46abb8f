"""What pages that open offline share: a policy that allows their own style and script and nothing else."""

from __future__ import annotations

import base64
import hashlib
import json


def _policy(style: str, script: str) -> str:
    """The content security policy of a page with this one style and this one script, or none: nothing is requested."""
    scripts = f"script-src '{_digest(script)}'; " if script else ""
    return (
        f"default-src 'none'; {scripts}style-src '{_digest(style)}'; img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def page_head(title: str, style: str, script: str) -> str:
    """The `<head>` of such a page; `title` is escaped already."""
    return (
        '<head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{style}</style></head>"
    )


def embedded_json(name: str, content: object) -> str:
    """A JSON element of a page. Its text cannot end the element that it stands in."""
    text = json.dumps(content).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return f'<script type="application/json" id="{name}">{text}</script>'


def data_uri(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"
