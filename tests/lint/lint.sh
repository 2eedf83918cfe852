#!/usr/bin/env bash
# The rules of the project that a machine can check, one TAP line each. Usage: tests/lint/lint.sh [BUILD]; or BUILD in the environment.
# Checks on objects and programs are skipped, by name, when BUILD does not hold them.
set -u
cd "$(dirname "$0")/../.." || exit 1
exec /usr/bin/python3 -B tests/lint/lint.py "${1:-${BUILD:-build}}"
