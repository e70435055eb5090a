import os

with open("settings.tmp", "w") as new:
    new.write('{"version": 2}\n')
os.rename("settings.tmp", "settings.json")
