"""Decoding: beam search, continuous batching, sampling, the engines and the Translator."""
