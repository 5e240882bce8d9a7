"""Models on the Hugging Face hub, named `hf://owner/name`, `hf://owner/name@revision` or `hf://owner/name/folder`.

`huggingface_hub`, an optional dependency, downloads and caches the files of a model. Without a network, it finds them
in its cache. It also handles access tokens; manyglot neither reads nor prints them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from manyglot.errors import FolderError, ManyglotError

_HUB_NAME = re.compile(
    r"hf:/{1,2}(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+?))?(?:/(?P<folder>[\w.-]+))?/?", re.ASCII
)
"""`Path` turns the two slashes into one."""
WEIGHTS_OF_OTHER_FRAMEWORKS = ("*.h5", "*.msgpack", "*.ot", "*.pt", "*.pth", "*.ckpt", "pytorch_model*.bin")
"""Files that manyglot never reads, and that are as large as the model. Some of them can execute code."""


def is_hub_name(name_or_path: str | os.PathLike[str]) -> bool:
    """Whether a text names a model on the hub rather than a local folder."""
    return os.fspath(name_or_path).startswith("hf:/")


def resolve_model(name_or_path: str | os.PathLike[str]) -> Path:
    """Return the local folder of a model; download a model of the hub into the cache of huggingface_hub first."""
    if not is_hub_name(name_or_path):
        return Path(name_or_path)
    match = _HUB_NAME.fullmatch(os.fspath(name_or_path))
    if match is None:
        raise FolderError(f"{name_or_path!s:.200} is not a valid name on the hub. It should look like hf://owner/name.")
    repository, revision, folder = match["repository"], match["revision"], match["folder"]
    return _download(repository, revision, folder) / (folder or "")


def _download(repository: str, revision: str | None, folder: str | None) -> Path:
    """Return the folder in the cache that has the files of a repository, or those of one folder in it."""
    hub = _import_huggingface_hub()
    errors, name = hub.errors, f"hf://{repository}" + (f"@{revision}" if revision else "")
    try:
        path = hub.snapshot_download(
            repository,
            revision=revision,
            allow_patterns=[f"{folder}/*"] if folder else None,
            ignore_patterns=list(WEIGHTS_OF_OTHER_FRAMEWORKS),
        )
    except errors.GatedRepoError:
        problem = "requires its owner's permission. Request access on its page on the hub, then run 'hf auth login'."
    except errors.RepositoryNotFoundError:
        problem = "does not exist, or it is private. Check the name; for a private model, run 'hf auth login'."
    except errors.RevisionNotFoundError:
        problem = f"has no revision {revision}. Check the name of the branch, tag or commit."
    except errors.HFValidationError:
        problem = "is not a valid name on the hub. It should look like hf://owner/name."
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled):
        problem = "is not in the cache, and the hub cannot be reached. Download it once while connected to a network."
    except (errors.HfHubHTTPError, OSError, ValueError) as error:  # its message may quote the request
        problem = f"cannot be downloaded ({type(error).__name__}). Try again, or download it with 'hf download'."
    else:
        return Path(path)
    raise FolderError(f"{name} {problem}") from None


def _import_huggingface_hub() -> Any:
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError:
        raise ManyglotError(
            "Install huggingface_hub to load models from the hub: pip install 'manyglot[hub]'."
        ) from None
    return huggingface_hub
