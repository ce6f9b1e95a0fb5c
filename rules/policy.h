/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: a policy as data.
 *
 * Policy text is parsed in the unprivileged api role (rules/parse.c) and
 * compiled into a program: one flat block without pointers, kept in sealed
 * memory, mapped read-only by main and dns. rl_prog_check() validates every
 * field of a program from a sibling before it is used; after it, indexes and
 * lengths can be trusted, and since the memory is sealed they stay so.
 *
 * Behind the entries lies the policy's canonical text, so that whatever is
 * enforced can be handed to evidence with its text. Nobody who holds a
 * capability reads it: for main and dns it is octets of a stated number, and
 * who keeps it (audit) compares its SHA-256 with the digest.
 *
 * Matching is by rl_prog_lookup(): union of all matching allow entries of the
 * wanted phases, deny entries win over every allow (design: api.md sec. 4).
 */
#ifndef RL_POLICY_H
#define RL_POLICY_H

#include "netpool/base/addr.h"
#include "netpool/base/err.h"
#include "netpool/base/name.h"
#include "netpool/base/proto.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RL_PROG_MAGIC 0x6567706cU
#define RL_PROG_VERSION 1
#define RL_POLICY_TEXT (256 * 1024) /* a policy file; larger is a mistake */
#define RL_CANON_TEXT (4 << 20) /* RL_ENTRIES lines in all 16 phases */
#define RL_ENTRIES 8192		    /* at 32 octets a line, 256 KiB hold no more */
#define RL_PORTS EG_PIN_PORTS
#define RL_PRIVATE 4		    /* prefixes of one private= option */
#define RL_WHY 120
#define RL_PHASES_ALL 0xffffU

enum rl_kind {
	RL_EXACT,    /* a name, itself only */
	RL_ONE,	     /* *.suffix: exactly one label more */
	RL_MANY,     /* **.suffix: one label more or several */
	RL_PREFIX,   /* address or prefix */
	RL_HOST,     /* [host] name address: answered without asking */
	RL_KIND_COUNT,
};

enum rl_tls { RL_TLS_DEFAULT, RL_TLS_ANY, RL_TLS_SNI };

#define RL_F_DENY 0x1U	     /* entry of [deny] */
#define RL_F_HOLD_RUN 0x2U   /* hold=run */
#define RL_F_CHAIN_LISTED 0x4U
#define RL_F_UNDERSCORE 0x8U
#define RL_F_BROAD 0x10U     /* warned about */

struct rl_entry {
	uint8_t kind, nports, nprivate, tls;
	uint32_t flags;
	uint32_t phases; /* RL_PHASES_ALL for [allow] and [deny] */
	uint32_t line;
	struct eg_prefix dst; /* RL_PREFIX; RL_HOST: its address */
	struct eg_port port[RL_PORTS];
	struct eg_prefix private[RL_PRIVATE];
	uint32_t max_names; /* 0: default of the wildcard budget */
	uint32_t types;	    /* bit set: 1 A, 2 AAAA, 4 SRV, 8 CAA, 16 MX, 32 TXT */
	int64_t until;	    /* wall seconds the entry ends, 0: never */
	struct eg_name name; /* lower case; the suffix of a wildcard */
	char why[RL_WHY];
};

struct rl_prog {
	uint32_t magic, version;
	uint64_t size; /* of the whole block */
	uint32_t nentries, nphases;
	char name[EG_POLICY_NAME];
	char description[256];
	uint8_t digest[EG_DIGEST]; /* SHA-256 of the canonical text */
	char phase[EG_PHASES][EG_PHASE]; /* in the order of their names */
	uint64_t text_len; /* of the canonical text behind the entries */
	struct rl_entry entry[];
};

/* What a program says of one name in some phases. */
struct rl_verdict {
	bool allowed;	/* and not denied */
	bool ancestor;	/* not allowed, but above an allowed exact name */
	bool denied;	/* a deny entry matched */
	bool wildcard;	/* only a wildcard matched */
	bool has_host;
	uint32_t host_addr;
	uint32_t entry; /* first entry that matched */
	uint32_t flags, types, max_names;
	uint32_t nports, nprivate;
	struct eg_port port[4 * RL_PORTS]; /* union, sorted, merged */
	struct eg_prefix private[4 * RL_PRIVATE];
};

/**
 * rl_prog_check() - is this block a program every field of which is in range?
 * @p:		mapped block of @size octets
 *
 * Return: 0, or -EBADMSG with the first field that is not.
 */
int rl_prog_check(const struct rl_prog *p, size_t size, struct eg_err *err);

/**
 * rl_prog_text() - the canonical text a program carries
 * @ret_len:	0: it carries none (the built-in policy)
 *
 * Return: where it begins in the block; it is not terminated.
 */
const char *rl_prog_text(const struct rl_prog *p, size_t *ret_len);

/**
 * rl_prog_lookup() - what does the policy say of a name?
 * @phases:	phase bits of the lease; entries of no phase always count
 * @now:	wall seconds, for until=
 *
 * The name may be in any case. Cost does not grow with the square of the
 * program: a linear pass of fixed-size compares today; dnsguard indexes.
 */
void rl_prog_lookup(const struct rl_prog *p, uint32_t phases, int64_t now,
		    const struct eg_name *name, struct rl_verdict *ret);

/**
 * rl_prog_denies() - does a [deny] address or prefix hold @addr?
 *
 * Such an address is neither answered nor pinned nor allowed by address, in
 * no phase, whatever name led to it.
 */
bool rl_prog_denies(const struct rl_prog *p, int64_t now, uint32_t addr);

/**
 * rl_prog_name_phases() - phases in which a name is allowed on one port
 *
 * Return: bits; RL_PHASES_ALL for an entry common to all; 0 when it is denied
 * or in no entry.
 */
uint32_t rl_prog_name_phases(const struct rl_prog *p, int64_t now,
			     const struct eg_name *name, uint8_t proto,
			     uint16_t port);

/**
 * rl_prog_phases() - "init,plan" to phase bits
 *
 * Return: 0; -EINVAL naming the phase the policy lacks and those it has.
 * The empty text is no phase: only entries common to all count.
 */
int rl_prog_phases(const struct rl_prog *p, const char *text, uint32_t *ret,
		   struct eg_err *err);

/**
 * rl_prog_none() - the built-in policy `none`: denies everything
 *
 * Return: size of the static program, which is stored in *ret.
 */
size_t rl_prog_none(const struct rl_prog **ret);

/**
 * rl_prog_seal() - put a program into sealed anonymous memory
 *
 * Return: a descriptor (F_SEAL_SEAL|SHRINK|GROW|WRITE) or negative errno.
 */
int rl_prog_seal(const struct rl_prog *p);

/**
 * rl_prog_map() - check the seals of @fd, map it, validate the program
 * @ret:	mapped read-only; rl_prog_unmap() lets go of it
 */
int rl_prog_map(int fd, const struct rl_prog **ret, struct eg_err *err);
void rl_prog_unmap(const struct rl_prog *p);

#endif
