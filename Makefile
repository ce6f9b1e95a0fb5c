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
FAULT ?=

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
# Points at which a test stops the daemon: netpool/base/fault.h
FAULTS := $(if $(FAULT),-DEG_FAULT)
EG_CFLAGS = -std=gnu11 -I. -D_GNU_SOURCE -DEG_VERSION='"$(VERSION)"' $(WARN) \
	$(FAULTS) $(HARDEN) $(CFLAGS) $(shell $(PKG_CONFIG) --cflags $(PKGS) libcurl)
EG_LDFLAGS = -pie -Wl,-z,relro,-z,now $(LDSAN) $(LDFLAGS)

LIB_SRC := $(wildcard netpool/base/*.c) \
	$(filter-out netpool/main.c,$(wildcard netpool/*.c)) \
	$(wildcard rules/*.c) $(wildcard rules/allowlist/*.c) \
	$(wildcard dnsguard/*.c) $(wildcard audit/*.c)
CTL_SRC := $(wildcard netpool/ctl/*.c)
UNIT_SRC := $(wildcard tests/unit/*/*_test.c)
UNITLIB_SRC := $(wildcard tests/lib/*.c)
TOOL_SRC := $(wildcard tests/platform/*.c)
BENCH_SRC := $(filter-out tests/bench/http.c,$(wildcard tests/bench/*.c))

LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o)
CTL_OBJ := $(CTL_SRC:%.c=$(B)/%.o)
UNITLIB_OBJ := $(UNITLIB_SRC:%.c=$(B)/%.o)
UNIT_BIN := $(UNIT_SRC:%.c=$(B)/%)
TOOL_BIN := $(TOOL_SRC:%.c=$(B)/%)
BENCH_BIN := $(BENCH_SRC:%.c=$(B)/%)
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

.PHONY: all check units test-bins fault-bin bench bench-bins demo asan tidy \
	cppcheck lint fmt install uninstall clean deps fuzz fuzz-bins
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

# What measures the daemon has nothing of it inside.
$(B)/tests/bench/%: $(B)/tests/bench/%.o $(B)/tests/bench/http.o
	$(say) LD $@
	$(Q)$(CC) $(EG_LDFLAGS) $^ -o $@

-include $(LIB_OBJ:.o=.d) $(CTL_OBJ:.o=.d) $(UNITLIB_OBJ:.o=.d) \
	$(UNIT_SRC:%.c=$(B)/%.d) $(FUZZ_SRC:%.c=$(B)/%.d) \
	$(BENCH_BIN:=.d) $(B)/tests/bench/http.d \
	$(B)/netpool/main.d

units: $(UNIT_BIN)
	@fail=0; for t in $(UNIT_BIN); do \
		echo "== $$t"; $$t || fail=1; done; exit $$fail

# What is missing is installed first, so the sources are built by a make of
# their own: this one may have been started before pkg-config was there.
deps:
	@tests/deps.sh

check: deps
	@$(MAKE) --no-print-directory all test-bins bench-bins
	@B=$(B) tests/run-tests $(T)

test-bins: $(UNIT_BIN) fault-bin

# The daemon of the tests that kill it at every step.
fault-bin:
	@$(MAKE) --no-print-directory B=$(B)/fault FAULT=1 $(B)/fault/egressd

# Figures, and nothing else, on stdout: tests/bench/run says more. ONLY=GROUP
# runs one group.
bench:
	@tests/deps.sh --bench >&2
	@$(MAKE) --no-print-directory all bench-bins >&2
	@B=$(B) tests/bench/run $(ONLY)

bench-bins: $(BENCH_BIN)

demo: deps
	@$(MAKE) --no-print-directory all
	@B=$(B) tests/demo.sh

asan:
	@$(MAKE) --no-print-directory SAN=address,undefined B=build-asan units

lint:
	@fail=0; for t in tests/lint/*.sh; do \
		echo "== $$t"; bash $$t || fail=1; done; exit $$fail

SRC := $(LIB_SRC) $(CTL_SRC) $(wildcard netpool/main.c)

tidy:
	$(say) TIDY "all sources"
	$(Q)clang-tidy --quiet $(SRC) -- $(EG_CFLAGS)

cppcheck:
	$(say) CPPCHECK "all sources"
	$(Q)cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr \
		--enable=warning,performance,portability \
		--suppress=missingIncludeSystem -I. -D_GNU_SOURCE \
		-DEG_VERSION='"$(VERSION)"' $(SRC)

fmt:
	clang-format -i $(SRC) $(wildcard netpool/*.h netpool/*/*.h rules/*.h \
		dnsguard/*.h audit/*.h tests/bench/*.[ch]) $(UNIT_SRC)

# Configuration and evidence stay where they are on uninstall.
CONF_POLICY := $(wildcard conf/policy.d/*.policy)
CONF_UNITS := $(wildcard conf/systemd/*.service)
install: all
	install -D -m 755 $(B)/egressd $(DESTDIR)$(SBINDIR)/egressd
	install -D -m 755 $(B)/egressctl $(DESTDIR)$(BINDIR)/egressctl
	install -d -m 755 $(DESTDIR)$(SYSCONFDIR)/egressd/policy.d
	@# An administrator's configuration is never overwritten.
	@for f in egressd.conf always-deny $(CONF_POLICY:conf/%=%); do \
		to=$(DESTDIR)$(SYSCONFDIR)/egressd/$$f; \
		[ -e conf/$$f ] || continue; \
		[ -e $$to ] && { echo "kept $$to"; continue; }; \
		echo "install $$to"; install -D -m 644 conf/$$f $$to; done
	$(if $(CONF_UNITS),install -D -m 644 -t $(DESTDIR)$(UNITDIR) $(CONF_UNITS))

uninstall:
	rm -f $(DESTDIR)$(SBINDIR)/egressd $(DESTDIR)$(BINDIR)/egressctl \
		$(addprefix $(DESTDIR)$(UNITDIR)/,$(notdir $(CONF_UNITS)))

# Every parser under libFuzzer for FUZZ_S seconds each (needs clang). Inputs
# that crash go to tests/bogons/ before they are fixed.
FUZZ_S ?= 60
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_BIN := $(FUZZ_SRC:%.c=$(B)/%)

$(B)/tests/fuzz/fuzz_%: $(B)/tests/fuzz/fuzz_%.o $(UNITLIB_OBJ) $(B)/libegressd.a
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
