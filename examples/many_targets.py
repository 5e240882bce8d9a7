"""Translate one batch into many languages: every sentence may have its own target."""

import sys

import manyglot

model = manyglot.load(sys.argv[1] if len(sys.argv) > 1 else "demo-run/run/model")
targets = list(model.languages)
for code, sentence in zip(targets, model.translate(["in 3 weeks"] * len(targets), to=targets), strict=True):
    print(f"{code}\t{sentence}")
