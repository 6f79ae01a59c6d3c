import { isIP } from "node:net";
import { isDeepStrictEqual } from "node:util";
import type { Gateway } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { isLoopback, ROLE_GATEWAY, ROLE_SIDECAR } from "../registry/node-roles.js";
import type { Finding, RegistryState } from "../registry/state.js";
import { isUnreadable } from "./last-good.js";
import type { GatewayPlan, MeshFilesPlan, TlsPlan } from "./mesh-plan.js";

/** Default limit of a request body at every door, in bytes. */
export const DEFAULT_MAX_REQUEST_BYTES = 4 * 1024 * 1024;
/** Tensors larger than this belong into a store, not into a request. */
export const MAX_REQUEST_BYTES_CEILING = 256 * 1024 * 1024;

/**
 * One group of Envoys for each gateway record. A record that is refused or cannot be read leaves its group as it was.
 * @param previous the groups in force
 */
export function planGateways(
  state: RegistryState,
  previous: readonly GatewayPlan[],
): { gateways: readonly GatewayPlan[]; findings: Finding[] } {
  const findings: Finding[] = [];
  const before = new Map(previous.map((gateway) => [gateway.name, gateway]));
  const gateways = new Map<string, GatewayPlan>();
  for (const gateway of previous) {
    if (isUnreadable(state, `gateways/${gateway.name}`, gateway.name)) gateways.set(gateway.name, gateway);
  }
  for (const [name, { value }] of state.gateways) {
    const judged = judgeGateway(name, value);
    findings.push(...judged.findings);
    const isRefused = judged.findings.some((finding) => finding.severity === "error");
    const inForce = before.get(name);
    const gateway = isRefused && inForce !== undefined ? inForce : judged.gateway;
    if (gateway !== undefined) gateways.set(name, isDeepStrictEqual(gateway, inForce) ? (inForce ?? gateway) : gateway);
  }
  if (state.gateways.size === 0 && gateways.size === 0) {
    const message = "no gateway is registered, so no port opens; put one with its addresses";
    findings.push({ severity: "warning", subject: "gateways", message });
  }
  const sorted = [...gateways.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const isSame = sorted.length === previous.length && sorted.every((gateway, index) => gateway === previous[index]);
  return { gateways: isSame ? previous : sorted, findings };
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
  const group = {
    role: record.role === ROLE_SIDECAR ? ROLE_SIDECAR : ROLE_GATEWAY,
    labels: sortedByKey(record.labels),
    models: record.models.length === 0 ? undefined : [...record.models].sort(),
  } as const;
  const { httpPort } = record;
  const runtime = sortedByKey(record.runtime);
  const runtimeTtlMs = record.runtimeTtlSeconds === 0 ? undefined : record.runtimeTtlSeconds * 1_000;
  const mesh = judgeMeshFiles(record, (message) => add("error", message));
  return {
    gateway: { name, ...group, address, httpPort, tls, mesh, maxRequestBytes, runtime, runtimeTtlMs },
    findings,
  };
}

function sortedByKey(entries: Readonly<Record<string, string>>): [key: string, value: string][] {
  return Object.entries(entries).sort(([a], [b]) => (a < b ? -1 : 1));
}

function judgeMeshFiles(record: Gateway, refuse: (message: string) => void): MeshFilesPlan | undefined {
  const { meshCertificateFile, meshPrivateKeyFile, meshCaFile } = record;
  const files = [meshCertificateFile, meshPrivateKeyFile, meshCaFile];
  if (files.every((path) => path === "")) return undefined;
  if (!files.every((path) => path.startsWith("/"))) {
    const names = "mesh_certificate_file, mesh_private_key_file and mesh_ca_file";
    refuse(`${names} must all be absolute paths of this machine, or all be absent`);
    return undefined;
  }
  return { certificateFile: meshCertificateFile, privateKeyFile: meshPrivateKeyFile, authoritiesFile: meshCaFile };
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
      refuse(`${snake} "${record[field]}" is not an absolute path; the TLS listener needs a PEM file on this machine`);
      return undefined;
    }
  }
  return { port: record.tlsPort, certificateFile: record.tlsCertificateFile, privateKeyFile: record.tlsPrivateKeyFile };
}
