"""From a corpus to batches: the prepared dataset, its token store and pair index, the batch plan and the loader."""
