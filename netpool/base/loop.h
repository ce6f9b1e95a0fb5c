/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the event loop of a role, a thin layer over libevent.
 *
 * One loop a process, no threads. Handlers must not block and bound what
 * they do in a turn. The clock is read once a turn (eg_loop_now_ns) and is
 * CLOCK_BOOTTIME, so that a suspended host counts. Timers are one-shot and
 * use the monotonic clock of libevent.
 */
#ifndef EG_LOOP_H
#define EG_LOOP_H

#include <stdint.h>

struct eg_loop;
struct eg_io;
struct eg_timer;

#define EG_READ 1
#define EG_WRITE 2

typedef void (*eg_io_cb)(void *arg, int fd, int what);
typedef void (*eg_timer_cb)(void *arg);

int eg_loop_new(struct eg_loop **ret);
void eg_loop_free(struct eg_loop *loop);

/* eg_loop_run() - until eg_loop_stop(); 0 or negative errno. */
int eg_loop_run(struct eg_loop *loop);
void eg_loop_stop(struct eg_loop *loop);

/* eg_loop_now_ns() - CLOCK_BOOTTIME as of this turn. */
int64_t eg_loop_now_ns(struct eg_loop *loop);

/**
 * eg_io_new() - call @cb while @fd is ready for @what (level-triggered)
 *
 * Return: a handle to eg_io_free(), which leaves @fd open; NULL when out of
 * memory. eg_io_set() changes what is waited for, 0 pauses.
 */
struct eg_io *eg_io_new(struct eg_loop *loop, int fd, int what, eg_io_cb cb,
			void *arg);
void eg_io_set(struct eg_io *io, int what);
void eg_io_free(struct eg_io *io);

struct eg_timer *eg_timer_new(struct eg_loop *loop, eg_timer_cb cb, void *arg);
void eg_timer_set(struct eg_timer *t, int64_t after_us);
void eg_timer_cancel(struct eg_timer *t);
void eg_timer_free(struct eg_timer *t);

/* Wall and boot clocks, for stamps and deadlines. */
int64_t eg_wall_ns(void);
int64_t eg_boot_ns(void);

#endif
