"""Encode the text and the images of prompts as token ids and tensors. `tokens` finds where a continuation begins."""

from __future__ import annotations

import hashlib
import os
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from snellen.common.decoding import decode_image
from snellen.common.images import Images
from snellen.models.hf.conversation import ChatPrompt, Clip
from snellen.models.hf.lookahead import Lookahead
from snellen.models.hf.pixel_cache import PixelCache, Pixels
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
    """The model's inputs for one prompt: token ids, and all other inputs as tensors with a batch dimension of 1."""

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
        """A text that is equal for prompts which can be run in one batch with only their tokens padded.

        It contains the number of images and clips, and the name, number format and shape of each
        input except the token ids. The dimensions for rows and tokens are left out.
        """
        forms = [f"{len(self.digests)} seen"]
        for name, value in sorted(self.extras.items()):
            skipped = 2 if name in self.per_token else 1
            forms.append(f"{name} {_form_of(value, skipped)}")
        return "; ".join(forms)


def _form_of(value: Any, skipped: int) -> str:
    """Return the number format and shape of a tensor as text: `torch.float32 (3, 336, 336)`.

    For a list or tuple, this is done for each of its items. For any other value, the result is the
    name of its type.

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
        """Return these images and clips with a copy of each image, for a processor that may change them."""
        images = [image.copy() for image in self.images]
        clips = []
        for clip in self.clips:
            clips.append([frame.copy() for frame in clip])
        return Visuals(images, clips, self.times)

    def inputs(self) -> dict[str, Any]:
        """Return the images and clips as arguments for a processor.

        The processor is told not to choose frames of a clip, because the benchmark has chosen them.
        """
        arguments: dict[str, Any] = {"images": list(self.images) or None}
        if self.clips:
            arguments["videos"] = [list(clip) for clip in self.clips]
            arguments["video_metadata"] = [_metadata(times) for times in self.times]
            arguments["do_sample_frames"] = False
        return arguments


def _metadata(times: Sequence[float]) -> dict[str, Any]:
    """Return the metadata of a clip in the format of a processor, given the times of its frames in seconds.

    The last frame is assumed to last as long as the others do on average.
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
    """Return the names of the inputs that have one entry per token: those of shape [1, `length`, ...]."""
    names = []
    for name, value in extras.items():
        shape = tuple(getattr(value, "shape", ()))
        if shape[:2] == (1, length):
            names.append(name)
    return frozenset(names)


class Encoder:
    """Makes model inputs from prompts, with one processor.

    Args:
        processor: The processor.
        inputs: Names of the model's inputs. Other outputs of the processor are dropped; with None,
            all are kept.
        closes: Whether the closing token at the end of a prompt is kept, as for the text of an
            encoder.
        tokens: Tokenises text. With None, the processor's tokenizer is used, and adds its special
            tokens.
        keep: Maximum number of cached images, and of images that are being prepared.
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
            # Some processors make an input only on demand, such as the types of tokens (Cosmos 3). Demand it.
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
            # Without images, IDEFICS-1's processor reads a text as a list of characters, and strips the spaces.
            # So the text is passed in a list.
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
        """Return whether the processor kept all text of a prompt: its tokens occur in `ids` in the same order.

        Special tokens are ignored. In a prompt with images, only the text after the last image is
        checked, and nothing if the processor is foreign code, which may write images in any way.
        Nothing is checked in a prompt with clips, nor in the text of an encoder, which a processor
        may change on purpose: Florence-2's replaces the name of a task by a sentence.

        Args:
            prompt: The prompt.
            spelled: Its tokens, made by the tokenizer alone.
            ids: The token ids that the processor made.
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
        """Return whether the processor makes the same inputs when it encodes the same prompt twice.

        It does not if it crops or flips images at random. Replies then cannot be repeated.
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
        """Return a prompt as tensors with the token ids of each continuation.

        The last tokens of the prompt may be different when a continuation follows. They are
        replaced.

        Args:
            prompt: The prompt.
            encoded: The same prompt as tensors.
            continuations: Texts of the continuations.

        Raises:
            ValueError: There are no continuations, or one has no tokens, or the processor ends the
                prompt with other tokens than the tokenizer.
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
        context = extend(shared, split.context[shared_length:])
        return ContinuedPrompt(context, split.tails)

    def _marks_reply(self, ids: Sequence[int], prompt_ids: Sequence[int]) -> bool:
        """Return whether the processor adds a control token after the prompt, as those of Fuyu and Chameleon do.

        After such a token, the first word of a reply cannot be joined with the last word of the
        prompt. Fuyu's token is that of a control byte, which its tokenizer does not list as
        special.
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
        """Return a prompt with the token ids of each continuation, for an encoder-decoder model.

        Its decoder reads a continuation from the start, with no prompt before it.
        """
        return ContinuedPrompt(encoded, self.tokens.of_texts(continuations))

    def _process(self, visuals: Visuals, text: str) -> tuple[tuple[int, ...], Tensors]:
        """Return token ids and all other model inputs from the processor."""
        # Otherwise the processor's own default: Florence-2's adds the tokens around a question itself.
        settings: dict[str, bool] = {}
        if not self.tokens.adds_specials(text):
            settings["add_special_tokens"] = False
        given = [text] if self._lists_text and visuals.are_empty else text
        try:
            inputs = self._processor(
                **visuals.inputs(), text=given, return_tensors="pt", **settings
            )
        except (ValueError, ZeroDivisionError) as error:
            if not visuals.images:
                raise
            sizes = ", ".join(f"{image.width} x {image.height}" for image in visuals.images)
            raise ValueError(f"{error} (images of {sizes} pixels)") from error
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


def extend(encoded: EncodedPrompt, ids: Sequence[int]) -> EncodedPrompt:
    """Return the prompt with plain-text `ids` appended, which see the same images as the last token.

    Inputs of shape [1, tokens], which label tokens, are 0 for text. Inputs of shape [1, tokens, images, ...], which say
    what each token sees, are repeated.
    """
    if not ids:
        return encoded
    import torch

    extras = dict(encoded.extras)
    for name in encoded.per_token:
        values = extras[name]
        last = values[:, -1:]
        if last.ndim == 2:
            last = last.new_zeros((1, 1))
        repeated = last.expand(-1, len(ids), *last.shape[2:])
        extras[name] = torch.cat([values, repeated], dim=1)
    return replace(encoded, ids=(*encoded.ids, *ids), extras=extras)
