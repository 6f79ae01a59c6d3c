import type { TlsPlan } from "../plan/mesh-plan.js";
import type { Finding } from "../registry/state.js";
import type { FileAccess, FileContent } from "./file-access.js";
import { type PairProblem, readPair, SecretPair } from "./secret-pair.js";

/** From then on a certificate's end is told: enough time for an order, an approval and a roll-out. */
const WARN_BEFORE_MS = 14 * 24 * 3_600_000;
/** A file that changed this shortly before it was read may have changed again within its time stamp's resolution. */
const SETTLED_AFTER_MS = 3_000;
/** Both files are read again at once when one changed meanwhile; then the next look tries anew. */
const READS_MAX = 3;
/** Who may read a private key at most: its owner and its group. */
const MODE_MAX = 0o640;

const FIELDS = { certificate: "tls_certificate_file", privateKey: "tls_private_key_file" } as const;

/** Both files as they lay at one moment. */
interface ReadFiles {
  readonly certificate: FileContent;
  readonly privateKey: FileContent;
}

/** The certificate of one gateway: what its files hold, and the pair in force. */
export class WatchedPair {
  readonly #gateway: string;
  readonly #files: FileAccess;
  #tls: TlsPlan;
  /** What the files held when they were last read without a problem. */
  #candidate: SecretPair | undefined;
  #inForce: SecretPair | undefined;
  #problem: string | undefined;
  /** True when the problem was there at two looks, or cannot be a rotation that is half done. */
  #isCertain = false;
  #keyMode = 0;
  /** What was read last; empty when the next look has to read. */
  #identity = "";

  constructor(gateway: string, tls: TlsPlan, files: FileAccess) {
    this.#gateway = gateway;
    this.#tls = tls;
    this.#files = files;
  }

  /** The last good pair, also while the files hold none; undefined before the first. */
  get inForce(): SecretPair | undefined {
    return this.#inForce;
  }

  /** Watches other files when the plan names others. The pair in force stays until they hold a good one. */
  follow(tls: TlsPlan, wallMs: number): void {
    const isSame = tls.certificateFile === this.#tls.certificateFile && tls.privateKeyFile === this.#tls.privateKeyFile;
    this.#tls = tls;
    if (isSame) return;
    this.#identity = "";
    this.#problem = undefined;
    this.look(wallMs);
    // Nothing of a record that was just written is half done.
    this.#isCertain = true;
  }

  /** Reads the files if they changed, and decides which pair is in force. */
  look(wallMs: number): void {
    const before = this.#problem;
    this.#read(wallMs);
    this.#isCertain = this.#problem !== undefined && (before !== undefined || this.#inForce === undefined);
    const chosen = this.#choose(wallMs);
    // A pair that says the same stays the same object, so that nothing is made anew of it.
    if (chosen?.equals(this.#inForce) === false) this.#inForce = chosen;
  }

  /** What is wrong, and what ends soon. */
  findings(wallMs: number): Finding[] {
    const subject = `gateways/${this.#gateway}`;
    const findings: Finding[] = [];
    const add = (severity: Finding["severity"], message: string): void => {
      findings.push({ severity, subject, message });
    };
    const problem = this.#problem === undefined ? this.#unusedCandidate(wallMs) : this.#certainProblem;
    if (problem !== undefined) {
      const consequence =
        this.#inForce === undefined
          ? "the TLS listener is left out until there is a good pair"
          : "the certificate that was read before stays in force";
      add("error", `${problem}; ${consequence}`);
    }
    this.#tellValidity(wallMs, add);
    if ((this.#keyMode & ~MODE_MAX) !== 0) {
      const mode = `0${this.#keyMode.toString(8)}`;
      add("warning", `${this.#named("privateKey")} has mode ${mode}, so too many may use it; give it 0600 or 0640`);
    }
    return findings;
  }

  get #certainProblem(): string | undefined {
    return this.#isCertain ? this.#problem : undefined;
  }

  #read(wallMs: number): void {
    try {
      const { certificateFile, privateKeyFile } = this.#tls;
      const identity = this.#identityOf(certificateFile, privateKeyFile);
      if (identity === this.#identity) return;
      const read = this.#readTogether();
      // A rotation is under way; what is in force stays until it is done.
      if (read === undefined) return;
      this.#judge(read, wallMs);
    } catch (error) {
      this.#identity = "";
      this.#keyMode = 0;
      this.#problem = (error as Error).message;
    }
  }

  #judge({ certificate, privateKey }: ReadFiles, wallMs: number): void {
    const changedAtMs = Math.max(certificate.changedAtMs, privateKey.changedAtMs);
    this.#identity = wallMs - changedAtMs < SETTLED_AFTER_MS ? "" : `${certificate.identity}\n${privateKey.identity}`;
    this.#keyMode = privateKey.mode;
    const pair = readPair(certificate.bytes, privateKey.bytes);
    if (pair instanceof SecretPair) {
      this.#problem = undefined;
      this.#candidate = pair;
    } else {
      this.#problem = this.#inWords(pair);
    }
  }

  /** Undefined when a file changed while they were read, time and again. */
  #readTogether(): ReadFiles | undefined {
    const { certificateFile, privateKeyFile } = this.#tls;
    for (let reads = 0; reads < READS_MAX; reads += 1) {
      const certificate = this.#try("certificate", () => this.#files.read(certificateFile));
      const privateKey = this.#try("privateKey", () => this.#files.read(privateKeyFile));
      const identity = `${certificate.identity}\n${privateKey.identity}`;
      if (identity === this.#identityOf(certificateFile, privateKeyFile)) return { certificate, privateKey };
    }
    return undefined;
  }

  #identityOf(certificateFile: string, privateKeyFile: string): string {
    const certificate = this.#try("certificate", () => this.#files.look(certificateFile));
    const privateKey = this.#try("privateKey", () => this.#files.look(privateKeyFile));
    return `${certificate.identity}\n${privateKey.identity}`;
  }

  #try<T>(file: keyof typeof FIELDS, act: () => T): T {
    try {
      return act();
    } catch (error) {
      throw new Error(this.#inWords({ file, words: (error as Error).message }));
    }
  }

  /** A good pair replaces the one in force, but one that does not count now never one that does. */
  #choose(wallMs: number): SecretPair | undefined {
    const [candidate, inForce] = [this.#candidate, this.#inForce];
    if (candidate === undefined || inForce === undefined) return candidate ?? inForce;
    return inForce.isValidAt(wallMs) && !candidate.isValidAt(wallMs) ? inForce : candidate;
  }

  #unusedCandidate(wallMs: number): string | undefined {
    const candidate = this.#candidate;
    if (candidate === undefined || candidate.equals(this.#inForce) || candidate.isValidAt(wallMs)) return undefined;
    const words =
      candidate.validFromMs > wallMs
        ? `counts only from ${isoSeconds(candidate.validFromMs)}`
        : `expired on ${isoSeconds(candidate.validToMs)}`;
    return this.#inWords({ file: "certificate", words });
  }

  #tellValidity(wallMs: number, add: (severity: Finding["severity"], message: string) => void): void {
    const pair = this.#inForce;
    if (pair === undefined) return;
    const end = isoSeconds(pair.validToMs);
    const which = `the certificate in force, serial ${pair.serial},`;
    if (pair.validToMs <= wallMs) add("error", `${which} expired on ${end}, so clients refuse it; replace both files`);
    else if (pair.validFromMs > wallMs) {
      add("error", `${which} counts only from ${isoSeconds(pair.validFromMs)}; check the clock or replace both files`);
    } else if (pair.validToMs - wallMs < WARN_BEFORE_MS) {
      add("warning", `${which} expires on ${end}; replace both files before`);
    }
  }

  #inWords({ file, words }: PairProblem): string {
    return `${this.#named(file)} ${words}`;
  }

  #named(file: keyof typeof FIELDS): string {
    return `${FIELDS[file]} "${file === "certificate" ? this.#tls.certificateFile : this.#tls.privateKeyFile}"`;
  }
}

function isoSeconds(epochMs: number): string {
  return new Date(epochMs).toISOString().replace(/\.\d+Z$/, "Z");
}
