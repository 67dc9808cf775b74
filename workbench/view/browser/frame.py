"""One message to the browser as bytes: a head of JSON, then arrays, packed where that pays.

    u32 length of the head, little-endian | head, UTF-8 JSON | arrays, end to end

`head["arrays"][name]` says where an array lies behind the head (`at`, `size`), its `shape`, its
`type` (u1 or f4, little-endian) and whether it is `packed` by zlib. Costs a copy of the arrays.
"""

import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

TYPES = {np.dtype(np.uint8): "u1", np.dtype(np.float32): "f4"}
WORTH = 512  # bytes from which packing is tried


def framed(head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None) -> bytes:
    """The message; `head` is plain data without NaN."""
    told, parts, at = {}, [], 0
    for name, array in (arrays or {}).items():
        raw = np.ascontiguousarray(array).tobytes()
        packed = zlib.compress(raw, 1) if len(raw) >= WORTH else raw
        is_packed = len(packed) < len(raw)
        part = packed if is_packed else raw
        told[name] = {
            "at": at,
            "size": len(part),
            "shape": list(array.shape),
            "type": TYPES[array.dtype],
            "packed": is_packed,
        }
        parts.append(part)
        at += len(part)
    text = json.dumps({**head, "arrays": told}, ensure_ascii=False, allow_nan=False).encode()
    return b"".join([len(text).to_bytes(4, "little"), text, *parts])


def unframed(message: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What `framed` was given; for tests, and for whoever reads an export."""
    length = int.from_bytes(message[:4], "little")
    head = json.loads(message[4 : 4 + length])
    rest = message[4 + length :]
    arrays = {}
    for name, told in head.pop("arrays").items():
        part = rest[told["at"] : told["at"] + told["size"]]
        raw = zlib.decompress(part) if told["packed"] else part
        kind = {"u1": "<u1", "f4": "<f4"}[told["type"]]
        arrays[name] = np.frombuffer(raw, dtype=kind).reshape(told["shape"])
    return head, arrays
