"""Regular expressions that are compiled when they are first used: a command that reads no reply compiles none."""

from __future__ import annotations

import re
from typing import Any, cast

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "split", "sub", "subn", "groups", "groupindex")


class _LatePattern:
    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Called for what is not there yet: everything, before the first use."""
        if name not in _METHODS:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self._flags)
        vars(self).update({method: getattr(compiled, method) for method in _METHODS})
        return vars(self)[name]


def late_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """What `re.compile` gives, as far as its methods go; `re.error` is raised at the first use."""
    return cast("re.Pattern[str]", _LatePattern(pattern, flags))
