/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: an error is a value: a negative errno and one sentence.
 *
 * Functions whose failure an operator has to understand take a last
 * parameter `struct eg_err *err`: caller-owned, of fixed size, may be NULL,
 * untouched on success. The sentence is made once, where the facts are
 * known, gets context in front of it on the way up, and is printed once, at
 * the edge. Nothing here allocates.
 */
#ifndef EG_ERR_H
#define EG_ERR_H

#include <stdarg.h>

#define EG_ERR_TEXT 400 /* a sentence with one quoted value in it */

struct eg_err {
	int code; /* negative errno, 0 when unset */
	char text[EG_ERR_TEXT];
};

/**
 * eg_err_set() - record the cause of a failure
 * @err:	where to, may be NULL
 * @code:	negative errno
 * @fmt:	the sentence: what is wrong, with the value, and what would do
 *
 * Return: @code, so that the caller can return eg_err_set(...).
 */
int eg_err_set(struct eg_err *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/**
 * eg_err_sys() - the same for a failed system call: ": strerror" is appended
 *
 * Return: @code (negative errno).
 */
int eg_err_sys(struct eg_err *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#ifdef __clang_analyzer__
/*
 * The analyser looks at one file at a time and would take an error path for
 * one that may return 0; the code is what is returned.
 */
#define eg_err_set(err, code, ...) (eg_err_set(err, code, __VA_ARGS__), (code))
#define eg_err_sys(err, code, ...) (eg_err_sys(err, code, __VA_ARGS__), (code))
#endif

/**
 * eg_err_wrap() - put context in front of an error: "context: text"
 *
 * Return: the error's code.
 */
int eg_err_wrap(struct eg_err *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
