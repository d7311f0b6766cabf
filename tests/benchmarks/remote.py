"""Reading from a bucket on this machine, and writing to it, against boto3 and s3fs; and reading over http.

The server is SeaweedFS, from the environment of `make servers`; the rivals have an environment of their own.
For requests of 50 ms a proxy waits before it passes an answer on.
"""

from __future__ import annotations

import os
import statistics
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.data import large_bundle, many_tensors
from tests.benchmarks.harness import ROOT, Missing, Row, at_most, faster, python, run
from tests.servers.programs import KEY, SECRET, seaweed
from tests.servers.proxy import proxied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.harness import Scale

SERVERS = os.environ.get("CKPT_SERVERS", os.path.join(ROOT, ".venv-servers"))
RIVALS = os.environ.get("CKPT_RIVALS", os.path.join(ROOT, ".venv-rivals"))

_WRITTEN = 512 << 20
"""Bytes that are written in each round: the server keeps what was replaced for a while."""

DELAY = 0.05
"""Seconds that a request takes longer, as to a bucket on another continent."""

CLIENT = "import boto3; client = boto3.client('s3')\n"
UPLOAD = f"""{CLIENT}
client.create_bucket(Bucket="bucket")
for name in {{names!r}}:
    client.upload_file({{directory!r}} + "/" + name, "bucket", name)
"""
DOWNLOAD = f"{CLIENT}client.download_file('bucket', {{name!r}}, {{path!r}})"
PUT = f"{CLIENT}client.upload_file({{path!r}}, 'bucket', {{name!r}})"
COPY = f"{DOWNLOAD}\nclient.upload_file({{path!r}}, 'bucket', {{target!r}})"
GET = """
import shutil, urllib.request
with urllib.request.urlopen({source!r}) as body, open({path!r}, "wb") as file:
    shutil.copyfileobj(body, file, 1 << 20)
"""
FETCH = f"""{CLIENT}
client.head_object(Bucket="bucket", Key={{name!r}})
with open({{path!r}}, "wb") as file:
    file.write(client.get_object(Bucket="bucket", Key={{name!r}})["Body"].read())
"""
SAVE = """
import numpy
numpy.save({path!r}, numpy.frombuffer(data, numpy.float32).reshape({shape}))
"""
TENSOR_BOTO3 = f"""{CLIENT}
part = "bytes={{begin}}-%d" % ({{end}} - 1)
data = client.get_object(Bucket="bucket", Key={{name!r}}, Range=part)["Body"].read()
{SAVE}"""
TENSOR_S3FS = f"""
import os, s3fs
system = s3fs.S3FileSystem(client_kwargs={{{{"endpoint_url": os.environ["AWS_ENDPOINT_URL"]}}}})
data = system.cat_file("bucket/" + {{name!r}}, start={{begin}}, end={{end}})
{SAVE}"""


class _Bucket:
    """A bucket that has bundles: `many-1` of many tensors, `large-1` of many bytes, `written-1` of fewer."""

    def __init__(self, directory: str, scale: Scale, stack: ExitStack) -> None:
        self.directory = directory
        self._scale = scale
        self._stack = stack

    @cached_property
    def url(self) -> str:
        for place, target in ((SERVERS, "servers"), (RIVALS, "rivals")):
            if not os.path.exists(os.path.join(place, "bin", "python")):
                raise Missing(f"{os.path.basename(place)} is not there: make .venv-{target}/installed")
        many_tensors(self.path("many-1"), self._scale.of(100_000))
        large_bundle(self.path("large-1"), 64, self._scale.of(2 << 30))
        large_bundle(self.path("written-1"), 64, self._scale.of(_WRITTEN))
        folder = Path(self.path("weed"))
        folder.mkdir()
        url = self._stack.enter_context(seaweed(folder, os.path.join(SERVERS, "bin")))
        names = [
            f"{name}-1.{suffix}" for name in ("many", "large", "written") for suffix in ("index", _SHARD)
        ]
        self.rival(url, UPLOAD, names=names, directory=self.directory)
        return url

    @cached_property
    def far_url(self) -> str:
        proxy = self._stack.enter_context(proxied(self.url))
        proxy.delay = DELAY
        return proxy.url

    def path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def ours(self, url: str, *words: str) -> float:
        """Return the seconds of a command in an environment with obstore."""
        command = [os.path.join(SERVERS, "bin", "python"), "-m", "ckpt_cli", *words]
        return run(["env", f"PYTHONPATH={ROOT}", *_settings(url), *command], watch=False).seconds

    def rival(self, url: str, code: str, **values: object) -> float:
        command = python(code.format(**values), interpreter=os.path.join(RIVALS, "bin", "python"))
        return run(["env", *_settings(url), *command], watch=False).seconds


_SHARD = "data-00000-of-00001"


def _settings(url: str) -> list[str]:
    return [
        f"AWS_ENDPOINT_URL={url}",
        f"AWS_ACCESS_KEY_ID={KEY}",
        f"AWS_SECRET_ACCESS_KEY={SECRET}",
        "AWS_REGION=us-east-1",
        "AWS_DEFAULT_REGION=us-east-1",
        "AWS_ALLOW_HTTP=true",
    ]


def rows(directory: str, scale: Scale) -> Iterator[tuple[str, Callable[[], Row]]]:
    with ExitStack() as stack:
        bucket = _Bucket(directory, scale, stack)
        name = f"ls s3://, {scale.of(100_000):,} keys, 50 ms a request, beyond ls of a disk; boto3 and ls"
        yield name, partial(_listing, name, bucket, scale)
        for rival, code in (("boto3", TENSOR_BOTO3), ("s3fs", TENSOR_S3FS)):
            name = f"one tensor of {scale.of(2 << 30) / 1e9:.1f} GB over s3://, times as fast as {rival}"
            yield name, partial(_one_tensor, name, bucket, code, scale)
        name = f"verify s3://, {scale.of(2 << 30) / 1e9:.1f} GB / boto3 downloading it"
        yield name, partial(_verify, name, bucket, scale)
        name = f"verify http://, {scale.of(2 << 30) / 1e9:.1f} GB / urllib downloading it, then verify"
        yield name, partial(_verify_http, name, bucket, scale)
        name = f"convert to s3://, {scale.of(_WRITTEN) / 1e9:.1f} GB, checked / boto3 uploading it"
        yield name, partial(_upload, name, bucket, scale)
        name = (
            f"convert s3:// to s3://, {scale.of(_WRITTEN) / 1e9:.1f} GB / boto3 downloading and uploading it"
        )
        yield name, partial(_copy, name, bucket, scale)


def _listing(name: str, bucket: _Bucket, scale: Scale) -> Row:
    """Seconds beyond the same listing of a disk: of ours, and of who fetches the index and lists that."""
    far, fetched = bucket.far_url, bucket.path("fetched-1.index")
    index = {"name": "many-1.index", "path": fetched}
    bucket.ours(far, "ls", bucket.path("many-1"))  # to warm up
    bucket.rival(far, FETCH, **index)
    pairs = []
    for _ in range(scale.rounds):
        here = bucket.ours(far, "ls", bucket.path("many-1"))
        there = bucket.ours(far, "ls", "s3://bucket/many-1") - here
        theirs = bucket.rival(far, FETCH, **index) + bucket.ours(far, "ls", fetched) - here
        pairs.append((there, theirs))
    mine, other = (statistics.median(each) for each in zip(*pairs, strict=True))
    return Row(name, f"{mine:.3f} s", f"{other:.3f} s", mine, "<= 0.3 s", mine <= 0.3)


def _one_tensor(name: str, bucket: _Bucket, code: str, scale: Scale) -> Row:
    import formats

    url, out = bucket.url, bucket.path("tensor.npy")
    with formats.open_checkpoint(bucket.path("large-1")) as reader:
        key = list(reader)[len(reader) // 2]
        spec, offset = reader.specs[key], reader[key].stored.offset
    assert offset is not None
    assert spec.nbytes is not None
    place = {"name": f"large-1.{_SHARD}", "begin": offset, "end": offset + spec.nbytes}

    def ours() -> float:
        return bucket.ours(url, "extract", "s3://bucket/large-1", key, "-o", out, "--overwrite")

    def rival() -> float:
        return bucket.rival(url, code, path=out, shape=spec.shape, **place)

    return faster(name, ours, rival, 1.0, scale.rounds)


def _verify(name: str, bucket: _Bucket, scale: Scale) -> Row:
    url, path = bucket.url, bucket.path("downloaded")
    return at_most(
        name,
        lambda: bucket.ours(url, "verify", "s3://bucket/large-1"),
        lambda: bucket.rival(url, DOWNLOAD, name=f"large-1.{_SHARD}", path=path),
        1.0,
        scale.heavy_rounds,
    )


def _verify_http(name: str, bucket: _Bucket, scale: Scale) -> Row:
    """The bucket is public, so its objects are files of a web server, too."""
    url, prefix = bucket.url, bucket.path("fetched-1")

    def rival() -> float:
        took = 0.0
        for suffix in ("index", _SHARD):
            source = f"{url}/bucket/large-1.{suffix}"
            took += bucket.rival(url, GET, source=source, path=f"{prefix}.{suffix}")
        return took + bucket.ours(url, "verify", prefix)

    return at_most(
        name,
        lambda: bucket.ours(url, "verify", f"{url}/bucket/large-1"),
        rival,
        1.0,
        scale.heavy_rounds,
    )


def _upload(name: str, bucket: _Bucket, scale: Scale) -> Row:
    url, path = bucket.url, bucket.path(f"written-1.{_SHARD}")
    return at_most(
        name,
        lambda: bucket.ours(url, "convert", bucket.path("written-1"), "s3://bucket/ours-1", "--overwrite"),
        lambda: bucket.rival(url, PUT, path=path, name="theirs"),
        1.0,
        scale.heavy_rounds,
    )


def _copy(name: str, bucket: _Bucket, scale: Scale) -> Row:
    url, path = bucket.url, bucket.path("downloaded")
    return at_most(
        name,
        lambda: bucket.ours(url, "convert", "s3://bucket/written-1", "s3://bucket/copied-1", "--overwrite"),
        lambda: bucket.rival(url, COPY, name=f"written-1.{_SHARD}", path=path, target="theirs"),
        1.0,
        scale.heavy_rounds,
    )
