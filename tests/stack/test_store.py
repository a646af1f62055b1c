"""The buckets of a stack."""

from __future__ import annotations

from bcn.stack.store import make_buckets
from tests.support.proxy import Lose, Request, open_proxy
from tests.support.servers import S3Server


def test_a_bucket_that_was_made_though_its_answer_got_lost_is_there(minio: S3Server) -> None:
    lost: list[str] = []

    def lose_the_first(request: Request) -> None:
        if request.method == "PUT" and not lost:
            lost.append(request.path)
            raise Lose

    with open_proxy(minio.server.address) as proxy:
        proxy.rule = lose_the_first
        make_buckets(["stack-bucket"], {**minio.properties, "s3.endpoint": proxy.endpoint})
    assert lost == ["/stack-bucket"]
    minio.client().head_bucket(Bucket="stack-bucket")
