import type { Hello } from "@servemesh/proto/gen/mesh/servemesh/control/v1/replica.js";
import { isModelName } from "@servemesh/proto/model-ref";
import { isLoopback, isSameMachine, parseAddress } from "../platform/address.js";
import { isReplicaId } from "../registry/keys.js";
import { endpointProblem, isEndpoint } from "../registry/record-rules.js";
import { shown } from "../registry/rule-report.js";

const SOFTWARE_VERSION_MAX_CHARS = 64;

/**
 * What is wrong with a batcher's introduction, in one sentence; undefined when nothing.
 * @param peer the connection's other end as grpc-js writes it, `127.0.0.1:40112`
 * @param isAllowed addresses that any batcher may register, besides its connection's own
 */
export function helloProblem(hello: Hello, peer: string, isAllowed: (ip: string) => boolean): string | undefined {
  const { replicaId, model, version, address, softwareVersion } = hello;
  if (!isReplicaId(replicaId)) {
    return `hello.replica_id ${shown(replicaId)} must match [a-zA-Z0-9][a-zA-Z0-9._-]{0,127}; start the batcher with another --replica-id`;
  }
  if (!isModelName(model)) {
    return `hello.model ${shown(model)} must match [a-z0-9][a-z0-9._-]{0,62}; start the batcher with another --model`;
  }
  if (version < 1n)
    return `hello.version is ${version} but versions count from 1; start the batcher with another --version`;
  if (!isEndpoint(address)) return `hello.${endpointProblem(address)}`;
  if (softwareVersion.length > SOFTWARE_VERSION_MAX_CHARS) {
    return `hello.software_version has ${softwareVersion.length} characters, but at most ${SOFTWARE_VERSION_MAX_CHARS} are possible`;
  }
  if (!hello.tls && !isLoopback(parseAddress(address, "hello.address").host)) {
    return `hello.address ${shown(address)} is not on loopback, but the batcher speaks plain text there; start it with --tls-certificate, --tls-key and --tls-ca`;
  }
  return isOwnAddress(address, peer) || isAllowed(parseAddress(address, "hello.address").host)
    ? undefined
    : `hello.address ${shown(address)} is neither this machine's nor that of the connection (${peer}), nor in a --batcher-range of the control plane; a batcher may only register itself`;
}

/** A batcher speaks for itself only, so that it cannot send other people's traffic somewhere. */
function isOwnAddress(address: string, peer: string): boolean {
  const { host } = parseAddress(address, "hello.address");
  try {
    return isSameMachine(host, parseAddress(peer, "peer").host);
  } catch {
    return isLoopback(host);
  }
}
