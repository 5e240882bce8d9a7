"""YAML files parsed into typed settings, with one-line explanations of mistakes."""
