"""botocore's descriptions of AWS, thinned as they are for a bundle: clients made of them ask for the same things."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import botocore
import pytest
from botocore.config import Config
from botocore.model import OperationModel, Shape
from botocore.session import Session

from tidewheel.cdk.bundles import SERVICES
from tidewheel.cdk.service_descriptions import thin_descriptions

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
    thin_descriptions(folder, SERVICES)
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
    assert thin.operation_names == whole.operation_names
    assert thin.metadata == whole.metadata
    for name in thin.operation_names:
        assert operation(thin.operation_model(name)) == operation(whole.operation_model(name)), name


def test_every_client_asks_at_the_same_address(thinned: Path) -> None:
    whole, thin = (session_of(data) for data in (DATA, thinned))
    for region in REGIONS:
        for service in sorted(SERVICES):
            config = Config(region_name=region)
            addresses = {each.create_client(service, config=config).meta.endpoint_url for each in (whole, thin)}
            assert len(addresses) == 1, (service, region, addresses)


def test_what_every_client_parses_is_a_third_of_what_it_was(thinned: Path) -> None:
    def size(path: Path) -> int:
        return len(gzip.decompress(path.read_bytes())) if path.suffix == ".gz" else path.stat().st_size

    before, after = (
        [*data.glob("s3/*/service-2.json*"), *data.glob("s3/*/endpoint-rule-set-1.json*"), data / "endpoints.json"]
        for data in (DATA, thinned)
    )
    assert len(after) == len(before) == 3
    assert sum(map(size, after)) < sum(map(size, before)) / 3


def test_members_that_are_called_documentation_stay(tmp_path: Path) -> None:
    (tmp_path / "endpoints.json").write_text('{"partitions": []}')
    (tmp_path / "x" / "1").mkdir(parents=True)
    described = {"members": {"documentation": {"shape": "Text", "documentation": "<p>of it</p>"}}, "all": [1, None]}
    (tmp_path / "x" / "1" / "service-2.json.gz").write_bytes(gzip.compress(json.dumps(described).encode()))
    thin_descriptions(tmp_path, {"x"})
    [left] = (tmp_path / "x" / "1").iterdir()
    assert left.name == "service-2.json"
    assert json.loads(left.read_bytes()) == {"members": {"documentation": {"shape": "Text"}}, "all": [1, None]}
