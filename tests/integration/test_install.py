#!/usr/bin/python3
"""make install, and what the programs write of themselves: manual pages and completions that lack no option, command or verb of the tables that
the words are read by (O-003)."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, BUILD, ROOT, tap  # noqa: E402

OPTION = re.compile(r'\{"([a-z][a-z0-9-]*)", (?:no|required|optional)_argument')
READ_BY = {"ckptd": ["src/broker/daemon/main.c"], "ckpt-agentd": ["src/agent/daemon/main.c"], "ckpt-run": ["src/agent/run/run_options.c"]}
SECTION = {"ckptctl": 1, "ckpt-run": 1, "ckptd": 8, "ckpt-agentd": 8}


def make(*words):
    done = subprocess.run(["make", "-s", f"BUILD={BUILD.relative_to(ROOT) if BUILD.is_relative_to(ROOT) else BUILD}", *words], cwd=ROOT,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def page(folder, program):
    return (folder / f"usr/share/man/man{SECTION[program]}/{program}.{SECTION[program]}").read_text().replace("\\-", "-")


def all_is_installed_and_nothing_is_missing_in_what_tells_of_it():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="install-"))
    try:
        make("install", f"DESTDIR={folder}", "PREFIX=/usr")
        installed = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        for name in ("bin/ckptd", "bin/ckpt-worker-s3", "include/ckptapp.h", "lib/pkgconfig/ckptapp.pc", "lib/python3/dist-packages/ckptapp.py",
                     "lib/systemd/system/ckpt-agentd.service", "lib/ckpt/ckptd-start", "share/ckpt/systemd/ckptd-start.conf", "lib/sysusers.d/ckpt.conf", "lib/tmpfiles.d/ckpt.conf", "share/ckpt/profiles/vasp.yaml",
                     "share/ckpt/lsf/bchkpnt", "share/man/man5/ckptd.yaml.5", "share/bash-completion/completions/ckpt-run"):
            assert f"usr/{name}" in installed, f"{name} is not in {sorted(installed)}"
        for program, sources in READ_BY.items():
            options = [name for source in sources for name in OPTION.findall((ROOT / source).read_text())]
            assert options, program
            completion = (folder / f"usr/share/bash-completion/completions/{program}").read_text()
            for name in set(options) - {"help"}:
                assert f"--{name}" in page(folder, program), f"{program}.{SECTION[program]} has no --{name}"
                assert f"--{name}" in completion, f"the completion of {program} has no --{name}"
        verbs = re.findall(r'\{"([a-z]+)", run_', (ROOT / "src/agent/run/run_verbs.c").read_text())
        verbs += re.findall(r'^    \{"([a-z]+)", "', (ROOT / "src/cli/owner_verbs.c").read_text(), re.M)
        assert len(verbs) > 10, verbs
        for verb in [*verbs, "import"]:
            assert f'.SS "{verb}"' in page(folder, "ckpt-run"), f"ckpt-run.1 has no {verb}"
        names = subprocess.run([BIN / "ckptctl", "help", "-o", "name"], capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
        for name in names:
            assert f'.SS "{name}"' in page(folder, "ckptctl"), f"ckptctl.1 has no {name}"
        site = folder / "etc/ckpt/ckptd.yaml"
        site.write_text("cluster_id: ours\n")
        make("uninstall", f"DESTDIR={folder}", "PREFIX=/usr")
        left = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        assert left == {"etc/ckpt/ckptd.yaml", "etc/ckpt/ckpt-agentd.yaml"}, left
        assert site.read_text() == "cluster_id: ours\n"
    finally:
        shutil.rmtree(folder)


DRIVER = """source <(%s completion bash)
while read -r -a words; do
    COMP_WORDS=("${words[@]}" ""); [[ ${words[-1]} == + ]] && COMP_WORDS=("${words[@]:0:${#words[@]}-1}")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=(); _ckptctl; echo "${COMPREPLY[*]}"
done"""


def a_shell_offers_what_fits():
    """Lines are typed up to the end; a + says that the last word is not finished."""
    typed = {"ckptctl node dr +": "drain", "ckptctl -o json jobs --state RU +": "RUNNING", "ckptctl completion": "bash fish zsh",
             "ckptctl checkpoint unp +": "unpin", "ckptctl tra +": "transfer", "ckptctl -o y +": "yaml", "ckptctl node drain x --dea +": "--deadline"}
    done = subprocess.run(["bash", "--norc", "-c", DRIVER % (BIN / "ckptctl")], input="\n".join(typed) + "\n", capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    offered = [" ".join(line.split()) for line in done.stdout.split("\n")[:-1]]
    for line, (words, wanted) in zip(offered, typed.items()):
        assert wanted in line, f"{words}: {line}"


if __name__ == "__main__":
    sys.exit(tap([all_is_installed_and_nothing_is_missing_in_what_tells_of_it, a_shell_offers_what_fits]))
