"""Run a function over many tasks in worker processes, one per core.

Workers are fresh processes (`spawn`), so they never inherit the threads or the GPU context of this one. A worker
imports only the module of its function. Its numerical libraries use one thread, because every core has a worker.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from threading import Thread
from typing import Any, TypeVar

from manyglot.errors import ManyglotError

T = TypeVar("T")
R = TypeVar("R")
TASKS_PER_WORKER = 3
"""Tasks that are submitted ahead, per worker. It bounds the memory of tasks and results that wait."""
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def num_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def run_in_workers(
    function: Callable[[T], R],
    tasks: Iterable[T],
    num_workers: int | None = None,
    initializer: Callable[..., object] | None = None,
    initializer_arguments: tuple[Any, ...] = (),
) -> Iterator[R]:
    """Yield the results of all tasks in order; by default, one worker per core computes them.

    Each worker first calls `initializer`. With one worker, everything runs in this process. Tasks are taken from the
    iterable only when a worker will soon need them.
    """
    num_workers = num_workers or num_cores()
    if num_workers == 1:
        if initializer is not None:
            initializer(*initializer_arguments)
        yield from map(function, tasks)
        return
    context = get_context("spawn")
    states_reader, states_writer = context.Pipe(duplex=False)
    state = bytes(ForkingPickler.dumps((initializer, initializer_arguments)))
    # A process starts only after its arguments are read, so a large state among them would delay the next process.
    sender = Thread(target=_send_copies, args=(states_writer, state, num_workers), daemon=True)
    sender.start()
    pool = ProcessPoolExecutor(num_workers, context, _start_worker, (states_reader, context.Lock()))
    remaining, running = iter(tasks), deque[Future[R]]()

    def submit(num_tasks: int) -> None:
        for task in islice(remaining, num_tasks):
            with _single_threaded_children():  # submitting may start a process
                running.append(pool.submit(function, task))

    try:
        submit(TASKS_PER_WORKER * num_workers)
        while running:
            result = running.popleft().result()
            submit(1)
            yield result
    except BrokenProcessPool:
        raise ManyglotError(
            "A worker process ended before its work was done, perhaps because memory ran out (free some, or use fewer "
            "cores with `taskset -c 0 manyglot …`), or because a script calls manyglot outside of "
            '`if __name__ == "__main__":`.'
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)
        states_reader.close()
        sender.join()
        states_writer.close()


def _send_copies(states: Connection, state: bytes, num_copies: int) -> None:
    with suppress(BrokenPipeError):  # the reader is closed, because not all workers were needed
        for _ in range(num_copies):
            states.send_bytes(state)


def _start_worker(states: Connection, lock: AbstractContextManager[object]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the main one ends the workers
    with lock:
        state = states.recv_bytes()
    initializer, arguments = ForkingPickler.loads(state)
    if initializer is not None:
        initializer(*arguments)


@contextmanager
def _single_threaded_children() -> Iterator[None]:
    """Let processes that start now use one thread for numerical operations. Libraries read this when they load."""
    earlier = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in earlier.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
