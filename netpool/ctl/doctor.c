// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressctl: doctor: what this host lacks for a configuration, with the fix.
 *
 * The list is the one egressd goes through before it starts (preflight.h),
 * so what is FIX here is what start refuses or serves fewer slots for. Needs
 * no daemon; where one runs on this configuration its limits are looked at
 * in place of those of the shell. As root it also tries the kernel.
 */
#include "netpool/base/util.h"
#include "netpool/conf.h"
#include "netpool/ctl/ct.h"
#include "netpool/launcher.h"
#include "netpool/main_probe.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_CONF "/etc/egressd/egressd.conf"

static struct eg_conf conf; /* some hundred KB */

static const char *const words[] = {
	[NP_OK] = "OK",
	[NP_NOTE] = "NOTE",
	[NP_DEGRADED] = "FIX",
	[NP_REFUSED] = "FIX",
};
static const char *const severities[] = {
	[NP_OK] = "none",
	[NP_NOTE] = "info",
	[NP_DEGRADED] = "degraded",
	[NP_REFUSED] = "refused",
};
_Static_assert(EG_ARRAY_SIZE(words) == NP_LEVEL_COUNT, "word of each level");
_Static_assert(EG_ARRAY_SIZE(severities) == NP_LEVEL_COUNT, "severities");

/* The daemon that holds the lock; 0: none runs. */
static uint32_t daemon_pid(void)
{
	char path[EG_PATH + 16], comm[32] = "";
	uint32_t pid = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/lock", conf.run);
	f = fopen(path, "re");
	if (f && fscanf(f, "%u", &pid) != 1)
		pid = 0;
	if (f)
		(void)fclose(f);
	if (!pid)
		return 0;
	/* The file outlives the process, whose number another may have. */
	(void)snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	f = fopen(path, "re");
	if (f && fscanf(f, "%31s", comm) != 1)
		comm[0] = '\0';
	if (f)
		(void)fclose(f);
	return strncmp(comm, "egressd", 7) ? 0 : pid;
}

static void print_text(const struct np_finding *f)
{
	(void)printf("%-4s %-14s %s: %s, needed: %s%s%s%s\n", words[f->level],
		     np_check_name(f->check), f->key, f->have, f->need,
		     f->level > NP_NOTE ? " (" : "",
		     f->level > NP_NOTE ? severities[f->level] : "",
		     f->level > NP_NOTE ? ")" : "");
	(void)printf("     %s\n", f->text);
	if (f->fix[0])
		(void)printf("     fix: %s\n", f->fix);
}

static json_t *finding_json(const struct np_finding *f)
{
	char word[8];
	size_t i;

	for (i = 0; i + 1 < sizeof(word) && words[f->level][i]; i++)
		word[i] = (char)(words[f->level][i] | 0x20); /* lower case */
	word[i] = '\0';
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "check",
			 np_check_name(f->check), "status", word, "severity",
			 severities[f->level], "key", f->key, "value", f->have,
			 "needed", f->need, "text", f->text, "fix", f->fix);
}

static void print_json(const struct np_preflight *p)
{
	json_t *list = json_array(), *j;

	for (unsigned int i = 0; i < NP_CHECK_COUNT; i++)
		(void)json_array_append_new(list, finding_json(&p->finding[i]));
	j = json_pack(
		"{s:b, s:s, s:s, s:i, s:i, s:o}", "ok", p->worst < NP_DEGRADED,
		"severity", severities[p->worst], "config", conf.file, "slots",
		(int)conf.slots, "slots_that_fit",
		p->worst == NP_REFUSED ? 0 : (int)p->slots, "findings", list);
	ct_print_json(j);
	json_decref(j);
}

static void print_verdict(const struct np_preflight *p)
{
	if (p->worst == NP_REFUSED)
		(void)printf(
			"egressd does not start here on this configuration\n");
	else if (p->slots < conf.slots)
		(void)printf("egressd starts here with %u of %u slots (%s)\n",
			     p->slots, conf.slots, p->finding[p->limit].key);
	else
		(void)printf("egressd starts here%s\n",
			     p->worst == NP_DEGRADED ? "; some of it will not work"
						     : "");
}

static int doctor_run(const struct ct_args *a)
{
	const char *file = a->npos ? a->pos[0] : DEFAULT_CONF;
	static struct np_preflight p;
	static struct np_facts x;
	struct eg_err err = {0};
	bool none = !a->npos && access(file, F_OK);

	if (none ? np_conf_defaults(DEFAULT_CONF, NP_CONF_RESOLV, &conf, &err)
		 : np_conf_load(file, &conf, &err)) {
		(void)fprintf(stderr, "egressctl: %s\n", err.text);
		return CT_FAILED;
	}
	np_facts_read("", &conf, daemon_pid(), &x);
	if (!geteuid() && np_launch_probe(&conf, np_main_probe, &x.probe, &err)) {
		(void)fprintf(stderr, "egressctl: %s\n", err.text);
		return CT_FAILED;
	}
	np_preflight(&conf, &x, &p);
	if (ct_json) {
		print_json(&p);
	} else {
		for (unsigned int i = 0; i < NP_CHECK_COUNT; i++)
			print_text(&p.finding[i]);
		print_verdict(&p);
	}
	return p.worst < NP_DEGRADED ? CT_OK : CT_FAILED;
}

const struct ct_command ct_doctor = {
	.name = "doctor",
	.usage = "[FILE]",
	.help = "what this host lacks for the configuration, with the fix",
	.max = 1,
	.run = doctor_run,
};
