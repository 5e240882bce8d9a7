"""The cost of a training step: floating-point operations and saved activations."""

from __future__ import annotations

from manyglot.batches.batch import SideTokenCounts
from manyglot.model.settings import ModelSettings


def training_flops(
    settings: ModelSettings, vocabulary_size: int, num_source_tokens: int, num_target_tokens: int
) -> int:
    """Estimate the floating-point operations of a step on the given numbers of source and target tokens.

    A token costs two operations for each weight it is multiplied by, three times: in the forward pass, for the gradient
    of the states and for the gradient of the weights. Guidance is not counted, so that all methods are comparable.
    The products of queries and keys are not counted either; with 30 tokens per sentence they are 1% of the total.
    """
    width, ffn = settings.width, 2 * settings.width * settings.ffn_width
    square = width * width
    encoder = settings.num_encoder_layers * (4 * square + ffn) * num_source_tokens
    decoder = settings.num_decoder_layers * ((6 * square + ffn) * num_target_tokens + 2 * square * num_source_tokens)
    output = vocabulary_size * width * num_target_tokens
    return 6 * (encoder + decoder + output)


def min_num_weights(settings: ModelSettings, vocabulary_size: int) -> int:
    """Return a lower bound of the weights of a model: the matrices of its layers, the embeddings and the positions."""
    square, ffn = settings.width**2, 2 * settings.width * settings.ffn_width
    layers = settings.num_encoder_layers * (4 * square + ffn) + settings.num_decoder_layers * (8 * square + ffn)
    return layers + (vocabulary_size + 2 * (settings.max_positions or 0)) * settings.width


def num_saved_activations(
    settings: ModelSettings, vocabulary_size: int, source: SideTokenCounts, target: SideTokenCounts
) -> int:
    """Return a lower bound of the values saved for the backward pass of a step without kernels.

    Attention saves query, key and value before and after padding, its padded output, and the packed rows of the output.
    Residual and norm save two rows and the dropout mask; the loss saves its gradients. Guidance and small tensors are
    not counted.
    """
    width, rows_per_norm = settings.width, 3 if settings.dropout else 2
    ffn_width = settings.ffn_width * (1 if settings.activation == "relu" else 2)  # others save their input, too

    def stack(num_layers: int, side: SideTokenCounts) -> int:
        rows = (4 + 2 * rows_per_norm) * side.num_tokens + 4 * side.num_padded_tokens
        return num_layers * (rows * width + side.num_tokens * ffn_width)

    cross = (
        (2 + rows_per_norm) * target.num_tokens
        + 2 * source.num_tokens
        + 2 * (source.num_padded_tokens + target.num_padded_tokens)
    )
    rows_per_embedding = rows_per_norm if settings.embedding_norm else rows_per_norm - 2
    ends = rows_per_embedding * (source.num_tokens + target.num_tokens) + target.num_tokens + vocabulary_size
    stacks = stack(settings.num_encoder_layers, source) + stack(settings.num_decoder_layers, target)
    return stacks + (settings.num_decoder_layers * cross + ends) * width
