/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: taking over the files of a log after a restart.
 *
 * Afterwards both files end with a whole record and the log's numbers and
 * counts are those of its lines.
 */
#ifndef AU_RECOVER_H
#define AU_RECOVER_H

#include "audit/files.h"

/**
 * au_recover() - read a log's files, cut what a crash left half done
 * @header:	the header a savefile of ours begins with
 *
 * Return: 0, also when there is nothing; negative errno.
 */
int au_recover(struct au_files *f, struct au_log *log,
	       const uint8_t header[AU_PCAP_HEADER], struct eg_err *err);

#endif
