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

    def __iadd__(self, other: "Count") -> "Count":
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        return self


def count_cases(file: Path) -> Count:
    count = Count()
    for case in xml.parse(file).iter("testcase"):
        if case.get("status") == "notrun":
            continue  # disabled or filtered out by GoogleTest
        if case.find("failure") is not None or case.find("error") is not None:
            count.failed += 1
        elif case.find("skipped") is not None or case.get("result") == "skipped":
            count.skipped += 1
        else:
            count.passed += 1
    return count


def count_ctest(folder: Path) -> tuple[Count, list[str]]:
    count, bad = Count(), []
    for entry in xml.parse(folder / "ctest.xml").iter("testcase"):
        name, status = entry.get("name", ""), entry.get("status")
        cases = folder / f"{name}.xml"
        try:
            one = count_cases(cases) if cases.exists() else Count(status == "run", 0, status in ("notrun", "disabled"))
        except xml.ParseError:
            one = Count()
        if status == "fail":
            bad.append(f"{folder.parent.name}: {name}")
            one.failed = max(one.failed, 1)
        count += one
    return count, bad


def main() -> int:
    total, bad = Count(), []
    for folder in map(Path, sys.stdin.read().splitlines()):
        if (folder / "ctest.xml").exists():
            count, names = count_ctest(folder)
            bad += names
        elif (folder / "pytest.xml").exists():
            count = count_cases(folder / "pytest.xml")
        else:
            print(f"no report in {folder}: the tests did not run", file=sys.stderr)
            count = Count(failed=1)
        total += count
    for name in bad:
        print(f"failed: {name}")
    if total.skipped:
        print(f"({total.skipped} skipped)")
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
