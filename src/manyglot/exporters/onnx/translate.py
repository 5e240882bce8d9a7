"""Translate lines of text with the model in this folder: python translate.py --to LANGUAGE < INPUT > OUTPUT."""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from onnxruntime import InferenceSession, SessionOptions
from sentencepiece import SentencePieceProcessor

PAD, EOS, UNK, FREE = 0, 1, 2, -1


class Translator:
    """Translates with a batched beam search. Shape letters: B sentences, K beams, N = B·K rows, T tokens."""

    def __init__(self, folder: Path, options: SessionOptions | None = None) -> None:
        self.encoder, self.decoder = (InferenceSession(str(folder / f"{x}coder.onnx"), options) for x in ("en", "de"))
        self.manifest, self.pieces = (json.loads((folder / f"{x}.json").read_bytes()) for x in ("manifest", "pieces"))
        self.subwords = SentencePieceProcessor(model_file=str(folder / "subwords.model"))

    def translate(self, texts: list[str], to: str, source: str = "") -> list[str]:
        """Return the translations into one language. Few models need the language of the source."""
        id_of, outputs = {piece: i for i, piece in enumerate(self.pieces) if i > UNK}, [""] * len(texts)
        encoded = [[id_of.get(piece, UNK) for piece in self.subwords.encode(text, out_type=str)] for text in texts]
        order = sorted((i for i in range(len(texts)) if encoded[i]), key=lambda i: len(encoded[i]))
        for batch in (order[start : start + 32] for start in range(0, len(order), 32)):
            for i, (_, ids) in zip(batch, self.search([encoded[i] for i in batch], to, source), strict=True):
                outputs[i] = self.subwords.decode([self.pieces[x] for x in ids])
        return outputs

    def search(self, sentences: list[list[int]], to: str, source: str = "") -> list[tuple[float, list[int]]]:
        """Return the score and the ids of the best translation of each sentence."""
        manifest, settings, tags = self.manifest, self.manifest["decoding"], self.manifest["tags"][to]
        sources = [[*manifest["source_tags"].get(source, []), *tags["source"], *ids, EOS] for ids in sentences]
        if (longest := max(map(len, sources))) > manifest["max_tokens"]:
            raise ValueError(f"Shorten or split a sentence of {longest} tokens; the limit is {manifest['max_tokens']}.")
        limits = [min(settings["max_length"], int(settings["max_length_factor"] * len(x)) + 10) for x in sources]
        limit_B, row_B, (start, *forced) = np.array(limits), np.arange(len(sources)), tags["target"]
        length = -len(forced)  # not counting tags
        state = {"source": np.array([ids + [PAD] * (longest - len(ids)) for ids in sources])}
        state |= {"language": np.array([manifest["languages"].index(to)])}
        state |= zip([x.name for x in self.encoder.get_outputs()], self.encoder.run(None, state), strict=True)
        state |= {"beam_size": np.array([settings["beam_size"]]), "token": np.full((len(sources), 1), start)}
        finished: list[list[tuple[float, list[int]]]] = [[] for _ in sources]
        ids_NT, caches = np.zeros((len(sources), 0), int), [name for name in state if "past" in name]
        while len(row_B):
            state["forced"] = np.where(limit_B == length, EOS, forced[length] if length < 0 else FREE)
            *present, end_BK, end_parent_BK, score_BK, parent_BK, token_BK = self.decoder.run(None, state)
            for b, k in np.argwhere(np.isfinite(end_BK)):
                score = float(end_BK[b, k]) / (length + 1 + manifest["num_scored_tags"]) ** settings["length_penalty"]
                finished[row_B[b]].append((score, ids_NT[end_parent_BK[b, k], len(forced) :].tolist()))
            keep_B = (limit_B > length) & [len(finished[row]) < settings["beam_size"] for row in row_B]
            row_B, limit_B, parent_BK, token_BK = (x[keep_B] for x in (row_B, limit_B, parent_BK, token_BK))
            ids_NT = np.hstack([ids_NT[parent_BK.ravel()], token_BK.reshape(-1, 1)])
            state |= {name: state[name][keep_B] for name in state if name.startswith(("source", "memory"))}
            state |= {"score": score_BK[keep_B], "parent": parent_BK.ravel(), "token": token_BK}
            state, length = state | dict(zip(caches, present, strict=True)), length + 1
        return [max(hypotheses, key=lambda each: each[0]) for hypotheses in finished]


if __name__ == "__main__":
    sys.tracebacklimit = 0  # errors are one line
    translator, parser = Translator(Path(__file__).parent), argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", required=True, choices=translator.manifest["languages"])
    sources = translator.manifest["source_tags"]
    parser.add_argument("--from", dest="source", required=bool(sources), choices=sources)
    options, texts = vars(parser.parse_args()), [line.decode("utf-8").rstrip("\r\n") for line in sys.stdin.buffer]
    sys.stdout.buffer.writelines(f"{text}\n".encode() for text in translator.translate(texts, **options))
