"""Dropout masks: a hash of a seed and an offset, so that the backward pass can compute the same mask again."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _mix_bits(x):
    """Mix 32 bits bijectively, so that every output bit depends on every input bit (the finalizer of MurmurHash3)."""
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    x = (x ^ (x >> 13)) * 0xC2B2AE35
    return x ^ (x >> 16)


@triton.jit
def dropout_keep_mask(seed_ptr, dropout_index, offset, threshold):
    """Return True where dropout keeps a value: everywhere except for a share of threshold / 2^32.

    The seed is read from memory, so that a CUDA graph can be replayed with another one.
    """
    seed = _mix_bits(tl.load(seed_ptr).to(tl.uint32) + dropout_index.to(tl.uint32) * 0x9E3779B9)
    mixed = _mix_bits(_mix_bits(offset.to(tl.uint32) ^ seed) + seed)
    return mixed >= threshold.to(tl.uint32)
