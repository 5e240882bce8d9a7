"""How good translations are, direction by direction, and whether they are in the right language."""
