"""Adds up the reports of ./test. Reads folders from standard input; the last line is `N passed, N failed`.

A folder holds pytest.xml, or ctest.xml and one <test>.xml by GoogleTest for each entry of ctest. A GoogleTest case
counts as one; an entry of ctest that failed without naming a failed case (a crash, a time-out) counts as one failure.
"""

import sys
import xml.etree.ElementTree as xml
from pathlib import Path


class Count:
    def __init__(self, passed: int = 0, failed: int = 0, skipped: int = 0) -> None:
        self.passed, self.failed, self.skipped = passed, failed, skipped
        self.names: list[str] = []  # of the failed ones

    def __iadd__(self, other: "Count") -> "Count":
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.names += other.names
        return self


def count_suites(file: Path) -> dict[tuple[str, str], Count]:
    """By the name of the suite and, of a typed one, its type as GoogleTest writes it."""
    counts: dict[tuple[str, str], Count] = {}
    for case in xml.parse(file).iter("testcase"):
        if case.get("status") == "notrun":
            continue  # disabled or filtered out by GoogleTest
        suite = case.get("classname", "")
        count = counts.setdefault((suite.split("/")[0], case.get("type_param", "")), Count())
        if case.find("failure") is not None or case.find("error") is not None:
            count.failed += 1
            count.names.append(f"{suite}.{case.get('name', '')}")
        elif case.find("skipped") is not None or case.get("result") == "skipped":
            count.skipped += 1
        else:
            count.passed += 1
    return counts


def count_cases(file: Path) -> Count:
    total = Count()
    for count in count_suites(file).values():
        total += count
    return total


def count_ctest(folder: Path) -> Count:
    count = Count()
    for entry in xml.parse(folder / "ctest.xml").iter("testcase"):
        name, status = entry.get("name", ""), entry.get("status")
        cases = folder / f"{name}.xml"
        try:
            one = count_cases(cases) if cases.exists() else Count(status == "run", 0, status in ("notrun", "disabled"))
        except xml.ParseError:
            one = Count()
        if status == "fail":
            one.failed = max(one.failed, 1)
            one.names = [
                f"{folder.parent.name}, {name}: {case}" for case in one.names or ["no case named (crash, time-out)"]
            ]
        count += one
    return count


def main() -> int:
    total = Count()
    for folder in map(Path, sys.stdin.read().splitlines()):
        if (folder / "ctest.xml").exists():
            count = count_ctest(folder)
        elif (folder / "pytest.xml").exists():
            count = count_cases(folder / "pytest.xml")
        else:
            count = Count(failed=1)
            count.names.append(f"no report in {folder}: the tests did not run")
        total += count
    for name in total.names:
        print(f"failed: {name}")
    if total.skipped:
        print(f"({total.skipped} skipped)")
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
