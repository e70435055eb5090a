"""The fixture `noclobber` and the marker of the same name."""

from pathlib import Path

import pytest

from .command import ControlLost, NotAsExpected, Noclobber, Usage


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "noclobber(*files, **options): run these scenario files (relative to the test's file) before the test; "
        "it fails if one is not as it expects",
    )


class _Failing(Noclobber):
    """Ends the test with the report instead of a stack of our own calls."""

    def _call(self, command, words):
        __tracebackhide__ = True
        try:
            return super()._call(command, words)
        except NotAsExpected as wrong:
            text = str(wrong)
        except ControlLost as lost:
            text = f"noclobber cannot tell; this is no pass\n{lost}"
        except Usage as mistake:
            text = str(mistake)
        pytest.fail(text, pytrace=False)


@pytest.fixture
def noclobber(request):
    """Runs noclobber in the folder of the test's file: `noclobber.explore("./a", "./b")`, `noclobber.run("guard.toml")`."""
    return _Failing(Path(request.node.path).parent)


@pytest.fixture(autouse=True)
def _noclobber_marked(request):
    for marker in request.node.iter_markers("noclobber"):
        if not marker.args:
            pytest.fail("the marker noclobber needs scenario files", pytrace=False)
        request.getfixturevalue("noclobber").run(*marker.args, **marker.kwargs)
