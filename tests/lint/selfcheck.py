"""Samples that the checks must find, and look-alikes that they must not: a lint that finds nothing proves nothing."""
from source import blank, functions

SAMPLE = """/* head */
static const int table[] = {
    1,
};

/* long: a table
 * of cases */
__attribute__((noreturn)) static void first_one(int a,
                                               char *b)
{
    strcpy(b, "sleep(1) // \\" */"); /* gets(x) */
    if (a) {
    }
}

int second(void)
{
    return 0;
}
"""


def problems(call, foreign, include):
    found = functions(SAMPLE)
    if [(name, length) for name, _, length, _ in found] != [("first_one", 3), ("second", 1)]:
        yield f"functions() found {found}"
    elif "long:" not in found[0][3] or found[1][3]:
        yield f"comments before functions are {found[0][3]!r} and {found[1][3]!r}"
    code = blank(SAMPLE)
    if [m.group(1) for m in call.finditer(code)] != ["strcpy"]:
        yield f"calls in the sample: {call.findall(code)}"
    for innocent in ("my_strcpy(a)", "ops->sleep(1)", "x.system(2)", "nanosleep(&t)", "uv_random(x)", "grand(1)"):
        if call.search(innocent):
            yield f"{innocent} counts as a banned call"
    for guilty in ("see /work/main/x", "this issue builds", "done in session 3", "the brief says", "../shared/design.md", "ux.md says"):
        if not foreign.search(guilty):
            yield f"\"{guilty}\" is not found"
    for innocent in ("issued a hint", "the session ends", "a brief pause", "shared memory", "/workspace/x", "agents"):
        if foreign.search(innocent):
            yield f"\"{innocent}\" counts as foreign"
    if include.findall('  #  include "a/b.h"\n#include <c.h>\n') != [('"', "a/b.h"), ("<", "c.h")]:
        yield "includes are not read"
