/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: what batch.c, answer.c and query.c share: the state of a socket
 * with the transaction under construction, and the way out and back.
 */
#ifndef RL_NL_H
#define RL_NL_H

#include "rules/batch.h"

#include <sys/types.h>

#define RL_RBUF 65536 /* one datagram of answers; a dump's is 32 KiB at most */
#define RL_KEEP 32768 /* octets of a batch kept for the next one */
#define RL_NAME 256   /* NFT_NAME_MAXLEN */

struct rl_nl {
	int fd;
	bool own;
	uint8_t family;
	const char *table;
	uint8_t *buf;
	size_t len, cap;
	uint32_t seq, first;
	int error;	 /* sticky while a batch is put together */
	size_t sndbuf;	 /* largest datagram the socket takes */
	size_t last_msg; /* offset of the last message */
	/* element list under construction: offsets, 0 when there is none */
	size_t list, nest;
	uint16_t list_type;
	char list_set[RL_NAME];
	uint8_t *rbuf;
};

struct nlattr;

/* libmnl's iterators mix signs; the same walk, clean under -Wconversion. */
#define each_attr(a, nlh, off)                                                 \
	for ((a) = mnl_nlmsg_get_payload_offset(nlh, off);                     \
	     rl_attr_fits(a, mnl_nlmsg_get_payload_tail(nlh));                 \
	     (a) = mnl_attr_next(a))
#define each_nested(a, nest)                                                   \
	for ((a) = mnl_attr_get_payload(nest);                                 \
	     rl_attr_fits(a, (const char *)mnl_attr_get_payload(nest) +        \
				     mnl_attr_get_payload_len(nest));          \
	     (a) = mnl_attr_next(a))

bool rl_attr_fits(const struct nlattr *a, const void *tail);

/* rl_put_key() - one key attribute of an element. */
void rl_put_key(struct nlmsghdr *nlh, uint16_t type, const struct rl_key *k);

/* rl_close_list() - finish an element list that is still open. */
void rl_close_list(struct rl_nl *nl);

/* rl_room() - at least @need octets behind the batch; sticks when not. */
bool rl_room(struct rl_nl *nl, size_t need);

/*
 * rl_batch_shrink() - let a large batch's memory go. There are as many of
 * these as gateways, and each begins with a batch of half a MiB.
 */
void rl_batch_shrink(struct rl_nl *nl);

/* rl_buffer() - set a socket buffer, over the sysctl's limit if allowed. */
int rl_buffer(int fd, int force, int plain, int size);
size_t rl_send_room(int fd);

/* rl_send() - nl->buf as one datagram; @what is for the sentence. */
int rl_send(struct rl_nl *nl, const char *what, struct eg_err *err);

/* rl_receive() - one datagram into nl->rbuf; 0: none left, or -errno. */
ssize_t rl_receive(struct rl_nl *nl);

#endif
