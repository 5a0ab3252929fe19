import pytest

from cloudprovider.address import is_loopback, parse_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        pytest.param(":8085", "", 8085, id="all interfaces"),
        pytest.param("127.0.0.1:0", "127.0.0.1", 0, id="any free port"),
        pytest.param("[::1]:8085", "::1", 8085, id="IPv6"),
        pytest.param("localhost:80", "localhost", 80, id="a name"),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    assert parse_address(text) == (host, port)


@pytest.mark.parametrize("text", ["8085", "host:", ":x", ":65536", "::1:8085", ":-1", ":" + "1" * 5000])
def test_bad_addresses(text: str) -> None:
    with pytest.raises(ValueError, match=r"^is not host:port; write for example"):
        parse_address(text)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "example.org"])
def test_not_loopback(host: str) -> None:
    assert not is_loopback(host)
