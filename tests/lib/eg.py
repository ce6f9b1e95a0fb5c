#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tests ask of JSON, DNS, raw packets and evidence: eg.py VERB ...

One file and the standard library only, so that no test needs more than
python3. Each verb prints what it found and exits 0 when that is what was
wanted, 1 when not; see the docstring of each cmd_ function.
"""
import datetime
import errno
import fcntl
import hashlib
import json
import os
import select
import socket
import struct
import sys
import time

A, AAAA, TXT = 1, 28, 16
TYPES = {"A": A, "AAAA": AAAA, "TXT": TXT, "CNAME": 5, "PTR": 12, "MX": 15,
         "SRV": 33, "HTTPS": 65, "ANY": 255, "NULL": 10}
RCODES = {0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN",
          4: "NOTIMP", 5: "REFUSED"}


def fail(text):
    print(text)
    sys.exit(1)


def dig_into(value, path):
    for key in [k for k in path.split(".") if k]:
        if isinstance(value, list):
            value = value[int(key)]
        else:
            value = value[key]
    return value


def show(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return value if isinstance(value, (str, int, float)) else json.dumps(value)


# ---- JSON ----------------------------------------------------------------------

def cmd_get(path):
    """get PATH: one value of the JSON object on stdin"""
    try:
        print(show(dig_into(json.load(sys.stdin), path)))
    except (KeyError, IndexError, TypeError) as e:
        fail("no such value %s: %r" % (path, e))
    except ValueError as e:
        fail("not JSON: %s" % e)


def cmd_first(path):
    """first PATH: the same of the object in the first line of stdin"""
    try:
        print(show(dig_into(json.loads(sys.stdin.readline()), path)))
    except (KeyError, IndexError, TypeError, ValueError) as e:
        fail("no such value %s: %r" % (path, e))


def cmd_sha256(path):
    """sha256 PATH: digest of a text in the object in the first line of stdin"""
    text = dig_into(json.loads(sys.stdin.readline()), path)
    print("sha256:" + hashlib.sha256(text.encode()).hexdigest())


def cmd_same(*changes):
    """same KEY=TEXT...: the object on stdin with sorted keys and these set"""
    obj = json.load(sys.stdin)
    obj.update(c.split("=", 1) for c in changes)
    print(json.dumps(obj, sort_keys=True))


# Sets that are the gateway's own, or the host's; the rest is of leases.
STANDING = ("source", "slots", "metadata", "host", "reserved", "private")


def cmd_elements():
    """elements: those of leases in `nft -j list ruleset` on stdin, one a line"""
    for item in json.load(sys.stdin)["nftables"]:
        s = item.get("set") or item.get("map")
        if not s or s["name"] in STANDING:
            continue
        for e in s.get("elem", []):
            if isinstance(e, dict) and "elem" in e:
                e = e["elem"]["val"]
            print("%s %s" % (s["name"], json.dumps(e)))


def cmd_room():
    """room: of the pool on stdin a slot is armed, or none is left to be"""
    p = json.load(sys.stdin)
    if not p["armed"] and (p["idle"] or p["building"]):
        fail("%d idle, %d building" % (p["idle"], p["building"]))


def cmd_keys(*want):
    """keys NAME...: the object on stdin has all of them"""
    obj = json.load(sys.stdin)
    lost = [k for k in want if k not in obj]
    if lost:
        fail("members missing: %s (there are %s)" % (lost, sorted(obj)))


def lines(f):
    for n, line in enumerate(f, 1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as e:
                fail("line %d is not JSON: %s: %r" % (n, e, line[:200]))


def matches(rec, wants):
    for w in wants:
        key, _, value = w.partition("=")
        try:
            have = show(dig_into(rec, key))
        except (KeyError, IndexError, TypeError):
            return False
        have = str(have)
        if key in ("name", "qname"):  # names have no case and may end in the root's dot
            have, value = have.rstrip(".").lower(), value.lower()
        if have not in value.split("|"):
            return False
    return True


def cmd_match(*wants):
    """match KEY=VALUE[|VALUE]...: some JSON line of stdin is like that"""
    recs = list(lines(sys.stdin))
    hit = [r for r in recs if matches(r, wants)]
    if hit:
        print(json.dumps(hit[0]))
        return
    print("none of %d records has %s; the last ones:" % (len(recs), wants))
    for r in recs[-5:]:
        print(json.dumps(r))
    sys.exit(1)


def cmd_count(*wants):
    """count KEY=VALUE...: prints how many JSON lines of stdin are like that"""
    print(sum(1 for r in lines(sys.stdin) if matches(r, wants)))


def cmd_conf(base, *changes):
    """conf FILE SECTION.KEY=VALUE...: FILE with these keys set"""
    sections, section = {}, None
    for line in open(base):
        line = line.strip()
        if line.startswith("["):
            section = line[1:-1]
            sections.setdefault(section, [])
        elif line:
            key, _, value = line.partition("=")
            sections[section].append((key.strip(), value.strip()))
    for change in changes:
        where, _, value = change.partition("=")
        section, _, key = where.partition(".")
        rows = sections.setdefault(section, [])
        if not key.startswith("permit_"):
            rows[:] = [r for r in rows if r[0] != key]
        rows.append((key, value))
    for section, rows in sections.items():
        print("[%s]" % section)
        for key, value in rows:
            print("%s = %s" % (key, value))


# ---- what the world saw -----------------------------------------------------------

def cmd_wire(address, port=None, proto=None):
    """wire ADDRESS [PORT [PROTO]]: `nft -j list table` on stdin has counted it"""
    seen = []
    for item in json.load(sys.stdin)["nftables"]:
        for e in item.get("set", {}).get("elem", []):
            val = e.get("elem", {}).get("val", e) if isinstance(e, dict) else e
            parts = val["concat"] if isinstance(val, dict) else [val]
            seen.append([str(p) for p in parts])
    for parts in seen:
        if parts[0] == address and port in (None, *parts[2:3]) and \
                proto in (None, *parts[1:2]):
            print(" ".join(parts))
            return
    fail("no packet to %s %s; seen: %s" % (address, port or "", seen))


def cmd_served(path, name, text=None):
    """served LOG NAME[|NAME] [TEXT]: that server has logged a connection"""
    mine = [r for r in lines(open(path)) if r["server"] in name.split("|")]
    hit = [r for r in mine if text is None or text in r["data"]]
    if not hit:
        fail("%s has logged %d connections, none of them like that"
             % (name, len(mine)))
    print(json.dumps(hit[-1]))


def late_lines(path, proto, name):
    """What the late server logged of a name, in whatever case."""
    wire = "".join(chr(len(x)) + x for x in name.split("."))
    return [r for r in lines(open(path)) if r["proto"] == proto and
            wire in r["data"].lower()]


def cmd_asked(path, name):
    """asked LOG NAME: how often the late server was asked for it"""
    print(len(late_lines(path, "udp", name)))


def cmd_answered(path, name, after):
    """answered LOG NAME TIME: it answered for it after that time"""
    t = datetime.datetime.fromisoformat(after.replace("Z", "+00:00")).timestamp()
    if not [r for r in late_lines(path, "answered", name) if r["time"] > t]:
        fail("no answer after %s" % after)


# ---- DNS ------------------------------------------------------------------------------

def dns_query(name, qtype, ident):
    q = struct.pack("!HHHHHH", ident, 0x0100, 1, 0, 0, 0)
    for label in name.rstrip(".").split("."):
        q += bytes([len(label)]) + label.encode()
    return q + b"\0" + struct.pack("!HH", qtype, 1)


def dns_skip(msg, at):
    while msg[at]:
        if msg[at] & 0xC0:
            return at + 2
        at += msg[at] + 1
    return at + 1


def dns_parse(msg):
    """(rcode, [(type, ttl, text)]) of an answer"""
    _, flags, qd, an, _, _ = struct.unpack("!HHHHHH", msg[:12])
    at, found = 12, []
    for _ in range(qd):
        at = dns_skip(msg, at) + 4
    for _ in range(an):
        at = dns_skip(msg, at)
        rtype, _, ttl, size = struct.unpack("!HHIH", msg[at:at + 10])
        data = msg[at + 10:at + 10 + size]
        text = socket.inet_ntoa(data) if rtype == A else data.hex()
        found.append((rtype, ttl, text))
        at += 10 + size
    return flags & 15, found


def dns_ask(server, name, qtype=A, tcp=False, timeout=5):
    query = dns_query(name, qtype, os.getpid() & 0xFFFF)
    kind = socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM
    with socket.socket(socket.AF_INET, kind) as s:
        s.settimeout(timeout)
        s.connect((server, 53))
        if tcp:
            s.sendall(struct.pack("!H", len(query)) + query)
            f = s.makefile("rb")
            size = struct.unpack("!H", f.read(2))[0]
            return dns_parse(f.read(size))
        s.send(query)
        while True:
            msg = s.recv(65535)
            if msg[:2] == query[:2]:
                return dns_parse(msg)


def cmd_dig(server, name, qtype="A", how="udp"):
    """dig SERVER NAME [TYPE [tcp]]: RCODE, then the addresses"""
    try:
        rcode, found = dns_ask(server, name, TYPES[qtype], how == "tcp")
    except (OSError, struct.error) as e:
        fail("no answer from %s: %s" % (server, e))
    print(" ".join([RCODES.get(rcode, str(rcode))] +
                   [t for r, _, t in found if r in (A, TYPES[qtype])]))


def cmd_fresh(server, first, count, port="8081"):
    """fresh SERVER FIRST COUNT [PORT]: ask for f00000.fresh..., connect at once

    Each name is asked for once and its address connected to in the moment
    the answer is there. A denied SYN is a refusal, an unreachable, or a
    connect that took as long as a retransmission (1 s).
    """
    bad, slow, t0 = [], 0.0, time.monotonic()
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.settimeout(5)
    udp.connect((server, 53))
    linger = struct.pack("ii", 1, 0)
    for i in range(int(first), int(first) + int(count)):
        name = "f%05d.fresh.demo.example" % i
        try:
            udp.send(dns_query(name, A, i & 0xFFFF))
            msg = udp.recv(4096)
            while struct.unpack("!H", msg[:2])[0] != i & 0xFFFF:
                msg = udp.recv(4096)
            rcode, found = dns_parse(msg)
            if rcode or not found:
                bad.append("%s: %s %s" % (name, RCODES.get(rcode), found))
                continue
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
                s.settimeout(5)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                began = time.monotonic()
                s.connect((found[-1][2], int(port)))
                took = time.monotonic() - began
                slow = max(slow, took)
                if took > 0.9:
                    bad.append("%s: connect took %.2f s" % (name, took))
        except OSError as e:
            bad.append("%s: %s" % (name, e))
        if len(bad) > 20:
            break
    took = time.monotonic() - t0
    print("%s names in %.1f s, slowest connect %.1f ms, %d failed"
          % (count, took, 1000 * slow, len(bad)))
    if bad:
        fail("\n".join(bad[:20]))


# ---- traffic a guest would make ------------------------------------------------------

def cmd_ask(server, name, port, qtype="A"):
    """ask SERVER NAME PORT [TYPE]: a question from that port, and away"""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("0.0.0.0", int(port)))
        s.sendto(dns_query(name, TYPES[qtype], 4711), (server, 53))


def cmd_hear(port, seconds):
    """hear PORT SECONDS: exits 0 when no datagram came to that port"""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("0.0.0.0", int(port)))
        print("hearing", flush=True)
        if select.select([s], [], [], float(seconds))[0]:
            fail("heard %r" % (s.recvfrom(4096),))


def cmd_connect(address, port, proto="tcp", text="x"):
    """connect ADDRESS PORT [udp]: ok, refused, unreachable, timeout; 0 if ok"""
    kind = socket.SOCK_DGRAM if proto == "udp" else socket.SOCK_STREAM
    began = time.monotonic()
    word = "ok"
    try:
        with socket.socket(socket.AF_INET, kind) as s:
            s.settimeout(2)
            s.connect((address, int(port)))
            if proto == "udp":
                s.send(text.encode())
                s.recv(100)
    except ConnectionError:
        word = "refused"
    except socket.timeout:
        word = "timeout"
    except OSError as e:
        word = "unreachable: %s" % e.strerror
    print("%s after %d ms" % (word, 1000 * (time.monotonic() - began)))
    sys.exit(0 if word == "ok" else 1)


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    s = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while s >> 16:
        s = (s & 0xFFFF) + (s >> 16)
    return ~s & 0xFFFF


def ip_packet(src, dst, proto, payload, ttl=64, frag=0, options=b""):
    ihl = 5 + len(options) // 4
    head = struct.pack("!BBHHHBBH4s4s", 0x40 | ihl, 0,
                       4 * ihl + len(payload), 4711, frag, ttl, proto, 0,
                       socket.inet_aton(src), socket.inet_aton(dst)) + options
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


def udp_packet(src, dst, **more):
    return ip_packet(src, dst, 17,
                     struct.pack("!HHHH", 4444, 4445, 12, 0) + b"evil", **more)


def cmd_frame(what, ifname, src, dst, dst_mac):
    """frame KIND IFNAME SRC DST MAC: one hostile frame, as only root can send

    KIND: ipv6 arp vlan lldp spoofed mac fragment options ttl
    """
    own = open("/sys/class/net/%s/address" % ifname).read() \
        if os.path.exists("/sys/class/net/%s/address" % ifname) else None
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    s.bind((ifname, 0))
    mac = s.getsockname()[4] if not own else bytes.fromhex(
        own.strip().replace(":", ""))
    to = bytes.fromhex(dst_mac.replace(":", ""))
    ip = udp_packet(src, dst)
    v6 = struct.pack("!IHBB", 0x60000000, 8, 58, 255) + \
        socket.inet_pton(socket.AF_INET6, "fe80::1") + \
        socket.inet_pton(socket.AF_INET6, "ff02::1") + \
        b"\x80\0\0\0\0\1\0\1"
    arp = struct.pack("!HHBBH", 1, 0x800, 6, 4, 1) + mac + \
        socket.inet_aton(src) + bytes(6) + socket.inet_aton(dst)
    frames = {
        "ipv6": (0x86DD, v6),
        "arp": (0x0806, arp),
        "vlan": (0x8100, struct.pack("!HH", 7, 0x800) + ip),
        "lldp": (0x88CC, bytes(46)),
        "spoofed": (0x800, udp_packet("192.0.2.77", dst)),
        "mac": (0x800, ip),
        "fragment": (0x800, udp_packet(src, dst, frag=0x2000)),
        "options": (0x800, udp_packet(src, dst, options=b"\x94\4\0\0")),
        "ttl": (0x800, udp_packet(src, dst, ttl=1)),
    }
    ethertype, body = frames[what]
    if what == "mac":
        mac = bytes.fromhex("020000001234")
    s.send(to + mac + struct.pack("!H", ethertype) + body)


def cmd_flow(address, port, seconds, log):
    """flow ADDRESS PORT SECONDS LOG: an echo flow, a byte each 50 ms

    LOG gets a line a second; exits 0 when no echo took over 3 s, which is
    what a cut flow would look like.
    """
    worst, n, end = 0.0, 0, time.monotonic() + float(seconds)
    out = open(log, "w", buffering=1)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.settimeout(3)
        s.connect((address, int(port)))
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        out.write("connected\n")
        while time.monotonic() < end:
            began = time.monotonic()
            try:
                s.sendall(b"x")
                if s.recv(1) != b"x":
                    out.write("closed\n")
                    fail("closed after %d echoes" % n)
            except OSError as e:
                out.write("broken: %s\n" % e)
                fail("broken after %d echoes: %s" % (n, e))
            n += 1
            worst = max(worst, time.monotonic() - began)
            if n % 20 == 0:
                out.write("%d echoes\n" % n)
            time.sleep(0.05)
    out.write("done\n")
    print("%d echoes, worst %.0f ms" % (n, 1000 * worst))


def cmd_pmtu(address, port, size):
    """pmtu ADDRESS PORT SIZE: packets of SIZE that may not be fragmented

    Prints the path's MTU as the kernel has learnt it; 0 when a packet of
    that size was refused for it (EMSGSIZE) within two seconds.
    """
    ip_mtu, ip_mtu_discover, do = 14, 10, 2
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.IPPROTO_IP, ip_mtu_discover, do)
        s.connect((address, int(port)))
        for _ in range(20):
            try:
                s.send(bytes(int(size) - 28))
            except OSError as e:
                if e.errno != errno.EMSGSIZE:
                    fail(e.strerror)
                print(s.getsockopt(socket.IPPROTO_IP, ip_mtu))
                return
            time.sleep(0.1)
        fail("%s octets went unhindered, MTU %d" %
             (size, s.getsockopt(socket.IPPROTO_IP, ip_mtu)))


def cmd_bulk(address, port, octets):
    """bulk ADDRESS PORT OCTETS: that much to an echo server and back"""
    left = got = int(octets)
    chunk = os.urandom(1 << 16)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.settimeout(5)
        s.connect((address, int(port)))
        s.setblocking(False)
        end = time.monotonic() + 10
        while got:
            r, w, _ = select.select([s], [s] if left else [], [], 1)
            if time.monotonic() > end:
                fail("%d octets to send and %d to come are left" % (left, got))
            if r:
                data = s.recv(1 << 16)
                if not data:
                    fail("closed with %d octets to come" % got)
                got -= len(data)
            if w:
                left -= s.send(chunk[:left])
    print("%s octets there and back" % octets)


def cmd_tap(device, name):
    """tap DEVICE NAME: attaches to that tap of the namespace it runs in"""
    tunsetiff, iff_tap, iff_no_pi, vnet_hdr = 0x400454CA, 0x2, 0x1000, 0x4000
    fd = os.open(device, os.O_RDWR)
    try:
        fcntl.ioctl(fd, tunsetiff, struct.pack(
            "16sH22x", name.encode(), iff_tap | iff_no_pi | vnet_hdr))
    except OSError as e:
        fail(e.strerror)


# ---- evidence ---------------------------------------------------------------------------

def pcap_at(data, offset):
    """(frame, original length) of the record at that offset of a savefile"""
    magic = struct.unpack("<I", data[:4])[0]
    if magic != 0xA1B23C4D:
        fail("the savefile's magic is %08x, not nanosecond pcap" % magic)
    if struct.unpack("<I", data[20:24])[0] & 0xFFFF != 1:
        fail("the savefile's link type is not Ethernet")
    if offset < 24 or offset + 16 > len(data):
        fail("offset %d lies outside the savefile of %d bytes"
             % (offset, len(data)))
    sec, _, cap, orig = struct.unpack("<IIII", data[offset:offset + 16])
    if offset + 16 + cap > len(data):
        fail("the record at %d is cut" % offset)
    return data[offset + 16:offset + 16 + cap], orig, sec


def pcap_offsets(data):
    at, found = 24, []
    while at < len(data):
        frame, _, _ = pcap_at(data, at)
        found.append(at)
        at += 16 + len(frame)
    return found


def packet_facts(frame):
    """What the frame itself says, to compare a record with"""
    ethertype = struct.unpack("!H", frame[12:14])[0]
    facts = {"ethertype": ethertype}
    if ethertype != 0x800 or len(frame) < 34:
        return facts
    ihl = 4 * (frame[14] & 15)
    facts["src"] = socket.inet_ntoa(frame[26:30])
    facts["dst"] = socket.inet_ntoa(frame[30:34])
    proto = frame[23]
    first = not struct.unpack("!H", frame[20:22])[0] & 0x1FFF
    if proto in (6, 17) and first and len(frame) >= 14 + ihl + 4:
        facts["proto"] = "tcp" if proto == 6 else "udp"
        facts["sport"], facts["dport"] = struct.unpack(
            "!HH", frame[14 + ihl:18 + ihl])
    return facts


COMMON = ("v", "kind", "host_id", "boot_id", "hseq", "seq", "time", "mono_ns",
          "lease", "uid", "slot", "generation", "layer")
DENIAL = ("phase", "policy", "reason", "verdict", "probe", "suppressed", "pcap")


class Savefiles:
    """The savefiles of a lease, and which of their packets back a record"""

    def __init__(self, directory):
        self.directory, self.data, self.free = directory, {}, {}
        for name in sorted(os.listdir(directory)):
            if name.endswith(".pcap"):
                data = open(os.path.join(directory, name), "rb").read()
                self.data[name] = data
                self.free[name] = set(pcap_offsets(data))

    def take(self, n, where):
        """The frame a record names; no packet backs two records"""
        if where["offset"] not in self.free.get(where["file"], ()):
            fail("record %d: no packet, or another record's, is at %s"
                 % (n, where))
        self.free[where["file"]].discard(where["offset"])
        frame, _, _ = pcap_at(self.data[where["file"]], where["offset"])
        if where["caplen"] != len(frame):
            fail("record %d: %s, but the packet has %d octets"
                 % (n, where, len(frame)))
        return frame


def check_record(n, rec, files):
    log = rec.get("layer") == "log"
    lost = [k for k in COMMON + (() if log else DENIAL) if k not in rec]
    if lost:
        fail("record %d lacks %s: %s" % (n, lost, json.dumps(rec)))
    if log:
        return
    frame = files.take(n, rec["pcap"])
    facts = packet_facts(frame)
    for key in ("src", "dst", "sport", "dport"):
        if key in rec and key in facts and rec[key] != facts[key]:
            fail("record %d: %s is %s, in the packet %s: %s"
                 % (n, key, rec[key], facts[key], json.dumps(rec)))
    if rec["layer"] == "dns" and rec.get("qname"):
        first = rec["qname"].split(".")[0].encode().lower()
        if "\\" not in rec["qname"] and first not in frame.lower():
            fail("record %d: the packet does not ask for %s"
                 % (n, rec["qname"]))


def cmd_evidence(directory):
    """evidence DIR: every record is backed by the packet it names

    Also: sequence numbers of the lease are dense and rising, host-wide ones
    rising, no packet backs two records and none backs none.
    """
    recs = list(lines(open(os.path.join(directory, "denials.jsonl"))))
    files = Savefiles(directory)
    packets = sum(len(f) for f in files.free.values())
    seq = hseq = None
    for n, rec in enumerate(recs, 1):
        check_record(n, rec, files)
        if seq is not None and rec["seq"] != seq + 1:
            fail("record %d: seq %d after %d" % (n, rec["seq"], seq))
        if hseq is not None and rec["hseq"] <= hseq:
            fail("record %d: hseq %d after %d" % (n, rec["hseq"], hseq))
        seq, hseq = rec["seq"], rec["hseq"]
    rest = sum(len(f) for f in files.free.values())
    if rest:
        fail("%d packets back no record" % rest)
    if not recs:
        fail("no record at all")
    print("%d records, %d packets" % (len(recs), packets))


def denied_rows(obj):
    """The `denied` member of a lease as {reason: counts}"""
    rows = obj.get("denied", {})
    if isinstance(rows, list):
        return {r["reason"]: r for r in rows}
    return {k: v for k, v in rows.items() if isinstance(v, dict)}


def cmd_law(log, *wants):
    """law DENIALS.JSONL [REASON=TOTAL]...: `show --json` on stdin obeys the law

    total == logged + suppressed + lost for each reason, nothing lost, and the
    log has as many records of the reason as are said to be logged.
    """
    rows = denied_rows(json.load(sys.stdin))
    have = {}
    for rec in lines(open(log)):
        if rec["layer"] != "log":
            have[rec["reason"]] = have.get(rec["reason"], 0) + 1
    bad = []
    for reason, c in rows.items():
        if c["total"] != c["logged"] + c["suppressed"] + c["lost"]:
            bad.append("%s: %s" % (reason, c))
        if c["lost"]:
            bad.append("%s: %d lost" % (reason, c["lost"]))
        if c["logged"] != have.get(reason, 0):
            bad.append("%s: logged %d, the log has %d"
                       % (reason, c["logged"], have.get(reason, 0)))
    for reason in have:
        if reason not in rows:
            bad.append("%s is in the log but not counted" % reason)
    for w in wants:
        reason, _, n = w.partition("=")
        total = rows.get(reason, {"total": 0})["total"]
        if n and total != int(n) or not total:
            bad.append("%s: total %d, wanted %s" % (reason, total, n or "some"))
    print(json.dumps(rows))
    if bad:
        fail("\n".join(bad))


def cmd_total():
    """total: all denials of the lease on stdin"""
    print(sum(c["total"] for c in denied_rows(json.load(sys.stdin)).values()))


# ---- processes -----------------------------------------------------------------------------

CAPS = {5: "cap_kill", 6: "cap_setgid", 7: "cap_setuid",
        10: "cap_net_bind_service", 12: "cap_net_admin", 13: "cap_net_raw",
        21: "cap_sys_admin"}


def caps_text(mask):
    names = [CAPS.get(i, "cap_%d" % i) for i in range(64) if mask >> i & 1]
    return ",".join(names) or "none"


def status_of(pid):
    return dict(line.rstrip("\n").split(":\t", 1)
                for line in open("/proc/%s/status" % pid) if ":\t" in line)


ROLE_CAPS = {"launcher": "cap_kill,cap_setgid,cap_setuid",
             "main": "cap_net_admin",
             "build": "cap_net_admin,cap_net_bind_service,cap_net_raw,"
                      "cap_sys_admin",  # raw: a packet socket a gateway
             "api": "none", "dns": "none", "audit": "none"}


def role_lines(log):
    """{role: words of its last startup line}"""
    roles = {}
    for line in open(log, errors="replace"):
        words = line.split()
        if "role" in words and "caps" in words:
            at = words.index("role")
            rest = words[at + 2:]
            roles[words[at + 1].rstrip(":")] = dict(zip(rest[::2], rest[1::2]))
    return roles


def cmd_roles(log):
    """roles LOG: each role is what its startup line says, and what it may be"""
    roles, uids = role_lines(log), {}
    if sorted(roles) != sorted(ROLE_CAPS):
        fail("startup lines of %s" % sorted(roles))
    for role, said in roles.items():
        st = status_of(said["pid"])
        eff, perm = int(st["CapEff"], 16), int(st["CapPrm"], 16)
        is_ = caps_text(eff)
        print("%-8s uid %s caps %s" % (role, st["Uid"].split()[0], is_))
        want = ",".join(sorted(said["caps"].split(",")))
        if ",".join(sorted(is_.split(","))) != want or eff != perm:
            fail("%s said %s, /proc says %s" % (role, said["caps"], is_))
        if want != ROLE_CAPS[role]:
            fail("%s may hold %s, holds %s" % (role, ROLE_CAPS[role], want))
        if set(st["Uid"].split()) != {said["uid"]}:
            fail("%s said uid %s, /proc says %s" % (role, said["uid"], st["Uid"]))
        if set(st["Gid"].split()) != {said["gid"]}:
            fail("%s said gid %s, /proc says %s" % (role, said["gid"], st["Gid"]))
        if st["NoNewPrivs"] != said["no_new_privs"]:
            fail("%s: NoNewPrivs is %s" % (role, st["NoNewPrivs"]))
        uids[role] = said["uid"]
        if role == "launcher":
            continue
        for name in ("CapInh", "CapBnd", "CapAmb"):
            if int(st[name], 16):
                fail("%s: %s is %s" % (role, name, st[name]))
        if st["NoNewPrivs"] != "1":
            fail("%s could gain privileges by exec" % role)
    own = [uids[r] for r in ("api", "dns", "audit")]
    if "0" in own or len(set(own)) != 3:
        fail("api, dns and audit run as %s" % own)


def cmd_rolepid(log, role):
    """rolepid LOG ROLE: its pid, by its last startup line"""
    print(role_lines(log)[role]["pid"])


# ---- a port forwarder for nothing: is a process readable? ---------------------------------

def cmd_listen(port, seconds):
    """listen PORT SECONDS: exits 0 when nobody connected"""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("0.0.0.0", int(port)))
        s.listen()
        if select.select([s], [], [], float(seconds))[0]:
            fail("connected from %s" % (s.accept()[1],))


def main():
    verb = globals().get("cmd_" + (sys.argv[1] if len(sys.argv) > 1 else ""))
    if not verb:
        print(__doc__)
        for name in sorted(globals()):
            if name.startswith("cmd_"):
                print("  " + globals()[name].__doc__.split("\n")[0])
        sys.exit(2)
    verb(*sys.argv[2:])


main()
