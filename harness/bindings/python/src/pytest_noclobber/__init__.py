"""noclobber from pytest: programs that share files, in every order that matters.

>>> def test_add(noclobber):
...     noclobber.explore("./add a", "./add b", dir="project")
"""

from .command import ControlLost, NotAsExpected, Noclobber, Report, Usage, program

__all__ = ["ControlLost", "NotAsExpected", "Noclobber", "Report", "Usage", "program"]
