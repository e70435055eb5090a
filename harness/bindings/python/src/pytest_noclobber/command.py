"""The noclobber command: where it is, and what it says."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any, Dict, List, Sequence, Union

Command = Union[str, Sequence[str]]


def program() -> str:
    """The program: what NOCLOBBER names, else the one in this package, else the one in PATH."""
    named = os.environ.get("NOCLOBBER")
    if named:
        return named
    carried = Path(__file__).parent / "bin" / "noclobber"
    if carried.exists():
        return str(carried)
    found = shutil.which("noclobber")
    if found is None:
        raise Usage("no noclobber: install the wheel for this platform, or put the program into PATH")
    return found


def main() -> None:
    """The command itself."""
    os.execv(program(), ["noclobber", *sys.argv[1:]])


class Usage(Exception):
    """A mistake in the arguments or in a file (exit code 2)."""


class NotAsExpected(AssertionError):
    """Some order goes wrong (exit code 1): the text has the lanes."""


class ControlLost(Exception):
    """Nothing can be told (exit code 3): never take that for a pass."""


class Report:
    """What noclobber says of one scenario: the keys of its JSON report, and the text for people."""

    def __init__(self, data: Dict[str, Any], text: str):
        self.data = data
        self.text = text

    @property
    def verdict(self) -> str:
        """`clean`, an anomaly kind, or `cannot-tell`."""
        return self.data["verdict"]

    @property
    def as_expected(self) -> bool:
        """The verdict is the expected one."""
        return self.data["as_expected"]

    @property
    def explored(self) -> Dict[str, Any]:
        """How much was tried: schedules, classes, exhausted, ..."""
        return self.data["explored"]

    @property
    def anomalies(self) -> List[Dict[str, Any]]:
        """What was found."""
        return self.data["anomalies"]

    @property
    def trace_hash(self) -> Union[str, None]:
        """The same for the same programs, settings and seed."""
        return self.data["trace_hash"]

    def __repr__(self) -> str:
        return f"<noclobber {self.verdict}: {self.data['scenario']}>"


class Noclobber:
    """Runs noclobber in a folder. Options are those of the command line, with `_` for `-`."""

    def __init__(self, cwd: Union[str, os.PathLike] = "."):
        self.cwd = Path(cwd)
        self.reports: List[Report] = []

    def explore(self, *commands: Command, **options: Any) -> Report:
        """What these commands do to each other; a string is a shell command, a list is a program and its arguments.

        Raises NotAsExpected if some order goes wrong (with `expect=`, if it does not), ControlLost if nothing can be told.
        """
        words: List[str] = []
        for n, command in enumerate(commands):
            words += ([":::"] if n else []) + ([command] if isinstance(command, str) else list(command))
        return self._call("explore", _options(options) + ["--", *words])[0]

    def run(self, *files: Union[str, os.PathLike], **options: Any) -> List[Report]:
        """Scenario files or folders of them; each says what it expects. Raises as `explore` does."""
        return self._call("run", _options(options) + [os.fspath(file) for file in files])

    def _call(self, command: str, words: List[str]) -> List[Report]:
        with tempfile.TemporaryDirectory(prefix="noclobber-") as folder:
            junit = Path(folder) / "report.xml"
            line = [program(), command, "--format", "json", "--junit", str(junit), *words]
            done = subprocess.run(line, cwd=self.cwd, capture_output=True, text=True, errors="replace", check=False)
            texts = _texts(junit)
        shown = shlex.join(["noclobber", command, *words])
        data = [json.loads(out) for out in done.stdout.splitlines() if out.strip()]
        reports = [Report(one, texts[n] if n < len(texts) else "") for n, one in enumerate(data)]
        self.reports += reports
        wrong = "\n".join(report.text or repr(report) for report in reports if not report.as_expected)
        if done.returncode == 0 and reports and not wrong:
            return reports
        text = f"$ {shown}\n\n{wrong}{done.stderr}"
        raise {1: NotAsExpected, 2: Usage}.get(done.returncode, ControlLost)(text)


def _options(options: Dict[str, Any]) -> List[str]:
    words: List[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        values = value if isinstance(value, (list, tuple)) else [value]
        for one in values:
            if one is True:
                words.append(flag)
            elif one is not None and one is not False:
                words += [flag, os.fspath(one) if isinstance(one, os.PathLike) else str(one)]
    return words


def _texts(junit: Path) -> List[str]:
    """The human reports, which the JUnit file holds case by case."""
    if not junit.exists():
        return []
    texts = []
    for case in xml.parse(junit).iter("testcase"):
        holders = [case.find(tag) for tag in ("failure", "error", "system-out")]
        texts.append(next((holder.text or "" for holder in holders if holder is not None), ""))
    return texts
