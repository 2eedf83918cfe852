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
    exec(compile(code("python", 3).split("\n\n\nchannel = ")[0], "CLIENTS.md", "exec"), names)
    return names["leader_channel"], names["credentials"]


def python_events(names):
    """follow_events() of the page; names: what the blocks before it import and make."""
    exec(compile(code("python", 2).split("\n\n\nfor event in ")[0], "CLIENTS.md", "exec"), names)
    return names["follow_events"]


def python_example(addresses, leader_channel):
    """Registers job 12345."""
    exec(compile(code("python", 1), "CLIENTS.md", "exec"), {"addresses": addresses, "leader_channel": leader_channel})


def node_example(addresses):
    """The same, as a whole program to be run in the root of the repository."""
    return f"{code('js', 0)}\nconst addresses = {addresses};\n{code('js', 2)}"


def node_events(addresses):
    """The example, and then a line for each event, as a whole program that goes on for ever."""
    return f"{code('js', 0)}\n{code('js', 1)}\nconst addresses = {addresses};\n{code('js', 2)}\n{code('js', 3)}"


def node_recipe():
    return code("js", 0) + "\nmodule.exports = { leaderCalls };\n"
