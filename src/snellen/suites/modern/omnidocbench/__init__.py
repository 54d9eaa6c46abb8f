"""OmniDocBench 1.0: pages of documents to be written as Markdown, scored block by block.

Source: Ouyang et al., OmniDocBench: Benchmarking Diverse PDF Document Parsing with Comprehensive Annotations
(arXiv:2412.07626); the makers' end-to-end evaluation as open-compass/VLMEvalKit (e8e78f05) has it,
vlmeval/dataset/OmniDocBench.
"""
