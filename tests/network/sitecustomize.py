"""Python reads this file first where its folder is on PYTHONPATH: it notes who would leave here.

Every address that is connected to, sent to or looked up, and is not this machine's own, becomes a
line in the file that WORKBENCH_AUDIT names. Costs microseconds a socket. Sockets that compiled code
opens by itself are not seen.
"""

import ipaddress
import os
import sys
import traceback
from typing import Any

EVENTS = {  # where the address or the name stands among an event's arguments
    "socket.connect": 1,
    "socket.sendto": 1,
    "socket.sendmsg": 1,
    "socket.getaddrinfo": 0,
    "socket.gethostbyname": 0,
    "socket.gethostbyaddr": 0,
    "socket.getnameinfo": 0,
}


def is_here(address: Any) -> bool:
    """Whether an address is this machine's own: a path, nothing, or a loopback address."""
    host = address[0] if isinstance(address, tuple) and address else address
    if isinstance(host, bytes):
        host = host.decode(errors="replace")
    if not host or not isinstance(host, str) or host.startswith(("/", "\0")):
        return True
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host == "localhost"
    return found.is_loopback or found.is_unspecified


def note(event: str, arguments: tuple[Any, ...]) -> None:
    if event in EVENTS and not is_here(arguments[EVENTS[event]]):
        by = " < ".join(frame.name for frame in reversed(traceback.extract_stack()[-9:-1]))
        with open(os.environ["WORKBENCH_AUDIT"], "a") as file:  # noqa: PTH123
            file.write(f"{event} {arguments[EVENTS[event]]!r} by {by}\n")


if "WORKBENCH_AUDIT" in os.environ:
    sys.addaudithook(note)
