"""botocore's descriptions of AWS, thinned as they are for a bundle: clients made of them ask for the same things."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import botocore
import pytest
from botocore import xform_name
from botocore.config import Config
from botocore.model import OperationModel, Shape
from botocore.session import Session

from tidewheel.cdk.bundles import BUNDLES, SERVICES
from tidewheel.cdk.bundling import own_files
from tidewheel.cdk.service_descriptions import BOTOCORES, WHOLE, names_in, thin_descriptions
from tidewheel.shipped import PACKAGE

DATA = Path(botocore.__file__).parent / "data"
REGIONS = ("us-east-1", "cn-north-1")


@pytest.fixture(scope="module")
def thinned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """botocore's data as a bundle has it."""
    folder = tmp_path_factory.mktemp("botocore") / "data"
    folder.mkdir()
    for path in DATA.glob("*.json"):
        shutil.copyfile(path, folder / path.name)
    for service in SERVICES:
        shutil.copytree(DATA / service, folder / service)
    code = [path for bundle in BUNDLES for path in own_files(bundle).values()]
    thin_descriptions(folder, SERVICES, names_in(code))
    return folder


def session_of(data: Path) -> Session:
    """A session that reads descriptions from this folder alone."""
    session = Session()
    session.set_credentials("testing", "testing")
    loader = session.get_component("data_loader")
    loader._search_paths[:] = [str(data)]
    return session


def drawn(shape: Shape | None, above: tuple[str, ...] = ()) -> Any:
    """A shape as data, with all that it holds; one that holds itself is named."""
    if shape is None or shape.name in above:
        return None if shape is None else shape.name
    inner = (*above, shape.name)
    parts = {name: drawn(part, inner) for name, part in getattr(shape, "members", {}).items()}
    for name in ("member", "key", "value"):
        if hasattr(shape, name):
            parts[f"({name})"] = drawn(getattr(shape, name), inner)
    return shape.name, shape.type_name, dict(shape.serialization), dict(shape.metadata), parts


def operation(model: OperationModel) -> Any:
    """What a client knows of an operation."""
    return model.http, model.auth, model.endpoint, drawn(model.input_shape), drawn(model.output_shape)


@pytest.mark.parametrize("service", sorted(SERVICES - {"glue", "ssm"}))
def test_every_operation_takes_and_gives_the_same(thinned: Path, service: str) -> None:
    whole, thin = (session_of(data).get_service_model(service) for data in (DATA, thinned))
    assert set(thin.operation_names) <= set(whole.operation_names)
    assert (thin.operation_names == whole.operation_names) is (service in WHOLE)
    assert thin.metadata == whole.metadata
    assert {each.name for each in thin.error_shapes} == {each.name for each in whole.error_shapes}
    for name in thin.operation_names:
        assert operation(thin.operation_model(name)) == operation(whole.operation_model(name)), name


def test_every_operation_that_is_called_stays(thinned: Path) -> None:
    files = [path for bundle in BUNDLES for path in own_files(bundle).values() if path.is_relative_to(PACKAGE)]
    called = {
        name
        for path in files
        for pair in re.findall(
            r"(?:client|lambda\(\)|glue\(\)|sqs)\.(?:get_paginator\(\"(\w+)\"|(\w+)\()", path.read_text()
        )
        for name in pair
    }
    whole, thin = (
        {
            xform_name(name)
            for service in SERVICES
            for name in session_of(data).get_service_model(service).operation_names
        }
        for data in (DATA, thinned)
    )
    of_aws = called & whole
    assert {"put_object", "list_objects_v2", "transact_write_items", "send_message_batch", "create_schedule"} <= of_aws
    assert {"invoke", "start_job_run", "create_queue"} <= of_aws
    assert of_aws <= thin
    assert {name.replace("_", "") for name in thin} >= BOTOCORES
    assert len(thin) < len(whole) / 8


def test_every_client_asks_at_the_same_address(thinned: Path) -> None:
    whole, thin = (session_of(data) for data in (DATA, thinned))
    for region in REGIONS:
        for service in sorted(SERVICES):
            config = Config(region_name=region)
            addresses = {each.create_client(service, config=config).meta.endpoint_url for each in (whole, thin)}
            assert len(addresses) == 1, (service, region, addresses)


def test_what_every_client_parses_is_a_seventh_of_what_it_was(thinned: Path) -> None:
    def size(path: Path) -> int:
        return len(gzip.decompress(path.read_bytes())) if path.suffix == ".gz" else path.stat().st_size

    before, after = (
        [*data.glob("s3/*/service-2.json*"), *data.glob("s3/*/endpoint-rule-set-1.json*"), data / "endpoints.json"]
        for data in (DATA, thinned)
    )
    assert len(after) == len(before) == 3
    assert sum(map(size, after)) < sum(map(size, before)) / 7


def test_members_that_are_called_as_keys_are_stay_and_so_do_errors(tmp_path: Path) -> None:
    (tmp_path / "endpoints.json").write_text('{"partitions": []}')
    (tmp_path / "x" / "1").mkdir(parents=True)
    members = {"documentation": {"shape": "Text", "documentation": "<p>of it</p>"}, "shape": {"shape": "Text"}}
    put = {"name": "PutIt", "input": {"shape": "Input"}, "documentation": "<p>puts it</p>"}
    described = {
        "operations": {"PutIt": put, "GetIt": {"name": "GetIt", "input": {"shape": "Other"}}},
        "shapes": {
            "Input": {"type": "structure", "members": members},
            "Text": {"type": "string"},
            "Other": {"type": "structure", "members": {}},
            "Gone": {"type": "structure", "members": {"message": {"shape": "Reason"}}, "exception": True},
            "Reason": {"type": "string"},
        },
        "all": [1, None],
    }
    (tmp_path / "x" / "1" / "service-2.json.gz").write_bytes(gzip.compress(json.dumps(described).encode()))
    thin_descriptions(tmp_path, {"x"}, {"putit"})
    [left] = (tmp_path / "x" / "1").iterdir()
    assert left.name == "service-2.json"
    thin = json.loads(left.read_bytes())
    assert thin["operations"] == {"PutIt": {"name": "PutIt", "input": {"shape": "Input"}}}
    assert set(thin["shapes"]) == {"Input", "Text", "Gone", "Reason"}
    assert thin["shapes"]["Input"]["members"] == {"documentation": {"shape": "Text"}, "shape": {"shape": "Text"}}
    assert thin["all"] == [1, None]
