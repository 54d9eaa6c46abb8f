"""Any vision-language model that Hugging Face transformers can load: `hf:org/name[@revision]`, `hf:./folder`.

In reading order:

load                 folder or repository to processor and weights, one clear line when that fails
conversation         messages to the prompt text that the model was trained on
tokens               prompt text in tokens; the boundary before a continuation
prompter             requests as prompts and tokens, for `hf:` and `vllm:`; thoughts in replies
encode               prompt text and images to token ids and tensors
model_layout         the parts of an architecture that the fast paths need to know
cached_forward       rows as one batch; full forward passes, and those that go on from a cache
prefix_sharing       scoring and generation for groups that share a prefix; what follows it as a tree in one row
vision_cache         encoders whose outputs are cached
sharing_plan         what may be shared, rung by rung, and which requests of a window share a prefix
engine               runs a window of requests as a rung says, halved when memory runs out; earlier prefixes
reference            one row at a time in float64
tolerance            how far a path may be from the reference, by what rounding does
probe                test prompts, short and long, and what they cost; whether replies are those of the reference
selfcheck            which rung reproduces the model's own scores and replies
spot_checks          some requests of a run again by the reference
decoding             how the next token is chosen, and when a reply ends
model                the adapter that puts these together
adapters             LoRA and other adapters of PEFT
settings_facts       what replies of a model in memory depend on, beside its weights
in_memory            a model of the user, left as it was between evaluations
"""

from snellen.models.hf.model import open_hf

__all__ = ["open_hf"]
