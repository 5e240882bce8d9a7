"""Text to ids and back: the subword model, special symbols and language tags."""
