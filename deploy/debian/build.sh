#!/usr/bin/env bash
# Packages from a copy of the sources, in which deploy/debian is debian and what make has built is handed in. Run by make deb.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$root" && realpath "$BUILD")
out=$build/deb
tree=$out/ckpt-$VERSION
rm -rf "$out"
mkdir -p "$tree"
cd "$root"
for folder in Makefile README.md RELEASES deploy fsm proto python raft src tests; do cp -a "$folder" "$tree/"; done
cp -a deploy/debian "$tree/debian"
rm "$tree/debian/build.sh"
date=$(date -R -d "@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}")
# who builds stands for the packages: DEBFULLNAME and DEBEMAIL, as Debian's own tools read them
maintainer="${DEBFULLNAME:-Checkpoint broker} <${DEBEMAIL:-ckpt@$(hostname -f 2>/dev/null || hostname)}>"
sed "s/@MAINTAINER@/$maintainer/" deploy/debian/control > "$tree/debian/control"
sed "s/@VERSION@/$VERSION/;s/@DATE@/$date/;s/@MAINTAINER@/$maintainer/" deploy/debian/changelog.in > "$tree/debian/changelog"
rm "$tree/debian/changelog.in"
ln -s "$build" "$tree/build"
cd "$tree"
# -d: what builds is here, also where it was not installed as a package
CKPT_BUILD_ID="$BUILD_ID" dpkg-buildpackage --no-sign --build=binary -d > "$out/log" 2>&1 || { tail -n 40 "$out/log" >&2; exit 1; }
rm -rf "$tree"
ls "$out"/*.deb
