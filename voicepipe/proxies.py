"""Whom a request comes from, where a reverse proxy may stand between: by X-Forwarded-For of those trusted.

A proxy appends the address that it was called from, so that the header is read from its end: as long as an address
is that of a trusted proxy, the one before it was added by that proxy. What a caller has put there itself stands
further on and is not looked at.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

FORWARDED = ("x-forwarded-for", "forwarded")
"""Headers, in lower case, by which a request says that it has come through a proxy."""


def address_of(text: str) -> Address | None:
    """An IPv4 peer of an IPv6 socket is an IPv4 one. None for what is no address."""
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


class Proxies:
    def __init__(self, trusted: Iterable[str] = ()) -> None:
        """Addresses and networks, such as `10.0.0.0/8`. Raises ValueError."""
        self._trusted: tuple[Network, ...] = tuple(ipaddress.ip_network(text) for text in trusted)

    def caller(self, peer: str, headers: Mapping[str, str]) -> tuple[str, bool]:
        """(address of the caller, whether it came through a proxy), from the address of the socket's peer and the
        request's headers by lower-case name. "" where a proxy named nobody that can be read."""
        forwarded = any(name in headers for name in FORWARDED)
        if not forwarded or not self._trusts(address_of(peer)):
            return peer, forwarded
        for text in reversed(headers.get("x-forwarded-for", "").split(",")):
            address = address_of(text)
            if address is None:
                return "", True
            if not self._trusts(address):
                return str(address), True
        return "", True

    def _trusts(self, address: Address | None) -> bool:
        return address is not None and any(address in network for network in self._trusted)
