"""Any vision-language model that Hugging Face transformers can load: `hf:org/name[@revision]`, `hf:./folder`.

In reading order:

load                 folder or repository to processor and weights, one clear line when that fails
conversation         messages to the prompt text that the model was trained on
tokens               prompt text in tokens; the boundary before a continuation
prompter             requests as prompts and tokens, for `hf:` and `vllm:`; thoughts in replies
encode               prompt text and images to token ids and tensors
pixel_cache          an image's pixels, computed once for all prompts
lookahead            images of later requests, prepared in threads
model_layout         the modules and settings of an architecture that the fast paths use
caches               copies, rows and lengths of a model's cache
decoding             how the next token is chosen, and when a reply ends
cached_forward       prompts as one batch, and forward passes that continue from their cache
token_trees          what follows a prefix as a tree in one row of a cache
prefix_sharing       scoring and generation after a shared prefix, by trees or rows
vision_cache         encoders whose outputs are cached
sharing_plan         the three ways to run a window, and which of its requests share a prefix
engine               runs a window of requests in one of the ways, halved when memory runs out
prefix_cache         prefixes kept from call to call
reference            one row at a time, nothing cached, log-probabilities in float64; also the plain way itself
tolerance            how far the scores of a fast path may differ from the reference because of rounding
probe                test prompts, and the comparison of replies with the reference
selfcheck            finds out which fast paths give the same scores and replies as the reference
spot_checks          some requests of a run again by the reference
model                the adapter that puts these together
adapters             LoRA and other adapters of PEFT
settings_facts       what the replies of a model in memory depend on, in addition to its weights
in_memory            a model that the user has loaded, which is left unchanged after each evaluation
"""

from snellen.models.hf.model import open_hf

__all__ = ["open_hf"]
