"""The many-to-many Transformer, and the seam by which guidance tells it the target language."""
