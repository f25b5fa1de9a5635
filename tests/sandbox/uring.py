"""Opens files for writing through io_uring, without any library: prints what became of each."""

import ctypes
import mmap
import os
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
SETUP, ENTER, OPENAT = 425, 426, 18


def opened(path: str) -> int:
    """Open a path for writing through a ring of one entry. Return the descriptor, or minus the error."""
    params = ctypes.create_string_buffer(120)
    ring = libc.syscall(SETUP, 2, params)
    if ring < 0:
        sys.stdout.write("no io_uring\n")
        raise SystemExit
    entries = struct.unpack_from("I", params.raw, 0)[0]
    head, tail, mask, _, _, _, array = struct.unpack_from("7I", params.raw, 40)
    chead, _ctail, _cmask, _, _, cqes = struct.unpack_from("6I", params.raw, 80)
    room = max(array + 4 * entries, cqes + 16 * 4) + 4096
    rings = mmap.mmap(ring, room // 4096 * 4096, mmap.MAP_SHARED | mmap.MAP_POPULATE, offset=0)
    sqes = mmap.mmap(ring, 4096, mmap.MAP_SHARED | mmap.MAP_POPULATE, offset=0x10000000)
    name = ctypes.create_string_buffer(os.fsencode(path))
    entry = struct.pack(
        "BBHiQQIIQ", OPENAT, 0, 0, -100, 0, ctypes.addressof(name), 0o644, os.O_WRONLY | os.O_CREAT, 7
    )
    sqes[: len(entry)] = entry
    rings[array : array + 4] = struct.pack("I", 0)
    rings[tail : tail + 4] = struct.pack("I", 1)
    assert libc.syscall(ENTER, ring, 1, 1, 1, None, 0) == 1
    del head, mask, chead
    return int(struct.unpack_from("i", rings[cqes : cqes + 16], 8)[0])


for label, path in zip(("outside", "inside"), sys.argv[1:], strict=True):
    found = opened(path)
    sys.stdout.write(f"{label}:{'ok' if found >= 0 else found}\n")
