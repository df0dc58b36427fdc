"""A queue of your own for a subscription: the policy that lets the service's functions send to it."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Aws, Duration, Fn, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from tidewheel.cdk.alarms import watch_dead_letters
from tidewheel.cdk.environment import RUNBOOK
from tidewheel.cdk.queues import RETENTION, queue_encryption
from tidewheel.client.policies import KMS_ACTIONS, NO_FIFO
from tidewheel.errors import InvalidValue
from tidewheel.model.settings import DELIVERY_ROLES, roles_parameter_name
from tidewheel.model.topic import check_name

DEFAULT_STACK = "tidewheel"


class SubscriberQueue(Construct):
    """A standard queue with a dead-letter queue, to which the service's functions may send.

    Name it to the service once: `create_subscription(topic, name, queue_url=...)`.

    Attributes:
        queue: The subscription's queue.
        dead_letters: Where a message goes that was received too often.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stack_name: str = DEFAULT_STACK,
        role_arns: Sequence[str] | None = None,
        visibility_timeout: Duration | None = None,
        max_receive_count: int = 5,
        encryption_key: kms.IKey | None = None,
        removal_policy: RemovalPolicy | None = None,
        alarm_topic: sns.ITopic | None = None,
        alarm_name: str | None = None,
        runbook_url: str = RUNBOOK,
    ) -> None:
        """Make both queues.

        Args:
            scope: The construct that it belongs to.
            id_: Its name there.
            stack_name: As of `grant_deliveries`.
            role_arns: As of `grant_deliveries`.
            visibility_timeout: How long a received message stays invisible to others; a minute by default.
            max_receive_count: How often a message is received before it is a dead letter.
            encryption_key: A KMS key of your own; by default SQS encrypts with its own.
            removal_policy: Whether both queues, and what is in them, go with the stack; they do by default.
            alarm_topic: Told when there are dead letters, for $0.10 a month; by default nobody is.
            alarm_name: The alarm's; CloudFormation gives it one by default.
            runbook_url: What the alarm's description ends with.
        """
        super().__init__(scope, id_)
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            retention_period=RETENTION,
            removal_policy=removal_policy,
            enforce_ssl=True,
            **queue_encryption(encryption_key),
        )
        self.queue = sqs.Queue(
            self,
            "Queue",
            retention_period=RETENTION,
            visibility_timeout=visibility_timeout or Duration.minutes(1),
            removal_policy=removal_policy,
            enforce_ssl=True,
            dead_letter_queue=sqs.DeadLetterQueue(max_receive_count=max_receive_count, queue=self.dead_letters),
            **queue_encryption(encryption_key),
        )
        grant_deliveries(self.queue, stack_name=stack_name, role_arns=role_arns)
        if alarm_topic is not None:
            watch_dead_letters(self.dead_letters, topic=alarm_topic, alarm_name=alarm_name, runbook_url=runbook_url)


def grant_deliveries(
    queue: sqs.IQueue, *, stack_name: str = DEFAULT_STACK, role_arns: Sequence[str] | None = None
) -> None:
    """Give a queue the policy that lets the service's functions send to it, and its KMS key one to encrypt with it.

    In the service's own account and Region nothing else is needed: the roles are read from the service's SSM parameter
    when the queue's stack is deployed. A queue of another account needs `role_arns`, and to be listed in
    `subscriber_queue_arns` of the service's environment. A key that was made elsewhere stays as it is: allow the roles
    KMS_ACTIONS in its policy.

    Args:
        queue: A standard queue that the same CDK app makes.
        stack_name: The service's stack.
        role_arns: The roles that deliver, where the parameter cannot be read: `tidewheel policy queue` prints them.

    Raises:
        InvalidValue: The queue is a FIFO queue, or it was made elsewhere, so that its policy cannot be added to.
    """
    if queue.fifo:
        raise InvalidValue("queue", queue.node.path, NO_FIFO)
    if role_arns is None:
        role_arns = _published_roles(queue, check_name("stack_name", stack_name))
    principals = [iam.ArnPrincipal(arn) for arn in role_arns]
    # No Sid: those of one policy must differ, and several services may send to one queue.
    statement = iam.PolicyStatement(principals=principals, actions=["sqs:SendMessage"], resources=[queue.queue_arn])
    if not queue.add_to_resource_policy(statement).statement_added:
        advice = "it was made elsewhere; set the policy there, as `tidewheel policy queue <queue URL>` prints it"
        raise InvalidValue("queue", queue.node.path, advice)
    if queue.encryption_master_key is not None:
        queue.encryption_master_key.add_to_resource_policy(
            iam.PolicyStatement(
                principals=principals,
                actions=list(KMS_ACTIONS),
                resources=["*"],
                conditions={"StringEquals": {"kms:ViaService": f"sqs.{queue.env.region}.{Aws.URL_SUFFIX}"}},
            )
        )


def allow_deliveries(queue: sqs.IQueue, roles: Sequence[iam.IRole], *, declared_in: Construct) -> None:
    """Let roles of the same app send to a subscription's queue: by its policy, or if that is not ours, by theirs.

    The latter is enough in the service's own account. In another one the queue's policy must allow the roles as well.
    It is also the way if the service's stack declares a subscription with a queue of another stack: a policy of the
    queue that names the roles would make each stack wait for the other.

    Args:
        queue: The subscription's.
        roles: The service's roles that deliver.
        declared_in: The subscription.

    Raises:
        InvalidValue: The queue is a FIFO queue, or one of another account or Region that the service's stack cannot
            name.
    """
    if isinstance(queue, sqs.Queue) and not _would_wait_for_each_other(queue, roles[0], declared_in):
        grant_deliveries(queue, role_arns=[role.role_arn for role in roles])
        return
    if queue.fifo:
        raise InvalidValue("queue", queue.node.path, NO_FIFO)
    for role in roles:
        iam.Grant.add_to_principal(grantee=role, actions=["sqs:SendMessage"], resource_arns=[queue.queue_arn])
        if queue.encryption_master_key is not None:
            queue.encryption_master_key.grant(role, *KMS_ACTIONS)


def _would_wait_for_each_other(queue: sqs.Queue, role: iam.IRole, declared_in: Construct) -> bool:
    """Whether the service's stack declares what a queue of another stack is for.

    Raises:
        InvalidValue: That stack is in another account or Region.
    """
    home, other = Stack.of(role), Stack.of(queue)
    if other.node.addr == home.node.addr or Stack.of(declared_in).node.addr != home.node.addr:
        return False
    if other.environment != home.environment:
        advice = (
            f"its stack is in {other.environment}, the service's in {home.environment}: declare the topic in the "
            "queue's stack, or create the subscription with the SDK"
        )
        raise InvalidValue("queue", queue.node.path, advice)
    return True


def _published_roles(queue: sqs.IQueue, stack_name: str) -> list[str]:
    """Return the roles that the service's stack has published, as values of the deployment."""
    published = ssm.StringListParameter.value_for_typed_list_parameter(
        Stack.of(queue), roles_parameter_name(stack_name)
    )
    return [Fn.select(number, published) for number in range(DELIVERY_ROLES)]
