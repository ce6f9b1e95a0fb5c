// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: NFLOG (see nflog.h)
 *
 * The messages come from the kernel and are walked as if they did not:
 * libmnl's attribute iteration is bounded by the message, every length is
 * compared with what the value needs, and only a datagram sent by the kernel
 * (port 0) is looked at.
 */
#include "audit/nflog.h"
#include "netpool/base/util.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/*
 * A batch of the kernel: the skb's data and its trailer fit 32 KiB, so that
 * it is one allocation of that size and not of the next (100 packets of 128
 * octets make about 28 KB).
 */
#define BATCH_BYTES 32256
#define BATCH_PACKETS 100    /* or so many, whichever is first */
#define FLUSH_CENTISECONDS 1 /* a lone packet waits this long */
#define RCVBUF (2 << 20)     /* one gateway's; only its own slots fill it */
#define READ_BUF (128 << 10) /* more than NFULNL_CFG_NLBUFSIZ can be */

/* ---- bind ---------------------------------------------------------------- */

static struct nlmsghdr *config_msg(char *buf, uint16_t group, uint32_t seq)
{
	struct nlmsghdr *h = mnl_nlmsg_put_header(buf);
	struct nfgenmsg *g;

	h->nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG;
	h->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	h->nlmsg_seq = seq;
	g = mnl_nlmsg_put_extra_header(h, sizeof(*g));
	g->nfgen_family = AF_UNSPEC;
	g->version = NFNETLINK_V0;
	g->res_id = htons(group);
	return h;
}

/*
 * exchange() - send one request and find its acknowledgement
 *
 * nfnetlink handles a request inside sendmsg(2), so the answer is in the
 * buffer already; packets logged meanwhile may stand in front of it.
 */
static int exchange(int fd, const struct nlmsghdr *h)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	static char buf[READ_BUF];

	if (sendto(fd, h, h->nlmsg_len, MSG_NOSIGNAL,
		   (const struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return -errno;
	for (int tries = 0; tries < 4096; tries++) {
		ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
		int left = (int)n;

		if (n < 0 && (errno == EINTR || errno == ENOBUFS))
			continue;
		if (n < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		for (const struct nlmsghdr *a = (const void *)buf;
		     mnl_nlmsg_ok(a, left); a = mnl_nlmsg_next(a, &left)) {
			const struct nlmsgerr *e = mnl_nlmsg_get_payload(a);

			if (a->nlmsg_type == NLMSG_ERROR &&
			    a->nlmsg_seq == h->nlmsg_seq &&
			    mnl_nlmsg_get_payload_len(a) >= sizeof(e->error))
				return e->error;
		}
	}
	return -ETIMEDOUT;
}

static int config_bind(int fd, uint16_t group, uint32_t seq)
{
	char buf[256] __attribute__((aligned(8)));
	struct nfulnl_msg_config_cmd cmd = {.command = NFULNL_CFG_CMD_BIND};
	struct nlmsghdr *h = config_msg(buf, group, seq);

	mnl_attr_put(h, NFULA_CFG_CMD, sizeof(cmd), &cmd);
	return exchange(fd, h);
}

static int config_params(int fd, uint16_t group, uint32_t snaplen, uint32_t seq)
{
	char buf[256] __attribute__((aligned(8)));
	struct nfulnl_msg_config_mode mode = {.copy_range = htonl(snaplen),
					      .copy_mode = NFULNL_COPY_PACKET};
	struct nlmsghdr *h = config_msg(buf, group, seq);

	mnl_attr_put(h, NFULA_CFG_MODE, sizeof(mode), &mode);
	mnl_attr_put_u32(h, NFULA_CFG_NLBUFSIZ, htonl(BATCH_BYTES));
	mnl_attr_put_u32(h, NFULA_CFG_QTHRESH, htonl(BATCH_PACKETS));
	mnl_attr_put_u32(h, NFULA_CFG_TIMEOUT, htonl(FLUSH_CENTISECONDS));
	mnl_attr_put_u16(h, NFULA_CFG_FLAGS,
			 htons(NFULNL_CFG_F_SEQ | NFULNL_CFG_F_SEQ_GLOBAL));
	return exchange(fd, h);
}

int au_nflog_bind(int fd, uint16_t group, uint32_t snaplen, struct eg_err *err)
{
	struct sockaddr_nl me = {.nl_family = AF_NETLINK};
	uint32_t seq = (uint32_t)time(NULL);
	int size = RCVBUF;
	int r;

	if (bind(fd, (const struct sockaddr *)&me, sizeof(me)) < 0 &&
	    errno != EINVAL) /* bound already */
		return eg_err_sys(err, -errno, "bind of the NFLOG socket");
	/* Best effort: a smaller buffer means loss sooner, counted. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	r = config_bind(fd, group, seq);
	if (r == -EPERM)
		return eg_err_set(
			err, r,
			"NFLOG group %u is taken by another process, or CAP_NET_ADMIN is missing",
			group);
	if (!r)
		r = config_params(fd, group, snaplen, seq + 1);
	if (r)
		return eg_err_sys(err, r, "NFLOG group %u", group);
	return 0;
}

/* ---- read ---------------------------------------------------------------- */

static bool has_len(const struct nlattr *a, size_t len)
{
	return mnl_attr_get_payload_len(a) >= len;
}

/* Attributes are aligned to four octets, this structure wants eight. */
static int64_t wall_of(const void *payload)
{
	struct nfulnl_msg_packet_timestamp t;
	uint64_t sec, usec;

	memcpy(&t, payload, sizeof(t));
	sec = be64toh(t.sec);
	usec = be64toh(t.usec);
	if (sec > INT64_MAX / EG_NSEC_PER_SEC - 1 || usec >= 1000000)
		return 0;
	return (int64_t)sec * EG_NSEC_PER_SEC + (int64_t)usec * 1000;
}

static void take_prefix(const struct nlattr *a, char out[AU_NFLOG_PREFIX])
{
	size_t len = mnl_attr_get_payload_len(a);

	if (len >= AU_NFLOG_PREFIX)
		len = AU_NFLOG_PREFIX - 1;
	memcpy(out, mnl_attr_get_payload(a), len);
	out[len] = '\0';
}

static void take_u32(const struct nlattr *a, uint32_t *ret)
{
	if (has_len(a, sizeof(*ret)))
		*ret = ntohl(mnl_attr_get_u32(a));
}

static void take_attr(const struct nlattr *a, struct au_nflog_pkt *p)
{
	switch (mnl_attr_get_type(a)) {
	case NFULA_PACKET_HDR:
		if (has_len(a, sizeof(struct nfulnl_msg_packet_hdr))) {
			const struct nfulnl_msg_packet_hdr *h =
				mnl_attr_get_payload(a);

			p->protocol = ntohs(h->hw_protocol);
		}
		return;
	case NFULA_MARK:
		take_u32(a, &p->mark);
		return;
	case NFULA_IFINDEX_INDEV:
		take_u32(a, &p->indev);
		return;
	case NFULA_SEQ:
		take_u32(a, &p->seq);
		p->has_seq = has_len(a, sizeof(p->seq));
		return;
	case NFULA_TIMESTAMP:
		if (has_len(a, sizeof(struct nfulnl_msg_packet_timestamp)))
			p->time_ns = wall_of(mnl_attr_get_payload(a));
		return;
	case NFULA_PAYLOAD:
		p->payload = mnl_attr_get_payload(a);
		p->caplen = mnl_attr_get_payload_len(a);
		return;
	case NFULA_PREFIX:
		take_prefix(a, p->prefix);
		return;
	case NFULA_HWTYPE:
		if (has_len(a, sizeof(p->hwtype)))
			p->hwtype = ntohs(mnl_attr_get_u16(a));
		return;
	case NFULA_HWHEADER:
		p->hw = mnl_attr_get_payload(a);
		p->hwlen = mnl_attr_get_payload_len(a);
		return;
	default: /* attributes of a newer kernel mean nothing to us */
		return;
	}
}

/* Numbers missing in front of this one were logged and never came. */
static void follow(struct au_nflog *n, uint32_t seq)
{
	uint32_t missing = seq - n->next_seq;

	/* A step back is a group bound anew: numbering began again. */
	if (n->have_seq && missing < 1U << 31)
		n->gap += missing;
	n->have_seq = true;
	n->next_seq = seq + 1;
}

static void packet_msg(struct au_nflog *n, const struct nlmsghdr *h)
{
	struct au_nflog_pkt p = {0};
	/* not the aligned end, which may lie behind what was received */
	const char *end = (const char *)h + h->nlmsg_len;
	const struct nlattr *a;

	if (mnl_nlmsg_get_payload_len(h) < sizeof(struct nfgenmsg)) {
		n->malformed++;
		return;
	}
	for (a = mnl_nlmsg_get_payload_offset(h, sizeof(struct nfgenmsg));
	     mnl_attr_ok(a, (int)(end - (const char *)a)); a = mnl_attr_next(a))
		take_attr(a, &p);
	if (p.has_seq)
		follow(n, p.seq);
	if (!p.payload) {
		n->malformed++;
		return;
	}
	n->packets++;
	n->cb(n->arg, &p);
}

/* mnl_nlmsg_ok() takes a length of 2 GiB and more for a negative one. */
static bool msg_ok(const struct nlmsghdr *h, size_t left)
{
	return left >= sizeof(*h) && h->nlmsg_len >= sizeof(*h) &&
	       h->nlmsg_len <= left;
}

void au_nflog_parse(struct au_nflog *n, const void *buf, size_t len)
{
	const uint8_t *p = buf;

	while (len) {
		const struct nlmsghdr *h = (const void *)p;
		size_t step;

		if (!msg_ok(h, len)) {
			n->malformed++;
			return;
		}
		if (h->nlmsg_type == (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET))
			packet_msg(n, h);
		else if (h->nlmsg_type != NLMSG_DONE &&
			 h->nlmsg_type != NLMSG_ERROR)
			n->malformed++;
		step = ((size_t)h->nlmsg_len + 3) & ~(size_t)3;
		if (step > len)
			step = len; /* the last one's padding is optional */
		p += step;
		len -= step;
	}
}

void au_nflog_init(struct au_nflog *n, int fd, au_nflog_cb cb, void *arg)
{
	*n = (struct au_nflog){.fd = fd, .cb = cb, .arg = arg};
}

int au_nflog_read(struct au_nflog *n, int max)
{
	static char buf[READ_BUF] __attribute__((aligned(8)));
	int done = 0;

	while (done < max) {
		struct sockaddr_nl from = {0};
		struct iovec iov = {.iov_base = buf, .iov_len = sizeof(buf)};
		struct msghdr mh = {.msg_name = &from,
				    .msg_namelen = sizeof(from),
				    .msg_iov = &iov,
				    .msg_iovlen = 1};
		ssize_t len = recvmsg(n->fd, &mh, MSG_DONTWAIT);

		if (len < 0 && errno == EAGAIN)
			return done;
		if (len < 0 && errno != EINTR && errno != ENOBUFS)
			return -errno;
		done++;
		if (len < 0) {
			n->nobufs += errno == ENOBUFS;
			continue;
		}
		if (from.nl_pid || mh.msg_flags & MSG_TRUNC) {
			n->malformed++;
			continue;
		}
		au_nflog_parse(n, buf, (size_t)len);
	}
	return done;
}
