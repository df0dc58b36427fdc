"""Keeps what a local stack holds in a folder, so that it is there after a restart, a kill or a full disk.

| module | |
|---|---|
| `state` | notes what a request or a step of the pump has changed, and commits it before the answer leaves |
| `kinds` | what is kept: how it is read from the emulator, and put back |
| `folder` | the files: sqlite with a checksum a row, and a marker that tells a lost file from a new folder |
| `encoding` | the bytes of a value |

Effects are kept, never calls or moto's objects. What a template deploys is not kept: each start deploys it anew, and
then puts back what was changed after the first deployment. So code and settings come from the installed package, and
data comes from the folder.
"""
