"""The preprocessed catalogue of statuses on stdin -> its table in Markdown on stdout."""
import re
import sys

GRPC = {0: "OK", 3: "INVALID_ARGUMENT", 5: "NOT_FOUND", 6: "ALREADY_EXISTS", 7: "PERMISSION_DENIED", 8: "RESOURCE_EXHAUSTED",
        9: "FAILED_PRECONDITION", 10: "ABORTED", 12: "UNIMPLEMENTED", 13: "INTERNAL", 14: "UNAVAILABLE"}
TEXT = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
ROW = re.compile(r"ROW\((\d+),\s*(\w+),\s*(\d+),\s*" + TEXT + r",\s*" + TEXT + r"\)")


def joined(literals):
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals)).replace("|", "\\|")


rows = ROW.findall(sys.stdin.read())
if not rows:
    sys.exit("no status found in the catalogue")
numbers = [int(row[0]) for row in rows]
if numbers[0] != 0 or numbers != sorted(set(numbers)):
    sys.exit(f"numbers do not rise from 0 on: {numbers}")
print("# Statuses\n")
print("Generated from fsm/status.h by `make docs`. A refusal travels as its gRPC status; the message begins\nwith the name.")
print("{c} is the current value, {l} the limit, {s} the allocation's state, {p} the checkpoint's.\n")
print("| # | Name | gRPC | What happened | What to do next |")
print("|--:|---|---|---|---|")
for number, name, grpc, text, following in rows:
    print(f"| {number} | {name} | {GRPC[int(grpc)]} | {joined(text)} | {joined(following)} |")
