"""What training costs: the operations of the model's matrix products, and the numbers that it keeps in memory."""

from __future__ import annotations

from manyglot.batches.batch import Extent
from manyglot.model.settings import ModelSettings


def training_operations(settings: ModelSettings, num_symbols: int, source: int, target: int) -> int:
    """Floating-point operations of a step on so many source and target tokens, forward and backward.

    Two for each weight and token that it meets, three times: forward, for the gradient of the states and for that of
    the weights. Guidance and the products of queries with keys are not counted, so that all methods are measured alike;
    in sentences of thirty tokens the latter are a hundredth of the whole.
    """
    width, ffn = settings.width, 2 * settings.width * settings.ffn_width
    square = width * width
    encoder = settings.num_encoder_layers * (4 * square + ffn) * source
    decoder = settings.num_decoder_layers * ((6 * square + ffn) * target + 2 * square * source)
    output = num_symbols * width * target
    return 6 * (encoder + decoder + output)


def kept_numbers(settings: ModelSettings, num_symbols: int, source: Extent, target: Extent) -> int:
    """Numbers that a step has in memory between its forward and its backward pass, where there are no kernels.

    Attention keeps its query, key and value before and after padding, its padded output and the rows of that; residual
    and norm keep two rows and what dropout multiplied by; the loss keeps its gradients. Guidance and what is small
    beside the rest are not counted: it is never too many.
    """
    width, norm = settings.width, 3 if settings.dropout else 2

    def layers(number: int, side: Extent) -> int:
        rows = (4 + 2 * norm) * side.tokens + 4 * side.padded
        return number * (rows * width + side.tokens * settings.ffn_width)

    cross = (2 + norm) * target.tokens + 2 * source.tokens + 2 * (source.padded + target.padded)
    ends = norm * (source.tokens + target.tokens) + target.tokens + num_symbols
    stacks = layers(settings.num_encoder_layers, source) + layers(settings.num_decoder_layers, target)
    return stacks + (settings.num_decoder_layers * cross + ends) * width
