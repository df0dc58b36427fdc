"""Creates or prepares a team's own queue for a subscription."""

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
from tidewheel.cdk.queues import encrypted_queue
from tidewheel.errors import InvalidValue
from tidewheel.model.settings import DELIVERY_ROLES, SubscriptionSettings, roles_parameter_name
from tidewheel.model.topic import check_name
from tidewheel.policies import KMS_ACTIONS, NO_FIFO

DEFAULT_STACK = "tidewheel"


class SubscriberQueue(Construct):
    """A standard queue with a dead-letter queue, to which the service's functions may send.

    Name the queue to the service once: `create_subscription(topic, name, queue_url=...)`.

    Attributes:
        queue: The subscription's queue.
        dead_letters: The queue for messages that were received too often.
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
    ) -> None:
        """Creates both queues.

        Args:
            scope: The construct that the queues belong to.
            id_: The construct's name in the scope.
            stack_name: As for `grant_deliveries`.
            role_arns: As for `grant_deliveries`.
            visibility_timeout: How long a received message stays invisible to others. By default as for
                `create_subscription`.
            max_receive_count: How often a message is received before it is a dead letter.
            encryption_key: Your own KMS key; by default SQS encrypts with its own key.
            removal_policy: Whether both queues and their messages are deleted with the stack; by default they are.
            alarm_topic: Gets a message when there are dead letters, for $0.10 a month; by default there is no alarm.
            alarm_name: The alarm's name; by default CloudFormation names the alarm.
        """
        super().__init__(scope, id_)
        self.dead_letters = encrypted_queue(self, "DeadLetters", encryption_key, removal_policy=removal_policy)
        self.queue = encrypted_queue(
            self,
            "Queue",
            encryption_key,
            removal_policy=removal_policy,
            visibility_timeout=visibility_timeout or Duration.seconds(SubscriptionSettings().visibility_timeout_s),
            dead_letter_queue=sqs.DeadLetterQueue(max_receive_count=max_receive_count, queue=self.dead_letters),
        )
        grant_deliveries(self.queue, stack_name=stack_name, role_arns=role_arns)
        if alarm_topic is not None:
            watch_dead_letters(self.dead_letters, topic=alarm_topic, alarm_name=alarm_name)


def grant_deliveries(
    queue: sqs.IQueue, *, stack_name: str = DEFAULT_STACK, role_arns: Sequence[str] | None = None
) -> None:
    """Allows the service's functions to send to a queue, and to encrypt with the queue's KMS key.

    In the service's own account and Region, this call is enough: the roles are read from the service's SSM parameter
    when the queue's stack is deployed. A queue of another account needs `role_arns`, and `subscriber_queue_arns` of the
    service's environment must list the queue. The policy of an imported key does not change: allow the roles
    KMS_ACTIONS in the key's policy.

    Args:
        queue: A standard queue of the same CDK app.
        stack_name: The service's stack.
        role_arns: The roles that deliver, if the parameter cannot be read; `tidewheel policy queue` prints the roles.

    Raises:
        InvalidValue: The queue is a FIFO queue, or an imported queue, whose policy the app cannot change.
    """
    if queue.fifo:
        raise InvalidValue("queue", queue.node.path, NO_FIFO)
    if role_arns is None:
        role_arns = _published_roles(queue, check_name("stack_name", stack_name))
    principals = [iam.ArnPrincipal(arn) for arn in role_arns]
    # No Sid: Sids must be unique in a policy, and several services may send to the same queue.
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
    """Allows roles of the same app to send to a subscription's queue.

    If the app can change the queue's policy, the queue's policy allows the roles. Otherwise the roles' policies allow
    the queue. This is enough in the service's own account; in another account the queue's policy must allow the roles
    too. The roles' policies are also used if the service's stack declares a subscription with a queue of another stack:
    a queue policy that names the roles would make each stack wait for the other.

    Args:
        queue: The subscription's queue.
        roles: The service's roles that deliver.
        declared_in: The subscription.

    Raises:
        InvalidValue: The queue is a FIFO queue, or a queue of another account or Region that the service's stack cannot
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
    """Returns whether the service's stack declares the subscription of another stack's queue.

    Raises:
        InvalidValue: The queue's stack is in another account or Region.
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
    """Returns the roles that the service's stack published, as values known at deployment."""
    published = ssm.StringListParameter.value_for_typed_list_parameter(
        Stack.of(queue), roles_parameter_name(stack_name)
    )
    return [Fn.select(number, published) for number in range(DELIVERY_ROLES)]
