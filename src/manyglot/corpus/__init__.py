"""Sources of sentences: languages, directions, corpus readers, cleaning and the built-in corpora."""
