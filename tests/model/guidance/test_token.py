from __future__ import annotations

import torch

from manyglot.model.guidance import read_method
from manyglot.vocabulary.vocabulary import Tags
from tests.conftest import NUM_LANGUAGES, NUM_SUBWORDS, tiny_model


def tags(**values: str) -> list[Tags]:
    return tiny_model([read_method({"method": "token", **values})]).tags()


def test_each_language_has_its_tag_on_the_side_asked_for() -> None:
    ids = [(NUM_SUBWORDS + i,) for i in range(NUM_LANGUAGES)]
    assert tags() == tags(side="source") == [Tags(source=i) for i in ids]
    assert tags(side="target") == [Tags(target=i) for i in ids]
    assert tags(side="target", mode="clean") == [Tags(target=i, predicted=False) for i in ids]


def test_a_token_adds_no_parameters() -> None:
    guided, plain = tiny_model([read_method({"method": "token"})]), tiny_model()
    assert guided.num_parameters() == plain.num_parameters()


def test_its_representation_is_the_tag_s_embedding() -> None:
    model = tiny_model([read_method({"method": "token"})])
    torch.testing.assert_close(model.representations()["token"], model.embedding.weight[NUM_SUBWORDS:].detach())
