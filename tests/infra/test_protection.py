"""Stored data is encrypted and kept, and reachable only over TLS and with a permission."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.infra.variants import KEY_ARN, VARIANTS, template_of

if TYPE_CHECKING:
    from tests.infra.conftest import StackTemplate

STATEFUL = {"AWS::DynamoDB::Table", "AWS::KMS::Key", "AWS::Logs::LogGroup", "AWS::S3::Bucket", "AWS::SQS::Queue"}
"""What holds something that a new deployment would not bring back."""

DERIVED = {"AWS::Glue::Database", "AWS::Glue::Table", "AWS::Scheduler::ScheduleGroup"}
"""What says where data is, and when it is due: it goes with every stack, and comes back with the next."""

WITHOUT_KEY = [name for name in VARIANTS if "key" not in name]
WITH_KEY = [name for name in VARIANTS if name not in WITHOUT_KEY]


@pytest.fixture(params=VARIANTS)
def any_stack(request: pytest.FixtureRequest) -> StackTemplate:
    """Each stack variant."""
    return stack_of(request.param)


# ---- at rest


@pytest.mark.parametrize("variant", WITHOUT_KEY)
def test_without_a_key_the_services_own_keys_encrypt_and_kms_costs_nothing(variant: str) -> None:
    stack = stack_of(variant)
    for rules in encryption_rules(stack):
        assert rules == [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
    assert all(queue["SqsManagedSseEnabled"] is True for queue in stack.of_type("AWS::SQS::Queue").values())
    said = json.dumps(template_of(variant))  # Glue may decrypt its code
    assert not any(
        part in said for part in ("AWS::KMS", "KmsKey", "KMSMasterKey", 'kms:Encrypt"', "kms:GenerateDataKey")
    )


@pytest.mark.parametrize("variant", WITH_KEY)
def test_with_a_key_all_that_is_stored_is_encrypted_with_it(variant: str) -> None:
    stack, key = stack_of(variant), key_of(variant)
    for rules in encryption_rules(stack):
        [rule] = rules
        assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}
        assert rule["BucketKeyEnabled"] is True
    for table in stack.of_type("AWS::DynamoDB::Table").values():
        assert table["SSESpecification"] == {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": key}
    for type_, property_ in (("AWS::SQS::Queue", "KmsMasterKeyId"), ("AWS::Logs::LogGroup", "KmsKeyId")):
        found = stack.of_type(type_)
        assert found and all(each[property_] == key for each in found.values())
    assert all("KmsMasterKeyId" in topic for topic in stack.of_type("AWS::SNS::Topic").values())


def test_a_key_of_its_own_is_rotated_and_lets_only_logs_and_alarms_use_it_beside_the_account() -> None:
    key = stack_of("a key of its own").one("AWS::KMS::Key")
    assert key["EnableKeyRotation"] is True
    by_principal = {
        json.dumps(statement["Principal"], sort_keys=True): statement for statement in key["KeyPolicy"]["Statement"]
    }
    account = [name for name in by_principal if ":root" in name]
    [logs] = [statement for name, statement in by_principal.items() if "logs." in name]
    services = set(by_principal) - set(account) - {json.dumps(logs["Principal"], sort_keys=True)}
    assert services == {'{"Service": "cloudwatch.amazonaws.com"}', '{"Service": "events.amazonaws.com"}'}
    assert set(logs["Condition"]) == {"ArnLike"}
    assert len(account) == 1
    assert "kms:*" not in str([by_principal[name] for name in services]) + str(logs)


# ---- in transit


def test_only_tls_reaches_buckets_queues_and_topics(any_stack: StackTemplate) -> None:
    for type_, policy_type, property_ in (
        ("AWS::S3::Bucket", "AWS::S3::BucketPolicy", "Bucket"),
        ("AWS::SQS::Queue", "AWS::SQS::QueuePolicy", "Queues"),
        ("AWS::SNS::Topic", "AWS::SNS::TopicPolicy", "Topics"),
    ):
        protected = {
            resource["Ref"]
            for policy in any_stack.of_type(policy_type).values()
            if denies_plain_text(policy["PolicyDocument"]["Statement"])
            for resource in many(policy[property_])
        }
        assert protected == set(any_stack.of_type(type_))


def test_nothing_is_allowed_to_everybody(any_stack: StackTemplate) -> None:
    for type_ in ("AWS::S3::BucketPolicy", "AWS::SQS::QueuePolicy", "AWS::SNS::TopicPolicy"):
        for policy in any_stack.of_type(type_).values():
            for statement in policy["PolicyDocument"]["Statement"]:
                everybody = statement["Principal"] in ("*", {"AWS": "*"})
                assert statement["Effect"] == "Deny" or not everybody


def test_the_s3_bucket_is_not_public_and_has_no_access_lists(any_stack: StackTemplate) -> None:
    for s3_bucket in any_stack.of_type("AWS::S3::Bucket").values():
        assert s3_bucket["PublicAccessBlockConfiguration"] == {
            "BlockPublicAcls": True,
            "BlockPublicPolicy": True,
            "IgnorePublicAcls": True,
            "RestrictPublicBuckets": True,
        }
        assert s3_bucket["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}


# ---- kept, and for how long


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_holds_data_stays_with_production_and_goes_with_development(variant: str) -> None:
    policy = "Retain" if VARIANTS[variant][0] == "production" else "Delete"
    found = set()
    for name, resource in template_of(variant)["Resources"].items():
        if resource["Type"] in STATEFUL | {"AWS::Logs::LogGroup"} and resource["Type"] != "AWS::DynamoDB::Table":
            # A failed first deployment leaves only the protected table.
            expected = "RetainExceptOnCreate" if policy == "Retain" else policy
            assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == (expected, policy), name
            found.add(resource["Type"])
        elif resource["Type"] in STATEFUL:
            assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == (policy, policy), name
            found.add(resource["Type"])
        elif "DeletionPolicy" in resource:
            assert (resource["Type"] in DERIVED, resource["DeletionPolicy"]) == (True, "Delete"), name
    assert found >= STATEFUL - {"AWS::KMS::Key"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_table_is_protected_in_production_and_can_be_restored_everywhere(variant: str) -> None:
    table = stack_of(variant).one("AWS::DynamoDB::Table")
    assert table["DeletionProtectionEnabled"] is (VARIANTS[variant][0] == "production")
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


def test_production_keeps_deleted_objects_for_a_week_and_development_does_not() -> None:
    kept = stack_of("production").one("AWS::S3::Bucket")
    assert kept["VersioningConfiguration"] == {"Status": "Enabled"}
    rules = {rule["Id"]: rule for rule in kept["LifecycleConfiguration"]["Rules"]}
    forget = rules["forget-deleted-objects"]
    assert forget["NoncurrentVersionExpiration"] == {"NoncurrentDays": 7}
    assert forget["ExpiredObjectDeleteMarker"] is True
    assert "ExpirationInDays" not in forget and "Prefix" not in forget
    gone = stack_of("development").one("AWS::S3::Bucket")
    assert "VersioningConfiguration" not in gone
    named = {rule["Id"] for rule in gone["LifecycleConfiguration"]["Rules"]}
    assert named == {"abort-multipart-uploads", "forget-refused-messages"}


def test_unfinished_uploads_are_forgotten_after_a_day(any_stack: StackTemplate) -> None:
    rules = any_stack.one("AWS::S3::Bucket")["LifecycleConfiguration"]["Rules"]
    [rule] = [rule for rule in rules if "AbortIncompleteMultipartUpload" in rule]
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
    assert rule["Status"] == "Enabled"


def test_every_log_ends_after_a_month_and_no_function_makes_a_log_of_its_own(any_stack: StackTemplate) -> None:
    groups = any_stack.of_type("AWS::Logs::LogGroup")
    assert {group["RetentionInDays"] for group in groups.values()} == {30}
    for function in any_stack.functions().values():
        assert function["LoggingConfig"]["LogGroup"]["Ref"] in groups


def test_access_logs_go_where_the_environment_says() -> None:
    logging = stack_of("an existing key").one("AWS::S3::Bucket")["LoggingConfiguration"]
    assert logging["DestinationBucketName"] == "team-access-logs"
    assert "LoggingConfiguration" not in stack_of("production").one("AWS::S3::Bucket")


def stack_of(variant: str) -> StackTemplate:
    """Returns a variant's template with queries for tests."""
    from tests.infra.conftest import StackTemplate

    return StackTemplate(template_of(variant))


def key_of(variant: str) -> Any:
    """Returns the reference to a variant's key."""
    made = list(stack_of(variant).of_type("AWS::KMS::Key"))
    return {"Fn::GetAtt": [made[0], "Arn"]} if made else KEY_ARN


def encryption_rules(stack: StackTemplate) -> list[list[dict[str, Any]]]:
    """How each S3 bucket encrypts."""
    found = stack.of_type("AWS::S3::Bucket").values()
    assert found
    return [each["BucketEncryption"]["ServerSideEncryptionConfiguration"] for each in found]


def denies_plain_text(statements: list[dict[str, Any]]) -> bool:
    """Returns whether the statements deny all requests without TLS to everybody."""
    return any(
        statement["Effect"] == "Deny"
        and statement["Principal"] in ("*", {"AWS": "*"})
        and statement.get("Condition") == {"Bool": {"aws:SecureTransport": "false"}}
        for statement in statements
    )


def many(value: Any) -> list[Any]:
    """Returns a value as a list, since CloudFormation also accepts a single element."""
    return value if isinstance(value, list) else [value]
