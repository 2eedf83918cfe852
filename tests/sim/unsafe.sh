#!/usr/bin/env bash
# Switches each safety rule of raft/ off in turn and looks for a run that shows why it is there; keeps it in tests/sim/pinned/S<rule>.
# Usage: tests/sim/unsafe.sh [RULE...]; RUNS (default 2000) is how many runs a rule gets. Rules without a line here, or without a
# finding, are explained in tests/sim/README.md.
set -u
cd "$(dirname "$0")/../.." || exit 1
simulate=${BUILD:-build}/tests/sim/simulate
log="shipping_agents=0 agents=2 schedulers=1 operations_per_s=2 targets=1 storage_flaps=0 agent_crashes=0 rots=0 membership=0 seconds=20"
declare -A options=(
    [1]="$log bursts=60 burst_bytes=200 crashes=30 slow_in=10 slow_ms=500 unruly=1"
    [2]="$log bursts=60 burst_bytes=200 crashes=60 disk_deaths=40 slow_in=5 slow_ms=500 unruly=1"
    [3]="$log bursts=100 burst_bytes=200 slow_disks=20 crashes=30"
    [4]="$log bursts=60 burst_bytes=200 disk_errors=60"
    [5]="$log bursts=60 burst_bytes=200 crashes=30 disk_deaths=20 unruly=1"
    [6]="$log bursts=60 burst_bytes=200 snapshot_entries=20 unruly=1 slow_in=5 slow_ms=500"
    [7]="$log bursts=60 burst_bytes=200 snapshot_entries=20 slow_in=5 slow_ms=500 partitions=20 resets=30"
    [8]="$log bursts=60 burst_bytes=200 snapshot_entries=20 slow_disks=20 partitions=20 crashes=20"
    [9]="$log bursts=0 seconds=4"
    [11]="$log bursts=0 seconds=4"
    [13]="$log bursts=30 burst_bytes=200 partitions=30 one_way=30"
    [14]="$log bursts=60 burst_bytes=200000 crashes=30 slow_in=10 slow_ms=500"
    [15]="$log bursts=60 burst_bytes=200 snapshot_entries=20 partitions=20 unruly=1"
    [18]="$log membership=30 bursts=10 burst_bytes=200 crashes=20"
    [19]="$log membership=30 bursts=10 burst_bytes=200 crashes=20 disk_deaths=20"
)
rules=("$@")
[ ${#rules[@]} -gt 0 ] || mapfile -t rules < <(printf '%s\n' "${!options[@]}" | sort -n)
for rule in "${rules[@]}"; do
    for replicas in 3 5; do
        # shellcheck disable=SC2086
        found=$("$simulate" seed=1 runs="${RUNS:-2000}" jobs="${JOBS:-2}" expect=1 replicas=$replicas unsafe="$rule" ${options[$rule]} 2>&1) && break
    done
    line=$(grep -m 1 '^options:' <<< "$found")
    if [ -z "$line" ]; then
        echo "S$rule: nothing in $((2 * ${RUNS:-2000})) runs; see tests/sim/README.md"
        continue
    fi
    what=$(grep -m 1 -E 'violation of|event=bug|ended with signal' <<< "$found")
    printf '# Without S%s: %s\nexpect=1%s\n' "$rule" "${what//$'\n'/ }" "${line#options:}" > "tests/sim/pinned/S$rule"
    echo "S$rule: $what"
done
