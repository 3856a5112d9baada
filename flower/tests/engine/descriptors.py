#!/usr/bin/env python3
"""Prints every protobuf field of the installed flwr, one a line: `Message number label type name`.

    python descriptors.py

`Message` is the full name without `flwr.proto.`; label is `one`, `maybe` (with presence of its own), `many`, or `of:NAME` for a
member of the oneof NAME; type is a protobuf scalar, or the name of a message. Entries of maps are messages like others.
"""

import importlib
import pkgutil

import flwr.proto
from google.protobuf.descriptor import FieldDescriptor

SCALARS = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}


def short(name: str) -> str:
    return name.removeprefix("flwr.proto.")


def label(field: FieldDescriptor) -> str:
    if field.is_repeated:
        return "many"
    oneof = field.containing_oneof
    # An optional scalar of proto3 is the only member of a oneof that the compiler names `_field`.
    if oneof is not None and oneof.name != f"_{field.name}":
        return f"of:{oneof.name}"
    return "maybe" if field.has_presence else "one"


def show(message) -> None:
    for field in message.fields:
        kind = short(field.message_type.full_name) if field.message_type else SCALARS[field.type]
        print(short(message.full_name), field.number, label(field), kind, field.name)
    for nested in message.nested_types:
        show(nested)


for module in pkgutil.iter_modules(flwr.proto.__path__):
    if module.name.endswith("_pb2"):
        file = importlib.import_module(f"flwr.proto.{module.name}").DESCRIPTOR
        for message in file.message_types_by_name.values():
            show(message)
