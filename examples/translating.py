"""All ways to translate from Python: lists, streams, alternatives with scores, several languages."""

import sys
from itertools import repeat

import manyglot

model = manyglot.load(sys.argv[1] if len(sys.argv) > 1 else "demo-run/run/model")

# A language is named as people name it; a list has one for each sentence.
print(model.translate(["in 3 weeks", "3 kilometers"], to="German"))
print(model.translate(["in 3 weeks", "3 kilometers"], to=["deu", "sw"]))

# The best translations of each sentence; the higher the score, the surer is the model.
for translation in model.hypotheses(["in 3 weeks"], to="de", n=3)[0]:
    print(f"{translation.score:.2f} {translation.text}")

# Every sentence into several languages, or into all without `to`.
for code, (sentence,) in model.translate_to_all(["in 3 weeks"], to=["de", "sw"]).items():
    print(code, sentence)

# As they come, in constant memory: this text has no end.
for number, sentence in enumerate(model.stream(repeat("in 3 weeks"), to="de")):
    print(sentence)
    if number == 2:
        break

# Faster, and a little worse.
print(model.with_settings(beam=1).translate(["in 3 weeks"], to="de"))
