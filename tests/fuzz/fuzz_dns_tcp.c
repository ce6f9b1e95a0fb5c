// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd fuzzing: a guest's TCP stream, split where the input says. Each
 * octet pair (n, ...): the next n octets are one segment.
 *
 * The connection is a socket pair handed to the stream code, which cannot
 * tell it from an accepted socket once it knows its client.
 */
#include "dnsguard/listen.h"
#include "netpool/base/util.h"
#include "tests/lib/dns_world.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct dg_listen *listener;
static unsigned int queries;

static void on_query(void *arg, const struct dg_client *from,
		     const uint8_t *msg, size_t len)
{
	static const uint8_t answer[30];

	(void)arg;
	if (++queries > DG_TCP_QUERIES || len > DG_QUERY_MAX)
		abort();
	if (len && msg[0] & 1)
		dg_listen_reply(listener, from, answer, sizeof(answer));
	else
		dg_listen_silence(listener, from);
}

static const struct dg_listen_ops ops = {.query = on_query};

static void stop(void *arg)
{
	eg_loop_stop(arg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct eg_loop *loop;
	static struct dw *w;
	struct dg_client c;
	struct eg_timer *t;
	int fd[2];

	if (!w) {
		w = dw_new();
		if (eg_loop_new(&loop) ||
		    dg_listen_new(&listener, loop, &w->conf, &ops, NULL))
			abort();
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd))
		abort();
	queries = 0;
	c = dw_client(w, 1);
	if (dg_listen_conn(listener, fd[0], &c))
		abort();
	t = eg_timer_new(loop, stop, loop);
	while (size > 1) {
		size_t n = data[0] ? data[0] : 1;

		if (n > size - 1)
			n = size - 1;
		if (send(fd[1], data + 1, n, MSG_NOSIGNAL) < 0)
			break;
		data += 1 + n;
		size -= 1 + n;
		eg_timer_set(t, 0);
		(void)eg_loop_run(loop);
	}
	(void)close(fd[1]);
	eg_timer_set(t, 0);
	(void)eg_loop_run(loop);
	eg_timer_free(t);
	dg_listen_cut(listener, 1);
	return 0;
}
