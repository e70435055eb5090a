import os, sys

fresh = f"new.{os.getpid()}"
with open(fresh, "w") as file:
    print(sys.argv[1], file=file)
number = max(int(name) for name in os.listdir("tasks")) + 1
while True:
    try:
        os.link(fresh, f"tasks/{number}")
        break
    except FileExistsError:
        number += 1
os.unlink(fresh)
