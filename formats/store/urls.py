"""URLs, which are not read or written here, and must not be taken for paths.

`s3://bucket/run/ckpt-1` is a path to every system call, of a directory called `s3:`.
"""

from __future__ import annotations

import re

from ..errors import UnsupportedFeatureError

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)

_COPY = {
    "s3": "copy it with `aws s3 cp`, and name the copy",
    "gs": "copy it with `gcloud storage cp`, and name the copy",
    "az": "copy it with `azcopy copy`, and name the copy",
    "hf": "fetch it with `hf download`, and name what it prints",
    "http": "fetch it with `curl -LO`, and name the copy",
    "https": "fetch it with `curl -LO`, and name the copy",
}
_OTHER = "copy it to a disk of this machine, and name the copy"


def refuse_url(path: str) -> None:
    """Raise UnsupportedFeatureError where a path is a URL.  `./s3://x` is a path."""
    url = _URL.match(path)
    if url is None:
        return
    scheme = url["scheme"].lower()
    hint = f"name it by its path: {url['rest']}" if scheme == "file" else _COPY.get(scheme, _OTHER)
    raise UnsupportedFeatureError(f"{scheme}:// is not read or written here", path=path, hints=(hint,))
