// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the event loop (see loop.h)
 */
#include "netpool/base/loop.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <event2/event.h>
#include <time.h>

struct eg_loop {
	struct event_base *base;
	int64_t now;
	int64_t turn; /* libevent's cached time the sample belongs to */
};

struct eg_io {
	struct eg_loop *loop;
	struct event *ev;
	int fd;
	int what;
	eg_io_cb cb;
	void *arg;
};

struct eg_timer {
	struct event *ev;
	eg_timer_cb cb;
	void *arg;
};

static int64_t clock_ns(clockid_t id)
{
	struct timespec ts = {0};

	(void)clock_gettime(id, &ts); /* cannot fail for these clocks */
	return (int64_t)ts.tv_sec * EG_NSEC_PER_SEC + ts.tv_nsec;
}

int64_t eg_wall_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

int64_t eg_boot_ns(void)
{
	return clock_ns(CLOCK_BOOTTIME);
}

int eg_loop_new(struct eg_loop **ret)
{
	struct eg_loop *loop = calloc(1, sizeof(*loop));
	struct event_config *cfg = event_config_new();

	if (loop && cfg)
		loop->base = event_base_new_with_config(cfg);
	if (cfg)
		event_config_free(cfg);
	if (!loop || !loop->base) {
		free(loop);
		return -ENOMEM;
	}
	*ret = loop;
	return 0;
}

void eg_loop_free(struct eg_loop *loop)
{
	if (!loop)
		return;
	event_base_free(loop->base);
	free(loop);
}

int eg_loop_run(struct eg_loop *loop)
{
	return event_base_dispatch(loop->base) < 0 ? -EIO : 0;
}

void eg_loop_stop(struct eg_loop *loop)
{
	(void)event_base_loopbreak(loop->base);
}

int64_t eg_loop_now_ns(struct eg_loop *loop)
{
	struct timeval tv;
	int64_t turn;

	if (event_base_gettimeofday_cached(loop->base, &tv))
		return eg_boot_ns();
	turn = (int64_t)tv.tv_sec * 1000000 + tv.tv_usec;
	if (turn != loop->turn) {
		loop->turn = turn;
		loop->now = eg_boot_ns();
	}
	return loop->now;
}

static void io_on_event(evutil_socket_t fd, short what, void *arg)
{
	struct eg_io *io = arg;
	int w = 0;

	if (what & EV_READ)
		w |= EG_READ;
	if (what & EV_WRITE)
		w |= EG_WRITE;
	io->cb(io->arg, (int)fd, w);
}

static int io_arm(struct eg_io *io)
{
	short flags = EV_PERSIST;

	if (io->what & EG_READ)
		flags |= EV_READ;
	if (io->what & EG_WRITE)
		flags |= EV_WRITE;
	if (event_assign(io->ev, io->loop->base, io->fd, flags, io_on_event, io))
		return -EINVAL;
	return io->what && event_add(io->ev, NULL) ? -EIO : 0;
}

struct eg_io *eg_io_new(struct eg_loop *loop, int fd, int what, eg_io_cb cb,
			void *arg)
{
	struct eg_io *io = calloc(1, sizeof(*io));

	if (!io)
		return NULL;
	io->loop = loop;
	io->fd = fd;
	io->what = what;
	io->cb = cb;
	io->arg = arg;
	io->ev = event_new(loop->base, fd, EV_READ, io_on_event, io);
	if (!io->ev || io_arm(io)) {
		eg_io_free(io);
		return NULL;
	}
	return io;
}

void eg_io_set(struct eg_io *io, int what)
{
	if (io->what == what)
		return;
	(void)event_del(io->ev);
	io->what = what;
	(void)io_arm(io); /* re-adding a known descriptor cannot fail */
}

void eg_io_free(struct eg_io *io)
{
	if (!io)
		return;
	if (io->ev)
		event_free(io->ev);
	free(io);
}

static void timer_on_event(evutil_socket_t fd, short what, void *arg)
{
	struct eg_timer *t = arg;

	(void)fd;
	(void)what;
	t->cb(t->arg);
}

struct eg_timer *eg_timer_new(struct eg_loop *loop, eg_timer_cb cb, void *arg)
{
	struct eg_timer *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->cb = cb;
	t->arg = arg;
	t->ev = evtimer_new(loop->base, timer_on_event, t);
	if (!t->ev) {
		free(t);
		return NULL;
	}
	return t;
}

void eg_timer_set(struct eg_timer *t, int64_t after_us)
{
	struct timeval tv = {.tv_sec = after_us / 1000000,
			     .tv_usec = after_us % 1000000};

	(void)evtimer_add(t->ev, &tv);
}

void eg_timer_cancel(struct eg_timer *t)
{
	(void)evtimer_del(t->ev);
}

void eg_timer_free(struct eg_timer *t)
{
	if (!t)
		return;
	event_free(t->ev);
	free(t);
}
