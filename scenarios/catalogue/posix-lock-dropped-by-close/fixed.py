import fcntl, os

owned = os.open("count", os.O_RDWR)
fcntl.lockf(owned, fcntl.LOCK_EX)
count = int(os.pread(owned, 20, 0))
os.pwrite(owned, str(count + 1).encode(), 0)
os.close(owned)
