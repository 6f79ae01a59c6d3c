import { identityUri } from "@servemesh/proto/identity";
import { MeshCredentials } from "@servemesh/proto/mesh-credentials";
import type { MeshFilesPlan } from "../plan/mesh-plan.js";
import type { Finding } from "../registry/state.js";
import { readPair, SecretPair } from "./secret-pair.js";

/** How the Envoys of a group prove to batchers who they are, and whose certificates they take from them. */
export interface MeshIdentityInForce {
  readonly pair: SecretPair;
  /** PEM of the issuers of batchers' certificates. */
  readonly authorities: string;
  readonly trustDomain: string;
}

export interface MeshIdentityDeps {
  readonly gateway: string;
  /** Epoch ms. */
  wallMs(): number;
  readonly logger: { info(fields: object, message: string): void };
}

/** The mesh identity of one group: what its files hold, and what is in force. What was good stays, as with certificates. */
export class WatchedMeshIdentity {
  readonly files: MeshFilesPlan;
  readonly #deps: MeshIdentityDeps;
  #credentials: MeshCredentials | undefined;
  #lookAgain: () => void = () => undefined;
  #inForce: MeshIdentityInForce | undefined;
  #problem: string | undefined;

  constructor(files: MeshFilesPlan, deps: MeshIdentityDeps) {
    this.files = files;
    this.#deps = deps;
    this.look();
  }

  /** Undefined until the files were good once. */
  get inForce(): MeshIdentityInForce | undefined {
    return this.#inForce;
  }

  /** Reads the files. */
  look(): void {
    try {
      if (this.#credentials === undefined) this.#credentials = this.#open();
      else this.#lookAgain();
      this.#take(this.#credentials);
    } catch (error) {
      this.#problem = (error as Error).message;
    }
  }

  /** What is wrong with the files, and what ends soon. */
  findings(): Finding[] {
    const subject = `gateways/${this.#deps.gateway}`;
    const consequence =
      this.#inForce === undefined
        ? "the group reaches no batcher that speaks TLS"
        : "what was read before stays in force";
    const own = this.#problem === undefined ? [] : [`${this.#problem}; ${consequence}`];
    const problems = [...own, ...(this.#credentials?.problems() ?? [])];
    return problems.map((message) => ({ severity: "error", subject, message }));
  }

  #open(): MeshCredentials {
    const { certificateFile, privateKeyFile, authoritiesFile } = this.files;
    const { logger, gateway } = this.#deps;
    const noted = (fields: object, message: string): void => logger.info({ gateway, ...fields }, message);
    const credentials = new MeshCredentials(
      {
        certificate: { flag: "mesh_certificate_file", path: certificateFile },
        privateKey: { flag: "mesh_private_key_file", path: privateKeyFile },
        authorities: { flag: "mesh_ca_file", path: authoritiesFile },
      },
      {
        wallMs: () => this.#deps.wallMs(),
        // Whoever watches all files of the control plane says when.
        schedule: (_delayMs, run) => {
          this.#lookAgain = run;
          return () => undefined;
        },
        logger: { info: noted, warn: noted },
      },
    );
    const { kind } = credentials.identity;
    if (kind === "gateway" || kind === "sidecar" || kind === "group") return credentials;
    const said = identityUri(credentials.identity);
    throw new Error(
      `mesh_certificate_file: "${certificateFile}" is for ${said}, but gateways need one for their group`,
    );
  }

  #take({ tls, identity }: MeshCredentials): void {
    // Envoy takes fewer kinds of keys than Node.
    const pair = readPair(tls.cert, tls.key);
    if (!(pair instanceof SecretPair)) {
      const field = pair.file === "certificate" ? "mesh_certificate_file" : "mesh_private_key_file";
      this.#problem = `${field} ${pair.words}`;
      return;
    }
    this.#problem = undefined;
    const authorities = tls.ca.toString("latin1");
    const before = this.#inForce;
    if (pair.equals(before?.pair) && authorities === before?.authorities) return;
    this.#inForce = { pair, authorities, trustDomain: identity.trustDomain };
  }
}
