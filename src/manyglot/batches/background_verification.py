"""Verification of a dataset's checksums in the background of training.

The main process reads all files of the dataset in a thread. Training asks for the outcome before it saves a checkpoint,
so no checkpoint comes from damaged data. Reading and hashing do not hold the lock of the interpreter, so training does
not wait for them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.distributed import DistributedContext
from manyglot.errors import FolderError, ManyglotError
from manyglot.progress import print_status

QUIET_SECONDS = 2.0
"""Training reports that it waits for the verification after this time."""


class BackgroundVerification:
    """A verification that runs in a thread of the main process. The other processes only learn its outcome."""

    def __init__(self, dataset: PreparedDataset, distributed: DistributedContext) -> None:
        self._dataset, self._distributed = dataset, distributed
        self._error: Exception | None = None
        self._is_cancelled = False
        self._thread = threading.Thread(target=self._verify, name="verification", daemon=True)
        if distributed.is_main:
            self._thread.start()

    @property
    def found_damage(self) -> bool:
        """Whether this process has found a damaged file so far."""
        return self._error is not None

    def raise_if_damaged(self) -> None:
        """Wait until all files are verified. If one is damaged, raise an error that names it, in every process."""
        self._wait()
        if self._distributed.any_process(self.found_damage):
            raise self._error or FolderError(f"{self._dataset.folder} is damaged. The main process names the file.")

    def raise_if_damage_explains_error(self) -> None:
        """Wait until all files are verified and raise if one is damaged, without asking the other processes."""
        self._wait()
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        """Stop reading."""
        self._is_cancelled = True
        if self._distributed.is_main:
            self._thread.join()

    def _wait(self) -> None:
        if not self._distributed.is_main:
            return
        self._thread.join(QUIET_SECONDS)
        if self._thread.is_alive():
            print_status(f"Waiting until the checksums of {self._dataset.folder} are verified.")
            self._thread.join()

    def _verify(self) -> None:
        try:
            self._dataset.verify(on_bytes=self._stop_if_cancelled)
        except _Cancelled:
            pass
        except Exception as error:  # raised in the main thread
            self._error = error

    def _stop_if_cancelled(self, num_bytes: int) -> None:
        if self._is_cancelled:
            raise _Cancelled


class _Cancelled(Exception):
    """The verification is no longer needed."""


@contextmanager
def verified_in_background(
    dataset: PreparedDataset, distributed: DistributedContext
) -> Iterator[BackgroundVerification]:
    """Verify a dataset during the block. If damaged data makes the block fail, raise the error that names the file."""
    verification = BackgroundVerification(dataset, distributed)
    try:
        yield verification
    except ManyglotError:
        raise
    except Exception:
        verification.raise_if_damage_explains_error()
        raise
    finally:
        verification.cancel()
