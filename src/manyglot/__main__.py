"""``python -m manyglot`` is the command ``manyglot``."""

from manyglot.cli import main

main()
