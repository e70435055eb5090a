"""The installed package, used as a project would: a case that passes, one that fails, one that cannot be told."""

import os

pytest_plugins = ["pytester"]

ADD = "#!/bin/sh\nread x < n; echo $((x + 1)) > n\n"
LOCKED = "#!/bin/sh\nexec flock lock -c 'read x < n; echo $((x + 1)) > n'\n"


def project(pytester, script):
    pytester.makefile("", n="0\n")
    (pytester.path / "n").write_text("0\n")
    add = pytester.path / "add"
    add.write_text(script)
    add.chmod(0o755)


def test_a_lost_update_fails_the_test_and_shows_the_lanes(pytester):
    project(pytester, ADD)
    pytester.makepyfile("def test_add(noclobber):\n    noclobber.explore('./add', './add')\n")
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*$ noclobber explore -- ./add ::: ./add*", "*A  *B*", "*read n*", "*coverage:*"])
    assert "Traceback" not in result.stdout.str()


def test_a_lock_lets_it_pass(pytester):
    project(pytester, LOCKED)
    pytester.makepyfile(
        "def test_add(noclobber):\n"
        "    report = noclobber.explore('./add', ['./add'], seed=3)\n"
        "    assert report.verdict == 'clean' and report.explored['exhausted'] and report.trace_hash\n"
    )
    pytester.runpytest().assert_outcomes(passed=1)


def test_an_expected_fault_passes_and_is_there_to_look_at(pytester):
    project(pytester, ADD)
    pytester.makepyfile(
        "def test_add(noclobber):\n"
        "    report = noclobber.explore('./add', './add', expect='anomaly')\n"
        "    assert report.anomalies and 'coverage:' in report.text\n"
    )
    pytester.runpytest().assert_outcomes(passed=1)


def test_the_marker_runs_scenarios(pytester):
    project(pytester, ADD)
    workers = "".join(f'[[worker]]\nname = "{name}"\nrun = "./add"\n' for name in "AB")
    (pytester.path / "loses.toml").write_text(f'dir = "."\nexpect = "anomaly"\n{workers}')
    (pytester.path / "guard.toml").write_text(f'dir = "."\nexpect = "clean"\n{workers}')
    pytester.makepyfile(
        "import pytest\n"
        "@pytest.mark.noclobber('loses.toml')\ndef test_known():\n    pass\n"
        "@pytest.mark.noclobber('guard.toml')\ndef test_guard():\n    pass\n"
        "@pytest.mark.noclobber()\ndef test_nothing():\n    pass\n"
    )
    pytester.runpytest("--strict-markers").assert_outcomes(passed=1, errors=2)


def test_what_cannot_be_told_is_no_pass(pytester):
    project(pytester, ADD)
    pytester.makepyfile("def test_it(noclobber):\n    noclobber.explore('exit 1', './add')\n")
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*cannot tell; this is no pass*"])


def test_a_mistake_is_told(pytester):
    project(pytester, ADD)
    pytester.makepyfile("def test_it(noclobber):\n    noclobber.explore('./add', './add', search='dpor')\n")
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*unknown search `dpor`*"])


def test_the_program_is_the_carried_one(pytester):
    import pytest_noclobber

    assert "NOCLOBBER" in os.environ or "pytest_noclobber" in pytest_noclobber.program()
