"""Memory that a training step frees and takes again a moment later is kept by the process.

By default, the GNU C library gives large blocks back to the system as soon as they are free, and
each step pays for taking them anew, page by page (bench/LOG.md has the figures).
"""

import ctypes
import sys

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = (
    -1,
    -2,
    -3,
)  # the names of glibc's malloc.h, without their M_
LARGEST_MMAP_THRESHOLD = 32 << 20  # glibc refuses more


def keep_freed_memory() -> bool:
    """Ask glibc's allocator to keep up to 2 GiB of freed memory; False where there is no such
    allocator."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    wanted = (
        (TRIM_THRESHOLD, 2**31 - 1),
        (MMAP_THRESHOLD, LARGEST_MMAP_THRESHOLD),
        (TOP_PAD, 256 << 20),
    )
    return all([mallopt(option, value) == 1 for option, value in wanted])
