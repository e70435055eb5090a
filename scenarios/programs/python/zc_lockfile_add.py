import sys

import zc.lockfile
from add import add

# Does not wait: the second one fails, and says so.
lock = zc.lockfile.LockFile("n.lock")
add(sys.argv[1])
lock.close()
