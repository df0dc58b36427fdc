"""The benchmarks of `make bench-all` that take minutes each, as data."""

from __future__ import annotations

from benchmarks.figures import Benchmark, Figure

SLOW = (
    Benchmark(
        name="merge",
        module="benchmarks.bench_merge",
        title="Merging",
        method=(
            "300 ledgers of 10,000 real messages made few, by the whole flow, on both engines. Floors on the same "
            "files: pyarrow reads all, sorts and writes one; DuckDB does so with an ORDER BY. Both write plain "
            "Parquet: no segments, no checksums, no copies dropped, no swap. Two cores but for the function, which "
            "has one. Wall time, without the start of Spark; memory is the peak of the process tree. A merge takes 82 "
            "ledgers at most, so that its swap is one transaction; ledgers are merged until eight are left, and those "
            "of one merge may be merged again: twice as many ledgers are written more than twice as often."
        ),
        slow=True,
        extra="duckdb",
        figures=(
            Figure(
                at="spark_to_duckdb",
                says="merge on Spark / DuckDB's sort, seconds",
                more=False,
                goal=2.0,
                why_missed=(
                    "Both engines write each output with the same code, and so the same bytes; Spark gives each "
                    "output to one Python task; no row passes through the JVM. Of a task's time about 45 % is writing "
                    "segments that can be read alone, 35 % reading and decoding, 8 % sorting (cProfile of a merge in "
                    "one process). Three fifths of the encoding are zstd alone. DuckDB sorts and writes on both cores "
                    "in one process, and writes nothing that makes segments readable alone."
                ),
            ),
            Figure(
                at="function_to_duckdb", says="merge in the function (one core) / DuckDB (two), seconds", more=False
            ),
            Figure(at="spark.seconds", says="merge on Spark, s", more=False),
            Figure(at="function.seconds", says="merge in the function, s", more=False),
            Figure(
                at="memory_at_twice_the_input.spark",
                says="peak of memory at twice the input, Spark",
                more=False,
                goal=1.1,
            ),
            Figure(
                at="memory_at_twice_the_input.function",
                says="peak of memory at twice the input, function",
                more=False,
                goal=1.1,
            ),
        ),
    ),
    Benchmark(
        name="rebuild",
        module="benchmarks.bench_rebuild",
        title="Rebuilding",
        method=(
            "An empty table, 300 ledgers of 10,000 real messages each, Spark on two cores: list, inspect (read all, "
            "checksums, slots), compare ids, write. Floor: `pyarrow.parquet.read_table` of the same files on two "
            "threads, which decodes all and compares nothing. The time for 100 M messages on ten Glue workers is "
            "extrapolated, with times of AWS that are assumed: 30 ms a GET, 5 ms a write."
        ),
        slow=True,
        extra="pyspark",
        figures=(
            Figure(at="messages_a_second", says="rebuild, messages a second", more=True),
            Figure(at="rebuild_ratio", says="rebuild: bare Arrow read / ours", more=True),
            Figure(
                at="extrapolated_100m_s",
                says="100 M messages on ten Glue workers, extrapolated, s",
                more=False,
                goal=900.0,
            ),
        ),
    ),
    Benchmark(
        name="import",
        module="benchmarks.bench_import",
        title="Importing",
        method=(
            "1,000,000 JSON lines of real messages in no order, made ledgers by Spark on two cores. Floor: DuckDB "
            "reads the same lines, sorts them by time and writes Parquet. Wall time without the start of Spark. DuckDB "
            "checks no line, gives no ids and writes no segments. Ours checks each row as a send does, derives its id "
            "from its content and counts identical rows, so that a repeated import adds nothing, and passes rows from "
            "the JVM to Python to be written. Of a million lines' processor time about 15 % goes into finding the "
            "columns, 20 % into weighing, 55 % into checking again, shuffling, sorting and passing rows on, 10 % into "
            "Python; the writing of ledgers itself is half of that. Of the first 200,000 lines, Java's compilers "
            "take a third."
        ),
        slow=True,
        extra="duckdb",
        figures=(
            Figure(at="import_rows_a_second", says="import, rows a second", more=True),
            Figure(at="import_to_duckdb", says="import / DuckDB's sort, seconds", more=False),
            Figure(at="import_peak_mb", says="peak of memory, Java included, MB", more=False),
        ),
    ),
    Benchmark(
        name="cost",
        module="benchmarks.bench_cost",
        title="Requests and dollars of a steady stream",
        method=(
            "A million messages a day, due at random within 10 days, in virtual time on the emulated S3 and DynamoDB, "
            "all limits in bytes scaled to small messages. After 10 days three hours are counted; without merging, "
            "four slots. SQS is left out."
        ),
        slow=True,
        figures=(
            Figure(
                at="merged.s3_and_dynamodb", says="S3 and DynamoDB for a million messages, $", more=False, goal=0.03
            ),
            Figure(
                at="unmerged.s3_and_dynamodb",
                says="S3 and DynamoDB for a million messages without merging, $",
                more=None,
            ),
            Figure(at="merged.live_buckets", says="ledgers alive, on average", more=False),
        ),
    ),
    Benchmark(
        name="contention",
        module="benchmarks.bench_contention",
        title="Fifty callers of one topic",
        method=(
            "Fifty threads call one topic, while each write keeps its items busy for 8 ms and refuses whoever else "
            "comes to them, as DynamoDB's transactions do and the emulator's do not. At about one call a second each, "
            "and as fast as they can. There is no floor: the figures are of the retries."
        ),
        slow=True,
        figures=(
            Figure(
                at="50 commit ledgers, one a second each.gave_up_a_thousand",
                says="commits that gave up, of 1,000, at one a second each",
                more=False,
                goal=0.0,
            ),
            Figure(at="50 commit ledgers, one a second each.p99_ms", says="a commit, p99, ms", more=False),
            Figure(
                at="50 cancel by id, one a second each.gave_up_a_thousand",
                says="cancels that gave up, of 1,000",
                more=False,
                goal=0.0,
            ),
            Figure(at="50 cancel by id, one a second each.p99_ms", says="a cancel, p99, ms", more=False),
            Figure(
                at="50 commit ledgers, as fast as can be.calls_a_second",
                says="commits a second, as fast as they can",
                more=True,
            ),
            Figure(
                at="50 upsert, as fast as can be.calls_a_second",
                says="upserts a second, as fast as they can",
                more=True,
            ),
        ),
    ),
    Benchmark(
        name="cold_start",
        module="benchmarks.bench_cold_start",
        title="Cold start",
        method=(
            "For information: a dispatch starts 480 s before its messages are due. The functions' archive, made from "
            "PyPI as it is deployed, imported by a new Python 3.13 that has nothing else on its path and compiles its "
            "modules, as on Lambda. CPU time inside of the process, less the time of an empty Python. Floors: boto3 "
            "with the four clients that every function makes and Powertools; pyarrow. Lambda gives a start one core."
        ),
        slow=True,
        figures=(
            Figure(at="dispatch_init_ms", says="imports of dispatch at its start, ms", more=False),
            Figure(
                at="boto3_clients_and_powertools_floor_ms", says="floor: boto3, four clients, Powertools, ms", more=None
            ),
            Figure(at="dispatch_init_ratio", says="start of dispatch: boto3's floor / ours", more=True),
            Figure(at="pyarrow_floor_ms", says="floor: pyarrow with compute and parquet, ms", more=None),
            Figure(at="ingest_init_ms", says="imports of ingest, ms", more=False),
            Figure(at="deliver_init_ms", says="imports of deliver, ms", more=False),
            Figure(at="sweep_init_ms", says="imports of sweep, ms", more=False),
            Figure(at="compact_init_ms", says="imports of compact, ms", more=False),
        ),
    ),
)
