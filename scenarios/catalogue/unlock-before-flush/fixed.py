import fcntl, sys

lock = open("names.lock", "a")
fcntl.flock(lock, fcntl.LOCK_EX)
file = open("names", "r+")
names = file.read()
file.seek(0)
file.write(f"{names}{sys.argv[1]}\n")
file.flush()
fcntl.flock(lock, fcntl.LOCK_UN)
file.close()
