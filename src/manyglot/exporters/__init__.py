"""Exports of trained models to the formats of other engines."""
