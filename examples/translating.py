"""All ways to translate from Python: lists, streams, n-best lists with scores, several target languages."""

import sys
from itertools import repeat

import manyglot

model = manyglot.load(sys.argv[1] if len(sys.argv) > 1 else "demo-run/run/model")

# Languages may be given by code or name; a list has one target per sentence.
print(model.translate(["in 3 weeks", "3 kilometers"], to="German"))
print(model.translate(["in 3 weeks", "3 kilometers"], to=["deu", "sw"]))

# The n best translations of each sentence, with scores (higher is better).
for translation in model.translate_n_best(["in 3 weeks"], to="de", n=3)[0]:
    print(f"{translation.score:.2f} {translation.text}")

# Every sentence into several languages; without `to`, into all.
for code, (sentence,) in model.translate_to_all(["in 3 weeks"], to=["de", "sw"]).items():
    print(code, sentence)

# A stream in constant memory; this one never ends.
for index, sentence in enumerate(model.translate_stream(repeat("in 3 weeks"), to="de")):
    print(sentence)
    if index == 2:
        break

# Greedy search is faster and slightly worse.
print(model.with_settings(beam_size=1).translate(["in 3 weeks"], to="de"))

# Long text is split into sentences. Naming the source language improves the splitting.
print(model.translate(["March 5, 2024. 3 kilometers. 52 minutes."], to="de", source="English"))
print(model.with_text_options(split="always", copy_unknown=True, warn=False).translate(["in 3 weeks 🎉"], to="de"))

# Warnings name text that may be missing in the translation.
for warning in model.translate_n_best(["in 3 weeks 🎉"], to="de", n=1)[0][0].warnings:
    print(warning.message)
