"""Signals that end a process: Ctrl-C, SIGTERM, and the end of the terminal. A training saves before it stops."""

import contextlib
import os
import signal
import sys
import threading
import types
from typing import Any

import jax
from jax.experimental import multihost_utils


class StopSignal:
    """While the context is open, SIGINT, SIGTERM and SIGHUP do not end the process: a call says whether to stop.

    With `later` that begins with `hold`. Before, Ctrl-C interrupts as usual and is recorded too: Python drops a
    KeyboardInterrupt that is raised in a callback of its garbage collector. `told` is what the process says when it is
    told to stop.

    Many processes stop at the same step, whichever received the signal: JAX's own notifier, which listens to SIGTERM,
    decides on it, and a SIGINT is handed on to it.
    """

    def __init__(self, later: bool = False, told: str = "saving a checkpoint first") -> None:
        self.received: int | None = None
        self._later, self._told = later, told
        self._n_calls = 0
        self._before: dict[int, Any] = {}
        self._terminals: list[int] = []  # of standard output and standard error

    def __call__(self) -> bool:
        """Whether to stop; all processes must call equally often."""
        self._n_calls += 1
        # JAX decides on the number of the call at which all processes stop, and waits for exactly that number.
        if jax.process_count() > 1 and multihost_utils.reached_preemption_sync_point(self._n_calls):
            self.received = signal.SIGTERM
        return self.received is not None

    def __enter__(self) -> "StopSignal":
        if threading.current_thread() is not threading.main_thread():
            return self  # Python handles signals in the main thread only, which a notebook's server or an app keeps
        if not self._later:
            self.hold()
        elif callable(signal.getsignal(signal.SIGINT)):
            self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def hold(self) -> None:
        """From now on a signal lets the training save and stop."""
        if threading.current_thread() is not threading.main_thread():
            return
        # With many processes a handler of ours would take SIGTERM away from JAX's notifier.
        is_one = jax.process_count() == 1
        self._terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if is_one else (signal.SIGINT,):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as SIGINT is in a shell's background
                self._before.setdefault(number, signal.signal(number, self._receive))
        if self.received and not is_one:
            self._hand_on()

    def _interrupt(self, number: int, frame: types.FrameType | None) -> None:
        self.received = number
        self._before[number](number, frame)

    def _receive(self, number: int, frame: types.FrameType | None) -> None:
        self.received = number
        if number == signal.SIGHUP:
            # The terminal is gone, and may say so twice: nothing can be written to it any more.
            signal.signal(number, signal.SIG_IGN)
            for descriptor in self._terminals:
                os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
            return
        # A second signal ends the process at once: an exception might be swallowed, and orbax logs those in its saves.
        # Where a person types Python, Ctrl-C ends only what was typed. Set before it is said, so that it is true then.
        before = self._before[number]
        signal.signal(number, signal.SIG_DFL if callable(before) and not hasattr(sys, "ps1") else before)
        # Straight to the terminal: what prints may be interrupted in the middle of a line by this very signal.
        again = "; Ctrl-C again ends at once" if number == signal.SIGINT else ""
        # Its reader may be gone, as after Ctrl-C in `actlab train ... 2>&1 | tee LOG`.
        with contextlib.suppress(OSError):
            os.write(2, f"\nstopping    {self._told}{again}\n".encode())
        if jax.process_count() > 1:
            self._hand_on()

    def _hand_on(self) -> None:
        self.received = None  # until all processes have agreed on the step
        os.kill(os.getpid(), signal.SIGTERM)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
