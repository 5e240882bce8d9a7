"""Conversion of other projects' models into models of manyglot."""
