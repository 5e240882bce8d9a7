"""Language identification for cleaning, decoding and evaluation."""
