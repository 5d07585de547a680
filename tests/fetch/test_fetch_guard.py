from __future__ import annotations

import socket

import pytest

from asyncload.fetch import Http
from asyncload.fetch.guard import AddressRefused, Guard, is_public, requested_host


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8", "2002:808:808::1"],
)
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",  # carrier-grade NAT
        "169.254.169.254",  # the metadata service of clouds
        "0.0.0.0",
        "224.0.0.1",
        "233.252.0.1",  # multicast, yet called global by ipaddress
        "255.255.255.255",
        "198.18.0.1",
        "240.0.0.1",
        "::",
        "::1",
        "fc00::1",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff0e::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::808:808",
        "2002:7f00:1::1",
        "2001:0:7f00:1::",  # Teredo
        "0x7f.1",
        "2130706433",
    ],
)
def test_other_addresses(address: str) -> None:
    assert not is_public(address)


def _connect(guard: Guard, host: str, address: str) -> None:
    token = requested_host.set(host)
    try:
        guard((socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, 80))).close()
    finally:
        requested_host.reset(token)


def test_the_settings_are_obeyed() -> None:
    with pytest.raises(AddressRefused) as refused:
        _connect(Guard(Http()), "intranet", "10.0.0.1")
    assert refused.value.address == "10.0.0.1"
    with pytest.raises(AddressRefused):
        _connect(Guard(Http(allow_hosts=("intranet",))), "evil.example", "10.0.0.1")
    _connect(Guard(Http(allow_hosts=("Intranet",))), "intranet", "10.0.0.1")
    _connect(Guard(Http(allow_private=True)), "evil.example", "10.0.0.1")
    _connect(Guard(Http()), "good.example", "8.8.8.8")


def test_refusals_of_different_addresses_have_one_text() -> None:
    assert str(AddressRefused("10.0.0.1")) == str(AddressRefused("10.0.0.2"))
