"""What training costs: the operations of the model's matrix products, and the numbers that it keeps in memory."""

from __future__ import annotations

from manyglot.batches.batch import TokenCounts
from manyglot.model.settings import ModelSettings


def training_flops(settings: ModelSettings, vocabulary_size: int, source: int, target: int) -> int:
    """Floating-point operations of a step on so many source and target tokens, forward and backward.

    Two for each weight and token that it meets, three times: forward, for the gradient of the states and for that of
    the weights. Guidance and the products of queries with keys are not counted, so that all methods are measured alike;
    in sentences of thirty tokens the latter are a hundredth of the whole.
    """
    width, ffn = settings.width, 2 * settings.width * settings.ffn_width
    square = width * width
    encoder = settings.num_encoder_layers * (4 * square + ffn) * source
    decoder = settings.num_decoder_layers * ((6 * square + ffn) * target + 2 * square * source)
    output = vocabulary_size * width * target
    return 6 * (encoder + decoder + output)


def num_saved_activations(
    settings: ModelSettings, vocabulary_size: int, source: TokenCounts, target: TokenCounts
) -> int:
    """Numbers that a step has in memory between its forward and its backward pass, where there are no kernels.

    Attention keeps its query, key and value before and after padding, its padded output and the rows of that; residual
    and norm keep two rows and what dropout multiplied by; the loss keeps its gradients. Guidance and what is small
    beside the rest are not counted: it is never too many.
    """
    width, norm = settings.width, 3 if settings.dropout else 2

    def layers(number: int, side: TokenCounts) -> int:
        rows = (4 + 2 * norm) * side.num_tokens + 4 * side.num_padded_tokens
        return number * (rows * width + side.num_tokens * settings.ffn_width)

    cross = (
        (2 + norm) * target.num_tokens
        + 2 * source.num_tokens
        + 2 * (source.num_padded_tokens + target.num_padded_tokens)
    )
    ends = norm * (source.num_tokens + target.num_tokens) + target.num_tokens + vocabulary_size
    stacks = layers(settings.num_encoder_layers, source) + layers(settings.num_decoder_layers, target)
    return stacks + (settings.num_decoder_layers * cross + ends) * width
