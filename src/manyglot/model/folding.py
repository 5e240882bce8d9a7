"""Folding: a guided model and one target language become a plain Transformer with the same outputs and no guidance.

For one language every hook of a method is an affine function of a token's states, x A + b. `fold_guidance` measures A
and b by passing zeros and unit vectors to each hook, and adds them to existing weights. A method therefore needs no
folding code of its own. Finally the folded model is compared with the guided one. The weights that absorb each hook:

| hook | plain weights |
|---|---|
| pre_sublayer, post_sublayer | post-norm: the preceding norm, for diagonal A; pre-norm: the preceding bias, for A = 1 |
| pre_sublayer at the first sub-layer | the norm of the embeddings in the same way; else learned positions, for A = 1 |
| pre_sublayer at memory | keys and values of every cross-attention, any A |
| qkv_term, memory_kv_term, output_term | query, key, value and output projections, any A |
| sublayer_output_term | output projection, or second layer of the feed-forward, any A |
| norm_terms | gain and bias of the norm |

Language tags and random languages cannot be folded, and neither can a hook that the table does not cover. With
`keep_tags` the sequences still carry their tags, and everything else is folded.

Shape letters: D model width.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from manyglot.errors import LanguageError
from manyglot.model.attention import MultiHeadAttention
from manyglot.model.executor import InputEmbedding
from manyglot.model.guidance.base import Guidance, HookPoint, Site
from manyglot.model.hook_probe import AffineMap, FoldingError, HookProbe
from manyglot.model.layers import DecoderLayer, EncoderLayer, FeedForward, SubLayer
from manyglot.model.meta_device import meta_device
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.vocabulary import LanguageTags

WEIGHT_HOOKS = (
    "pre_sublayer",
    "qkv_term",
    "memory_kv_term",
    "output_term",
    "sublayer_output_term",
    "norm_terms",
    "post_sublayer",
)
"""The hooks that folding turns into weights: everything a method can do except add tags."""


def uses_only_tags(model: Transformer) -> bool:
    """Whether guidance consists of tags in the sequences alone, so that all languages share the same weights."""
    classes = [type(method) for _, method in model.guidance.named_methods()]
    return not any(getattr(cls, hook) is not getattr(Guidance, hook) for cls in classes for hook in WEIGHT_HOOKS)


@torch.no_grad()
def fold_guidance(model: Transformer, language: int, *, keep_tags: bool = False) -> Transformer:
    """Return a plain Transformer that translates into one target language as the guided model does.

    `language` is a language id. Raises a FoldingError if guidance is random or cannot be expressed in plain weights,
    or if it adds tags to the sequences. With `keep_tags`, tags are allowed: the plain model reads the same tags.
    """
    if language not in range(model.num_languages):
        raise LanguageError(
            f"fold_guidance needs the id of one of the model's {model.num_languages} languages, such as "
            f"translator.languages.id('de'); got {language!r}."
        )
    _check_foldable(model, language, keep_tags)
    guided = copy.deepcopy(model).double().eval()  # float64: rounds only once, at the end
    with meta_device():
        plain = Transformer(model.settings, (), model.dimensions.first_tag_id, model.num_languages).eval()
    weights = {name: value.clone() for name, value in guided.state_dict().items() if not name.startswith("guidance.")}
    plain.load_state_dict(weights, assign=True)
    with torch.autocast(model.embedding.weight.device.type, enabled=False):
        _FoldingPass(HookProbe(guided, language), plain).run()
        _check_same_outputs(guided, plain, language)
    return plain.to(model.embedding.weight.dtype).train(model.training)


def try_fold_guidance(model: Transformer, language: int) -> Transformer | None:
    """Fold the guidance of one language, tags excepted; return None if that is impossible or saves nothing."""
    if uses_only_tags(model):
        return None
    try:
        return fold_guidance(model, language, keep_tags=True)
    except FoldingError:
        return None


def _check_foldable(model: Transformer, language: int, keep_tags: bool) -> None:
    for name, method in model.guidance.named_methods():
        if method.tags_for_language(language) != LanguageTags() and not keep_tags:
            raise FoldingError(f"{name} cannot be folded: its tag is part of the sequence, not a weight.")
        if method.uses_random_language:
            raise FoldingError(f"{name} cannot be folded: it uses a random language for each sentence.")


def _check_same_outputs(guided: Transformer, plain: Transformer, language: int) -> None:
    """Raise a FoldingError if the folded model computes different states, for example because hooks mix positions."""
    rng = torch.Generator().manual_seed(0)
    source_BS, input_BT = (torch.randint(1, guided.dimensions.first_tag_id, (4, 6), generator=rng) for _ in range(2))
    device = guided.embedding.weight.device
    batch = source_BS.to(device), input_BT.to(device), torch.full((4,), language, device=device)
    expected, got = guided(*batch).decoded, plain(*batch).decoded
    if not torch.allclose(got, expected, rtol=1e-6, atol=1e-6 * float(expected.abs().max())):
        names = " and ".join(name for name, _ in guided.guidance.named_methods())
        raise FoldingError(f"{names} cannot be folded: its hooks do not depend on the states of a single token alone.")


class _FoldingPass:
    """Adds the measured maps to the weights of a plain model."""

    def __init__(self, probe: HookProbe, plain: Transformer) -> None:
        self.probe, self.plain = probe, plain
        self.post_norm = plain.settings.norm == "post"

    def run(self) -> None:
        """Walk both stacks in the order of the forward pass."""
        producer = self._input_module(self.plain.encoder_embedding)
        for layer in self.plain.encoder:
            assert isinstance(layer, EncoderLayer)
            self._fold_attention(layer.attention)
            producer = self._fold_sublayer(layer.attention_sublayer, layer.attention, producer)
            producer = self._fold_sublayer(layer.ffn_sublayer, layer.ffn, producer)
        producer = self._input_module(self.plain.decoder_embedding)
        for layer in self.plain.decoder:
            assert isinstance(layer, DecoderLayer)
            self._fold_attention(layer.self_attention)
            self._fold_attention(layer.cross_attention)
            self._fold_memory(layer.cross_attention)
            producer = self._fold_sublayer(layer.self_sublayer, layer.self_attention, producer)
            producer = self._fold_sublayer(layer.cross_sublayer, layer.cross_attention, producer)
            producer = self._fold_sublayer(layer.ffn_sublayer, layer.ffn, producer)

    def _input_module(self, embedding: InputEmbedding) -> nn.Module:
        """Return the module whose output the first sub-layer of a stack reads."""
        if isinstance(embedding.norm, nn.LayerNorm):
            return embedding.norm
        return embedding.learned_positions or nn.Identity()

    def _fold_sublayer(
        self, sublayer: SubLayer, function: MultiHeadAttention | FeedForward, producer: nn.Module
    ) -> nn.Module:
        """Fold the hooks around a sub-layer; return the module whose output the next sub-layer reads."""
        self._fold_state_change(producer, "pre_sublayer", sublayer.point)
        for method in self.probe.methods.values():
            terms = method.norm_terms(sublayer.point)
            if terms is not None:
                sublayer.norm.weight.add_(terms.gain_LD[self.probe.language])
                sublayer.norm.bias.add_(terms.bias_LD[self.probe.language])
        projection = function.output if isinstance(function, MultiHeadAttention) else function.outer
        if (term := self.probe.measure_term("sublayer_output_term", sublayer.point)) is not None:
            projection.weight.add_(term.a_DD.T @ projection.weight)
            projection.bias.add_(projection.bias @ term.a_DD + term.b_D)
        output_module = sublayer.norm if self.post_norm else projection
        self._fold_state_change(output_module, "post_sublayer", sublayer.point)
        return output_module

    def _fold_state_change(self, producer: nn.Module, hook: str, point: HookPoint) -> None:
        """Change the module that produces the states, so that it produces the changed states."""
        names, change = self.probe.measure_change(hook, point)
        if not names:
            return
        if isinstance(producer, nn.Identity):
            raise FoldingError(
                f"{names} cannot be folded at {point.site}: without embedding_norm and learned positions, no weights "
                f"precede the first sub-layer."
            )
        assert isinstance(producer, nn.LayerNorm | nn.Linear | nn.Embedding)
        has_own_scale = isinstance(producer, nn.LayerNorm) and self.post_norm  # no residual bypasses it
        if change.has_matrix(ignore_diagonal=has_own_scale):
            raise FoldingError(
                f"{names} cannot be folded at {point.site}: it multiplies the states between two sub-layers, where a "
                f"plain {'post' if self.post_norm else 'pre'}-norm Transformer has no matrix."
            )
        if isinstance(producer, nn.LayerNorm) and self.post_norm:
            producer.weight.mul_(change.a_DD.diagonal())
            producer.bias.mul_(change.a_DD.diagonal())
        bias: Tensor = producer.weight if isinstance(producer, nn.Embedding) else producer.bias
        bias.add_(change.b_D)

    def _fold_attention(self, attention: MultiHeadAttention) -> None:
        """Add the terms to the weights of the projections."""
        term = self.probe.measure_term("qkv_term", attention.point)
        from_memory = attention.point.site == Site.DEC_CROSS  # keys and values are then folded by `_fold_memory`
        _add_to_projections(
            [attention.query] if from_memory else [attention.query, attention.key, attention.value], term
        )
        _add_to_projections([attention.output], self.probe.measure_term("output_term", attention.point))

    def _fold_memory(self, attention: MultiHeadAttention) -> None:
        """Fold the change of the encoder's output into the keys and values that are computed from it."""
        _add_to_projections([attention.key, attention.value], self.probe.measure_term("memory_kv_term"))
        _, change = self.probe.measure_change("pre_sublayer", HookPoint(Site.MEMORY, 0))
        for linear in (attention.key, attention.value):
            linear.bias.add_(linear.weight @ change.b_D)
            linear.weight.copy_(linear.weight @ change.a_DD.T)


def _add_to_projections(linears: Iterable[nn.Linear], term: AffineMap | None) -> None:
    if term is not None:
        for linear in linears:
            linear.weight.add_(term.a_DD.T)
            linear.bias.add_(term.b_D)
