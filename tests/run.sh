#!/usr/bin/env bash
# Runs test programs and ends with "N passed, N failed": JOBS (1) at a time, and beside them those of tests/integration and
# tests/systems, WAITING_JOBS (JOBS) at a time: these wait for real processes and take next to no CPU. The others run at a lower
# priority, since those measure times. A program's cases are read from its output: cmocka's "[       OK ]" and "[  FAILED  ]", or
# TAP's "ok" and "not ok" (with "# SKIP"). A program that exits non-zero, or that reports no case at all, counts as one failure;
# one that does not end within TEST_TIMEOUT_S (900) is ended and has failed.
# A program that waits for real time and failed beside others runs its failed cases once more, alone, as soon as all others have ended,
# and that counts: their limits are of a machine that does nothing else. Both outcomes are printed. More than AGAIN_MAX such programs are
# no accident, and count as they came.
set -u
AGAIN_MAX=3
folder=$(mktemp -d)
touch "$folder/counts" "$folder/counts_again" "$folder/again"
trap 'rm -rf "$folder"' EXIT
trap 'trap - TERM; kill $(jobs -p) 2> /dev/null; wait; exit 130' INT TERM

# Prints what came of one program in one piece, as one line unless it failed, and adds its counts to those of the others. $2 names its
# log. Given a case, $3, it runs again: that one alone, or all of them (".").
run_one() {
    local program=$1 log=$folder/$2 case=${3:-} started status=0 ok skip tap_skip bad names place word=PASS
    started=$(date +%s%N)
    timeout -k 10 "${TEST_TIMEOUT_S:-900}" "$program" ${case:+${case#.}} > "$log" 2>&1 < /dev/null &
    trap 'kill '$!' 2> /dev/null; wait; exit 130' TERM
    wait $! || status=$?
    if [ $status -eq 124 ]; then echo "it did not end within ${TEST_TIMEOUT_S:-900} s" >> "$log"; fi
    ok=$(grep -cE '^\[       OK \]|^ok ' "$log")
    skip=$(grep -cE '^\[  SKIPPED \]|^ok .*# SKIP' "$log")
    tap_skip=$(grep -cE '^ok .*# SKIP' "$log")
    bad=$(grep -E '^\[  FAILED  \] [a-z_A-Z0-9]+$|^not ok ' "$log" | sort -u | wc -l) # cmocka names a failed case twice
    ok=$((ok - tap_skip))
    if [ $status -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
    if [ $status -eq 0 ] && [ $((ok + bad + skip)) -eq 0 ]; then bad=1; echo "no test case ran" >> "$log"; fi
    if [ "$bad" -ne 0 ]; then word=FAIL; fi
    if [ "$bad" -ne 0 ] && [ "${2%.*}" = waiting ] && [ "$beside" -gt 1 ]; then word=AGAIN; fi
    {
        flock 9
        printf -v place '%*d of %d' ${#programs} $(($(wc -l < "$folder/counts") + 1)) "$programs"
        if [ -n "$case" ]; then place=alone; fi
        printf '[%s] %s %s: %d passed, %d failed, %d skipped (%d ms)\n' "$place" $word "${program#"$PWD"/}${case:+ ${case#.}}" "$ok" \
            "$bad" "$skip" $((($(date +%s%N) - started) / 1000000))
        grep -E '# SKIP' "$log"
        if [ "$bad" -ne 0 ]; then sed 's/^/    /' "$log" | tail -n 80; fi
        if [ $word = AGAIN ]; then
            names=$(sed -nE 's/^not ok ([a-z_A-Z0-9]+).*/\1/p' "$log" | xargs)
            echo "$bad $program ${names:-.}" >> "$folder/again"
            if [ -z "$names" ]; then ok=0 skip=0; fi # it broke off: all of its cases run again
            bad=0
        fi
        echo "$ok $bad $skip" >> "$folder/counts${case:+_again}"
    } 9>> "$folder/lock"
    rm -f "$log"
}

# Runs the programs of one kind, $2 at a time; $1 names their logs.
run_all() {
    local kind=$1 at_once=$2 number=0 program
    shift 2
    trap 'trap - TERM; kill $(jobs -p) 2> /dev/null; wait; exit 130' TERM
    for program in "$@"; do
        while [ "$(jobs -rp | wc -l)" -ge "$at_once" ]; do wait -n; done
        number=$((number + 1))
        run_one "$program" "$kind.$number" &
    done
    wait
}

programs=$#
beside=${WAITING_JOBS:-${JOBS:-1}}
waiting=()
computing=()
for program in "$@"; do
    case $program in
    */integration/* | */systems/*) waiting+=("$program") ;;
    *) computing+=("$program") ;;
    esac
done
if [ ${#waiting[@]} -gt 0 ]; then run_all waiting "$beside" "${waiting[@]}" & fi
if [ ${#computing[@]} -gt 0 ]; then
    if [ ${#waiting[@]} -gt 0 ]; then renice -n 10 $BASHPID > /dev/null; fi
    run_all computing "${JOBS:-1}" "${computing[@]}" &
fi
wait
beside=1
while read -r bad program names; do
    if [ "$(wc -l < "$folder/again")" -gt $AGAIN_MAX ]; then
        echo "0 $bad 0" >> "$folder/counts_again"
        continue
    fi
    echo "failed beside others, runs again alone: ${program#"$PWD"/} ${names#.}"
    for name in $names; do run_one "$program" alone "$name"; done
done < "$folder/again"
awk -v programs="$programs" '{ ok += $1; bad += $2; skip += $3 } FILENAME !~ /_again$/ { ended++ }
    END { bad += programs - ended; printf "%d passed, %d failed, %d skipped\n", ok, bad, skip; exit bad > 0 || ok == 0 }' \
    "$folder/counts" "$folder/counts_again"
