#!/usr/bin/python3
"""From one checkpoint to the next on a real object store: the third of test_s3.py's cases."""
import sys

import test_s3

if __name__ == "__main__":
    sys.exit(test_s3.main(test_s3.CHANGES, []))
