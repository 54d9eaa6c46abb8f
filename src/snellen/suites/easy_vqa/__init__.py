"""The `easy-vqa` package from PyPI as a benchmark."""
