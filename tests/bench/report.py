#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The JSON file of one group of the bench: report.py GROUP DATE RAW EGRESSD

Reads RAW/GROUP.figures and RAW/GROUP.notes as tests/bench/run left them and
writes to stdout what was measured, on what machine, of which commit.
"""
import json
import os
import platform
import subprocess
import sys


def said(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True,
                              timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def field(path, name):
    try:
        with open(path) as f:
            for line in f:
                key, _, value = line.partition(":")
                if key.strip() == name:
                    return value.strip()
    except OSError:
        pass
    return None


def commit():
    here = os.path.dirname(os.path.abspath(__file__))
    head = said("git", "-C", here, "rev-parse", "HEAD")
    if head and said("git", "-C", here, "status", "--porcelain", "-uno"):
        head += "-dirty"
    return head


def number(text):
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return None if text == "-" else text


def figures(path):
    keys = ("name", "value", "unit", "reference", "ratio", "target", "verdict")
    with open(path) as f:
        for line in f:
            row = dict(zip(keys, line.rstrip("\n").split("\t")))
            for k in ("value", "reference", "ratio"):
                row[k] = number(row[k])
            yield row


def notes(path):
    out = {}
    with open(path) as f:
        for line in f:
            name, _, text = line.rstrip("\n").partition("\t")
            try:
                out[name] = json.loads(text)
            except ValueError:
                out[name] = text
    return out


def main():
    group, date, raw, egressd = sys.argv[1:]
    memory = field("/proc/meminfo", "MemTotal") or "0 kB"
    json.dump({
        "v": 1,
        "group": group,
        "date": "%s-%s-%sT%s:%s:%sZ" % (date[:4], date[4:6], date[6:8],
                                        date[9:11], date[11:13], date[13:15]),
        "commit": commit(),
        "version": said(egressd, "--version"),
        "machine": field("/proc/cpuinfo", "model name") or platform.machine(),
        "kernel": " ".join(platform.uname()[i] for i in (0, 2, 3, 4)),
        "cpus": os.cpu_count(),
        "memory_kB": int(memory.split()[0]),
        "slots": int(os.environ.get("BENCH_SLOTS", "0")),
        "rounds": int(os.environ.get("BENCH_ROUNDS", "0")),
        "raw": "raw/" + os.path.basename(raw),
        "figures": list(figures("%s/%s.figures" % (raw, group))),
        "notes": notes("%s/%s.notes" % (raw, group)),
    }, sys.stdout, indent=1)
    print()


main()
