import { Agent, type ClientRequest, type IncomingHttpHeaders, request } from "node:http";

/** An answer of a REST door, whatever its status. */
export interface RestAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The body as JSON; throws when it is none. */
  json(): unknown;
}

export interface RestCall {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

/**
 * Plain HTTP/1.1 client of one gateway. Node's own, not fetch, because fetch rewrites paths like `%2F` and hides header details
 * that the tests are about.
 */
export class RestClient {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 64 });
  readonly #host: string;
  readonly #port: number;
  readonly #defaults: Readonly<Record<string, string>>;

  /** @param defaults headers of every call, such as the key; a call's own win, and an empty value leaves one out */
  constructor(address: string, defaults: Readonly<Record<string, string>> = {}) {
    const url = new URL(`http://${address}`);
    this.#host = url.hostname;
    this.#port = Number(url.port);
    this.#defaults = defaults;
  }

  /** Rejects only when no HTTP answer came (connection refused or broken). */
  call({ method = "POST", path, headers = {}, body }: RestCall): Promise<RestAnswer> {
    const sent = Object.fromEntries(
      Object.entries({ ...this.#defaults, ...headers }).filter(([, value]) => value !== ""),
    );
    return new Promise((resolve, reject) => {
      const outgoing: ClientRequest = request(
        { host: this.#host, port: this.#port, method, path, headers: sent, agent: this.#agent },
        (incoming) => {
          const chunks: Buffer[] = [];
          incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
          incoming.on("error", reject);
          incoming.on("end", () => {
            const whole = Buffer.concat(chunks);
            resolve({
              status: incoming.statusCode ?? 0,
              headers: incoming.headers,
              body: whole,
              json: () => JSON.parse(whole.toString("utf8")),
            });
          });
        },
      );
      outgoing.on("error", reject);
      outgoing.end(body);
    });
  }

  /** `POST` of a JSON value. */
  post(path: string, value: unknown, headers: Readonly<Record<string, string>> = {}): Promise<RestAnswer> {
    return this.call({
      path,
      body: JSON.stringify(value),
      headers: { "content-type": "application/json", ...headers },
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}
