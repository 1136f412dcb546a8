"""What a user of the installed package gets: names, types, and no surprise at import."""

import importlib
import inspect
import pickle
import pkgutil
import re
import tomllib
from importlib import metadata, resources
from pathlib import Path
from types import ModuleType

import sweepgrad as sg
from support.child import run_child
from sweepgrad import errors

#: Needs an extra, named here, to be imported.
NEEDS_EXTRA = ("sweepgrad.explore",)


def modules():
    found = [info.name for info in pkgutil.walk_packages(sg.__path__, "sweepgrad.")]
    return [
        name for name in found if not name.startswith(NEEDS_EXTRA) and not name.endswith("__main__")
    ]


def test_import_loads_no_third_party_package_but_numpy():
    out = run_child(
        """
        before = set(sys.modules)
        import sweepgrad
        new = set(sys.modules) - before
        # Without a spec nothing was found and loaded: what NumPy's own extensions register.
        tops = {name.split(".")[0] for name in new if getattr(sys.modules[name], "__spec__", None)}
        print(sorted(tops - sys.stdlib_module_names))
        """
    )

    assert out.strip() == "['numpy', 'sweepgrad']"


def test_import_loads_neither_trainer_nor_command_line_and_starts_no_thread():
    out = run_child(
        """
        import sweepgrad, threading
        loaded = [n for n in sys.modules if n.startswith(("sweepgrad.train", "sweepgrad.cli"))]
        print(loaded, threading.active_count())
        """
    )

    assert out.strip() == "[] 1"


def test_every_public_name_is_in_all_and_every_name_in_all_exists():
    public = {
        name
        for name, value in vars(sg).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    declared = set(sg.__all__)

    assert len(sg.__all__) == len(declared)
    assert public - declared == set()
    assert {name for name in declared if not hasattr(sg, name)} == set()


def test_every_error_is_public_and_a_sweepgrad_error():
    found = {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and value.__module__ == errors.__name__
    }

    assert all(issubclass(value, sg.SweepgradError) for value in found.values())
    assert {name for name in found if getattr(sg, name, None) is not found[name]} == set()


def test_every_module_imports_and_its_all_exists():
    imported = {name: importlib.import_module(name) for name in modules()}

    assert {
        f"{name}.{item}"
        for name, module in imported.items()
        for item in getattr(module, "__all__", ())
        if not hasattr(module, item)
    } == set()
    assert [name for name, module in imported.items() if not module.__doc__] == []


def pickles(operation):
    try:
        return pickle.loads(pickle.dumps(operation)) is operation
    except (pickle.PicklingError, AttributeError):
        return False


def test_every_operation_pickles_by_name():
    """A model that holds an operation as its activation can be copied and sent."""
    operations = sg.operations()

    assert len(operations) > 50
    assert [name for name in operations if not pickles(getattr(sg, name))] == []


def test_the_type_marker_is_shipped():
    assert (resources.files("sweepgrad") / "py.typed").is_file()


def test_the_version_of_the_package_is_the_one_in_the_project_file():
    project = Path(sg.__file__).parents[2] / "pyproject.toml"
    stated = tomllib.loads(project.read_text("utf-8"))["project"]

    assert stated["version"] == sg.__version__
    assert stated["scripts"] == {"sweepgrad": "sweepgrad.cli:main"}
    assert [re.match(r"[\w-]+", need)[0] for need in stated["dependencies"]] == ["numpy"]


def test_the_installed_metadata_agrees_when_there_is_an_installation():
    found = [dist for dist in metadata.distributions() if dist.metadata["Name"] == "sweepgrad"]

    assert {dist.version for dist in found} <= {sg.__version__}
