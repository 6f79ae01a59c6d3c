"""Print the facts of the `inference` contract as JSON: messages with fields, enums with values, RPCs.

Usage: inference-facts.py [DESCRIPTORS.binpb]
With a FileDescriptorSet it describes that, without it what tritonclient carries. One script for both sides, so that a
difference is one of the contract. (ts-proto cannot do it: it does not tell an absent oneof_index from 0.)
"""

import json
import sys

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet


def load(path):
    if path:
        with open(path, "rb") as source:
            return list(FileDescriptorSet.FromString(source.read()).file)
    from tritonclient.grpc import model_config_pb2, service_pb2

    files = []
    for module in (model_config_pb2, service_pb2):
        file = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        files.append(file)
    return files


def field_facts(message, field):
    in_oneof = field.HasField("oneof_index")
    return {
        "name": field.name,
        "number": field.number,
        "type": FieldDescriptorProto.Type.Name(field.type),
        "label": FieldDescriptorProto.Label.Name(field.label),
        "typeName": field.type_name,
        "oneof": message.oneof_decl[field.oneof_index].name if in_oneof else None,
        "optional": field.proto3_optional,
        "packed": field.options.packed if field.options.HasField("packed") else None,
    }


def add_message(facts, scope, message):
    name = f"{scope}.{message.name}"
    fields = sorted(message.field, key=lambda field: field.number)
    facts["messages"][name] = {
        "fields": [field_facts(message, field) for field in fields],
        "mapEntry": message.options.map_entry,
    }
    for nested in message.nested_type:
        add_message(facts, name, nested)
    for nested in message.enum_type:
        add_enum(facts, name, nested)


def add_enum(facts, scope, enum):
    facts["enums"][f"{scope}.{enum.name}"] = {value.name: value.number for value in enum.value}


def main():
    facts = {"messages": {}, "enums": {}, "methods": {}}
    for file in load(sys.argv[1] if len(sys.argv) > 1 else None):
        if file.package != "inference":
            continue
        for message in file.message_type:
            add_message(facts, file.package, message)
        for enum in file.enum_type:
            add_enum(facts, file.package, enum)
        for service in file.service:
            for method in service.method:
                facts["methods"][f"{file.package}.{service.name}.{method.name}"] = {
                    "input": method.input_type,
                    "output": method.output_type,
                    "clientStreaming": method.client_streaming,
                    "serverStreaming": method.server_streaming,
                }
    json.dump(facts, sys.stdout)


if __name__ == "__main__":
    main()
