"""Models in other forms: guidance folded away, and the format of CTranslate2 with an engine that uses it."""
