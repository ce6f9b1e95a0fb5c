#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# cppcheck finds nothing; an exception stands beside its line, with the reason.
cd "$(dirname "$0")/../.." || exit 1
command -v cppcheck >/dev/null || { echo "skip: cppcheck is not installed"; exit 77; }
make --no-print-directory cppcheck
