#!/usr/bin/python3
"""Stands for systemd with the unit of ckptd: starts the command again when it fails, but after the exit codes of RestartPreventExitStatus.

Flow    SIGTERM goes on to the command, and its end is the end; the command dies with this program.
"""
import ctypes
import os
import signal
import subprocess
import sys
import time

PREVENTED = (0, 2, 4, 5)


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def main():
    ended = False

    def end(number, _):
        nonlocal ended
        ended = True
        process.send_signal(number)

    environment = {**os.environ, "INVOCATION_ID": "tests"}
    environment.pop("NOTIFY_SOCKET", None)
    environment.pop("SYSTEMD_EXEC_PID", None)
    while True:
        process = subprocess.Popen(sys.argv[1:], preexec_fn=die_with_parent, env=environment)
        signal.signal(signal.SIGTERM, end)
        code = process.wait()
        if ended or code in PREVENTED:
            return code if code >= 0 else 128 - code
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
