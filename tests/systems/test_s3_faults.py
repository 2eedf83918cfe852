#!/usr/bin/python3
"""A real object store that dies, stands still, refuses, answers late or slowly: a third of test_s3.py's cases."""
import sys

import test_s3

if __name__ == "__main__":
    sys.exit(test_s3.main(test_s3.FAULTS, []))
