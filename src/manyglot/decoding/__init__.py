"""Translating: beam search, sampling, and the Translator that people use."""
