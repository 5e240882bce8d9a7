"""Compares an imported model with the model of transformers: subword ids, logits and beam search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

import manyglot
from manyglot.decoding.engine import SearchRequest
from manyglot.importers.huggingface_folder import HuggingFaceFolder
from manyglot.importers.huggingface_tokenizers import read_tokenizer
from manyglot.vocabulary.subword_model import EOS, PAD

BEAM_SIZE, TIE = 5, 1e-5


@dataclass
class BeamComparison:
    """How the outputs of two beam searches compare."""

    num_equal: int = 0
    num_ties: int = 0
    """Different outputs whose scores differ by less than `TIE`."""
    num_at_limit: int = 0
    """Equal outputs of maximum length, where both searches force the end symbol."""
    different: tuple[tuple[str, float, float], ...] = ()
    """Sentences with different outputs, and their scores in transformers and here."""
    lengths: tuple[int, ...] = ()


class ModelPair:
    """A model of transformers and the model folder that was imported from it."""

    def __init__(self, folder: Path, imported: Path) -> None:
        import transformers

        self.theirs: Any = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
        self.translator = manyglot.load(imported, device="cpu")
        self.ours, self.vocabulary = self.translator.engine.model, self.translator.vocabulary
        self.table = read_tokenizer(HuggingFaceFolder.read(folder)).table
        self.num_rows = self.theirs.config.vocab_size
        self.order = self.table.row_order(self.num_rows, self.vocabulary.languages)
        self.our_ids = {row: i for i, row in enumerate(self.order)}
        self.is_marian = self.theirs.config.model_type == "marian"

    def differing_texts(self, texts: Sequence[str], targets: bool = False) -> list[str]:
        """Return the texts whose subwords differ."""
        key = "text_target" if targets else "text"
        expected = self.tokenizer(**{key: list(texts)}, add_special_tokens=False)["input_ids"]
        encode = self.vocabulary.encode_targets if targets else self.vocabulary.encode
        return [
            text
            for text, ours, theirs in zip(texts, encode(texts), expected, strict=True)
            if [self.order[i] for i in ours] != theirs
        ]

    def inputs(self, texts: Sequence[str], source: str, target: str) -> tuple[Any, torch.Tensor]:
        """Return the inputs of both models. They must be equal, tags and end symbols included."""
        languages, tags = self.vocabulary.languages, self.table.tags
        if self.is_marian:
            tagged = [f"{tags[target]}{text}" for text in texts] if self.ours.guidance.affects_encoder else list(texts)
            theirs = self.tokenizer(tagged, return_tensors="pt", padding=True)
        else:
            self.tokenizer.src_lang = tags[source].strip("_")
            theirs = self.tokenizer(list(texts), return_tensors="pt", padding=True)
        source_tag = [self.vocabulary.tag_id(languages.id(source))] if self.ours.settings.source_tag else []
        target_tag = self.ours.tags_by_language()[languages.id(target)].source
        rows = [[*source_tag, *target_tag, *ids, EOS] for ids in self.vocabulary.encode(texts)]
        source_BS = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
        assert torch.equal(torch.tensor(self.order)[source_BS], theirs["input_ids"])
        return theirs, source_BS

    def largest_logit_difference(self, texts: Sequence[str], outputs: Sequence[str], source: str, target: str) -> float:
        """Return the largest difference of a logit, with given outputs in the decoder."""
        languages = self.vocabulary.languages
        theirs, source_BS = self.inputs(texts, source, target)
        tags = self.ours.tags_by_language()[languages.id(target)]
        rows = [[tags.start, *tags.target, *ids] for ids in self.vocabulary.encode_targets(outputs)]
        input_BT = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
        is_token_BT = pad_sequence([torch.ones(len(row), dtype=torch.bool) for row in rows], batch_first=True)
        with torch.inference_mode():
            expected = self.theirs(**theirs, decoder_input_ids=torch.tensor(self.order)[input_BT]).logits
            lang_B = torch.full((len(texts),), languages.id(target))
            logits = self.ours.logits(self.ours(source_BS, input_BT, lang_B).decoded)
        aligned = logits[..., [self.our_ids[row] for row in range(self.num_rows)]]
        torch.testing.assert_close(  # whatever further tags there are, they have no probability
            aligned.logsumexp(-1)[is_token_BT], logits.logsumexp(-1)[is_token_BT], rtol=0, atol=1e-5
        )
        return float((aligned - expected)[is_token_BT].abs().max())

    def compare_beams(self, texts: Sequence[str], source: str, target: str, max_length: int = 100) -> BeamComparison:
        """Compare the best outputs of a beam search."""
        theirs, _ = self.inputs(texts, source, target)
        tags, never = self.table.tags, [self.table.pad, self.table.unk, *self.table.tags.values()]
        forced = {} if self.is_marian else {"forced_bos_token_id": self.table.token_ids[tags[target]]}
        result = self.theirs.generate(
            **theirs,
            **forced,
            num_beams=BEAM_SIZE,
            early_stopping=True,
            length_penalty=1.0,
            max_length=max_length,
            forced_eos_token_id=self.table.token_ids[self.table.eos],
            bad_words_ids=[[self.table.token_ids[token]] for token in never],
            return_dict_in_generate=True,
            output_scores=True,
        )
        num_forced = 1 + len(forced)
        languages, limit = self.vocabulary.languages, max_length - 1 - num_forced
        settings = self.translator.settings.model_copy(
            update={"beam_size": BEAM_SIZE, "length_penalty": 1.0, "max_length": limit, "max_length_factor": 1000.0}
        ).model_copy(update={"precision": "float32"})
        request = SearchRequest(
            sources=self.vocabulary.encode(texts),
            target_language_ids=[languages.id(target)] * len(texts),
            source_language_ids=[languages.id(source)] * len(texts),
            settings=settings,
            num_hypotheses=1,
        )
        comparison = BeamComparison()
        found = self.translator.engine.search(request)
        sequences, scores = result.sequences.tolist(), result.sequences_scores.tolist()
        for text, (best,), sequence, score in zip(texts, found, sequences, scores, strict=True):
            ids = [self.our_ids[row] for row in sequence[num_forced:]]
            ids = ids[: ids.index(EOS)] if EOS in ids else ids
            comparison.lengths += (len(ids),)
            if ids == list(best.ids) and abs(best.score - score) < 1e-4:
                comparison.num_equal += 1
                comparison.num_at_limit += len(ids) >= limit
            elif abs(best.score - score) < TIE:
                comparison.num_ties += 1
            else:
                comparison.different += ((text, score, best.score),)
        return comparison
