"""Every benchmark of this folder, and one table of what they print.

    python benchmarks/all.py [--quick] [--data_path=DIR] [--output=FILE] [--only training peers]
        [--processor_time]

The table, in Markdown, begins with the machine, the versions and the date, and has one row per
figure. A script that fails stands in it with its last line; the others go on. ``controls.py``
measures models, not time, and is run by itself. ``--processor_time`` goes to every script that has
it: on a machine that does other work too, figures by the clock say little.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
FIGURE = re.compile(r"^([a-z][A-Za-z0-9_@]*): (\S.*)$")
BY_ITSELF = ("all", "controls", "device")
PACKAGES = ("recbole-residual", "recbole", "torch", "numpy", "pandas", "ray")


def processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    match = re.search(r"model name\s*: (.*)", text)
    return match.group(1) if match else platform.machine()


def version(package: str) -> str:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{package} from a checkout" if package == "recbole-residual" else f"no {package}"


def heading() -> list[str]:
    load = f", load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    return [
        f"- date: {datetime.date.today().isoformat()}",
        f"- machine: {processor()}, {os.cpu_count()} cores{load}, {platform.platform()}",
        f"- versions: Python {platform.python_version()}, {', '.join(map(version, PACKAGES))}",
    ]


def run_script(script: Path, arguments: list[str]) -> tuple[str, list[tuple[str, str]]]:
    """The command that ran, and every figure that it printed."""
    command = ["python", f"benchmarks/{script.name}", *arguments]
    print(f"\n$ {' '.join(command)}", flush=True)
    process = subprocess.Popen(
        [sys.executable, str(script), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=FOLDER.parent,
    )
    assert process.stdout is not None
    figures, last = [], ""
    for line in process.stdout:
        print(line, end="", flush=True)
        last = line.strip() or last
        if match := FIGURE.match(line.strip()):
            figures.append((match.group(1), match.group(2)))
    if process.wait():
        figures.append((script.stem, f"failed: {last}"))
    return " ".join(command), figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data_path", help="folder of the atomic files; without it, ml-100k alone")
    parser.add_argument("--output", type=Path, default=Path("benchmarks.md"))
    parser.add_argument("--processor_time", action="store_true")
    parser.add_argument("--only", nargs="+", help="names of scripts")
    options = parser.parse_args()
    scripts = sorted(path for path in FOLDER.glob("*.py") if path.stem not in BY_ITSELF)
    lines = heading()
    lines += ["", "| figure | value | command |", "| --- | ---: | --- |"]
    for script in scripts:
        if options.only and script.stem not in options.only:
            continue
        arguments = [
            text
            for wanted, option, text in (
                (options.quick, "--quick", "--quick"),
                (options.processor_time, "--processor_time", "--processor_time"),
                (options.data_path, "--data_path", f"--data_path={options.data_path}"),
            )
            if wanted and f'"{option}"' in script.read_text(encoding="utf-8")
        ]
        command, figures = run_script(script, arguments)
        lines += [f"| `{name}` | {value} | `{command}` |" for name, value in figures]
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"\nwritten: {options.output}")


if __name__ == "__main__":
    main()
