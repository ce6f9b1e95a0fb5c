// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: policy programs in use by leases, one mapping for each digest.
 */
#include "netpool/base/util.h"
#include "netpool/state.h"

#include <errno.h>
#include <string.h>

int np_prog_get(struct np_main *m, int *fd, struct np_prog **ret,
		struct eg_err *err)
{
	struct np_prog *p, *q = calloc(1, sizeof(*q));
	int r;

	if (!q)
		return eg_err_set(err, -ENOMEM, "out of memory");
	q->fd = -1;
	r = m->k->prog_map(m, *fd, q, err);
	if (r) {
		free(q);
		return r;
	}
	for (p = m->progs; p; p = p->next)
		if (!memcmp(p->digest, q->digest, EG_DIGEST))
			break;
	if (p) {
		m->k->prog_unmap(q);
		free(q);
	} else {
		p = q;
		p->fd = eg_steal_fd(fd);
		p->next = m->progs;
		m->progs = p;
	}
	p->refs++;
	*ret = p;
	return 0;
}

void np_prog_put(struct np_main *m, struct np_prog *p)
{
	if (!p || --p->refs)
		return;
	for (struct np_prog **q = &m->progs; *q; q = &(*q)->next)
		if (*q == p) {
			*q = p->next;
			break;
		}
	m->k->prog_unmap(p);
	eg_close_p(&p->fd);
	free(p);
}

void np_prog_tell(struct np_main *m, struct np_prog *p)
{
	struct eg_ma_policy q;

	if (p->told || !m->k->prog_text(p, &q))
		return;
	/* It is away: all is said again when it is back. */
	p->told = !eg_role_send(m->ctx, EG_ROLE_AUDIT, EG_MA_POLICY, 0, &q,
				sizeof(q), p->fd);
}

void np_prog_untold(struct np_main *m)
{
	for (struct np_prog *p = m->progs; p; p = p->next)
		p->told = false;
}
