// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: fuzz the configuration parser and the always-deny file; what is
 * accepted must print to a configuration that parses to the same print
 */
#include "netpool/conf.h"
#include "netpool/conf_key.h"

#include <stdlib.h>
#include <string.h>

#define FILE_NAME "/nowhere/egressd.conf"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct eg_conf a, b;

static char *print(const struct eg_conf *c)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		abort();
	np_conf_print(c, f);
	if (fclose(f))
		abort();
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char head[] = "[dns]\nupstream = 192.0.2.1\n";
	char *text = malloc(sizeof(head) + size), *one, *two;
	struct eg_err err = { 0 };

	if (!text)
		return 0;
	(void)np_conf_deny_parse(&a, "d", (const char *)data, size, &err);
	/* the machine's resolv.conf is not part of the input */
	memcpy(text, head, sizeof(head) - 1);
	memcpy(text + sizeof(head) - 1, data, size);
	err = (struct eg_err){ 0 };
	if (np_conf_parse(text, sizeof(head) - 1 + size, FILE_NAME, "/dev/null",
			  &a, &err)) {
		if (!err.code || !err.text[0])
			abort();
		free(text);
		return 0;
	}
	one = print(&a);
	if (np_conf_parse(one, strlen(one), FILE_NAME, "/dev/null", &b, &err))
		abort();
	two = print(&b);
	if (strcmp(one, two))
		abort();
	free(one);
	free(two);
	free(text);
	return 0;
}
