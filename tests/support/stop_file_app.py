#!/usr/bin/python3
"""Stubs of programs that are told to save and stop by a file which they poll once a step, as their manuals say; none of their physics. Each
mixes a number over steps, keeps the state where that program does, and begins from it when it is there:

vasp      STOPCAR with LSTOP = .TRUE.; writes WAVECAR and CHGCAR, ends with 0, leaves STOPCAR where it is
abinit    abinit.exit with a line "exit"; writes o_WFK and o_DEN, removes it, ends with 0
cp2k      EXIT, of any content; removes it, writes water-1.restart, ends with 0
espresso  prefix.EXIT, of any content; removes it, writes the folder prefix.save, ends with 0
dumps     DUMP, of any content: writes dump.restart over and over for a while, removes it and goes on
"""
import os
import pathlib
import sys
import time

MASK = (1 << 64) - 1
CODES = {"vasp": ("STOPCAR", ("WAVECAR", "CHGCAR")), "abinit": ("abinit.exit", ("o_WFK", "o_DEN")), "cp2k": ("EXIT", ("water-1.restart",)),
         "espresso": ("prefix.EXIT", ("prefix.save/wfc1.dat", "prefix.save/charge-density.dat")), "dumps": ("DUMP", ("dump.restart",))}


def mix(value, step):
    z = (value + step * 0x9e3779b97f4a7c15) & MASK
    z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & MASK
    return z ^ (z >> 27)


def told(code, stop):
    if not stop.exists():
        return False
    text = stop.read_text()
    if code == "vasp":
        return "LSTOP = .TRUE." in text
    return text.strip() == "exit" if code == "abinit" else True


def save(files, step, value):
    for file in files:
        path = pathlib.Path(file)
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{step} {value}\n")


def main():
    code, folder, steps, delay_s = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    os.chdir(folder)
    stop, files = pathlib.Path(CODES[code][0]), CODES[code][1]
    step, value = 0, 0
    if all(os.path.exists(file) for file in files):
        states = {pathlib.Path(file).read_text() for file in files}
        assert len(states) == 1, states
        step, value = map(int, states.pop().split())
    print(f"begins at step {step}", flush=True)
    while step < steps:
        if told(code, stop):
            if code not in ("vasp", "dumps"):
                stop.unlink()
            for _ in range(5 if code == "dumps" else 1):
                save(files, step, value)
                time.sleep(0.2 if code == "dumps" else 0)
            if code != "dumps":
                return
            stop.unlink(missing_ok=True)
        value = mix(value, step)
        step += 1
        time.sleep(delay_s)
    pathlib.Path("result").write_text(f"{value}\n")


main()
