"""Random numbers for dropout: a hash of a seed and a place, so that the backward pass can make them again."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _mix_bits(x):
    """A bijection of 32 bits after which all bits depend on all bits."""
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    x = (x ^ (x >> 13)) * 0xC2B2AE35
    return x ^ (x >> 16)


@triton.jit
def dropout_keep_mask(seed_ptr, dropout_index, offset, threshold):
    """True where dropout keeps a number: in all but threshold / 2^32 of the places.

    The seed is read from memory, so that a recorded sequence of kernels can be run with another one.
    """
    seed = _mix_bits(tl.load(seed_ptr).to(tl.uint32) + dropout_index.to(tl.uint32) * 0x9E3779B9)
    mixed = _mix_bits(_mix_bits(offset.to(tl.uint32) ^ seed) + seed)
    return mixed >= threshold.to(tl.uint32)
