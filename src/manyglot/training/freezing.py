"""Freezing: parts of a model keep the weights that a warm start has copied, while the rest is trained.

Rows of a table that the old model does not have, those of new subwords and new languages, are always trained.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import torch
from pydantic import BeforeValidator
from torch import Tensor, nn

from manyglot.config.base_settings import Settings
from manyglot.errors import SettingsError, did_you_mean
from manyglot.model.transformer import Transformer
from manyglot.model.warm_start import NewEntries

ModelPart = Literal["encoder", "decoder", "embeddings", "guidance"]
PREFIXES: Mapping[ModelPart, tuple[str, ...]] = {
    "encoder": ("encoder.", "encoder_"),
    "decoder": ("decoder.", "decoder_"),
    "embeddings": ("embedding.", "output_bias"),
    "guidance": ("guidance.",),
}
"""How the names of the parameters of a part begin."""
EVERYTHING_BUT = "everything_but"


class EverythingBut(Settings):
    """All parts are frozen except some."""

    everything_but: tuple[ModelPart, ...]
    """The parts to train."""


def _check_part_names(value: Any) -> Any:
    """Explain a mistake in the words of the user. The errors of pydantic would name the types of the union."""
    parts = value
    if isinstance(value, Mapping):
        if unknown := [key for key in value if key != EVERYTHING_BUT]:
            raise ValueError(f"{str(unknown[0])!r:.80} is not known. {did_you_mean(str(unknown[0]), [EVERYTHING_BUT])}")
        parts = value.get(EVERYTHING_BUT)
    elif isinstance(value, EverythingBut):
        parts = value.everything_but
    if not isinstance(parts, list | tuple):
        raise ValueError(
            f"give a list of parts, such as [encoder, embeddings] or {{{EVERYTHING_BUT}: [guidance]}}, not "
            f"{reprlib.repr(parts)}"
        )
    for part in parts:
        if part not in list(PREFIXES):
            raise ValueError(f"{reprlib.repr(part)} is not a part. {did_you_mean(str(part), PREFIXES)}")
    return value


FrozenParts = Annotated[tuple[ModelPart, ...] | EverythingBut, BeforeValidator(_check_part_names)]


class FrozenWeights:
    """The weights that training leaves as they are."""

    def __init__(self, parts: FrozenParts = (), new_entries: Mapping[str, NewEntries] | None = None) -> None:
        """State the frozen parts, and which entries of each parameter are new and therefore trained."""
        trained = set(parts.everything_but) if isinstance(parts, EverythingBut) else set(PREFIXES).difference(parts)
        self.parts: list[ModelPart] = [part for part in PREFIXES if part not in trained]
        self.new_entries = {} if new_entries is None else new_entries
        self._kept_entries: list[tuple[nn.Parameter, Tensor, Tensor]] = []

    def apply(self, model: nn.Module) -> None:
        """Exclude the frozen parameters from training; raise an error if nothing would be trained."""
        prefixes = tuple(prefix for part in self.parts for prefix in PREFIXES[part])
        self._kept_entries = []
        for name, parameter in model.named_parameters():
            new = self.new_entries.get(name, NewEntries())
            if not name.startswith(prefixes) or not prefixes or new.is_whole:
                continue
            if not new.indices:
                parameter.requires_grad_(False)
                continue
            shape = [1] * parameter.dim()
            shape[new.dim] = parameter.shape[new.dim]
            is_new = torch.zeros(shape, dtype=torch.bool, device=parameter.device)
            is_new.view(-1)[list(new.indices)] = True
            self._kept_entries.append((parameter, is_new, parameter.detach().clone()))
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise SettingsError("init.freeze: everything is frozen, and nothing is new. Leave a part to train.")

    @property
    def has_partly_frozen_parameters(self) -> bool:
        """Whether some entries of a parameter are frozen and others are trained."""
        return any(not new.is_whole and new.indices for new in self.new_entries.values()) and bool(self.parts)

    def trains_encoder(self, model: Transformer) -> bool:
        """Whether training can change the states that the encoder computes; `apply` must come first."""
        parameters = model.named_parameters()
        if any(each.requires_grad for name, each in parameters if name.startswith(PREFIXES["encoder"])):
            return True
        if "embeddings" not in self.parts:
            return True
        new_rows = self.new_entries.get("embedding.weight", NewEntries()).indices
        return any(model.settings.source_tag or row < model.dimensions.first_tag_id for row in new_rows)

    @torch.no_grad()
    def mask_gradients(self) -> None:
        """Set the gradients of frozen entries to zero, so that clipping ignores them."""
        for parameter, is_new, _ in self._kept_entries:
            if parameter.grad is not None:
                parameter.grad.mul_(is_new)

    @torch.no_grad()
    def restore(self) -> None:
        """Undo what the optimizer did to frozen entries, such as weight decay."""
        for parameter, is_new, kept in self._kept_entries:
            parameter.copy_(torch.where(is_new, parameter, kept))

    def describe(self, model: nn.Module) -> str:
        """Say what is frozen and how many parameters are trained; `apply` must come first."""
        trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
        trained -= sum(kept.numel() - int(is_new.expand_as(kept).sum()) for _, is_new, kept in self._kept_entries)
        total = sum(parameter.numel() for parameter in model.parameters())
        new = ", except what is new in them" if self._kept_entries else ""
        return f"Frozen: {_join(self.parts)}{new}. {trained:,} of {total:,} parameters are trained."


def _join(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
