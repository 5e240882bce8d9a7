"""From text to numbers and back: subwords, special symbols, language tags."""
