"""The code blocks of deploy/CLIENTS.md, so that tests run what the page says and nothing else."""
import pathlib
import re

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "deploy" / "CLIENTS.md").read_text()


def code(language, number):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[number]


def python_recipe():
    """leader_channel() and credentials() of the page."""
    names = {}
    exec(compile(code("python", 0), "CLIENTS.md", "exec"), names)
    exec(compile(code("python", 1).split("\n\n\nchannel = ")[0], "CLIENTS.md", "exec"), names)
    return names["leader_channel"], names["credentials"]


def node_recipe():
    return code("js", 0) + "\nmodule.exports = { leaderCalls };\n"
