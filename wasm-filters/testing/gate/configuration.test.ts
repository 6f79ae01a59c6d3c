import { describe, expect, it, vi } from "vitest";
import { compileGateConfig } from "../../config/compile.js";
import { BLOB_HEADER, DIRECTORY_ENTRY, SECTION } from "../../config/format.js";
import { loadGateModule } from "../../modules/files.js";
import { createMockHost } from "../mock-host.js";
import {
  ACME_KEY,
  BATCHY_KEY,
  CONFIG,
  digestOf,
  frame,
  gateHost,
  grpcHeaders,
  judge,
  named,
  randomOf,
  restHeaders,
} from "./fixture.js";

// Much work, whatever the machine: the time limit only catches a loop without end.
vi.setConfig({ testTimeout: 300_000 });

const blob = Buffer.from(compileGateConfig(CONFIG));
const BODY = Buffer.from("{}");
const PREDICT = restHeaders("POST", "/v1/models/ranker:predict");

/** Sends a few requests of every kind; throws when the module traps or breaks the ABI. */
function exercise(host: ReturnType<typeof createMockHost>): void {
  for (const key of [ACME_KEY, BATCHY_KEY, "unknown"]) {
    for (const path of [
      "/v1/models/ranker:predict",
      "/v1/models/ranker-lite@staging:predict",
      "/v1/models/ranker:42:predict",
      "/v1/models/x:predict",
    ]) {
      judge(
        host,
        restHeaders("POST", path, [
          ["x-api-key", key],
          ["x-predict-sticky-key", "k"],
          ["x-user", "u"],
        ]),
        BODY,
      );
    }
    judge(host, grpcHeaders("ModelInfer", [["x-api-key", key]]), named("ranker@canary"));
  }
}

/** The blob written anew with one more section and longer records, as a later minor may be. */
function asLaterMinor(old: Buffer): Buffer {
  const count = old.readUInt32LE(12);
  const sections = Array.from({ length: count }, (_, index) => {
    const entry = BLOB_HEADER + index * DIRECTORY_ENTRY;
    const [id, offset, records, stride] = [0, 4, 8, 12].map((at) => old.readUInt32LE(entry + at)) as [
      number,
      number,
      number,
      number,
    ];
    const longer = id === SECTION.strings || id === SECTION.modelIndex || id === SECTION.keyIndex ? stride : stride + 8;
    const content = Buffer.alloc(records * longer, 0xee);
    for (let record = 0; record < records; record++)
      old.copy(content, record * longer, offset + record * stride, offset + (record + 1) * stride);
    return { id, records, stride: longer, content };
  });
  sections.push({ id: 77, records: 3, stride: 5, content: Buffer.alloc(15, 0xdd) });
  const head = Buffer.alloc(BLOB_HEADER + sections.length * DIRECTORY_ENTRY);
  old.copy(head, 0, 0, BLOB_HEADER);
  head.writeUInt16LE(9, 6);
  head.writeUInt32LE(sections.length, 12);
  const parts = [head];
  let offset = head.length;
  sections.forEach((section, index) => {
    const padding = (8 - (offset % 8)) % 8;
    parts.push(Buffer.alloc(padding));
    offset += padding;
    const entry = BLOB_HEADER + index * DIRECTORY_ENTRY;
    for (const [at, value] of [section.id, offset, section.records, section.stride].entries()) {
      head.writeUInt32LE(value, entry + at * 4);
    }
    parts.push(section.content);
    offset += section.content.length;
  });
  head.writeUInt32LE(offset, 8);
  return Buffer.concat(parts);
}

describe("a configuration blob", () => {
  it("of a later minor, with a section and fields that nobody knows yet, works", () => {
    const host = createMockHost(loadGateModule().bytes);
    expect(host.configure(asLaterMinor(blob))).toBe(true);
    expect(judge(host, PREDICT, BODY).route).toBe("ranker/prod");
    expect(judge(host, restHeaders("POST", "/v1/models/ranker:9223372036854775807:predict"), BODY).route).toBe(
      "ranker/9223372036854775807",
    );
    expect(judge(host, restHeaders("POST", "/v1/models/ranker:predict", [["x-api-key", BATCHY_KEY]]), BODY).route).toBe(
      "ranker/prod",
    );
    expect(
      judge(host, restHeaders("POST", "/v1/models/ranker-lite@staging:predict", [["x-api-key", BATCHY_KEY]]), BODY)
        .reason,
    ).toBe("forbidden");
  });

  it("of another major is refused with the remedy", () => {
    const other = Buffer.from(blob);
    other.writeUInt16LE(2, 4);
    const host = createMockHost(loadGateModule().bytes);
    expect(host.configure(other)).toBe(false);
    expect(host.logs.at(-1)?.text).toContain("its major version is not 1");
  });

  it("of any shorter or longer length is refused", () => {
    const host = createMockHost(loadGateModule().bytes);
    for (let length = 0; length < blob.length; length++) {
      expect(host.configure(blob.subarray(0, length)), `${length} bytes`).toBe(false);
    }
    expect(host.configure(Buffer.concat([blob, Buffer.alloc(8)]))).toBe(false);
    expect(judge(host, PREDICT, BODY).reason).toBe("unavailable");
    expect(host.configure(blob)).toBe(true);
    expect(judge(host, PREDICT, BODY).route).toBe("ranker/prod");
  });

  it("with any single byte changed is refused or served, and never traps", () => {
    const host = createMockHost(loadGateModule().bytes);
    let refused = 0;
    for (let at = 0; at < blob.length; at++) {
      for (const value of [0, 1, 0x7f, 0xff, (blob[at] as number) ^ 0x10]) {
        const broken = Buffer.from(blob);
        broken[at] = value;
        if (host.configure(broken)) exercise(host);
        else refused++;
      }
    }
    expect(refused).toBeGreaterThan(100);
  });

  it("with random damage is refused or served, and never traps", () => {
    const random = randomOf(7);
    const host = createMockHost(loadGateModule().bytes);
    for (let round = 0; round < 3000; round++) {
      const broken = Buffer.from(blob);
      for (let damage = 1 + random(6); damage > 0; damage--) {
        if (random(2) === 0) broken[random(broken.length)] = random(256);
        else
          broken.writeUInt32LE(
            [0, 1, 0xffffffff, 0x80000000, blob.length, random(2 ** 32)][random(6)] as number,
            random(broken.length / 4) * 4,
          );
      }
      // Past the magic and the length, where the interesting checks are.
      blob.copy(broken, 0, 0, 12);
      if (host.configure(broken)) exercise(host);
    }
  });

  it.each<[string, keyof typeof SECTION, number, (count: (name: keyof typeof SECTION) => number) => number]>([
    ["slot of the model index", "modelIndex", -1, (count) => count("models") + 1],
    ["slot of the key index", "keyIndex", -1, (count) => count("keys") + 1],
    ["tenant of a key", "keys", 32, (count) => count("tenants")],
    ["tenant in an allow list", "modelTenants", 0, (count) => count("tenants")],
    ["model in an allow list", "tenantModels", 0, (count) => count("models")],
    ["end of a model's name", "models", 0, (count) => count("strings") - "ranker".length + 1],
    ["end of an alias's name", "aliases", 0, (count) => count("strings") - "canary".length + 1],
    ["end of a tenant's name", "tenants", 0, (count) => count("strings") - "acme".length + 1],
    ["length of a model's name", "models", 4, () => 64],
    ["length of a sticky header", "models", 12, () => 65],
    ["length of an alias's name", "aliases", 4, () => 33],
    ["deadline of no time", "models", 16, () => 0],
    ["deadline of no time of an alias", "aliases", 16, () => 0],
    ["default alias of another model", "models", 20, () => 2],
    ["first alias", "models", 24, (count) => count("aliases") - 1],
    ["number of aliases", "models", 28, (count) => count("aliases") + 1],
    ["first version", "models", 32, (count) => count("versions") - 2],
    ["number of versions", "models", 36, (count) => count("versions") + 1],
    ["number of allowed tenants", "models", 44, (count) => count("modelTenants") + 1],
    ["number of allowed models", "tenants", 16, (count) => count("tenantModels") + 1],
  ])("is refused for a %s that is one too far", (_, name, field, value) => {
    const entryOf = (section: keyof typeof SECTION) => BLOB_HEADER + (SECTION[section] - 1) * DIRECTORY_ENTRY;
    const count = (section: keyof typeof SECTION) => blob.readUInt32LE(entryOf(section) + 8);
    const broken = Buffer.from(blob);
    const start = blob.readUInt32LE(entryOf(name) + 4);
    // -1: the first slot that is taken.
    let at = start + Math.max(field, 0);
    if (field < 0) while (blob.readUInt32LE(at) === 0) at += 4;
    broken.writeUInt32LE(value(count), at);
    expect(broken.equals(blob)).toBe(false);
    const host = createMockHost(loadGateModule().bytes);
    expect(host.configure(broken)).toBe(false);
    expect(host.logs.at(-1)?.text).toContain("a record points outside its section");
  });

  it.each(["modelIndex", "keyIndex"] as const)(
    "is refused for a full %s, in which a search would never end",
    (name) => {
      const broken = Buffer.from(blob);
      const entry = BLOB_HEADER + (SECTION[name] - 1) * DIRECTORY_ENTRY;
      const start = blob.readUInt32LE(entry + 4);
      for (let slot = 0; slot < blob.readUInt32LE(entry + 8); slot++) broken.writeUInt32LE(1, start + slot * 4);
      expect(createMockHost(loadGateModule().bytes).configure(broken)).toBe(false);
      const odd = Buffer.from(blob);
      odd.writeUInt32LE(blob.readUInt32LE(entry + 8) - 1, entry + 8);
      expect(createMockHost(loadGateModule().bytes).configure(odd)).toBe(false);
    },
  );

  it("that is refused leaves the one before in force", () => {
    const host = gateHost();
    expect(host.configure(Buffer.from("nonsense"))).toBe(false);
    expect(judge(host, PREDICT, BODY).route).toBe("ranker/prod");
  });
});

describe("a new configuration", () => {
  const withoutRanker = { ...CONFIG, models: CONFIG.models.slice(1) };
  const withoutKeys = { ...CONFIG, tenants: [] };

  it("holds at once for new streams, a removed key included", () => {
    const host = gateHost();
    host.configure(compileGateConfig(withoutKeys));
    expect(judge(host, PREDICT, BODY).reason).toBe("unauthenticated");
    host.configure(blob);
    expect(judge(host, PREDICT, BODY).route).toBe("ranker/prod");
  });

  it("does not disturb a stream that waits for its body: it ends under the one that it began with", () => {
    const host = gateHost();
    const waiting = Array.from({ length: 20 }, () => {
      const stream = host.openStream();
      expect(stream.requestHeaders(grpcHeaders("ModelInfer", [["x-api-key", BATCHY_KEY]]))).toBe("held");
      return stream;
    });
    // Many more, so that freed memory would have been used again.
    for (let round = 0; round < 20; round++)
      host.configure(compileGateConfig(round % 2 === 0 ? withoutRanker : withoutKeys));
    expect(judge(host, PREDICT, BODY).reason).toBe("unauthenticated");
    for (const [index, stream] of waiting.entries()) {
      if (index % 3 !== 2) {
        expect(stream.requestBody(named("ranker@canary"), true)).toBe("passed");
        const upstream = new Map(stream.upstream.headers);
        expect(upstream.get("x-servemesh-route")).toBe("ranker/canary");
        expect(upstream.get("x-servemesh-tenant")).toBe("batchy");
      }
      stream.close();
    }
    host.configure(blob);
    expect(judge(host, grpcHeaders("ModelInfer"), named("ranker")).route).toBe("ranker/prod");
  });

  it("frees the one before: memory stays flat over a thousand of 1 MiB", () => {
    const big = compileGateConfig({
      models: Array.from({ length: 4000 }, (_, index) => ({
        name: `model-${index}`,
        defaultAlias: "prod",
        deadlineMs: 100,
        stickyHeader: "",
        allowedTenants: ["*"],
        aliases: [{ name: "prod" }, { name: "canary" }],
        versions: [1n, 2n, 3n, 4n, 5n, 6n, 7n, 8n, 9n, 10n],
      })),
      tenants: [{ name: "acme", keyDigests: [digestOf(ACME_KEY)], priority: "interactive", models: ["*"] }],
    });
    expect(big.length).toBeGreaterThan(700_000);
    const host = createMockHost(loadGateModule().bytes);
    const reach = (): number => {
      for (let round = 0; round < 10; round++) {
        expect(host.configure(big)).toBe(true);
        const held = host.openStream();
        held.requestHeaders(grpcHeaders("ModelInfer"));
        host.configure(blob);
        if (round % 2 === 0) held.requestBody(frame(Buffer.alloc(0)), true);
        held.close();
      }
      return host.memoryBytes;
    };
    const settled = reach();
    for (let round = 0; round < 100; round++) reach();
    expect(host.memoryBytes).toBe(settled);
  });
});
