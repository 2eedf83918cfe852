#!/usr/bin/env bash
# Switches each safety rule of raft/ off in turn and looks for a run that shows why it is there; keeps it as S<rule> in the folder PINNED
# (tests/sim/pinned). Usage: tests/sim/unsafe.sh [RULE...]; RUNS (default 3000) is how many runs a rule gets. Each rule has the faults in which its
# absence shows soonest. The same run with the rule, the control run, must violate nothing. Rules of which no run is known are named with what
# shows them instead; README.md has why. Ends with 1 when a rule was not shown, with a line of counts.
set -u
cd "$(dirname "$0")/../.." || exit 1
simulate=${BUILD:-build}/tests/sim/simulate
pinned=${PINNED:-tests/sim/pinned}
mkdir -p "$pinned" || exit 1
base="shipping_agents=0 agents=2 schedulers=1 operations_per_s=2 targets=1 storage_flaps=0 agent_crashes=0 rots=0 membership=0 wipes=0 scaling=0 operator_calls=0 alarms=0 preferred=0 streams=0 epochs=0 named=0"
quiet="crashes=0 partitions=0 disk_deaths=0 disk_errors=0 one_way=0 full_disks=0 elected=0 absent=0"
declare -A options=(
    [1]="seconds=20 bursts=60 burst_bytes=200 crashes=30 slow_in=10 slow_ms=500 unruly=1"
    [2]="seconds=20 bursts=0 overtakes=30 $quiet"
    [3]="seconds=3 bursts=0 straggler=1"
    [4]="seconds=20 bursts=60 burst_bytes=200 disk_errors=60"
    [6]="seconds=20 bursts=60 burst_bytes=200 snapshot_entries=20 unruly=1 slow_in=5 slow_ms=500"
    [8]="seconds=15 bursts=5 operations_per_s=1 snapshot_entries=2 slow_disks=100 partitions=30 crashes=60 elected=30 slow_in=200 straggler=0"
    [9]="seconds=3 bursts=0 hang=1"
    [10]="seconds=3 bursts=0 hang=0"
    [11]="seconds=4 bursts=0"
    [13]="seconds=15 bursts=30 absent=1 crashes=30 partitions=30 one_way=20 elected=40 unruly=0"
    [14]="seconds=20 bursts=60 burst_bytes=200000 crashes=30 slow_in=10 slow_ms=500"
    [15]="seconds=10 bursts=60 snapshot_entries=20 resets=60 partitions=20 crashes=20 elected=20 unruly=1"
    [16]="replicas=1 seconds=20 membership=60 bursts=10 snapshot_entries=20 crashes=30 elected=30"
    [18]="replicas=1 seconds=20 membership=60 bursts=10 crashes=30"
    [19]="replicas=1 seconds=20 membership=60 bursts=60 crashes=40 elected=60"
    [21]="seconds=3 bursts=0 hang=1"
    [20]="seconds=20 bursts=10 burst_bytes=200 crashes=20 disk_deaths=20 membership=30"
)
declare -A elsewhere=(
    [5]="no code of its own any more, nothing to switch off"
    [7]="its absence costs bytes only while S6 holds; tests/unit/raft/test_safety"
    [22]="tests/unit/raft/test_safety"
)
rules=("$@")
[ ${#rules[@]} -gt 0 ] || mapfile -t rules < <(printf '%s\n' "${!options[@]}" "${!elsewhere[@]}" | sort -n)
# The faults of a rule without it, of three members, then of five: sets log and runs. 2: the simulator does not take its arguments.
search() { # rule
    local replicas status found
    runs=0
    for replicas in 3 5; do
        # shellcheck disable=SC2086
        log=$("$simulate" seed=1 runs="${RUNS:-3000}" jobs="${JOBS:-2}" expect=1 replicas=$replicas unsafe="$1" $base ${options[$1]} 2>&1)
        status=$?
        [ $status -eq 1 ] || break
        runs=$((runs + ${RUNS:-3000}))
    done
    found=$(sed -n 's/^failed: SEED=\([0-9]*\).*/\1/p' <<< "$log" | head -n 1)
    runs=$((runs + ${found:-0}))
    return $status
}
# Sets outcome. 1: the rule was not shown.
show() { # rule
    local log runs line control status
    search "$1"
    status=$?
    line=$(sed -n 's/^options://p' <<< "$log" | head -n 1)
    if [ $status -eq 2 ] || [ -z "$line" ]; then
        outcome="nothing in $runs runs"
        [ $status -eq 1 ] || outcome="the search broke off with status $status: $(tail -n 1 <<< "$log")"
        return 1
    fi
    outcome=$(grep -m 1 -E 'violation of|event=bug' <<< "$log" || grep -m 1 'ended with signal' <<< "$log")
    # shellcheck disable=SC2086
    control=$("$simulate" ${line/ unsafe=$1 / unsafe=0 } 2>&1)
    status=$?
    case $status in
    0) ;;
    2) outcome="the simulator refuses the control run: $(tail -n 1 <<< "$control")" ;;
    *) outcome="$outcome; but with the rule that run violates something too: $(grep -m 1 'violation of' <<< "$control"); options:$line" ;;
    esac
    [ $status -eq 0 ] || return 1
    printf '# Without S%s: %s\nexpect=1%s\n' "$1" "$outcome" "$line" > "$pinned/S$1"
    outcome="run $runs: $outcome"
}
shown=0
failed=0
for rule in "${rules[@]}"; do
    if [ -n "${elsewhere[$rule]:-}" ]; then
        echo "S$rule: no run is known: ${elsewhere[$rule]}"
        continue
    fi
    if [ -z "${options[$rule]:-}" ]; then
        echo "not ok S$rule: there is no such rule"
        failed=$((failed + 1))
        continue
    fi
    started=$SECONDS
    if show "$rule"; then
        shown=$((shown + 1))
        echo "ok S$rule, $((SECONDS - started)) s, $outcome"
    else
        failed=$((failed + 1))
        echo "not ok S$rule, $((SECONDS - started)) s: $outcome"
    fi
done
echo "$shown rules shown, $failed not, $SECONDS s"
[ $failed -eq 0 ]
