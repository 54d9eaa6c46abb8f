"""Any vision-language model that Hugging Face transformers can load: `hf:org/name[@revision]`, `hf:./folder`.

load          the folder or repository, its processor and weights, in one clear line when it fails
conversation  messages to the prompt text that the model was trained on
encode        prompt text and pictures to token ids and tensors; the border before a continuation
collate       rows of unequal length to one batch
plain         the twin of every fast path: full forwards, nothing shared
decoding      batched generation, greedy or sampled by request
model         the adapter that puts these together
"""

from snellen.models.hf.model import open_hf

__all__ = ["open_hf"]
