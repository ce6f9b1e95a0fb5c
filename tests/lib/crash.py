#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Stops the daemon at every point of an operation and looks at what is left.

crash.py CONF FAULTS [WORD]...   operations with a WORD in their names, or all

Runs inside a test world (world.sh). CONF is a configuration, FAULTS the
fault build of egressd (netpool/base/fault.h). For each operation and role the
points it passes are counted once; then, for each of them, the same operation
is stopped there, once with the one role and once with the whole daemon
killed, and the daemon left to itself or started again. It must come to the
same state as if it had never been stopped: all that is on the host, in
gateways and in slots, in files and in descriptors is compared line by line.

What is the same for every slot (addresses, names, indices, generations) is
replaced by what it means, so that it does not matter which slot was taken.
"""
import collections
import configparser
import ctypes
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
PR_SET_CHILD_SUBREAPER = 36
QUIET_S = 0.3      # nothing more comes of an operation
SETTLE_S = 20     # longer than any deadline of a release step
PURGE_EVERY = 5   # states that are purged, of those that are reached
FLOW = ("203.0.113.131", 9000)  # allowed by address; nobody answers
ROLE_OF_COMM = re.compile(r"egressd(?:\[(\w+)\]?)?")


def fail(text):
    print("FAIL: " + text)
    sys.exit(1)


# ---- namespaces ----------------------------------------------------------------

HOME = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


class Inside:
    """with Inside(PATH): children and sockets are made in that namespace"""

    def __init__(self, path):
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self):
        if LIBC.setns(self.fd, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")

    def __exit__(self, *_):
        LIBC.setns(HOME, CLONE_NEWNET)
        os.close(self.fd)


def run(*argv, text=None):
    p = subprocess.run(argv, input=text, capture_output=True, text=True)
    return p.stdout


# ---- facts ---------------------------------------------------------------------

IP_ASKS = "link show\naddr show\nroute show table all\n" \
          "neigh show nud permanent\nrule show\n"
NOISE = re.compile(r"@\S+|\\|valid_lft \S+|preferred_lft \S+|link-netns\S* \S+|"
                   r"promiscuity .*|qdisc.*state \S+|mode DEFAULT|qlen \d+")
SLOT_LINK = re.compile(r"\beg-(\d{5})\b")
SLOT_ADDR = re.compile(r"\b10\.200\.0\.(\d+)\b(?!/2)")
SLOT_MAC = re.compile(r"\b0a:e6:00:[0-9a-f:]{5}:0([12])\b")


def plain(line):
    """An `ip` line without what differs from slot to slot"""
    line = NOISE.sub("", line)
    line = SLOT_LINK.sub("LINK", line)
    line = SLOT_ADDR.sub(lambda m: "ADDR%d" % (int(m[1]) % 4), line)
    line = SLOT_MAC.sub(r"MAC\1", line)
    line = re.sub(r"^1\d{3}: LINK", "IDX: LINK", line)
    return " ".join(line.split())


def ip_lines():
    text = run("ip", "-d", "-o", "-b", "-", text=IP_ASKS)
    return [x for x in text.split("\n") if x and "ff00::/8" not in x]


def scrubbed(value):
    """nft's JSON without handles, counts and what runs down"""
    if isinstance(value, list):
        return [scrubbed(v) for v in value]
    if isinstance(value, dict):
        return {k: scrubbed(v) for k, v in value.items()
                if k not in ("handle", "packets", "bytes", "expires", "elem",
                             "metainfo")}
    return value


def nft_items():
    text = run("nft", "-j", "list", "ruleset")
    return json.loads(text)["nftables"] if text else []


def conntracked():
    """How many entries each slot's address has in this namespace"""
    n = collections.Counter()
    for line in open("/proc/thread-self/net/nf_conntrack"):
        m = re.search(r"src=10\.200\.0\.(\d+) ", line)
        if m:
            n[int(m[1]) // 4] += 1
    return n


class State:
    """Facts of the host and of each slot; two that are equal are as good"""

    def __init__(self):
        self.facts = []
        self.slots = collections.defaultdict(list)
        self.alive = 0 # slots idle (held by the launcher) or named

    def slot_of_line(self, line):
        m = SLOT_LINK.search(line)
        return int(m[1]) if m else None

    def add_ip(self, where, lines):
        for line in lines:
            slot = self.slot_of_line(line)
            if slot is None:
                if where == "host":
                    line = re.sub(r"^\d+: ", "", line)
                self.facts.append("%s: %s" % (where, plain(line)))
            else:
                self.slots[slot].append("gateway: " + plain(line))

    def add_nft(self, where, gateway, per_gateway):
        for item in nft_items():
            kind, body = next(iter(item.items()))
            if kind == "metainfo":
                continue
            name = body.get("name", "")
            if kind in ("set", "map"):
                self.add_elements(where, name, body.get("elem", []),
                                  gateway, per_gateway)
            if kind in ("set", "map") and re.match(r"[px]\d{3}$", name):
                continue
            self.facts.append("%s: %s" % (where, json.dumps(scrubbed(item))))

    def add_elements(self, where, name, elems, gateway, per_gateway):
        own = re.match(r"([px])(\d{3})$", name)
        counts = collections.Counter()
        for e in elems:
            slot = gateway * per_gateway + int(own[2]) if own else \
                self.slot_of_line(json.dumps(e))
            counts[slot] += 1
        for slot, n in counts.items():
            to = self.facts if slot is None else self.slots[slot]
            to.append("%s set %s: %d elements" %
                      (where if slot is None else "gateway",
                       own[1] if own else name, n))

    def all(self):
        """Counted; all facts of a slot together are one"""
        return collections.Counter(self.facts) + collections.Counter(
            "slot\n" + "\n".join(sorted(v)) for v in self.slots.values())


# ---- the daemon ------------------------------------------------------------------

class UnixHTTP(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("egressd", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Daemon:
    def __init__(self, conf, binary):
        c = configparser.ConfigParser(strict=False)
        c.read(conf)
        self.conf, self.binary = conf, binary
        self.run_dir, self.netns = c["paths"]["run"], c["paths"]["netns"]
        self.slots = int(c["pool"]["slots"])
        self.per_gateway = int(c["pool"]["slots_per_gateway"])
        self.armed = int(c["pool"].get("armed", 256))
        self.spec = os.path.dirname(conf) + "/fault"
        self.log = os.path.dirname(conf) + "/egressd.log"
        self.tag = 0
        self.proc = None
        open(self.spec, "w").write(" " * 63)

    def points(self, role, action="count", number=0):
        """From the next point on; what was passed before is forgotten"""
        self.tag += 1
        open(self.spec + ".log", "w").close()
        os.chmod(self.spec + ".log", 0o666)
        fd = os.open(self.spec, os.O_WRONLY)
        text = "%s %s %d %d" % (role, action, number, self.tag)
        os.pwrite(fd, text.ljust(63).encode(), 0)
        os.close(fd)

    def passed(self):
        return [x.split(" ", 2) for x in
                open(self.spec + ".log").read().splitlines()]

    def quiet(self, op, number=0):
        """Until no point is passed any more, or that one was"""
        n, since = 0, time.monotonic()
        while time.monotonic() < since + QUIET_S * (5 if op.restarts else 1):
            time.sleep(0.005)
            now = len(self.passed())
            if number and now >= number:
                return
            if now != n:
                n, since = now, time.monotonic()

    def spawn(self, *args):
        env = dict(os.environ, EGRESSD_FAULT=self.spec)
        return subprocess.Popen([self.binary, "-c", self.conf, *args],
                                stdin=subprocess.DEVNULL,
                                stdout=open(self.log, "a"),
                                stderr=subprocess.STDOUT, env=env,
                                start_new_session=True)

    def start(self):
        self.proc = self.spawn()

    def dead(self, seconds=30):
        """Waits until every process of the group is gone"""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.proc.poll()
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    time.sleep(0.003)
            except ChildProcessError:
                self.proc = None
                return True
        return False

    def kill(self):
        if self.proc:
            os.killpg(self.proc.pid, signal.SIGKILL)
            if not self.dead():
                fail("the daemon's processes do not end")

    def purge(self):
        p = self.spawn("--purge")
        return p.wait(60) == 0

    def api(self, method, path, body=None):
        """(status, object); status 0: no answer"""
        try:
            c = UnixHTTP(self.run_dir + "/api.sock")
            c.request(method, path, json.dumps(body) if body else None,
                      {"Content-Type": "application/json"})
            r = c.getresponse()
            text = r.read()
            c.close()
            return r.status, json.loads(text) if text else None
        except (OSError, http.client.HTTPException, ValueError):
            return 0, None

    def insist(self, method, path, body=None):
        """As a caller does who is told to try again"""
        end = time.monotonic() + SETTLE_S
        while True:
            status, obj = self.api(method, path, body)
            if status not in (0, 503) or time.monotonic() > end:
                return status, obj
            time.sleep(0.05)

    def at_rest(self):
        status, p = self.api("GET", "/v1/pool")
        return status == 200 and \
            not p["building"] + p["releasing"] + p["bad"] + p["lost"] and \
            p["idle"] + p["armed"] + p["leased"] == self.slots and \
            p["armed"] >= min(self.armed, self.slots - p["leased"]) and \
            p["gateways_up"] == p["gateways"]

    # -- what there is --

    def processes(self):
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                stat = open("/proc/%s/stat" % pid).read()
            except OSError:
                continue
            comm, rest = stat[stat.index("(") + 1:].rsplit(")", 1)
            if self.proc and int(rest.split()[2]) == self.proc.pid:
                role = ROLE_OF_COMM.match(comm)
                found[(role and role[1]) or "launcher"] = int(pid)
        return found

    def descriptors(self, state):
        """Counts a role; the namespaces build holds"""
        spaces = {}
        for role, pid in self.processes().items():
            kinds = collections.Counter()
            for fd in os.listdir("/proc/%d/fd" % pid):
                path = "/proc/%d/fd/%s" % (pid, fd)
                try:
                    to = os.readlink(path)
                except OSError:
                    continue
                if to.startswith(self.netns + "/eg-"): # opened by its name
                    to = "net:[%d]" % os.stat(path).st_ino
                if role == "build" and to.startswith("net:"):
                    spaces[to] = path
                if not to.startswith("/"):
                    kinds[re.sub(r"[\[\]\d]", "", to)] += 1
            if role == "api": # a caller may still be on the line
                del kinds["socket:"]
            if role == "launcher":
                state.alive += kinds.pop("net:", 0)
            if role == "build": # of idle slots only: see spaces()
                kinds.pop("net:", 0)
            for kind, n in sorted(kinds.items()):
                state.facts.append("fd %s: %d %s" % (role, n, kind))
        return spaces

    def files(self, state):
        n = collections.Counter()
        for top, dirs, files in os.walk(self.run_dir):
            for f in files + dirs:
                path = os.path.relpath(os.path.join(top, f), self.run_dir)
                path = re.sub(r"\d+\.\d+$", "SLOT.GEN", path)
                path = re.sub(r"[0-9a-f]{32,}", "HEX", path)
                if not path.endswith(".tombs"):
                    n[path] += 1
        for name in os.listdir(self.netns) if os.path.isdir(self.netns) else []:
            n["name " + re.sub(r"eg-\d{5}\.\d+", "eg-SLOT.GEN", name)] += 1
        for line in open("/proc/self/mountinfo"):
            at = line.split()[4]
            if re.search(r"/eg-\d{5}\.\d+$", at):
                state.alive += 1
                n["name eg-SLOT.GEN"] -= 1  # one for each file there
            elif at.startswith(self.netns):
                n["mount " + at] += 1
        state.facts += ["file %s: %d" % x for x in n.items()]
        state.facts.append("alive: %d" % state.alive)

    def spaces(self, state, held):
        """Gateways by name, slots by name and by build's descriptors"""
        flows = conntracked()
        for name in os.listdir(self.netns):
            path = os.path.join(self.netns, name)
            if re.match(r"eg-\d{5}\.\d+$", name):
                held.setdefault("net:[%d]" % os.stat(path).st_ino, path)
        for name in sorted(os.listdir(self.netns)):
            m = re.match(r"eg-gw-(\d\d)$", name)
            if not m:
                continue
            with Inside(os.path.join(self.netns, name)):
                state.add_ip(name, ip_lines())
                state.add_nft(name, int(m[1]), self.per_gateway)
                flows += conntracked()
        for path in held.values():
            with Inside(path):
                lines = ip_lines()
                text = "\n".join(lines)
                mac = re.search(r"eth0.*link/ether 0a:e6:00:(..):(..):02", text)
                if not mac:
                    continue
                slot = int(mac[1] + mac[2], 16)
                rules = nft_items()
            state.slots[slot] += ["inside: " + plain(x) for x in lines]
            state.slots[slot] += ["inside nft: " + plain(json.dumps(scrubbed(x)))
                                  for x in rules if "metainfo" not in x]
            state.facts.append("namespace of a slot")
        for slot, n in flows.items():
            state.slots[slot].append("flows")

    def state(self):
        s = State()
        s.add_ip("host", ip_lines())
        s.add_nft("host", 0, self.per_gateway)
        held = self.descriptors(s)
        self.files(s)
        if os.path.isdir(self.netns):
            self.spaces(s, held)
        return s.all()


def difference(have, want):
    """Lines with + for what is too much and - for what is missing"""
    more, less = have - want, want - have
    out = []
    for sign, one, other in ("+", more, less), ("-", less, more):
        near = collections.Counter(
            x for text in other for x in text.split("\n"))
        for text, n in one.items():
            lines = text.split("\n")
            out.append("%s %d x %s" % (sign, n, lines[0]))
            out += ["%s     %s" % (sign, x) for x in lines[1:] if x not in near]
    return out


# ---- operations ------------------------------------------------------------------

class Operation:
    """What is stopped. before() makes the state to begin with, act() does it
    (and may not be answered), again() does it once more after a stop; it has
    to come to the state `done`, which is what it is without a stop."""

    name, roles, restarts = "", (), False

    def __init__(self, d):
        self.d, self.n = d, 0

    def before(self):
        self.n += 1

    def act(self):
        raise NotImplementedError

    def again(self):
        """True when it is as the caller may expect"""
        return True

    def undo(self):
        """Back to a pool at rest without leases"""


class Start(Operation):
    name, roles, restarts = "first start", ("launcher", "main", "build"), True

    def before(self):
        self.d.kill()
        if not self.d.purge():
            fail("purge before a first start")

    def act(self):
        self.d.start()


def body(mode):
    b = {"policy": "phased" if mode == "phase" else "demo", "ttl_s": 3600}
    if mode == "phase":
        b["phase"] = "init"
    if mode in ("tap", "route"):
        b["guest"] = {"mode": mode, "tap": "tap0", "owner_uid": 1001}
    return b


class Leasing(Operation):
    mode = "veth"

    def id(self, k=0):
        return "%s-%d-%d" % (self.mode, self.n, k)

    def lease(self, k=0):
        return self.d.api("PUT", "/v1/leases/" + self.id(k), body(self.mode))

    def release(self, k=0):
        return self.d.api("DELETE", "/v1/leases/" + self.id(k))

    def must_lease(self, k=0):
        status, lease = self.d.insist("PUT", "/v1/leases/" + self.id(k),
                                      body(self.mode))
        if status not in (200, 201):
            fail("%s: no lease to begin with: %s %s" % (self.name, status, lease))
        self.flow(lease)
        return lease

    def flow(self, lease):
        """So that there is something to forget"""
        with Inside(lease["netns"]):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(FLOW)
            s.close()

    def undo(self):
        self.release()


class Lease(Leasing):
    roles = ("main", "build")

    def act(self):
        self.status, self.was = self.lease()

    def again(self):
        status, lease = self.d.api("GET", "/v1/leases/" + self.id())
        if self.status == 201 and (
                status != 200 or lease["uid"] != self.was["uid"] or
                lease["state"] != "leased"):
            print("  it was answered: %s; now %s %s" %
                  (self.was["uid"], status, lease))
            return False
        status, lease = self.d.insist("PUT", "/v1/leases/" + self.id(),
                                      body(self.mode))
        if status not in (200, 201):
            print("  not leased again: %s %s" % (status, lease))
        return status in (200, 201)


class LeaseVeth(Lease):
    name, mode = "lease veth", "veth"


class LeaseTap(Lease):
    name, mode = "lease tap", "tap"


class LeaseRoute(Lease):
    name, mode = "lease route", "route"


class LeaseSlow(Lease):
    """None is armed any more: the slot is named while the caller waits"""
    name, mode = "lease slow", "tap"

    def before(self):
        super().before()
        for k in range(1, self.d.slots):
            self.must_lease(k)

    def undo(self):
        for k in range(self.d.slots):
            self.release(k)


class Release(Leasing):
    name, roles, count = "release", ("main", "build"), 1

    def before(self):
        super().before()
        for k in range(self.count):
            self.must_lease(k)

    def act(self):
        self.status = [0] * self.count

        def one(k):
            self.status[k] = self.release(k)[0]
        threads = [threading.Thread(target=one, args=(k,))
                   for k in range(self.count)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    def again(self):
        for k in range(self.count):
            status, lease = self.d.api("GET", "/v1/leases/" + self.id(k))
            if self.status[k] == 200 and status != 410:
                print("  its release was answered; now %s %s" % (status, lease))
                return False
            if status == 200 and self.d.insist(
                    "DELETE", "/v1/leases/" + self.id(k))[0] not in (200, 410):
                print("  it cannot be released again")
                return False
        return True

    def undo(self):
        pass


class ReleaseVeth(Release):
    name, mode = "release veth", "veth"


class ReleaseRoute(Release):
    name, mode = "release route", "route"


class ReleaseMany(Release):
    name, mode, count = "release of three together", "tap", 3


class Phase(Leasing):
    name, mode, roles = "phase", "phase", ("main",)

    def before(self):
        super().before()
        self.must_lease()

    def change(self):
        return self.d.api("POST", "/v1/leases/%s/phase" % self.id(),
                          {"phase": "plan"})[0]

    def act(self):
        self.status = self.change()

    def again(self):
        _, lease = self.d.api("GET", "/v1/leases/" + self.id())
        now = lease["policy"]["phase"]
        if self.status == 200 and now != "plan":
            print("  its phase was answered; now " + now)
            return False
        return self.change() == 200


class Restart(Leasing):
    """With leases of two kinds there, the whole daemon having been killed"""
    name, mode, roles, restarts = "restart", "tap", \
        ("launcher", "main", "build"), True

    def before(self):
        super().before()
        if not self.d.proc:
            self.d.start()
            settle(self.d)
        self.was = [self.must_lease(k)["uid"] for k in range(2)]
        self.d.kill()

    def act(self):
        self.d.start()

    def again(self):
        is_ = [self.d.api("GET", "/v1/leases/" + self.id(k))[1]
               for k in range(2)]
        return [x["uid"] for x in is_] == self.was and \
            all(x["state"] == "leased" for x in is_)

    def undo(self):
        for k in range(2):
            self.release(k)


class Purge(Leasing):
    """Its end is the state before anything was ever started"""
    name, mode, roles = "purge", "tap", ("purge",)

    def before(self):
        super().before()
        self.d.kill()
        self.d.start()
        settle(self.d)
        self.must_lease(0)
        self.must_lease(1)
        self.d.kill()

    def act(self):
        self.d.purge()

    def again(self):
        return self.d.purge()


OPERATIONS = (Start, LeaseVeth, LeaseTap, LeaseRoute, LeaseSlow, ReleaseVeth,
              ReleaseRoute, ReleaseMany, Phase, Restart, Purge)


# ---- stopping them ------------------------------------------------------------------

def settle(d, want=None):
    """(difference, seconds): until at rest and, where given, as wanted"""
    t0 = time.monotonic()
    rest, diff = False, ["never at rest"]
    while time.monotonic() < t0 + SETTLE_S:
        rest = not d.proc or d.at_rest()
        if rest and want is None:
            return [], time.monotonic() - t0
        if rest:
            diff = difference(d.state(), want)
            if not diff:
                return [], time.monotonic() - t0
        time.sleep(0.01)
    if not rest:
        diff = ["not at rest: %s" % (d.api("GET", "/v1/pool"),)]
    return diff, time.monotonic() - t0


class Runner:
    def __init__(self, d):
        self.d = d
        self.points = self.bad = self.purges = self.reached = 0
        self.slowest = (0, "")
        self.seen = {}             # by role
        self.nothing = d.state()   # before anything was started
        d.start()
        settle(d)
        time.sleep(0.2)
        self.base = d.state()

    def report(self, what, diff):
        self.bad += 1
        print("not ok - " + what)
        for line in diff[:12]:
            print("    " + line[:300])
        sys.stdout.flush()

    def reset(self):
        """From whatever state: a pool at rest, just started"""
        self.d.kill()
        if not self.d.purge():
            self.report("a purge on the way", [])
        self.d.start()
        diff, _ = settle(self.d, self.base)
        if diff:
            self.report("a start after a purge", diff)

    def ready(self, op):
        """op's before(); from a pool at rest"""
        if not op.restarts and op.roles != ("purge",) and not self.d.proc:
            self.d.start()
        if self.d.proc:
            settle(self.d)
        op.before()
        if self.d.proc:
            settle(self.d)

    def count(self, op, role):
        """The texts of the points, and the state without a stop"""
        self.ready(op)
        self.d.points(role)
        op.act()
        self.d.quiet(op)
        texts = [x[2] for x in self.d.passed()]
        if self.d.proc:
            settle(self.d)
        time.sleep(0.2)
        done = self.nothing if role == "purge" else self.d.state()
        op.undo()
        return texts, done

    def check_purge(self, what):
        self.purges += 1
        self.d.kill()
        if not self.d.purge():
            self.report(what + ", purge", ["it failed"])
        diff = difference(self.d.state(), self.nothing)
        if diff:
            self.report(what + ", left by a purge", diff)

    def stop_at(self, op, role, action, n, text, done):
        what = "%s: %s of %s at %d (%s)" % (op.name, action, role, n, text)
        self.points += 1
        self.ready(op)
        self.d.points(role, action, n)
        op.act()
        self.d.quiet(op, n)
        reached = len(self.d.passed()) >= n
        self.reached += reached
        self.d.points("nobody")
        if self.d.proc and reached and \
                (action == "kill-all" or role == "launcher"):
            if not self.d.dead():
                fail(what + ": it is not dead")
            self.d.start()
        before = settle(self.d)
        if self.d.proc and before[0]:
            self.report(what + ", left to itself", before[0])
        if not op.again():
            self.report(what + ", done again", ["not as it was answered"])
        diff, took = settle(self.d, done)
        if diff:
            self.report(what, diff)
        self.slowest = max(self.slowest, (before[1] + took, what))
        if self.points % PURGE_EVERY == 0:
            self.check_purge(what)
            if role != "purge":
                self.d.start()
        elif diff or before[0]:
            self.reset()
        else:
            op.undo()

    def run(self, op, actions=("kill-role", "kill-all")):
        for role in op.roles:
            t0 = time.monotonic()
            texts, done = self.count(op, role)
            seen = {} if op.restarts else self.seen
            stops = chosen(texts, seen.setdefault(role, set()))
            for action in actions:
                if role in ("launcher", "purge") and action == "kill-all":
                    continue    # the same
                for n, text in stops:
                    self.stop_at(op, role, action, n, text, done)
            print("%s, %s: %d points, %d stopped at, %.0f s" %
                  (op.name, role, len(texts), len(stops),
                   time.monotonic() - t0))
            sys.stdout.flush()


def is_setting(text):
    return text.startswith(("ipv4/", "ipv6/", "netfilter/"))


def chosen(texts, seen):
    """(number, text) of the points to stop at: each that lies between others
    than those before did. The second gateway, the third slot, the slot that is
    built after a release pass the points of the first once more; of the
    settings of a gateway the first and the last are enough. ALL=1: all of
    them."""
    out = []
    for n, text in enumerate(texts, 1):
        around = tuple("setting" if is_setting(t) else re.sub(r"\d+", "N", t)
                       for t in (texts[n - 2:n - 1] + [text] + texts[n:n + 1]))
        if around not in seen or os.environ.get("ALL") == "1":
            out.append((n, text))
        seen.add(around)
    return out


def main():
    if len(sys.argv) < 3:
        print(__doc__)
        sys.exit(2)
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    d = Daemon(sys.argv[1], sys.argv[2])
    r = Runner(d)
    for kind in OPERATIONS:
        if len(sys.argv) == 3 or any(w in kind.name for w in sys.argv[3:]):
            r.run(kind(d))
    r.check_purge("at last")
    print("slowest to converge: %.1f s, %s" % r.slowest)
    print("%d of the states were purged, %d stops were reached" %
          (r.purges, r.reached))
    print("%d points, %d bad end states" % (r.points, r.bad))
    sys.exit(r.bad != 0)


main()
