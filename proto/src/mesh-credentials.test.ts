import { rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import {
  Client,
  connectivityState,
  credentials,
  Server,
  type ServerUnaryCall,
  type ServiceError,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { identityUri, type MeshIdentity } from "./identity.js";
import { CHANNEL_OPTIONS, MeshCredentials, peerOf } from "./mesh-credentials.js";
import { MeshListener, type MeshListenerSettings } from "./mesh-listener.js";
import { TestAuthority, type TestIdentity, TestMeshFolder } from "./testing/mesh-certificates.js";

const DAY_MS = 24 * 3_600_000;
const raw = (bytes: Buffer): Buffer => bytes;
const METHOD = { path: "/test/who", requestStream: false, responseStream: false } as const;

let authority: TestAuthority;
let stranger: TestAuthority;
let controlPlane: TestIdentity;
let gateway: TestIdentity;
const cleanUps: (() => void)[] = [];

beforeAll(async () => {
  authority = await TestAuthority.create();
  stranger = await TestAuthority.create();
  controlPlane = await authority.issue(["spiffe://mesh/control-plane"]);
  gateway = await authority.issue(["spiffe://mesh/gateway/edge-1"]);
});

afterEach(() => {
  for (const cleanUp of cleanUps.splice(0)) cleanUp();
});

function folderOf(identity: TestIdentity, authoritiesPem = authority.pem): TestMeshFolder {
  const folder = new TestMeshFolder().write(identity, authoritiesPem);
  cleanUps.push(() => folder.remove());
  return folder;
}

/** Credentials whose files are looked at when the test says so. */
function credentialsOf(folder: TestMeshFolder, wallMs = Date.now()) {
  const lines: string[] = [];
  const note = (fields: object, message: string): void => {
    lines.push(`${message} ${JSON.stringify(fields)}`);
  };
  let run = (): void => undefined;
  const time = { wallMs };
  const made = new MeshCredentials(folder.files, {
    wallMs: () => time.wallMs,
    schedule: (_delayMs, next) => {
      run = next;
      return () => undefined;
    },
    logger: { info: note, warn: note },
  });
  return { made, lines, time, look: () => run() };
}

async function serve(made: MeshCredentials, settings: Partial<MeshListenerSettings> = {}) {
  const peers: (readonly MeshIdentity[])[] = [];
  const refusals: string[] = [];
  const server = new Server();
  const wire = { requestSerialize: raw, requestDeserialize: raw, responseSerialize: raw, responseDeserialize: raw };
  server.addService(
    { who: { ...METHOD, ...wire } },
    {
      who: (call: ServerUnaryCall<Buffer, Buffer>, answer: sendUnaryData<Buffer>) => {
        peers.push(peerOf(call));
        answer(null, Buffer.from("here"));
      },
    },
  );
  const listener = new MeshListener(made, server, {
    endsWithCertificate: false,
    logger: { warn: (fields) => refusals.push(JSON.stringify(fields)) },
    schedule: () => () => undefined,
    wallMs: Date.now,
    ...settings,
  });
  cleanUps.push(() => {
    listener.close();
    server.forceShutdown();
  });
  return { port: await listener.open("127.0.0.1", 0), peers, refusals };
}

/** @returns "here", or how the call failed */
function call(port: number, channelCredentials: ReturnType<typeof credentials.createInsecure>): Promise<string> {
  const client = new Client(`127.0.0.1:${port}`, channelCredentials, {
    ...CHANNEL_OPTIONS,
    "grpc.use_local_subchannel_pool": 1,
  });
  return new Promise((resolve) => {
    const deadline = Date.now() + 10_000;
    const answered = (error: ServiceError | null, answer?: Buffer): void => {
      client.close();
      resolve(error === null ? String(answer) : `${status[error.code]}: ${error.details}`);
    };
    client.makeUnaryRequest(METHOD.path, raw, raw, Buffer.alloc(0), { deadline }, answered);
  });
}

const isControlPlane = ({ kind }: MeshIdentity): boolean => kind === "control-plane";

describe("a connection between two parts of the mesh", () => {
  it("tells each who the other is", async () => {
    const { port, peers } = await serve(credentialsOf(folderOf(controlPlane)).made);
    const { made } = credentialsOf(folderOf(gateway));
    expect(await call(port, made.channelCredentials(isControlPlane))).toBe("here");
    expect(peers[0]?.map(identityUri)).toEqual(["spiffe://mesh/gateway/edge-1"]);
  });

  it("does not come about with a client that has no certificate, another issuer's, or one that has expired", async () => {
    const { port, peers } = await serve(credentialsOf(folderOf(controlPlane)).made);
    expect(await call(port, credentials.createInsecure())).toMatch(/^UNAVAILABLE/);
    expect(await call(port, credentials.createSsl(Buffer.from(authority.pem)))).toMatch(/^UNAVAILABLE/);
    const foreign = await stranger.issue(["spiffe://mesh/gateway/edge-1"]);
    const expired = await authority.issue(["spiffe://mesh/gateway/edge-1"], { validToMs: Date.now() - 1_000 });
    for (const [identity, nowMs] of [
      [foreign, Date.now()],
      [expired, Date.now() - 60_000],
    ] as const) {
      const { made } = credentialsOf(folderOf(identity), nowMs);
      expect(await call(port, made.channelCredentials(isControlPlane))).toMatch(/^UNAVAILABLE/);
    }
    expect(peers).toEqual([]);
  });

  it("does not come about with a server that is somebody else", async () => {
    const elsewhere = await authority.issue(["spiffe://other/control-plane"]);
    const { made } = credentialsOf(folderOf(gateway));
    for (const identity of [gateway, elsewhere]) {
      const { port, peers } = await serve(credentialsOf(folderOf(identity)).made);
      expect(await call(port, made.channelCredentials(isControlPlane))).toMatch(/^UNAVAILABLE.*not who is expected/);
      expect(peers).toEqual([]);
    }
  });
});

describe("a port of the mesh", () => {
  it("lets in whom it is asked to, and says in its log why it refuses the others", async () => {
    const { port, refusals } = await serve(credentialsOf(folderOf(controlPlane)).made, {
      refusalOf: ([peer]) => (peer?.kind === "batcher" ? undefined : "it is no batcher"),
    });
    const { made } = credentialsOf(folderOf(gateway));
    expect(await call(port, made.channelCredentials(isControlPlane))).toMatch(/^UNAVAILABLE/);
    expect(refusals.join()).toMatch(/"peer":"127.0.0.1:\d+","problem":"it is no batcher"/);
    const batcher = credentialsOf(folderOf(await authority.issue(["spiffe://mesh/batcher/ranker"])));
    expect(await call(port, batcher.made.channelCredentials(isControlPlane))).toBe("here");
  });

  it("cuts a connection at the end of its certificate when that is wanted, and takes no new one under it", async () => {
    const timers: { delayMs: number; run: () => void }[] = [];
    const time = { wallMs: Date.now() };
    const { port, refusals } = await serve(credentialsOf(folderOf(controlPlane)).made, {
      endsWithCertificate: true,
      schedule: (delayMs, run) => {
        timers.push({ delayMs, run });
        return () => undefined;
      },
      wallMs: () => time.wallMs,
    });
    const { made } = credentialsOf(folderOf(gateway));
    const trust = made.channelCredentials(isControlPlane);
    const client = new Client(`127.0.0.1:${port}`, trust, { ...CHANNEL_OPTIONS, "grpc.use_local_subchannel_pool": 1 });
    cleanUps.push(() => client.close());
    await new Promise((resolve, reject) =>
      client.waitForReady(Date.now() + 10_000, (error) => (error ? reject(error) : resolve(undefined))),
    );
    await expect.poll(() => timers.length).toBe(1);
    expect(timers[0]?.delayMs).toBeGreaterThan(59 * 60_000 - 30_000);
    expect(timers[0]?.delayMs).toBeLessThanOrEqual(60 * 60_000);
    const { READY } = connectivityState;
    timers[0]?.run();
    await expect.poll(() => client.getChannel().getConnectivityState(false)).not.toBe(READY);
    time.wallMs += 2 * 3_600_000;
    expect(await call(port, trust)).toMatch(/^UNAVAILABLE/);
    expect(refusals.join()).toContain("its certificate has expired");
  });

  it("is not disturbed by one that speaks no TLS", async () => {
    const { port, refusals } = await serve(credentialsOf(folderOf(controlPlane)).made);
    const socket = connect(port, "127.0.0.1", () => socket.write("GET / HTTP/1.1\r\n\r\n"));
    cleanUps.push(() => socket.destroy());
    socket.on("error", () => undefined);
    await expect.poll(() => refusals.length).toBe(1);
    const { made } = credentialsOf(folderOf(gateway));
    expect(await call(port, made.channelCredentials(isControlPlane))).toBe("here");
  });
});

describe("files that change", () => {
  it("give new connections the new certificate and the new issuers, at both ends", async () => {
    const folder = folderOf(controlPlane);
    const server = credentialsOf(folder);
    const { port, peers } = await serve(server.made);
    const client = credentialsOf(folderOf(gateway));
    expect(await call(port, client.made.channelCredentials(isControlPlane))).toBe("here");
    folder.write(await stranger.issue(["spiffe://mesh/control-plane"]), stranger.pem);
    server.look();
    expect(await call(port, client.made.channelCredentials(isControlPlane))).toMatch(/^UNAVAILABLE/);
    const renewed = credentialsOf(folderOf(await stranger.issue(["spiffe://mesh/gateway/edge-1"]), stranger.pem));
    expect(await call(port, renewed.made.channelCredentials(isControlPlane))).toBe("here");
    expect(peers.length).toBe(2);
    expect(server.lines.join()).toMatch(/certificate in force.*spiffe:\/\/mesh\/control-plane/);
  });

  it("leave the last good set in force, and say so once they are bad at two looks", async () => {
    const folder = folderOf(controlPlane);
    const server = credentialsOf(folder);
    const { port } = await serve(server.made);
    writeFileSync(folder.privateKey, gateway.keyPem);
    server.look();
    expect(server.made.problems()).toEqual([]);
    server.look();
    expect(server.made.problems()).toEqual([
      `--tls-key: "${folder.privateKey}" does not belong to the certificate; write both files of one pair; what was read before stays`,
    ]);
    const { made } = credentialsOf(folderOf(gateway));
    expect(await call(port, made.channelCredentials(isControlPlane))).toBe("here");
    folder.write(controlPlane, authority.pem);
    server.look();
    expect(server.made.problems()).toEqual([]);
    expect(server.lines.filter((line) => line.startsWith("certificate not replaced")).length).toBe(1);
  });

  it("never make a part of the mesh another one", async () => {
    const folder = folderOf(controlPlane);
    const server = credentialsOf(folder);
    folder.write(await authority.issue(["spiffe://other/control-plane"]), authority.pem);
    server.look();
    server.look();
    expect(server.made.problems()).toEqual([
      expect.stringMatching(
        /is for spiffe:\/\/other\/control-plane, but it was for spiffe:\/\/mesh\/control-plane; restart/,
      ),
    ]);
    expect(server.made.identity.trustDomain).toBe("mesh");
  });

  it("are asked for in time", () => {
    const server = credentialsOf(folderOf(controlPlane));
    expect(server.made.problems()).toEqual([]);
    server.time.wallMs += 50 * 60_000;
    expect(server.made.problems()).toEqual([
      expect.stringMatching(/in force, serial .* expires on .*replace the files/),
    ]);
    server.time.wallMs += DAY_MS;
    expect(server.made.problems()).toEqual([expect.stringMatching(/expired on/)]);
  });
});

describe("files that are not good at the start", () => {
  const bad: [string, (folder: TestMeshFolder) => void | Promise<void>, RegExp][] = [
    [
      "a missing certificate",
      (f) => rmSync(f.certificate),
      /^--tls-certificate: ".*identity.pem" cannot be read \(ENOENT\)$/,
    ],
    ["no certificate", (f) => writeFileSync(f.certificate, "x"), /^--tls-certificate: .* holds no certificate in PEM$/],
    ["a missing key", (f) => rmSync(f.privateKey), /^--tls-key: .* cannot be read \(ENOENT\)$/],
    ["no key", (f) => writeFileSync(f.privateKey, "x"), /^--tls-key: .* holds no private key/],
    ["another's key", (f) => writeFileSync(f.privateKey, gateway.keyPem), /^--tls-key: .* does not belong/],
    ["no issuers", (f) => writeFileSync(f.authorities, ""), /^--tls-ca: .* holds no certificate in PEM$/],
    [
      "no identity",
      async (f) => void f.write(await authority.issue(["https://a"]), authority.pem),
      /names none; write spiffe/,
    ],
    [
      "two identities",
      async (f) =>
        void f.write(await authority.issue(["spiffe://mesh/group/a", "spiffe://mesh/group/b"]), authority.pem),
      /but names spiffe:\/\/mesh\/group\/a and spiffe:\/\/mesh\/group\/b; write/,
    ],
    [
      "a certificate that has expired",
      async (f) =>
        void f.write(await authority.issue(["spiffe://mesh/group/a"], { validToMs: Date.now() - 1 }), authority.pem),
      /^--tls-certificate: .* expired on/,
    ],
    [
      "a certificate of tomorrow",
      async (f) =>
        void f.write(
          await authority.issue(["spiffe://mesh/group/a"], {
            validFromMs: Date.now() + DAY_MS,
            validToMs: Date.now() + 2 * DAY_MS,
          }),
          authority.pem,
        ),
      /^--tls-certificate: .* counts only from/,
    ],
  ];

  it.each(bad)("are refused in one sentence: %s", async (_name, spoil, words) => {
    const folder = folderOf(controlPlane);
    await spoil(folder);
    expect(() => credentialsOf(folder)).toThrow(words);
  });
});
