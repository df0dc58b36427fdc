"""Creates the dashboard, which shows whether messages are late, and why.

Read it from the top down, and stop at the first row without a problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sqs as sqs
from aws_cdk.aws_cloudwatch import (
    GraphWidget,
    HorizontalAnnotation,
    IMetric,
    IWidget,
    LogQueryVisualizationType,
    LogQueryWidget,
    TextWidget,
    YAxisProps,
)
from constructs import Construct

from tidewheel.cdk.alarms import THROTTLED, UNSCHEDULED
from tidewheel.cdk.environment import Environment
from tidewheel.cdk.metric_sources import PERIOD, Watched, oldest_age, visible
from tidewheel.telemetry import metrics

COLUMNS = 24
"""Width of every dashboard."""
PROMISE_MS = 1100
"""The most that a message should be late: SQS's whole second, and the tolerance for two clocks."""

_LATE = f"""# Is anything late?
**Lateness** is what was delivered: up to {PROMISE_MS} ms is as promised. **Oldest due** is what was not delivered:
nothing shown is nothing late. If both are quiet, all is well; stop here. Otherwise look where the flow below breaks
off, from left to right, then at the causes. What each alarm means, and what to do: `tidewheel docs runbook`."""
_FLOW = """## Where does it break off?
Messages go from left to right. Accepted, but no ledgers and nothing delivered: ingest. Ledgers, but nothing planned
when they are due: dispatch. Planned, but not delivered: deliver, or the subscription's queue."""
_CAUSES = """## Why?
Old messages in a queue: the function behind it fails, is throttled or is switched off. Duration near the time-out: too
much memory or work for one call. Throttled requests of the table: one hot topic."""
_CONSUMERS = """## Do consumers keep up?
Declared subscriptions. An old message: nobody reads the queue, or too slowly; SQS may count one that waits for its
time from its sending. Dead letters: a consumer received them again and again without deleting them."""
_COST = """## What does it cost?
Requests to AWS, units of the table and time of the functions are the bill. Which requests: the field `requests` of each
record with metrics in the functions' logs."""


class Dashboard(Construct):
    """The CloudWatch dashboard, named like the service."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        watched: Watched,
        environment: Environment,
        alarms: Sequence[cloudwatch.IAlarm] = (),
    ) -> None:
        """Creates the dashboard.

        Args:
            scope: The service.
            id_: The dashboard's name in the scope.
            watched: The parts of the service to show.
            environment: Has the thresholds.
            alarms: The alarms whose state is shown.
        """
        super().__init__(scope, id_)
        self._watched = watched
        self._environment = environment
        self._consumers: tuple[GraphWidget, GraphWidget] | None = None
        self.dashboard = cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=watched.service_name,
            default_interval=Duration.hours(12),
            widgets=[
                [_text(_LATE, height=3)],
                self._late(alarms),
                [_text(_FLOW)],
                [self._logged("Messages", COLUMNS)],
                [_text(_CAUSES)],
                self._causes(),
                self._limits(),
                [_text(_COST)],
                self._cost(),
            ],
        )

    def show_subscription(self, path: str, queue: sqs.IQueue, dead_letters: sqs.IQueue) -> None:
        """Shows a declared subscription in the last row, which the first call adds.

        Args:
            path: The topic's and the subscription's name.
            queue: The queue that its consumer reads.
            dead_letters: The queue's dead-letter queue.
        """
        if self._consumers is None:
            self._consumers = (
                _graph("Oldest message of each subscription (s)", width=12),
                _graph("Dead letters of each subscription", width=12),
            )
            self.dashboard.add_widgets(_text(_CONSUMERS))
            self.dashboard.add_widgets(*self._consumers)
        ages, given_up = self._consumers
        ages.add_left_metric(oldest_age(queue, path))
        given_up.add_left_metric(visible(dead_letters, path))

    def _late(self, alarms: Sequence[cloudwatch.IAlarm]) -> list[IWidget]:
        width, limits = 8 if alarms else 12, {"alarm": self._environment.oldest_due_alarm_s}
        widgets: list[IWidget] = [
            self._logged(metrics.LATENESS.graph, width),
            self._own(metrics.OLDEST_DUE_AGE.graph, width=width, limits=limits),
        ]
        if alarms:
            shown = cloudwatch.AlarmStatusWidget(title="Alarms", alarms=list(alarms), width=width, height=_HEIGHT)
            widgets.append(shown)
        return widgets

    def _causes(self) -> list[IWidget]:
        watched = self._watched
        ages = (oldest_age(queue, name) for name, queue in watched.sources.items())
        limits = {"alarm": self._environment.queue_age_alarm_s}
        labels = [*watched.sources, "invocations"]
        given_up = starmap(visible, zip(watched.dead_letters, labels, strict=True))
        return [
            _graph("Oldest message in each queue (s)", *ages, limits=limits),
            self._logged("Unfinished work"),
            self._own("Errors of functions", *self._of_functions("Errors")),
            _graph("Dead letters and refused messages", *given_up, visible(watched.refused, "refused")),
        ]

    def _limits(self) -> list[IWidget]:
        watched = self._watched
        durations = [
            cloudwatch.MathExpression(
                expression=f"100 * {name} / {timeout.to_milliseconds()}",
                using_metrics={name: watched.of_function(name, "Duration", "Maximum")},
                period=PERIOD,
                label=name,
            )
            for name, function in watched.functions.items()
            if (timeout := function.timeout) is not None
        ]
        throttled = (of(name) for of in (watched.of_table, watched.of_check_index) for name in THROTTLED)
        return [
            _graph("Longest call, % of its time-out", *durations, limits={"time-out": 100}),
            _graph("Throttled calls", *self._of_functions("Throttles")),
            _graph("Throttled requests of the table", *throttled),
            _graph("Schedules", *map(watched.of_scheduler, ("InvocationAttemptCount", *UNSCHEDULED))),
        ]

    def _cost(self) -> list[IWidget]:
        table = self._watched.table
        written = table.metric_consumed_write_capacity_units(period=PERIOD, label="write")
        read = table.metric_consumed_read_capacity_units(period=PERIOD, label="read")
        return [
            self._logged("Requests to AWS"),
            _graph("Units of the table", written, read),
            _graph("Time of functions (ms)", *self._of_functions("Duration"), stacked=True),
            self._logged(metrics.BACKLOG.graph),
        ]

    def _of_functions(self, metric_name: str) -> Iterator[IMetric]:
        return (self._watched.of_function(name, metric_name) for name in self._watched.functions)

    def _own(
        self, title: str, *before: IMetric, width: int = 6, limits: Mapping[str, float] | None = None
    ) -> GraphWidget:
        """Returns the graph of the service's own metrics that are declared for a title, behind the given metrics."""
        own = (self._watched.own(metric) for metric in metrics.METRICS if metric.graph == title)
        return _graph(title, *before, *own, width=width, limits=limits)

    def _logged(self, title: str, width: int = 6) -> LogQueryWidget:
        """Returns the graph of the fields of the functions' log records that are declared for a title."""
        fields = [
            f"{'max' if metric.gauge else 'sum'}({metric.name}) as {metric.name}_"
            for metric in metrics.METRICS
            if metric.graph == title
        ]
        return LogQueryWidget(
            title=title,
            log_group_names=[each.log_group.log_group_name for each in self._watched.functions.values()],
            query_lines=["filter ispresent(requests)", f"stats {', '.join(fields)} by bin(5m)"],
            view=LogQueryVisualizationType.LINE,
            width=width,
            height=_HEIGHT,
        )


_HEIGHT = 6


def _text(markdown: str, *, height: int = 2) -> TextWidget:
    return TextWidget(markdown=markdown, width=COLUMNS, height=height)


def _graph(
    title: str, *shown: IMetric, width: int = 6, limits: Mapping[str, float] | None = None, stacked: bool = False
) -> GraphWidget:
    """Returns a graph that begins at zero, with a line for each limit."""
    return GraphWidget(
        title=title,
        left=list(shown),
        width=width,
        height=_HEIGHT,
        stacked=stacked,
        left_y_axis=YAxisProps(min=0, show_units=False),
        left_annotations=[HorizontalAnnotation(value=value, label=label) for label, value in (limits or {}).items()],
    )
