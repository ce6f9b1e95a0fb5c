#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Many slots that talk at once, and what the kernel's neighbour tables hold.

neigh.py SOCKET NETNS-DIR SLOTS NAME ADDRESS: leases SLOTS slots over the API,
asks each one's guard for NAME (the answer must be ADDRESS), has every 16th
connect to ADDRESS:80, then reads the neighbour tables of all slots, gateways
and of the host, and prints one JSON object with the counts.
"""
import ctypes
import http.client
import json
import os
import select
import socket
import struct
import sys
import time

CLONE_NEWNET = 0x40000000
RTM_GETNEIGH, NLM_F_REQUEST, NLM_F_DUMP, NLMSG_DONE, NLMSG_ERROR = 30, 1, 0x300, 3, 2
PERMANENT, NOARP = 0x80, 0x40
FLIGHT = 128  # questions that wait for their answer at a time
TRIES, WAIT = 4, 2.0

libc = ctypes.CDLL(None, use_errno=True)


def enter(fd):
    if libc.setns(fd, CLONE_NEWNET):
        sys.exit("setns: %s" % os.strerror(ctypes.get_errno()))


class UnixHTTP(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("egressd", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def lease_all(path, count):
    api, out, slowest, again = UnixHTTP(path), [], 0.0, 0
    body = json.dumps({"policy": "demo", "ttl_s": 3600})
    while len(out) < count:
        begin = time.monotonic()
        api.request("PUT", "/v1/leases/n%d" % len(out), body)
        answer = api.getresponse()
        text = answer.read()
        if answer.status == 503 and again < 1000:  # being named: not yet
            again += 1
            time.sleep(0.01)
            continue
        if answer.status not in (200, 201):
            sys.exit("lease %d: %d %s" % (len(out), answer.status, text))
        slowest = max(slowest, time.monotonic() - begin)
        out.append(json.loads(text))
    return out, slowest


def question(name, ident):
    labels = b"".join(bytes([len(p)]) + p.encode() for p in name.split("."))
    return struct.pack(">6H", ident, 0x100, 1, 0, 0, 0) + labels + \
        b"\0" + struct.pack(">2H", 1, 1)


def inside(lease, home, kind):
    """A socket of the lease's namespace."""
    fd = os.open(lease["netns"], os.O_RDONLY | os.O_CLOEXEC)
    enter(fd)
    s = socket.socket(socket.AF_INET, kind)
    enter(home)
    os.close(fd)
    return s


def ask_all(leases, home, name, address):
    """Every slot asks its guard; which did not get the right answer."""
    want, todo, open_, bad = socket.inet_aton(address), list(leases), {}, []
    poll = select.poll()
    while todo or open_:
        while todo and len(open_) < FLIGHT:
            lease = todo.pop()
            s = inside(lease, home, socket.SOCK_DGRAM)
            s.connect((lease["dns"][0], 53))
            s.send(question(name, lease["slot"] & 0xffff))
            open_[s.fileno()] = [s, lease, time.monotonic() + WAIT, 1]
            poll.register(s, select.POLLIN)
        for fd, _ in poll.poll(200):
            s, lease, _, _ = open_.pop(fd)
            poll.unregister(fd)
            try:
                text = s.recv(512)
            except OSError as e:
                text = str(e).encode()
            s.close()
            if text[:2] != struct.pack(">H", lease["slot"] & 0xffff) or \
                    text[3] & 15 or want not in text:
                bad.append(lease["slot"])
        for fd, one in list(open_.items()):
            if one[2] > time.monotonic():
                continue
            if one[3] < TRIES:
                one[2], one[3] = time.monotonic() + WAIT, one[3] + 1
                one[0].send(question(name, one[1]["slot"] & 0xffff))
                continue
            del open_[fd]
            poll.unregister(fd)
            one[0].close()
            bad.append(one[1]["slot"])
    return bad


def connect_some(leases, home, address):
    bad = []
    for lease in leases:
        s = inside(lease, home, socket.SOCK_STREAM)
        s.settimeout(5)
        try:
            s.connect((address, 80))
        except OSError:
            bad.append(lease["slot"])
        s.close()
    return bad


def neighbours(path, home):
    """IPv4 entries of a namespace: (interface index, state), lo left out."""
    if path:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        enter(fd)
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    names = dict(socket.if_nameindex())
    if path:
        enter(home)
        os.close(fd)
    s.send(struct.pack("=IHHII", 28, RTM_GETNEIGH, NLM_F_REQUEST | NLM_F_DUMP,
                       1, 0) + struct.pack("=BxxxiHBB", socket.AF_INET, 0, 0, 0, 0))
    out = []
    while True:
        text, at = s.recv(65536), 0
        while at < len(text):
            size, kind = struct.unpack_from("=IH", text, at)
            if kind in (NLMSG_DONE, NLMSG_ERROR):
                s.close()
                return out
            index, state = struct.unpack_from("=iH", text, at + 20)
            if names.get(index) != "lo":
                out.append((names.get(index, "?"), state))
            at += (size + 3) & ~3


def main(path, netns, count, name, address):
    home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    leases, slowest = lease_all(path, int(count))
    begin = time.monotonic()
    bad = ask_all(leases, home, name, address)
    seconds = time.monotonic() - begin
    some = leases[::16]
    refused = connect_some(some, home, address)
    slots = [n for lease in leases for n in neighbours(lease["netns"], home)]
    gates = [os.path.join(netns, f) for f in os.listdir(netns)
             if f.startswith("eg-gw-")]
    gateways = [n for g in gates for n in neighbours(g, home)]
    host = [n for n in neighbours(None, home) if n[0].startswith("eg-gw-")]
    every = slots + gateways + host
    print(json.dumps({
        "leases": len(leases), "slowest_ms": round(slowest * 1000, 1),
        "asked_s": round(seconds, 2), "unanswered": bad[:20],
        "connected": len(some) - len(refused), "refused": refused[:20],
        "gateways": len(gates), "slot_entries": len(slots),
        "gateway_entries": len(gateways), "host_entries": len(host),
        "entries": len(every),
        "permanent": sum(1 for n in every if n[1] & PERMANENT),
        "others": [n for n in every if not n[1] & (PERMANENT | NOARP)][:20],
    }))


if __name__ == "__main__":
    main(*sys.argv[1:])
