"""Runs a module in simulated time, as `python launch.py CLOCK PATH FORBIDDEN MODULE ARGUMENT...`.

CLOCK is a file with nanoseconds, a signed 64-bit integer in the machine's order. All functions of Python that tell the
time of day add them, so a process follows as soon as the file changes. Monotonic clocks stay as they are.

PATH is what the module may import beside Python's own library, parted by colons; empty: whatever Python finds.
FORBIDDEN is a folder that the process may not open a file of; empty: none.
"""

import datetime
import gc
import mmap
import os
import pathlib
import runpy
import struct
import sys
import time


def move_time(clock_file):
    """Makes the functions of `time` and `datetime` add the offset in a file."""
    with pathlib.Path(clock_file).open("rb") as file:
        view = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    offset = struct.Struct("=q")
    real_ns, gmtime, localtime = time.time_ns, time.gmtime, time.localtime
    strftime, ctime, asctime = time.strftime, time.ctime, time.asctime

    def time_ns():
        return real_ns() + offset.unpack_from(view)[0]

    def now_s():
        return time_ns() / 1_000_000_000

    moved = {
        "time_ns": time_ns,
        "time": now_s,
        "gmtime": lambda seconds=None: gmtime(now_s() if seconds is None else seconds),
        "localtime": lambda seconds=None: localtime(now_s() if seconds is None else seconds),
        "strftime": lambda form, when=None: strftime(form, localtime(now_s()) if when is None else when),
        "ctime": lambda seconds=None: ctime(now_s() if seconds is None else seconds),
        "asctime": lambda when=None: asctime(localtime(now_s()) if when is None else when),
    }
    for name, function in moved.items():
        # Like a built-in function, none becomes a method of a class that keeps it, as logging.Formatter does.
        setattr(time, name, staticmethod(function))
    # datetime.today and date.today ask time.time. These two ask the machine, and their class cannot be subclassed for
    # all: what C code makes would be of the other class. So they are replaced in the class itself.
    _replace(datetime.datetime, "now", classmethod(lambda cls, tz=None: cls.fromtimestamp(now_s(), tz)))
    utc = datetime.UTC
    _replace(datetime.datetime, "utcnow", classmethod(lambda cls: cls.fromtimestamp(now_s(), utc).replace(tzinfo=None)))


def _replace(owner, name, value):
    """Replaces an attribute of a class implemented in C."""
    import ctypes

    gc.get_referents(owner.__dict__)[0][name] = value
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))


def forbid(folder):
    """Makes each attempt to open a file or a module of a folder an error."""
    inside = folder.rstrip(os.sep) + os.sep

    def refuse(event, arguments):
        if event == "open" or event == "import":
            path = arguments[0] if event == "open" else arguments[1]
            if isinstance(path, bytes):
                path = os.fsdecode(path)
            if isinstance(path, str) and path.startswith(inside):
                raise PermissionError(f"{path} is not in the archive")

    sys.addaudithook(refuse)


def main():
    """Moves time, closes the doors, and runs the module."""
    clock_file, path, forbidden, module, *arguments = sys.argv[1:]
    move_time(clock_file)
    if path:
        own = [each for each in sys.path if each.startswith((sys.prefix, sys.base_prefix))]
        sys.path[:] = [*path.split(":"), *[each for each in own if "site-packages" not in each]]
    if forbidden:
        forbid(forbidden)
    sys.argv[:] = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
