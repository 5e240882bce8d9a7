"""Builds modules without memory for their weights, and without computing initial values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_RANDOM_METHODS: tuple[object, ...] = (Tensor.normal_, Tensor.uniform_)


@contextmanager
def meta_device() -> Iterator[None]:
    """Create modules on the meta device without initialization, for which PyTorch would import its compiler."""
    with torch.device("meta"), _SkipRandomInitialization():
        yield


class _SkipRandomInitialization(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = {} if kwargs is None else kwargs
        if func in _RANDOM_METHODS or getattr(func, "__module__", "") == nn.init.__name__:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
