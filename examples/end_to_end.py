"""Prepare, train and evaluate in Python, with the functions behind the commands."""

import sys
from pathlib import Path

import manyglot

experiment = manyglot.read_experiment(Path(__file__).with_name("synthetic.yaml"), overrides=sys.argv[1:])
manyglot.prepare(experiment)
model = manyglot.train(experiment)
evaluation = manyglot.evaluate(model, experiment.data, zero_shot=True)
for group, scores in evaluation.averages().items():
    print(f"{group}: BLEU {scores['bleu']:.1f}, {scores['language_accuracy']:.0f}% in the right language")
