#!/usr/bin/python3
"""Writes manual pages and completions from what the programs say of themselves: manual.py BIN FOLDER VERSION.

Flow    PROGRAM --help (of ckptctl and ckpt-run also of each command and verb) -> FOLDER/manN/PROGRAM.N; the example configurations ->
        FOLDER/man5. The same help -> FOLDER/{bash,fish,zsh}; ckptctl writes its own completion. Help comes from the tables that the
        words are read by, so no page can fall behind it.
Errors  a program that does not run, or whose help has no usage, ends this with 1.
"""
import pathlib
import re
import subprocess
import sys

PROGRAMS = {  # section, what whatis(1) says
    "ckptctl": (1, "look at a cluster of checkpoint brokers, and change it"),
    "ckpt-run": (1, "run an application that is asked for checkpoints"),
    "ckptd": (8, "a replica of the checkpoint broker"),
    "ckpt-agentd": (8, "the checkpoint agent of a compute node"),
    "ckpt-worker": (8, "one task on a destination of checkpoints, for a daemon or by hand"),
}
SAME = {"ckpt-worker-s3.8": "ckpt-worker.8"}  # for object stores, with the same words
NOT_TYPED = ("ckpt-worker",)  # no completion
CONFIGURATIONS = {"ckptd.yaml": "configuration of the members of a checkpoint broker",
                  "ckpt-agentd.yaml": "configuration of the checkpoint agent of compute nodes"}
SEE = {"ckptctl": "ckpt-run(1), ckptd(8), ckptd.yaml(5)", "ckpt-run": "ckptctl(1), ckpt-agentd(8)",
       "ckptd": "ckptctl(1), ckptd.yaml(5)", "ckpt-agentd": "ckpt-run(1), ckpt-agentd.yaml(5)",
       "ckpt-worker": "ckptd(8), ckpt-agentd(8)"}
OPTION = re.compile(r"^  (-\S(?:.*?\S)?)(?:\s{2,}(\S.*))?$")
OPTION_TIGHT = re.compile(r"^  (-\S+(?: [A-Z\[][^a-z ]*)*) ([^\s-].*)$")
GLOBAL_OF = re.compile(r"\n(?:global options|options of every verb):\n.*", re.S)


def help_of(words):
    done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0 or "usage:" not in done.stdout:
        sys.exit(f"manual.py: {' '.join(words)} ended with {done.returncode} and without a usage:\n{done.stderr}")
    return done.stdout


def roff(text):
    """Text that no macro and no escape is read from."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga").replace("^", "\\(ha").replace("~", "\\(ti")
    return "\\&" + text if text.startswith(".") else text


def option_of(line):
    """An option and the first line of what it is, where the line begins one; a long one has its text on the next line, or behind one blank."""
    found = OPTION.match(line)
    return OPTION_TIGHT.match(line) or found if found and found[2] is None else found


def paragraphs(text):
    """Options as a list with hanging texts; indented lines as they are; other lines filled."""
    out, kept = [], False
    option = False
    for line in text.strip("\n").split("\n"):
        found = option_of(line)
        deep = re.match(r"^ {5,}(\S.*)", line)
        if kept and (found or not line.startswith("  ")):
            out.append(".fi")
            kept = False
        if found:
            out += [".TP", f"\\fB{roff(found[1])}\\fR"] + ([roff(found[2])] if found[2] else [])
            option = True
        elif option and deep:
            out.append(roff(deep[1]))
        elif not line.strip():
            out.append(".PP")
            option = False
        elif line.startswith("  ") and out and out[-1].endswith(","):  # the sentence goes on
            out.append(roff(line.strip()))
        elif line.startswith("  "):
            if not kept:
                out += [".PP", ".nf"] if not option else [".nf"]
                kept = True
            out.append(roff(line))
        else:
            out += ([".PP"] if option else []) + [roff(line)]
            option = False
    return [line for i, line in enumerate(out) if line != ".PP" or (i > 0 and out[i - 1] != ".PP")] + ([".fi"] if kept else [])


def split_usage(text):
    """The lines of the usage, without its first word, and the rest."""
    lines = text.split("\n")
    count = 1
    while count < len(lines) and re.match(r"^ {6,}\S", lines[count]):
        count += 1
    return [re.sub(r"^(usage:| {6}) ?", "", line) for line in lines[:count]], "\n".join(lines[count:])


def page_head(name, section, says, version):
    return [f'.TH "{roff(name.upper())}" {section} "" "ckpt {version}" "Checkpoint broker"', ".nh", ".ad l", ".SH NAME", f"{roff(name)} \\- {says}"]


def commands_of(folder, program, text):
    """What the first words of the program are: commands of ckptctl, verbs of ckpt-run."""
    if program == "ckptctl":
        done = subprocess.run([folder / program, "help", "-o", "name"], capture_output=True, text=True, check=True)
        return done.stdout.split("\n")[:-1]
    if program == "ckpt-run":
        named = re.findall(r"^(?:usage:|      ) ckpt-run ([a-z]+(?: \| [a-z]+)*)", text, re.M)
        return [verb for names in named for verb in names.split(" | ")]
    return []


def program_page(folder, program, version):
    section, says = PROGRAMS[program]
    text = help_of([folder / program, "--help"])
    usage, rest = split_usage(text)
    if program == "ckptctl":  # the list of commands is the section below
        rest = re.sub(r"\ncommands:\n(  .*\n)+", "", rest)
    page = page_head(program, section, says, version) + [".SH SYNOPSIS", ".nf"] + [roff(line) for line in usage] + [".fi", ".SH DESCRIPTION"]
    page += paragraphs(rest)
    commands = commands_of(folder, program, text)
    if commands:
        page.append(".SH COMMANDS" if program == "ckptctl" else ".SH VERBS")
    for command in commands:
        words = ["help"] + command.split() if program == "ckptctl" else [command, "--help"]
        usage, rest = split_usage(GLOBAL_OF.sub("", help_of([folder / program] + words)))
        page += [f'.SS "{roff(command)}"', ".nf"] + [roff(line) for line in usage] + [".fi", ".PP"] + paragraphs(rest)
    return page + [".SH SEE ALSO", SEE[program].replace("-", "\\-"), "/usr/share/doc/ckpt/RUNBOOK.md"]


def configuration_page(name, says, version):
    text = (pathlib.Path(__file__).resolve().parent / name).read_text()
    page = page_head(name, 5, says, version) + [".SH DESCRIPTION", f"/etc/ckpt/{roff(name)} is YAML. This is the example, with what each key is:", ".PP", ".nf"]
    program = name.removesuffix(".yaml")
    return page + [roff(line) if line else "" for line in text.rstrip("\n").split("\n")] + [
        ".fi", ".PP", f"{roff(program + ' --check-config')} says whether a file is right, {roff(program + ' --print-config')} what holds and where it comes from.",
        ".SH SEE ALSO", f"{roff(program)}(8)"]


def options_of(text):
    """--name and the first line of what it is, of each option in a help; also of those that the usage or the text of another one names."""
    found = {}
    for line in text.split("\n"):
        match = option_of(line)
        for name in re.findall(r"--[a-z][a-z0-9-]*", match[1]) if match else []:
            found.setdefault(name, (match[2] or "").strip())
    named = re.findall(r"--[a-z][a-z0-9-]*", " ".join(split_usage(text)[0])) + re.findall(r"^ {5,}(--[a-z][a-z0-9-]*)", text, re.M)
    return found | {name: "" for name in named if name not in found}


def quoted(text):
    return text.replace("'", " ").replace("\\", " ").replace(":", " ")


def completions(folder, program):
    """Scripts of the three shells. A first word that is a verb has its own options."""
    text = help_of([folder / program, "--help"])
    verbs = {verb: options_of(help_of([folder / program, verb, "--help"])) for verb in commands_of(folder, program, text)}
    options = options_of(text)
    function = "_" + program.replace("-", "_")
    cases = "".join(f'    {verb}) words="{" ".join(own)}" ;;\n' for verb, own in verbs.items())
    bash = (f'# bash completion of {program}\n{function}() {{\n    local words="{" ".join(list(verbs) + list(options))}"\n'
            f'    [[ $COMP_CWORD -gt 1 ]] && case "${{COMP_WORDS[1]}}" in\n{cases}    esac\n'
            f'    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))\n}}\ncomplete -o default -F {function} {program}\n')
    fish = [f"# fish completion of {program}"] + [f"complete -c {program} -n __fish_use_subcommand -a {verb}" for verb in verbs]
    fish += [f"complete -c {program} -n __fish_use_subcommand -l {name[2:]} -d '{quoted(says)}'" for name, says in options.items()]
    fish += [f"complete -c {program} -n '__fish_seen_subcommand_from {verb}' -l {name[2:]} -d '{quoted(says)}'"
             for verb, own in verbs.items() for name, says in own.items()]

    def items(own):
        return " ".join(f"'{name}:{quoted(says)}'" for name, says in own.items())
    arms = "".join(f"    {verb}) list=({items(own)}) ;;\n" for verb, own in verbs.items())
    zsh = (f"#compdef {program}\nlocal -a list\nlist=({items(dict.fromkeys(verbs, '') | options)})\n"
           f"(( CURRENT > 2 )) && case $words[2] in\n{arms}    esac\n_describe word list; _files\n")
    return {"bash": bash, "fish": "\n".join(fish) + "\n", "zsh": zsh}


def completions_of_ckptctl(folder):
    return {shell: subprocess.run([folder / "ckptctl", "completion", shell], capture_output=True, text=True, check=True).stdout
            for shell in ("bash", "fish", "zsh")}


COMPLETION_NAME = {"bash": "{}", "fish": "{}.fish", "zsh": "_{}"}


def main():
    folder, out, version = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), sys.argv[3]
    pages = {f"{name}.{section}": program_page(folder, name, version) for name, (section, _) in PROGRAMS.items()}
    pages |= {f"{name}.5": configuration_page(name, says, version) for name, says in CONFIGURATIONS.items()}
    files = {f"man{name[-1]}/{name}": "\n".join(page) + "\n" for name, page in pages.items()}
    files |= {f"man{name[-1]}/{name}": f".so man{other[-1]}/{other}\n" for name, other in SAME.items()}
    for program in [name for name in PROGRAMS if name not in NOT_TYPED]:
        scripts = completions_of_ckptctl(folder) if program == "ckptctl" else completions(folder, program)
        files |= {f"{shell}/{COMPLETION_NAME[shell].format(program)}": script for shell, script in scripts.items()}
    for name, text in files.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
