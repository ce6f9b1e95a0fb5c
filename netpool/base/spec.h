/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: what a lease was asked with, as JSON.
 *
 * One description for all who need it: audit seals it with a lease's
 * manifest, api makes a lease's spec of it, and a spec is a lease request.
 * Defaults are written out, so that it means the same on any host; who leases
 * (owner) and what the host chose (slot, addresses, id) are not part of it.
 */
#ifndef EG_SPEC_H
#define EG_SPEC_H

#include "netpool/base/jsonw.h"
#include "netpool/base/proto.h"

/* "NAME@sha256:HEX", or "sha256:HEX" for a policy without a name */
#define EG_POLICY_REF (EG_POLICY_NAME + 80)

const char *eg_policy_ref(const struct eg_lease_req *q, char buf[EG_POLICY_REF]);

/**
 * eg_spec_write() - members of a lease request, as the lease is now
 *
 * policy (by name and digest), phase, ttl_s, on_expiry, enforce, deny, limits
 * and guest. Not run, tenant and labels, which records have already, nor the
 * policy's text. @q must be terminated and in range.
 */
void eg_spec_write(struct eg_jsonw *w, const struct eg_lease_req *q);

/* eg_parent_write() - member "parent": id and uid, or null */
void eg_parent_write(struct eg_jsonw *w, const struct eg_lease_req *q);

/* eg_parent_has() - was it made from another lease? */
bool eg_parent_has(const struct eg_lease_req *q);

#endif
