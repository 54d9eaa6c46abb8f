"""Any vision-language model that Hugging Face transformers can load: `hf:org/name[@revision]`, `hf:./folder`.

In reading order:

load                 folder or repository to processor and weights, one clear line when that fails
conversation         messages to the prompt text that the model was trained on
tokens               prompt text in tokens; the boundary before a continuation
prompter             requests as prompts and tokens, for `hf:` and `vllm:`; thoughts in replies
encode               prompt text and images to token ids and tensors
pixel_cache          an image's pixels, computed once for all prompts
lookahead            images of later requests, prepared in threads
model_layout         the parts of an architecture that the fast paths need to know
caches               copies, rows and lengths of a model's cache
cached_forward       rows as one batch; full forward passes, and those that go on from a cache
token_trees          what follows a prefix as a tree in one row of a cache
prefix_sharing       scoring and generation after a shared prefix, by trees or rows
vision_cache         encoders whose outputs are cached
sharing_plan         the ways to run a window, and which of its requests share a prefix
engine               runs a window of requests in one of the ways, halved when memory runs out
prefix_cache         prefixes kept from call to call
reference            one row at a time in float64
tolerance            how far a path may be from the reference, by what rounding does
probe                test prompts, short and long, and what they cost; whether replies are those of the reference
selfcheck            which way reproduces the model's own scores and replies
spot_checks          some requests of a run again by the reference
decoding             how the next token is chosen, and when a reply ends
model                the adapter that puts these together
adapters             LoRA and other adapters of PEFT
settings_facts       what replies of a model in memory depend on, beside its weights
in_memory            a model of the user, left as it was between evaluations
"""

from snellen.models.hf.model import open_hf

__all__ = ["open_hf"]
