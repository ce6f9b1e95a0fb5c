// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: error values (see err.h)
 */
#include "netpool/base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define EG_ERR_CONTEXT 151 /* a context may not push out the cause */

#undef eg_err_set /* see the analyser's macros in err.h */
#undef eg_err_sys

int eg_err_set(struct eg_err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	va_start(ap, fmt);
	(void)vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return code;
}

int eg_err_sys(struct eg_err *err, int code, const char *fmt, ...)
{
	size_t n;
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	va_start(ap, fmt);
	(void)vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	n = strlen(err->text);
	(void)snprintf(err->text + n, sizeof(err->text) - n, ": %s",
		       strerror(-code));
	return code;
}

int eg_err_wrap(struct eg_err *err, const char *fmt, ...)
{
	char ctx[EG_ERR_CONTEXT], old[EG_ERR_TEXT];
	va_list ap;

	if (!err)
		return -EINVAL;
	va_start(ap, fmt);
	(void)vsnprintf(ctx, sizeof(ctx), fmt, ap);
	va_end(ap);
	memcpy(old, err->text, sizeof(old));
	/* The cause loses its tail only where both do not fit. */
	if (snprintf(err->text, sizeof(err->text), "%s: %s", ctx, old) < 0)
		err->text[0] = '\0';
	return err->code;
}
