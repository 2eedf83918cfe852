#!/usr/bin/python3
"""The Debian packages of make deb: lintian finds nothing, and in a fresh Debian 12 they install, serve a whole cluster by their own autopkgtest,
upgrade and go. The root of that Debian is kept (roots.py) and copied."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BUILD, ROOT, tap  # noqa: E402
from roots import kept_root  # noqa: E402

RELEASE = "bookworm"
# what the packages depend on: installed with the root, so that nothing is fetched later
DEPENDS = ("libcurl4,libexpat1,libjansson4,liblz4-1,libmicrohttpd12,libnghttp2-14,libprotobuf-c1,libraft2,libsmartcols1,libssl3,libuv1,libyaml-0-2,"
           "python3-minimal,python3,systemd-standalone-sysusers,systemd-standalone-tmpfiles,init-system-helpers,ca-certificates")
PACKAGES = ("ckpt-server", "ckpt-agent", "ckpt-client", "ckpt-common", "libckptapp0", "libckptapp-dev", "python3-ckptapp")
# stands in for systemd, which does not run in a root: what the maintainer scripts ask of it
SYSTEMCTL = '#!/bin/sh\necho "$@" >> /asked\ncase "$*" in *is-enabled*|*is-active*) exit 1 ;; esac\nexit 0\n'


def missing():
    for program in ("debootstrap", "dpkg-buildpackage", "lintian", "dh"):
        if shutil.which(program) is None:
            return f"no {program} here (deploy/install-deps.sh deb)"
    return "debootstrap needs root" if os.geteuid() != 0 else None


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def fresh_root():
    """A copy of a kept one, or None and why."""
    kept, reason = kept_root("packages", RELEASE, DEPENDS.split(","))
    if kept is None:
        return None, reason
    folder = pathlib.Path(tempfile.mkdtemp(prefix="packages-"))
    run("cp", "-a", f"{kept}/.", folder / "root")
    return folder, None


def within(root, *words):
    """In the root, with a network and processes of its own, so that nothing that it starts stays."""
    script = 'mount --make-rprivate / && mount -t proc proc "$0/proc" && ip link set lo up && root=$0 && exec chroot "$root" "$@"'
    return run("unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-c", script, root, *words,
               env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"})


def packages():
    run("make", "-s", "-C", ROOT, f"BUILD={os.path.relpath(BUILD, ROOT)}", "deb",
        env={**os.environ, "DEBFULLNAME": "Checkpoint broker", "DEBEMAIL": "ckpt@hpc-site.net"})
    found = [next((BUILD / "deb").glob(f"{name}_*.deb")) for name in PACKAGES]
    told = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", *found], capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr
    return found


def packages_install_serve_upgrade_and_go():
    reason = missing()
    if reason is not None:
        return reason
    found = packages()
    folder, reason = fresh_root()
    if folder is None:
        return reason
    root = folder / "root"
    try:
        for package in found:
            shutil.copy(package, root)
        within(root, "sh", "-c", "dpkg -i /*.deb")
        assert "ckpt:" in (root / "etc/passwd").read_text()
        within(root, "sh", "-c", "test $(stat -c %U:%a /var/lib/ckpt) = ckpt:700 && python3 -c 'import ckptapp' && ckpt-worker --version")
        shutil.copy(ROOT / "deploy/debian/tests/three-members", root / "three-members")
        told = within(root, "sh", "/three-members")
        assert "failure tolerance 1" in told and "COMPLETE" in told, told
        # as an upgrade under systemd: what runs is restarted by its unit, whose SIGTERM hands leadership over; nothing else is stopped before
        (root / "usr/bin/systemctl").write_text(SYSTEMCTL)
        (root / "usr/bin/systemctl").chmod(0o755)
        (root / "run/systemd/system").mkdir(parents=True)
        (root / "etc/ckpt/ckptd.yaml").write_text("cluster_id: ours\n")
        within(root, "sh", "-c", "dpkg -i /*.deb")
        asked = (root / "asked").read_text().split("\n")
        assert any("restart" in line and "ckptd.service" in line for line in asked), asked
        assert not any(line.startswith("stop") or " stop " in line for line in asked), asked
        assert (root / "etc/ckpt/ckptd.yaml").read_text() == "cluster_id: ours\n", "a site's configuration was replaced"
        (root / "var/lib/ckpt/data").touch()
        within(root, "dpkg", "--purge", *PACKAGES)
        assert (root / "var/lib/ckpt/data").exists(), "a member's data was removed"
        assert not (root / "usr/bin/ckptd").exists() and not (root / "etc/ckpt/ckptd.yaml").exists()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(tap([packages_install_serve_upgrade_and_go]))
