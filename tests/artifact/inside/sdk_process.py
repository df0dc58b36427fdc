"""The SDK as a program, which reads calls of a `Tidewheel` client from the input and writes answers to the output.

A call is (method, arguments, keywords), an answer (result, None) or (None, error's name and text), each a pickle with
its length before it. A result that is a generator or an object with a way to AWS is not for this program.
"""

import pickle
import struct
import sys

from tidewheel import Tidewheel

_LENGTH = struct.Struct("=I")


def main():
    """Does calls until the input ends."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    client = Tidewheel(sys.argv[1])
    while head := source.read(_LENGTH.size):
        method, arguments, keywords = pickle.loads(source.read(*_LENGTH.unpack(head)))
        try:
            answer = getattr(client, method)(*arguments, **keywords), None
        except Exception as error:
            answer = None, (type(error).__name__, str(error))
        data = pickle.dumps(answer)
        target.write(_LENGTH.pack(len(data)) + data)
        target.flush()


main()
