"""Weights of another model are matched by subword, language and guidance method."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from manyglot.corpus.languages import Languages
from manyglot.errors import SettingsError
from manyglot.model import guidance as guidance_module
from manyglot.model.guidance import METHODS
from manyglot.model.guidance.adapter import AdapterSettings
from manyglot.model.guidance.base import GuidanceMethod, MethodSettings
from manyglot.model.guidance.laa import LAASettings
from manyglot.model.guidance.lalt import LALTSettings
from manyglot.model.guidance.token import LanguageTokenSettings
from manyglot.model.model_folder import TrainedModel
from manyglot.model.settings import ModelSettings
from manyglot.model.transformer import Transformer
from manyglot.model.warm_start import WarmStartSummary, copy_weights
from manyglot.vocabulary.subword_model import SPECIAL_PIECES, UNK, SubwordModel
from manyglot.vocabulary.vocabulary import Vocabulary
from tests.conftest import NUM_LANGUAGES, NUM_SUBWORDS, random_batch, tiny_model
from tests.model.guidance.combinations import COMBINATIONS
from tests.model.guidance.everywhere import Everywhere, EverywhereSettings

LETTERS = "▁abcdé"
SETTINGS = ModelSettings(
    width=4, ffn_width=4, num_heads=1, num_encoder_layers=1, num_decoder_layers=2, output_bias=True
)
SPELLINGS = {"de": "deu_Latn", "en": "eng", "pt-BR": "por_Latn_BR", "sw": "swh_Latn", "zh-Hans": "zho_Hans"}
NUM_EXAMPLES = 25


@dataclass
class GreedySubwords(SubwordModel):
    """Splits text into the longest pieces it knows."""

    kind: ClassVar = "greedy"
    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.pieces())

    def pieces(self) -> list[str]:
        return [*SPECIAL_PIECES, *self.texts]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        pieces = self.pieces()
        pattern = "|".join(map(re.escape, sorted(self.texts, key=len, reverse=True))) or "(?!)"
        return [
            [pieces.index(piece) if piece in self.texts else UNK for piece in re.findall(f"{pattern}|.", marked)]
            for marked in ("▁" + text.strip().replace(" ", "▁") for text in texts)
        ]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        raise NotImplementedError


def make_trained(
    pieces: Sequence[str], codes: Sequence[str], methods: Sequence[MethodSettings], seed: int
) -> TrainedModel:
    torch.manual_seed(seed)
    vocabulary = Vocabulary(GreedySubwords(pieces), Languages(codes))
    model = Transformer(SETTINGS, methods, len(vocabulary.subword_model), len(codes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    return TrainedModel(model.eval(), vocabulary, (), {})


def start(new: TrainedModel, old: TrainedModel) -> WarmStartSummary:
    return copy_weights(old, new.model, new.vocabulary, "old")


def pieces() -> st.SearchStrategy[list[str]]:
    return st.lists(st.text(LETTERS, min_size=1, max_size=3), unique=True, max_size=8)


def methods() -> st.SearchStrategy[list[MethodSettings]]:
    return st.sampled_from(sorted(COMBINATIONS)).map(COMBINATIONS.__getitem__)


def codes() -> st.SearchStrategy[list[str]]:
    spelled = st.sampled_from(sorted(SPELLINGS.items())).flatmap(st.sampled_from)
    return st.lists(spelled, unique_by=canonical, min_size=1)


def canonical(code: str) -> str:
    return next(key for key, other in SPELLINGS.items() if code in (key, other))


@hypothesis_settings(max_examples=NUM_EXAMPLES)
@given(pieces(), pieces(), codes(), codes(), methods())
def test_rows_are_matched_by_piece_and_by_language(
    new_pieces: list[str],
    old_pieces: list[str],
    new_codes: list[str],
    old_codes: list[str],
    methods: list[MethodSettings],
) -> None:
    new, old = make_trained(new_pieces, new_codes, methods, 1), make_trained(old_pieces, old_codes, methods, 2)
    fresh = make_trained(new_pieces, new_codes, methods, 1).model
    summary = start(new, old)
    old_text = old.vocabulary.subword_model
    old_languages = {canonical(code): old.vocabulary.languages.id(code) for code in old_codes}
    for table, old_table, fresh_table in (
        (new.model.embedding.weight, old.model.embedding.weight, fresh.embedding.weight),
        (new.model.output_bias, old.model.output_bias, fresh.output_bias),
    ):
        assert table is not None
        assert old_table is not None
        assert fresh_table is not None
        for i, piece in enumerate(new.vocabulary.subword_model.pieces()):
            if piece in old_text.pieces():
                assert torch.equal(table[i], old_table[old_text.pieces().index(piece)])
                continue
            ids = [old_id for old_id in old_text.encode([piece.replace("▁", " ")])[0] if old_id != UNK]
            if [old_text.pieces()[old_id] for old_id in ids[:1]] == ["▁"] and (piece[0] != "▁" or len(ids) == 1):
                ids = ids[1:]
            torch.testing.assert_close(table[i], old_table[ids].mean(dim=0) if ids else fresh_table[i])
        old_tags = old_table[len(old_text) :]
        for i, code in enumerate(new.vocabulary.languages):
            row = table[len(new.vocabulary.subword_model) + i]
            same = old_languages.get(canonical(code))
            torch.testing.assert_close(row, old_tags.mean(dim=0) if same is None else old_tags[same])
    assert sorted(summary.new_languages) == sorted(c for c in new_codes if canonical(c) not in old_languages)
    assert len(summary.dropped_languages) == len({*map(canonical, old_codes)} - {*map(canonical, new_codes)})
    assert sum(summary.num_subwords[kind] for kind in ("copied", "mean", "random")) == len(new_pieces) + 3
    check_guidance(new, old, old_languages)
    old_weights = old.model.state_dict()
    for name, tensor in new.model.state_dict().items():
        if name.startswith(("encoder", "decoder")):
            assert torch.equal(tensor, old_weights[name])


def check_guidance(new: TrainedModel, old: TrainedModel, old_languages: dict[str, int]) -> None:
    """Check that the parameters of a language are those of the old model, or the identity."""
    old_parameters = dict(old.model.guidance.named_parameters())
    actual = {name: parameter.detach().clone() for name, parameter in new.model.guidance.named_parameters()}
    for _, method in new.model.guidance.named_methods():
        assert isinstance(method, GuidanceMethod)
        method.reset_to_identity()
    for name, identity in new.model.guidance.named_parameters():
        dim = name.rpartition("_")[2].index("L")
        for i, code in enumerate(new.vocabulary.languages):
            same = old_languages.get(canonical(code))
            expected = identity.select(dim, i) if same is None else old_parameters[name].select(dim, same)
            assert torch.equal(actual[name].select(dim, i), expected)


@pytest.mark.parametrize("name", [*COMBINATIONS, "all hooks"])
def test_logits_are_equal_where_nothing_is_new(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guidance_module, "METHODS", (*METHODS, Everywhere))
    methods = (COMBINATIONS | {"all hooks": [EverywhereSettings()]})[name]
    texts = [f"x{i}" for i in range(NUM_SUBWORDS - 3)]
    vocabulary = Vocabulary(GreedySubwords(texts), Languages(["de", "en", "sw"]))
    old = TrainedModel(tiny_model(methods, seed=1, output_bias=True), vocabulary, (), {})
    model = tiny_model(methods, seed=2, output_bias=True)
    summary = copy_weights(old, model, vocabulary, "old")
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), old.model.parameters(), strict=True))
    batch = random_batch(model)
    random_lang_B = batch.source_BS.sum(dim=1) % NUM_LANGUAGES
    logits = [
        each.logits(each(batch.source_BS, batch.input_BT, batch.lang_B, random_lang_B=random_lang_B).decoded)
        for each in (model, old.model)
    ]
    assert torch.equal(*logits)
    assert not summary.new_languages + summary.dropped_languages + summary.new_methods + summary.dropped_methods
    assert summary.num_subwords == {"copied": NUM_SUBWORDS, "mean": 0, "random": 0, "dropped": 0}


def test_a_subword_inside_a_word_starts_without_the_space() -> None:
    old = make_trained(["▁", "i", "n", "g", "▁g"], ["de"], [], 1)
    new = make_trained(["ing", "▁ing", "g", "<0x41>", "né", "é", "▁é"], ["de"], [], 2)
    fresh = new.model.embedding.weight.detach().clone()
    summary = start(new, old)
    rows, old_rows = new.model.embedding.weight[3:], old.model.embedding.weight[3:]
    torch.testing.assert_close(rows[0], old_rows[[1, 2, 3]].mean(dim=0))
    torch.testing.assert_close(rows[1], old_rows[[0, 1, 2, 3]].mean(dim=0))
    assert torch.equal(rows[2], old_rows[3])
    assert torch.equal(rows[3], fresh[6])
    assert torch.equal(rows[4], old_rows[2])
    assert torch.equal(rows[5:7], fresh[8:10])
    assert summary.num_subwords == {"copied": 4, "mean": 3, "random": 3, "dropped": 4}


def test_methods_that_the_old_model_lacks_have_no_effect() -> None:
    token = LanguageTokenSettings(side="target")
    old = make_trained(["a"], ["de", "en"], [token, LAASettings()], 1)
    new = make_trained(["a"], ["de", "en"], [token, AdapterSettings(), LALTSettings()], 2)
    summary = start(new, old)
    assert (summary.copied_methods, summary.new_methods) == (["token"], ["adapter", "lalt"])
    assert summary.dropped_methods == ["laa"]
    plain = make_trained(["a"], ["de", "en"], [token], 3)
    start(plain, old)
    source, target, lang_B = torch.tensor([[3, 1]]), torch.tensor([[1, 5, 3]]), torch.tensor([1])
    logits = [each.model.eval().logits(each.model(source, target, lang_B).decoded).detach() for each in (new, plain)]
    torch.testing.assert_close(*logits)
    lines = list(summary.format_lines())
    assert lines[1] == "  languages  2 copied (de, en), 0 new, 0 dropped"
    assert lines[2] == "  guidance   1 copied (token), 2 new (adapter, lalt), 1 dropped (laa)"


def test_settings_of_a_method_must_agree() -> None:
    old = make_trained(["a"], ["de"], [LAASettings(), LanguageTokenSettings()], 1)
    new = make_trained(["a"], ["de"], [LAASettings(sites=("dec.cross",)), LanguageTokenSettings()], 2)  # type: ignore[arg-type]
    before = [parameter.detach().clone() for parameter in new.model.parameters()]
    with pytest.raises(SettingsError, match=r"guidance.laa.sites is \[dec.cross\], but \[dec.self\] in old"):
        start(new, old)
    assert all(map(torch.equal, before, new.model.parameters()))
    start(make_trained(["a"], ["de"], [LAASettings(init_gain=1), LanguageTokenSettings(side="target")], 2), old)


@pytest.mark.parametrize(("old_rank", "rank"), [(None, 2), (2, None), (2, 3)])
def test_a_method_of_another_rank_is_new(old_rank: int | None, rank: int | None) -> None:
    old = make_trained(["a"], ["de", "en"], [AdapterSettings(rank=old_rank), LAASettings(rank=2)], 1)
    methods = [AdapterSettings(rank=rank, sites=("dec.self",)), LAASettings(rank=2)]  # type: ignore[arg-type]
    new = make_trained(["a"], ["de", "en", "sw"], methods, 2)
    summary = start(new, old)
    shown, old_shown = ("null" if each is None else each for each in (rank, old_rank))
    assert list(summary.format_lines())[2] == (
        f"  guidance   1 copied (laa), 1 new (adapter with rank {shown}), 1 dropped (adapter with rank {old_shown})"
    )
    plain = make_trained(["a"], ["de", "en", "sw"], [LAASettings(rank=2)], 3)
    start(plain, old)
    source, target, lang_B = torch.tensor([[3, 1]]), torch.tensor([[1, 5, 3]]), torch.tensor([1])
    logits = [each.model.eval().logits(each.model(source, target, lang_B).decoded).detach() for each in (new, plain)]
    torch.testing.assert_close(*logits)
    entries = {name: each for name, each in summary.new_entries.items() if name.startswith("guidance.")}
    assert all(each.is_whole == ("adapter" in name) for name, each in entries.items())
    for side in ("left", "right"):  # a new language starts at zero and can learn
        name = f"methods.laa.{side}_LDR"
        value_LDR, old_LDR = (each.model.guidance.get_parameter(name) for each in (new, old))
        assert torch.equal(value_LDR[:2], old_LDR)
        assert bool(value_LDR[2].any()) == (side == "right")
        assert entries[f"guidance.{name}"].indices == (2,)
