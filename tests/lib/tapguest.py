#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest for a lease in tap mode, without a virtual machine.

Does what a VMM does: opens the lease's tap inside the lease's namespace and
moves frames. At the other end is a tap of its own, eth0 in a second namespace,
whose kernel plays the guest, so that curl and the rest run there unchanged.
"""
import argparse
import ctypes
import fcntl
import os
import selectors
import struct
import sys
import time

TUNSETIFF = 0x400454CA
SIOCSIFHWADDR = 0x8924
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
CLONE_NEWNET = 0x40000000
FRAME = 65536

libc = ctypes.CDLL(None, use_errno=True)


def enter(path):
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    if libc.setns(fd, CLONE_NEWNET):
        sys.exit("setns %s: %s" % (path, os.strerror(ctypes.get_errno())))
    os.close(fd)


def tap(name):
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF,
                struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return fd


def set_mac(fd, name, mac):
    octets = bytes(int(x, 16) for x in mac.split(":"))
    fcntl.ioctl(fd, SIOCSIFHWADDR,
                struct.pack("16sH6s8x", name.encode(), 1, octets))


def move(a, b):
    """Everything that is there, from a to b; a full ring drops, as a NIC."""
    while True:
        try:
            frame = os.read(a, FRAME)
        except BlockingIOError:
            return
        try:
            os.write(b, frame)
        except (BlockingIOError, OSError):
            pass


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--lease", required=True, help="path of its namespace")
    p.add_argument("--tap", required=True)
    p.add_argument("--guest", required=True, help="path of the guest's")
    p.add_argument("--mac", required=True)
    p.add_argument("--ready")
    args = p.parse_args()
    enter(args.lease)
    outer = tap(args.tap)
    enter(args.guest)
    inner = tap("eth0")
    set_mac(inner, "eth0", args.mac)
    if args.ready:
        open(args.ready, "w").close()
    sel = selectors.DefaultSelector()
    sel.register(outer, selectors.EVENT_READ, inner)
    sel.register(inner, selectors.EVENT_READ, outer)
    while True:
        for key, _ in sel.select():
            try:
                move(key.fd, key.data)
            except OSError as e:  # the lease is over, or the link is down
                if e.errno in (77, 19):  # EBADFD, ENODEV
                    sys.exit("tap is gone: %s" % e)
                time.sleep(0.02)


main()
