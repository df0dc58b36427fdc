"""The benchmarks of `make bench`, as data: a few minutes together."""

from __future__ import annotations

from benchmarks.figures import Benchmark, Figure

_FULL = (
    "Functions, emulator, sender and receivers share one Python process here. Where the table below says that "
    "the sender itself was behind by more than half a second, the machine was full, and the figure is the "
    "machine's; otherwise it is the time that a function takes beyond its lookahead."
)

FAST = (
    Benchmark(
        name="ledger",
        module="benchmarks.bench_ledger",
        title="Encoding and decoding ledgers",
        method=(
            "50,000 real messages (those of `examples/messages.jsonl.gz`, copied with fresh ids and times over 60 "
            "days). Floor of encoding: `pyarrow.parquet.write_table` of the same sorted rows, zstd level 1, Arrow's "
            "defaults; ours cuts segments that can be read alone, with checksums, bitmap and table. Ours writes no "
            "dictionaries, which Arrow does by default and which take it time: beside a write that has none either, "
            "ours is slower, by the second figure. Floor of decoding: `pyarrow.parquet.read_table` of a plain file "
            "with the same 5,000 rows, with its defaults; ours is faster since it opens the file by itself and leaves "
            "out Arrow's dataset layer. CPU time."
        ),
        figures=(
            Figure(at="encode_ratio", says="encode: bare Arrow write / ours", more=True, goal=0.7),
            Figure(at="encode_ratio_to_lean_write", says="encode: Arrow without dictionaries / ours", more=True),
            Figure(at="decode_5000_rows_ms", says="decode a segment of 5,000 rows, ms", more=False, goal=7.0),
            Figure(at="decode_ratio", says="decode: bare Arrow read / ours", more=True),
            Figure(at="decode_typical_segment_ms", says="decode a segment as ingest makes it, ms", more=False),
            Figure(at="bytes_a_message", says="stored bytes a real message", more=False, goal=125.0),
            Figure(at="bytes_a_message_bare", says="stored bytes a real message in Arrow's own file", more=None),
            Figure(at="bytes_a_message_shuffled", says="stored bytes, neighbours with nothing in common", more=False),
            Figure(at="footers_share", says="share of footers in them", more=False),
        ),
    ),
    Benchmark(
        name="ingest",
        module="benchmarks.bench_ingest",
        title="Ingest",
        method=(
            "50,000 real messages: order, ledger, PUT, topic state, commit, against an endpoint that costs little. "
            "Floor: a bare Arrow write and a PUT. The ratio with a goal begins with Arrow rows, as the floor does; "
            "the others begin with decoded packs and with packs as SQS hands them out (inflate, JSON, checks), for "
            "which the floor has nothing to do. CPU time."
        ),
        figures=(
            Figure(at="ingest_ratio", says="ingest: bare write and PUT / ours", more=True, goal=0.7),
            Figure(at="ingest_from_packs_ratio", says="ingest from decoded packs: the same floor / ours", more=True),
            Figure(
                at="ingest_from_queue_ratio",
                says="ingest from packs as they come out of SQS: the same floor / ours",
                more=True,
            ),
            Figure(
                at="ingest_from_queue_messages_a_second", says="messages a second from SQS's packs, one core", more=True
            ),
        ),
    ),
    Benchmark(
        name="plan",
        module="benchmarks.bench_plan",
        title="Planning",
        method=(
            "Which segments of many ledgers are due in a slot, and which slot is next; each ledger has 30,000 "
            "messages over 60 days. A topic that merges has about 64. Floors: two calls of each bucket's bitmap; with "
            "the items to be read, CRoaring's and zlib's own decoding; with the query, boto3's. They name no "
            "segment, so the ratios say how much of a plan is more than its least. Each item is checked whole when it "
            "is read, since a damaged one must be refused; its segments are decoded, number by number in Python, only "
            "if one is due. Here four of five are, and that is two fifths of reading and choosing. CPU time."
        ),
        figures=(
            Figure(at="query_ms", says="query 64 buckets and choose, ms", more=False),
            Figure(at="query_ratio", says="query 64 buckets and choose: bare boto3 query / ours", more=True),
            Figure(at="by_buckets.1.choose_ms", says="choose among 64 buckets in memory, ms", more=False),
            Figure(
                at="by_buckets.1.choose_ratio", says="choose among 64 buckets: two calls a bitmap / ours", more=True
            ),
            Figure(at="by_buckets.1.read_and_choose_ms", says="read 64 items and choose, ms", more=False),
            Figure(
                at="by_buckets.1.read_and_choose_ratio",
                says="read 64 items and choose: bare decoding / ours",
                more=True,
            ),
            Figure(at="by_buckets.3.read_and_choose_ms", says="read 1,000 items and choose, ms", more=False),
        ),
    ),
    Benchmark(
        name="dispatch",
        module="benchmarks.bench_dispatch",
        title="Dispatch",
        method=(
            "5,000 real messages due in one slot: seal, plan, hand out, a range GET, decode, SendMessageBatch on "
            "eight threads, against an endpoint that costs next to nothing. Floor: boto3 sending the same batches, "
            "built beforehand, on eight threads, with our client's options: without parameter validation, as ours. "
            "Beside it the same loop with boto3's defaults, which validates each request; ours may be faster than "
            "that. Wall time."
        ),
        figures=(
            Figure(
                at="dispatch_ratio_same_options",
                says="dispatch: bare SendMessageBatch loop, same options / ours",
                more=True,
                goal=0.9,
            ),
            Figure(at="dispatch_ratio", says="dispatch: the loop with boto3's defaults / ours", more=True),
            Figure(at="dispatch_messages_a_second", says="messages a second", more=True),
        ),
    ),
    Benchmark(
        name="memory",
        module="benchmarks.bench_memory",
        title="Memory of a dispatch",
        method=(
            "Each dispatch sends the same 1,000 due messages, in a fresh process, while ever more wait. The hundred "
            "millions are an index without messages: 64 ledgers whose share of the slot has to be looked up in each, "
            "which cuts by the calendar prevent; and 2,000 ledgers that were never merged. The floor is the dispatch "
            "with nothing else waiting. The mark is the process's own (`VmHWM`): `ru_maxrss` outlives an exec."
        ),
        figures=(
            Figure(at="dispatch_peak_mib.1,000", says="peak, 1,000 waiting, MiB", more=False),
            Figure(at="dispatch_peak_mib.1,000,000", says="peak, 1,000,000 waiting, MiB", more=False),
            Figure(at="dispatch_peak_mib.100,000,000", says="peak, 100,000,000 waiting, MiB", more=False),
            Figure(
                at="dispatch_peak_mib.100,000,000, never merged",
                says="peak, 100,000,000 waiting, never merged, MiB",
                more=False,
            ),
            Figure(at="dispatch_peak_ratio", says="peak: 1,000,000 waiting / 1,000", more=False, goal=1.1),
            Figure(at="dispatch_peak_ratio_most", says="peak: 100,000,000 waiting / 1,000", more=False, goal=1.1),
        ),
    ),
    Benchmark(
        name="index",
        module="benchmarks.bench_index",
        title="Index bytes a message",
        method=(
            "What DynamoDB holds of a ledger, names and all, and what the ledger's own tail holds, divided by its "
            "messages: of ledgers of several sizes, due at random over 60 days, and of what the merge makes of 60 "
            "ledgers of 2,000."
        ),
        figures=(
            Figure(at="index_bytes_a_message", says="index bytes a message, 50,000 a ledger", more=False, goal=1.0),
            Figure(at="index_bytes_a_message_merged", says="index bytes a message after a merge", more=False, goal=1.0),
            Figure(at="by_rows.3.index", says="index bytes a message, 1,000 a ledger", more=False),
            Figure(at="by_rows.0.index", says="index bytes of a message alone", more=False),
        ),
    ),
    Benchmark(
        name="precision",
        module="benchmarks.bench_precision",
        title="Precision under load",
        method=(
            "The local stack with the real clock: for 15 s, messages are sent at a steady rate to two subscriptions, "
            "due 1 to 10 s later, so that some go direct and others through ledgers (slots of 1 s, a lookahead of 4 "
            "s). Lateness is the time at which the queue made a message receivable, less the time at which it was "
            "due. The floor is what the design adds by itself: the delay is rounded up to whole seconds, and 100 ms "
            "for clocks that differ come on top, so an idle machine has 0.1 to 1.1 s. AWS's own share is not in it."
        ),
        figures=(
            Figure(at="rates.0.p50_ms", says="lateness at 20 messages a second, p50, ms", more=False),
            Figure(
                at="rates.0.p99_ms",
                says="lateness at 20 messages a second, p99, ms",
                more=False,
                goal=1100.0,
                why_missed=_FULL,
            ),
            Figure(
                at="rates.1.p99_ms",
                says="lateness at 100 messages a second, p99, ms",
                more=False,
                goal=1100.0,
                why_missed=_FULL,
            ),
            Figure(at="rates.2.p99_ms", says="lateness at 300 messages a second, p99, ms", more=False),
            Figure(at="early", says="copies that came early, all rates", more=False, goal=0.0),
            Figure(at="lost", says="copies that did not come, all rates", more=False, goal=0.0),
            Figure(at="duplicates", says="copies that came twice, all rates", more=False, goal=0.0),
        ),
    ),
    Benchmark(
        name="growth",
        module="benchmarks.bench_growth",
        title="What grows with what",
        slow=True,
        method=(
            "The deployed functions on the emulated AWS, in virtual time: the same 1,000 messages are ingested, "
            "dispatched, cancelled (one of them) and swept past, while the backlog grows to 100,000,000, the topics "
            "to 1,000 and the subscriptions to 50. Requests are counted; time is CPU time of the functions without "
            "the emulator's; dollars are the counted units at list prices. Before it counts, each case lets sweeps do "
            "what is new, and time is the median of three stacks, after one that only warms up."
        ),
        figures=(
            Figure(
                at="backlog_dispatch_requests_ratio", says="requests of a dispatch: 100 M waiting / 1,000", more=False
            ),
            Figure(at="backlog_dispatch_ms_ratio", says="CPU time of a dispatch: 100 M waiting / 1,000", more=False),
            Figure(at="backlog_ingest_requests_ratio", says="requests of an ingest: 100 M waiting / 1,000", more=False),
            Figure(at="topics_sweep_requests_ratio", says="requests of a sweep: 1,000 topics / 1", more=False),
            Figure(at="daily_requests_a_topic", says="requests of the daily sweep for one topic more", more=False),
            Figure(at="topics_dispatch_requests_ratio", says="requests of a dispatch: 1,000 topics / 1", more=False),
            Figure(at="requests_a_subscription", says="requests of a dispatch for one subscription more", more=False),
        ),
    ),
)
