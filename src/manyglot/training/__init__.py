"""Training: the trainer, its steps, the loss, the learning rate schedule, validation, checkpoints and the dry run."""
