import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { GRPC_SERVICE_PATH, H_API_KEY, H_ROUTE } from "@servemesh/proto/names";
import { PROTO_FILES, protoRoot } from "@servemesh/proto/sources";
import {
  compileGateConfig,
  createMockHost,
  type HeaderList,
  loadGateModule,
  type MockStream,
} from "@servemesh/wasm-filters";
import { describe, expect, it } from "vitest";

const KEY = "contract-key";
const host = createMockHost(loadGateModule().bytes);
host.configure(
  compileGateConfig({
    models: [
      {
        name: "ranker",
        defaultAlias: "prod",
        deadlineMs: 2_000,
        stickyHeader: "",
        allowedTenants: ["*"],
        aliases: [{ name: "prod" }],
        versions: [41n],
      },
    ],
    tenants: [
      { name: "acme", keyDigests: [createHash("sha256").update(KEY).digest()], priority: "interactive", models: ["*"] },
    ],
  }),
);

function send(headers: HeaderList, body?: Uint8Array): MockStream {
  const stream = host.openStream();
  if (stream.requestHeaders(headers, body === undefined) === "held" && body) stream.requestBody(body, true);
  return stream;
}

function source(file: keyof typeof PROTO_FILES): string {
  return readFileSync(join(protoRoot, PROTO_FILES[file]), "utf8");
}

/** Every path of the REST service with its verb, as Envoy's transcoder reads them from the same file. */
function restRules(): { verb: string; path: string }[] {
  return [...source("rest").matchAll(/\b(get|post): "([^"]+)"/g)].map(([, verb, path]) => ({
    verb: (verb as string).toUpperCase(),
    path: path as string,
  }));
}

/** What the gate must make of a path: its own key for server calls, else model and pin. */
function routeOf(path: string): string {
  if (path === "/v2") return "_server/meta";
  if (path.startsWith("/v2/health/")) return `_server/${path.split("/").at(-1)}`;
  return path.includes("{version}") ? "ranker/41" : "ranker/prod";
}

describe("the gate's paths and the transcoder's", () => {
  it("finds the rules in the proto", () => {
    expect(restRules().length).toBeGreaterThan(15);
  });

  it.each(restRules())("$verb $path passes the gate with its route", ({ verb, path }) => {
    const asked = path.replace("{model}", "ranker").replace("{version}", "41").replace("{label}", "prod");
    const stream = send([
      [":method", verb],
      [":path", asked],
      [":authority", "mesh"],
      [H_API_KEY, KEY],
    ]);
    expect(stream.reply).toBeUndefined();
    expect(stream.upstream.headers.find(([name]) => name === H_ROUTE)?.[1]).toBe(routeOf(path));
  });

  it("every gRPC method of the proto passes, or is refused as not served", () => {
    const methods = [...source("inference").matchAll(/rpc (\w+)\(/g)].map(([, method]) => method as string);
    // Field 1 of every request that names a model.
    const named = Buffer.concat([Buffer.from([0, 0, 0, 0, 8, 0x0a, 6]), Buffer.from("ranker")]);
    const passed = methods.filter((method) => {
      const stream = send(
        [
          [":method", "POST"],
          [":path", `${GRPC_SERVICE_PATH}${method}`],
          [":authority", "mesh"],
          ["content-type", "application/grpc"],
          [H_API_KEY, KEY],
        ],
        named,
      );
      const reason = stream.reply?.headers.find(([name]) => name === "x-servemesh-reason")?.[1];
      expect([undefined, "path_not_found"]).toContain(reason);
      return stream.reply === undefined;
    });
    // What the batcher's gRPC server answers: what clients ask before and for an inference.
    expect(passed.sort()).toEqual([
      "ModelConfig",
      "ModelInfer",
      "ModelMetadata",
      "ModelReady",
      "ServerLive",
      "ServerMetadata",
      "ServerReady",
    ]);
  });
});
