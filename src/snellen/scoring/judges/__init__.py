"""Readings that rules cannot give: people, language models, and how far they agree."""
