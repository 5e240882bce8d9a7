"""Translate lines of text with the ONNX model in this folder: python translate.py --to LANGUAGE < INPUT > OUTPUT.

Needs numpy, onnxruntime and sentencepiece. Shape letters: B sentences, K beams, C candidates, S and T tokens.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnxruntime import InferenceSession, OrtValue, SessionOptions
from sentencepiece import SentencePieceProcessor

PAD, EOS, UNK = 0, 1, 2


class Graph:
    """A graph of the model. Its outputs stay in ONNX Runtime, because caches are large and only fed back."""

    def __init__(self, path: Path, threads: int) -> None:
        options = SessionOptions()
        options.intra_op_num_threads = threads  # 0: all cores
        self.session = InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.outputs = [output.name for output in self.session.get_outputs()]

    def __call__(self, **inputs: Any) -> dict[str, Any]:
        """Return the outputs by name."""
        values = {k: OrtValue.ortvalue_from_numpy(x) if isinstance(x, np.ndarray) else x for k, x in inputs.items()}
        return dict(zip(self.outputs, self.session.run_with_ort_values(self.outputs, values), strict=True))


class Translator:
    """Translates between all languages of the model."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        self.manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
        self.pieces = json.loads((folder / "pieces.json").read_text("utf-8"))
        self.ids = {piece: i for i, piece in enumerate(self.pieces) if i > UNK}
        self.subwords = SentencePieceProcessor(model_file=str(folder / "subwords.model"))
        self.encoder, self.decoder = (Graph(folder / name, threads) for name in ("encoder.onnx", "decoder.onnx"))

    def translate(
        self, texts: Sequence[str], to: Sequence[str], source: Sequence[str] = (), batch_size: int = 32
    ) -> list[tuple[str, float]]:
        """Return the translation and the score of each sentence.

        `to` has the target language of each, and `source` the source language, which only some models need.
        """
        ids = [[self.ids.get(piece, UNK) for piece in self.subwords.encode(text, out_type=str)] for text in texts]
        rows = sorted((i for i, subwords in enumerate(ids) if subwords), key=lambda i: len(ids[i]))
        results = [("", 0.0)] * len(texts)
        for batch in (rows[start : start + batch_size] for start in range(0, len(rows), batch_size)):
            sources = [self.add_tags(ids[i], to[i], source[i] if source else None) for i in batch]
            for i, (score, found) in zip(batch, self.search(sources, [to[i] for i in batch]), strict=True):
                results[i] = self.subwords.decode([self.pieces[id] for id in found]), score
        return results

    def add_tags(self, ids: Sequence[int], to: str, source: str | None = None) -> list[int]:
        """Return the encoder's input: subwords with the tags of the languages and the end symbol."""
        source_tags = self.manifest["source_language_tags"]
        return [*([source_tags[source]] if source_tags else []), *self.manifest["tags"][to]["source"], *ids, EOS]

    def search(self, sources: Sequence[Sequence[int]], to: Sequence[str]) -> list[tuple[float, list[int]]]:
        """Return the score and the ids of the best translation of each sentence, found by beam search."""
        settings, tags = self.manifest["decoding"], [self.manifest["tags"][code] for code in to]
        source_BS = np.array(list(itertools.zip_longest(*sources, fillvalue=PAD))).T
        if source_BS.shape[1] > self.manifest["max_tokens"]:
            raise ValueError(f"a sentence has {source_BS.shape[1]} tokens, more than {self.manifest['max_tokens']}.")
        limits = [int(settings["max_length_factor"] * len(source)) + 10 for source in sources]
        limit_B, beam_size = np.minimum(limits, settings["max_length"]), settings["beam_size"]
        language_B = np.array([self.manifest["languages"].index(code) for code in to])
        language_B = language_B[:1] if len(set(to)) == 1 else language_B  # one id for all sentences is faster
        state = {"source": source_BS, "language": language_B} | self.encoder(source=source_BS, language=language_B)
        state |= {"score": np.zeros((len(to), 1), np.float32), "parent": np.arange(len(to))}
        for cache in (each for each in self.decoder.session.get_inputs() if each.name.startswith("past")):
            state[cache.name] = np.zeros((len(to), cache.shape[1], 0, cache.shape[3]), np.float32)
        num_candidates = np.array([min(2 * beam_size, len(self.pieces))])

        def step(token_BK: Any, length: int) -> Iterator[Any]:
            """Append a token to each beam and return the best continuations: scores, beams and tokens."""
            output = self.decoder(**state, token=token_BK, must_end=limit_B == length, num_candidates=num_candidates)
            state.update({name.replace("present", "past"): x for name, x in output.items() if "present" in name})
            return (output[f"candidate_{name}"].numpy() for name in ("score", "beam", "token"))

        for prefix in zip(*(tag["target"] for tag in tags), strict=True):
            score_BC, beam_BC, token_BC = step(np.array(prefix)[:, None], 0)
        row_B, ids_BKT = np.arange(len(to)), np.zeros((len(to), 1, 0), np.int64)
        finished: list[list[tuple[float, list[int]]]] = [[] for _ in to]
        length = 0
        while True:
            ends_BC, is_best_C = token_BC == EOS, np.arange(token_BC.shape[1]) < beam_size
            for b, c in np.argwhere(ends_BC & is_best_C & np.isfinite(score_BC)):
                divisor = (length + 1 + self.manifest["num_scored_tags"]) ** settings["length_penalty"]
                finished[row_B[b]].append((float(score_BC[b, c]) / divisor, ids_BKT[b, beam_BC[b, c]].tolist()))
            keep_B = np.array([len(finished[row]) < beam_size for row in row_B]) & (limit_B > length)
            if not keep_B.any():
                return [max(hypotheses, key=lambda each: each[0]) for hypotheses in finished]
            survivor_BK = np.argsort(ends_BC[keep_B], axis=1, kind="stable")[:, :beam_size]
            state["score"], beam_BK, token_BK = (
                np.take_along_axis(x[keep_B], survivor_BK, axis=1) for x in (score_BC, beam_BC, token_BC)
            )
            state["parent"] = (np.flatnonzero(keep_B)[:, None] * ids_BKT.shape[1] + beam_BK).ravel()
            past_BKT = np.take_along_axis(ids_BKT[keep_B], beam_BK[:, :, None], axis=1)
            ids_BKT = np.concatenate([past_BKT, token_BK[:, :, None]], axis=2)
            if not keep_B.all():  # drop the finished sentences
                row_B, limit_B = row_B[keep_B], limit_B[keep_B]
                for name in (each for each in state if each.startswith(("source", "language", "memory"))):
                    value = state[name].numpy() if isinstance(state[name], OrtValue) else state[name]
                    state[name] = OrtValue.ortvalue_from_numpy(value[keep_B] if len(value) > 1 else value)
            length += 1
            score_BC, beam_BC, token_BC = step(token_BK, length)


def main() -> None:
    """Translate the standard input, one sentence per line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", required=True, help="target language")
    parser.add_argument("--from", dest="source", help="source language, which only some models need")
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    options = parser.parse_args()
    translator = Translator(Path(__file__).parent, options.threads)
    needed = {"--to": options.to} | ({"--from": options.source} if translator.manifest["source_language_tags"] else {})
    for option, code in needed.items():
        if code not in translator.manifest["languages"]:
            parser.error(f"{option}: '{code}' is not one of {', '.join(translator.manifest['languages'])}.")
    texts = [line.decode("utf-8").rstrip("\r\n") for line in sys.stdin.buffer]
    try:
        for text, _ in translator.translate(texts, [options.to] * len(texts), [options.source] * len(texts)):
            sys.stdout.buffer.write(f"{text}\n".encode())
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
