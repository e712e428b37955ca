"""Rules of the house that a reader cannot see from one file."""

import ast
import inspect
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "neurips25"
BASE = {"nn", "training", "data", "evidence"}
AREAS = {p.name for p in LIBRARY.iterdir() if (p / "__init__.py").exists()} - BASE
MAY_STAND_ON = {"language": {"attention"}}


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", sorted(LIBRARY.rglob("*.py")), ids=lambda p: p.name)
def test_areas_stand_beside_each_other(path):
    parts = path.relative_to(LIBRARY).parts
    own = parts[0] if len(parts) > 1 else None
    allowed = BASE | {own} | MAY_STAND_ON.get(own, set())
    for name in imports_of(path):
        top, *rest = name.split(".")
        assert top not in {"experiments", "configs", "tests"}, f"{path} imports {name}"
        if top == "neurips25" and rest and rest[0] in AREAS:
            assert rest[0] in allowed - (AREAS if own in BASE else set()), f"{path} imports {name}"


@pytest.mark.parametrize("area", sorted(AREAS | BASE))
def test_public_names_exist_and_are_documented(area):
    package = __import__(f"neurips25.{area}", fromlist=["__all__"])
    assert package.__doc__
    assert len(set(package.__all__)) == len(package.__all__)
    for name in package.__all__:
        value = getattr(package, name)
        if inspect.isclass(value) or inspect.isroutine(value):
            assert value.__doc__, f"neurips25.{area}.{name} has no docstring"


# Short name, and arXiv or OpenReview id, of every method in the README's table.
METHODS = re.findall(
    r"^\|[^|]*\(`(\w+)`\).*?(?:arXiv:|OpenReview )([\w.]+)", (ROOT / "README.md").read_text(), re.M
)


def citing(folder, paper):
    """The modules below a folder whose docstring cites a paper."""
    for path in sorted(folder.rglob("*.py")):
        if paper in (ast.get_docstring(ast.parse(path.read_text())) or ""):
            yield path


def test_the_table_of_methods_is_read():
    rows = re.findall(r"^\|.*\(`\w+`\) \|", (ROOT / "README.md").read_text(), re.M)
    assert len(METHODS) == len(rows) >= 1


@pytest.mark.parametrize(("method", "paper"), METHODS)
def test_every_method_of_the_table_has_its_parts(method, paper):
    for part in (
        f"configs/{method}.py",
        f"experiments/{method}.py",
        f"notebooks/{method}.ipynb",
        f"tests/experiments/test_{method}.py",
        f"experiments/measured/{method}.md",
    ):
        assert (ROOT / part).exists(), part
    assert f"experiments/measured/{method}.md" in (ROOT / "README.md").read_text()
    assert "smoke" in (ROOT / "tests" / "experiments" / f"test_{method}.py").read_text()
    assert list(citing(ROOT / "experiments" / "benchmarks", paper)), f"no benchmark of {paper}"
    modules = [path.relative_to(LIBRARY) for path in citing(LIBRARY, paper)]
    tested = [m for m in modules if (ROOT / "tests" / m.parent / f"test_{m.name}").exists()]
    assert tested, f"no tests of {paper}"


def test_readme_example_runs():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})


def test_library_imports_without_the_optional_extras():
    areas = ", ".join(f"neurips25.{a}" for a in sorted(AREAS | BASE))
    code = f"""
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "tiktoken", "tokenizers", "threadpoolctl", "nbformat"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Block())
import {areas}
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_constraints_are_names_and_versions_only():
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"#.*|[A-Za-z0-9._-]+==[A-Za-z0-9._]+", line), line
