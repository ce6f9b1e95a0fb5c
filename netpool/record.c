// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: lease records: what a new main must know of the leases.
 *
 * Files below the run directory, which is memory-backed (kernel objects do
 * not survive a reboot either), so that writing one waits for no disk:
 *
 *   leases/SLOT.GENERATION  one lease, replaced atomically
 *   leases/HEX.prog	     a policy program, by digest
 *   leases/NUMBER.tombs     released ids, until their time is over (tomb.h)
 *
 * A record in state RELEASED is of a slot whose lease is being made or has
 * failed: nobody has heard of it, and the slot is scrapped, not leased.
 *
 * Each begins with a head that names version, size and a checksum; a file
 * that does not fit is moved aside with the suffix .bad and said, never
 * guessed at; its slot, too, is scrapped. What a main left that died while it
 * wrote, and programs no lease has any more, are removed when all is read.
 */
#include "netpool/base/fault.h"
#include "netpool/base/log.h"
#include "netpool/base/plan.h"
#include "netpool/base/util.h"
#include "netpool/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD_MAGIC 0x65676c72U
#define RECORD_VERSION 2U
#define RECORD_MAX (EG_MSG_MAX * 2)
#define PROG_MAX (16U << 20) /* the largest program is a few MiB */

struct record_head {
	uint32_t magic, version;
	uint32_t size; /* of what follows */
	uint32_t sum;
	int64_t boot_ns_base; /* boot clock at writing, for a sanity check */
};

static uint32_t checksum(const void *data, size_t len)
{
	const uint8_t *p = data;
	uint32_t h = 2166136261U;

	while (len--)
		h = (h ^ *p++) * 16777619U;
	return h;
}

int np_record_dir(struct np_main *m)
{
	int fd = m->run_fd < 0 ? -1
			       : openat(m->run_fd, "leases",
					O_RDONLY | O_DIRECTORY | O_CLOEXEC |
						O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

static int file_put(struct np_main *m, const char *name, const void *body,
		    size_t len, struct eg_err *err)
{
	struct record_head h = {.magic = RECORD_MAGIC,
				.version = RECORD_VERSION,
				.size = (uint32_t)len,
				.sum = checksum(body, len),
				.boot_ns_base = eg_boot_ns()};
	EG_CLEANUP_FD int dir = np_record_dir(m), fd = -1;
	char tmp[128];

	if (dir < 0)
		return eg_err_sys(err, dir, "open the directory of leases");
	(void)snprintf(tmp, sizeof(tmp), ".%.100s.new", name);
	fd = EG_CALL("create a record",
		     openat(dir, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC |
					      O_NOFOLLOW, 0600));
	if (fd < 0)
		return eg_err_sys(err, -errno, "create record %s", tmp);
	if (write(fd, &h, sizeof(h)) != sizeof(h) ||
	    EG_CALL("write a record", write(fd, body, len)) != (ssize_t)len ||
	    EG_CALL("rename a record", renameat(dir, tmp, dir, name)) < 0) {
		int r = errno ? -errno : -ENOSPC;

		(void)unlinkat(dir, tmp, 0);
		return eg_err_sys(err, r, "write record %s", name);
	}
	return 0;
}

static void file_remove(struct np_main *m, const char *name)
{
	EG_CLEANUP_FD int dir = np_record_dir(m);

	if (dir >= 0)
		/* It may never have been written. */
		(void)EG_CALL("remove a record", unlinkat(dir, name, 0));
}

static const char *slot_name(char buf[64], uint32_t slot, uint64_t generation)
{
	(void)snprintf(buf, 64, "%u.%llu", slot, (unsigned long long)generation);
	return buf;
}

static const char *lease_name(char buf[64], const struct eg_lease *l)
{
	return slot_name(buf, l->slot, l->generation);
}

static void hex(char *buf, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)snprintf(buf + 2 * i, 3, "%02x", p[i]);
}

static const char *prog_name(char buf[80], const uint8_t digest[EG_DIGEST])
{
	hex(buf, digest, EG_DIGEST);
	memcpy(buf + 2 * (size_t)EG_DIGEST, ".prog", 6);
	return buf;
}

/* What is stored of a lease, labels last and only those there are. */
struct lease_body {
	uint8_t digest[EG_DIGEST];
	uint32_t phases;
	uint32_t cause;
	struct eg_lease l;
};

static size_t body_size(unsigned int nlabels)
{
	return offsetof(struct lease_body, l.req.label) +
	       nlabels * sizeof(struct eg_label);
}

static int lease_put(struct np_main *m, const struct np_lease *l,
		     enum eg_lease_state state, struct eg_err *err)
{
	static struct lease_body b;
	char name[64];

	memset(&b, 0, sizeof(b));
	memcpy(b.digest, l->prog->digest, EG_DIGEST);
	b.phases = l->phases;
	b.cause = l->cause;
	memcpy(&b.l, &l->l,
	       offsetof(struct eg_lease, req.label) +
		       l->l.req.nlabels * sizeof(struct eg_label));
	b.l.state = (uint8_t)state;
	return file_put(m, lease_name(name, &l->l), &b,
			body_size(l->l.req.nlabels), err);
}

void np_record_unprog(struct np_main *m, const struct np_prog *p)
{
	char name[80];

	if (p->refs == 1)
		file_remove(m, prog_name(name, p->digest));
}

int np_record_write(struct np_main *m, const struct np_lease *l,
		    struct eg_err *err)
{
	return lease_put(m, l, (enum eg_lease_state)l->l.state, err);
}

int np_record_making(struct np_main *m, const struct np_lease *l,
		     struct eg_err *err)
{
	return lease_put(m, l, EG_LEASE_RELEASED, err);
}

void np_record_drop(struct np_main *m, uint32_t slot, uint64_t generation)
{
	char name[64];

	file_remove(m, slot_name(name, slot, generation));
}

void np_record_remove(struct np_main *m, const struct np_lease *l)
{
	char name[80];

	file_remove(m, lease_name(name, &l->l));
	np_record_unprog(m, l->prog);
}

int np_record_prog(struct np_main *m, const struct np_prog *p, struct eg_err *err)
{
	EG_CLEANUP_FD int dir = np_record_dir(m);
	char name[80];
	struct stat st;
	void *map;
	int r;

	if (dir < 0)
		return eg_err_sys(err, dir, "open the directory of leases");
	if (!fstatat(dir, prog_name(name, p->digest), &st, AT_SYMLINK_NOFOLLOW))
		return 0;
	if (fstat(p->fd, &st) < 0)
		return eg_err_sys(err, -errno, "policy program");
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, p->fd, 0);
	if (map == MAP_FAILED)
		return eg_err_sys(err, -errno, "map policy program");
	r = file_put(m, name, map, (size_t)st.st_size, err);
	(void)munmap(map, (size_t)st.st_size);
	return r;
}

/* ---- reading ------------------------------------------------------------------ */

/* A whole checked file; malloc'ed body or NULL with the reason in *why. */
static void *file_get(int dir, const char *name, size_t max, size_t *ret_len,
		      const char **why)
{
	EG_CLEANUP_FD int fd =
		openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct record_head h;
	struct stat st;
	void *body;

	*why = "cannot be read";
	if (fd < 0 || fstat(fd, &st) < 0 || read(fd, &h, sizeof(h)) != sizeof(h))
		return NULL;
	*why = "is not a record of this version";
	if (h.magic != RECORD_MAGIC || h.version != RECORD_VERSION ||
	    h.size > max || (size_t)st.st_size != sizeof(h) + h.size || !h.size)
		return NULL;
	*why = "out of memory";
	body = malloc(h.size);
	if (!body)
		return NULL;
	*why = "does not have the checksum it says";
	if (read(fd, body, h.size) != (ssize_t)h.size ||
	    checksum(body, h.size) != h.sum) {
		free(body);
		return NULL;
	}
	*ret_len = h.size;
	return body;
}

static void file_aside(struct np_main *m, int dir, const char *name,
		       const char *why)
{
	unsigned long long generation;
	unsigned int slot;
	char bad[300];

	(void)snprintf(bad, sizeof(bad), "%.255s.bad", name);
	eg_error("lease record %s %s; kept as %s", name, why, bad);
	(void)renameat(dir, name, dir, bad);
	if (sscanf(name, "%u.%llu", &slot, &generation) == 2 &&
	    slot < m->conf->slots && m->slot[slot].generation == generation)
		m->slot[slot].doubt = true;
}

/* The program of a lease back into sealed memory. */
static int prog_load(struct np_main *m, int dir, const uint8_t digest[EG_DIGEST],
		     struct np_prog **ret, struct eg_err *err)
{
	EG_CLEANUP_FREE void *body = NULL;
	EG_CLEANUP_FD int fd = -1;
	const char *why;
	char name[80];
	size_t len;

	/* Most leases share a few policies. */
	for (struct np_prog *p = m->progs; p; p = p->next)
		if (!memcmp(p->digest, digest, EG_DIGEST)) {
			p->refs++;
			*ret = p;
			return 0;
		}
	body = file_get(dir, prog_name(name, digest), PROG_MAX, &len, &why);
	if (!body)
		return eg_err_set(err, -EBADMSG, "policy program %s %s", name,
				  why);
	fd = memfd_create("policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || write(fd, body, len) != (ssize_t)len ||
	    fcntl(fd, F_ADD_SEALS,
		  F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return eg_err_sys(err, -errno, "seal policy program");
	return np_prog_get(m, &fd, ret, err);
}

/* The scan has been made: what is found under this name is not to be leased. */
static void slot_doubt(struct np_main *m, uint32_t slot, uint64_t generation)
{
	struct np_slot *s = &m->slot[slot];

	if (s->scan == 1 + EG_SCAN_NAMED && s->generation == generation)
		s->doubt = true;
	else
		np_record_drop(m, slot, generation);
}

static const char *lease_restore(struct np_main *m, int dir,
				 const struct lease_body *b, size_t len)
{
	struct eg_err err = {0};
	struct np_prog *prog = NULL;
	struct np_lease *l;

	if (len < body_size(0) || b->l.req.nlabels > EG_LABELS ||
	    len != body_size(b->l.req.nlabels))
		return "has the wrong size";
	if (b->l.slot < m->conf->slots && b->l.state == EG_LEASE_RELEASED) {
		slot_doubt(m, b->l.slot, b->l.generation);
		return NULL;
	}
	if (b->l.slot >= m->conf->slots ||
	    b->l.gateway != eg_plan_gateway(m->conf, b->l.slot))
		return "names a slot this configuration does not have; start with the former [pool] settings, or purge";
	if (prog_load(m, dir, b->digest, &prog, &err)) {
		eg_error("%s", err.text);
		return "has lost its policy";
	}
	l = calloc(1, np_lease_size(b->l.req.nlabels));
	if (!l) {
		np_prog_put(m, prog);
		return "out of memory";
	}
	memcpy(&l->l, &b->l,
	       offsetof(struct eg_lease, req.label) +
		       b->l.req.nlabels * sizeof(struct eg_label));
	l->prog = prog;
	l->phases = b->phases;
	l->cause = (uint8_t)b->cause;
	if (np_lease_insert(m, l)) {
		np_prog_put(m, prog);
		np_lease_free(l);
		return "is of a slot or id that another lease has";
	}
	return NULL;
}

static bool has_suffix(const char *name, const char *suffix)
{
	size_t n = strlen(name), s = strlen(suffix);

	return n > s && !strcmp(name + n - s, suffix);
}

static void entry_load(struct np_main *m, int dir, const char *name)
{
	EG_CLEANUP_FREE void *body = NULL;
	const char *why;
	size_t len;

	if (has_suffix(name, ".new")) /* its writer died */
		(void)unlinkat(dir, name, 0);
	if (name[0] == '.' || has_suffix(name, ".prog") ||
	    has_suffix(name, ".bad") || has_suffix(name, ".tombs"))
		return;
	body = file_get(dir, name, RECORD_MAX, &len, &why);
	if (body)
		why = lease_restore(m, dir, body, len);
	if (why)
		file_aside(m, dir, name, why);
}

/* A program's file that no lease has: its writer or its lease's end died. */
static void prog_sweep(struct np_main *m, int dir, const char *name)
{
	char have[80];

	if (!has_suffix(name, ".prog"))
		return;
	for (const struct np_prog *p = m->progs; p; p = p->next)
		if (!strcmp(prog_name(have, p->digest), name))
			return;
	(void)unlinkat(dir, name, 0);
}

int np_record_load(struct np_main *m, struct eg_err *err)
{
	int fd = np_record_dir(m);
	struct dirent *e;
	DIR *d;

	if (fd < 0)
		return eg_err_sys(err, fd, "open the directory of leases");
	d = fdopendir(fd);
	if (!d) {
		eg_close_p(&fd);
		return eg_err_sys(err, -ENOMEM, "list the leases");
	}
	while ((e = readdir(d)))
		entry_load(m, dirfd(d), e->d_name);
	np_tombs_load(m->tombs, dirfd(d));
	rewinddir(d);
	while ((e = readdir(d)))
		prog_sweep(m, dirfd(d), e->d_name);
	(void)closedir(d);
	return 0;
}
