#!/usr/bin/env bash
# Q-001: deterministic replay. What make test runs of the simulator, one TAP line each: some hundred short runs, of some of them that what they are drawn for did happen, the same seeds in another process, and every pinned
# run (tests/sim/pinned): a file is a line of options; those named S* switch a safety rule off and must violate something, and nothing when
# the rule is on. What a seed does changes with every change of what it runs, so the former may go on to the seeds that follow, as
# far as it takes.
# Usage: tests/sim/short.sh [few | many]; few: 40 runs, while one works; many: eight times as many of those that are drawn, for systems-long.
set -u
cd "$(dirname "$0")/../.." || exit 1
simulate=${BUILD:-build}/tests/sim/simulate
number=0
check() { # name, then options
    local name=$1 log
    shift
    number=$((number + 1))
    if log=$("$simulate" "$@" 2>&1); then
        echo "ok $number - $name: $(head -n 1 <<< "$log")"
    else
        echo "not ok $number - $name"
        sed 's/^/# /' <<< "$log" | tail -n 40
        failed=1
    fi
}
failed=0
if [ "${1:-}" = few ]; then
    check "32 short runs of three members hold every invariant" seed="${SEED:-1}" runs=32 jobs=2 seconds=12
    check "8 short runs of five members hold every invariant" seed="${SEED:-1}" runs=8 jobs=2 seconds=12 replicas=5
    echo "1..$number"
    exit $failed
fi
times=1
[ "${1:-}" != many ] || times=8
# The line of options that a run prints holds all of them, is taken back whole, and gives the same run: alone, and under another seed, which
# would draw others.
line_comes_back() { # seed
    local log line other again
    number=$((number + 1))
    log=$("$simulate" seed="$1" seconds=4 2>&1)
    line=$(sed -n 's/^options: //p' <<< "$log")
    other="seed=$(($1 + 1)) ${line#seed=* }"
    # shellcheck disable=SC2086
    again=$("$simulate" $line 2>&1; "$simulate" $other 2>&1)
    if [ -n "$line" ] && grep -qxF "$(grep '^seed=.* trace=' <<< "$log")" <<< "$again" && grep -qxF "options: $other" <<< "$again"; then
        echo "ok $number - the line that seed $1 prints gives the same run: $(wc -w <<< "$line") options"
    else
        echo "not ok $number - the line that seed $1 prints gives the same run"
        sed 's/^/# /' <<< "$log"$'\n'"$again"
        failed=1
    fi
}
line_comes_back "${SEED:-1}"
line_comes_back $((${SEED:-1} + 100))
check "short runs of three members hold every invariant" seed="${SEED:-1}" runs=$((32 * times)) jobs=2 seconds=12
check "short runs of five members hold every invariant" seed="${SEED:-1}" runs=$((12 * times)) jobs=2 seconds=12 replicas=5
check "members grow from three to five and shrink again under load" seed="${SEED:-1}" runs=$((8 * times)) jobs=2 membership=30 mistakes=15 grown=1
check "ranks meet, and jobs begin from all parts of a checkpoint and on other numbers of nodes" seed="${SEED:-1}" runs=$((48 * times)) jobs=2 ranked=1 ranks=100 scaling=90 \
    seconds=25 agents=4 shipping_agents=4 schedulers=2 targets=1 operations_per_s=16 crashes=0 drills=0 drill_trial=0 commands=0
check "jobs come back by themselves, also on spares" seed="${SEED:-1}" runs=$((16 * times)) jobs=2 returned=1 comes_back=100 seconds=25 agents=4 shipping_agents=4 schedulers=2 targets=1 \
    operations_per_s=16 crashes=0
# so many that some jobs hang whatever is drawn: a sensitive one keeps others off its nodes
check "jobs that hang are told, and restarted where they say so" seed="${SEED:-101}" runs=$((36 * times)) jobs=2 hanging=1 hung=4 ranks=100 comes_back=100 agents=4 \
    shipping_agents=4 crashes=0 agent_crashes=0 operations_per_s=4 drills=0 drill_trial=0 commands=0
for kind in leader-kill:1 leader-hang:2 member-loss:3 storage-outage:4 restore:5; do
    check "a drill of ${kind%:*} passes in a calm cluster, and somebody serves meanwhile" seed="${SEED:-1}" runs=$((2 * times)) jobs=2 drilled=1 seconds=6 drills=20 drill_trial="${kind#*:}" \
        membership=0 rots=0 wipes=0
done
check "commands save applications, fail, hang and are told to end" seed="${SEED:-1}" runs=$((12 * times)) jobs=2 commanded=1 commands=100 callers=0 regions=0 lookers=0 seconds=20 \
    agents=4 shipping_agents=4 crashes=2 older=0
check "two hours without any member leave a bounded journal, and all that happened is told" seed="${SEED:-1}" runs="$times" jobs=2 silence=7200 seconds=25 agents=3 shipping_agents=3 \
    operations_per_s=16 agent_crashes=1 crashes=0 agent_disks=0 slow_disks=0 pauses=0 streams=0 operator_calls=0 membership=0 late_writes=0 cluster_pauses=0 commands=30 older=0
check "the same seed gives the same trace in another process" seed="${SEED:-1}" runs=4 jobs=2 seconds=12 twice=1
for pinned in tests/sim/pinned/*; do
    [ -e "$pinned" ] || continue
    line=$(grep -v '^#' "$pinned")
    case $pinned in
    */S*)
        # shellcheck disable=SC2086
        check "without $(basename "$pinned") something is violated" $line runs="${FURTHER:-1000}" jobs=2
        # shellcheck disable=SC2086
        check "with $(basename "$pinned") nothing is" ${line/expect=1/} unsafe=0
        ;;
    *)
        # shellcheck disable=SC2086
        check "pinned $(basename "$pinned")" $line
        ;;
    esac
done
# A violation's replay line repeats it, whatever was given on the command line that found it.
line=$(grep -v '^#' tests/sim/pinned/S14)
# shellcheck disable=SC2086
replay=$("$simulate" $line runs="${FURTHER:-1000}" jobs=2 2>&1 | sed -n 's/^repeat with: make sim SEED=\([0-9]*\) REPLICAS=\([0-9]*\) UNSAFE=\([0-9]*\) OPTIONS="\(.*\)"$/seed=\1 replicas=\2 unsafe=\3 \4/p' | head -n 1)
# shellcheck disable=SC2086
check "the replay line of a violation repeats it" expect=1 ${replay:-unsafe=}
echo "1..$number"
exit $failed
