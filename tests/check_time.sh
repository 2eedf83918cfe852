#!/usr/bin/env bash
# V-024: in a warm tree one file is changed, and `make check` answers within three minutes of this machine's own time (two quiet cores).
# Works in a copy. Usage: tests/check_time.sh [FILE [SECONDS]]; the file is one that most programs link, so that many unit tests run again.
set -eu
cd "$(dirname "$0")/.."
file=${1:-src/base/text.c}
limit=${2:-180}
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z | xargs -0 cp -a --parents -t "$copy"
cp -a .git "$copy/.git"
cp -a "${BUILD:-build}" "$copy/build"
make=(make --no-print-directory -C "$copy" -j"${JOBS:-$(nproc)}" BUILD=build)
"${make[@]}" check > "$copy/warm.log" 2>&1 || { tail -n 20 "$copy/warm.log" >&2; exit 1; }
sed -i '1i\\' "$copy/$file" # another line number in each assertion: another program
started=$SECONDS
"${make[@]}" check > "$copy/check.log" 2>&1 || { tail -n 20 "$copy/check.log" >&2; exit 1; }
took=$((SECONDS - started))
ran=$(grep -cE '^(ok|not ok) ' "$copy/check.log" || true)
[ "$took" -le "$limit" ] && verdict=ok || verdict="not ok"
echo "$verdict - make check after a change of $file: $took s of $limit, $ran lines"
[ "$verdict" = ok ]
