"""Translating: beam search, its greedy reference, and the Translator that people use."""
