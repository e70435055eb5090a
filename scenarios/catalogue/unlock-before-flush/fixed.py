import fcntl

lock = open("count.lock", "a")
fcntl.flock(lock, fcntl.LOCK_EX)
file = open("count", "r+")
count = int(file.read())
file.seek(0)
file.write(str(count + 1))
file.flush()
fcntl.flock(lock, fcntl.LOCK_UN)
file.close()
