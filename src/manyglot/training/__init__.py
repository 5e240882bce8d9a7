"""Learning: the loss, the learning rate, the loop, and checkpoints to resume from."""
