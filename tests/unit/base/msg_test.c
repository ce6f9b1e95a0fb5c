// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Channels between roles: order, queueing, descriptors, and that a message
 * which is not in the table never reaches a handler.
 */
#include "netpool/base/msg.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

struct end {
	struct eg_chan *c;
	unsigned int got, closed;
	uint64_t last;
	int fd;
	bool in_order;
	char why[64];
};

static void on_msg(void *arg, struct eg_chan *c, struct eg_msg *m)
{
	struct end *e = arg;

	(void)c;
	if (m->cookie != e->last + 1)
		e->in_order = false;
	e->last = m->cookie;
	e->got++;
	if (m->fd >= 0 && e->fd < 0)
		e->fd = eg_steal_fd(&m->fd);
}

static void on_close(void *arg, struct eg_chan *c, const char *why)
{
	struct end *e = arg;

	e->closed++;
	(void)snprintf(e->why, sizeof(e->why), "%s", why);
	eg_chan_free(c);
	e->c = NULL;
}

static const struct eg_chan_ops ops = { .on_msg = on_msg,
					.on_close = on_close };

static void stop(void *arg)
{
	eg_loop_stop(arg);
}

static void run_ms(struct eg_loop *loop, int ms)
{
	struct eg_timer *t = eg_timer_new(loop, stop, loop);

	assert_non_null(t);
	eg_timer_set(t, ms * 1000);
	assert_int_equal(eg_loop_run(loop), 0);
	eg_timer_free(t);
}

struct pair {
	struct eg_loop *loop;
	struct end a, b;
};

static void pair_open(struct pair *p, int *raw)
{
	int sv[2];

	memset(p, 0, sizeof(*p));
	p->a.fd = p->b.fd = -1;
	p->a.in_order = p->b.in_order = true;
	assert_int_equal(eg_loop_new(&p->loop), 0);
	assert_int_equal(eg_chan_pair(sv), 0);
	assert_int_equal(eg_chan_new(&p->b.c, p->loop, sv[1], &ops, &p->b), 0);
	if (raw)
		*raw = sv[0];
	else
		assert_int_equal(eg_chan_new(&p->a.c, p->loop, sv[0], &ops,
					     &p->a), 0);
}

static void pair_close(struct pair *p)
{
	eg_chan_free(p->a.c);
	eg_chan_free(p->b.c);
	eg_close_p(&p->b.fd);
	eg_loop_free(p->loop);
}

static void test_order_beyond_the_socket(void **state)
{
	struct eg_mb_slot s = { .slot = 1 };
	struct pair p;

	(void)state;
	pair_open(&p, NULL);
	for (uint64_t i = 1; i <= 20000; i++)
		assert_int_equal(eg_chan_send(p.a.c, EG_MB_ARM, i, &s,
					      sizeof(s), -1), 0);
	assert_true(eg_chan_queued(p.a.c) > 0);
	run_ms(p.loop, 500);
	assert_int_equal(p.b.got, 20000);
	assert_true(p.b.in_order);
	assert_int_equal(eg_chan_queued(p.a.c), 0);
	pair_close(&p);
}

static void test_queue_is_bounded(void **state)
{
	struct eg_mb_slot s = { .slot = 1 };
	struct pair p;
	uint64_t i;
	int r = 0;

	(void)state;
	pair_open(&p, NULL);
	for (i = 1; !r && i < 10 * EG_CHAN_QUEUE; i++)
		r = eg_chan_send(p.a.c, EG_MB_ARM, i, &s, sizeof(s), -1);
	assert_int_equal(r, -ENOBUFS);
	assert_int_equal(eg_chan_queued(p.a.c), EG_CHAN_QUEUE);
	pair_close(&p);
}

static void test_descriptor_passes(void **state)
{
	struct eg_ctl_key k = { .kind = EG_FD_RUN };
	int pipefd[2];
	struct pair p;
	char c = 0;

	(void)state;
	pair_open(&p, NULL);
	assert_int_equal(pipe(pipefd), 0);
	assert_int_equal(eg_chan_send(p.a.c, EG_CTL_FD, 1, &k, sizeof(k),
				      pipefd[1]), 0);
	close(pipefd[1]);
	run_ms(p.loop, 50);
	assert_int_equal(p.b.got, 1);
	assert_true(p.b.fd >= 0);
	assert_true(fcntl(p.b.fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(write(p.b.fd, "x", 1), 1);
	assert_int_equal(read(pipefd[0], &c, 1), 1);
	assert_int_equal(c, 'x');
	close(pipefd[0]);
	pair_close(&p);
}

static void test_sender_is_held_to_the_table(void **state)
{
	struct eg_mb_slot s = { .slot = 1 };
	struct pair p;

	(void)state;
	pair_open(&p, NULL);
	assert_int_equal(eg_chan_send(p.a.c, EG_MB_ARM, 1, &s, sizeof(s) - 1,
				      -1), -EMSGSIZE);
	assert_int_equal(eg_chan_send(p.a.c, EG_MSG_COUNT, 1, &s, sizeof(s),
				      -1), -EMSGSIZE);
	pair_close(&p);
}

/* What a broken or hostile sibling might send: each closes the channel. */
static void broken(const void *data, size_t len, int fd, const char *why)
{
	char ctl[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data,
			     .iov_len = len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct pair p;
	int raw;

	pair_open(&p, &raw);
	if (fd >= 0) {
		struct cmsghdr *cm;

		mh.msg_control = ctl;
		mh.msg_controllen = sizeof(ctl);
		cm = CMSG_FIRSTHDR(&mh);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cm), &fd, sizeof(int));
	}
	assert_int_equal(sendmsg(raw, &mh, 0), (ssize_t)len);
	run_ms(p.loop, 30);
	assert_int_equal(p.b.got, 0);
	assert_int_equal(p.b.closed, 1);
	assert_string_equal(p.b.why, why);
	close(raw);
	pair_close(&p);
}

static void test_receiver_is_strict(void **state)
{
	static char big[sizeof(struct eg_msg_hdr) + EG_MSG_MAX + 1];
	struct {
		struct eg_msg_hdr h;
		struct eg_mb_slot s;
	} m = { .h = { .type = EG_MB_ARM, .magic = EG_MSG_MAGIC,
		       .len = sizeof(struct eg_mb_slot) } };
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	broken(&m, 3, -1, "a message without header");
	broken(&m, sizeof(m) - 4, -1, "a message of the wrong size");
	broken(&m, sizeof(m), fd, "a descriptor where none belongs");
	m.h.magic = 1;
	broken(&m, sizeof(m), -1, "a message without header");
	m.h.magic = EG_MSG_MAGIC;
	m.h.type = EG_MSG_COUNT;
	broken(&m, sizeof(m), -1, "a message of unknown type");
	m.h.type = EG_MSG_NONE;
	broken(&m, sizeof(m), -1, "a message of unknown type");
	memcpy(big, &m.h, sizeof(m.h));
	broken(big, sizeof(big), -1, "a message was truncated");
	close(fd);
}

static void test_peer_death_is_told_once(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, NULL);
	eg_chan_free(p.a.c);
	p.a.c = NULL;
	run_ms(p.loop, 30);
	assert_int_equal(p.b.closed, 1);
	assert_null(p.b.c);
	pair_close(&p);
}

/* An effect may be seen before the message that announces it is read. */
static void test_drain_reads_what_is_there(void **state)
{
	struct eg_mb_slot s = { .slot = 7 };
	struct pair p;

	(void)state;
	pair_open(&p, NULL);
	for (uint64_t i = 1; i <= 100; i++)
		assert_int_equal(eg_chan_send(p.a.c, EG_MB_ARM, i, &s,
					      sizeof(s), -1), 0);
	eg_chan_drain(p.b.c);
	assert_int_equal(p.b.got, 100);
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_beyond_the_socket),
		cmocka_unit_test(test_queue_is_bounded),
		cmocka_unit_test(test_descriptor_passes),
		cmocka_unit_test(test_sender_is_held_to_the_table),
		cmocka_unit_test(test_receiver_is_strict),
		cmocka_unit_test(test_peer_death_is_told_once),
		cmocka_unit_test(test_drain_reads_what_is_there),
	};

	return cmocka_run_group_tests_name("base/msg", tests, NULL, NULL);
}
