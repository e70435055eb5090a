import os, sys

fresh = f"new.{os.getpid()}"
with open(fresh, "w") as file:
    print(sys.argv[1], file=file)
number = max(int(name) for name in os.listdir("tasks")) + 1
os.rename(fresh, f"tasks/{number}")
