#!/usr/bin/env bash
# Writes what is generated: fsm/STATUSES.md from fsm/status.h, tests/COVERAGE.md from the rows that tests name,
# tests/lint/form.tsv from what broke a rule of form less often, src/CALLS.md from the objects in BUILD. With --check it only
# compares; src/CALLS.md and form.tsv are then lint.py's.
# Usage: tests/lint/docs.sh [--check] [BUILD]
set -eu
cd "$(dirname "$0")/../.."
check=no
[ "${1:-}" = --check ] && check=yes && shift
build=${1:-build}
if [ -e .git ]; then # without git nobody knows which files are the project's
    /usr/bin/python3 -B tests/lint/rows.py "$([ $check = no ] || echo --check)"
    [ $check = yes ] || /usr/bin/python3 -B tests/lint/form.py
fi
table=$(printf '#include "fsm/status.h"\nFSM_STATUSES(ROW)\n' | ${CC:-gcc} -E -P -I. -x c - | /usr/bin/python3 tests/lint/statuses.py)
if [ $check = no ]; then
    printf '%s\n' "$table" > fsm/STATUSES.md
elif [ "$table" != "$(cat fsm/STATUSES.md 2>/dev/null)" ]; then
    echo "fsm/STATUSES.md is not what fsm/status.h says; run make docs and review the difference" >&2
    exit 1
fi
[ $check = yes ] || /usr/bin/python3 -B tests/lint/graph.py "$build"
