"""A client on aioquic for `cargo xtask peer`: what quic-go does not try. Prints a line for each case.

    aioquic_client.py PORT CA CASE…
"""

import asyncio
import socket
import ssl
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset

PORT, CA = int(sys.argv[1]), sys.argv[2]


class Client(QuicConnectionProtocol):
    """HTTP/3 requests, one future each."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.waiting = {}

    def begin(self, method, path, body=b""):
        stream = self._quic.get_next_available_stream_id()
        self.waiting[stream] = [asyncio.get_running_loop().create_future(), None, bytearray()]
        head = [
            (b":method", method.encode()),
            (b":scheme", b"https"),
            (b":authority", f"localhost:{PORT}".encode()),
            (b":path", path.encode()),
        ]
        if body:
            head.append((b"content-length", str(len(body)).encode()))
        self.http.send_headers(stream, head, end_stream=not body)
        if body:
            self.http.send_data(stream, body, end_stream=True)
        self.transmit()
        return self.waiting[stream][0]

    async def ask(self, method, path, body=b""):
        status, content = await asyncio.wait_for(self.begin(method, path, body), 20)
        assert status == 200, (method, path, status)
        return content

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            for future, _, _ in self.waiting.values():
                if not future.done():
                    future.set_exception(ConnectionError(f"{event}"))
        if isinstance(event, StreamReset) and event.stream_id in self.waiting:
            self.waiting.pop(event.stream_id)[0].set_exception(ConnectionError(f"{event}"))
        for what in self.http.handle_event(event):
            asked = self.waiting.get(what.stream_id)
            if asked is None:
                continue
            if isinstance(what, HeadersReceived) and asked[1] is None:
                asked[1] = int(dict(what.headers)[b":status"])
            if isinstance(what, DataReceived):
                asked[2] += what.data
            if what.stream_ended:
                del self.waiting[what.stream_id]
                asked[0].set_result((asked[1], bytes(asked[2])))


def body(size):
    return bytes((at * 31 + size) % 251 for at in range(size))


def opened(tickets=None, **more):
    settings = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, **more)
    settings.verify_mode = ssl.CERT_REQUIRED
    settings.load_verify_locations(CA)
    settings.server_name = "localhost"
    return connect(
        "127.0.0.1",
        PORT,
        configuration=settings,
        create_protocol=Client,
        session_ticket_handler=None if tickets is None else tickets.append,
        wait_connected=settings.session_ticket is None,
    )


async def get_and_post():
    async with opened() as client:
        assert await client.ask("GET", "/proto") == b"HTTP/3.0 GET "
        assert await client.ask("POST", "/proto", b"a=b") == b"HTTP/3.0 POST a=b"
        upload = body(65_536)
        assert (await client.ask("POST", "/echo", upload)).endswith(upload)


async def download():
    async with opened() as client:
        assert await client.ask("GET", "/files/1048576") == body(1_048_576)


async def resumption_with_early_data():
    tickets = []
    async with opened(tickets) as client:
        await client.ask("GET", "/proto")
        while not tickets:
            await client.ping()
    async with opened(session_ticket=tickets[-1]) as client:
        # Sent before the handshake is complete.
        response = client.begin("GET", "/early")
        assert not client._quic._handshake_complete
        status, content = await asyncio.wait_for(response, 20)
        assert client._quic.tls.session_resumed, "the session was not resumed"
        assert client._quic.tls.early_data_accepted, "early data was not accepted"
        assert status == 200, status
        assert content == b"early", content


async def key_update():
    async with opened() as client:
        for _ in range(3):
            await client.ask("GET", "/proto")
            client._quic.request_key_update()
            assert await client.ask("GET", "/files/190000") == body(190_000)


async def migration():
    async with opened() as client:
        await client.ask("GET", "/proto")
        download = client.begin("GET", "/files/1048576")
        # A new local port, and a connection ID that was not used before (RFC 9000, section 9.5).
        old = client._transport
        client._quic.change_connection_id()
        transport = await new_socket(client)
        assert transport.get_extra_info("sockname") != old.get_extra_info("sockname")
        client._transport = transport
        status, content = await asyncio.wait_for(download, 20)
        assert (status, content) == (200, body(1_048_576)), (status, len(content))
        assert await client.ask("GET", "/proto") == b"HTTP/3.0 GET "
        old.close()


async def rebinding():
    """A new local port with the same connection ID, as behind a NAT."""
    async with opened() as client:
        await client.ask("GET", "/proto")
        old = client._transport
        transport = await new_socket(client)
        client._transport = transport
        assert await client.ask("GET", "/files/190000") == body(190_000)
        old.close()


async def retry():
    """Against a server that asks every client for its address."""
    async with opened() as client:
        assert client._quic._retry_count == 1, client._quic._retry_count
        assert await client.ask("GET", "/proto") == b"HTTP/3.0 GET "
        assert await client.ask("GET", "/files/190000") == body(190_000)


async def new_socket(client):
    """A socket on another local port. aioquic uses the addresses of IPv6 for both families."""
    made = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    made.bind(("::", 0))
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: Forward(client), sock=made)
    return transport


class Forward(asyncio.DatagramProtocol):
    """The new socket of a connection."""

    def __init__(self, client):
        self.client = client

    def datagram_received(self, data, addr):
        self.client.datagram_received(data, addr)


CASES = [
    get_and_post,
    download,
    resumption_with_early_data,
    key_update,
    migration,
    rebinding,
    retry,
]


async def main():
    failed = 0
    for case in CASES:
        if case.__name__ not in sys.argv[3:]:
            continue
        try:
            await case()
            print(f"{case.__name__}: ok")
        except Exception as error:
            failed += 1
            print(f"{case.__name__}: {type(error).__name__}: {str(error)[:300]}")
    return failed


sys.exit(asyncio.run(main()))
