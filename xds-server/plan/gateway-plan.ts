import { isIP } from "node:net";
import type { Gateway } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import type { Finding, RegistryState } from "../registry/state.js";
import { isUnreadable } from "./last-good.js";
import type { GatewayPlan, TlsPlan } from "./mesh-plan.js";

/** Default limit of a request body at every door, in bytes. */
export const DEFAULT_MAX_REQUEST_BYTES = 4 * 1024 * 1024;
/** Tensors larger than this belong into a store, not into a request. */
export const MAX_REQUEST_BYTES_CEILING = 256 * 1024 * 1024;

/**
 * Listener settings. All Envoys get the same listeners for now, so of several gateway records the one named `default`
 * counts, else the first by name.
 */
export function planGateway(
  state: RegistryState,
  previous: GatewayPlan | undefined,
): { gateway: GatewayPlan | undefined; findings: Finding[] } {
  const findings: Finding[] = [];
  const names = [...state.gateways.keys()].sort();
  const name = names.includes("default") ? "default" : names[0];
  if (
    previous !== undefined &&
    name !== previous.name &&
    isUnreadable(state, `gateways/${previous.name}`, previous.name)
  ) {
    return { gateway: previous, findings };
  }
  const record = name === undefined ? undefined : state.gateways.get(name)?.value;
  if (name === undefined || record === undefined) {
    const message = "no gateway is registered, so no port opens; put one with its addresses";
    return { gateway: undefined, findings: [{ severity: "warning", subject: "gateways", message }] };
  }
  for (const other of names.filter((candidate) => candidate !== name)) {
    const message = `is not served: all Envoys get the listeners of "${name}" for now; remove one of the records`;
    findings.push({ severity: "warning", subject: `gateways/${other}`, message });
  }
  const judged = judgeGateway(name, record);
  findings.push(...judged.findings);
  const isRefused = judged.findings.some((finding) => finding.severity === "error");
  return { gateway: isRefused && previous?.name === name ? previous : judged.gateway, findings };
}

function judgeGateway(name: string, record: Gateway): { gateway: GatewayPlan | undefined; findings: Finding[] } {
  const subject = `gateways/${name}`;
  const findings: Finding[] = [];
  const add = (severity: Finding["severity"], message: string): void => {
    findings.push({ severity, subject, message });
  };
  const address = record.httpAddress === "" ? "127.0.0.1" : record.httpAddress;
  if (isIP(address) === 0) {
    add("error", `http_address "${address}" is not an IP address; write for example 127.0.0.1 or 0.0.0.0`);
    return { gateway: undefined, findings };
  }
  const tls = judgeTls(record, (message) => add("error", message));
  if (record.httpPort > 65_535) {
    add("error", `http_port ${record.httpPort} is no port; write 1 to 65535, or 0 for no plain-text listener`);
    return { gateway: undefined, findings };
  }
  if (record.httpPort === 0 && tls === undefined) {
    add("error", "neither http_port nor tls_port is usable, so no port opens; set one of them");
    return { gateway: undefined, findings };
  }
  if (record.httpPort !== 0 && !isLoopback(address)) {
    add("warning", `plain text on ${address}:${record.httpPort} shows API keys to the network; use tls_port alone`);
  }
  const wanted = record.maxRequestBytes === 0n ? BigInt(DEFAULT_MAX_REQUEST_BYTES) : record.maxRequestBytes;
  if (wanted > BigInt(MAX_REQUEST_BYTES_CEILING)) {
    add("warning", `max_request_bytes ${wanted} is above ${MAX_REQUEST_BYTES_CEILING}, which is used instead`);
  }
  const maxRequestBytes = Math.min(Number(wanted), MAX_REQUEST_BYTES_CEILING);
  return { gateway: { name, address, httpPort: record.httpPort, tls, maxRequestBytes }, findings };
}

function judgeTls(record: Gateway, refuse: (message: string) => void): TlsPlan | undefined {
  if (record.tlsPort === 0) return undefined;
  if (record.tlsPort > 65_535 || record.tlsPort === record.httpPort) {
    refuse(`tls_port ${record.tlsPort} is no port of its own; write 1 to 65535, different from http_port`);
    return undefined;
  }
  for (const field of ["tlsCertificateFile", "tlsPrivateKeyFile"] as const) {
    if (!record[field].startsWith("/")) {
      const snake = field === "tlsCertificateFile" ? "tls_certificate_file" : "tls_private_key_file";
      refuse(`${snake} "${record[field]}" is not an absolute path; the TLS listener needs a PEM file on the gateway`);
      return undefined;
    }
  }
  return { port: record.tlsPort, certificateFile: record.tlsCertificateFile, privateKeyFile: record.tlsPrivateKeyFile };
}

function isLoopback(address: string): boolean {
  return address === "::1" || address.startsWith("127.");
}
