"""Translate lines of text with the model in this folder: python translate.py --to LANGUAGE < INPUT > OUTPUT."""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from onnxruntime import InferenceSession, SessionOptions
from sentencepiece import SentencePieceProcessor

PAD, EOS, UNK = 0, 1, 2


class Translator:
    """Translates with a batched beam search. Shape letters: B sentences, K beams, N = B·K rows, T tokens."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        options = SessionOptions()
        options.intra_op_num_threads = threads  # 0: all cores
        self.encoder = InferenceSession(str(folder / "encoder.onnx"), options, ["CPUExecutionProvider"])
        self.decoder = InferenceSession(str(folder / "decoder.onnx"), options, ["CPUExecutionProvider"])
        self.manifest = json.loads((folder / "manifest.json").read_bytes())
        self.pieces = json.loads((folder / "pieces.json").read_bytes())
        self.subwords = SentencePieceProcessor(model_file=str(folder / "subwords.model"))

    def translate(self, texts: list[str], to: str, source: str = "", batch_size: int = 32) -> list[str]:
        """Return the translations into one language. Few models need the language of the source."""
        id_of = {piece: i for i, piece in enumerate(self.pieces) if i > UNK}
        encoded = [[id_of.get(x, UNK) for x in self.subwords.encode(text, out_type=str)] for text in texts]
        order, found = np.argsort([len(ids) for ids in encoded]).tolist(), dict[int, tuple[float, list[int]]]()
        for batch in (order[start : start + batch_size] for start in range(0, len(order), batch_size)):
            found |= zip(batch, self.search([encoded[i] for i in batch], to, source), strict=True)
        return [self.subwords.decode([self.pieces[x] for x in found[i][1] if ids]) for i, ids in enumerate(encoded)]

    def search(self, sentences: list[list[int]], to: str, source: str = "") -> list[tuple[float, list[int]]]:
        """Return the score and the ids of the best translation of each sentence."""
        manifest, settings, tags = self.manifest, self.manifest["decoding"], self.manifest["tags"][to]
        beam_size = np.array([settings["beam_size"]])
        prefix = manifest["source_tags"].get(source, []) + tags["source"]
        sources = [[*prefix, *ids, EOS] for ids in sentences]
        if (longest := max(map(len, sources))) > manifest["max_tokens"]:
            raise ValueError(f"a sentence has {longest} tokens, more than {manifest['max_tokens']}.")
        limits = [int(settings["max_length_factor"] * len(ids)) + 10 for ids in sources]
        limit_B, row_B = np.minimum(limits, settings["max_length"]), np.arange(len(sources))
        finished: list[list[tuple[float, list[int]]]] = [[] for _ in sources]
        padded = np.array([ids + [PAD] * (longest - len(ids)) for ids in sources])
        state = {"source": padded, "language": np.array([manifest["languages"].index(to)])}
        state |= zip([x.name for x in self.encoder.get_outputs()], self.encoder.run(None, state), strict=True)
        caches = [name for name in state if name.startswith("past")]
        ids_NT, token_BK = np.zeros((len(sources), 0), int), np.full((len(sources), 1), tags["target"][0])
        for length in range(1 - len(tags["target"]), max(limit_B) + 1):  # negative until the last tag
            state |= {"token": token_BK, "must_end": limit_B == length, "beam_size": beam_size}
            *present, end_BK, end_parent_BK, score_BK, parent_BK, token_BK = self.decoder.run(None, state)
            state |= zip(caches, present, strict=True)
            if length < 0:
                token_BK = np.full((len(sources), 1), tags["target"][length])
                continue
            for b, k in np.argwhere(np.isfinite(end_BK)):
                score = float(end_BK[b, k]) / (length + 1 + manifest["num_scored_tags"]) ** settings["length_penalty"]
                finished[row_B[b]].append((score, ids_NT[end_parent_BK[b, k]].tolist()))
            keep_B = (limit_B > length) & [len(finished[row]) < settings["beam_size"] for row in row_B]
            if not keep_B.any():
                break
            row_B, limit_B, token_BK, parent_BK = (x[keep_B] for x in (row_B, limit_B, token_BK, parent_BK))
            ids_NT = np.hstack([ids_NT[parent_BK.ravel()], token_BK.reshape(-1, 1)])
            state |= {"score": score_BK[keep_B], "parent": parent_BK.ravel()}
            state |= {name: state[name][keep_B] for name in state if name.startswith(("source", "memory"))}
        return [max(hypotheses, key=lambda each: each[0]) for hypotheses in finished]


if __name__ == "__main__":
    translator = Translator(Path(__file__).parent)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", required=True, choices=translator.manifest["languages"])
    source_tags = translator.manifest["source_tags"]
    parser.add_argument("--from", dest="source", required=bool(source_tags), choices=source_tags)
    options = vars(parser.parse_args())
    texts = [line.decode("utf-8").rstrip("\r\n") for line in sys.stdin.buffer]
    sys.stdout.buffer.writelines(f"{text}\n".encode() for text in translator.translate(texts, **options))
