"""OCRBench v2: 30 types of questions about text in images, each scored by its own rule.

Source: Fu et al., OCRBench v2: An Improved Benchmark for Evaluating Large Multimodal Models on Visual Text Localization
and Reasoning (arXiv:2501.00321); Yuliang-Liu/MultimodalOCR (794c36d), OCRBench_v2/eval_scripts.
"""
