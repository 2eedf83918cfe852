#!/usr/bin/env bash
# Q-001: shows that the checks of the simulator can fail. Each tests/sim/mutants/NAME.patch breaks the product in one way; the program built from
# a copy with it must find a violation of what the patch names behind "finds:", with its "options:", within RUNS runs, or its own "runs:".
# Usage: tests/sim/mutants.sh [NAME...]; RUNS (300), JOBS (2), SEED (1).
set -u
cd "$(dirname "$0")/../.." || exit 1
base=$PWD
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
names=("$@")
[ ${#names[@]} -gt 0 ] || mapfile -t names < <(cd tests/sim/mutants && printf '%s\n' *.patch | sed 's/\.patch$//')
cp -a Makefile fsm raft src proto tests "$scratch" || exit 1
[ ! -d "${BUILD:-build}" ] || cp -a "${BUILD:-build}" "$scratch/build" || exit 1 # what has not changed is not built again
cd "$scratch" || exit 1
number=0
failed=0
not_ok() { # name, why
    echo "not ok $number - $1: $2"
    failed=1
}
try() { # name
    local patch=$base/tests/sim/mutants/$1.patch finds options runs log found first=${SEED:-1} seed
    finds=$(sed -n 's/^finds: //p' "$patch")
    options=$(sed -n 's/^options: //p' "$patch")
    runs=$(sed -n 's/^runs: //p' "$patch")
    runs=${runs:-${RUNS:-300}}
    if ! make -j"${JOBS:-2}" BUILD=build WARN= build/tests/sim/simulate > build.log 2>&1; then
        not_ok "$1" "does not build: $(grep -m 1 error build.log)"
        return
    fi
    # shellcheck disable=SC2086
    log=$(build/tests/sim/simulate seed="$first" runs="$runs" jobs="${JOBS:-2}" expect=1 $options 2>&1)
    found=$(grep -m 1 -oE 'violation of .*|event=bug .*|ended with signal.*' <<< "$log")
    seed=$(sed -n 's/^failed: SEED=\([0-9]*\).*/\1/p' <<< "$log" | head -n 1)
    if grep -qE "violation of ($finds) |violation of fsm_check.*: ($finds) |event=bug .*($finds)" <<< "$log"; then
        echo "ok $number - $1, run $((seed - first + 1)): $found"
    else
        not_ok "$1" "${found:-nothing in $runs runs}"
    fi
}
for name in "${names[@]}"; do
    number=$((number + 1))
    # exactly where it was drawn: with some tolerance it may land in another function
    if patch -p1 -s -F0 < "$base/tests/sim/mutants/$name.patch"; then
        try "$name"
    else
        not_ok "$name" "the patch does not apply"
    fi
    while read -r file; do # as it was, and newer than what was built of it
        cp "$base/$file" "$file" && rm -f "$file.orig" "$file.rej"
    done < <(sed -n 's#^--- a/##p' "$base/tests/sim/mutants/$name.patch")
done
echo "1..$number"
exit $failed
