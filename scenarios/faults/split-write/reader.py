import os

fd = os.open("page", os.O_RDONLY)
print("".join(sorted(set(os.read(fd, 6000).decode()))))
