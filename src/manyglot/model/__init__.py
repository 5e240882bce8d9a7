"""The many-to-many Transformer, and the interface through which guidance tells it the target language."""
