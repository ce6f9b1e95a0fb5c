// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the launcher.
 *
 * The first process. It reads the operator's configuration, takes the lock,
 * makes what only full privilege can make (directories, listening sockets),
 * then starts the roles and keeps three capabilities: to give a child its
 * uid and gids, and to signal it. It never reads a byte a sandbox, a client
 * or an upstream wrote.
 *
 * It holds duplicates of descriptors that must outlive a role (struct held):
 * the lock, gateways, idle slots, NFLOG and DNS sockets. A role that starts
 * again is given those of its kinds before it is told to go, so packets and
 * queries queue in the sockets meanwhile.
 *
 * Children are executed anew from our own binary as root inside the
 * launcher's bounding set and drop privilege themselves (role.h); therefore
 * no_new_privs is not set here and the bounding set is not empty, only cut
 * down to what the roles need.
 *
 * A role that dies is started again, after a back-off that doubles from
 * BACKOFF_MIN to BACKOFF_MAX; a role that reports that it cannot start ends
 * the daemon at start-up, with its sentence. Leases stay as they are in all
 * cases.
 */
#include "netpool/launcher.h"
#include "netpool/base/fault.h"
#include "netpool/base/log.h"
#include "netpool/base/role.h"
#include "netpool/base/util.h"
#include "netpool/conf.h"
#include "netpool/host.h"
#include "netpool/identity.h"

#include <cap-ng.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define BACKOFF_MIN_US 100000
#define BACKOFF_MAX_US 5000000
#define HEALTHY_NS (60 * EG_NSEC_PER_SEC) /* forget earlier deaths after */
#define STOP_US 8000000			  /* then SIGKILL */
#define FEED_QUEUE 256 /* descriptors waiting for a role at a time */
#define FEED_US 2000
#define API_BACKLOG 512

struct child {
	enum eg_role role;
	pid_t pid;
	struct eg_chan *ctl;
	struct eg_timer *again;
	int64_t started;
	int64_t backoff;
	uint32_t deaths;
	bool hello, ready, stopping;
	bool fed; /* has been given all that is held for it */
	struct eg_timer *feed;
	uint32_t feed_kind, feed_at;
};

/* One held descriptor; the key is (kind, index). */
struct held {
	uint32_t kind, index;
	int fd;
};

struct launcher {
	struct eg_conf *conf;
	struct eg_loop *loop;
	struct child child[EG_ROLE_COUNT];
	int *held[EG_FD_KIND_COUNT]; /* by index, -1: none */
	uint32_t nheld[EG_FD_KIND_COUNT];
	int conf_fd, lock_fd, state_fd;
	struct eg_io *sig;
	struct eg_timer *kill;
	bool stopping, ready, announced;
	int status;
};

/* Who is given a kind of held descriptor; LAUNCHER: nobody. */
static const enum eg_role fd_owner[] = {
	[EG_FD_LOCK] = EG_ROLE_LAUNCHER, [EG_FD_RUN] = EG_ROLE_MAIN,
	[EG_FD_API] = EG_ROLE_API,	 [EG_FD_API_READ] = EG_ROLE_API,
	[EG_FD_METRICS] = EG_ROLE_API,	 [EG_FD_GATEWAY] = EG_ROLE_BUILD,
	[EG_FD_NFT] = EG_ROLE_LAUNCHER,	 [EG_FD_NFLOG] = EG_ROLE_AUDIT,
	[EG_FD_PACKET] = EG_ROLE_AUDIT,	 [EG_FD_DNS_UDP] = EG_ROLE_DNS,
	[EG_FD_DNS_TCP] = EG_ROLE_DNS,	 [EG_FD_SLOT] = EG_ROLE_BUILD,
	[EG_FD_HOST_NFT] = EG_ROLE_MAIN, [EG_FD_HOST_LOG] = EG_ROLE_AUDIT,
	[EG_FD_INIT_NET] = EG_ROLE_BUILD,
};
_Static_assert(EG_ARRAY_SIZE(fd_owner) == EG_FD_KIND_COUNT, "owner of kinds");

/* What build makes and others use: it is told what there is already. */
static const bool fd_told[EG_FD_KIND_COUNT] = {
	[EG_FD_NFLOG] = true,	[EG_FD_PACKET] = true,
	[EG_FD_DNS_UDP] = true, [EG_FD_DNS_TCP] = true,
	[EG_FD_HOST_NFT] = true, [EG_FD_HOST_LOG] = true,
};

/* Who talks to whom. */
static const enum eg_role pairs[][2] = {
	{EG_ROLE_MAIN, EG_ROLE_BUILD}, {EG_ROLE_MAIN, EG_ROLE_API},
	{EG_ROLE_MAIN, EG_ROLE_DNS},   {EG_ROLE_MAIN, EG_ROLE_AUDIT},
	{EG_ROLE_DNS, EG_ROLE_AUDIT},  {EG_ROLE_API, EG_ROLE_AUDIT},
};

/* Audit is first so that it reads when the others begin, and ends last. */
static const enum eg_role start_order[] = {
	EG_ROLE_AUDIT, EG_ROLE_BUILD, EG_ROLE_DNS, EG_ROLE_MAIN, EG_ROLE_API};

static void child_start(struct launcher *l, struct child *c);

/* ---- held descriptors ---------------------------------------------------- */

static uint32_t kind_capacity(const struct eg_conf *c, enum eg_fd_kind kind)
{
	if (kind == EG_FD_SLOT)
		return c->slots;
	return kind == EG_FD_GATEWAY || kind == EG_FD_NFT ||
			       kind == EG_FD_NFLOG || kind == EG_FD_PACKET ||
			       kind == EG_FD_DNS_UDP || kind == EG_FD_DNS_TCP
		       ? c->gateways
		       : 1;
}

static int held_init(struct launcher *l)
{
	for (unsigned int k = 0; k < EG_FD_KIND_COUNT; k++) {
		l->nheld[k] = kind_capacity(l->conf, (enum eg_fd_kind)k);
		l->held[k] = malloc(l->nheld[k] * sizeof(int));
		if (!l->held[k])
			return -ENOMEM;
		for (uint32_t i = 0; i < l->nheld[k]; i++)
			l->held[k][i] = -1;
	}
	return 0;
}

static void held_send(struct launcher *l, struct child *c, enum eg_fd_kind kind,
		      uint32_t index)
{
	struct eg_ctl_key key = {.kind = kind, .index = index};

	if (c->role == EG_ROLE_LAUNCHER || !c->ctl || !c->hello)
		return;
	if (eg_chan_send(c->ctl, EG_CTL_FD, 0, &key, sizeof(key),
			 l->held[kind][index]))
		eg_error("cannot pass a descriptor to %s", eg_role_name(c->role));
}

/* Takes *fd on success. */
static void held_put(struct launcher *l, enum eg_role from,
		     const struct eg_ctl_key *key, int *fd)
{
	struct child *c;

	if (*fd < 0 || key->kind >= EG_FD_KIND_COUNT ||
	    key->index >= l->nheld[key->kind])
		return;
	eg_close_p(&l->held[key->kind][key->index]);
	l->held[key->kind][key->index] = eg_steal_fd(fd);
	/* One that is still being fed comes to it by itself. */
	c = &l->child[fd_owner[key->kind]];
	if (fd_owner[key->kind] != from &&
	    (c->fed || key->kind < c->feed_kind ||
	     (key->kind == c->feed_kind && key->index < c->feed_at)))
		held_send(l, c, (enum eg_fd_kind)key->kind, key->index);
}

static void held_drop(struct launcher *l, const struct eg_ctl_key *key)
{
	if (key->kind < EG_FD_KIND_COUNT && key->index < l->nheld[key->kind])
		eg_close_p(&l->held[key->kind][key->index]);
}

/* ---- talking to a role ---------------------------------------------------- */

static void peer_connect(struct launcher *l, enum eg_role a, enum eg_role b)
{
	struct child *ca = &l->child[a], *cb = &l->child[b];
	struct eg_ctl_peer pa = {.role = b}, pb = {.role = a};
	int sv[2];

	if (!ca->fed || !cb->fed || !ca->ctl || !cb->ctl)
		return;
	if (eg_chan_pair(sv)) {
		eg_error("cannot connect %s and %s", eg_role_name(a),
			 eg_role_name(b));
		return;
	}
	(void)eg_chan_send(ca->ctl, EG_CTL_PEER, 0, &pa, sizeof(pa), sv[0]);
	(void)eg_chan_send(cb->ctl, EG_CTL_PEER, 0, &pb, sizeof(pb), sv[1]);
	eg_close_p(&sv[0]);
	eg_close_p(&sv[1]);
}

static void policies_send(struct launcher *l, struct child *api)
{
	DIR *d = opendir(l->conf->policies);
	struct eg_ctl_policy msg;
	struct dirent *e;

	if (!d)
		eg_warning("no policies: %s: %s", l->conf->policies,
			   strerror(errno));
	while (d && (e = readdir(d))) {
		size_t n = strlen(e->d_name);
		int fd;

		if (n <= 7 || strcmp(e->d_name + n - 7, ".policy") ||
		    e->d_name[0] == '.')
			continue;
		if (n - 7 >= sizeof(msg.name)) {
			eg_warning("policy file name longer than %zu: %s",
				   sizeof(msg.name) - 1, e->d_name);
			continue;
		}
		memset(&msg, 0, sizeof(msg));
		memcpy(msg.name, e->d_name, n - 7);
		/* Opened, not read: the text is parsed without privilege. */
		fd = openat(dirfd(d), e->d_name,
			    O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0) {
			eg_warning("policy file %s: %s", e->d_name,
				   strerror(errno));
			continue;
		}
		(void)eg_chan_send(api->ctl, EG_CTL_POLICY, 0, &msg,
				   sizeof(msg), fd);
		eg_close_p(&fd);
	}
	if (d)
		(void)closedir(d);
	(void)eg_chan_send(api->ctl, EG_CTL_POLICIES, 0, NULL, 0, -1);
}

/*
 * Give a role what is held for it, a little at a time: a full pool is 16,384
 * descriptors, and each one that has to queue is a duplicate in our table.
 * When all has been said: peers, policies, GO.
 */
static void feed(struct launcher *l, struct child *c)
{
	for (; c->feed_kind < EG_FD_KIND_COUNT; c->feed_kind++, c->feed_at = 0) {
		if (fd_owner[c->feed_kind] != c->role &&
		    !(c->role == EG_ROLE_BUILD && fd_told[c->feed_kind]))
			continue;
		for (; c->feed_at < l->nheld[c->feed_kind]; c->feed_at++) {
			if (eg_chan_queued(c->ctl) > FEED_QUEUE) {
				eg_timer_set(c->feed, FEED_US);
				return;
			}
			if (l->held[c->feed_kind][c->feed_at] >= 0)
				held_send(l, c, (enum eg_fd_kind)c->feed_kind,
					  c->feed_at);
		}
	}
	c->fed = true;
	for (size_t i = 0; i < EG_ARRAY_SIZE(pairs); i++)
		if (pairs[i][0] == c->role || pairs[i][1] == c->role)
			peer_connect(l, pairs[i][0], pairs[i][1]);
	if (c->role == EG_ROLE_API)
		policies_send(l, c);
	(void)eg_chan_send(c->ctl, EG_CTL_GO, 0, NULL, 0, -1);
}

static void on_hello(struct launcher *l, struct child *c)
{
	c->hello = true;
	c->fed = false;
	c->feed_kind = c->feed_at = 0;
	(void)eg_chan_send(c->ctl, EG_CTL_CONF, 0, NULL, 0, l->conf_fd);
	feed(l, c);
}

static void stop_all(struct launcher *l, int status);

static void on_ready(struct launcher *l, struct child *c,
		     const struct eg_ctl_ready *r)
{
	char caps[256];

	if (!r->ok) {
		eg_error("role %s cannot start: %.250s", eg_role_name(c->role),
			 r->text);
		if (!l->announced)
			stop_all(l, 1);
		return;
	}
	c->ready = true;
	eg_info("role %s: pid %d uid %u gid %u caps %s no_new_privs %u",
		eg_role_name(c->role), (int)c->pid, r->uid, r->gid,
		eg_caps_format(r->caps, caps, sizeof(caps)), r->no_new_privs);
}

static void on_reserve(struct launcher *l, struct child *c, uint64_t cookie,
		       const struct eg_ctl_reserve *q)
{
	struct eg_ctl_reserved a = {.counter = q->counter};
	struct eg_err err = {0};

	if (q->counter != EG_COUNTER_GENERATION || q->want > 1U << 24)
		return;
	if (np_generation_reserve(l->conf->state, q->want, &a.first, &a.end,
				  &err)) {
		/* No generation, no lease: main goes on with what it has. */
		eg_error("%s", err.text);
		a.first = a.end = 0;
	}
	(void)eg_chan_send(c->ctl, EG_CTL_RESERVED, cookie, &a, sizeof(a), -1);
}

/* systemd's notification: one datagram; see sd_notify(3). */
static void notify(const char *state)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	const char *path = getenv("NOTIFY_SOCKET");
	EG_CLEANUP_FD int fd = -1;
	size_t n = path ? strlen(path) : 0;

	if (!n || n >= sizeof(sa.sun_path))
		return;
	memcpy(sa.sun_path, path, n);
	if (path[0] == '@')
		sa.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 ||
	    sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&sa,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) < 0)
		eg_warning("notify: %s", strerror(errno));
}

static void on_state(struct launcher *l, const struct eg_ctl_state *s)
{
	if (s->ready && !l->announced) {
		l->announced = true;
		eg_notice("ready: %.250s", s->text);
		notify("READY=1");
	} else {
		eg_info("%.250s", s->text);
	}
}

static void ctl_on_msg(void *arg, struct eg_chan *chan, struct eg_msg *m)
{
	struct launcher *l = arg;
	struct child *c = NULL;

	for (unsigned int i = 0; i < EG_ROLE_COUNT; i++)
		if (l->child[i].ctl == chan)
			c = &l->child[i];
	if (!c)
		return;
	if (m->type == EG_CTL_HELLO && !c->hello)
		on_hello(l, c);
	else if (m->type == EG_CTL_READY)
		on_ready(l, c, m->body);
	else if (m->type == EG_CTL_HOLD)
		held_put(l, c->role, m->body, &m->fd);
	else if (m->type == EG_CTL_DROP)
		held_drop(l, m->body);
	else if (m->type == EG_CTL_RESERVE)
		on_reserve(l, c, m->cookie, m->body);
	else if (m->type == EG_CTL_STATE)
		on_state(l, m->body);
	else
		eg_warning("%s from %s ignored", eg_msg_spec[m->type].name,
			   eg_role_name(c->role));
}

static void ctl_on_close(void *arg, struct eg_chan *chan, const char *why)
{
	struct launcher *l = arg;

	(void)why; /* SIGCHLD says how it ended */
	for (unsigned int i = 0; i < EG_ROLE_COUNT; i++)
		if (l->child[i].ctl == chan) {
			l->child[i].ctl = NULL;
			/* A child that broke its channel has to go. */
			if (l->child[i].pid > 0 && !l->child[i].stopping)
				(void)kill(l->child[i].pid, SIGKILL);
		}
	eg_chan_free(chan);
}

static const struct eg_chan_ops ctl_ops = {.on_msg = ctl_on_msg,
					   .on_close = ctl_on_close};

/* ---- children -------------------------------------------------------------- */

static void child_exec(enum eg_role role, int fd) __attribute__((noreturn));

static void child_exec(enum eg_role role, int fd)
{
	char name[16];
	char *argv[] = {"egressd", "--role", name, NULL};
	sigset_t none;

	(void)snprintf(name, sizeof(name), "%s", eg_role_name(role));
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	/* Also clears close-on-exec, unless the number is right already. */
	if (fd == EG_ROLE_FD)
		(void)fcntl(fd, F_SETFD, 0);
	else if (dup2(fd, EG_ROLE_FD) < 0)
		_exit(127);
	(void)execv("/proc/self/exe", argv);
	_exit(127);
}

static void child_retry(void *arg);
static void child_feed(void *arg);

struct retry {
	struct launcher *l;
	struct child *c;
};
static struct retry retries[EG_ROLE_COUNT]; /* arguments of the timers */

static void child_start(struct launcher *l, struct child *c)
{
	int sv[2];
	pid_t pid;

	if (eg_chan_pair(sv)) {
		eg_error("cannot start %s: %s", eg_role_name(c->role),
			 strerror(errno));
		eg_timer_set(c->again, BACKOFF_MAX_US);
		return;
	}
	pid = fork();
	if (!pid)
		child_exec(c->role, sv[1]);
	eg_close_p(&sv[1]);
	if (pid < 0 || eg_chan_new(&c->ctl, l->loop, sv[0], &ctl_ops, l)) {
		eg_error("cannot start %s: %s", eg_role_name(c->role),
			 strerror(errno));
		eg_close_p(&sv[0]);
		eg_timer_set(c->again, BACKOFF_MAX_US);
		return;
	}
	c->pid = pid;
	c->started = eg_boot_ns();
	c->hello = c->ready = false;
}

static void child_retry(void *arg)
{
	struct retry *r = arg;

	if (!r->l->stopping && r->c->pid <= 0)
		child_start(r->l, r->c);
}

static void child_feed(void *arg)
{
	struct retry *r = arg;

	if (r->c->ctl && r->c->hello && !r->c->fed)
		feed(r->l, r->c);
}

static void stop_next(struct launcher *l);

static void child_ended(struct launcher *l, struct child *c, int status)
{
	bool young = eg_boot_ns() - c->started < HEALTHY_NS;

	eg_chan_free(c->ctl);
	c->ctl = NULL;
	c->pid = 0;
	c->hello = c->ready = c->fed = false;
	eg_timer_cancel(c->feed);
	if (l->stopping) {
		stop_next(l);
		return;
	}
	c->deaths++;
	if (WIFSIGNALED(status))
		eg_error("role %s was killed by signal %d",
			 eg_role_name(c->role), WTERMSIG(status));
	else
		eg_error("role %s ended with status %d", eg_role_name(c->role),
			 WEXITSTATUS(status));
	c->backoff = young && c->backoff ? 2 * c->backoff : BACKOFF_MIN_US;
	if (c->backoff > BACKOFF_MAX_US)
		c->backoff = BACKOFF_MAX_US;
	eg_timer_set(c->again, c->backoff);
}

static void reap(struct launcher *l)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (unsigned int i = 0; i < EG_ROLE_COUNT; i++)
			if (l->child[i].pid == pid)
				child_ended(l, &l->child[i], status);
}

/* ---- the end ---------------------------------------------------------------- */

/* Everyone but audit ends first: what they still say is evidence. */
static void stop_next(struct launcher *l)
{
	bool others = false;

	for (unsigned int i = 0; i < EG_ROLE_COUNT; i++)
		if (i != EG_ROLE_AUDIT && l->child[i].pid > 0)
			others = true;
	for (unsigned int i = 0; i < EG_ROLE_COUNT; i++) {
		struct child *c = &l->child[i];

		if (c->pid <= 0 || c->stopping || (i == EG_ROLE_AUDIT && others))
			continue;
		c->stopping = true;
		if (!c->ctl || eg_chan_send(c->ctl, EG_CTL_STOP, 0, NULL, 0, -1))
			(void)kill(c->pid, SIGKILL);
	}
	if (!others && l->child[EG_ROLE_AUDIT].pid <= 0)
		eg_loop_stop(l->loop);
}

static void stop_all(struct launcher *l, int status)
{
	if (l->stopping)
		return;
	l->stopping = true;
	l->status = status;
	notify("STOPPING=1");
	eg_timer_set(l->kill, STOP_US);
	stop_next(l);
}

static void on_kill(void *arg)
{
	struct launcher *l = arg;

	for (unsigned int i = 0; i < EG_ROLE_COUNT; i++)
		if (l->child[i].pid > 0) {
			eg_warning("role %s does not end; killed",
				   eg_role_name(l->child[i].role));
			(void)kill(l->child[i].pid, SIGKILL);
		}
}

static void on_hangup(struct launcher *l)
{
	struct eg_err err = {0};
	struct eg_conf *fresh = calloc(1, sizeof(*fresh));

	if (fresh && np_conf_load(l->conf->file, fresh, &err))
		eg_error("reload: %s; the former configuration stays in force",
			 err.text);
	else if (l->child[EG_ROLE_API].ctl) {
		policies_send(l, &l->child[EG_ROLE_API]);
		eg_notice("policies read again; changed keys of %s take effect when egressd starts again, which touches no lease",
			  l->conf->file);
	}
	free(fresh);
}

static void on_signal(void *arg, int fd, int what)
{
	struct launcher *l = arg;
	struct signalfd_siginfo si;

	(void)what;
	while (read(fd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGCHLD)
			reap(l);
		else if (si.ssi_signo == SIGHUP)
			on_hangup(l);
		else
			stop_all(l, 0);
	}
}

/* ---- start-up ---------------------------------------------------------------- */

static int dir_make(const char *path, mode_t mode, uint32_t uid, uint32_t gid,
		    struct eg_err *err)
{
	char part[EG_PATH + 16];
	struct stat st;

	for (const char *p = path + 1;; p++) {
		if (*p && *p != '/')
			continue;
		(void)snprintf(part, sizeof(part), "%.*s", (int)(p - path), path);
		if (EG_CALL("make a directory",
			    mkdir(part, *p ? 0755 : mode)) < 0 && errno != EEXIST)
			return eg_err_sys(err, -errno, "make directory %s", part);
		if (!*p)
			break;
	}
	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return eg_err_set(err, -ENOTDIR, "%s is not a directory", path);
	if (chmod(path, mode) < 0 || chown(path, uid, gid) < 0)
		return eg_err_sys(err, -errno, "give %s its owner", path);
	return 0;
}

/* A counter that two count up would give a generation twice. */
static int state_lock(const struct eg_conf *c, int *ret_fd, struct eg_err *err)
{
	*ret_fd = open(c->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*ret_fd < 0)
		return eg_err_sys(err, -errno, "open %s", c->state);
	if (flock(*ret_fd, LOCK_EX | LOCK_NB) < 0)
		return eg_err_set(
			err, -EBUSY,
			"another egressd keeps its state in %s; stop it, or give this one a state directory of its own ([paths] state)",
			c->state);
	return 0;
}

static int dirs_make(const struct eg_conf *c, struct eg_err *err)
{
	char path[EG_PATH + 16];
	uint32_t rgid = c->read_gid == UINT32_MAX ? 0 : c->read_gid;
	int r = dir_make(c->run, 0755, 0, 0, err);

	(void)snprintf(path, sizeof(path), "%s/empty", c->run);
	if (!r)
		r = dir_make(path, 0555, 0, 0, err);
	(void)snprintf(path, sizeof(path), "%s/leases", c->run);
	if (!r)
		r = dir_make(path, 0700, 0, 0, err);
	if (!r)
		r = dir_make(c->state, 0755, 0, 0, err);
	if (!r)
		r = dir_make(c->audit_dir, 0750, c->role_uid[EG_ROLE_AUDIT],
			     rgid, err);
	return r;
}

static int lock_take(const struct eg_conf *c, int *ret_fd, struct eg_err *err)
{
	struct stat held, named;
	char path[EG_PATH + 16], pid[32];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/lock", c->run);
	*ret_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (*ret_fd < 0)
		return eg_err_sys(err, -errno, "open %s", path);
	if (flock(*ret_fd, LOCK_EX | LOCK_NB) < 0) {
		n = pread(*ret_fd, pid, sizeof(pid) - 1, 0);
		pid[n > 0 ? n : 0] = '\0';
		pid[strcspn(pid, "\n")] = '\0';
		return eg_err_set(
			err, -EBUSY,
			"another egressd (pid %s) runs on %s; stop it, or give this one a run directory of its own ([paths] run)",
			pid[0] ? pid : "unknown", c->run);
	}
	/* A purge may have removed the file between open and flock. */
	if (fstat(*ret_fd, &held) < 0 || stat(path, &named) < 0 ||
	    held.st_ino != named.st_ino || held.st_dev != named.st_dev)
		return eg_err_set(err, -EBUSY,
				  "%s was removed meanwhile by a purge; start again",
				  path);
	(void)snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
	if (ftruncate(*ret_fd, 0) < 0 || pwrite(*ret_fd, pid, strlen(pid), 0) < 0)
		return eg_err_sys(err, -errno, "write %s", path);
	return 0;
}

int np_launch_lock(const struct eg_conf *conf, struct eg_err *err)
{
	static int fd = -1; /* let go of by the end of the process */
	int r = dir_make(conf->run, 0755, 0, 0, err);

	return r ? r : lock_take(conf, &fd, err);
}

void np_launch_unlock(const struct eg_conf *conf)
{
	char path[EG_PATH + 16];

	/*
	 * Under the lock. Who waits for it would now hold a file without a
	 * name; but nobody waits: a second daemon is refused at once.
	 */
	(void)snprintf(path, sizeof(path), "%s/lock", conf->run);
	(void)EG_CALL("remove the lock", unlink(path));
	(void)EG_CALL("remove the run directory", rmdir(conf->run)); /* stays when somebody keeps files there */
}

/*
 * As many descriptors as the hard limit allows, and more where we may: a
 * limit that was meant for others is no reason to serve fewer slots.
 */
static int descriptors_raise(const struct eg_conf *c, struct eg_err *err)
{
	rlim_t need = np_descriptors(c, c->slots);
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return eg_err_sys(err, -errno, "getrlimit");
	if (rl.rlim_max < need) {
		struct rlimit more = {.rlim_cur = need, .rlim_max = need};

		/* Takes CAP_SYS_RESOURCE, and fs.nr_open is the end of it. */
		if (!setrlimit(RLIMIT_NOFILE, &more))
			return 0;
	}
	rl.rlim_cur = rl.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &rl) < 0)
		return eg_err_sys(err, -errno, "setrlimit");
	return 0;
}

/* The host's own networks, without the links of a former run. */
static int host_check(const struct eg_conf *c, struct eg_err *err)
{
	struct eg_prefix nets[EG_HOST_ADDRS];
	struct ifaddrs *all, *i;
	size_t n = 0;

	if (getifaddrs(&all) < 0)
		return eg_err_sys(err, -errno, "list the host's addresses");
	for (i = all; i && n < EG_ARRAY_SIZE(nets); i = i->ifa_next) {
		struct sockaddr_in a, m;

		if (!i->ifa_addr || !i->ifa_netmask ||
		    i->ifa_addr->sa_family != AF_INET ||
		    !strncmp(i->ifa_name, "eg-gw-", 6))
			continue;
		memcpy(&a, i->ifa_addr, sizeof(a));
		memcpy(&m, i->ifa_netmask, sizeof(m));
		nets[n].len = (uint8_t)__builtin_popcount(m.sin_addr.s_addr);
		nets[n++].addr = ntohl(a.sin_addr.s_addr);
	}
	freeifaddrs(all);
	return np_conf_check_host(c, nets, n, err);
}

int np_launch_probe(const struct eg_conf *conf,
		    void (*probe)(const struct eg_conf *conf,
				  struct np_probe *ret),
		    struct np_probe *ret, struct eg_err *err)
{
	struct np_probe found = {0};
	int p[2], status = 0;
	pid_t pid;
	ssize_t n;

	if (pipe2(p, O_CLOEXEC) < 0)
		return eg_err_sys(err, -errno, "pipe");
	pid = fork();
	if (!pid) {
		probe(conf, &found);
		/* Fits the pipe: one write, never a part of it. */
		_exit(write(p[1], &found, sizeof(found)) == sizeof(found) ? 0
									  : 1);
	}
	eg_close_p(&p[1]);
	n = pid > 0 ? read(p[0], &found, sizeof(found)) : -1;
	eg_close_p(&p[0]);
	if (pid > 0)
		(void)waitpid(pid, &status, 0);
	if (n != sizeof(found) || status)
		return eg_err_set(err, -EIO,
				  "the kernel probe died (status %d)", status);
	*ret = found;
	return 0;
}

/* What makes the pool smaller goes to main, the log and the API. */
static void slots_cap(struct eg_conf *c, const struct np_preflight *p)
{
	const struct np_finding *f = &p->finding[p->limit];

	if (p->slots >= c->slots)
		return;
	c->slots_cap = p->slots;
	(void)snprintf(c->slots_cap_why, sizeof(c->slots_cap_why),
		       "%s is %s, needed: %s", f->key, f->have, f->need);
}

/* Before anything is made: does it work on what can be read? */
static int preflight_facts(const struct eg_conf *c, struct np_facts *x,
			   struct eg_err *err)
{
	struct np_preflight p;

	np_facts_read("", c, 0, x);
	np_preflight(c, x, &p);
	return np_preflight_refuse(&p, err);
}

/* With the kernel's own word. */
static int preflight_probe(struct eg_conf *c,
			   const struct np_launcher_hooks *hooks,
			   struct np_facts *x, struct eg_err *err)
{
	struct np_preflight p;
	int r = np_launch_probe(c, hooks->probe, &x->probe, err);

	if (r)
		return r;
	np_preflight(c, x, &p);
	r = np_preflight_refuse(&p, err);
	if (r)
		return r;
	for (unsigned int i = 0; i < NP_CHECK_COUNT; i++) {
		const struct np_finding *f = &p.finding[i];

		if (f->level == NP_DEGRADED)
			eg_warning("preflight: %s is %s, needed: %s; %s; fix: %s",
				   f->key, f->have, f->need, f->text, f->fix);
	}
	slots_cap(c, &p);
	return 0;
}

static int socket_listen(const char *path, mode_t mode, uint32_t gid,
			 struct eg_err *err)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	EG_CLEANUP_FD int fd = -1;
	mode_t old;
	int r;

	if (strlen(path) >= sizeof(sa.sun_path))
		return eg_err_set(err, -ENAMETOOLONG,
				  "socket path %s is longer than %zu bytes",
				  path, sizeof(sa.sun_path) - 1);
	memcpy(sa.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return eg_err_sys(err, -errno, "socket");
	/* We hold the lock, so nobody of ours listens on an old one. */
	(void)unlink(path);
	old = umask(0777 & ~mode); /* no moment in which it is too open */
	r = EG_CALL("bind a socket",
		    bind(fd, (struct sockaddr *)&sa, sizeof(sa)));
	(void)umask(old);
	if (r < 0)
		return eg_err_sys(err, -errno, "bind %s", path);
	if (chown(path, 0, gid == UINT32_MAX ? 0 : gid) < 0 ||
	    listen(fd, API_BACKLOG) < 0)
		return eg_err_sys(err, -errno, "listen on %s", path);
	return eg_steal_fd(&fd);
}

static int metrics_listen(const struct eg_conf *c, struct eg_err *err)
{
	struct sockaddr_in sa = {.sin_family = AF_INET,
				 .sin_port = htons(c->metrics_port),
				 .sin_addr.s_addr = htonl(c->metrics_addr)};
	EG_CLEANUP_FD int fd =
		socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	char a[EG_ADDR_TEXT];
	int one = 1;

	if (fd < 0)
		return eg_err_sys(err, -errno, "socket");
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, 64) < 0)
		return eg_err_sys(err, -errno, "[metrics] listen %s:%u",
				  eg_addr_format(c->metrics_addr, a),
				  c->metrics_port);
	return eg_steal_fd(&fd);
}

/*
 * Nobody may look later: that takes the capabilities of process 1. Without
 * it build cannot tell its namespace from a caller's, and adopts none.
 */
static void init_net_open(struct launcher *l)
{
	int fd = open("/proc/1/ns/net", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		eg_warning("guest mode adopt is off: cannot open /proc/1/ns/net: %s",
			   strerror(errno));
	l->held[EG_FD_INIT_NET][0] = fd;
}

static int sockets_open(struct launcher *l, struct eg_err *err)
{
	const struct eg_conf *c = l->conf;
	int fd = socket_listen(c->api_socket, 0660, c->api_gid, err);

	if (fd < 0)
		return fd;
	l->held[EG_FD_API][0] = fd;
	fd = socket_listen(c->read_socket, 0660, c->read_gid, err);
	if (fd < 0)
		return fd;
	l->held[EG_FD_API_READ][0] = fd;
	fd = open(c->run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return eg_err_sys(err, -errno, "open %s", c->run);
	l->held[EG_FD_RUN][0] = fd;
	if (!c->metrics_port)
		return 0;
	fd = metrics_listen(c, err);
	if (fd < 0)
		return fd;
	l->held[EG_FD_METRICS][0] = fd;
	return 0;
}

/* Every role maps the same pages; nobody can change them any more. */
static int conf_seal(struct launcher *l, struct eg_err *err)
{
	size_t size = sizeof(*l->conf);

	l->conf->magic = EG_CONF_MAGIC;
	l->conf->size = (uint32_t)size;
	l->conf_fd =
		memfd_create("egressd.conf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (l->conf_fd < 0 || write(l->conf_fd, l->conf, size) != (ssize_t)size ||
	    fcntl(l->conf_fd, F_ADD_SEALS,
		  F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return eg_err_sys(err, -errno, "seal the configuration");
	return 0;
}

/* Cut the bounding set to the roles' needs, keep three capabilities. */
static int privilege_reduce(struct eg_err *err)
{
	static const unsigned int bound[] = {
		CAP_SETUID,	CAP_SETGID,    CAP_KILL,
		CAP_NET_ADMIN,	CAP_SYS_ADMIN, CAP_NET_BIND_SERVICE,
		CAP_SYS_CHROOT, CAP_SETPCAP,   CAP_NET_RAW,
	};
	uint64_t want = eg_role_caps(EG_ROLE_LAUNCHER), eff, perm;

	capng_clear(CAPNG_SELECT_ALL);
	for (size_t i = 0; i < EG_ARRAY_SIZE(bound); i++)
		(void)capng_update(CAPNG_ADD, CAPNG_BOUNDING_SET, bound[i]);
	if (capng_apply(CAPNG_SELECT_BOUNDS))
		return eg_err_set(err, -EPERM, "cannot cut the bounding set");
	for (unsigned int i = 0; i <= CAP_LAST_CAP; i++)
		if (want & 1ULL << i)
			(void)capng_update(CAPNG_ADD,
					   CAPNG_EFFECTIVE | CAPNG_PERMITTED, i);
	if (capng_apply(CAPNG_SELECT_CAPS) || eg_priv_read(&eff, &perm) ||
	    eff != want || perm != want)
		return eg_err_set(err, -EPERM,
				  "cannot reduce the launcher's capabilities");
	return 0;
}

static int identity_load(struct launcher *l, struct eg_err *err)
{
	int r = np_host_id(l->conf->state, l->conf->host_id, err);

	return r ? r : np_boot_id(l->conf->boot_id, err);
}

static int prepare(struct launcher *l, const struct np_launcher_hooks *hooks,
		   struct eg_err *err)
{
	struct np_facts facts;
	int r = geteuid()
			? eg_err_set(err, -EPERM,
				     "egressd must be started as root; the roles drop what they do not need")
			: 0;

	if (!r)
		r = descriptors_raise(l->conf, err);
	if (!r)
		r = preflight_facts(l->conf, &facts, err);
	if (!r)
		r = host_check(l->conf, err);
	if (!r)
		r = dir_make(l->conf->run, 0755, 0, 0, err);
	if (!r)
		r = lock_take(l->conf, &l->lock_fd, err);
	/* What there is belongs to somebody else: leave nothing of ours. */
	if (!r) {
		r = np_host_alone(err);
		if (!r)
			r = preflight_probe(l->conf, hooks, &facts, err);
		if (r)
			np_launch_unlock(l->conf);
	}
	/* From here on this host's egressd is us; nothing was made before. */
	if (!r)
		r = dirs_make(l->conf, err);
	if (!r)
		r = state_lock(l->conf, &l->state_fd, err);
	if (!r)
		r = identity_load(l, err);
	if (!r && held_init(l))
		r = eg_err_set(err, -ENOMEM, "out of memory");
	if (!r)
		r = sockets_open(l, err);
	if (!r)
		init_net_open(l);
	return r ? r : conf_seal(l, err);
}

static int signals_open(struct launcher *l)
{
	sigset_t set;
	int fd;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	(void)signal(SIGPIPE, SIG_IGN);
	fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	l->sig = eg_io_new(l->loop, fd, EG_READ, on_signal, l);
	l->kill = eg_timer_new(l->loop, on_kill, l);
	return l->sig && l->kill ? 0 : -ENOMEM;
}

static int children_init(struct launcher *l)
{
	for (unsigned int i = 0; i < EG_ROLE_COUNT; i++) {
		struct child *c = &l->child[i];

		c->role = (enum eg_role)i;
		retries[i] = (struct retry){.l = l, .c = c};
		c->again = eg_timer_new(l->loop, child_retry, &retries[i]);
		c->feed = eg_timer_new(l->loop, child_feed, &retries[i]);
		if (!c->again || !c->feed)
			return -ENOMEM;
	}
	for (size_t i = 0; i < EG_ARRAY_SIZE(start_order); i++)
		child_start(l, &l->child[start_order[i]]);
	return 0;
}

static void launcher_done(struct launcher *l)
{
	for (unsigned int i = 0; i < EG_ROLE_COUNT; i++) {
		eg_chan_free(l->child[i].ctl);
		eg_timer_free(l->child[i].again);
		eg_timer_free(l->child[i].feed);
	}
	eg_io_free(l->sig);
	eg_timer_free(l->kill);
	for (unsigned int k = 0; k < EG_FD_KIND_COUNT; k++) {
		for (uint32_t i = 0; l->held[k] && i < l->nheld[k]; i++)
			eg_close_p(&l->held[k][i]);
		free(l->held[k]);
	}
	eg_close_p(&l->conf_fd);
	eg_close_p(&l->lock_fd);
	eg_close_p(&l->state_fd);
	eg_loop_free(l->loop);
}

int np_launch(struct eg_conf *conf, const struct np_launcher_hooks *hooks)
{
	struct launcher l = {.conf = conf, .conf_fd = -1, .lock_fd = -1,
			     .state_fd = -1};
	struct eg_err err = {0};
	char caps[64];
	int r = prepare(&l, hooks, &err);

	if (!r && (eg_loop_new(&l.loop) || signals_open(&l)))
		r = eg_err_set(&err, -ENOMEM, "cannot start the event loop");
	if (!r)
		r = privilege_reduce(&err);
	if (!r && children_init(&l))
		r = eg_err_set(&err, -ENOMEM, "out of memory");
	if (!r && !conf->upstreams)
		eg_warning("no upstream name server is known: every name will be answered SERVFAIL; set [dns] upstream");
	if (r) {
		eg_error("%s", err.text);
		launcher_done(&l);
		return 1;
	}
	eg_info("role launcher: pid %d uid %u gid %u caps %s no_new_privs 0",
		(int)getpid(), getuid(), getgid(),
		eg_caps_format(eg_role_caps(EG_ROLE_LAUNCHER), caps,
			       sizeof(caps)));
	r = eg_loop_run(l.loop);
	launcher_done(&l);
	eg_notice("ended; leases are in place");
	return r ? 1 : l.status;
}
