"""Imports files and tables of messages as ledgers, without SQS.

    files --read--> rows by column --check--> good rows --sort--> ledgers --record, commits--> live buckets
                                       '--> rejects         (nothing names them yet)

| module | does |
|---|---|
| `driver.py` | runs an import of files, and completes imports of both kinds |
| `frames.py` | imports the rows of a table, such as a DataFrame |
| `options.py`, `files.py` | read the arguments; find and open the input's files |
| `tables.py` | lists the files of a Delta or an Iceberg table |
| `parts.py` | divides files among tasks, and reads a part |
| `parquet.py`, `csv_rows.py` with `csv_strict.py`, `json_lines.py` | read the rows of a part, as columns |
| `checks.py`, with `times.py`, `texts.py`, `attributes.py`, `values.py` | map and check rows |
| `staging.py`, `rejects.py` | write ledgers, and rejected rows |
| `child.py` | runs a task in a process that foreign bytes may end |
| `record.py`, `commits.py` | remember an import; make ledgers live |
"""

from tidewheel.errors import needs_extra

with needs_extra(__name__, "local"):
    import msgspec  # noqa: F401
    import pyarrow  # noqa: F401
