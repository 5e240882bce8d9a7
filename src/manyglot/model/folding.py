"""Folding: a guided model and one target language become a plain Transformer with the same outputs and no guidance.

For one language every hook of a method is an affine function of a token's states, x A + b. `fold` asks each hook for
its A and b by showing it zeros and the unit vectors, and moves them into weights that are there already. So a method
needs no folding of its own. In the end the folded model is compared with the guided one. Where they go:

| hook | plain weights |
|---|---|
| enter, leave | post-norm: gain and bias of the norm before, for a diagonal A; pre-norm: the bias before, for A = 1 |
| enter at memory | keys and values of every cross-attention, any A |
| project, project_memory, merge | query, key, value and output projections, any A |
| norm | gain and bias |

Symbols in the sequences cannot be folded, nor random choices, nor what does not fit into the table. Where the sequences
go on carrying their tags, all the rest is folded (`tagged`).

Shape letters: D model width.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from manyglot.errors import LanguageError, ManyglotError
from manyglot.model.attention import MultiHeadAttention
from manyglot.model.guidance.base import Guidance, Point, Site, Target
from manyglot.model.layers import DecoderLayer, EncoderLayer, FeedForward, SubLayer
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.vocabulary import Tags


class FoldingError(ManyglotError):
    """The guidance of a model cannot be folded into plain weights."""


HOOKS = ("enter", "project", "project_memory", "merge", "norm", "leave")
"""What a method can do to a model, beside the tags that it puts into the sequences."""


def serves_all_languages(model: Transformer) -> bool:
    """Whether the methods put tags into the sequences and do no more: then all languages have the same weights."""
    kinds = [type(method) for _, method in model.guidance.items()]
    return not any(getattr(kind, hook) is not getattr(Guidance, hook) for kind in kinds for hook in HOOKS)


@torch.no_grad()
def fold(model: Transformer, language: int, *, tagged: bool = False) -> Transformer:
    """A plain Transformer that translates as the model does into one target language, given by its id.

    Methods that put tags into the sequences are refused, unless the plain model will be given them too (`tagged`).
    """
    if language not in range(model.num_languages):
        raise LanguageError(
            f"fold takes the id of one of the model's {model.num_languages} languages, such as "
            f"translator.languages.id('de'); got {language!r}."
        )
    _check_foldable(model, language, tagged)
    exact = copy.deepcopy(model).double().eval()  # sums and products of weights, rounded once in the end
    with torch.device("meta"):
        plain = Transformer(model.settings, (), model.dimensions.first_tag, model.num_languages).eval()
    weights = {name: value.clone() for name, value in exact.state_dict().items() if not name.startswith("guidance.")}
    plain.load_state_dict(weights, assign=True)
    with torch.autocast(model.embedding.weight.device.type, enabled=False):
        _Folding(_Probe(exact, language), plain).run()
        _compare(exact, plain, language)
    return plain.to(model.embedding.weight.dtype).train(model.training)


def fold_if_possible(model: Transformer, language: int) -> Transformer | None:
    """Fold the guidance of one target language where that saves work; else None. Sequences keep their tags."""
    if serves_all_languages(model):
        return None
    try:
        return fold(model, language, tagged=True)
    except FoldingError:
        return None


def _check_foldable(model: Transformer, language: int, tagged: bool) -> None:
    for name, method in model.guidance.items():
        if method.tag(language) != Tags() and not tagged:
            raise FoldingError(f"{name} cannot be folded: its tag is a symbol in the sequence, not a weight.")
        if method.draws:
            raise FoldingError(f"{name} cannot be folded: it chooses at random for each sentence.")


@dataclass(frozen=True)
class _Affine:
    """x A + b."""

    a_DD: Tensor
    b_D: Tensor

    def then(self, other: _Affine) -> _Affine:
        """This map, followed by another."""
        return _Affine(self.a_DD @ other.a_DD, self.b_D @ other.a_DD + other.b_D)

    def multiplies(self, but_diagonal: bool = False) -> bool:
        """Whether A is more than 1, or more than a diagonal."""
        rest_DD = self.a_DD - torch.diag(self.a_DD.diagonal() if but_diagonal else torch.ones_like(self.b_D))
        return bool(rest_DD.abs().max() > 1e-12 * (1 + self.b_D.abs().max()))  # measured with rounding


def _compare(guided: Transformer, plain: Transformer, language: int) -> None:
    """Refuse a folded model that does not do what the guided one does, as with hooks that mix positions."""
    rng = torch.Generator().manual_seed(0)
    source_BS, input_BT = (torch.randint(1, guided.dimensions.first_tag, (4, 6), generator=rng) for _ in range(2))
    device = guided.embedding.weight.device
    batch = source_BS.to(device), input_BT.to(device), torch.full((4,), language, device=device)
    expected, got = guided(*batch).decoder, plain(*batch).decoder
    if not torch.allclose(got, expected, rtol=1e-6, atol=1e-6 * float(expected.abs().max())):
        names = " and ".join(name for name, _ in guided.guidance.items())
        raise FoldingError(f"{names} cannot be folded: the hooks are not functions of one token's states alone.")


class _Probe:
    """Asks the hooks of a model's methods what they do for one language."""

    def __init__(self, model: Transformer, language: int) -> None:
        self.methods, self.language = dict(model.guidance.items()), language
        device = model.embedding.weight.device
        width = model.settings.width
        self.target: Target = model.target(torch.tensor([language], device=device))
        self.identity = _Affine(
            torch.eye(width, dtype=torch.float64, device=device),
            torch.zeros(width, dtype=torch.float64, device=device),
        )

    def change(self, hook: str, point: Point) -> tuple[str, _Affine]:
        """What `enter` or `leave` does at a point, by all methods in their order, with the names of those that act."""
        names, total = [], self.identity
        for name, method in self.methods.items():
            each = self._measure(name, partial(getattr(method, hook), point))
            assert each is not None, "a change is never nothing"
            if each.multiplies() or each.b_D.any():
                names.append(name)
                total = total.then(each)
        return " and ".join(names), total

    def term(self, hook: str, *point: Point) -> _Affine | None:
        """The sum of the terms that the methods add."""
        total = None
        for name, method in self.methods.items():
            each = self._measure(name, partial(getattr(method, hook), *point))
            if each is not None:
                total = each if total is None else _Affine(total.a_DD + each.a_DD, total.b_D + each.b_D)
        return total

    def _measure(self, name: str, hook: Callable[[Tensor, Target], Tensor | None]) -> _Affine | None:
        """A and b of x A + b, from zeros and unit vectors; two more rows show whether it is affine at all."""
        eye_DD = self.identity.a_DD
        line_D = torch.linspace(-2, 3, len(eye_DD)).to(eye_DD)
        more_2D = torch.stack([line_D, -100 * line_D])
        x_1TD = torch.cat([torch.zeros_like(eye_DD[:1]), eye_DD, more_2D])[None]
        y_1TD = hook(x_1TD, self.target)
        if y_1TD is None:
            return None
        y_TD = y_1TD[0]
        b_D, a_DD = y_TD[0], y_TD[1:-2] - y_TD[0]
        if not torch.allclose(more_2D @ a_DD + b_D, y_TD[-2:], rtol=1e-9, atol=1e-9 * float(y_TD.abs().max())):
            raise FoldingError(f"{name} cannot be folded: it is not an affine function of the states.")
        return _Affine(a_DD, b_D)


class _Folding:
    """Moves what the probe finds into the weights of a plain model."""

    def __init__(self, probe: _Probe, plain: Transformer) -> None:
        self.probe, self.plain = probe, plain
        self.post_norm = plain.settings.norm == "post"

    def run(self) -> None:
        """Walk both stacks in the order of the forward pass."""
        before: nn.Module = self.plain.encoder_norm
        for layer in self.plain.encoder:
            assert isinstance(layer, EncoderLayer)
            self._attention(layer.attention)
            before = self._sublayer(layer.attention_sublayer, layer.attention, before)
            before = self._sublayer(layer.ffn_sublayer, layer.ffn, before)
        before = self.plain.decoder_norm
        for layer in self.plain.decoder:
            assert isinstance(layer, DecoderLayer)
            self._attention(layer.self_attention)
            self._attention(layer.cross_attention)
            self._memory(layer.cross_attention)
            before = self._sublayer(layer.self_sublayer, layer.self_attention, before)
            before = self._sublayer(layer.cross_sublayer, layer.cross_attention, before)
            before = self._sublayer(layer.ffn_sublayer, layer.ffn, before)

    def _sublayer(self, part: SubLayer, function: MultiHeadAttention | FeedForward, before: nn.Module) -> nn.Module:
        """Fold what surrounds a sub-layer, and return the module whose output the next one takes."""
        self._states(before, "enter", part.point)
        for method in self.probe.methods.values():
            terms = method.norm(part.point)
            if terms is not None:
                part.norm.weight.add_(terms.gain_LD[self.probe.language])
                part.norm.bias.add_(terms.bias_LD[self.probe.language])
        last = function.output if isinstance(function, MultiHeadAttention) else function.outer
        after = part.norm if self.post_norm else last
        self._states(after, "leave", part.point)
        return after

    def _states(self, before: nn.Module, hook: str, point: Point) -> None:
        """Let the module that made the states make them already changed."""
        names, change = self.probe.change(hook, point)
        assert isinstance(before, nn.LayerNorm | nn.Linear)
        alone = isinstance(before, nn.LayerNorm) and self.post_norm  # no residual goes around it
        if change.multiplies(but_diagonal=alone):
            raise FoldingError(
                f"{names} cannot be folded at {point.site}: it multiplies the states between two sub-layers, where a "
                f"plain {'post' if self.post_norm else 'pre'}-norm Transformer has no weights that could."
            )
        if alone:
            before.weight.mul_(change.a_DD.diagonal())
            before.bias.mul_(change.a_DD.diagonal())
        before.bias.add_(change.b_D)

    def _attention(self, part: MultiHeadAttention) -> None:
        """Add the terms of the projections and of the output to the weights."""
        inside = self.probe.term("project", part.point)
        own = [part.query] if part.point.site == Site.DEC_CROSS else [part.query, part.key, part.value]
        _add(own, inside)
        _add([part.output], self.probe.term("merge", part.point))

    def _memory(self, part: MultiHeadAttention) -> None:
        """What guidance does to the encoder's output, taken up by the keys and values that are made of it."""
        _add([part.key, part.value], self.probe.term("project_memory"))
        _, change = self.probe.change("enter", Point(Site.MEMORY, 0))
        for linear in (part.key, part.value):
            linear.bias.add_(linear.weight @ change.b_D)
            linear.weight.copy_(linear.weight @ change.a_DD.T)


def _add(linears: Iterable[nn.Linear], term: _Affine | None) -> None:
    if term is not None:
        for linear in linears:
            linear.weight.add_(term.a_DD.T)
            linear.bias.add_(term.b_D)
