#!/usr/bin/env bash
# Installs what is missing to build, test and run on Debian 12; `bench`: also what make bench compares with; `deb`: what make deb needs; `systems`: also what make systems
# runs against: Node.js, and from npm, for Debian has no package of it, its gRPC (into build/node), OpenMPI, GROMACS, LAMMPS, Slurm, PyTorch, Ceph, Swift and qemu. Does nothing (and needs no root) when
# all is there.
set -eu
packages=(
    # toolchain
    gcc make pkg-config libc6-dev protobuf-c-compiler protobuf-compiler libprotobuf-dev
    # linked: why each, see src/ARCHITECTURE.md
    libraft-dev libuv1-dev liblz4-dev libprotobuf-c-dev libcurl4-openssl-dev libnghttp2-dev libssl-dev
    libjansson-dev libyaml-dev libmicrohttpd-dev libsmartcols-dev libexpat1-dev
    # tests, demo, lint
    libcmocka-dev python3 python3-grpcio python3-grpc-tools python3-pkg-resources prometheus clang-format binutils procps iproute2 nftables faketime git patch
    lz4 e2fsprogs btrfs-progs mount strace # disks that lose their power, are full, have quotas (integration tests)
    ca-certificates openssl
)
[ "${1-}" = bench ] && packages+=(etcd-server radosgw ceph-mon ceph-osd ceph-common awscli rclone
    golang-go golang-google-grpc-dev golang-goprotobuf-dev) # a gRPC client that is neither ours nor etcd's, for both
[ "${1-}" = deb ] && packages+=(debhelper dh-python dpkg-dev fakeroot lintian debootstrap)
if [ "${1-}" = systems ]; then
    command -v node > /dev/null || packages+=(nodejs)
    command -v npm > /dev/null || packages+=(npm)
    packages+=(openmpi-bin libopenmpi-dev gromacs lammps slurmctld slurmd slurm-client python3-torch python3-numpy
        radosgw ceph-mon ceph-osd ceph-common awscli swift-proxy swift-account swift-container swift-object memcached debootstrap
        qemu-system-x86) # a guest, for what this kernel or processor cannot run
fi
missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
install_missing() {
    echo "installing: ${missing[*]}"
    run=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo > /dev/null || { echo "error: packages are missing and this is neither root nor is sudo installed; as root run: apt-get install ${missing[*]}" >&2; exit 1; }
        run=(sudo)
    fi
    # no service may start because a test tool was installed
    policy=/usr/sbin/policy-rc.d
    made_policy=no
    if [ ! -e $policy ]; then printf '#!/bin/sh\nexit 101\n' | "${run[@]}" tee $policy > /dev/null; "${run[@]}" chmod 755 $policy; made_policy=yes; fi
    cleanup() { if [ $made_policy = yes ]; then "${run[@]}" rm -f $policy; fi; }
    trap cleanup EXIT
    "${run[@]}" apt-get -o DPkg::Lock::Timeout=300 update -qq
    # apt-get installs nothing while an earlier installation, cut short, waits to be finished
    if [ -n "$(dpkg --audit)" ]; then
        echo "finishing an installation that was cut short (dpkg --configure -a)"
        "${run[@]}" env DEBIAN_FRONTEND=noninteractive dpkg --force-confold --configure -a > /dev/null
        "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends --no-remove --fix-broken > /dev/null
    fi
    "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
}
[ ${#missing[@]} -eq 0 ] || install_missing
folder=${BUILD:-$(dirname "$0")/../build}/node
if [ "${1-}" = systems ] && [ ! -d "$folder/node_modules/@grpc/proto-loader" ]; then
    mkdir -p "$folder"
    npm install --prefix "$folder" --no-audit --no-fund --loglevel=error @grpc/grpc-js@1.14.7 @grpc/proto-loader@0.8.1
fi
