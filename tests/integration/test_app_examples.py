#!/usr/bin/python3
"""The examples of the manuals: ckptapp.h, the Python module and README. They compile, and all mean the same by a label: a job that dies and begins
again does each step once."""
import contextlib
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import ROOT, tap  # noqa: E402

sys.path.insert(0, str(ROOT / "python"))
import ckptapp  # noqa: E402


def example_of_the_header():
    shown, inside = [], False
    for line in (ROOT / "src" / "app" / "ckptapp.h").read_text().splitlines():
        inside = line.startswith(" *     ") and (inside or line[7] != " ")  # other lines that are indented go on with a section's text
        shown += [line[3:]] if inside else []
    return "\n".join(shown) + "\n"


# The job of an example: it is asked at step 3, and the first start dies in step 5. Each start begins with the state that was saved; a step that is done
# twice, or never, is an error. $1: its folder.
PLAYED = r"""
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "ckptapp.h"
static unsigned done;
static unsigned long long label;
static void kept(const char *mode)
{
    FILE *file = fopen("kept", mode);
    if (file != NULL && mode[0] == 'r' && fscanf(file, "%llu %u", &label, &done) != 2)
        exit(9);
    if (file != NULL && mode[0] == 'w')
        fprintf(file, "%llu %u", label, done);
    if (file != NULL)
        fclose(file);
}
static bool save(const char *folder, uint64_t step, uint64_t *bytes) { (void)folder, (void)step; *bytes = 1; return true; }
static void load(int64_t rank, const char *folder) { (void)rank, (void)folder; }
static void compute(uint64_t step)
{
    if (done & 1u << step)
        exit(7);
    done |= 1u << step;
    if (step == 5 && label != 0 && access("died", F_OK) != 0)
        exit(fclose(fopen("died", "w")) == 0 ? 0 : 8);
}
struct ckpt *ckpt_open(const struct ckpt_options *options) { (void)options; kept("r"); return NULL; }
void ckpt_close(struct ckpt *ckpt) { (void)ckpt; exit(done == 0x3fe ? 1 : 6); }
int ckpt_barrier(struct ckpt *ckpt, uint64_t step) { (void)ckpt; return step == 3 && label == 0 ? CKPT_NOW : CKPT_GO_ON; }
const char *ckpt_directory(const struct ckpt *ckpt) { (void)ckpt; return "."; }
int ckpt_done(struct ckpt *ckpt, uint64_t step, uint64_t bytes) { (void)ckpt, (void)bytes; label = step; kept("w"); return 0; }
int ckpt_failed(struct ckpt *ckpt, const char *text) { (void)ckpt, (void)text; exit(5); }
uint64_t ckpt_restored_step(const struct ckpt *ckpt) { (void)ckpt; return label; }
int64_t ckpt_restored_next(const struct ckpt *ckpt, int64_t rank, char *folder, size_t size) { (void)ckpt, (void)rank, (void)folder, (void)size; return -1; }
int main(void)
{
    uint64_t step, last = 9, bytes;
    int64_t rank;
    char folder[4096];
    bool ok;
    %s
    return 0;
}
"""


def the_examples_do_each_step_once():
    """The header, the module and README mean the same by the label: a job that begins again goes on behind it, with no step lost or done twice."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cc", "-std=c11", "-D_DEFAULT_SOURCE", "-Wno-declaration-after-statement", "-x", "c", "-I", str(ROOT / "src" / "app"), "-o",
                        f"{folder}/played", "-"], input=PLAYED.replace("%s", example_of_the_header()), check=True, text=True, timeout=60)
        ended = [subprocess.run(["./played"], cwd=folder, timeout=20, check=False).returncode for _ in range(2)]
        assert ended == [0, 1], f"{ended}: it died in step 5 once; 6: a step was lost, 7: one was done twice"
    module = re.search(r"\n    import ckptapp\n(    .*\n)+", ckptapp.__doc__)[0]
    without = re.search(r"Without torch:\n((        .*\n)+)", ckptapp.__doc__)[1]
    readme = re.search(r"```python\n(import ckptapp\n.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    own = re.sub(r"        if ckpt.barrier.*\n.*torch_save.*\n", lambda _: without, module)
    assert "saving(" in own and "torch_save(" not in own, own
    for name, code in (("module", module), ("without torch", own), ("README", readme)):
        kept = {"label": 0, "done": []}
        for dies in (True, False):
            done = list(kept["done"])
            exec(compile(textwrap.dedent(code), name, "exec"), played_names(kept, done, dies))  # noqa: S102
        assert done == list(range(1, 10)), (name, kept, done)


def played_names(kept, done, dies):
    """What a line of an example finds: a job that saves at step 3, and whose first start computes to step 5."""
    def keep(label):
        kept.update(label=label, done=list(done))

    @contextlib.contextmanager
    def saving(label):
        yield "."
        keep(label)
    ckpt = types.SimpleNamespace(barrier=lambda step: dies and step == 3, saving=saving)
    stand_in = types.SimpleNamespace(open=lambda: ckpt, torch_load=lambda ckpt, **things: kept["label"],
                                     torch_save=lambda ckpt, label, **things: keep(label))
    modules = {"ckptapp": stand_in}
    return {"__builtins__": {"range": range, "__import__": lambda name, *_: modules[name]}, "model": None, "optimizer": None, "train": done.append,
            "save_my_state": lambda folder: None, "last": 5 if dies else 9}


def the_example_of_the_header_compiles():
    """What ckptapp.h shows is what a compiler takes, with the calls that it has."""
    code = example_of_the_header()
    assert all(call in code for call in ("ckpt_open(NULL)", "ckpt_barrier(", "ckpt_close(ckpt)", "ckpt_restored_next(")), code
    program = ("#include <errno.h>\n#include <stdbool.h>\n#include \"ckptapp.h\"\n"
               "bool save(const char *folder, uint64_t step, uint64_t *bytes);\nvoid compute(uint64_t step);\n"
               "void load(int64_t rank, const char *folder);\n"
               "int main(void)\n{\nuint64_t step, last = 9, bytes;\nint64_t rank;\nchar folder[4096];\nbool ok;\n" + code + "return 0;\n}\n")
    line = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-declaration-after-statement", "-fsyntax-only", "-x", "c", "-I", str(ROOT / "src" / "app"), "-"]
    done = subprocess.run(line, input=program, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    sys.exit(tap([the_examples_do_each_step_once, the_example_of_the_header_compiles]))
