"""Translate with a trained model, in three lines."""

import sys

import manyglot

model = manyglot.load(sys.argv[1] if len(sys.argv) > 1 else "demo-run/run/model")
for sentence in model.translate(["Tuesday, March 5, 2024", "3 kilometers"], to="de"):
    print(sentence)
