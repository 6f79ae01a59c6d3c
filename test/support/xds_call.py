"""Calls a service whose address only an xDS server knows, with the unmodified grpcio, and prints what came back.

GRPC_XDS_BOOTSTRAP_CONFIG names the xDS server. Each line of standard input is one call, made at once beside the others:
{"id", "target", "method", "timeout_s"}. Each line of standard output is how one ended: {"id", "answer": text} or
{"id", "status": name, "details": text}. Ends with standard input.
"""

import json
import sys
import threading

import grpc

printing = threading.Lock()


def report(line):
    with printing:
        print(json.dumps(line), flush=True)


def ended(call_id, call):
    if call.code() == grpc.StatusCode.OK:
        report({"id": call_id, "answer": call.result().decode()})
    else:
        report({"id": call_id, "status": call.code().name, "details": call.details()})


def main():
    channels = {}
    for line in sys.stdin:
        order = json.loads(line)
        target = order["target"]
        if target not in channels:
            channels[target] = grpc.insecure_channel(target)
        call = channels[target].unary_unary(order["method"]).future(b"", timeout=order["timeout_s"])
        call.add_done_callback(lambda done, call_id=order["id"]: ended(call_id, done))
    for channel in channels.values():
        channel.close()


main()
