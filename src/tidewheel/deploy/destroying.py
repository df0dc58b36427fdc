"""Removes a stack, its data if the environment is development, and last the bucket with its archives."""

from __future__ import annotations

from typing import Any

from tidewheel.deploy.account import Account
from tidewheel.deploy.assets import empty
from tidewheel.deploy.deploying import Talk, check_origin
from tidewheel.deploy.words import kind
from tidewheel.errors import DeployFailed, DeployRefused

TRIES = 3
"""Functions may write into a bucket that was just emptied. After the first try, the functions are gone."""
REMOVAL = {
    "AWS::DynamoDB::Table": "aws dynamodb update-table --no-deletion-protection-enabled --table-name {0}; "
    "aws dynamodb delete-table --table-name {0}",
    "AWS::S3::Bucket": "delete all versions of its objects; aws s3 rb s3://{0}",
    "AWS::SQS::Queue": "aws sqs delete-queue --queue-url {0}",
    "AWS::Logs::LogGroup": "aws logs delete-log-group --log-group-name {0}",
}
"""Type of a resource that production keeps -> how to remove it."""


def destroy(account: Account, name: str, talk: Talk, role_arn: str | None) -> dict[str, Any]:
    """Removes a stack, and then the bucket with its archives. A repetition completes an interrupted call.

    Raises:
        DeployRefused: There is nothing to remove, or another program deployed the stack.
        DeployFailed: CloudFormation could not remove a resource.
    """
    stack, assets = account.stack(name), account.assets(name)
    found = stack.settled(talk.say, talk.progress)
    check_origin(name, found)
    if found is None and not assets.exists():
        raise DeployRefused(f"Region {account.region} has no stack {name}: check --stack and --region")
    resources = [] if found is None else stack.resources(found["StackId"])
    kept = [each for each in resources if each.kept]
    talk.say(f"stack {name}, account {account.number}, Region {account.region}: {len(resources)} resources")
    for each in kept:
        talk.say(f"stays: {kind(each.type)} {each.name}. To remove it: {REMOVAL.get(each.type, '-').format(each.name)}")
    result = {"stack": name, "region": account.region, "kept": [each.name for each in kept]}
    if not talk.ask("All else is removed, with all messages. Go on?" if not kept else "All else is removed. Go on?"):
        talk.say("nothing was changed")
        return {**result, "destroyed": False}
    if found is not None:
        if found.get("EnableTerminationProtection"):
            stack.protect(False)
        buckets = [each.name for each in resources if each.type == "AWS::S3::Bucket" and not each.kept]
        for _ in range(TRIES):
            for bucket in buckets:
                empty(account.client("s3"), bucket, account.number)
            status, failure = stack.delete(found["StackId"], role_arn, talk.progress)
            if status == "DELETE_COMPLETE":
                break
        else:
            raise DeployFailed(f"stack {name} is in {status}: run tidewheel destroy again. First failure: {failure}")
    assets.remove()
    # Clients made these. A stack that is named `<name>-...` has such queues, too.
    for url in account.client("sqs").list_queues(QueueNamePrefix=f"{name}-").get("QueueUrls", []):
        talk.say(f"stays: queue {url}. To remove it: {REMOVAL['AWS::SQS::Queue'].format(url)}")
    return {**result, "destroyed": True}
