import sys

from add import add
from filelock import FileLock

with FileLock("n.lock"):
    add(sys.argv[1])
