#!/usr/bin/env bash
# What proves the tests and takes too long for `make test`: the safety rules switched off one by one, the product broken by each mutant, the unit
# tests under three sanitizers, libFuzzer on each target. Prints a line for each step with its time and verdict, and a summary; ends with 1 when
# one failed. What cannot be had here is skipped, with the reason.
# Usage: tests/long.sh [STEP...], all of them by default; names may be patterns: tests/long.sh asan 'fuzz-*'. Logs are in $BUILD/long.
# Environment: BUILD (build), JOBS (the number of cores), FUZZ_S (120) for each fuzz target, RUNS (those of sim-unsafe and sim-mutants).
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
JOBS=${JOBS:-$(nproc)}
FUZZ_S=${FUZZ_S:-120}
export BUILD JOBS
logs=$BUILD/long
mkdir -p "$logs/pinned" || exit 1
make=(make --no-print-directory -j"$JOBS" BUILD="$BUILD")

# name, the most seconds that it may take, what it needs, the command; each uses all cores. Who reaches the limit hangs: on two quiet cores
# sim-unsafe takes about a minute, the others minutes.
steps=(
    "systems-rest 7200 nothing          ${make[*]} systems-rest"
    "check-time  1800 nothing           tests/check_time.sh"
    "lint        300 nothing           env LONG=1 tests/lint/lint.sh $BUILD"
    "unit       1200 nothing           env LONG=1 ${make[*]} ALL=1 unit"
    "sim-short    600 nothing           tests/sim/short.sh many"
    "sim-many    1200 nothing           ${make[*]} sim-many"
    "sim-unsafe  1200 nothing           ${make[*]} PINNED=$logs/pinned sim-unsafe"
    "sim-mutants 4800 nothing           ${make[*]} sim-mutants"
    "asan        3600 sanitizer:address ${make[*]} asan"
    "ubsan       3600 sanitizer:undefined ${make[*]} ubsan"
    "tsan        7200 sanitizer:thread  ${make[*]} tsan"
    "fuzzers     2400 libfuzzer         ${make[*]} fuzzers"
)
# One core each: as many at a time as there are cores. A target stops when its time is over, and a hang of one input is its own limit's.
targets=()
for source in tests/fuzz/fuzz_*.c; do
    target=${source##*/fuzz_}
    targets+=("${target%.c}")
done

wanted() { # name
    local pattern
    [ ${#patterns[@]} -gt 0 ] || return 0
    for pattern in "${patterns[@]}"; do
        # shellcheck disable=SC2053
        [[ $1 == $pattern ]] && return 0
    done
    return 1
}
# Prints why what a step needs cannot be had; nothing: it can. A program is built and run, since a compiler may lack its libraries, and a
# sanitizer may not like the kernel's layout of memory.
lacks() { # nothing, sanitizer:NAME or libfuzzer
    local program=$logs/probe.$BASHPID compiler=${CC:-gcc} flags why
    case $1 in
    nothing) return ;;
    sanitizer:*)
        flags=-fsanitize=${1#*:}
        echo 'int main(void) { return 0; }' > "$program.c"
        ;;
    libfuzzer)
        compiler=clang
        flags=-fsanitize=fuzzer,address
        command -v clang > /dev/null || { echo "clang is not installed; apt-get install clang"; return; }
        echo 'int LLVMFuzzerTestOneInput(const unsigned char *bytes, unsigned long length) { return (void)bytes, (void)length, 0; }' > "$program.c"
        ;;
    esac
    # shellcheck disable=SC2086
    if ! why=$($compiler $flags -o "$program" "$program.c" 2>&1); then
        echo "$compiler $flags does not link: $(head -n 1 <<< "$why")"
    elif ! why=$("$program" -runs=1 2>&1); then
        echo "a program of $compiler $flags does not run here: $(head -n 1 <<< "$why")"
    fi
    rm -f "$program" "$program.c"
}
tell() { # verdict, name, seconds, more
    {
        flock 9
        printf '[%*d of %d] %s %s: %d s%s\n' ${#total} $(($(wc -l < "$logs/verdicts") + 1)) "$total" "$1" "$2" "$3" "${4:+: $4}"
        [ "$1" != FAIL ] || tail -n 40 "$logs/$2.log" | sed 's/^/    /'
        echo "$1" >> "$logs/verdicts"
    } 9>> "$logs/lock"
}
run_step() { # name, the most seconds, need, command...
    local name=$1 limit_s=$2 need=$3 started=$SECONDS status=0 why
    shift 3
    why=$(lacks "$need")
    if [ -n "$why" ]; then
        tell SKIP "$name" 0 "$why"
        return 1
    fi
    timeout -k 30 "$limit_s" "$@" > "$logs/$name.log" 2>&1 < /dev/null &
    trap 'kill '$!' 2> /dev/null; wait; exit 130' TERM
    wait $! || status=$?
    [ $status -ne 124 ] || echo "it did not end within $limit_s s" >> "$logs/$name.log"
    if [ $status -eq 0 ]; then
        tell PASS "$name" $((SECONDS - started)) "$(tail -n 1 "$logs/$name.log")"
        return 0
    fi
    tell FAIL "$name" $((SECONDS - started)) "status $status"
    return 1
}
fuzz() { # target
    local corpus=$BUILD/corpus/$1 program=$BUILD/libfuzzer/tests/fuzz/fuzz_$1
    if [ "$fuzzers" != ok ] || [ ! -x "$program" ]; then # an old one proves nothing
        tell SKIP "fuzz-$1" 0 "its program is not built: see fuzzers"
        return
    fi
    mkdir -p "$corpus"
    run_step "fuzz-$1" $((FUZZ_S * 4 + 60)) nothing "$program" -max_total_time="$FUZZ_S" -print_final_stats=0 -verbosity=1 \
        -artifact_prefix="$corpus." "$corpus"
}

patterns=("$@")
trap 'trap - TERM; kill $(jobs -p) 2> /dev/null; wait; exit 130' INT TERM
total=0
for step in "${steps[@]}"; do wanted "${step%% *}" && total=$((total + 1)); done
for target in "${targets[@]}"; do wanted "fuzz-$target" && total=$((total + 1)); done
[ "$total" -gt 0 ] || { echo "there is no such step: $*" >&2; exit 2; }
: > "$logs/verdicts"
fuzzers=ok
for step in "${steps[@]}"; do
    wanted "${step%% *}" || continue
    # shellcheck disable=SC2086
    run_step $step &
    wait $! || [ "${step%% *}" != fuzzers ] || fuzzers=missing
done
for target in "${targets[@]}"; do
    wanted "fuzz-$target" || continue
    while [ "$(jobs -rp | wc -l)" -ge "$JOBS" ]; do wait -n; done
    fuzz "$target" &
done
wait
passed=$(grep -c PASS "$logs/verdicts")
failed=$(grep -c FAIL "$logs/verdicts")
skipped=$(grep -c SKIP "$logs/verdicts")
echo "long: $passed passed, $failed failed, $skipped skipped ($SECONDS s); logs are in $logs"
[ "$failed" -eq 0 ] && [ $((passed + failed + skipped)) -eq "$total" ]
