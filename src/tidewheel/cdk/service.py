"""The service: every capability once, and the settings by which its parts and the SDK find each other."""

from __future__ import annotations

from aws_cdk import Aws, Stack
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from tidewheel.cdk.alarms import Alarms
from tidewheel.cdk.backlog import Backlog
from tidewheel.cdk.bundling import service_code
from tidewheel.cdk.compaction import Compaction
from tidewheel.cdk.delivery import Delivery
from tidewheel.cdk.environment import Environment
from tidewheel.cdk.ingestion import Ingestion
from tidewheel.cdk.storage import Storage
from tidewheel.cdk.timing_wheel import TimingWheel
from tidewheel.settings import parameter_name, roles_parameter_name

VARIABLE_PREFIX = "TIDEWHEEL_"


class TidewheelService(Construct):
    """One deployment of Tidewheel: at most one a stack.

    The template says `AWS::StackName` wherever the stack's name matters, so it fits any name.

    Attributes:
        parameter: The SSM parameter with the settings.
    """

    def __init__(self, scope: Construct, id_: str, *, environment: Environment) -> None:
        """Compose the capabilities and give every function the settings."""
        super().__init__(scope, id_)
        code = service_code()
        self.storage = Storage(self, "Storage", environment=environment)
        self.delivery = Delivery(self, "Delivery", environment=environment, code=code, storage=self.storage)
        self.timing_wheel = TimingWheel(
            self,
            "TimingWheel",
            environment=environment,
            code=code,
            storage=self.storage,
            delivery=self.delivery,
        )
        self.ingestion = Ingestion(
            self,
            "Ingestion",
            environment=environment,
            code=code,
            storage=self.storage,
            timing_wheel=self.timing_wheel,
            delivery=self.delivery,
        )
        self.alarms = Alarms(self, "Alarms")
        self.compaction = Compaction(
            self, "Compaction", environment=environment, code=code, storage=self.storage, alarms=self.alarms
        )
        self.compaction.grant_start(self.timing_wheel.sweep)
        self.timing_wheel.grant_arm(self.compaction.job_role(self.compaction.import_))
        self.backlog = Backlog(self, "Backlog", storage=self.storage)
        settings = self._settings(environment)
        self._publish(settings)
        self._configure(settings)

    def _configure(self, settings: dict[str, str]) -> None:
        """Give every function the settings."""
        functions = (
            self.ingestion.ingest,
            self.timing_wheel.dispatch,
            self.delivery.deliver,
            self.timing_wheel.sweep,
            self.compaction.compact,
        )
        for function in functions:
            for name, value in settings.items():
                function.add_environment(f"{VARIABLE_PREFIX}{name.upper()}", value)

    def _settings(self, environment: Environment) -> dict[str, str]:
        """Return the settings by name, as `tidewheel.settings.ServiceSettings` reads them."""
        return {
            "stack": Aws.STACK_NAME,
            "table": self.storage.table.table_name,
            "s3_bucket": self.storage.s3_bucket.bucket_name,
            "urgent_queue_url": self.ingestion.urgent_queue.queue_url,
            "bulk_queue_url": self.ingestion.bulk_queue.queue_url,
            "work_queue_url": self.delivery.work_queue.queue_url,
            "refused_queue_url": self.delivery.refused_queue.queue_url,
            "schedule_group": self.timing_wheel.group_name,
            "schedule_role_arn": self.timing_wheel.role.role_arn,
            "dispatch_arn": self.timing_wheel.dispatch_arn,
            "schedule_dead_letter_arn": self.timing_wheel.dead_letters.queue_arn,
            "compact_function": self.compaction.function_name,
            "merge_job": self.compaction.job_name,
            "max_skew_ms": str(environment.max_skew_ms),
            "send_threads": str(environment.send_threads),
            "topic_queues": self._topic_queues(),
        }

    def _topic_queues(self) -> str:
        """Return the URLs of the topics' own ingest queues as JSON."""
        found = self.ingestion.topic_queues
        return Stack.of(self).to_json_string(
            {topic: [queue.queue_url for queue in queues] for topic, queues in found.items()}
        )

    def _publish(self, settings: dict[str, str]) -> None:
        """Write the parameter with the settings, which the SDK reads, and that with the roles that deliver."""
        self.parameter = ssm.StringParameter(
            self,
            "Settings",
            parameter_name=parameter_name(Aws.STACK_NAME),
            simple_name=False,
            string_value=Stack.of(self).to_json_string(settings),
            description="Where the parts of this Tidewheel service are; read by its SDK",
        )
        ssm.StringListParameter(
            self,
            "DeliveryRoles",
            parameter_name=roles_parameter_name(Aws.STACK_NAME),
            simple_name=False,
            string_list_value=[role.role_arn for role in self.delivery.roles],
            description="The roles that send to the queues of subscriptions; named by the policies of such queues",
        )
