"""What training costs: the operations of the model's matrix products."""

from __future__ import annotations

from manyglot.model.layers import ModelSettings


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
