"""Which questions are about the picture that a row names: by its file's name, and its folder where that decides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath


class PictureNames:
    """The names of the pictures of each sample; suffixes of files do not count."""

    def __init__(self, names: Mapping[str, Iterable[str]]) -> None:
        self._by_sample = {sample: frozenset(map(_parts, own)) for sample, own in names.items() if own}
        self._by_stem: dict[str, dict[str, None]] = defaultdict(dict)
        for sample, own in self._by_sample.items():
            for parts in own:
                self._by_stem[parts[0]][sample] = None

    def samples(self, picture: str) -> list[str]:
        """The samples whose picture has that name; those alone whose folder agrees too, if there are any."""
        told = _parts(picture)
        named = list(self._by_stem.get(told[0], ()))
        same_folder = [sample for sample in named if any(own[:2] == told[:2] for own in self._by_sample[sample])]
        return same_folder or named

    def contradict(self, sample: str, picture: str) -> bool:
        """Whether a sample's pictures are known, and none is called so."""
        own = self._by_sample.get(sample, frozenset())
        return bool(own) and all(parts[0] != _parts(picture)[0] for parts in own)


def _parts(path: str) -> tuple[str, ...]:
    """The stem and the folders of a path, of any system, the innermost first."""
    pure = PurePosixPath(path.replace("\\", "/").casefold())
    return pure.stem, *reversed(pure.parts[:-1])
