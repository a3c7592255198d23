"""Wheels for tests of environments: made on the spot, so that no network is needed."""

import zipfile


def make_wheel(folder, name, version, source, requires=()):
    """A wheel with one module of the same name; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {item}\n" for item in requires)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name}.py", source)
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")
    return path
