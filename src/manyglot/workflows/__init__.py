"""The commands end to end: one file per command, with a function of the same name."""
