"""The plan of the house, enforced: who may import whom, what stays outside, and how light the door is.

Everything here reads the source as text; only the last tests start a fresh interpreter.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "rat_jax"

# A room imports only from rooms earlier in this list.
ROOMS = ["naming", "labels", "model", "inference", "studies", "report", "cli", "__main__", "__init__"]

# Third parties so heavy, or so seldom needed, that they are imported where they are used. Drawing is what
# the report room does, so it may load matplotlib at once.
LAZY = {"arviz", "funsor", "h5netcdf", "loky", "matplotlib", "ppi_py"}
AT_THE_TOP = {("report", "matplotlib")}

# Third parties that no fit needs: imported where they are used, with an error that names the package to install.
OPTIONAL = {"ppi_py": "ppi-python"}

# The key-value store of jax.distributed has no public name; one module looks it up, and nothing else of JAX's inside.
PRIVATE = {"rat_jax/studies/hosts.py"}

# Exact answers need no JAX, so what samples with it is imported when chains are asked for.
LAZY_MODULES = {"rat_jax.inference.lanes", "rat_jax.inference.nuts"}

# The command line answers --help without them, so it reaches the package inside its commands, and the
# facade resolves its names on first use.
LAZY_ROOMS = {"cli", "__init__"}

MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(module: Path) -> str:
    return module.relative_to(ROOT).as_posix()


def room_of(module: Path) -> str:
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(module: Path) -> Iterator[tuple[str, int, bool]]:
    """Every import of a module: absolute dotted name, line, and whether it stands inside a function."""

    def visit(node: ast.AST, inside: bool) -> Iterator[tuple[str, int, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((alias.name, child.lineno, inside) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                base = absolute(module, child)
                yield from ((f"{base}.{alias.name}", child.lineno, inside) for alias in child.names)
            elif not is_type_checking(child):
                is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from visit(child, inside or is_function)

    yield from visit(ast.parse(module.read_text(encoding="utf-8")), inside=False)


def absolute(module: Path, statement: ast.ImportFrom) -> str:
    """`from ..labels import x` inside rat_jax/model/rat.py names rat_jax.labels."""
    if not statement.level:
        return statement.module or ""
    package = module.parent.relative_to(ROOT).parts
    parts = package[: len(package) - statement.level + 1]
    return ".".join([*parts, statement.module] if statement.module else parts)


def is_type_checking(node: ast.AST) -> bool:
    """An `if TYPE_CHECKING:` block never runs."""
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def imported_room(name: str) -> str | None:
    """The room that an absolute name of this package leads to; None for a third party."""
    top, *rest = name.split(".")
    if top != "rat_jax":
        return None
    return rest[0] if rest and rest[0] in ROOMS else "__init__"


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_a_room_imports_only_from_rooms_before_it(module):
    own = room_of(module)
    assert own in ROOMS, f"{name_of(module)} is in no known room; add it to ROOMS and docs/architecture.md"
    for name, line, _ in imports(module):
        other = imported_room(name)
        if other is None or other == own or (own in LAZY_ROOMS and name.split(".")[-1] == "__version__"):
            continue
        allowed = ROOMS.index(other) < ROOMS.index(own) or (own == "cli" and other == "__init__")
        assert allowed, f"{name_of(module)}:{line} imports {name}: {other} comes after {own}"


@pytest.mark.parametrize("package", [room for room in ROOMS if (PACKAGE / room).is_dir()])
def test_the_modules_of_a_room_form_a_list(package):
    """No two modules of one room need each other, directly or around a corner."""
    needs = {
        module.stem: {
            part
            for name, _, _ in imports(module)
            if name.startswith(f"rat_jax.{package}.")
            for part in [name.split(".")[2]]
            if (PACKAGE / package / f"{part}.py").exists()
        }
        for module in (PACKAGE / package).glob("*.py")
        if module.stem != "__init__"
    }
    while needs:
        free = {module for module, others in needs.items() if not (others - {module}) & needs.keys()}
        assert free, f"modules of rat_jax/{package} import each other in a circle: {sorted(needs)}"
        needs = {module: others for module, others in needs.items() if module not in free}


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_imports_stand_at_the_top(module):
    for name, line, inside in imports(module):
        if inside and room_of(module) not in LAZY_ROOMS:
            fine = name.split(".")[0] in LAZY or name in LAZY_MODULES
            assert fine, f"{name_of(module)}:{line} imports {name} inside a function"


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_heavy_third_parties_are_imported_where_they_are_used(module):
    for name, line, inside in imports(module):
        third_party = name.split(".")[0]
        if third_party in LAZY and (room_of(module), third_party) not in AT_THE_TOP:
            assert inside, f"{name_of(module)}:{line} imports {name} as soon as the module is loaded"


@pytest.mark.parametrize("module", sorted((PACKAGE / "labels").rglob("*.py")), ids=name_of)
def test_labels_know_nothing_of_jax(module):
    for name, line, _ in imports(module):
        assert name.split(".")[0] not in {"jax", "jaxlib", "numpyro"}, f"{name_of(module)}:{line}: {name}"


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_only_public_names_of_jax_and_numpyro_are_used(module):
    if name_of(module) in PRIVATE:
        return
    assert not re.search(r"\b(jax|numpyro)\._src\b", module.read_text(encoding="utf-8"))


def packages(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w.-]", line)[0] for line in requirements}


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_every_third_party_import_is_a_declared_dependency(module):
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = packages(metadata["project"]["dependencies"])
    optional = packages(metadata["project"]["optional-dependencies"]["bench"])
    for name, line, _ in imports(module):
        top = name.split(".")[0]
        if top in OPTIONAL:
            assert OPTIONAL[top] in optional, f"{name_of(module)}:{line} imports {top}, which no extra declares"
            continue
        known = top in declared | sys.stdlib_module_names | {"rat_jax"}
        assert known, f"{name_of(module)}:{line} imports {top}, which pyproject.toml does not declare"


@pytest.mark.parametrize("module", [m for m in MODULES if m.stat().st_size], ids=name_of)
def test_a_module_opens_by_saying_what_it_is_for(module):
    assert ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))


def text_files() -> Iterator[Path]:
    """Every text file of the repository that is ours to write; data and licence texts are not."""
    folders = ["rat_jax", "tests", "docs", "notebooks", "benchmarks", ".ci"]
    suffixes = {".py", ".md", ".toml", ".yaml", ".yml", ".cff", ".sh", ""}
    for path in [*ROOT.iterdir(), *(path for folder in folders for path in (ROOT / folder).rglob("*"))]:
        if path.is_file() and path.suffix in suffixes and "__pycache__" not in path.parts:
            yield path


def test_no_file_mentions_the_machine_it_was_written_on():
    machine = re.compile(r"(?<![\w.~$}])/(home|root|Users|work|mnt|private|tmp)/[\w.]")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in text_files()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if machine.search(line)
    ]
    assert not found, "\n".join(found)


def loaded_by(statement: str) -> set[str]:
    """Top-level packages loaded in a fresh interpreter after one statement."""
    script = f"import sys\n{statement}\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT, timeout=120
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["rat_jax", "rat_jax.cli"])
def test_the_door_is_light(module):
    """`import rat_jax` and `rat-jax --help` must not wait for JAX, pandas or matplotlib."""
    heavy = {"jax", "jaxlib", "numpyro", "pandas", "xarray", "scipy", *LAZY}
    assert not loaded_by(f"import {module}") & heavy


def test_fitting_needs_neither_arviz_nor_funsor_nor_h5netcdf():
    assert not loaded_by("import rat_jax; rat_jax.read_labels; rat_jax.fit; rat_jax.load") & LAZY
