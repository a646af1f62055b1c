"""SIGINT and SIGTERM: both stop a command cleanly, and neither gets lost."""

from __future__ import annotations

import os
import signal
import sys
import threading
import weakref
from types import FrameType

from bcn.errors import Interrupted

_AGAIN_SECONDS = 0.05


def catch_signals() -> Stops:
    """From here on a signal raises Interrupted in the main thread."""
    stops = Stops()
    sys.unraisablehook = stops.hear_dropped
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stops.stop)
    return stops


class Stops:
    """Turns signals into Interrupted, once: the second one ends the process at once.

    What is raised inside a callback of C or a destructor is dropped there, and some libraries catch
    all that is raised. Such a stop comes again: nobody has it any more, and the work goes on.
    """

    def __init__(self) -> None:
        self._is_stopping = False
        self._is_over = False

    def stop(self, number: int, _frame: FrameType | None) -> None:
        """What a signal does."""
        if self._is_stopping:
            os._exit(128 + number)
        self._is_stopping = True
        raise self._watched(number)  # a name for it in this frame would keep it alive

    def end(self) -> None:
        """The work is over, and what has stopped it was told."""
        self._is_over = True

    def hear_dropped(self, dropped: sys.UnraisableHookArgs) -> None:
        """A library that was stopped halfway may complain: nobody wants to know."""
        if not self._is_stopping:
            sys.__unraisablehook__(dropped)

    def _watched(self, number: int) -> Interrupted:
        interrupted = Interrupted(128 + number)
        weakref.finalize(interrupted, self._wait_and_repeat, number).atexit = False
        return interrupted

    def _wait_and_repeat(self, number: int) -> None:
        again = threading.Timer(_AGAIN_SECONDS, self._repeat, (number,))
        again.daemon = True
        again.start()

    def _repeat(self, number: int) -> None:
        if not self._is_over:
            self._is_stopping = False
            os.kill(os.getpid(), number)
