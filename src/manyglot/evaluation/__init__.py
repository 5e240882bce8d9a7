"""Evaluation: BLEU, chrF++ and language accuracy of every direction, comparison of runs, and significance tests."""
