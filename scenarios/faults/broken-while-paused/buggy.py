import os, sys, time

STALE = 10

while True:
    try:
        os.close(os.open("count.lock", os.O_CREAT | os.O_EXCL))
        break
    except FileExistsError:
        try:
            if time.time() - os.stat("count.lock").st_mtime > STALE:
                os.unlink("count.lock")
                continue
        except FileNotFoundError:
            continue
        time.sleep(1)
n = int(open("count").read())
with open(f"count.{sys.argv[1]}", "w") as file:
    file.write(f"{n + 1}\n")
os.rename(f"count.{sys.argv[1]}", "count")
try:
    os.unlink("count.lock")
except FileNotFoundError:
    pass
