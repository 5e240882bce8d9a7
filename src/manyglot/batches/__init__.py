"""From a corpus to tensors: the prepared dataset, the token store, the plan of an epoch, the loader."""
