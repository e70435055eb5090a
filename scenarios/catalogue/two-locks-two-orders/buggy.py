import fcntl, sys

source, target = sys.argv[1:]
held = []
for name in (source, target):
    held.append(open(f"{name}.lock", "a"))
    fcntl.flock(held[-1], fcntl.LOCK_EX)

first, *rest = open(source).read().split()
with open(source, "w") as file:
    file.write("\n".join(rest))
with open(target, "a") as file:
    file.write(f"{first}\n")
