#!/usr/bin/env bash
# Q-001: shows that the checks of the simulator can fail. Each tests/sim/mutants/NAME.patch breaks the product in one way; the program built from
# a copy with it must find a violation of what the patch names behind "finds:", with its "options:", within RUNS runs, or its own "runs:". Runs
# in which something else is found first count among them.
# Usage: tests/sim/mutants.sh [NAME...]; RUNS (300), JOBS (2) mutants at a time, each in a copy of its own, SEED (1). A line for each as it ends,
# and one of counts. With --one it does NAME in the copy of its place, COPY.
set -u
cd "$(dirname "$0")/../.." || exit 1
base=$PWD
simulate=build/tests/sim/simulate

verdict() { # ok or not ok, what
    echo "$1 - $name, $((SECONDS - started)) s: $2"
    [ "$1" = ok ]
}
find_it() { # in the copy with the mutant
    local patch=$base/tests/sim/mutants/$name.patch finds options runs log status found other='' first=${SEED:-1} next seed
    finds=$(sed -n 's/^finds: //p' "$patch")
    options=$(sed -n 's/^options: //p' "$patch")
    runs=$(sed -n 's/^runs: //p' "$patch")
    runs=${runs:-${RUNS:-300}}
    if ! make BUILD=build WARN= $simulate > build.log 2>&1; then
        verdict "not ok" "does not build: $(grep -m 1 error build.log)"
        return
    fi
    next=$first
    while [ $((next - first)) -lt "$runs" ]; do # a run that another check ends first is none of those that are asked for
        # shellcheck disable=SC2086
        log=$($simulate seed="$next" runs=$((runs - (next - first))) expect=1 $options 2>&1)
        status=$?
        found=$(grep -m 1 -oE 'violation of .*|event=bug .*|ended with signal.*' <<< "$log")
        seed=$(sed -n 's/^failed: SEED=\([0-9]*\).*/\1/p' <<< "$log" | head -n 1)
        if [ $status -eq 2 ]; then
            verdict "not ok" "$(tail -n 1 <<< "$log")" # the simulator does not take its options
            return
        elif grep -qE "violation of ($finds) |violation of fsm_check.*: ($finds) |event=bug .*($finds)" <<< "$log"; then
            verdict ok "run $((seed - first + 1)): $found"
            return
        fi
        other=${other:-$found}
        [ -n "$seed" ] || break
        next=$((seed + 1))
    done
    verdict "not ok" "${other:+not that, but }${other:-nothing in $runs runs}"
}
# What the mutant changed and what was built of it is again as in the copy that all were made of.
mend_copy() {
    local file
    while read -r file; do
        rm -f "$file.orig" "$file.rej"
        cp -p "../pristine/$file" "$file"
    done < <(sed -n 's#^--- a/##p' "$base/tests/sim/mutants/$name.patch")
    while read -r file; do
        if [ -e "../pristine/$file" ]; then cp -p "../pristine/$file" "$file"; else rm -f "$file"; fi
    done < <(find build -type f -newer started)
}
if [ "${1-}" = --one ]; then
    name=$2
    started=$SECONDS
    cd "$SCRATCH/copy${COPY:?}" || exit 1
    touch started
    # exactly where it was drawn: with some tolerance it may land in another function
    if patch -p1 -s -F0 < "$base/tests/sim/mutants/$name.patch" > patch.log 2>&1; then
        find_it
    else
        verdict "not ok" "the patch does not apply: $(tail -n 1 patch.log)"
    fi
    status=$?
    mend_copy
    exit $status
fi

jobs=${JOBS:-2}
SCRATCH=$(mktemp -d) || exit 1
export SCRATCH
trap 'rm -rf "$SCRATCH"' EXIT
trap 'exit 130' INT TERM
names=("$@")
for name in "${names[@]}"; do
    [ -e "tests/sim/mutants/$name.patch" ] || { echo "there is no mutant $name in tests/sim/mutants" >&2; exit 2; }
done
if [ ${#names[@]} -eq 0 ]; then # those with the most runs first, so that none of them is left over at the end
    mapfile -t names < <(cd tests/sim/mutants && { grep -l '^runs:' ./*.patch; grep -L '^runs:' ./*.patch; } | sed 's#^\./##; s/\.patch$//')
fi
mkdir -p "$SCRATCH/pristine/build/tests"
cp -a Makefile deploy fsm raft src proto tests "$SCRATCH/pristine" || exit 1
for part in gen lib fsm raft src tests/sim; do # what has not changed is not built again; other builds may lie in the same folder
    [ ! -e "${BUILD:-build}/$part" ] || cp -a "${BUILD:-build}/$part" "$SCRATCH/pristine/build/$part" || exit 1
done
make -C "$SCRATCH/pristine" -j"$jobs" BUILD=build WARN= $simulate > "$SCRATCH/build.log" 2>&1 || { tail "$SCRATCH/build.log"; exit 1; }
for copy in $(seq 0 $((jobs - 1))); do
    cp -a "$SCRATCH/pristine" "$SCRATCH/copy$copy" || exit 1
done
printf '%s\n' "${names[@]}" | xargs -P "$jobs" -n 1 --process-slot-var=COPY "$base/tests/sim/mutants.sh" --one > >(tee "$SCRATCH/verdicts") &
wait $!
status=$?
wait
found=$(grep -c '^ok ' "$SCRATCH/verdicts")
echo "1..${#names[@]}"
echo "$found mutants found, $((${#names[@]} - found)) not, $SECONDS s"
[ $status -eq 0 ] && [ "$found" -eq ${#names[@]} ]
