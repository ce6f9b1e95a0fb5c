// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the message table (see proto.h)
 */
#include "netpool/base/proto.h"
#include "netpool/base/util.h"

#include <stddef.h>

static const char *const role_names[] = {
	[EG_ROLE_LAUNCHER] = "launcher", [EG_ROLE_MAIN] = "main",
	[EG_ROLE_BUILD] = "build",	 [EG_ROLE_API] = "api",
	[EG_ROLE_DNS] = "dns",		 [EG_ROLE_AUDIT] = "audit",
};
_Static_assert(EG_ARRAY_SIZE(role_names) == EG_ROLE_COUNT, "role names");

const char *eg_role_name(enum eg_role role)
{
	return (unsigned int)role < EG_ROLE_COUNT ? role_names[role] : "?";
}

#define EXACT(t, s)                                                            \
	{                                                                      \
#t, sizeof(struct s), sizeof(struct s), false                  \
	}
#define EMPTY(t)                                                               \
	{                                                                      \
#t, 0, 0, false                                                \
	}
#define WITH_FD(t, s)                                                          \
	{                                                                      \
#t, sizeof(struct s), sizeof(struct s), true                   \
	}

const struct eg_msg_spec eg_msg_spec[EG_MSG_COUNT] = {
	[EG_MSG_NONE] = {"NONE", 1, 0, false},
	[EG_CTL_HELLO] = EXACT(CTL_HELLO, eg_ctl_hello),
	[EG_CTL_CONF] = {"CTL_CONF", 0, 0, true},
	[EG_CTL_PEER] = WITH_FD(CTL_PEER, eg_ctl_peer),
	[EG_CTL_FD] = WITH_FD(CTL_FD, eg_ctl_key),
	[EG_CTL_GO] = EMPTY(CTL_GO),
	[EG_CTL_READY] = EXACT(CTL_READY, eg_ctl_ready),
	[EG_CTL_HOLD] = WITH_FD(CTL_HOLD, eg_ctl_key),
	[EG_CTL_DROP] = EXACT(CTL_DROP, eg_ctl_key),
	[EG_CTL_RESERVE] = EXACT(CTL_RESERVE, eg_ctl_reserve),
	[EG_CTL_RESERVED] = EXACT(CTL_RESERVED, eg_ctl_reserved),
	[EG_CTL_POLICY] = WITH_FD(CTL_POLICY, eg_ctl_policy),
	[EG_CTL_POLICIES] = EMPTY(CTL_POLICIES),
	[EG_CTL_STATE] = EXACT(CTL_STATE, eg_ctl_state),
	[EG_CTL_STOP] = EMPTY(CTL_STOP),
	[EG_MB_GATEWAY] = EXACT(MB_GATEWAY, eg_mb_gateway),
	[EG_BM_GATEWAY] = WITH_FD(BM_GATEWAY, eg_bm_gateway),
	[EG_MB_GATEWAY_UP] = EXACT(MB_GATEWAY_UP, eg_mb_gateway),
	[EG_BM_GATEWAY_UP] = EXACT(BM_GATEWAY_UP, eg_bm_gateway),
	[EG_MB_BUILD] = EXACT(MB_BUILD, eg_mb_slots),
	[EG_BM_BUILT] = EXACT(BM_BUILT, eg_bm_slot),
	[EG_MB_ARM] = EXACT(MB_ARM, eg_mb_slot),
	[EG_BM_ARMED] = EXACT(BM_ARMED, eg_bm_slot),
	[EG_MB_GUEST] = EXACT(MB_GUEST, eg_mb_guest),
	[EG_BM_GUEST] = EXACT(BM_GUEST, eg_bm_slot),
	[EG_MB_ADOPTED] = EXACT(MB_ADOPTED, eg_mb_slot),
	[EG_MB_DOWN] = EXACT(MB_DOWN, eg_mb_slot),
	[EG_BM_DOWN] = EXACT(BM_DOWN, eg_bm_slot),
	[EG_MB_SCRAP] = EXACT(MB_SCRAP, eg_mb_slot),
	[EG_BM_SCRAPPED] = EXACT(BM_SCRAPPED, eg_bm_slot),
	[EG_MB_SCAN] = EMPTY(MB_SCAN),
	[EG_BM_SLOT] = EXACT(BM_SLOT, eg_bm_scan),
	[EG_BM_SCAN_END] = EMPTY(BM_SCAN_END),
	[EG_BM_EVENT] = EXACT(BM_EVENT, eg_bm_slot),
	[EG_BM_HOST] = EXACT(BM_HOST, eg_bm_host),
	[EG_PM_LEASE] = WITH_FD(PM_LEASE, eg_pm_lease),
	[EG_PM_GET] = EXACT(PM_GET, eg_pm_which),
	[EG_PM_LIST] = EXACT(PM_LIST, eg_pm_list),
	[EG_PM_RELEASE] = EXACT(PM_RELEASE, eg_pm_which),
	[EG_PM_RENEW] = EXACT(PM_RENEW, eg_pm_which),
	[EG_PM_PHASE] = EXACT(PM_PHASE, eg_pm_which),
	[EG_PM_REVOKE] = EXACT(PM_REVOKE, eg_pm_which),
	[EG_PM_ANNOTATE] = EXACT(PM_ANNOTATE, eg_pm_annotate),
	[EG_PM_STATS] = EXACT(PM_STATS, eg_pm_which),
	[EG_PM_POOL] = EMPTY(PM_POOL),
	[EG_PM_EVENTS] = EXACT(PM_EVENTS, eg_pm_events),
	[EG_MP_LEASE] = EXACT(MP_LEASE, eg_mp_lease),
	[EG_MP_STATS] = EXACT(MP_STATS, eg_mp_stats),
	[EG_MP_POOL] = EXACT(MP_POOL, eg_mp_pool),
	[EG_MP_EVENT] = EXACT(MP_EVENT, eg_event),
	[EG_MP_END] = EXACT(MP_END, eg_mp_end),
	[EG_MD_LEASE] = WITH_FD(MD_LEASE, eg_md_lease),
	[EG_MD_UNLEASE] = EXACT(MD_UNLEASE, eg_md_unlease),
	[EG_MD_PINS] = EXACT(MD_PINS, eg_dm_pin),
	[EG_MD_STATS] = EXACT(MD_STATS, eg_md_unlease),
	[EG_DM_PIN] = EXACT(DM_PIN, eg_dm_pin),
	[EG_MD_PINNED] = EXACT(MD_PINNED, eg_md_pinned),
	[EG_DM_STATS] = EXACT(DM_STATS, eg_dm_stats),
	[EG_DM_READY] = EMPTY(DM_READY),
	[EG_MA_POLICY] = WITH_FD(MA_POLICY, eg_ma_policy),
	[EG_MA_LEASE] = EXACT(MA_LEASE, eg_ma_lease),
	[EG_MA_PHASE] = EXACT(MA_PHASE, eg_ma_lease),
	[EG_MA_STATS] = EXACT(MA_STATS, eg_ma_stats),
	[EG_MA_END] = EXACT(MA_END, eg_ma_end),
	[EG_AM_STATS] = EXACT(AM_STATS, eg_am_stats),
	[EG_AM_SEALED] = EXACT(AM_SEALED, eg_am_sealed),
	[EG_AM_FIRST] = EXACT(AM_FIRST, eg_am_first),
	[EG_DA_DENIAL] = {"DA_DENIAL", offsetof(struct eg_da_denial, query),
			  sizeof(struct eg_da_denial), false},
	[EG_DA_NAME] = EXACT(DA_NAME, eg_da_name),
	[EG_PA_OPEN] = EXACT(PA_OPEN, eg_pa_open),
	[EG_AP_OPEN] = WITH_FD(AP_OPEN, eg_ap_open),
	[EG_PA_LEASE] = EXACT(PA_LEASE, eg_pa_lease),
	[EG_AP_LEASE] = WITH_FD(AP_LEASE, eg_ap_lease),
};

_Static_assert(sizeof(struct eg_mp_lease) <= EG_MSG_MAX, "fits a message");
_Static_assert(sizeof(struct eg_mp_stats) <= EG_MSG_MAX, "fits a message");
