/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: numbered points at which a test build can be stopped or made fail.
 *
 * Compiled with -DEG_FAULT (make FAULT=1), every step that changes something
 * outside the process passes a point: one rtnetlink message, an unshare, a
 * mount, a batch, a file's creation or renaming, a message to another role.
 * Without it the macros are constants and nothing of this is in the binary.
 *
 * EGRESSD_FAULT in the environment of the first process names a file with
 * one line, which is read again at every point:
 *
 *   ROLE ACTION [NUMBER [TAG]]
 *
 * Only the points of ROLE (a role's name, `launcher` or `purge`) are counted,
 * from 1, and anew whenever the line changes; so a test that replaces the
 * line just before it asks for something counts the points of that. TAG is
 * there to make a line differ from the last one. ACTION:
 *
 *   count		pass
 *   kill-role	at point NUMBER: SIGKILL to the process that reached it
 *   kill-all	the same to its process group; start the daemon as one
 *   fail=ERRNO	point NUMBER is not carried out and reports -ERRNO
 *
 * A line that has killed is blanked first, so that what is started again
 * passes. Each point passed adds a line "NUMBER ROLE TEXT" to the file's name plus
 * ".log", before it is carried out. A point that is reached in a process
 * forked off (the launcher's probe) is none.
 *
 * The line is read by pread(2) of FAULT_LINE octets: write it with one
 * write(2) over the old one, padded, not by truncating first.
 */
#ifndef EG_FAULT_H
#define EG_FAULT_H

#ifdef EG_FAULT

/* eg_fault_role() - from here on points are counted as @role's */
void eg_fault_role(const char *role);

/* eg_fault_point() - 0: carry on; negative errno: act as if that happened */
int eg_fault_point(const char *what);

/* eg_fault_call() - the same by errno; true: fail */
int eg_fault_call(const char *what);

/* EG_STEP() - a point: 0, or the negative errno to report */
#define EG_STEP(what) eg_fault_point(what)
/* EG_CALL() - a point and the call behind it: its value, or -1 and errno */
#define EG_CALL(what, call) (eg_fault_call(what) ? -1 : (call))
#define EG_ONE_BY_ONE 1 /* messages of a batch are sent each on its own */

#else

#define eg_fault_role(role) ((void)(role))
#define EG_STEP(what) 0
#define EG_CALL(what, call) (call)
#define EG_ONE_BY_ONE 0

#endif
#endif
