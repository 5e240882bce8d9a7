"""Searching with one exported CTranslate2 model, with the results of our own `BeamSearch`.

CTranslate2's beam search is ours in the main: of the best 2K candidates, those that end the sentence and are among the
first K are finished, and a sentence is done when K are. What is made equal here:

| CTranslate2 | ours |
|---|---|
| the length in a score counts the tags before the target | counts them only where they are predicted |
| a tag that is forced scores 0 | has its log-probability, where it is predicted |
| without a length penalty the search may stop early | it does not |
| a symbol that is suppressed leaves the softmax | tags, <pad> and <unk> keep their share, but are never written |
| a call has one maximum length | each sentence has its own |
| at the maximum length a hypothesis stops as it is | it ends there, and the end is scored |

So nothing is suppressed at first, for such symbols hardly ever come among the candidates. A hypothesis with one of them
is dropped; if it is the best, the sentence is searched again with all of them suppressed. One that reaches its maximum
length is searched again up to there. What stays different: fewer hypotheses in these cases, or probabilities a little
higher; and right after a tag that is forced, only the best candidate may end the sentence. docs/export.md says how
often that matters.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manyglot.decoding.beam import DecodingSettings, Hypothesis
from manyglot.decoding.ctranslate2 import import_ctranslate2
from manyglot.decoding.ctranslate2.manifest import Manifest, TagNames
from manyglot.errors import FolderError, ManyglotError
from manyglot.vocabulary.subwords import EOS, UNK

NO_PENALTY = 1e-6
"""A length penalty that changes no order; with 0, CTranslate2 would stop when the best hypothesis ends."""
IMPOSSIBLE = -1e9
"""Log-probabilities below are CTranslate2's way to say minus infinity."""


@dataclass(frozen=True)
class _Sentence:
    """A sentence as CTranslate2 reads it, and what our search knows of it."""

    source: list[str]
    """Tags and subwords; the model adds the end."""
    tags: TagNames
    limit: int
    """The maximum length of the output, tags and end not counted."""
    tag_score: float = 0.0
    """Log-probability of the tags before the target, where they are predicted."""

    @property
    def prefix(self) -> list[str]:
        """What the output begins with."""
        return list(self.tags.target)

    def score(self, found: _Found, length_penalty: float) -> float:
        """The score of our search."""
        length = len(found.words) + 1 + (len(self.prefix) if self.tags.predicted else 0)
        return (found.log_probability + self.tag_score) / float(length**length_penalty)


@dataclass(frozen=True)
class _Found:
    """A hypothesis of CTranslate2."""

    words: list[str]
    log_probability: float
    ended: bool
    """Whether it ends by itself, and the end is in the log-probability."""


def _best(sentence: _Sentence, found: Sequence[_Found], settings: DecodingSettings) -> _Found:
    return max(found, key=lambda each: sentence.score(each, settings.length_penalty))


class ExportedModel:
    """One folder of CTranslate2 with its manifest."""

    def __init__(self, folder: Path, manifest: Manifest, device: str, threads: tuple[int, int]) -> None:
        self.folder, self.manifest, (self.num_at_once, threads_each) = folder, manifest, threads
        try:
            self.names: list[str] = json.loads((folder / "shared_vocabulary.json").read_text("utf-8"))
            self.translator = import_ctranslate2().Translator(
                str(folder), device=device, inter_threads=self.num_at_once, intra_threads=threads_each
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise FolderError(f"CTranslate2 cannot use {folder} on the device {device} ({error}).") from None
        self.ids = {name: i for i, name in enumerate(self.names)}
        if unknown := manifest.symbols() - self.ids.keys():
            raise FolderError(f"{folder} has no symbol {min(unknown)}, of which its manifest speaks. Export it again.")
        self.never_written = {*manifest.suppressed, self.names[UNK]}

    def search(
        self, sources: Sequence[Sequence[int]], codes: Sequence[str], settings: DecodingSettings
    ) -> list[list[Hypothesis]]:
        """The finished hypotheses of each sentence, best first; codes are those of the target languages."""
        sentences = self._sentences(sources, codes, settings)
        found = self._search(sentences, settings)
        spoilt = [i for i, each in enumerate(found) if not self._may_be_written(_best(sentences[i], each, settings))]
        again = self._search([sentences[i] for i in spoilt], settings, suppressed=True)
        for i, each in zip(spoilt, again, strict=True):
            found[i] = each
        return [self._hypotheses(s, each, settings) for s, each in zip(sentences, found, strict=True)]

    def _may_be_written(self, found: _Found) -> bool:
        return self.never_written.isdisjoint(found.words) and found.log_probability > IMPOSSIBLE

    def _hypotheses(self, sentence: _Sentence, found: Sequence[_Found], settings: DecodingSettings) -> list[Hypothesis]:
        hypotheses = [
            Hypothesis(tuple(self.ids[word] for word in each.words), sentence.score(each, settings.length_penalty))
            for each in found
            if self._may_be_written(each)
        ]
        return sorted(hypotheses, key=lambda h: -h.score)[: settings.beam]

    def _sentences(
        self, sources: Sequence[Sequence[int]], codes: Sequence[str], settings: DecodingSettings
    ) -> list[_Sentence]:
        sentences = []
        for ids, code in zip(sources, codes, strict=True):
            tags = self.manifest.targets[code]
            source = [*tags.source, *(self.names[i] for i in ids)]
            sentence = _Sentence(source, tags, settings.limit(len(source) + 1))
            longest = 1 + max(len(source), len(tags.target) + sentence.limit)
            if longest > self.manifest.positions:
                raise ManyglotError(
                    f"The exported model reads and writes at most {self.manifest.positions} tokens; "
                    f"a sentence of {len(source)} with decoding.max_length {settings.max_length} may need {longest}."
                )
            sentences.append(sentence)
        return self._with_tag_scores(sentences)

    def _with_tag_scores(self, sentences: Sequence[_Sentence]) -> list[_Sentence]:
        predicted = [bool(s.prefix) and s.tags.predicted for s in sentences]
        if not any(predicted):
            return list(sentences)
        scores = self._log_probabilities(sentences, [s.prefix for s in sentences])
        return [
            replace(s, tag_score=sum(score[: len(s.prefix)])) if counts else s
            for s, score, counts in zip(sentences, scores, predicted, strict=True)
        ]

    def _search(
        self, sentences: Sequence[_Sentence], settings: DecodingSettings, suppressed: bool = False
    ) -> list[list[_Found]]:
        """Search with sentences of similar maximum lengths together, and again where one reaches its own."""
        found = self._in_groups(sentences, [s.limit.bit_length() for s in sentences], settings, suppressed)
        # The longest hypothesis ended last: where it is shorter than the limit, the search was over before.
        long = [i for i, s in enumerate(sentences) if any(len(each.words) >= s.limit for each in found[i])]
        again = self._search_to_limit([sentences[i] for i in long], settings, suppressed)
        for i, each in zip(long, again, strict=True):
            found[i] = each
        return found

    def _search_to_limit(
        self, sentences: Sequence[_Sentence], settings: DecodingSettings, suppressed: bool
    ) -> list[list[_Found]]:
        """Search up to the maximum length of each sentence, and end what has not ended there.

        Fewer than K hypotheses end before, so more patience changes nothing but that all of them are returned.
        """
        found = self._in_groups(sentences, [s.limit for s in sentences], settings, suppressed, patience=2)
        cut = [(i, k) for i, each in enumerate(found) for k, hypothesis in enumerate(each) if not hypothesis.ended]
        targets = [sentences[i].prefix + found[i][k].words for i, k in cut]
        for (i, k), scores in zip(cut, self._log_probabilities([sentences[i] for i, _ in cut], targets), strict=True):
            found[i][k] = replace(found[i][k], log_probability=found[i][k].log_probability + scores[-1], ended=True)
        return found

    def _in_groups(
        self,
        sentences: Sequence[_Sentence],
        keys: Sequence[int],
        settings: DecodingSettings,
        suppressed: bool,
        patience: int = 1,
    ) -> list[list[_Found]]:
        """Start the search for each group of sentences, told by its key, and collect what they find."""
        rows_of: dict[int, list[int]] = defaultdict(list)
        for row, key in enumerate(keys):
            rows_of[key].append(row)
        groups = [
            (rows, self._start([sentences[i] for i in rows], settings, suppressed, patience))
            for rows in rows_of.values()
        ]
        found: list[list[_Found]] = [[] for _ in sentences]
        penalty = settings.length_penalty or NO_PENALTY
        for rows, results in groups:
            for row, waiting in zip(rows, results, strict=True):
                result = waiting.result()
                for tokens, score in zip(result.hypotheses, result.scores, strict=True):
                    found[row].append(self._read(sentences[row], tokens, score * len(tokens) ** penalty))
        return found

    def _read(self, sentence: _Sentence, tokens: list[str], log_probability: float) -> _Found:
        """Take the tags and the end away."""
        words, ended = tokens[len(sentence.prefix) :], tokens[-1] == self.names[EOS]
        return _Found(words[:-1] if ended else words, log_probability, ended)

    def _start(
        self, sentences: Sequence[_Sentence], settings: DecodingSettings, suppressed: bool, patience: int
    ) -> Any:
        """Let CTranslate2 sort and cut the sentences into batches, and search on its threads."""
        lengths = [len(s.source) + 1 for s in sentences]
        share = -(-sum(lengths) // self.num_at_once)
        return self.translator.translate_batch(
            [s.source for s in sentences],
            target_prefix=[s.prefix for s in sentences] if any(s.prefix for s in sentences) else None,
            max_batch_size=min(settings.max_tokens, settings.max_sentences * min(lengths), share),
            batch_type="tokens",
            asynchronous=True,
            beam_size=settings.beam,
            patience=patience,
            num_hypotheses=1 if settings.beam == 1 else patience * settings.beam,
            length_penalty=settings.length_penalty or NO_PENALTY,
            suppress_sequences=[[name] for name in self.never_written] if suppressed else None,
            return_end_token=True,
            max_input_length=0,
            max_decoding_length=max(len(s.prefix) + s.limit for s in sentences),
            min_decoding_length=0,
            return_scores=True,
        )

    def _log_probabilities(self, sentences: Sequence[_Sentence], targets: Sequence[list[str]]) -> list[list[float]]:
        """Of each symbol of the targets and of their ends, all symbols being possible."""
        if not sentences:
            return []
        most = self.manifest.decoding.max_tokens
        sources = [s.source for s in sentences]
        results = self.translator.score_batch(
            sources, targets, max_batch_size=most, batch_type="tokens", max_input_length=0
        )
        return [list(result.log_probs) for result in results]
