"""The tests on every Python, and with the oldest and the newest libraries: ``pipx run nox``.

nox stays out of the package's own environment: it wants a newer colorlog than RecBole allows.
"""

import nox

nox.options.sessions = ["tests"]

BY_PIP = ["3.9", "3.10", "3.11"]
BY_HAND = ["3.12", "3.13"]
"""RecBole's ray has no wheels there: docs/getting_started.md, "Python 3.12 and 3.13"."""


def install(session: nox.Session, *wanted: str) -> None:
    """This package with what its tests need, and other versions of its libraries."""
    if session.python in BY_HAND:
        session.install("-r", "requirements/python-3.12.txt", *wanted)
        session.install("--no-deps", "recbole==1.2.1")
        session.install("ray[tune]", *wanted)
        session.install("--no-deps", ".")
        session.install("pytest", "pytest-cov", "pytest-xdist", "hypothesis", "pyarrow")
    else:
        session.install(".[test]", *wanted)


@nox.session(python=[*BY_PIP, *BY_HAND])
def tests(session: nox.Session) -> None:
    """The tests with the libraries that pip chooses."""
    install(session)
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session(python="3.9")
def oldest(session: nox.Session) -> None:
    """The oldest torch, pandas and numpy that setup.cfg allows and Python 3.9 has wheels of."""
    install(session, "torch==2.1.*", "pandas==1.3.*", "numpy==1.21.*")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session(python="3.13")
def newest(session: nox.Session) -> None:
    """The newest torch, pandas and numpy."""
    install(session)
    session.install("--upgrade", "torch", "pandas", "numpy")
    session.run("python", "-m", "pytest", *session.posargs)
