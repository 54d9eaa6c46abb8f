"""How MMBench's questions are asked by its toolkit and by lmms-eval; what its judge is asked, as printed.

Section 4.2 and appendix A.
"""

from snellen.protocols.prompts.role_prompts import load_judge_prompts
from snellen.protocols.prompts.templates import packaged_templates

TOOLKIT = packaged_templates("snellen.suites.mmbench", "templates/mmbench.toml")
LMMS_EVAL = packaged_templates("snellen.suites.mmbench", "templates/mmbench-lmms-eval.toml")
MATCH_VERSION = "mmbench-match-1"
_PROMPTS = load_judge_prompts("snellen.suites.mmbench")
MATCH = _PROMPTS[MATCH_VERSION]
MARK = _PROMPTS["mmbench-mark-1"]
MARK_LIST = _PROMPTS["mmbench-mark-list-1"]
