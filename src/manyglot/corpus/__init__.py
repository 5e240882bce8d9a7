"""Where sentences come from: languages, directions, readers of text, cleaning, and the built-in corpora."""
