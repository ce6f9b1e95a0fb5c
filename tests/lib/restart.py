#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Load for tests that restart the daemon, and the clock that watches it.

restart.py serve ADDRESS PORT            TCP and UDP echo, in the world's inet
restart.py lease SOCKET FROM TO POLICY   leases load-FROM .. load-(TO-1)
restart.py leases SOCKET                 ID UID SLOT GENERATION STATE of each
restart.py flows OUT STOP ADDRESS PORT NETNS...
                                         a TCP and a UDP flow in each namespace,
                                         a numbered packet a millisecond in each,
                                         until the file STOP is there
restart.py clock SOCKET ID POLICY NETNS DNS NAME
                                         seconds until a lease and until a name
"""
import ctypes
import http.client
import json
import os
import select
import socket
import struct
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
TCP_INFO_RETRANS = 100    # offset of tcpi_total_retrans in struct tcp_info
PATIENCE_S = 60


def fail(text):
    print("FAIL: " + text)
    sys.exit(1)


def socket_in(netns, kind):
    """A socket keeps the namespace it was made in"""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(netns, os.O_RDONLY)
    if LIBC.setns(there, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    s = socket.socket(socket.AF_INET, kind)
    LIBC.setns(home, CLONE_NEWNET)
    os.close(there)
    os.close(home)
    return s


# ---- the other end -----------------------------------------------------------------

def cmd_serve(address, port):
    where = (address, int(port))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
    udp.bind(where)
    tcp = socket.socket()
    tcp.bind(where)
    tcp.listen(64)
    poll, conns = select.epoll(), {}
    for s in udp, tcp:
        poll.register(s, select.EPOLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == udp.fileno():
                data, peer = udp.recvfrom(2048)
                udp.sendto(data, peer)
            elif fd == tcp.fileno():
                c = tcp.accept()[0]
                c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                conns[c.fileno()] = c
                poll.register(c, select.EPOLLIN)
            else:
                try:
                    data = conns[fd].recv(65536)
                    conns[fd].sendall(data)
                except ConnectionError:
                    data = b""
                if not data:
                    poll.unregister(fd)
                    conns.pop(fd).close()


# ---- flows --------------------------------------------------------------------------

class Flow:
    def __init__(self, netns, kind, where):
        self.kind, self.sent, self.back, self.twice = kind, 0, 0, 0
        self.got = bytearray()   # UDP: one octet a number; TCP: not yet whole
        self.last, self.gap = time.monotonic(), 0.0
        self.s = socket_in(netns, kind)
        self.s.setsockopt(socket.SOL_SOCKET, 32, 8 << 20)  # SO_SNDBUFFORCE
        if kind == socket.SOCK_DGRAM:
            self.s.setsockopt(socket.SOL_SOCKET, 33, 4 << 20)
        else:
            self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.s.settimeout(10)
        self.s.connect(where)
        self.s.setblocking(False)

    def send(self):
        try:
            self.s.send(struct.pack("!I", self.sent))
        except BlockingIOError:   # the machine is busy: not a millisecond
            return
        if self.kind == socket.SOCK_DGRAM:
            self.got.append(0)
        self.sent += 1

    def receive(self):
        now = time.monotonic()
        self.gap = max(self.gap, now - self.last)
        self.last = now
        while True:
            try:
                data = self.s.recv(65536)
            except BlockingIOError:
                return
            if self.kind == socket.SOCK_DGRAM:
                n = struct.unpack("!I", data)[0]
                self.twice += self.got[n]
                self.back += not self.got[n]
                self.got[n] = 1
                continue
            if not data:
                fail("a TCP flow was closed after %d numbers" % self.back)
            self.got += data
            while len(self.got) >= 4:
                n = struct.unpack("!I", self.got[:4])[0]
                if n != self.back:
                    fail("TCP: number %d after %d" % (n, self.back - 1))
                self.back += 1
                del self.got[:4]

    def retransmitted(self):
        info = self.s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        return struct.unpack_from("=I", info, TCP_INFO_RETRANS)[0]

    def line(self):
        tcp = self.kind == socket.SOCK_STREAM
        return "%s sent %d back %d lost %d twice %d gap_ms %d%s" % (
            "tcp" if tcp else "udp", self.sent, self.back,
            self.sent - self.back, self.twice, 1000 * self.gap,
            " retransmitted %d" % self.retransmitted() if tcp else "")


def cmd_flows(out, stop, address, port, *spaces):
    flows = [Flow(ns, kind, (address, int(port))) for ns in spaces
             for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]
    poll, by_fd = select.epoll(), {f.s.fileno(): f for f in flows}
    for fd in by_fd:
        poll.register(fd, select.EPOLLIN)
    open(out, "w").write("flowing\n")
    due, end = time.monotonic(), None
    while end is None or time.monotonic() < end:
        now = time.monotonic()
        if end is None and now >= due:
            for f in flows:
                f.send()
            due = max(due + 0.001, now - 0.1)   # catches up 100 ms, not more
        if end is None and os.path.exists(stop):
            end = time.monotonic() + 2          # for what is still under way
        for fd, _ in poll.poll(max(0, due - time.monotonic())
                               if end is None else 0.05):
            by_fd[fd].receive()
    with open(out, "w") as f:
        for flow in flows:
            f.write(flow.line() + "\n")


# ---- leases -------------------------------------------------------------------------

class UnixHTTP(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("egressd", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def call(conn, method, path, body=None):
    conn.request(method, path, json.dumps(body) if body else None)
    r = conn.getresponse()
    text = r.read()
    return r.status, json.loads(text) if text else None


def put(conn, name, policy):
    return call(conn, "PUT", "/v1/leases/" + name,
                {"policy": policy, "ttl_s": 7200})


def cmd_lease(path, first, last, policy):
    conn, end = UnixHTTP(path), time.monotonic() + PATIENCE_S
    for k in range(int(first), int(last)):
        status, o = put(conn, "load-%d" % k, policy)
        while status == 503 and time.monotonic() < end:   # being built
            time.sleep(0.02)
            status, o = put(conn, "load-%d" % k, policy)
        if status not in (200, 201):
            fail("load-%d: %s %s" % (k, status, o))


def cmd_leases(path):
    conn, after = UnixHTTP(path), None
    while True:
        _, o = call(conn, "GET", "/v1/leases?limit=200" +
                    ("&after=%s" % after if after else ""))
        for x in o["leases"]:
            print(x["id"], x["uid"], x["slot"], x["generation"], x["state"])
        after = o.get("next")
        if not after:
            return


# ---- the clock ----------------------------------------------------------------------

def until_lease(path, name, policy, result, t0):
    end = t0 + PATIENCE_S
    while time.monotonic() < end:
        try:
            status, _ = put(UnixHTTP(path), name, policy)
        except (OSError, http.client.HTTPException):
            status = 0
        if status in (200, 201):
            result["lease"] = time.monotonic() - t0
            return
        time.sleep(0.002)


def until_name(netns, server, name, result, t0):
    s = socket_in(netns, socket.SOCK_DGRAM)
    s.settimeout(0.02)
    s.connect((server, 53))
    qname = b"".join(bytes([len(x)]) + x.encode() for x in name.split("."))
    n = 0
    while time.monotonic() < t0 + PATIENCE_S:
        n += 1
        try:
            s.send(struct.pack("!6H", n & 0xffff, 0x100, 1, 0, 0, 0) + qname +
                   b"\0\0\1\0\1")
            reply = s.recv(2048)
        except OSError:
            continue
        if not struct.unpack("!H", reply[2:4])[0] & 15:
            result["name"] = time.monotonic() - t0
            return


def cmd_clock(path, lease, policy, netns, server, name):
    """Begun at the moment the daemon is started; a fresh name, so that it is
    the guard's answer and not one that waited in a socket"""
    result, t0 = {}, time.monotonic()
    t = threading.Thread(target=until_lease,
                         args=(path, lease, policy, result, t0))
    t.start()
    until_name(netns, server, name, result, t0)
    t.join()
    if len(result) != 2:
        fail("only %s after %d s" % (result, PATIENCE_S))
    print("serving leases after %.0f ms, names after %.0f ms" %
          (1000 * result["lease"], 1000 * result["name"]))


def main():
    verb = globals().get("cmd_" + (sys.argv[1] if len(sys.argv) > 1 else ""))
    if not verb:
        print(__doc__)
        sys.exit(2)
    verb(*sys.argv[2:])


main()
