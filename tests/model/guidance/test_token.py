from __future__ import annotations

import torch

from manyglot.model.guidance import parse_method_settings
from manyglot.vocabulary.vocabulary import LanguageTags
from tests.conftest import NUM_LANGUAGES, NUM_SUBWORDS, tiny_model


def tags(**values: str) -> list[LanguageTags]:
    return tiny_model([parse_method_settings({"method": "token", **values})]).tags_by_language()


def test_each_language_has_its_tag_on_the_chosen_side() -> None:
    ids = [(NUM_SUBWORDS + i,) for i in range(NUM_LANGUAGES)]
    assert tags() == tags(side="source") == [LanguageTags(source=i) for i in ids]
    assert tags(side="target") == [LanguageTags(target=i) for i in ids]
    assert tags(side="target", mode="clean") == [LanguageTags(target=i, target_predicted=False) for i in ids]


def test_a_token_adds_no_parameters() -> None:
    guided, plain = tiny_model([parse_method_settings({"method": "token"})]), tiny_model()
    assert guided.num_parameters_by_part() == plain.num_parameters_by_part()


def test_the_representation_is_the_embedding_of_the_tag() -> None:
    model = tiny_model([parse_method_settings({"method": "token"})])
    torch.testing.assert_close(
        model.language_representations()["token"], model.embedding.weight[NUM_SUBWORDS:].detach()
    )
