"""Probes of what a model has learned about its languages: typology, language map, missing features."""
