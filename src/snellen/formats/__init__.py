"""File formats, read strictly and as streams. Nothing here knows about particular data sets."""
