"""Write the Envoy/xDS protos that the `xds-protos` wheel carries as one binary FileDescriptorSet.

Usage: dump-xds-protos.py OUTPUT.binpb

The wheel holds compiled modules only, so the descriptors are read from the modules' pool. Three things need care:
- json_name: CopyToProto leaves it empty, and ts-proto would then write every JSON field under the name "" without a word.
- RetryPolicy.refresh_cluster_on_retry (field 14, Envoy 1.40): newer than the wheel, added here when absent.
- one test module of the wheel cannot be imported; it is skipped, anything else that fails is an error.
"""

import importlib
import importlib.metadata
import sys

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

WHEEL = "xds-protos"
RETRY_POLICY_FILE = "envoy/config/route/v3/route_components.proto"


def module_names():
    files = importlib.metadata.files(WHEEL) or []
    return sorted(str(f)[:-3].replace("/", ".") for f in files if str(f).endswith("_pb2.py"))


def collect_files():
    """All files of the wheel, dependencies before their users, as buf wants them."""
    seen = set()
    ordered = []

    def add(descriptor):
        if descriptor.name in seen:
            return
        seen.add(descriptor.name)
        for dependency in descriptor.dependencies:
            add(dependency)
        proto = FileDescriptorProto()
        descriptor.CopyToProto(proto)
        ordered.append(proto)

    for name in module_names():
        try:
            module = importlib.import_module(name)
        except (ImportError, TypeError) as error:
            if name.startswith("test."):
                continue
            raise SystemExit(f"{WHEEL}: module {name} cannot be imported: {error}; reinstall the wheel")
        add(module.DESCRIPTOR)
    return ordered


def add_refresh_cluster_on_retry(files):
    file = next(f for f in files if f.name == RETRY_POLICY_FILE)
    policy = next(m for m in file.message_type if m.name == "RetryPolicy")
    if any(f.name == "refresh_cluster_on_retry" for f in policy.field):
        return
    taken = [f.name for f in policy.field if f.number == 14]
    if taken:
        raise SystemExit(f"RetryPolicy field 14 is taken by {taken[0]}; check {WHEEL} against Envoy 1.40")
    policy.field.add(
        name="refresh_cluster_on_retry",
        number=14,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
        type=FieldDescriptorProto.TYPE_BOOL,
    )


def lower_camel(name):
    """protoc's rule: drop each underscore and upper-case the letter after it."""
    head, *tail = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in tail)


def fill_json_names(container):
    fields = list(container.field) if hasattr(container, "field") else []
    for field in [*fields, *container.extension]:
        field.json_name = field.json_name or lower_camel(field.name)
    nested = container.message_type if hasattr(container, "message_type") else container.nested_type
    for message in nested:
        fill_json_names(message)


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: dump-xds-protos.py OUTPUT.binpb")
    files = collect_files()
    add_refresh_cluster_on_retry(files)
    for file in files:
        fill_json_names(file)
    with open(sys.argv[1], "wb") as out:
        out.write(FileDescriptorSet(file=files).SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
