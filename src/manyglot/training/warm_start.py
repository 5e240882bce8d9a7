"""The section `init`: training starts from the weights of another model."""

from __future__ import annotations

from pathlib import Path

from manyglot.config.base_settings import Settings
from manyglot.errors import FolderError
from manyglot.model.model_folder import TrainedModel
from manyglot.model.run_models import load_any_model
from manyglot.training.freezing import FrozenParts, FrozenWeights


class InitSettings(Settings):
    """Training starts from the weights of another model, which may have other languages, subwords and guidance."""

    model: Path
    """A model folder, a run, a checkpoint or hf://owner/name. The settings that the section `model` leaves out are
    those of this model, and so is `guidance` if it is left out. A resumed run reads it only if something is frozen."""
    freeze: FrozenParts = ()
    """Parts that keep the weights of the model: encoder, decoder, embeddings, guidance, or `{everything_but: […]}`.
    What the model does not have, such as the rows of new subwords and languages, is trained all the same."""

    @property
    def freezes_something(self) -> bool:
        """Whether a part keeps the weights of the model."""
        return bool(FrozenWeights(self.freeze).parts)

    def load_model(self) -> TrainedModel:
        """Load the model."""
        try:
            return load_any_model(self.model)
        except FolderError as error:
            raise FolderError(f"init.model: {error}") from None
