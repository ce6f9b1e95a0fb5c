# SPDX-License-Identifier: GPL-2.0-or-later
#
# egressd: build, test, install. `make V=1` shows the commands.

PREFIX ?= /usr
SBINDIR ?= $(PREFIX)/sbin
BINDIR ?= $(PREFIX)/bin
SYSCONFDIR ?= /etc
MANDIR ?= $(PREFIX)/share/man
UNITDIR ?= $(PREFIX)/lib/systemd/system
DESTDIR ?=
PKG_CONFIG ?= pkg-config
CC ?= gcc
VERSION := 0.1.0

B ?= build
SAN ?=

PKGS := libnftnl libmnl libnl-3.0 libnl-route-3.0 ldns libpcap inih \
	libevent_core libmicrohttpd jansson libcap-ng libseccomp nettle
CTL_PKGS := libcurl jansson inih nettle

WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wpointer-arith -Wformat=2 -Wswitch-enum -Wvla \
	-Wundef -Wconversion
HARDEN := -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE
CFLAGS ?= -O2 -g
ifneq ($(SAN),)
HARDEN := -fPIE -fno-omit-frame-pointer -fsanitize=$(SAN) \
	-fno-sanitize-recover=all
LDSAN := -fsanitize=$(SAN)
endif
EG_CFLAGS = -std=gnu11 -I. -D_GNU_SOURCE -DEG_VERSION='"$(VERSION)"' $(WARN) \
	$(HARDEN) $(CFLAGS) $(shell $(PKG_CONFIG) --cflags $(PKGS) libcurl)
EG_LDFLAGS = -pie -Wl,-z,relro,-z,now $(LDSAN) $(LDFLAGS)

LIB_SRC := $(wildcard netpool/base/*.c) \
	$(filter-out netpool/main.c,$(wildcard netpool/*.c)) \
	$(wildcard rules/*.c) $(wildcard rules/allowlist/*.c) \
	$(wildcard dnsguard/*.c) $(wildcard audit/*.c)
CTL_SRC := $(wildcard netpool/ctl/*.c)
UNIT_SRC := $(wildcard tests/unit/*/*_test.c)
UNITLIB_SRC := $(wildcard tests/lib/*.c)
TOOL_SRC := $(wildcard tests/platform/*.c)

LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o)
CTL_OBJ := $(CTL_SRC:%.c=$(B)/%.o)
UNITLIB_OBJ := $(UNITLIB_SRC:%.c=$(B)/%.o)
UNIT_BIN := $(UNIT_SRC:%.c=$(B)/%)
TOOL_BIN := $(TOOL_SRC:%.c=$(B)/%)
BINS := $(if $(wildcard netpool/main.c),$(B)/egressd) \
	$(if $(CTL_SRC),$(B)/egressctl)

LIBS = $(shell $(PKG_CONFIG) --libs $(PKGS))
CTL_LIBS = $(shell $(PKG_CONFIG) --libs $(CTL_PKGS))

ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-7s %s\n'
endif

.PHONY: all check units demo asan tidy cppcheck lint fmt install uninstall \
	clean deps bench fuzz fuzz-bins cover dist
.SECONDARY:

all: $(BINS)

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(EG_CFLAGS) -MMD -MP -c $< -o $@

$(B)/libegressd.a: $(LIB_OBJ)
	$(say) AR $@
	$(Q)rm -f $@ && ar rcs $@ $(LIB_OBJ)

$(B)/egressd: $(B)/netpool/main.o $(B)/libegressd.a
	$(say) LD $@
	$(Q)$(CC) $(EG_LDFLAGS) $^ $(LIBS) -o $@

$(B)/egressctl: $(CTL_OBJ) $(B)/libegressd.a
	$(say) LD $@
	$(Q)$(CC) $(EG_LDFLAGS) $^ $(LIBS) $(CTL_LIBS) -o $@

$(B)/tests/unit/%_test: $(B)/tests/unit/%_test.o $(UNITLIB_OBJ) $(B)/libegressd.a
	$(say) LD $@
	$(Q)$(CC) $(EG_LDFLAGS) $^ $(LIBS) -lcmocka -o $@

$(B)/tests/platform/%: $(B)/tests/platform/%.o $(B)/libegressd.a
	$(say) LD $@
	$(Q)$(CC) $(EG_LDFLAGS) $^ $(LIBS) -o $@

-include $(LIB_OBJ:.o=.d) $(CTL_OBJ:.o=.d) $(UNITLIB_OBJ:.o=.d) \
	$(UNIT_SRC:%.c=$(B)/%.d) $(B)/netpool/main.d

units: $(UNIT_BIN)
	@fail=0; for t in $(UNIT_BIN); do \
		echo "== $$t"; $$t || fail=1; done; exit $$fail

# Every parser under libFuzzer for FUZZ_S seconds each (needs clang). Inputs
# that crash go to tests/bogons/ before they are fixed.
FUZZ_S ?= 60
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_BIN := $(FUZZ_SRC:%.c=$(B)/%)

$(B)/tests/fuzz/fuzz_%: $(B)/tests/fuzz/fuzz_%.o $(B)/libegressd.a
	$(say) LD $@
	$(Q)$(CC) $(EG_LDFLAGS) -fsanitize=fuzzer $^ $(LIBS) -o $@

fuzz-bins: $(FUZZ_BIN)

fuzz:
	$(Q)$(MAKE) CC=clang B=build-fuzz \
		SAN=fuzzer-no-link,address,undefined fuzz-bins
	$(Q)for f in $(FUZZ_SRC:tests/fuzz/fuzz_%.c=%); do \
		mkdir -p build-fuzz/corpus/$$f tests/fuzz/corpus/$$f; \
		build-fuzz/tests/fuzz/fuzz_$$f -max_total_time=$(FUZZ_S) \
			-artifact_prefix=build-fuzz/$$f- -verbosity=0 \
			-print_final_stats=1 build-fuzz/corpus/$$f \
			tests/fuzz/corpus/$$f || exit 1; \
	done

clean:
	rm -rf build build-asan build-clang build-fuzz
