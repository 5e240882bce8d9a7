"""YAML files read into typed settings, and the explanation of mistakes in them."""
