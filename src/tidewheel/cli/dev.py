"""Defines `tidewheel dev`, which runs the whole service on this machine, and `tidewheel dev advance`."""

from __future__ import annotations

import gc
import json
import os
import shlex
import signal
import sys
import webbrowser
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidewheel.cli.administration import AsJson
from tidewheel.cli.arguments import pair, takes_settings
from tidewheel.cli.output import print_error, print_json, progress_bar
from tidewheel.cli.target import Target
from tidewheel.client import dev_service
from tidewheel.client.dev_service import ABOUT, ACCESS_KEY, ADVANCE, ADVANCED, PORT, DevService, check_free
from tidewheel.clock import MovedClock
from tidewheel.errors import InvalidValue, needs_extra
from tidewheel.model.duration import delay_ms, delay_of
from tidewheel.model.settings import NewTopicSettings, TopicSettings
from tidewheel.model.triggers import BULK_WINDOW_S

if TYPE_CHECKING:
    from tidewheel.client.tidewheel import Tidewheel
    from tidewheel.console import ConsoleServer
    from tidewheel.local import LocalTidewheel

_SHORT_WINDOW_S = 1
_CHECK_S = 1.0
_FIRST_TOPIC, _FIRST_SUBSCRIPTION = "orders", "billing"

app = typer.Typer(help="Run the whole service on this machine, without an AWS account.")


@app.callback(invoke_without_command=True)
@takes_settings(TopicSettings)
def dev(
    ctx: typer.Context,
    settings: dict[str, Any],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port for AWS clients, on 127.0.0.1. 0: any.")] = PORT,
    console_port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the console. 0: any.")] = 4567,
    state: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep everything in this folder. Without it, nothing is kept.")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC:SUBSCRIPTION,...",
            help="Create this if it does not exist. Repeat the option for more topics.",
        ),
    ] = None,
    slots: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="The slots of new topics, such as 1s. What waits is then seen at once, and other times differ from a "
            "deployed service.",
            show_default="as deployed, 5m",
        ),
    ] = None,
    open_console: Annotated[bool, typer.Option("--open", help="Open the console in the browser.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object when the service is ready.")] = False,
    log_level: Annotated[str, typer.Option(help="The lowest level that functions log to standard error.")] = "WARNING",
) -> None:
    """Run the whole service on this machine, without an AWS account, for any AWS client, until Ctrl-C."""
    if ctx.invoked_subcommand is not None:
        return
    wanted = [_topic(each) for each in topic or ()]
    if settings and not wanted:
        name, value = next(iter(settings.items()))
        raise InvalidValue(name, value, "give --topic too, since a setting is for the topics that this command creates")
    if state is not None and str(state) in ("", "."):  # typer makes a path of an empty text
        raise InvalidValue("--state", "", "give a folder of its own, such as ./tidewheel-state")
    short = {} if slots is None else _short(slots)
    _check_ports(port, console_port)
    gc.disable()  # what the start makes stays: to look through it for garbage takes a fifth of the start's CPU
    with needs_extra("tidewheel dev", "local"):
        import_module("tidewheel.console")
        from tidewheel.local import LocalTidewheel

    target: Target = ctx.obj
    stack = LocalTidewheel(
        clock="real",
        port=port,
        log_level=log_level,
        stack_name=target.stack,
        bulk_window_s=_SHORT_WINDOW_S if short else None,
        state=state,
        **short,
    )
    ended = Event()
    with stack:
        client = stack.client()
        known = client.topics()
        for name, subscriptions in wanted:
            _create(client, name, subscriptions, settings)
        service = _answer_clients(stack)
        with _console(stack, console_port, state) as console:
            address = console.url
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: ended.set())  # an exception could end anything half done
            first = None if known else _first_message(service, [name for name, _ in wanted])
            told = _told(service, address, state, first, _times(short))
            gc.freeze()
            gc.enable()
            if as_json:
                print_json(told)
                sys.stdout.flush()
            else:
                for line in _lines(told):
                    typer.echo(line, err=True)
            if open_console:
                webbrowser.open(address)
            _watch(stack, ended)
    kept = "All messages are gone" if state is None else f"Everything is kept in {state}"
    typer.echo(f"Stopped. {kept}.", err=True)


def _watch(stack: LocalTidewheel, ended: Event) -> None:
    """Prints the failures of functions, until the service is to end or has failed itself."""
    while True:
        ending = ended.wait(_CHECK_S)
        while stack.failures:
            failure = stack.failures.pop(0)  # kept by nobody, however long the service runs
            print_error(f"{failure.function} failed: {str(failure.error)[:300]}")
        if ending:
            return
        try:
            stack.check()
        except RuntimeError as error:
            print_error(f"{error}, and delivers nothing more: {error.__cause__!r}. Start it again")
            raise typer.Exit(1) from error


@app.command()
def advance(
    ctx: typer.Context,
    duration: Annotated[str, typer.Argument(metavar="DURATION", help="Such as 90s, 15m or '3d 4h'.")],
    as_json: AsJson = False,
) -> None:
    """Move the time of the running `tidewheel dev` forward. All messages due on the way come, in order of time."""
    target: Target = ctx.obj
    given = None if target.endpoint_url is None else dev_service.service_for(target.endpoint_url)
    duration += "" if isinstance(delay_of(duration), str) else "s"
    with progress_bar(f"Moving time by {duration}") as (_, move):
        now = (given or dev_service.running()).advance(duration, move)
    if as_json:
        print_json({"now": now})
    else:
        typer.echo(f"It is now {now.isoformat(timespec='seconds')}.")


def _answer_clients(stack: LocalTidewheel) -> DevService:
    """Lets the endpoint tell clients with TIDEWHEEL_DEV=1 of the service, and move its time. Returns the service."""
    from tidewheel.local.emulator import REGION

    clock = stack.clock
    assert isinstance(clock, MovedClock)  # of real time
    service = DevService(endpoint=stack.endpoint_url, process=os.getpid(), stack=stack.stack_name, region=REGION)

    def advance(duration: str) -> Iterator[str]:
        return moving(delay_ms(duration, "duration"))  # refuses before the answer begins

    def moving(duration_ms: int) -> Iterator[str]:
        with ThreadPoolExecutor(1) as pool:
            skipped = pool.submit(stack.skip, milliseconds=duration_ms)
            while wait([skipped], _CHECK_S).not_done:
                yield f"{stack.now().isoformat()}\n"
            skipped.result()
        yield f"{stack.now().isoformat()} {ADVANCED}\n"

    stack.commands[ABOUT] = lambda _: json.dumps(
        asdict(replace(service, offset_ms=clock.offset_ms, units=dict(stack.requests.units)))
    )
    stack.commands[ADVANCE] = advance
    return service


def _console(stack: LocalTidewheel, port: int, state: Path | None) -> ConsoleServer:
    """Makes the console. With a state, pages that were open before are open still."""
    from tidewheel.cli.console import log_audit, tell_opened
    from tidewheel.console import ConsoleServer, LocalService, RequestMeter
    from tidewheel.local.state_folder import session_in

    log_audit()
    meter = RequestMeter(stack.session)
    local = LocalService(
        requests=stack.requests,
        units=stack.requests.units,
        since=stack.now(),
        move_time=lambda seconds: stack.skip(seconds=seconds),
        dead_letters=stack.dead_letters,
        queued=stack.queued,
        oldest=stack.oldest,
    )
    return ConsoleServer(
        stack.client(),
        port=port,
        changes=True,
        requests=meter,
        local=local,
        session=None if state is None else session_in(state),
        opened=tell_opened,
    )


def _told(service: DevService, console: str, state: Path | None, first: str | None, times: str) -> dict[str, Any]:
    """Returns what a program must know of the service, which `--json` prints."""
    environment = {
        dev_service.VARIABLE: "1",
        "TIDEWHEEL_STACK": service.stack,
        "AWS_ENDPOINT_URL": service.endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": ACCESS_KEY,
        "AWS_DEFAULT_REGION": service.region,
        "AWS_REGION": service.region,  # of SDKs in other languages
    }
    return {
        "console": console,
        "endpoint": service.endpoint,
        "environment": environment,
        "try": first,
        "state": None if state is None else str(state.absolute()),
        "times": times,
    }


def _short(slots: str) -> NewTopicSettings:
    """Returns the settings of topics with short slots, whose lookahead is four slots, or as deployed if that is less.

    Raises:
        InvalidValue: the text is no whole number of seconds, or no topic can have such slots.
    """
    slot_s, rest = divmod(delay_ms(delay_of(slots) or 0, "--slots"), 1000)
    if rest or not slot_s:
        raise InvalidValue("--slots", slots, "give whole seconds, such as 1s")
    short = NewTopicSettings(slot_s=slot_s, lookahead_s=min(4 * slot_s, TopicSettings().lookahead_s))
    TopicSettings(**short)  # type: ignore[arg-type]  # refuses slots that are too long
    return short


def _times(short: NewTopicSettings) -> str:
    """Says when new topics' slots are sealed, and how that differs from a deployed service."""
    deployed = TopicSettings()
    topic = replace(deployed, **short)  # type: ignore[arg-type]
    if not short:
        return (
            f"as deployed. A message that is not due soon is seen to wait after up to {BULK_WINDOW_S // 60} minutes. "
            "`tidewheel dev advance 5m` skips them, and --slots 1s shortens them."
        )
    ends = [f"{each.lookahead_s} to {each.slot_s + each.lookahead_s} s" for each in (topic, deployed)]
    return (
        f"new topics have slots of {topic.slot_s} s. Without a key, a message can be cancelled until {ends[0]} before "
        f"it is due; deployed, until {ends[1]} before. A message that is not due soon is seen to wait, and can be "
        f"moved, after {_SHORT_WINDOW_S} s; deployed, after up to {BULK_WINDOW_S} s."
    )


def _first_message(service: DevService, topics: Sequence[str]) -> str:
    """Returns a line for any shell that sends a message, and makes a topic for it if there is none."""
    script = Path(sys.argv[0])
    words = [str(script.absolute())] if script.stem == "tidewheel" else [sys.executable, "-m", "tidewheel.cli"]
    program = shlex.join(words)
    variables = f"{dev_service.VARIABLE}=1 AWS_ENDPOINT_URL={service.endpoint}"
    if topics:
        return f"{variables} {program} send {topics[0]} hello --delay 20s"
    commands = [
        f"export {variables}",
        f"{program} topics create {_FIRST_TOPIC}",
        f"{program} subscriptions create {_FIRST_TOPIC} {_FIRST_SUBSCRIPTION}",
        f"{program} send {_FIRST_TOPIC} hello --delay 20s",
    ]
    return " && ".join(commands)


def _lines(told: dict[str, Any]) -> Iterator[str]:
    """Yields what a person must know of the service."""
    yield f"Endpoint for AWS clients: {told['endpoint']}"
    yield f"Console: {told['console']}"
    yield f"Times: {told['times']}"
    yield f"State: kept in {told['state']}" if told["state"] else "State: nothing is kept. --state FOLDER keeps it."
    yield "For programs, in another shell:"
    yield "  export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in told["environment"].items())
    if told["try"] is not None:
        yield "Send a first message:"
        yield f"  {told['try']}"
    yield "Ctrl-C stops it."


def _check_ports(port: int, console_port: int) -> None:
    """Raises InvalidValue if a port is in use, before the service is started."""
    if (other := dev_service.service_for(f"http://127.0.0.1:{port}")) is not None:
        advice = f"`tidewheel dev` uses it already, as process {other.process}; stop that, or give another port"
        raise InvalidValue("--port", port, advice)
    check_free("--port", port)
    check_free("--console-port", console_port)
    if port and port == console_port:
        raise InvalidValue("--console-port", console_port, "give another port than that of --port")


def _create(client: Tidewheel, topic: str, subscriptions: Sequence[str], settings: dict[str, Any]) -> None:
    """Creates a topic and its subscriptions, except those that exist."""
    client.create_topic(topic, **settings)
    known = {each.name for each in client.subscriptions(topic)}
    for name in subscriptions:
        if name not in known:
            client.create_subscription(topic, name)


def _topic(text: str) -> tuple[str, list[str]]:
    name, *subscriptions = pair(text)
    if subscriptions == [""]:
        raise InvalidValue("--topic", text, "give the subscriptions after the colon, as in NAME:SUBSCRIPTION,...")
    return name, [each for names in subscriptions for each in names.split(",") if each]
