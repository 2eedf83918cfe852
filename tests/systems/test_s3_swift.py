#!/usr/bin/python3
"""test_s3.py's cases on a store of another make, Swift."""
import sys

import test_s3

if __name__ == "__main__":
    sys.exit(test_s3.tap([test_s3.another_make]))
