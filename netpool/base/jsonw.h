/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: a JSON writer into a caller's buffer.
 *
 * For what is written often and must not allocate: records, manifests,
 * chain lines. Running out of room is remembered and told once, by
 * eg_jsonw_done(); until then every call is safe and writes nothing more.
 *
 * The output is one line (no byte below 0x20, no DEL) of valid UTF-8 JSON
 * and safe to show on a terminal, whatever the strings hold: control bytes,
 * DEL, U+0080..U+009F, and the code points that reorder or hide text (bidi
 * controls, zero-width and tag characters, line separators) become \uXXXX.
 * A byte that is not part of valid UTF-8 becomes the visible text \xNN (its
 * backslash is data, so a parser returns those four characters).
 */
#ifndef EG_JSONW_H
#define EG_JSONW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EG_JSONW_DEPTH 16 /* nested objects and arrays; records use three */

struct eg_jsonw {
	char *buf;
	size_t cap, len;
	uint32_t arrays; /* bit per level: it is an array */
	uint8_t depth;
	bool comma;    /* the next member needs one in front */
	bool overflow; /* sticky: buffer or depth */
};

/* eg_jsonw_init() - write into @buf; nothing is written yet. */
void eg_jsonw_init(struct eg_jsonw *w, char *buf, size_t cap);

/*
 * In all of these @key is NULL at the top level and inside an array. Keys
 * are escaped like values.
 */
void eg_jsonw_object(struct eg_jsonw *w, const char *key);
void eg_jsonw_array(struct eg_jsonw *w, const char *key);
void eg_jsonw_end(struct eg_jsonw *w); /* of the innermost of these */

void eg_jsonw_str(struct eg_jsonw *w, const char *key, const char *text);
void eg_jsonw_bytes(struct eg_jsonw *w, const char *key, const void *data,
		    size_t len);
void eg_jsonw_u64(struct eg_jsonw *w, const char *key, uint64_t v);
void eg_jsonw_i64(struct eg_jsonw *w, const char *key, int64_t v);
void eg_jsonw_bool(struct eg_jsonw *w, const char *key, bool v);
void eg_jsonw_null(struct eg_jsonw *w, const char *key);

/**
 * eg_jsonw_members() - put in members written earlier by this writer
 * @text:	"\"a\":1,\"b\":2", trusted; empty: nothing happens
 */
void eg_jsonw_members(struct eg_jsonw *w, const char *text, size_t len);

/**
 * eg_jsonw_done() - terminate the text
 *
 * Return: its length; -EMSGSIZE when it did not fit or a level is open.
 */
long eg_jsonw_done(struct eg_jsonw *w);

#endif
