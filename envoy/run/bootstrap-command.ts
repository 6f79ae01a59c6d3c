import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { MeshCredentials } from "@servemesh/proto/mesh-credentials";
import { Command, InvalidArgumentError, Option } from "commander";
import { type BootstrapOptions, createBootstrap } from "./bootstrap.js";
import { type IdentityFiles, writeMeshSecrets } from "./bootstrap-tls.js";

interface Flags {
  readonly nodeId: string;
  readonly role: "gateway" | "sidecar";
  readonly label: Readonly<Record<string, string>>;
  readonly controlPlane: BootstrapOptions["controlPlane"];
  readonly adminPort: number;
  readonly tlsCertificate?: string;
  readonly tlsKey?: string;
  readonly tlsCa?: string;
  readonly out: string;
}

/**
 * Writes what one Envoy needs to start. @returns what to do next, for people
 * @throws CommanderError on a wrong command line and for --help, Error with one sentence when a file is not good
 */
export function runBootstrapCommand(argv: readonly string[]): string {
  const command = createCommand();
  const flags = command.parse([...argv], { from: "user" }).opts<Flags>();
  const problem = trustProblem(flags);
  if (problem !== undefined) command.error(`error: ${problem}`);
  const folder = resolve(flags.out);
  const identity = identityFiles(flags);
  const trustDomain = identity === undefined ? "" : trustDomainOf(identity);
  mkdirSync(folder, { recursive: true });
  const bootstrapFile = join(folder, "bootstrap.json");
  const { nodeId, role, label: labels, controlPlane, adminPort } = flags;
  const options = { nodeId, role, labels, controlPlane, adminPort };
  const trust = identity === undefined ? {} : { secretFiles: writeMeshSecrets(folder, identity, trustDomain) };
  writeFileSync(bootstrapFile, `${JSON.stringify(createBootstrap({ ...options, ...trust }), null, 2)}\n`);
  return `${bootstrapFile} is written; start Envoy with\n  envoy --config-path ${bootstrapFile}\n`;
}

function createCommand(): Command {
  return new Command("servemesh-bootstrap")
    .description("Writes the start configuration of one Envoy; all else it is told by the control plane.")
    .requiredOption("--node-id <id>", "names this Envoy; each has its own")
    .addOption(new Option("--role <role>", "what it is").choices(["gateway", "sidecar"]).default("gateway"))
    .addOption(
      new Option("--label <key=value>", "decides with the role to which gateway record it belongs; may be repeated")
        .default({}, "none")
        .argParser(label),
    )
    .addOption(
      new Option("--control-plane <host:port>", "its ADS port")
        .default({ host: "127.0.0.1", port: 18_000 }, "127.0.0.1:18000")
        .argParser(hostPort),
    )
    .option("--admin-port <port>", "Envoy's admin interface, on 127.0.0.1", port, 9901)
    .option(
      "--tls-certificate <file>",
      "this Envoy's certificate, for spiffe://<trust domain>/gateway/<node id> or /group/<record>",
    )
    .option("--tls-key <file>", "its private key")
    .option("--tls-ca <file>", "issuers of the control plane's certificate")
    .requiredOption("--out <dir>", "folder for bootstrap.json; made if absent")
    .allowExcessArguments(false)
    .exitOverride();
}

/** Plain text never leaves the machine, and what TLS needs is complete. */
function trustProblem({ controlPlane: { host }, tlsCertificate, tlsKey, tlsCa }: Flags): string | undefined {
  const given = [tlsCertificate, tlsKey, tlsCa].filter((file) => file !== undefined).length;
  if (given !== 0 && given !== 3) {
    return "--tls-certificate, --tls-key, --tls-ca: give all three of them, or none for plain text on loopback";
  }
  const isLoopback = host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host);
  if (given === 3 || isLoopback) return undefined;
  return `--control-plane: "${host}" is not a loopback address, so give --tls-certificate, --tls-key and --tls-ca too`;
}

function identityFiles({ tlsCertificate, tlsKey, tlsCa }: Flags): IdentityFiles | undefined {
  if (tlsCertificate === undefined || tlsKey === undefined || tlsCa === undefined) return undefined;
  return { certificate: resolve(tlsCertificate), privateKey: resolve(tlsKey), authorities: resolve(tlsCa) };
}

/** Envoy would only tell of a bad file in its log, and then wait for a better one. */
function trustDomainOf({ certificate, privateKey, authorities }: IdentityFiles): string {
  const files = {
    certificate: { flag: "--tls-certificate", path: certificate },
    privateKey: { flag: "--tls-key", path: privateKey },
    authorities: { flag: "--tls-ca", path: authorities },
  };
  const silent = { info: () => undefined, warn: () => undefined };
  const own = new MeshCredentials(files, { wallMs: Date.now, schedule: () => () => undefined, logger: silent });
  return own.identity.trustDomain;
}

function label(text: string, before: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("it must be key=value");
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
}

function hostPort(text: string): BootstrapOptions["controlPlane"] {
  const [, ipv6, name, digits = ""] = /^(?:\[([0-9a-fA-F:.]+)\]|([a-zA-Z0-9.-]+)):(\d{1,5})$/.exec(text) ?? [];
  const host = ipv6 ?? name;
  if (host === undefined) throw new InvalidArgumentError("it must be host:port, for example 127.0.0.1:18000");
  return { host, port: port(digits) };
}

function port(text: string): number {
  const value = Number(text);
  if (!/^\d{1,5}$/.test(text) || value < 1 || value > 65_535)
    throw new InvalidArgumentError("it must be a port, 1 to 65535");
  return value;
}
