import {
  Alias,
  Gateway,
  Model,
  ModelVersion,
  Replica,
  StageEvent,
  Tenant,
} from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { describe, expect, it } from "vitest";
import type { MessageShape, Shape } from "./json-shape.js";
import type { RecordKey } from "./keys.js";
import {
  aliasShape,
  gatewayShape,
  modelShape,
  replicaShape,
  stageShape,
  tenantShape,
  versionShape,
} from "./record-shapes.js";
import { formatRecord, parseRecord } from "./records.js";

const modelKey: RecordKey = { kind: "model", model: "ranker" };
const versionKey: RecordKey = { kind: "version", model: "ranker", version: 41n };
const aliasKey: RecordKey = { kind: "alias", model: "ranker", alias: "prod" };
const tenantKey: RecordKey = { kind: "tenant", tenant: "acme" };
const replicaKey: RecordKey = { kind: "replica", model: "ranker", version: 41n, id: "r1" };
const gatewayKey: RecordKey = { kind: "gateway", gateway: "default" };
const stageKey: RecordKey = { kind: "stage", model: "ranker", version: 41n, seq: 1n };

const version = {
  model: "ranker",
  version: "41",
  artifactDigest: `sha256:${"ab".repeat(32)}`,
  createdAt: "2026-01-31T12:00:00.000Z",
  lineage: { run: "7" },
  serving: {
    inputs: [
      { name: "user_id", datatype: "INT64", shape: ["-1", "1"] },
      { name: "item_id", datatype: "INT64", shape: ["-1", "1"] },
    ],
    outputs: [{ name: "score", datatype: "FP32", shape: ["-1", "1"] }],
    views: [
      { name: "user", entityInput: "user_id", width: 24 },
      { name: "item", entityInput: "item_id", width: 22 },
    ],
    transform: "ranker",
    upstreamInputs: [{ name: "features", datatype: "FP32", shape: ["-1", "47"] }],
    batching: { maxBatchSize: 8, maxQueueDelayUs: 4000, maxQueueSize: 64, maxInFlight: 1 },
    cache: { enabled: true },
  },
};
const alias = {
  model: "ranker",
  alias: "prod",
  split: [
    { version: "41", weight: 95 },
    { version: "42", weight: 5 },
  ],
};
const tenant = { name: "acme", keys: [{ id: "k1", sha256: Buffer.alloc(32, 7).toString("base64") }], models: ["*"] };
const replica = { model: "ranker", version: "41", id: "r1", address: "127.0.0.1:19000", state: "REPLICA_STATE_READY" };
const gateway = { name: "default", httpAddress: "127.0.0.1", httpPort: 8080 };
const stage = { model: "ranker", version: "41", seq: "1", stage: "STAGE_REGISTERED", actor: "ann" };
const model = { name: "ranker", slo: { deadlineMs: 100, availability: 0.999 }, allowedTenants: ["*"] };

const GOOD: readonly (readonly [RecordKey, object])[] = [
  [modelKey, model],
  [versionKey, version],
  [aliasKey, { ...alias, fallback: ["ranker-lite:1"], shadow: { version: "43" }, deadlineMs: 80 }],
  [tenantKey, { ...tenant, plan: { priority: "batch" } }],
  [replicaKey, replica],
  [gatewayKey, { ...gateway, runtime: { "upstream.healthy_panic_threshold": "0", x: "false" }, runtimeTtlSeconds: 3 }],
  [gatewayKey, { ...gateway, meshCertificateFile: "/a", meshPrivateKeyFile: "/b", meshCaFile: "/c" }],
  [gatewayKey, { ...gateway, tlsPort: 8443, tlsCertificateFile: "/a", tlsPrivateKeyFile: "/b" }],
  [stageKey, stage],
];

function errorsOf(key: RecordKey, json: unknown): readonly string[] {
  return parseRecord(key, typeof json === "string" ? json : JSON.stringify(json)).errors;
}

describe("good records", () => {
  it.each(GOOD)("%o are read and written back as they were", (key, json) => {
    const { record, errors, warnings } = parseRecord(key, JSON.stringify(json));
    expect({ errors, warnings }).toEqual({ errors: [], warnings: [] });
    expect(record && JSON.parse(formatRecord(record))).toEqual(json);
  });

  it("may use the names of the .proto file, null for absent, and numbers for 64 bits", () => {
    const { record, errors } = parseRecord(
      aliasKey,
      JSON.stringify({ ...alias, deadline_ms: 80, shadow: null, split: [{ version: 41, weight: 1 }] }),
    );
    expect(errors).toEqual([]);
    expect(record?.value).toMatchObject({ deadlineMs: 80, shadow: undefined, split: [{ version: 41n, weight: 1 }] });
  });

  it("keep a weight of 0, which is not the same as none", () => {
    const { record } = parseRecord(
      aliasKey,
      JSON.stringify({
        ...alias,
        split: [
          { version: "41", weight: 1 },
          { version: "42", weight: 0 },
        ],
      }),
    );
    expect(record?.value).toMatchObject({ split: [{ weight: 1 }, { weight: 0 }] });
  });

  it("warn of fields that are not known here", () => {
    const { record, warnings } = parseRecord(
      modelKey,
      JSON.stringify({ ...model, colour: "red", slo: { dedlineMs: 1 } }),
    );
    expect(record).toBeDefined();
    expect(warnings).toEqual([
      "slo.dedline_ms is not known here and is ignored; check its spelling",
      "colour is not known here and is ignored; check its spelling",
    ]);
  });
});

const { serving } = version;
const withServing = (change: object): object => ({ ...version, serving: { ...serving, ...change } });
const withInput = (change: object): object =>
  withServing({ views: [], transform: "", inputs: [{ ...serving.inputs[0], ...change }] });

describe("bad records name the field", () => {
  it.each<[string, RecordKey, unknown, RegExp]>([
    ["no JSON", modelKey, "{", /^the record is not JSON/],
    ["a list", modelKey, [], /^the record is a list but must be an object/],
    ["text null", modelKey, "null", /^the record is null but must be an object/],
    ["a number as text", modelKey, { ...model, owner: 5 }, /^owner is 5 but must be a text/],
    ["a text as list", modelKey, { ...model, allowedTenants: "acme" }, /^allowed_tenants is "acme" but must be a list/],
    ["null in a list", modelKey, { ...model, allowedTenants: [null] }, /^allowed_tenants\[0\] is null/],
    [
      "a text as number",
      modelKey,
      { ...model, slo: { deadlineMs: "soon" } },
      /^slo.deadline_ms is "soon" but must be a whole/,
    ],
    ["a fraction", modelKey, { ...model, slo: { deadlineMs: 1.5 } }, /^slo.deadline_ms is 1.5/],
    ["a negative number", modelKey, { ...model, slo: { deadlineMs: -1 } }, /^slo.deadline_ms is -1/],
    [
      "a deadline above the limit",
      modelKey,
      { ...model, slo: { deadlineMs: 600_001 } },
      /^slo.deadline_ms 600001 is above/,
    ],
    ["an impossible share", modelKey, { ...model, slo: { availability: 99.9 } }, /^slo.availability is 99.9/],
    ["another name than the key", modelKey, { ...model, name: "other" }, /^name is "other" but the key says "ranker"/],
    ["no name", modelKey, {}, /^name is "" but the key says "ranker"/],
    ["an alias that is none", modelKey, { ...model, defaultAlias: "41" }, /^default_alias "41"/],
    ["a tenant that is none", modelKey, { ...model, allowedTenants: ["A B"] }, /^allowed_tenants: "A B"/],
    ["* beside names", modelKey, { ...model, allowedTenants: ["*", "acme"] }, /^allowed_tenants holds \*/],
    [
      "a credential as sticky header",
      modelKey,
      { ...model, stickyHeader: "Authorization" },
      /^sticky_header "authorization"/,
    ],
    ["an internal sticky header", modelKey, { ...model, stickyHeader: "x-servemesh-tenant" }, /^sticky_header/],
    ["a sticky header with a line break", modelKey, { ...model, stickyHeader: "a\r\nb" }, /^sticky_header/],
    ["a path as origin", modelKey, { ...model, corsOrigins: ["https://a.b/c"] }, /^cors_origins/],

    ["a fraction as version", versionKey, { ...version, version: "41.5" }, /^version is "41.5"/],
    ["an unsafe number as version", versionKey, { ...version, version: 2 ** 60 }, /^version is 1152921504606847000/],
    ["no base64", versionKey, { ...version, envelope: "§" }, /^envelope is "§" but must be base64/],
    ["no time", versionKey, { ...version, createdAt: "yesterday" }, /^created_at is "yesterday"/],
    ["a number in the lineage", versionKey, { ...version, lineage: { run: 7 } }, /^lineage\["run"\] is 7/],
    ["no serving spec", versionKey, { model: "ranker", version: "41" }, /^serving is missing/],
    ["a manifest's digest", versionKey, { ...version, artifactDigest: "md5:00" }, /^artifact_digest is "md5:00"/],
    [
      "no inputs",
      versionKey,
      { ...version, serving: { ...serving, inputs: [], views: [], transform: "" } },
      /^serving.inputs is empty/,
    ],
    ["no outputs", versionKey, withServing({ outputs: [] }), /^serving.outputs is empty/],
    ["an unknown datatype", versionKey, withInput({ datatype: "FLOAT" }), /^serving.inputs\[0\].datatype is "FLOAT"/],
    [
      "no batch dimension",
      versionKey,
      withInput({ shape: ["1", "4"] }),
      /^serving.inputs\[0\].shape must start with -1/,
    ],
    ["a dimension of 0", versionKey, withInput({ shape: ["-1", "0"] }), /^serving.inputs\[0\].shape holds 0/],
    ["a nameless tensor", versionKey, withInput({ name: "" }), /^serving.inputs\[0\].name is missing/],
    [
      "a tensor twice",
      versionKey,
      withServing({ outputs: [...serving.outputs, ...serving.outputs] }),
      /^serving.outputs.name: "score" is listed twice/,
    ],
    [
      "a view of no input",
      versionKey,
      withServing({ views: [{ name: "user", entityInput: "uid", width: 1 }] }),
      /^serving.views\[0\].entity_input "uid"/,
    ],
    [
      "a view of a float",
      versionKey,
      withServing({
        inputs: [{ name: "user_id", datatype: "FP32", shape: ["-1"] }],
        views: [{ name: "user", entityInput: "user_id", width: 1 }],
      }),
      /is FP32, but entity ids/,
    ],
    [
      "a transform without views",
      versionKey,
      withServing({ views: [] }),
      /^serving.transform is "ranker" but there are no views/,
    ],
    ["a path as transform", versionKey, withServing({ transform: "../x" }), /^serving.transform is "..\/x"/],
    [
      "views without upstream inputs",
      versionKey,
      withServing({ upstreamInputs: [] }),
      /^serving.upstream_inputs is empty/,
    ],
    [
      "a huge batch",
      versionKey,
      withServing({ batching: { maxBatchSize: 4_097 } }),
      /^serving.batching.max_batch_size 4097/,
    ],
    [
      "a long queue delay",
      versionKey,
      withServing({ batching: { maxQueueDelayUs: 10_000_001 } }),
      /^serving.batching.max_queue_delay_us/,
    ],
    ["a cache without a digest", versionKey, { ...version, artifactDigest: "" }, /^artifact_digest is missing/],

    ["no split", aliasKey, { model: "ranker", alias: "prod" }, /^split is empty/],
    ["no weight", aliasKey, { ...alias, split: [{ version: "41" }] }, /^split\[0\].weight of version 41 is missing/],
    ["all weights 0", aliasKey, { ...alias, split: [{ version: "41", weight: 0 }] }, /^split has no weight above 0/],
    ["a negative weight", aliasKey, { ...alias, split: [{ version: "41", weight: -1 }] }, /^split\[0\].weight is -1/],
    [
      "a version twice",
      aliasKey,
      { ...alias, split: [alias.split[0], alias.split[0]] },
      /^split.version: "41" is listed twice/,
    ],
    ["version 0", aliasKey, { ...alias, split: [{ weight: 1 }] }, /^split\[0\].version is 0/],
    [
      "weights beyond 32 bits",
      aliasKey,
      {
        ...alias,
        split: [
          { version: "1", weight: 4294967295 },
          { version: "2", weight: 1 },
        ],
      },
      /^the weights of split/,
    ],
    [
      "a fallback by alias",
      aliasKey,
      { ...alias, fallback: ["ranker-lite@prod"] },
      /^fallback: "ranker-lite@prod" names no version/,
    ],
    [
      "a fallback that is no reference",
      aliasKey,
      { ...alias, fallback: ["ranker-lite:01"] },
      /^fallback: model reference/,
    ],
    ["a shadow without version", aliasKey, { ...alias, shadow: {} }, /^shadow.version is 0/],
    ["a sample above 1", aliasKey, { ...alias, shadow: { version: "43", sample: 5 } }, /^shadow.sample is 5/],

    ["a short digest", tenantKey, { ...tenant, keys: [{ id: "k1", sha256: "AAAA" }] }, /^keys\[0\].sha256 has 3 bytes/],
    ["an unknown priority", tenantKey, { ...tenant, plan: { priority: "urgent" } }, /^plan.priority is "urgent"/],
    [
      "a key id twice",
      tenantKey,
      { ...tenant, keys: [tenant.keys[0], tenant.keys[0]] },
      /^keys.id: "k1" is listed twice/,
    ],

    [
      "an unknown state",
      replicaKey,
      { ...replica, state: "REPLICA_STATE_HAPPY" },
      /^state is "REPLICA_STATE_HAPPY" but must be one of/,
    ],
    ["no state", replicaKey, { ...replica, state: undefined }, /^state is missing/],
    ["a state as number", replicaKey, { ...replica, state: 99 }, /^state is 99/],
    ["a host name", replicaKey, { ...replica, address: "batcher:19000" }, /^address "batcher:19000" is not ip:port/],
    ["no port", replicaKey, { ...replica, address: "127.0.0.1" }, /^address/],

    ["an unknown stage", stageKey, { ...stage, stage: "STAGE_LIVE" }, /^stage is "STAGE_LIVE"/],
    ["another number than the key", stageKey, { ...stage, seq: "2" }, /^seq is "2" but the key says "1"/],

    ["a host name as address", gatewayKey, { ...gateway, httpAddress: "localhost" }, /^http_address "localhost"/],
    ["a port that is none", gatewayKey, { ...gateway, httpPort: 70_000 }, /^http_port is 70000/],
    ["no port at all", gatewayKey, { name: "default" }, /^http_port and tls_port are both 0/],
    ["one port twice", gatewayKey, { ...gateway, tlsPort: 8080 }, /^http_port and tls_port are both 8080/],
    [
      "a runtime key with a space",
      gatewayKey,
      { ...gateway, runtime: { "a b": "1" } },
      /^runtime\["a b"\]: the key is no dotted name/,
    ],
    [
      "a TTL that is too short",
      gatewayKey,
      { ...gateway, runtimeTtlSeconds: 2 },
      /^runtime_ttl_seconds is 2; write 3 to/,
    ],
    ["a TTL that is too long", gatewayKey, { ...gateway, runtimeTtlSeconds: 86_401 }, /^runtime_ttl_seconds is 86401/],
    ["a runtime key without a value", gatewayKey, { ...gateway, runtime: { "a.b": "" } }, /^runtime\["a.b"\] is empty/],
    [
      "a runtime value that is too long",
      gatewayKey,
      { ...gateway, runtime: { "a.b": "x".repeat(257) } },
      /^runtime\["a.b"\].*257/,
    ],
    [
      "an identity without its issuers",
      gatewayKey,
      { ...gateway, meshCertificateFile: "/a", meshPrivateKeyFile: "/b" },
      /^mesh_ca_file "" is not an absolute path, .*write all three, or none/,
    ],
    [
      "an identity from a relative path",
      gatewayKey,
      { ...gateway, meshCertificateFile: "a", meshPrivateKeyFile: "/b", meshCaFile: "/c" },
      /^mesh_certificate_file "a"/,
    ],
    ["TLS without a file", gatewayKey, { ...gateway, tlsPort: 8443 }, /^tls_certificate_file ""/],
    [
      "a body limit of 1 GiB",
      gatewayKey,
      { ...gateway, maxRequestBytes: "1073741824" },
      /^max_request_bytes 1073741824/,
    ],
  ])("%s", (_, key, json, expected) => {
    const errors = errorsOf(key, json);
    expect(
      errors.find((error) => expected.test(error)),
      errors.join("\n"),
    ).toBeDefined();
    expect(parseRecord(key, typeof json === "string" ? json : JSON.stringify(json)).record).toBeUndefined();
  });

  it("never tell more than a few errors of a large piece of garbage", () => {
    expect(errorsOf(modelKey, { allowedTenants: Array.from({ length: 50_000 }, () => 5) }).length).toBeLessThanOrEqual(
      8,
    );
    expect(errorsOf(modelKey, "[".repeat(100_000))[0]).toMatch(/^the record is not JSON/);
    expect(errorsOf(modelKey, `"${"x".repeat(2 ** 20)}"`)[0]).toMatch(/make it smaller$/);
  });
});

describe("shapes and generated code", () => {
  const messageOf = (shape: Shape): MessageShape => {
    if (shape.kind === "list" || shape.kind === "map") return messageOf(shape.of);
    if (shape.kind !== "message") throw new Error(`${shape.kind} is no message`);
    return shape;
  };

  it.each([
    [Model.create({}), modelShape],
    [ModelVersion.create({}), versionShape],
    [StageEvent.create({}), stageShape],
    [Alias.create({}), aliasShape],
    [Tenant.create({}), tenantShape],
    [Replica.create({}), replicaShape],
    [Gateway.create({}), gatewayShape],
  ])("have the same fields: %o", (message, shape) => {
    expect(Object.keys(shape.fields).sort()).toEqual(Object.keys(message).sort());
  });

  it("have the same fields inside", async () => {
    const { ServingSpec, TensorSpec, FeatureView, Batching, CachePolicy, Slo, SplitMember, Shadow, ApiKey, Plan } =
      await import("@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js");
    const field = (shape: MessageShape, name: string): MessageShape => messageOf(shape.fields[name] as Shape);
    const servingShape = field(versionShape, "serving");
    for (const [shape, message] of [
      [servingShape, ServingSpec.create({})],
      [field(servingShape, "inputs"), TensorSpec.create({})],
      [field(servingShape, "views"), FeatureView.create({})],
      [field(servingShape, "batching"), Batching.create({})],
      [field(servingShape, "cache"), CachePolicy.create({})],
      [field(modelShape, "slo"), Slo.create({})],
      [field(aliasShape, "split"), SplitMember.create({})],
      [field(aliasShape, "shadow"), Shadow.create({})],
      [field(tenantShape, "keys"), ApiKey.create({})],
      [field(tenantShape, "plan"), Plan.create({})],
    ] as const) {
      expect(Object.keys(shape.fields).sort()).toEqual(Object.keys(message).sort());
    }
  });
});
