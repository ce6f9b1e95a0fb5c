// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: fuzzer of what a sandbox's octets go through in audit: NFLOG
 * messages, packet decoding, and the record made of it.
 *
 *	clang -fsanitize=fuzzer,address,undefined; corpus: tests/fuzz/nflog
 */
#include "audit/decode.h"
#include "audit/frame.h"
#include "audit/nflog.h"
#include "audit/record.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take(void *arg, const struct au_nflog_pkt *p)
{
	static uint8_t frame[AU_PACKET_MAX];
	static char line[AU_RECORD_MAX];
	struct au_decoded d;
	struct au_record r = {.slot = 5,
			      .layer = AU_PACKET,
			      .d = &d,
			      .reason = EG_REASON_NOT_ALLOWED,
			      .verdict = "drop",
			      .detail = p->prefix,
			      .has_cap = true};
	size_t n;

	(void)arg;
	au_decode_ip4(p->payload, p->caplen, &d);
	n = au_frame_ip4(frame, sizeof(frame), p->hw, p->hwlen, 5, p->payload,
			 p->caplen);
	if (!d.has_ip4) {
		au_decode_frame(frame, n, &d);
		r.frame = true;
	}
	if (au_record_build(&r, 1, line, AU_RECORD_ROOM) < 2 ||
	    !au_scan_valid(line, strlen(line)))
		abort(); /* every record is one object of valid JSON */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct au_nflog n;
	/* of exact size and aligned, as from the socket */
	uint8_t *buf = malloc(size ? size : 1);

	if (!buf)
		return 0;
	memcpy(buf, data, size);
	au_nflog_init(&n, -1, take, NULL);
	au_nflog_parse(&n, buf, size);
	free(buf);
	return 0;
}
