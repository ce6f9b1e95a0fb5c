#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The servers of a test's Internet: NAME=KIND:ADDRESS:PORT ...

Every connection and datagram becomes one JSON line of the log, so that a test
can prove what arrived and, more to the point, what did not. Kinds:

  http     answers any request with a line naming the server and the port;
           /slow?N sends a line a tenth of a second for N seconds
  https    the same behind TLS
  echo     TCP, sends back what it gets          udpecho  the same for UDP
  dns      UDP, answers every A query with its own address; dnstcp for TCP
  late     UDP, answers every query 0.7 s later with 198.51.100.80, one that
           has "nothing" in its name with no address; a line for the query and
           one of proto "answered" for the answer
  sink     TCP, reads and says nothing
  quiet    TCP, closes what it accepts, logs nothing (for loads)
"""
import argparse
import asyncio
import json
import socket
import ssl
import struct
import time

BODY_MAX = 65536  # of a request; the tests send less


class World:
    def __init__(self, args):
        self.log_file = open(args.log, "a", buffering=1)
        self.tls = None
        if args.cert:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(args.cert, args.key)

    def log(self, name, proto, here, peer, data):
        line = {"time": time.time(), "server": name, "proto": proto,
                "src": peer[0], "sport": peer[1], "dst": here[0],
                "dport": here[1], "bytes": len(data),
                "data": data[:4096].decode("latin-1")}
        self.log_file.write(json.dumps(line) + "\n")


def dns_answer(query, address):
    """The query's own question with one A record (none if no address)."""
    if len(query) < 17:
        return None
    end = 12
    while end < len(query) and query[end]:
        end += query[end] + 1
    end += 5
    if end > len(query):
        return None
    if not address:
        return query[:2] + struct.pack("!HHHHH", 0x8180, 1, 0, 0, 0) + \
            query[12:end]
    head = query[:2] + struct.pack("!HHHHH", 0x8180, 1, 1, 0, 0)
    return head + query[12:end] + b"\xc0\x0c" + struct.pack(
        "!HHIH", 1, 1, 60, 4) + socket.inet_aton(address)


async def http_body(reader):
    data = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in data.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = min(int(line.split(b":")[1]), BODY_MAX)
        if line.lower().startswith(b"expect: 100"):
            length = -length if length else 0
    return data, length


async def serve_http(world, name, reader, writer, proto):
    here = writer.get_extra_info("sockname")
    peer = writer.get_extra_info("peername")
    data = b""
    try:
        data, length = await http_body(reader)
        if length < 0:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            length = -length
        if length:
            data += await reader.readexactly(length)
    finally:
        world.log(name, proto, here, peer, data)
    target = data.split(b" ")[1] if data.count(b" ") > 1 else b"/"
    if target.startswith(b"/slow"):
        n = int(target.split(b"?")[1]) if b"?" in target else 1
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        for i in range(10 * n):
            writer.write(b"%d\n" % i)
            await writer.drain()
            await asyncio.sleep(0.1)
    else:
        body = ("hello from %s:%d\n" % (name, here[1])).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                     b"Connection: close\r\nContent-Length: %d\r\n\r\n%s"
                     % (len(body), body))
    await writer.drain()


async def serve_echo(world, name, reader, writer, proto):
    world.log(name, proto, writer.get_extra_info("sockname"),
              writer.get_extra_info("peername"), b"")
    while True:
        data = await reader.read(65536)
        if not data:
            return
        writer.write(data)
        await writer.drain()


async def serve_dnstcp(world, name, reader, writer, proto):
    here = writer.get_extra_info("sockname")
    while True:
        size = struct.unpack("!H", await reader.readexactly(2))[0]
        query = await reader.readexactly(size)
        world.log(name, proto, here, writer.get_extra_info("peername"), query)
        answer = dns_answer(query, here[0])
        if answer:
            writer.write(struct.pack("!H", len(answer)) + answer)
            await writer.drain()


async def serve_sink(world, name, reader, writer, proto):
    world.log(name, proto, writer.get_extra_info("sockname"),
              writer.get_extra_info("peername"), await reader.read(4096))


async def serve_quiet(*_):
    return


TCP = {"http": serve_http, "https": serve_http, "echo": serve_echo,
       "dnstcp": serve_dnstcp, "sink": serve_sink, "quiet": serve_quiet}


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self, world, name, kind, here):
        self.world, self.name, self.kind, self.here = world, name, kind, here
        self.transport = None

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, peer):
        self.world.log(self.name, "udp", self.here, peer, data)
        if self.kind == "late":
            asyncio.get_running_loop().call_later(0.7, self.late, data, peer)
            return
        answer = data
        if self.kind == "dns":
            answer = dns_answer(data, self.here[0])
        if answer:
            self.transport.sendto(answer, peer)


    def late(self, data, peer):
        answer = dns_answer(data, None if b"nothing" in data.lower()
                            else "198.51.100.80")
        if answer:
            self.transport.sendto(answer, peer)
            self.world.log(self.name, "answered", self.here, peer, answer)


async def listen(world, spec):
    name, rest = spec.split("=", 1)
    kind, address, port = rest.split(":")
    loop = asyncio.get_running_loop()
    if kind in ("dns", "udpecho", "late"):
        await loop.create_datagram_endpoint(
            lambda: Datagrams(world, name, kind, (address, int(port))),
            local_addr=(address, int(port)))
        return

    async def client(reader, writer):
        try:
            await TCP[kind](world, name, reader, writer,
                            "tls" if kind == "https" else "tcp")
        except (OSError, EOFError, asyncio.IncompleteReadError,
                asyncio.LimitOverrunError, ValueError):
            pass  # a client that goes away is none of our business
        finally:
            writer.close()

    await asyncio.start_server(client, address, int(port), backlog=4096,
                               ssl=world.tls if kind == "https" else None)


async def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--log", required=True)
    p.add_argument("--cert")
    p.add_argument("--key")
    p.add_argument("--ready", help="made once all listen")
    p.add_argument("spec", nargs="+")
    args = p.parse_args()
    world = World(args)
    for spec in args.spec:
        await listen(world, spec)
    if args.ready:
        open(args.ready, "w").close()
    await asyncio.Event().wait()


asyncio.run(main())
