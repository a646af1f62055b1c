"""The example of docs/stores.md works as it is written."""

from __future__ import annotations

import re
from pathlib import Path

from bcn.config.load import load_settings
from bcn.repository.repository import Scope
from bcn.storage.protocol import StorageSpec
from tests.support.s3 import CloudProduct, add_twins, differences, mirrored
from tests.support.servers import ACCESS_KEY, SECRET_KEY, S3Server
from tests.support.small import InProcess

DOCUMENT = Path(__file__).parents[2] / "docs" / "stores.md"


def test_the_example_of_s3_backs_up_and_restores(minio: S3Server, tmp_path: Path) -> None:
    text = DOCUMENT.read_text().partition("## S3\n")[2]
    example = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert example is not None
    with mirrored(minio, tmp_path / "mirror") as warehouse:
        told = {
            "http://127.0.0.1:9000": minio.endpoint,
            "s3://warehouse": warehouse.location,
            "s3://backups": f"s3://{minio.make_bucket()}",
            '"reader"': f'"{ACCESS_KEY}"',
            '"writer"': f'"{ACCESS_KEY}"',
            "reader-secret": SECRET_KEY,
            "writer-secret": SECRET_KEY,
            "sqlite:///catalog.db": f"sqlite:///{tmp_path}/catalog.db",
        }
        toml = example[1]
        for old, new in told.items():
            assert old in toml
            toml = toml.replace(old, new)
        (tmp_path / "bcn.toml").write_text(toml)
        settings = load_settings(None, {}, tmp_path)
        nightly = settings.repositories["nightly"]
        spec = StorageSpec(nightly.location, nightly.properties)
        product = CloudProduct(Path(), settings.catalogs, InProcess(), spec)
        tables = add_twins(product, "prod", f"{warehouse.location}/prod")
        warehouse.upload()
        product.backup(Scope("prod"))
        report = product.restore(target_catalog="prod", target_database=("back",))
        warehouse.download()
        assert differences(tables, report) == []
