#!/usr/bin/env bash
# Runs test programs and ends with "N passed, N failed": JOBS (1) at a time, and beside them those of tests/integration and
# tests/systems, WAITING_JOBS (JOBS) at a time: these wait for real processes and take next to no CPU. The others run at a lower
# priority, since those measure times. A program's cases are read from its output: cmocka's "[       OK ]" and "[  FAILED  ]", or
# TAP's "ok" and "not ok" (with "# SKIP"). A program that exits non-zero, or that reports no case at all, counts as one failure;
# one that does not end within TEST_TIMEOUT_S (900) is ended and has failed.
# A program that waits for real time and failed beside others runs once more when all have ended, alone, and that counts: its limits
# are of a machine that does nothing else. Both outcomes are printed. More than AGAIN_MAX such failures are no accident, and count.
set -u
AGAIN_MAX=3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'trap - TERM; kill $(jobs -p) 2> /dev/null; wait; exit 130' INT TERM

# Prints what came of one program in one piece, as one line unless it failed, and adds its counts to those of the others.
run_one() {
    local program=$1 log=$folder/$2 started status=0 ok skip tap_skip bad word=PASS
    started=$(date +%s%N)
    timeout -k 10 "${TEST_TIMEOUT_S:-900}" "$program" > "$log" 2>&1 < /dev/null &
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
        printf '[%*d of %d] %s %s: %d passed, %d failed, %d skipped (%d ms)\n' ${#programs} \
            $(($(wc -l < "$folder/counts") + 1)) "$programs" "$word" \
            "${program#"$PWD"/}" "$ok" "$bad" "$skip" $((($(date +%s%N) - started) / 1000000))
        grep -E '# SKIP' "$log"
        if [ "$bad" -ne 0 ]; then sed 's/^/    /' "$log" | tail -n 80; fi
        if [ $word = AGAIN ]; then printf '%s\t%s\n' "$ok $bad $skip" "$program" >> "$folder/again"; else echo "$ok $bad $skip" >&9; fi
    } 9>> "$folder/counts"
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
touch "$folder/counts" "$folder/again"
if [ "$(wc -l < "$folder/again")" -gt $AGAIN_MAX ]; then
    cut -f 1 "$folder/again" >> "$folder/counts"
else
    mapfile -t programs_again < <(cut -f 2 "$folder/again")
    beside=1
    if [ ${#programs_again[@]} -gt 0 ]; then run_all waiting 1 "${programs_again[@]}"; fi
    for program in ${programs_again[@]+"${programs_again[@]}"}; do echo "failed beside others, ran again alone: ${program#"$PWD"/}"; done
fi
awk -v programs="$programs" '{ ok += $1; bad += $2; skip += $3 }
    END { bad += programs - NR; printf "%d passed, %d failed, %d skipped\n", ok, bad, skip; exit bad > 0 || ok == 0 }' "$folder/counts"
