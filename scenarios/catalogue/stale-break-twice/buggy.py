import os, time

STALE = 60

while True:
    try:
        os.close(os.open("count.lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        break
    except FileExistsError:
        pass
    try:
        if time.time() - os.stat("count.lock").st_mtime > STALE:
            os.unlink("count.lock")
            continue
    except FileNotFoundError:
        continue
    time.sleep(0.1)

count = int(open("count").read())
fresh = f"count.{os.getpid()}"
with open(fresh, "w") as file:
    file.write(str(count + 1))
os.rename(fresh, "count")
try:
    os.unlink("count.lock")
except FileNotFoundError:
    pass
