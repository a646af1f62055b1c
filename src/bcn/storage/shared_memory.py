"""Memory that is a file as well: the kernel sends it without making a copy of its own.

What was sent from there may still be on its way when the call is back, so bytes must not change
before the other side has answered for all of them. Where it never did, nobody knows when it is
done with them: such memory is doubtful for good, and must not be used again.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref

from bcn.storage.bucket import Buffer


class SharedMemory(mmap.mmap):
    """Zeros, of the size it is made with. Raises OSError."""

    descriptor: int
    place: int
    is_doubtful: bool

    def __new__(cls, size_bytes: int) -> SharedMemory:
        """Its pages are there when they are first touched, as everybody's."""
        descriptor = os.memfd_create("bcn-part", os.MFD_CLOEXEC)
        try:
            os.ftruncate(descriptor, size_bytes)
            made = super().__new__(cls, descriptor, size_bytes)
        except BaseException:
            os.close(descriptor)
            raise
        weakref.finalize(made, os.close, descriptor).atexit = False  # others may still send
        made.descriptor = descriptor
        made.place = _place_of(memoryview(made))
        made.is_doubtful = False
        return made


def make_memory(size_bytes: int) -> memoryview:
    """Memory to send from: shared, where the system has it."""
    try:
        return memoryview(SharedMemory(size_bytes))
    except (OSError, ValueError, AttributeError):  # another system, no more descriptors
        return memoryview(bytearray(size_bytes))


def find_file(data: Buffer) -> tuple[int, int] | None:
    """The descriptor that bytes can be sent from, and where they are in its file."""
    memory = _find_shared(data)
    if memory is None or not len(data):
        return None
    return memory.descriptor, _place_of(memoryview(data)) - memory.place


def leave_alone(data: Buffer) -> None:
    """Nobody has answered for these bytes: they must stay as they are."""
    memory = _find_shared(data)
    if memory is not None:
        memory.is_doubtful = True


def is_doubtful(data: Buffer) -> bool:
    """Whether the memory may still be read by somebody who never answered."""
    memory = _find_shared(data)
    return memory is not None and memory.is_doubtful


def _find_shared(data: Buffer) -> SharedMemory | None:
    memory = data.obj if isinstance(data, memoryview) else None
    return memory if isinstance(memory, SharedMemory) else None


def _place_of(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(view))
