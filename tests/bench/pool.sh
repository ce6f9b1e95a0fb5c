# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Group pool: filling it, and what it takes to keep.
#
# egressd and the floor (floor.c) take turns, each in a world of its own, the
# kernel quiet before each; the best of each side is compared. Time is wall
# time from the start of the process until the last slot stands, gateways and
# start included on both sides; pool.fill_cpu compares the processor time of
# the processes instead, which neighbours on the machine disturb less. Small
# pools are daemons and floors of that size, not pieces of the large one.
#
# machine_busy_s in the JSON file is what all of the machine's processors did
# meanwhile: far above cpu_s, somebody else was at it, too.
#
# Memory is what the kernel has and nobody else: MemTotal - MemFree - Buffers -
# Cached - AnonPages, caches dropped, with the whole pool up, over the same
# just before. The JSON file has the parts (slab, percpu, ...).

# ---- in a world ---------------------------------------------------------------------

pool_floor() { # TAG SLOTS
	local tag=$1 busy
	memory "$RAW/$tag.before"
	mkfifo $W/hold && exec 9<>$W/hold || die "mkfifo"
	busy=$(busy_ns)
	"$TOOLS/floor" "$2" <$W/hold >"$RAW/$tag.marks" &
	wait_for $FILL_S grep -q '^done' "$RAW/$tag.marks" ||
		die "the floor did not fill"
	echo "busy $(($(busy_ns) - busy))" >>"$RAW/$tag.marks"
	memory "$RAW/$tag.full"
}

pool_egressd() { # TAG SLOTS
	local tag=$1
	bench_conf "$2"
	memory "$RAW/$tag.before"
	bench_fill "$2" "$RAW/$tag.marks" || die "the pool did not fill"
	daemon_rss >"$RAW/$tag.rss"
	for p in $(daemon_pids); do
		echo "== $(tr '\0' ' ' <"/proc/$p/cmdline")"
		cat "/proc/$p/status"
		ls /proc/"$p"/fd | wc -l
	done >"$RAW/$tag.status"
	curl -s --unix-socket $READ http://egressd/v1/pool >"$RAW/$tag.pool.json"
	memory "$RAW/$tag.full"
	cp "$DAEMON_LOG" "$RAW/$tag.egressd.log"
}

# ---- what came of it ------------------------------------------------------------------

# at MARKS COUNT: seconds at which that many stood, between two marks if need be
at() {
	awk -v n="$2" '$1 == "mark" {
		if ($2 >= n) {
			if ($2 > n && n > 0)
				$3 = t + ($3 - t) * (n - c) / ($2 - c)
			printf "%.6f\n", $3 / 1e9
			found = 1
			exit
		}
		c = $2; t = $3
	} END { if (!found) print "-" }' "$1" 2>/dev/null || echo -
}

# first MARKS: seconds at which the first stood
first() {
	awk '$1 == "mark" && $2 > 0 { printf "%.6f %d\n", $3 / 1e9, $2; f = 1; exit }
		END { if (!f) print "- -" }' "$1" 2>/dev/null || echo - -
}

# seconds MARKS cpu|busy: of the processes, of the machine's processors
seconds() {
	grep -qs '^done' "$1" || { echo -; return; }
	awk -v k="$2" '$1 == k { printf "%.6f\n", $2 / 1e9; f = 1 }
		END { if (!f) print "-" }' "$1"
}

# Second half over first half of a fill: "SECOND FIRST" in seconds. What came
# before the first slot belongs to neither.
halves() { # MARKS SLOTS
	local mid last zero
	mid=$(at "$1" $(($2 / 2)))
	last=$(at "$1" "$2")
	read -r zero _ <<<"$(first "$1")"
	[ "$mid" != - ] && [ "$last" != - ] && [ "$zero" != - ] || { echo - -; return; }
	awk -v a="$zero" -v b="$mid" -v c="$last" 'BEGIN { printf "%.3f %.3f\n", c - b, b - a }'
}

# kernel TAG: kB the kernel took between before and full, and the parts, as JSON
kernel() {
	awk 'function used(f) {
			u = v[f, "MemTotal"] - v[f, "MemFree"] - v[f, "Buffers"]
			return u - v[f, "Cached"] - v[f, "AnonPages"]
		}
		FNR == 1 { f++ }
		{ sub(":", "", $1); v[f, $1] = $2 }
		f == 2 && $1 !~ /^(Mem|Swap|Huge|Direct|Commit)/ { name[++n] = $1 }
		END {
			printf "{\"kernel_kB\": %d", used(2) - used(1)
			for (i = 1; i <= n; i++)
				if (v[2, name[i]] != v[1, name[i]])
					printf ", \"%s\": %d", name[i], v[2, name[i]] - v[1, name[i]]
			print "}"
		}' "$RAW/$1.before" "$RAW/$1.full"
}

# One measurement of one side. Where others made or ended namespaces beside it,
# the memory is not ours alone: then it is measured once more.
pool_one() { # SIDE SLOTS ROUND
	local tag=pool-$1-$2-$3 try again='' n
	for try in 1 2; do
		settle
		room "$2" || return 1
		progress "$1, $2 slots, round $3${again:+, again}"
		in_world "$tag" "pool_$1" "$tag" "$2" || return 1
		[ "$SETTLE_S" -gt 0 ] || return 0
		n=$(kernel "$tag" | $EG get NetNamespaces)
		[ "${n%.*}" -gt $(($2 * 102 / 100 + 100)) ] || [ "${n%.*}" -lt "$2" ] || return 0
		progress "others made or ended namespaces meanwhile ($n instead of $2)"
		again=1
	done
	note "disturbed.$tag" true
}

pool_rounds() { # SLOTS ROUNDS
	local r
	for ((r = 1; r <= $2; r++)); do
		pool_one floor "$1" $r
		pool_one egressd "$1" $r
	done
}

# best SIDE SLOTS ROUNDS: tag of the fastest
best() {
	local r tag t
	for ((r = 1; r <= $3; r++)); do
		tag=pool-$1-$2-$r
		t=$(at "$RAW/$tag.marks" "$2")
		[ "$t" = - ] || echo "$t $tag"
	done | sort -g | head -n 1 | cut -d' ' -f2 | grep . || echo "pool-$1-$2-1"
}

us() { [ "$1" = - ] && echo - || awk -v s="$1" -v n="$2" 'BEGIN { printf "%.1f\n", s * 1e6 / n }'; }

fill_note() { # SIDE SLOTS ROUNDS
	local r tag marks second firsth zero
	for ((r = 1; r <= $3; r++)); do
		tag=pool-$1-$2-$r
		marks=$RAW/$tag.marks
		[ -s "$RAW/$tag.full" ] || continue
		read -r second firsth <<<"$(halves "$marks" "$2")"
		read -r zero _ <<<"$(first "$marks")"
		note "$1.$2.round$r" "$(json wall_s "$(at "$marks" "$2")" \
			cpu_s "$(seconds "$marks" cpu)" \
			machine_busy_s "$(seconds "$marks" busy)" \
			first_slot_s "$zero" first_half_s "$firsth" \
			second_half_s "$second" memory_kB "$(kernel "$tag")")"
	done
}

fill_figure() { # NAME SLOTS ROUNDS TARGET
	local e f
	e=$(us "$(at "$RAW/$(best egressd "$2" "$3").marks" "$2")" "$2")
	f=$(us "$(at "$RAW/$(best floor "$2" "$3").marks" "$2")" "$2")
	figure "$1" "$e" us/slot "$f" "$(ratio "$e" "$f")" "$4"
}

per_slot_kB() { # SIDE SLOTS ROUNDS: the least of its rounds
	local r all=()
	for ((r = 1; r <= $3; r++)); do
		[ -s "$RAW/pool-$1-$2-$r.full" ] || continue
		all+=("$(kernel "pool-$1-$2-$r" | $EG get kernel_kB)")
	done
	r=$(least "${all[@]:--}")
	[ "$r" = - ] && echo - || awk -v k="$r" -v n="$2" 'BEGIN { printf "%.1f\n", k / n }'
}

bench_pool() {
	local n=$SLOTS e f ec fc size rss pss second firsth
	local small=()
	for size in $((n / 64)) $((n / 16)) $((n / 4)); do
		[ $size -lt 1 ] || small+=($size)
	done
	for size in "${small[@]}"; do
		pool_rounds $size "$ROUNDS"
	done
	pool_rounds "$n" "$ROUNDS"

	fill_figure pool.fill "$n" "$ROUNDS" '<=1.25'
	e=$(best egressd "$n" "$ROUNDS")
	f=$(best floor "$n" "$ROUNDS")
	ec=$(seconds "$RAW/$e.marks" cpu)
	fc=$(seconds "$RAW/$f.marks" cpu)
	figure pool.fill_cpu "$(us "$ec" "$n")" us/slot "$(us "$fc" "$n")" \
		"$(ratio "$ec" "$fc")" -
	read -r second firsth <<<"$(halves "$RAW/$e.marks" "$n")"
	figure pool.growth "$second" s "$firsth" "$(ratio "$second" "$firsth")" '<=1.2'
	e=$(per_slot_kB egressd "$n" "$ROUNDS")
	f=$(per_slot_kB floor "$n" "$ROUNDS")
	figure pool.memory "$e" kB/slot "$f" "$(ratio "$e" "$f")" '<=1.05'
	read -r rss pss <<<"$(cat "$RAW/$(best egressd "$n" "$ROUNDS").rss" 2>/dev/null || echo - -)"
	[ "$rss" = - ] || rss=$(awk -v k="$rss" 'BEGIN { printf "%.1f\n", k / 1024 }')
	figure pool.rss "$rss" MiB - - '<=64MiB'
	note pss "$(json kB "$pss")"
	for size in "${small[@]}" "$n"; do
		fill_figure "pool.fill_$size" "$size" "$ROUNDS" -
		fill_note floor "$size" "$ROUNDS"
		fill_note egressd "$size" "$ROUNDS"
	done
}
