#!/usr/bin/env bash
# Runs test programs one after another and ends with "N passed, N failed". A program's cases are read from its output:
# cmocka's "[       OK ]" and "[  FAILED  ]", or TAP's "ok" and "not ok" (with "# SKIP"). A program that exits non-zero, or that
# reports no case at all, counts as one failure; one that does not end within TEST_TIMEOUT_S (900) is ended and has failed.
set -u
passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for program in "$@"; do
    started=$(date +%s%N)
    timeout -k 10 "${TEST_TIMEOUT_S:-900}" "$program" > "$log" 2>&1 < /dev/null
    status=$?
    if [ $status -eq 124 ]; then echo "it did not end within ${TEST_TIMEOUT_S:-900} s" >> "$log"; fi
    ok=$(grep -cE '^\[       OK \]|^ok ' "$log")
    skip=$(grep -cE '^\[  SKIPPED \]|^ok .*# SKIP' "$log")
    tap_skip=$(grep -cE '^ok .*# SKIP' "$log")
    bad=$(grep -E '^\[  FAILED  \] [a-z_A-Z0-9]+$|^not ok ' "$log" | sort -u | wc -l) # cmocka names a failed case twice
    ok=$((ok - tap_skip))
    if [ $status -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
    if [ $status -eq 0 ] && [ $((ok + bad + skip)) -eq 0 ]; then bad=1; echo "no test case ran" >> "$log"; fi
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
    printf '%s %s: %d passed, %d failed, %d skipped (%d ms)\n' "$([ "$bad" -eq 0 ] && echo PASS || echo FAIL)" \
        "${program#"$PWD"/}" "$ok" "$bad" "$skip" $((($(date +%s%N) - started) / 1000000))
    grep -E '# SKIP' "$log"
    if [ "$bad" -ne 0 ]; then sed 's/^/    /' "$log" | tail -n 80; fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
