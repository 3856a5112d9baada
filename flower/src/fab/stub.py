#!/usr/bin/env python3
"""Writes stub.fab beside this file: the application bundle that flwr 1.41 requires, with only its name in it.

    python stub.py

Stored, not compressed, and dated 1980, so that the bytes are the same everywhere.
"""

import hashlib
import pathlib
import zipfile

PROJECT = """[project]
name = "partita"
version = "1.0.0"
description = "Stands for a Partita run: parties run what their owners installed."
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "partita"

[tool.flwr.app.components]
serverapp = "partita.coordinator:app"
clientapp = "partita.silo:app"

[tool.flwr.app.config]
"""

content = f"pyproject.toml,{hashlib.sha256(PROJECT.encode()).hexdigest()},{8 * len(PROJECT)}\n"
with zipfile.ZipFile(pathlib.Path(__file__).with_name("stub.fab"), "w") as archive:
    for name, text in [("pyproject.toml", PROJECT), (".info/CONTENT", content)]:
        archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), text)
