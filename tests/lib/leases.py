#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Many clients of the API at once: leases.py VERB SOCKET ...

  cycles SOCKET N CLIENTS     N leases, each released again
  take SOCKET N CLIENTS       leases take-0 .. take-(N-1), kept
  drop SOCKET N CLIENTS       releases them
  probe SOCKET SECONDS        one lease and release each 20 ms, until then

Clients are processes with a connection each. One JSON object on stdout: how
many, errors by status, percentiles in microseconds, and for `take` the slots
and generations, so that the caller sees that none was given twice. A refused
lease (503) is asked for again after a moment and counted; the whole of it is
bounded by LIMIT_S.
"""
import json
import os
import socket
import sys
import time

LIMIT_S = 1200


class Client:
    def __init__(self, path):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(60)
        self.s.connect(path)

    def call(self, method, path, body=b""):
        self.s.sendall(b"%s %s HTTP/1.1\r\nHost: egressd\r\n"
                       b"Content-Type: application/json\r\n"
                       b"Content-Length: %d\r\n\r\n" %
                       (method, path, len(body)) + body)
        data = b""
        while b"\r\n\r\n" not in data:
            got = self.s.recv(65536)
            if not got:
                raise EOFError("the daemon closed the connection")
            data += got
        head, data = data.split(b"\r\n\r\n", 1)
        size = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        while len(data) < size:
            data += self.s.recv(65536)
        return int(head.split()[1]), data


class Tally:
    def __init__(self):
        self.done = 0
        self.errors = {}
        self.lease, self.release, self.slots = [], [], []
        self.slow = 0

    def error(self, what):
        self.errors[what] = self.errors.get(what, 0) + 1

    def take(self, c, path, method, body, end):
        while time.time() < end:
            t = time.perf_counter()
            st, data = c.call(method, path, body)
            if st in (200, 201):
                self.lease.append(time.perf_counter() - t)
                lease = json.loads(data)
                self.slots.append((lease["slot"], lease["generation"]))
                self.slow += bool(lease.get("slow"))
                return lease
            self.error("lease %d" % st)
            if st != 503:
                print(data.decode(), file=sys.stderr)
                return None
            time.sleep(0.002)
        self.error("lease: out of time")
        return None

    def drop(self, c, name):
        t = time.perf_counter()
        st, data = c.call(b"DELETE", b"/v1/leases/" + name.encode())
        self.release.append(time.perf_counter() - t)
        if st != 200:
            self.error("release %d" % st)
            print(data.decode(), file=sys.stderr)
        else:
            self.done += 1


BODY = b'{"policy":"none"}'


def work_cycles(c, t, numbers, end):
    for _ in numbers:
        lease = t.take(c, b"/v1/leases", b"POST", BODY, end)
        if lease:
            t.drop(c, lease["id"])


def work_take(c, t, numbers, end):
    for i in numbers:
        if t.take(c, b"/v1/leases/take-%d" % i, b"PUT", BODY, end):
            t.done += 1


def work_drop(c, t, numbers, end):
    for i in numbers:
        if time.time() < end:
            t.drop(c, "take-%d" % i)


def work_probe(c, t, numbers, end):
    for _ in numbers:
        lease = t.take(c, b"/v1/leases", b"POST", BODY, time.time() + 5)
        if lease:
            t.drop(c, lease["id"])
        if time.time() >= end:
            break
        time.sleep(0.02)


def percentiles(values):
    values.sort()
    return {"p%s" % p: int(values[min(len(values) - 1,
                                      int(len(values) * q))] * 1e6)
            for p, q in (("50", .5), ("99", .99), ("999", .999))
            } if values else {}


def run(work, path, numbers, clients, limit):
    start = time.time()
    end = start + limit
    pipes = []
    for k in range(clients):
        r, w = os.pipe()
        if os.fork() == 0:
            t = Tally()
            try:
                work(Client(path), t, numbers[k::clients], end)
            except (OSError, EOFError) as e:
                t.error(repr(e))
            with os.fdopen(w, "w") as f:
                json.dump(t.__dict__, f)
            os._exit(0)
        os.close(w)
        pipes.append(r)
    total = Tally()
    for r in pipes:
        with os.fdopen(r) as f:
            part = json.load(f)
        total.done += part["done"]
        total.slow += part["slow"]
        for key in ("lease", "release", "slots"):
            getattr(total, key).extend(part[key])
        for what, n in part["errors"].items():
            total.errors[what] = total.errors.get(what, 0) + n
        os.wait()
    seconds = time.time() - start
    print(json.dumps({
        "done": total.done, "seconds": round(seconds, 2),
        "rate": round(total.done / seconds, 1) if seconds else 0,
        "slow": total.slow, "errors": total.errors,
        "lease": percentiles(total.lease),
        "release": percentiles(total.release),
        "slots": len({s for s, _ in total.slots}),
        "generations": len({tuple(s) for s in total.slots})}))


def main():
    verb, path = sys.argv[1:3]
    if verb == "probe":
        run(work_probe, path, range(1000000), 1, float(sys.argv[3]))
        return
    work = {"cycles": work_cycles, "take": work_take, "drop": work_drop}[verb]
    run(work, path, range(int(sys.argv[3])), int(sys.argv[4]), LIMIT_S)


main()
