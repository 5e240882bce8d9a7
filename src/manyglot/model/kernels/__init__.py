"""Kernels for a GPU, in Triton, as differentiable functions; `model/operations.py` says when they are used."""
