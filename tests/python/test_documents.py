"""Documents and comments agree with the tree: publications, tables, links, paths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = ("bench", "docs", "examples", "include", "python", "src")
TEXTS = {".c", ".cpp", ".cu", ".cuh", ".hpp", ".md", ".py", ".pyi"}

# Each publication has one DOI here, and each DOI of the tree is one of these.
PUBLICATIONS = {
    "10.1145/3295500.3356166": "Zimmer 2019, networks of Summit and Sierra",
    "10.1145/3581784.3607089": "Atchley 2023, Frontier",
    "10.1109/SC41405.2020.00039": "De Sensi 2020, the Slingshot interconnect",
    "10.1007/978-3-540-68093-2": "Sauter 2011, boundary element methods",
    "10.1002/nme.1620210612": "Dunavant 1985, quadrature on triangles",
    "10.1098/rspa.1971.0097": "Burton 1971, exterior Helmholtz problems",
    "10.1007/s00607-002-1450-4": "Hackbusch 2002, nested bases",
    "10.4171/091": "Börm 2010, compression by nested bases",
    "10.1007/s00211-012-0449-9": "Bebendorf 2012, nested crosses",
    "10.1137/120866683": "Ho 2012, recursive skeletons",
    "10.1137/S0895479802403459": "van den Eshof 2004",
    "10.1137/S1064827502406415": "Simoncini 2003",
    "10.1080/03610919008812866": "Hutchinson 1990",
    "10.1137/15M1026080": "Martinsson 2016",
    "10.1137/S1064827597319519": "Stewart 1999",
    "10.1137/S106482750038146X": "Cortez 2001",
    "10.1145/3072959.3073595": "de Goes 2017",
    "10.1063/1.1670977": "Rotne 1969",
    "10.1137/1031049": "Hager 1989, updating the inverse of a matrix",
    "10.1109/TPDS.2022.3223512": "Alappat 2023, matrix powers by levels of the graph",
    "10.1177/10943420251319332": "Lacey 2025, matrix powers by levels on ranks",
    "10.1137/10079687X": "Fong 2011, LSMR",
    "10.1137/0702016": "Golub 1965, bidiagonalisation",
    "10.1007/BF02165096": "van der Sluis 1969, equilibration",
    "10.1137/1.9781611971484": "Björck 1996, numerical methods for least squares",
    "10.1002/nla.669": "Olson 2010, strength in multigrid by evolution",
    "10.1002/nla.689": "Yang 2010, interpolation over long ranges",
    "10.1016/S0377-0427(00)00516-1": "Stueben 2001, a review of algebraic multigrid",
    "10.1073/pnas.252631999": "Chung 2002, random graphs of given degrees",
    "10.1137/1.9781611971057.ch4": "Ruge 1987, algebraic multigrid",
    "10.1137/110843563": "Livne 2012, lean algebraic multigrid",
    "10.1002/nla.1928": "Vassilevski 2014, additive variants of multigrid",
    "10.1002/nla.542": "Notay 2008, Krylov-based multigrid cycles",
    "10.1002/nla.2343": "Swirydowicz 2021, low synchronization GMRES",
    "10.1007/BF01199431": "Hilbert 1891, a line on a square",
    "10.1007/BF01397083": "Dekker 1971, extending the precision",
    "10.1007/BF02243566": "Dubois 1979, approximating the inverse by a polynomial",
    "10.1007/PL00005410": "Bebendorf 2000, approximation of boundary element matrices",
    "10.1007/s00211-005-0615-4": "Giraud 2005, rounding in classical Gram-Schmidt",
    "10.1007/s00607-003-0019-1": "Grasedyck 2003, arithmetics of H-matrices",
    "10.1007/s00607-004-0103-1": "Grasedyck 2005, recompression of H-matrices",
    "10.1007/s006070050015": "Hackbusch 1999, H-matrices",
    "10.1016/0022-5193(72)90180-4": "Gilbert 1972, SIRT",
    "10.1177/016173468400600107": "Andersen 1984, SART",
    "10.1109/42.363108": "Hudson 1994, ordered subsets",
    "10.1109/TMI.1982.4307558": "Shepp 1982, MLEM",
    "10.1016/0167-2789(92)90242-F": "Rudin 1992, total variation",
    "10.1137/0917016": "Vogel 1996, iterations for total variation",
    "10.1016/0024-3795(89)90285-1": "Greenbaum 1989, behaviour of perturbed Lanczos recurrences",
    "10.1016/S0168-9274(01)00110-6": "Grote 2002, sparse approximate inverse smoothers for multigrid",
    "10.1016/j.ipl.2007.08.034": "Hamilton 2008, compact Hilbert indices",
    "10.1016/j.jcp.2010.12.044": "Colella 2011, fourth-order finite volumes",
    "10.1016/j.laa.2021.12.017": "Carson 2022, block Gram-Schmidt",
    "10.1016/j.parco.2013.06.001": "Ghysels 2014, pipelined cg",
    "10.1016/j.parco.2017.04.005": "Cools 2017, pipelined BiCGStab",
    "10.1080/00207169208804107": "Joubert 1992, s-step GMRES",
    "10.1090/S0025-5718-1977-0431719-X": "Brandt 1977, multi-level adaptive solutions",
    "10.1090/S0025-5718-1977-0438681-4": "Meijerink 1977, incomplete Cholesky",
    "10.1090/S0025-5718-1980-0559197-0": "Manteuffel 1980, shifted incomplete Cholesky",
    "10.1093/imanum/14.4.563": "Bai 1994, a Newton basis for GMRES",
    "10.1093/comjnl/4.3.265": "Francis 1961, the QR iteration",
    "10.1016/0024-3795(68)90017-7": "Wilkinson 1968, shifts of the QR iteration",
    "10.1107/S160057751401604X": "De Carlo 2014, Data Exchange",
    "10.1109/8.475946": "Eibert 1995, potential integrals",
    "10.1109/HPEC.2019.8916336": "Kepner 2019, Sparse DNN Graph Challenge",
    "10.1109/HPEC43674.2020.9286206": "Hidayetoglu 2020, sparse networks on GPUs",
    "10.1109/IPDPS.2008.4536305": "Demmel 2008, matrix powers",
    "10.1109/IPDPS.2014.119": "Williams 2014, s-step bottom solvers",
    "10.1109/IPDPSW.2017.65": "Yamazaki 2017, pipelined and s-step GMRES",
    "10.1109/SC41405.2020.00041": "Hidayetoglu 2020, Petascale XCT",
    "10.1109/TAP.1984.1143304": "Wilton 1984, potential integrals",
    "10.1109/TBME.1983.325207": "Oosterom 1983, solid angle",
    "10.1109/TMAG.2015.2464104": "Ida 2016, variable preconditioning",
    "10.1118/1.595715": "Siddon 1985, radiological path",
    "10.1137/030601818": "Ogita 2005, accurate sums and dot products",
    "10.1137/0611010": "Liu 1990, elimination trees",
    "10.1137/0614004": "Kolotilina 1993, factorised sparse approximate inverses",
    "10.1137/0712047": "Paige, Saunders 1975, MINRES and SYMMLQ",
    "10.1137/080731992": "Demmel 2012, communication-avoiding QR",
    "10.1137/0907058": "Saad 1986, GMRES",
    "10.1137/0910023": "Rijk 1989, one-sided Jacobi",
    "10.1137/0913035": "Vorst 1992, BiCGStab",
    "10.1137/0914028": "Saad 1993, flexible GMRES",
    "10.1137/0914086": "Hansen 1993, L-curve",
    "10.1137/S1064827599362314": "Notay 2000, flexible conjugate gradients",
    "10.1137/100798806": "Baker 2011, multigrid smoothers for many processors",
    "10.1137/12086563X": "Ghysels 2013, pipelined GMRES",
    "10.1137/120881191": "Carson 2013, s-step BiCGStab",
    "10.1137/120902677": "Carson 2014, residual replacement",
    "10.1137/14M0973773": "Yamazaki 2015, mixed-precision Cholesky QR",
    "10.1137/17M1117872": "Cools 2018, rounding in pipelined cg",
    "10.1137/18M1218212": "Fukaya 2020, shifted Cholesky QR",
    "10.1137/S0895479894278952": "Amestoy 1996, approximate minimum degree",
    "10.1137/S1064827594276552": "Grote 1997, sparse approximate inverses",
    "10.1137/S1064827595287997": "Karypis 1998, METIS",
    "10.1137/S1064827599353865": "Vorst 2000, residual replacement",
    "10.1145/1693453.1693476": "Hoefler 2010, dynamic sparse data exchange",
    "10.1145/215399.215427": "Alexandrov 1995, LogGP",
    "10.1145/2660193.2660195": "Steele 2014, SplitMix",
    "10.1145/3295500.3356220": "Hidayetoglu 2019, MemXCT",
    "10.1145/355791.355796": "Gustavson 1978, products of sparse matrices",
    "10.1145/355841.355845": "George 1979, pseudo-peripheral nodes",
    "10.1145/355984.355989": "Paige 1982, LSQR",
    "10.1145/502512.502550": "Dhillon 2001, spectral co-clustering",
    "10.1145/800195.805928": "Cuthill 1969, reducing the bandwidth",
    "10.1177/10943420221115140": "Aliaga 2022, compressed basis GMRES",
    "10.1364/JOSAA.1.000612": "Feldkamp 1984, practical cone-beam algorithm",
    "10.1364/OE.22.019078": "Vo 2014, centre of rotation",
    "10.1364/OE.26.028396": "Vo 2018, ring artefacts",
    "10.1046/j.1365-2818.2002.01010.x": "Paganin 2002, phase retrieval",
    "10.1073/pnas.68.9.2236": "Ramachandran 1971, convolution instead of Fourier transforms",
    "10.1553/etna_vol44s306": "Yamamoto 2015, Cholesky QR2",
    "10.2197/ipsjjip.22.642": "Ida 2014, HACApK",
    "10.3233/SPR-2012-0352": "Bavier 2012, Belos",
    "10.1109/TC.1984.1676475": "Huang 1984, algorithm-based fault tolerance",
    "10.6028/jres.049.044": "Hestenes 1952, conjugate gradients",
}
DOI = re.compile(r"\b10\.\d{4,9}/[^\s,;\"'`<>\]|]+")


def texts() -> Iterator[tuple[str, list[str]]]:
    """Every source and document that is kept, with its lines."""
    files = [*ROOT.glob("*.md"), *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*"))]
    for file in sorted(files):
        if file.suffix in TEXTS and file.is_file():
            yield str(file.relative_to(ROOT)), file.read_text().splitlines()


def documents() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def doi_at(text: str) -> str:
    """A DOI without the end of its sentence, or a bracket that was opened before it."""
    text = text.rstrip(".:")
    return text[:-1] if text.endswith(")") and text.count("(") < text.count(")") else text


def test_a_publication_has_one_doi() -> None:
    wrong, seen = [], set()
    # The sources of methods and preconditioners are known from their tables.
    registered = {
        doi_at(found)
        for file in ("krylov/methods.def", "precond/preconds.def")
        for found in DOI.findall((ROOT / "include/tacit" / file).read_text().replace('"', " ").replace(";", " "))
    }
    for file, lines in texts():
        for number, line in enumerate(lines):
            for found in DOI.findall(line):
                doi = doi_at(found)
                seen.add(doi)
                if doi not in PUBLICATIONS:
                    if doi.rstrip(",;") in registered:
                        continue
                    wrong.append(f"{file}:{number + 1}: {doi} is no DOI of PUBLICATIONS")
                    continue
                author = PUBLICATIONS[doi].split(" 20")[0].split(" 19")[0].split(" 18")[0]
                around = " ".join(lines[max(0, number - 4) : number + 1])
                if author not in around.replace("ł", "l"):
                    wrong.append(f"{file}:{number + 1}: {doi} is of {PUBLICATIONS[doi]}; {author} is not named there")
    assert not wrong, "\n".join(wrong)
    assert len(set(PUBLICATIONS.values())) == len(PUBLICATIONS)
    assert seen >= set(PUBLICATIONS), f"nobody refers to {set(PUBLICATIONS) - seen}"


def rows_of(line: str) -> int:
    """The number of columns in a row of a table; escaped bars and those in code do not count."""
    return len(re.sub(r"`[^`]*`|\\\|", "", line).strip().strip("|").split("|"))


@pytest.mark.parametrize("file", documents(), ids=lambda file: str(file.relative_to(ROOT)))
def test_tables_are_whole(file: Path) -> None:
    """Every table has a head and a rule with as many columns as its rows; otherwise it would be shown as text."""
    wrong = []
    columns, before, fenced = 0, "", False
    lines = file.read_text().splitlines()
    for number, line in enumerate(lines):
        fenced ^= line.startswith("```")
        if not line.startswith("|") or fenced:
            columns = 0
        elif columns == 0:
            columns = rows_of(line)
            rule = lines[number + 1] if number + 1 < len(lines) else ""
            if not re.fullmatch(r"\|(\s*:?-+:?\s*\|)+", rule) or rows_of(rule) != columns:
                wrong.append(f"{file.name}:{number + 1}: a row that is under no head (after {before!r})")
        elif rows_of(line) != columns:
            wrong.append(f"{file.name}:{number + 1}: {rows_of(line)} columns in a table of {columns}")
        before = line
    assert not wrong, "\n".join(wrong)


def test_no_page_limits_the_norm_to_some_methods() -> None:
    """`norm="max"` is for every method (test_methods.py), and the documents say so."""
    from tacit._described import SOLVE

    assert not SOLVE["norm"].takers
    assert "every method accepts both" in (ROOT / "docs/theory/methods.md").read_text()


def prose(file: Path) -> str:
    """A document without its code."""
    return re.sub(r"`[^`\n]*`", "`code`", re.sub(r"```.*?```", "", file.read_text(), flags=re.S))


def anchors(file: Path) -> set[str]:
    """The anchors that GitHub makes of the headings of a document."""
    text = re.sub(r"```.*?```", "", file.read_text(), flags=re.S)
    headings = [re.sub(r"[`*]", "", h).strip().lower() for h in re.findall(r"^#+ (.*)$", text, flags=re.M)]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("file", documents(), ids=lambda file: str(file.relative_to(ROOT)))
def test_links_lead_somewhere(file: Path) -> None:
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(file)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        place = (file.parent / path) if path else file
        if not place.exists() or not place.resolve().is_relative_to(ROOT):
            wrong.append(f"{target}: not there")
        elif anchor and anchor not in anchors(place):
            wrong.append(f"{target}: no such heading")
    assert not wrong, "\n".join(wrong)


def test_every_page_and_image_is_linked() -> None:
    linked = {
        (file.parent / target.partition("#")[0]).resolve()
        for file in documents()
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(file))
        if not re.match(r"[a-z]+:|#", target)
    }
    files = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.png")]
    files.remove(ROOT / "docs/site/index.md")  # the start page of the site, instead of docs/README.md
    lonely = [str(file.relative_to(ROOT)) for file in files if file.resolve() not in linked]
    assert lonely == ["docs/README.md"] or not lonely, lonely


def test_results_that_are_kept_are_told() -> None:
    """bench/results has exactly the files that the page of measurements names."""
    named = set(re.findall(r"bench/results/([\w.-]+\.json)\)", (ROOT / "docs/notes/measurements.md").read_text()))
    assert named == {file.name for file in (ROOT / "bench/results").iterdir()}


def test_paths_of_documents_exist() -> None:
    """Pages of docs/ that code names exist."""
    wrong = []
    for file, lines in texts():
        for number, line in enumerate(lines):
            for page in re.findall(r"\bdocs/[\w./-]+\.(?:md|png)\b", line):
                if not file.startswith("tests") and not (ROOT / page).exists():
                    wrong.append(f"{file}:{number + 1}: {page}")
    assert not wrong, "\n".join(wrong)


def value_in(files: str, pattern: str) -> str:
    """The one number that the code has at this pattern."""
    texts = [file.read_text() for file in sorted(ROOT.glob(files)) if file.is_file()]
    (value,) = {number for text in texts for number in re.findall(pattern, text)}
    return str(value)


def test_prose_has_the_defaults_of_the_code() -> None:
    from tacit._described import PRECOND, SOLVE

    restart = int(value_in("include/tacit/krylov/*.hpp", r"default_restart = (\d+)"))
    longest = restart * int(value_in("src/krylov/plan/*.cpp", r"(\d+) \* default_restart"))
    theta = value_in("src/precond/amg/*.cpp", r"strength\.value_or\(([\d.]+)\)")
    classical = value_in("src/precond/amg/*.cpp", r"default_strength = ([\d.]+)")
    rtol, single = "1e-8", "1e-4"  # half of the digits of the scalar: test_solve.py

    def numbers(text: str) -> list[str]:
        return re.findall(r"(?<![\w.])\d+(?:\.\d+|e-?\d+)?", text)

    assert numbers(SOLVE["restart"].absent) == [str(restart), str(longest)]
    assert numbers(PRECOND["strength"].absent) == [theta, classical]
    assert numbers(SOLVE["rtol"].absent) == [rtol, single]
    prose = {
        "docs/theory/methods.md": (
            f"cycles of {2 * restart} and then {longest} vectors instead of {restart}",
            f"half of the digits of the scalar: {rtol}, with float32 and complex64 {single}",
        ),
        "python/tacit/krylov/signatures.py": (f"{restart}, and up to {longest} ",),
        "docs/theory/algebraic-multigrid.md": (f"`strength`, {theta} on the", f"`strength`, {classical} on all levels"),
        "docs/guide/algebraic-multigrid.md": (f"`strength` between {theta} (default) and {classical}",),
        "include/tacit/precond/amg.hpp": (f"{theta} where it is not given", f"relative to a_ii; {classical}."),
    }
    wrong = [
        f"{file}: not there: {text}"
        for file, texts in prose.items()
        for text in texts
        if text not in re.sub(r"\s+(?:///?\s+)?", " ", (ROOT / file).read_text())
    ]
    assert not wrong, "\n".join(wrong)


def test_versions_agree() -> None:
    """CMakeLists.txt has the version; the changelog's newest is that one."""
    version = value_in("CMakeLists.txt", r"project\(tacit VERSION ([\d.]+)")
    assert re.findall(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[0] == version


def test_steps_of_ci_are_listed() -> None:
    """Each part of .ci/run is a row of CONTRIBUTING.md."""
    parts = re.findall(r"""^\s*part ['"]([^'"$]+?) ?(?:\$\w+)?['"]""", (ROOT / ".ci/run").read_text(), re.M)
    listed = re.findall(r"^\| ([^|]+?) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    assert parts
    assert [part for part in parts if part not in listed] == []


def test_every_page_is_in_the_lists_of_the_site() -> None:
    """The side of the site is made of docs/README.md and of the lists of its folders."""
    lists = [ROOT / "docs/README.md", *(ROOT / "docs").glob("*/README.md")]
    links = ((file, link) for file in lists for link in re.findall(r"\]\(([^)#\s]+\.md)", file.read_text()))
    listed = {(file.parent / link).resolve() for file, link in links}
    pages = set((ROOT / "docs").rglob("*.md")) - {ROOT / "docs/README.md", ROOT / "docs/site/index.md"}
    assert sorted(str(page.relative_to(ROOT)) for page in pages - listed) == []


def test_names_of_the_guide_exist() -> None:
    """Names of Tacit and SciPy in the code of pages, in tables too: a page must not teach what is not there."""
    import importlib

    wrong = []
    for page in sorted((ROOT / "docs/guide").glob("*.md")):
        for name in re.findall(
            r"`((?:tacit(?!\.toml)|scipy)(?:\.\w+)+)", re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
        ):
            first, *rest = name.split(".")
            thing = importlib.import_module(first)
            for count, part in enumerate(rest, 1):
                try:
                    thing = getattr(thing, part)
                except ModuleNotFoundError as missing:
                    if missing.name not in ("jax", "torch"):  # a module of Tacit for a library that is not here
                        raise
                    break
                except AttributeError:
                    try:
                        thing = importlib.import_module(".".join((first, *rest[:count])))
                    except ImportError:
                        wrong.append(f"{page.name}: {name}")
                        break
    assert not wrong, "\n".join(wrong)


def test_options_of_the_guide_exist() -> None:
    """`--option` in the guide is an option of a command of Tacit, or of a program that the page names beside it."""
    texts = (ROOT / "docs/reference/command-line.md").read_text()
    others = {"--cpus-per-task", "--mem", "--mpi", "--ntasks", "--signal", "--time"}  # Slurm's
    others |= {"--build", "--install", "--no-install-recommends", "--prefix", "--preset", "--target"}  # CMake's, apt's
    others |= {"--all", "--only", "--stand-in", "--cflags", "--libs"}  # of ./test, of pkg-config
    wrong = []
    for page in sorted((ROOT / "docs/guide").glob("*.md")):
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text()):
            if option not in others and not re.search(rf"{option}(?![\w-])", texts):
                wrong.append(f"{page.name}: {option}")
    assert not wrong, "\n".join(wrong)
