"""Translating with models exported to CTranslate2."""
