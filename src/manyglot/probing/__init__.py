"""What a model has learnt about its languages, told from what it keeps of each of them."""
