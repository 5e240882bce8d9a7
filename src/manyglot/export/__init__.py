"""Models in other forms: guidance folded away."""
