"""A reader of text, no language model: `ocr:rapidocr` replies with the text that it reads, whatever is asked.

PP-OCR's detector and recogniser (some 30 MB, in the wheel of rapidocr) by onnxruntime, on the CPU and offline. On text
recognition it is the specialist that a general model has to be compared with; on other questions it shows what can
be had from the writing in an image alone. Options `?mode=auto|page|line`, `?score=0.5`, `?threads=0`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from snellen.common.decoding import decode_image
from snellen.common.foreign import TABLE_BYTES, read_file
from snellen.common.images import Images
from snellen.errors import DataError, MissingExtraError, ModelError
from snellen.models.base import ShownByName, failed
from snellen.models.model_strings import ModelSpec
from snellen.models.options import read_options
from snellen.records import Request, RequestKind, Response
from snellen.registry import unknown_name

ADAPTER = "ocr-1"
ENGINES = ("rapidocr",)
PACKAGES = ("rapidocr", "onnxruntime", "numpy")
LONGEST_SIDE = 2000
"""Pixels to which a larger image is reduced; the engine does so in any case."""
STEPS = ("det", "cls", "rec")
"""Finds lines of text, turns them upright, reads them: each has weights of its own."""
WHATEVER = "the text recognised in the image, whatever the question"
ONLY_TEXT = (
    "this model only recognises text: its reply is the text in the image, whatever the question"
)


class OcrOptions(Struct, frozen=True):
    """What may follow `?` in an ocr: model string."""

    mode: Literal["auto", "page", "line"] = "auto"
    """`page` finds the lines of text in an image, `line` takes the image for one; `auto` does so where `page` finds
    nothing, as in tight crops of words."""
    score: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Lines that the recogniser is less sure of are left out."""
    threads: Annotated[int, Meta(ge=0)] = 0
    """Of onnxruntime; 0 for its own choice."""


def open_ocr(spec: ModelSpec) -> OcrModel:
    """Return the reader that `ocr:rapidocr` names.

    Raises MissingExtraError without the extra, UnknownNameError for another engine, ModelError where its weights are
    not in the package (nothing is downloaded).
    """
    if spec.target not in ENGINES:
        raise unknown_name("engine of ocr:", spec.target, ENGINES)
    options = read_options(spec, OcrOptions)
    try:
        import onnxruntime  # noqa: F401  (rapidocr names it only when it reads)
        import rapidocr
    except ImportError as error:
        raise MissingExtraError(error.name or "rapidocr", "ocr", spec.text) from None
    threads = options.threads or -1
    settings: dict[str, Any] = {
        "Global.log_level": "critical",
        # Its own setting enlarges a small image until its shorter side has 736 pixels, which made words some ten times
        # slower to read here, and broke one in two.
        "Det.limit_type": "max",
        "Det.limit_side_len": LONGEST_SIDE,
        "EngineConfig.onnxruntime.intra_op_num_threads": threads,
        "EngineConfig.onnxruntime.inter_op_num_threads": threads,
    }
    folder = Path(rapidocr.__file__).parent / "models"
    weights = {}
    for step in STEPS:
        weights[step] = _weights(folder, step)
        settings[f"{step.capitalize()}.model_path"] = str(weights[step])
    engine = rapidocr.RapidOCR(params=settings)
    return OcrModel(spec, options, engine, weights)


def _weights(folder: Path, step: str) -> Path:
    files = sorted(folder.glob(f"*_{step}_*.onnx"))
    if len(files) != 1:
        raise ModelError(
            f"rapidocr {version('rapidocr')} contains {len(files)} weight files named *_{step}_*.onnx instead of "
            "one; install the version that the extra ocr requires"
        )
    return files[0]


class OcrModel(ShownByName):
    """Reads each image of a request; the lines, in reading order, are joined by blanks."""

    kinds: frozenset[RequestKind] = frozenset({"generate"})
    batch_size = 8

    def __init__(
        self, spec: ModelSpec, options: OcrOptions, engine: Any, weights: dict[str, Path]
    ) -> None:
        self.name = spec.text
        self._options, self._engine, self._weights = options, engine, weights

    def fingerprint(self) -> dict[str, str]:
        facts = {"adapter": ADAPTER}
        for package in PACKAGES:
            facts[package] = version(package)
        for step, path in self._weights.items():
            facts[f"weights {step}"] = hashlib.sha256(read_file(path, TABLE_BYTES)).hexdigest()
        facts["mode"] = self._options.mode
        facts["score"] = str(self._options.score)
        return facts

    def findings(self) -> tuple[str, ...]:
        """Return notes for those who read the numbers of a run."""
        return (ONLY_TEXT,)

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        return [self._answer(request, images) for request in requests]

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> list[Response]:
        """Return a failure for each request: text recognition has no likelihoods."""
        return [
            failed("model", "an ocr: model only recognises text; it cannot score options")
            for _ in requests
        ]

    def _answer(self, request: Request, images: Images) -> Response:
        """Return all text in the images of a request."""
        if not request.images:
            return failed("bad_request", "the request has no image, so there is no text to read")
        texts: list[str] = []
        notes = [WHATEVER]
        for image in request.images:
            try:
                decoded = decode_image(images.read(image), f"image {image.digest[:12]}")
            except (DataError, OSError, MemoryError) as error:
                return failed("bad_request", f"{error}" or type(error).__name__)
            texts += self._lines(decoded.upright)
            notes += decoded.notes
        return Response(text=" ".join(texts), finish="stop", notes=tuple(notes))

    def _lines(self, image: Any) -> list[str]:
        """Return the lines of text in an image that the recogniser is sure enough of, from top to bottom.

        Unless `mode` says otherwise, an image in which no lines are found is read as a single line.
        """
        import numpy

        pixels = numpy.asarray(image)[:, :, ::-1]  # the engine takes blue first
        lines: list[str] = []
        if self._options.mode != "line":
            lines = self._read(pixels, find_lines=True)
        if not lines and self._options.mode != "page":
            lines = self._read(pixels, find_lines=False)
        return lines

    def _read(self, pixels: Any, *, find_lines: bool) -> list[str]:
        # The engine keeps what it was told last, so each call says everything.
        result = self._engine(
            pixels,
            use_det=find_lines,
            use_cls=find_lines,
            use_rec=True,
            text_score=self._options.score,
        )
        pairs = zip(result.txts or (), result.scores or (), strict=True)
        return [
            text.strip() for text, score in pairs if text.strip() and score >= self._options.score
        ]
