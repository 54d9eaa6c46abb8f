"""What a user's file or folder is, and which of its columns is what: recognised by names and by content."""

from snellen.recognition.columns import Doubt
from snellen.recognition.recognising import Recognition, recognise

__all__ = ["Doubt", "Recognition", "recognise"]
