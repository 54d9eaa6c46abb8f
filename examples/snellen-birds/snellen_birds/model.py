"""A model: it looks at the image, and knows four colours and one song. It may be colour-blind."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

from msgspec import Struct
from PIL import Image

from snellen import ContinuationScore, Request, Response
from snellen.plugin_api import ALL_KINDS, Images, ModelSpec, read_options
from snellen_birds.drawing import COLOURS, PIXELS


class WatcherOptions(Struct, frozen=True):
    """What may stand behind the `?` of `birds:watcher?colour_blind=true`."""

    colour_blind: bool = False


class Watcher:
    """Names the option whose colour most of the image is of, of several the first; calls every song a trill."""

    kinds = ALL_KINDS
    batch_size = 64

    def __init__(self, name: str, colour_blind: bool) -> None:
        self.name, self.alike = name, ("red", "green") if colour_blind else ()

    def fingerprint(self) -> dict[str, str]:
        """All that its answers depend on: a run refuses to go on with another watcher."""
        return {"watcher": "1", "alike": " ".join(self.alike)}

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        """The label of the best option, which it reads in the prompt (`(A) red; (B) blue`), or a song."""
        return [Response(text=self._reply(request, images)) for request in requests]

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> list[Response]:
        """For each option's text how likely it is, in nats: the more pixels are of its colour, the likelier."""
        counts = (self._pixels(request, images, request.continuations) for request in requests)
        return [
            Response(scores=tuple(ContinuationScore(float(n - PIXELS), 1) for n in pixels))
            for pixels in counts
        ]

    def _reply(self, request: Request, images: Images) -> str:
        question = [message.text for message in request.messages if message.role == "user"][-1]
        options = re.findall(r"\((\w+)\) (\w+)", question)
        pixels = self._pixels(request, images, [text for _, text in options])
        return f"({options[pixels.index(max(pixels))][0]})" if options else "trill"

    def _pixels(self, request: Request, images: Images, colours: Sequence[str]) -> list[int]:
        with Image.open(io.BytesIO(images.read(request.images[0]))) as picture:
            counts = {
                colour: number for number, colour in picture.convert("RGB").getcolors(PIXELS) or []
            }
        seen = [self.alike if text in self.alike else (text,) for text in colours]
        return [
            sum(counts.get(COLOURS[name], 0) for name in names if name in COLOURS) for names in seen
        ]


def open_watcher(spec: ModelSpec) -> Watcher:
    """`birds:watcher`. Raises ModelError for an option that it does not have."""
    return Watcher(spec.text, read_options(spec, WatcherOptions).colour_blind)
