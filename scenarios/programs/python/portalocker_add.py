import sys

import portalocker
from add import add

with portalocker.Lock("n.lock", timeout=10):
    add(sys.argv[1])
