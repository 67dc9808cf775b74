"""Sound bytes and sound JSON, changed at random by a seeded draw. Costs microseconds."""

import copy
import json
import math
import random
from typing import Any

SNIPPETS = (
    *(b"\n\n", b"\t", b"\r\n", b"\r", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80"),
    *(b'"', b"'", b"\\", b"\\u", b",", b":", b"#", b"|", b"=", b"(", b")", b"[", b"]", b"{", b"}"),
    *(b"_", b"-1", b"0", b"1-2", b"1.1", b"9" * 30, b"1e999", b"-0", b"null", b"true", b"NaN"),
    *(b"Entity=(1-x", b"Entity=1)", b"SpaceAfter=No", b"-NONE-", b"# newdoc\n", b"# text = x\n"),
    *(text.encode() for text in ("\u2028", "\u202e", "e\u0301", "漢字", "\U0001d4b3")),
    *(b"(" * 3_000, b"[" * 3_000, b'{"a":' * 300, b"a" * 70_000, b"\n" * 2_000, b"x\t" * 500),
)  # fmt: skip
ODD_TEXTS = (
    *("", " ", "_", "none", "null", "NaN", "inf", "-1", "0", "1e309", "9" * 25, "0x10", "1_000"),
    *("a,b", ",", "[1, 2", "[]", "{}", '{"a": 1}', "true", "yes", "..", "../..", "/", "~"),
    *("~nobody", "a\nb", "a\0b", "\ud800", "ｆｕｌｌ", "١٢٣", "e\u0301", "<b>", "%s", "{0}"),
    *("$HOME", "a" * 5_000, "0..9", "9..0", "0..99999999", "1..", "mini:bert", "primer"),
    *("cuda", "cuda:7", "tcp://x:1"),
)  # fmt: skip
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 2**31, 2**63, -(2**63), 10**40, 0.0, -0.0, 0.5, 1e308),
    *(math.inf, -math.inf, math.nan, "", "x", "1", [], [[]], {}, {"a": None}, [0] * 1_000),
)


def changed(draw: random.Random, content: bytes, most: int = 4) -> bytes:
    """Bytes with one to `most` edits, mostly one."""
    for _ in range(draw.choice([1, 1, draw.randint(1, most)])):
        at = draw.randint(0, len(content))
        before, after = content[:at], content[at:]
        piece = draw.choice(SNIPPETS) if draw.random() < 0.7 else draw.randbytes(draw.randint(1, 8))
        match draw.choice(["insert", "overwrite", "delete", "repeat", "cut", "flip", "lines"]):
            case "insert":
                content = before + piece + after
            case "overwrite":
                content = before + piece + after[len(piece) :]
            case "delete":
                content = before + after[draw.randint(1, 60) :]
            case "repeat":
                content = before + after[:400] * draw.choice([2, 2, 3, 50]) + after
            case "cut":
                content = before
            case "flip" if after:
                content = before + bytes([after[0] ^ 1 << draw.randrange(8)]) + after[1:]
            case "lines":
                lines = content.split(b"\n")
                draw.shuffle(lines)
                content = b"\n".join(lines)
    return content


def changed_json(draw: random.Random, found: Any, most: int = 3) -> Any:
    """A deep copy of some JSON with one to `most` values replaced, removed, renamed or doubled."""
    found = copy.deepcopy(found)
    for _ in range(draw.randint(1, most)):
        places = list(_places(found))
        if not places:
            return _odd(draw)
        holder, key = draw.choice(places)
        match draw.choice(["value", "value", "value", "text", "number", "remove", "name", "nest"]):
            case "value":
                holder[key] = _odd(draw)
            case "text":
                holder[key] = draw.choice(ODD_TEXTS)
            case "number" if isinstance(holder[key], int | float):
                holder[key] *= draw.choice([-1, 0, 2, 3, 0.5, 1_000, 10**9])
            case "remove":
                del holder[key]
            case "name" if isinstance(holder, dict):
                holder[draw.choice(ODD_TEXTS)] = holder.pop(key)
            case "nest":
                holder[key] = {"a": holder[key]} if draw.random() < 0.5 else [holder[key]]
    return found


def _odd(draw: random.Random) -> Any:
    """A value of its own: a list that cases shared would be changed by one for all after it."""
    return copy.deepcopy(draw.choice(ODD_VALUES))


def json_bytes(draw: random.Random, found: Any) -> bytes:
    """Changed JSON as bytes; now and then the bytes are changed as well, or instead."""
    kind = draw.random()
    content = json.dumps(changed_json(draw, found) if kind < 0.8 else found).encode()
    return changed(draw, content) if kind > 0.7 else content


def _places(found: Any, depth: int = 100) -> Any:
    """Every (container, key) of some JSON, down to this depth."""
    if depth and isinstance(found, dict | list):
        for key in list(found) if isinstance(found, dict) else range(len(found)):
            yield found, key
            yield from _places(found[key], depth - 1)
