// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: what a sandbox sends that is not IPv4 (see packet.h)
 */
#include "audit/packet.h"
#include "netpool/base/plan.h"
#include "netpool/base/util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <string.h>
#include <sys/socket.h>

#define RCVBUF (1 << 20) /* one gateway's; only its own slots fill it */
#define VLAN_TAG 4
#define ADDRS 12 /* two Ethernet addresses in front of type or tag */

#define AD(x) ((uint32_t)(SKF_AD_OFF + (x)))

/*
 * Accept or drop; jumps count the instructions skipped. The first test of
 * the link keeps the gateway's own uplink and lo out.
 */
static const struct sock_filter filter[] = {
	/* 0 */ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AD(SKF_AD_IFINDEX)),
	/* 1 */ BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, EG_IFINDEX_SLOT, 0, 9),
	/* 2 */ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AD(SKF_AD_PKTTYPE)),
	/* 3 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 7, 0),
	/* 4 */ BPF_STMT(BPF_MISC | BPF_TAX, 0),
	/* 5 */ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AD(SKF_AD_VLAN_TAG_PRESENT)),
	/* 6 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 5),
	/* 7 */ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AD(SKF_AD_PROTOCOL)),
	/* 8 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 3),
	/* 9 */ BPF_STMT(BPF_MISC | BPF_TXA, 0),
	/* 10 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OTHERHOST, 1, 0),
	/* 11 */ BPF_STMT(BPF_RET | BPF_K, 0),
	/* 12 */ BPF_STMT(BPF_RET | BPF_K, AU_FRAME_MAX),
};

int au_packet_filter(int fd, struct eg_err *err)
{
	struct sock_fprog prog = {
		.len = EG_ARRAY_SIZE(filter),
		.filter = (struct sock_filter *)(uintptr_t)filter,
	};
	struct sockaddr_ll all = {.sll_family = AF_PACKET,
				  .sll_protocol = htons(ETH_P_ALL)};
	int one = 1, size = RCVBUF;

	/* Filter before bind: until then the socket receives nothing. */
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) < 0)
		return eg_err_sys(err, -errno, "packet filter");
	if (setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &one, sizeof(one)) < 0)
		return eg_err_sys(err, -errno, "PACKET_AUXDATA");
	/* Best effort: a smaller buffer means loss sooner, counted. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (bind(fd, (const struct sockaddr *)&all, sizeof(all)) < 0)
		return eg_err_sys(err, -errno, "bind of the packet socket");
	return 0;
}

int au_packet_open(struct eg_err *err)
{
	EG_CLEANUP_FD int fd =
		socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (fd < 0)
		return eg_err_sys(err, -errno, "packet socket");
	r = au_packet_filter(fd, err);
	return r ? r : eg_steal_fd(&fd);
}

void au_packet_init(struct au_packet *p, int fd, uint32_t snaplen,
		    au_packet_cb cb, void *arg)
{
	*p = (struct au_packet){
		.fd = fd, .snaplen = snaplen, .cb = cb, .arg = arg};
}

enum eg_reason au_packet_reason(uint16_t ethertype, int tagged)
{
	if (tagged)
		return EG_REASON_ETHERTYPE;
	switch (ethertype) {
	case ETH_P_IPV6:
		return EG_REASON_IPV6;
	case ETH_P_ARP:
	case ETH_P_RARP:
	case ETH_P_IP: /* to an Ethernet address that is not the gateway's */
		return EG_REASON_NEIGHBOUR;
	default:
		return EG_REASON_ETHERTYPE;
	}
}

static const struct tpacket_auxdata *auxdata(struct msghdr *mh)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c))
		if (c->cmsg_level == SOL_PACKET &&
		    c->cmsg_type == PACKET_AUXDATA &&
		    c->cmsg_len >= CMSG_LEN(sizeof(struct tpacket_auxdata)))
			return (const void *)CMSG_DATA(c);
	return NULL;
}

/* The kernel took the outer tag out of the frame; put it back. */
static size_t restore_tag(uint8_t *frame, size_t len,
			  const struct tpacket_auxdata *aux)
{
	uint16_t tpid = ETH_P_8021Q;

	if (len < ADDRS)
		return len;
	if (aux->tp_status & TP_STATUS_VLAN_TPID_VALID)
		tpid = aux->tp_vlan_tpid;
	memmove(frame + ADDRS + VLAN_TAG, frame + ADDRS, len - ADDRS);
	frame[ADDRS] = (uint8_t)(tpid >> 8);
	frame[ADDRS + 1] = (uint8_t)tpid;
	frame[ADDRS + 2] = (uint8_t)(aux->tp_vlan_tci >> 8);
	frame[ADDRS + 3] = (uint8_t)aux->tp_vlan_tci;
	return len + VLAN_TAG;
}

static void deliver(struct au_packet *p, uint8_t *frame, size_t n,
		    const struct sockaddr_ll *from, struct msghdr *mh)
{
	const struct tpacket_auxdata *aux = auxdata(mh);
	struct au_frame_in f = {.ifindex = (uint32_t)from->sll_ifindex,
				.data = frame,
				.caplen = n,
				.len = n};
	int tagged = aux && aux->tp_status & TP_STATUS_VLAN_VALID;

	if (aux && aux->tp_len > f.len)
		f.len = aux->tp_len;
	if (tagged) {
		f.caplen = restore_tag(frame, n, aux);
		f.len += f.caplen - n;
	}
	if (f.caplen > p->snaplen + ETH_HLEN)
		f.caplen = p->snaplen + ETH_HLEN;
	f.reason = au_packet_reason(ntohs(from->sll_protocol), tagged);
	p->frames++;
	p->cb(p->arg, &f);
}

int au_packet_read(struct au_packet *p, int max)
{
	static uint8_t frame[AU_FRAME_MAX + VLAN_TAG];
	int done = 0;

	while (done < max) {
		union {
			struct cmsghdr h;
			char b[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
		} ctl;
		struct sockaddr_ll from = {0};
		struct iovec iov = {.iov_base = frame, .iov_len = AU_FRAME_MAX};
		struct msghdr mh = {.msg_name = &from,
				    .msg_namelen = sizeof(from),
				    .msg_iov = &iov,
				    .msg_iovlen = 1,
				    .msg_control = ctl.b,
				    .msg_controllen = sizeof(ctl.b)};
		ssize_t n = recvmsg(p->fd, &mh, MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN)
			return done;
		/* A link went down; the socket goes on with the others. */
		if (n < 0 && errno != EINTR && errno != ENETDOWN)
			return -errno;
		done++;
		if (n >= 0)
			deliver(p, frame, (size_t)n, &from, &mh);
	}
	return done;
}

void au_packet_stats(struct au_packet *p)
{
	struct tpacket_stats st = {0};
	socklen_t len = sizeof(st);

	/* Reading resets the kernel's counters. */
	if (!getsockopt(p->fd, SOL_PACKET, PACKET_STATISTICS, &st, &len))
		p->dropped += st.tp_drops;
}
