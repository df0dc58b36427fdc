"""Imports files of messages as ledgers, by column, without SQS and without Spark's shuffle.

    files --divide--> parts --read, check--> chunks --sort--> ledgers --commit, with a mark--> live buckets
                                   '--> rejects      (nothing names them yet)

| module | does |
|---|---|
| `driver.py` | runs an import |
| `options.py`, `files.py` | read the arguments; find and open the input's files |
| `tables.py` | lists the files of a Delta or an Iceberg table |
| `dividing.py` | divides a file into parts |
| `parquet.py`, `csv_rows.py` with `csv_strict.py`, `json_lines.py` | read the rows of a part |
| `checks.py`, with `times.py`, `texts.py`, `attributes.py` | map and check rows |
| `chunks.py`, `rejects.py` | write ledgers, and rejected rows |
| `child.py` | does all this in a process that foreign bytes may end |
| `commits.py`, `settled.py` | make ledgers live, and remember finished parts |
"""

from tidewheel.errors import needs_extra

with needs_extra(__name__, "local"):
    import msgspec  # noqa: F401
    import pyarrow  # noqa: F401
