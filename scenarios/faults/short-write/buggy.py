import os

with open("notes") as file:
    text = file.read() + "a line more\n"
fd = os.open("notes.new", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
os.write(fd, text.encode())
os.close(fd)
os.rename("notes.new", "notes")
