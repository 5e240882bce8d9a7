"""Trained models written in the formats of other engines."""
