"""Encode prompt text and images as token ids and tensors.

`tokens` says where a continuation begins.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

from snellen.common.decoding import decode_image
from snellen.common.images import Images
from snellen.models.hf.conversation import ChatPrompt, Clip
from snellen.models.hf.sharing_plan import common_prefix
from snellen.models.hf.tokens import TextTokens, TokenizedText
from snellen.records import ImageRef

Tensors = dict[str, Any]
OTHER_WORDS = "the processor and the tokenizer encode the prompt with different tokens"
LAST = 8
"""Number of tokens at the end of a prompt that identify its end."""
CONTROL_BYTE = re.compile(r"<0x[01][0-9A-F]>")
"""Piece of a SentencePiece vocabulary for a byte that is not text. It is always a single token."""
KEPT_IMAGES = 64
"""Default maximum of cached images (decoded and as pixels), and of expected images."""
PREPARING = max(1, min(4, (os.cpu_count() or 1) // 2))
"""Maximum number of threads that prepare expected images. Decoding and resizing takes tens of milliseconds per image."""
KEPT_CLIPS = 4
"""Maximum number of clips cached as pixels; each has many frames."""
TICKS = 1000
"""Frame rate declared to a processor, per second, so that it knows the time of each frame to the millisecond."""


@dataclass(frozen=True)
class EncodedPrompt:
    """Model inputs of a prompt: token ids, and all other inputs with a batch dimension of 1."""

    ids: tuple[int, ...]
    extras: Tensors
    digests: tuple[str, ...] = ()
    """Digests of the images, then of the clips given as video."""
    notes: tuple[str, ...] = ()
    """Notes on how the prompt was made, to be added to its response."""
    per_token: frozenset[str] = frozenset()
    """Names of the inputs with one entry per token: [1, tokens, ...]."""
    clips: int = 0
    """How many of the digests are digests of clips."""

    @cached_property
    def form(self) -> str:
        """What prompts must have in common to share a batch in which only tokens are padded.

        This is the number of images and clips, and the names, number formats and shapes of all inputs except the ids,
        without the number of rows and of tokens.
        """
        forms = [f"{len(self.digests)} seen"]
        for name, value in sorted(self.extras.items()):
            skipped = 2 if name in self.per_token else 1
            forms.append(f"{name} {_form_of(value, skipped)}")
        return "; ".join(forms)


def _form_of(value: Any, skipped: int) -> str:
    """Return the number format and shape of a tensor as text: `torch.float32 (3, 336, 336)`.

    A list or tuple gives the forms of its items, and any other value the name of its type.

    Args:
        value: One of the model's inputs.
        skipped: How many of the first dimensions to leave out.
    """
    if hasattr(value, "shape"):
        return f"{value.dtype} {tuple(value.shape[skipped:])}"
    if isinstance(value, (list, tuple)):
        parts = ", ".join(_form_of(part, 0) for part in value)
        return f"{type(value).__name__} ({parts})"
    return type(value).__name__


@dataclass(frozen=True)
class Visuals:
    """The decoded images and clips of a prompt."""

    images: Sequence[Any] = ()
    clips: Sequence[Sequence[Any]] = ()
    times: Sequence[Sequence[float]] = ()
    """For each clip, the times of its frames in seconds, ascending."""

    @property
    def are_empty(self) -> bool:
        return not self.images and not self.clips

    def copies(self) -> Visuals:
        """Return the same with copies of all images."""
        images = [image.copy() for image in self.images]
        clips = []
        for clip in self.clips:
            clips.append([frame.copy() for frame in clip])
        return Visuals(images, clips, self.times)

    def inputs(self) -> dict[str, Any]:
        """Return the arguments for a processor. It must not sample frames, because the benchmark has chosen them."""
        arguments: dict[str, Any] = {"images": list(self.images) or None}
        if self.clips:
            arguments["videos"] = [list(clip) for clip in self.clips]
            arguments["video_metadata"] = [_metadata(times) for times in self.times]
            arguments["do_sample_frames"] = False
        return arguments


def _metadata(times: Sequence[float]) -> dict[str, Any]:
    """Return a processor's metadata of a clip whose frames have these times in seconds.

    The last frame is assumed to last as long as the average of the others.
    """
    frames = len(times)
    mean_frame_duration = (times[-1] - times[0]) / (frames - 1)
    duration = mean_frame_duration * frames
    return {
        "fps": TICKS,
        "frames_indices": [round(time * TICKS) for time in times],
        "total_num_frames": round(duration * TICKS),
        "duration": duration,
    }


def _clip_digest(clip: Clip) -> str:
    frames = [(frame.digest, frame.time) for frame in clip.frames]
    digest = hashlib.blake2b(repr(frames).encode(), digest_size=16)
    return f"clip {digest.hexdigest()}"


@dataclass(frozen=True)
class ContinuedPrompt:
    """A prompt and its continuations. `tails[i]` are the tokens scored for continuation i."""

    context: EncodedPrompt
    tails: tuple[tuple[int, ...], ...]


def as_long_as(extras: Tensors, length: int) -> frozenset[str]:
    """Return the names of the inputs that have one entry for each of `length` tokens: of shape [1, length, ...]."""
    names = []
    for name, value in extras.items():
        shape = tuple(getattr(value, "shape", ()))
        if shape[:2] == (1, length):
            names.append(name)
    return frozenset(names)


@dataclass(frozen=True)
class Pixels:
    """The output of an image processor for one image, and the arguments that it was called with."""

    depth: int
    settings: Tensors
    features: Any


class PixelCache:
    """Wraps an image processor, or a video processor, and caches its output for each image or clip.

    A processor computes pixels once per prompt, even if 20 prompts show the same image.
    """

    def __init__(self, processor: Any, keep: int, names: dict[int, str]) -> None:
        """`names` are the digests of decoded images by their `id`, for as long as the caller keeps the images."""
        self._processor = processor
        self._cached: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._names = names
        self._keep = keep
        self._call: tuple[int, dict[str, Any]] | None = None
        """Nesting depth and settings of the last call with a single image."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)

    @property
    def is_known(self) -> bool:
        """Whether the processor is from transformers, so that it keeps no state between calls."""
        return type(self._processor).__module__.startswith("transformers.")

    def __call__(self, images: Any = None, *args: Any, **settings: Any) -> Any:
        """Return the processor's output for `images`, cached if all of them have a digest."""
        digests = self._digests_of(images)
        if args or digests is None:
            return self._processor(images, *args, **settings)
        depth = _depth_of_one(digests)
        if depth is not None:
            self._call = depth, settings
        key = _pixel_key(digests, settings)
        if key not in self._cached:
            self._keep_pixels(key, self._processor(images, **settings))
        self._cached.move_to_end(key)
        features = self._cached[key]
        if not isinstance(features, Mapping):  # Idefics' processor returns a tensor
            return features
        # A copy, because some processors take entries out of the mapping.
        mapping_type: Any = type(features)
        return mapping_type(dict(features))

    def tiles(self, image: Any) -> list[Any]:
        """Return the processor's pixels of an image: arrays of channels x height x width, one for each tile.

        The result is empty if the output is neither pixels, tiles nor patches in the order of Qwen2-VL.
        """
        if self._processor is None:
            return []
        features: Any = self._processor([image], return_tensors="pt")
        if "pixel_values" not in features:
            return []
        pixels = features["pixel_values"].float().numpy()
        if pixels.ndim >= 4 and pixels.shape[-3] == 3:
            return list(pixels.reshape(-1, *pixels.shape[-3:]))
        grid = features.get("image_grid_thw")
        if grid is None:
            return []
        return [_image_of_patches(pixels, grid[0].tolist(), self._processor)]

    def compute(self, image: Any) -> Pixels | None:
        """Return the pixels of a single image, passed like the last single image; None before there was one.

        This changes no state, so another thread may call it.
        """
        if self._call is None:
            return None
        depth, settings = self._call
        features = self._processor(_nested(image, depth), **settings)
        return Pixels(depth, settings, features)

    def keep(self, digest: str, pixels: Pixels) -> None:
        """Cache the result of `compute` for the image with this digest."""
        digests = _nested(digest, pixels.depth, tuple)
        self._keep_pixels(_pixel_key(digests, pixels.settings), pixels.features)

    def _keep_pixels(self, key: tuple[Any, ...], features: Any) -> None:
        self._cached[key] = features
        while len(self._cached) > self._keep:
            self._cached.popitem(last=False)

    def _digests_of(self, images: Any) -> Any:
        """Return the digests of images in the same nested lists as the images; None if an image is unknown."""
        if isinstance(images, (list, tuple)):
            digests = tuple(self._digests_of(image) for image in images)
            return None if None in digests else digests
        return self._names.get(id(images))


def _pixel_key(digests: Any, settings: Tensors) -> tuple[Any, ...]:
    """Return a hashable key for images, by their digests, and a processor's settings."""
    settings_by_name = sorted(settings.items(), key=lambda item: item[0])
    return (digests, repr(settings_by_name))


def _depth_of_one(digests: Any) -> int | None:
    """Return in how many tuples a single digest is nested; None for several digests."""
    depth = 0
    while isinstance(digests, tuple):
        if len(digests) != 1:
            return None
        depth += 1
        digests = digests[0]
    return depth


def _nested(
    value: Any, depth: int, container: type[list[Any]] | type[tuple[Any, ...]] = list
) -> Any:
    """Return `value` inside `depth` lists (or tuples) of one element."""
    for _ in range(depth):
        value = container([value])
    return value


class Encoder:
    """Turns prompts into model inputs with one processor.

    Args:
        processor: The processor.
        inputs: Names of the model's inputs; other outputs of the processor are dropped. None keeps all.
        closes: Whether a prompt keeps its closing token, as the text of an encoder does.
        tokens: Tokenises text; None for the processor's tokenizer with its special tokens.
        keep: Maximum number of cached images, and of expected images.
    """

    def __init__(
        self,
        processor: Any,
        inputs: frozenset[str] | None = None,
        closes: bool = False,
        tokens: TextTokens | None = None,
        keep: int = KEPT_IMAGES,
    ) -> None:
        self._closes, self._keep = closes, keep
        self._processor = processor
        self._named = inputs
        for name in inputs or ():
            # What a processor makes on demand alone, such as the kinds of tokens (Cosmos 3), is asked for.
            if getattr(processor, f"return_{name}", None) is False:
                setattr(processor, f"return_{name}", True)
        self._per_token: dict[frozenset[str], frozenset[str]] = {}
        self.tokenizer = getattr(processor, "tokenizer", processor)
        self.tokens = tokens or TextTokens(self.tokenizer)
        self._names: dict[int, str] = {}
        self._pixels = PixelCache(processor.image_processor, keep, self._names)
        processor.image_processor = self._pixels
        if getattr(processor, "video_processor", None) is not None:
            processor.video_processor = PixelCache(
                processor.video_processor, KEPT_CLIPS, self._names
            )
        self._decoded: OrderedDict[str, tuple[Any, tuple[str, ...]]] = OrderedDict()
        self._lookahead = Lookahead(self._prepared, keep, PREPARING)
        self._placeholder = str(getattr(processor, "image_token", None) or "<image>")
        self._reserved = frozenset(
            (
                *getattr(self.tokenizer, "all_special_ids", ()),
                *getattr(self.tokenizer, "added_tokens_decoder", ()),
            )
        )
        """Tokens that represent something other than text."""
        self._lists_text = False
        """Whether a text without images is passed in a list."""

    def encode(self, prompt: ChatPrompt, images: Images) -> EncodedPrompt:
        """Return a prompt as tensors. Raises ValueError if the processor rejects it."""
        visuals, notes = self._visuals(prompt, images)
        ids, extras = self._process(visuals, prompt.text)
        spelled = self.tokens.spell(prompt.text)
        if visuals.are_empty and not self._has_all_text(prompt, spelled, ids):
            # IDEFICS-1's processor takes a text alone for a list of characters, whose blanks it strips.
            self._lists_text = True
            ids, extras = self._process(visuals, prompt.text)
        if not self._has_all_text(prompt, spelled, ids):
            raise ValueError(OTHER_WORDS)
        image_digests = [image.digest for image in prompt.images]
        clip_digests = [_clip_digest(clip) for clip in prompt.clips]
        encoded = EncodedPrompt(
            ids=ids,
            extras=extras,
            digests=(*image_digests, *clip_digests),
            notes=notes,
            per_token=self._entries_per_token(visuals, prompt.text, len(ids), extras),
            clips=len(prompt.clips),
        )
        # "[SEP]" or "</s>" would end the text; some processors omit it, some do not.
        closing = spelled.closing
        is_closed = closing and ids[-closing:] == spelled.ids[-closing:]
        if is_closed and not self._closes:
            return truncate(encoded, len(ids) - closing)
        return encoded

    def _has_all_text(self, prompt: ChatPrompt, spelled: TokenizedText, ids: Sequence[int]) -> bool:
        """Return whether the processor kept all text of a prompt: its tokens occur in `ids` in order.

        Tokens that represent something other than text are ignored. In a prompt with images, only text after the last
        image is checked, if the placeholder of images is known. The text of an encoder is not checked, because it may
        be changed on purpose: Florence-2's processor spells tasks out.
        """
        if self._closes or prompt.clips:
            return True
        start = 0
        if prompt.images:
            if self._named is None:  # foreign code may write images in any way
                return True
            before, placeholder, _ = prompt.text.rpartition(self._placeholder)
            start = len(before) + len(placeholder)
        reserved = self._reserved
        remaining = iter(ids)
        for token, end in zip(spelled.ids, spelled.ends, strict=True):
            if token in reserved or (self.tokens.aligned and end <= start):
                continue
            if token not in remaining:  # `in` consumes the iterator up to the token
                return False
        return True

    def repeats(self, prompt: ChatPrompt, images: Images) -> bool:
        """Return whether the model's processor gives the same output for the same prompt and images twice.

        It does not if it crops or flips images at random; then replies depend on chance.
        """
        visuals, _ = self._visuals(prompt, images)
        first_ids, first_extras = self._process(visuals.copies(), prompt.text)
        second_ids, second_extras = self._process(visuals.copies(), prompt.text)
        return first_ids == second_ids and _alike(first_extras, second_extras)

    def _visuals(self, prompt: ChatPrompt, images: Images) -> tuple[Visuals, tuple[str, ...]]:
        """Return the decoded images and clips of a prompt, and notes on the prompt and on how images were converted."""
        notes = dict.fromkeys(prompt.notes)

        def decode(image: ImageRef) -> Any:
            decoded, image_notes = self._decode(image, images)
            notes.update(dict.fromkeys(image_notes))
            return decoded

        decoded_images = [decode(image) for image in prompt.images]
        decoded_clips = []
        for clip in prompt.clips:
            decoded_clips.append([decode(frame) for frame in clip.frames])
        times = [clip.times for clip in prompt.clips]
        return Visuals(decoded_images, decoded_clips, times), tuple(notes)

    def continue_with(
        self, prompt: ChatPrompt, encoded: EncodedPrompt, continuations: Sequence[str]
    ) -> ContinuedPrompt:
        """Return the shared context and the scored tokens of each continuation. Raises ValueError without continuations.

        `encoded` is `prompt` as tensors. The prompt's last tokens may change when a continuation follows it.
        """
        split = self.tokens.split(prompt, continuations)
        # Keep the tokens that the prompt has in common with the texts, and replace the others.
        shared_length = common_prefix(split.prompt, split.context)
        dropped = len(split.prompt) - shared_length
        # Compare at least the last token: a processor may have added tokens of its own.
        compared = max(dropped, 1)
        if encoded.ids[-compared:] != split.prompt[-compared:]:
            if not self._marks_reply(encoded.ids, split.prompt):
                raise ValueError(
                    "the processor and the tokenizer end the prompt with different tokens"
                )
            return ContinuedPrompt(encoded, self.tokens.alone(prompt, continuations))
        shared = truncate(encoded, len(encoded.ids) - dropped)
        context = extend(shared, split.context[shared_length:], 0)
        return ContinuedPrompt(context, split.tails)

    def _marks_reply(self, ids: Sequence[int], prompt_ids: Sequence[int]) -> bool:
        """Return whether the processor adds a control token after the prompt, as Fuyu's and Chameleon's do.

        Then no part of a reply merges with the last word of the prompt. Fuyu's token is the piece of a control byte,
        which its tokenizer does not list as special.
        """
        added = ids[-1]
        is_special = added in self.tokenizer.all_special_ids
        if not is_special:
            is_special = added in getattr(self.tokenizer, "added_tokens_decoder", {})
        if not is_special:
            piece = str(self.tokenizer.convert_ids_to_tokens(added))
            is_special = CONTROL_BYTE.fullmatch(piece) is not None
        prompt_end = tuple(prompt_ids[-LAST:])
        before_added = tuple(ids[-len(prompt_end) - 1 : -1])
        return is_special and before_added == prompt_end

    def reply_with(self, encoded: EncodedPrompt, continuations: Sequence[str]) -> ContinuedPrompt:
        """Return context and scored tokens for an encoder-decoder, whose decoder scores continuations from their start."""
        return ContinuedPrompt(encoded, self.tokens.of_texts(continuations))

    def _process(self, visuals: Visuals, text: str) -> tuple[tuple[int, ...], Tensors]:
        """Return token ids and all other model inputs from the processor."""
        # Otherwise the processor's own default: Florence-2's adds the tokens around a question itself.
        settings: dict[str, bool] = {}
        if not self.tokens.adds_specials(text):
            settings["add_special_tokens"] = False
        given = [text] if self._lists_text and visuals.are_empty else text
        inputs = self._processor(**visuals.inputs(), text=given, return_tensors="pt", **settings)
        ids = tuple(inputs.pop("input_ids")[0].tolist())
        extras: Tensors = {}
        for name in inputs:
            if name in ("attention_mask", "labels"):
                continue
            if self._named is None or name in self._named:
                extras[name] = inputs[name]
        return ids, extras

    def _entries_per_token(
        self, visuals: Visuals, text: str, length: int, extras: Tensors
    ) -> frozenset[str]:
        """Return the names of the inputs with one entry per token: as long as the ids, also for a longer text."""
        names = frozenset(extras)
        if names not in self._per_token:
            per_token = as_long_as(extras, length)
            longer_ids, longer_extras = self._process(visuals, f"{text} one two three")
            if len(longer_ids) != length:
                per_token &= as_long_as(longer_extras, len(longer_ids))
            self._per_token[names] = per_token
        return self._per_token[names]

    def _decode(self, image: ImageRef, images: Images) -> tuple[Any, tuple[str, ...]]:
        """Return an image as the model sees it, with notes on its conversion. Recent images are cached."""
        digest = image.digest
        if digest not in self._decoded:
            prepared = self._lookahead.take(image)
            if prepared is None:
                prepared = _decoded(image, images, None)
            decoded, notes, pixels = prepared
            self._decoded[digest] = decoded, notes
            self._names[id(decoded)] = digest
            if pixels is not None:
                self._pixels.keep(digest, pixels)
            while len(self._decoded) > self._keep:
                _, (oldest, _) = self._decoded.popitem(last=False)
                del self._names[id(oldest)]
        self._decoded.move_to_end(digest)
        return self._decoded[digest]

    def expect(self, expected: Sequence[ImageRef], images: Images) -> None:
        """Prepare images in the background that will be encoded soon."""
        for image in expected:
            if image.digest not in self._decoded:
                self._lookahead.expect(image, images)

    def _prepared(
        self, image: ImageRef, images: Images
    ) -> tuple[Any, tuple[str, ...], Pixels | None]:
        """Return the decoded image for `_decode`, in another thread. Code of unknown origin is not run there."""
        return _decoded(image, images, self._pixels if self._pixels.is_known else None)

    def seen_pixels(self, image: Any) -> list[Any]:
        """Return an image as the image processor passes it to the model: one array per tile, as `PixelCache.tiles`."""
        return self._pixels.tiles(image)


def _decoded(
    image: ImageRef, images: Images, pixels: PixelCache | None
) -> tuple[Any, tuple[str, ...], Pixels | None]:
    """Read an image from the store and decode it.

    Args:
        image: Which image.
        images: The store of images.
        pixels: Runs the model's image processor on an image; None if it runs later.

    Returns:
        The image, upright; notes on its conversion; and the output of the image processor, or None.
    """
    decoded = decode_image(images.read(image), f"image {image.digest[:12]}")
    processed = None if pixels is None else pixels.compute(decoded.upright)
    return decoded.upright, decoded.notes, processed


def _image_of_patches(pixels: Any, grid: Sequence[int], processor: Any) -> Any:
    """Return the image [channels, height, width] from Qwen2-VL's patches.

    Args:
        pixels: One flattened patch per row. Patches are ordered by merged block, then within the block.
        grid: Number of frames, rows and columns of patches.
        processor: The image processor, which has the size of patches and blocks.
    """
    _, rows, columns = grid
    merged = processor.merge_size
    side = processor.patch_size
    block_rows = rows // merged
    block_columns = columns // merged
    # Axes: block row, block column, patch row, patch column, channel, frame, pixel row, pixel column.
    patches = pixels.reshape(block_rows, block_columns, merged, merged, 3, -1, side, side)
    patches = patches[:, :, :, :, :, 0]  # a still image is stored as two equal frames
    image = patches.transpose(4, 0, 2, 5, 1, 3, 6)
    return image.reshape(3, rows * side, columns * side)


def _alike(first: Any, second: Any) -> bool:
    """Return whether two outputs of a processor are equal: tensors, other values, or dictionaries and lists of them."""
    import torch

    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        return first.dtype == second.dtype and torch.equal(first, second)
    if isinstance(first, dict) and isinstance(second, dict):
        if first.keys() != second.keys():
            return False
        return all(_alike(first[name], second[name]) for name in first)
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        if len(first) != len(second):
            return False
        return all(_alike(a, b) for a, b in zip(first, second, strict=True))
    return bool(first == second)


def truncate(encoded: EncodedPrompt, length: int) -> EncodedPrompt:
    """Return the first `length` tokens of a prompt."""
    if length >= len(encoded.ids):
        return encoded
    extras = dict(encoded.extras)
    for name in encoded.per_token:
        extras[name] = extras[name][:, :length]
    return replace(encoded, ids=encoded.ids[:length], extras=extras)


def extend(encoded: EncodedPrompt, ids: Sequence[int], token_type: int) -> EncodedPrompt:
    """Return the prompt with plain-text `ids` appended, which see the same images as the last token.

    Inputs of shape [1, tokens] that label tokens are 0 for text, or `token_type` in `token_type_ids`. Inputs of shape
    [1, tokens, images, ...], which say what each token sees, are repeated.
    """
    if not ids:
        return encoded
    import torch

    extras = dict(encoded.extras)
    for name in encoded.per_token:
        values = extras[name]
        last = values[:, -1:]
        if last.ndim == 2:
            last = last.new_full((1, 1), token_type if name == "token_type_ids" else 0)
        repeated = last.expand(-1, len(ids), *last.shape[2:])
        extras[name] = torch.cat([values, repeated], dim=1)
    return replace(encoded, ids=(*encoded.ids, *ids), extras=extras)


# --- images made ready in threads of their own while the model works on those before them --------------------------


P = TypeVar("P")


class Lookahead(Generic[P]):
    """Prepares up to `most` expected images in threads; beyond that, the earliest expected are dropped.

    Its threads, at most `threads`, end when no images are left to prepare.
    """

    def __init__(
        self, prepare: Callable[[ImageRef, Images], P], most: int, threads: int = 1
    ) -> None:
        self._prepare = prepare
        self._most = most
        self._threads = threads
        self._expected: OrderedDict[str, Future[P]] = OrderedDict()
        """Results by digest of image, in the order in which they were expected."""
        self._queue: deque[tuple[Future[P], ImageRef, Images]] = deque()
        self._lock = threading.Lock()
        self._running_threads = 0

    def expect(self, image: ImageRef, images: Images) -> None:
        """Prepare an image after those that were expected before it."""
        if image.digest in self._expected:
            return
        result: Future[P] = Future()
        self._expected[image.digest] = result
        while len(self._expected) > self._most:
            _, oldest = self._expected.popitem(last=False)
            oldest.cancel()
        with self._lock:
            self._queue.append((result, image, images))
            starts_thread = self._running_threads < self._threads
            if starts_thread:
                self._running_threads += 1
        if starts_thread:
            threading.Thread(target=self._work, name="snellen-images", daemon=True).start()

    def _work(self) -> None:
        """Prepare images from the queue until it is empty. This runs in a thread."""
        while True:
            with self._lock:
                if not self._queue:
                    self._running_threads -= 1
                    return
                result, image, images = self._queue.popleft()
            if result.set_running_or_notify_cancel():
                try:
                    result.set_result(self._prepare(image, images))
                except BaseException as error:  # for `take`
                    result.set_exception(error)

    def take(self, image: ImageRef) -> P | None:
        """Return a prepared image, once. None if preparing it was not started or failed.

        Then the caller prepares the image itself, and gets the error.
        """
        result = self._expected.pop(image.digest, None)
        if result is None or result.cancel() or result.exception() is not None:
            return None
        return result.result()
