/**
 * Does what xds_call.py does, with the unmodified @grpc/grpc-js-xds: each line of standard input is one call, each line of
 * standard output how one ended. Ends with standard input.
 */
import { createInterface } from "node:readline";
import { Client, credentials, Metadata, status } from "@grpc/grpc-js";
import { register } from "@grpc/grpc-js-xds";

register();
const clients = new Map();
const asIs = (bytes) => bytes;

function clientOf(target) {
  let client = clients.get(target);
  if (client === undefined) {
    client = new Client(target, credentials.createInsecure());
    clients.set(target, client);
  }
  return client;
}

function report(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

const lines = createInterface({ input: process.stdin });
lines.on("line", (text) => {
  const { id, target, method, timeout_s: timeoutS } = JSON.parse(text);
  const options = { deadline: Date.now() + timeoutS * 1000 };
  const empty = Buffer.alloc(0);
  clientOf(target).makeUnaryRequest(method, asIs, asIs, empty, new Metadata(), options, (error, answer) => {
    if (error) report({ id, status: status[error.code], details: error.details });
    else report({ id, answer: answer.toString() });
  });
});
lines.on("close", () => {
  for (const client of clients.values()) client.close();
  // The xDS client of the package keeps its connection for good.
  process.exit(0);
});
