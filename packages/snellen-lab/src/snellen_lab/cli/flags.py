"""Types of flags and arguments that several verbs have."""

from __future__ import annotations

from pathlib import Path

import click

PATH = click.Path(path_type=Path)
"""A file or folder."""
