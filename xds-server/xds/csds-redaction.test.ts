import { Cluster } from "@servemesh/proto/gen/envoy/envoy/config/cluster/v3/cluster.js";
import { TypedExtensionConfig } from "@servemesh/proto/gen/envoy/envoy/config/core/v3/extension.js";
import { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import { RouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route.js";
import { Wasm } from "@servemesh/proto/gen/envoy/envoy/extensions/filters/http/wasm/v3/wasm.js";
import { Secret } from "@servemesh/proto/gen/envoy/envoy/extensions/transport_sockets/tls/v3/secret.js";
import { DownstreamTlsContext } from "@servemesh/proto/gen/envoy/envoy/extensions/transport_sockets/tls/v3/tls.js";
import { Any } from "@servemesh/proto/gen/envoy/google/protobuf/any.js";
import { BytesValue } from "@servemesh/proto/gen/envoy/google/protobuf/wrappers.js";
import { describe, expect, it } from "vitest";
import { secretPairOf } from "../secrets/pair-fixture.js";
import { absentHost, clusterResource, extensionResource, secretResource } from "../snapshot/resource.js";
import { certificateName } from "../translate/names.js";
import { translateSecrets } from "../translate/secrets.js";
import { selfSignedCertificate } from "./certificate-fixture.js";
import { contentOf, readableContent } from "./csds-redaction.js";

const SECRET = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ";

interface Codec<T> {
  readonly $type: string;
  encode(message: T): { finish(): Uint8Array };
  fromPartial(partial: object): T;
}

function any<T>(codec: Codec<T>, partial: object): Any {
  return Any.fromPartial({
    typeUrl: `type.googleapis.com/${codec.$type}`,
    value: Buffer.from(codec.encode(codec.fromPartial(partial)).finish()),
  });
}

function text(message: Any): string {
  return JSON.stringify(readableContent(message).json);
}

const inline = (value: string): object => ({ specifier: { $case: "inlineString", value } });
const file = (value: string): object => ({ specifier: { $case: "filename", value } });

describe("readableContent", () => {
  it("is the message as it is when nothing in it is secret", () => {
    const cluster = Cluster.fromPartial({ name: "ranker/41", edsClusterConfig: { serviceName: "ranker/41" } });
    const { json, isRedacted } = readableContent(contentOf(clusterResource(cluster)));
    expect(json).toMatchObject({ name: "ranker/41", edsClusterConfig: { serviceName: "ranker/41" } });
    expect(isRedacted).toBe(false);
  });

  it("is empty for a virtual host that does not exist", () => {
    expect(readableContent(contentOf(absentHost("table/a.example")))).toEqual({
      json: { "@type": "type.googleapis.com/envoy.config.route.v3.VirtualHost" },
      isRedacted: false,
    });
  });

  it("cuts private keys and passwords out, wherever they lie, and keeps certificates and file names", () => {
    const tlsCertificates = [
      { certificateChain: inline("CERTIFICATE"), privateKey: inline(SECRET), password: inline(SECRET) },
      { certificateChain: file("chain.pem"), privateKey: file("key.pem") },
    ];
    const context = any(DownstreamTlsContext, { commonTlsContext: { tlsCertificates } });
    const transportSocket = { name: "tls", configType: { $case: "typedConfig", value: context } };
    const listener = any(Listener, { name: "gateway-tls", filterChains: [{ transportSocket }] });
    const shown = readableContent(listener);
    expect(JSON.stringify(shown.json)).not.toContain(SECRET.slice(0, 12));
    expect(shown.json).toMatchObject({
      filterChains: [
        {
          transportSocket: {
            typedConfig: {
              commonTlsContext: {
                tlsCertificates: [
                  {
                    certificateChain: { inlineString: "CERTIFICATE" },
                    privateKey: { inlineString: "[redacted]" },
                    password: { inlineString: "[redacted]" },
                  },
                  { certificateChain: { filename: "chain.pem" }, privateKey: { filename: "key.pem" } },
                ],
              },
            },
          },
        },
      ],
    });
    expect(shown.isRedacted).toBe(true);
  });

  it.each([
    ["a certificate's key", { type: { $case: "tlsCertificate", value: { privateKey: inline(SECRET) } } }],
    [
      "a key as bytes",
      {
        type: {
          $case: "tlsCertificate",
          value: { privateKey: { specifier: { $case: "inlineBytes", value: Buffer.from(SECRET) } } },
        },
      },
    ],
    ["session ticket keys", { type: { $case: "sessionTicketKeys", value: { keys: [inline(SECRET)] } } }],
    ["a key store", { type: { $case: "tlsCertificate", value: { pkcs12: inline(SECRET) } } }],
    ["a generic secret", { type: { $case: "genericSecret", value: { secret: inline(SECRET) } } }],
  ])("hides %s of SDS", (_, partial) => {
    const shown = text(any(Secret, { name: "server-cert", ...partial }));
    expect(shown).toContain("server-cert");
    expect(shown).toContain("[redacted]");
    expect(shown).not.toContain(SECRET.slice(0, 12));
    expect(shown).not.toContain(Buffer.from(SECRET).toString("base64").slice(0, 12));
  });

  it("shows of a gateway's secret its name, and the certificate by digest", () => {
    const certificate = selfSignedCertificate();
    const gateway = { name: "edge", tls: { port: 8443, certificateFile: "/c", privateKeyFile: "/k" } };
    const [secret] = translateSecrets(gateway, { secrets: new Map([["edge", secretPairOf(certificate)]]) });
    if (secret === undefined) throw new Error("there is no secret");
    const resource = secretResource(secret);
    const content = contentOf(resource);
    expect(content.value.toString()).toContain(certificate.keyPem);
    const { json, isRedacted } = readableContent(content);
    expect(isRedacted).toBe(true);
    expect(json).toEqual({
      "@type": resource.typeUrl,
      name: certificateName("edge"),
      tlsCertificate: {
        certificateChain: { inlineBytes: expect.stringMatching(/^sha256:[0-9a-f]{16} \(\d+ bytes\)$/) },
        privateKey: { inlineBytes: "[redacted]" },
      },
    });
  });

  it("gives the gate's module and its configuration by digest and length", () => {
    const module = Buffer.alloc(100_000, 7);
    const configuration = any(BytesValue, { value: Buffer.from(`digests of keys: ${SECRET}`) });
    const code = { specifier: { $case: "local", value: { specifier: { $case: "inlineBytes", value: module } } } };
    const vm = { $case: "vmConfig", value: { runtime: "envoy.wasm.runtime.v8", code } };
    const wasm = any(Wasm, { config: { name: "gate", configuration, vm } });
    const gate = extensionResource(TypedExtensionConfig.fromPartial({ name: "gate", typedConfig: wasm }));
    const shown = text(contentOf(gate));
    expect(shown).toContain("envoy.wasm.runtime.v8");
    expect(shown).toMatch(/"inlineBytes":"sha256:[0-9a-f]{16} \(100000 bytes\)"/);
    expect(shown).toMatch(/"configuration":\{"@type":"[^"]*BytesValue","value":"sha256:[0-9a-f]{16} \(\d+ bytes\)"\}/);
    expect(shown.length).toBeLessThan(1_000);
    const other = Buffer.alloc(100_000, 8);
    expect(
      text(
        any(Wasm, {
          config: {
            vm: {
              $case: "vmConfig",
              value: {
                code: { specifier: { $case: "local", value: { specifier: { $case: "inlineBytes", value: other } } } },
              },
            },
          },
        }),
      ),
    ).not.toContain(/sha256:[0-9a-f]{16} \(100000/.exec(shown)?.[0]);
  });

  it("hides what it cannot open, and headers that carry credentials", () => {
    const unknown = Any.fromPartial({ typeUrl: "type.googleapis.com/nobody.Knows", value: Buffer.from(SECRET) });
    expect(readableContent(unknown)).toEqual({
      json: {
        "@type": "type.googleapis.com/nobody.Knows",
        value: expect.stringMatching(/^sha256:[0-9a-f]{16} \(50 bytes\)$/),
        "@problem": "unknown type",
      },
      isRedacted: true,
    });
    const header = (key: string, value: string): object => ({ header: { key, value } });
    const routes = any(RouteConfiguration, {
      name: "routes/ranker",
      requestHeadersToAdd: [header("authorization", `Bearer ${SECRET}`), header("x-servemesh-leg", "primary")],
    });
    expect(readableContent(routes).json).toMatchObject({
      requestHeadersToAdd: [
        { header: { key: "authorization", value: "[redacted]" } },
        { header: { key: "x-servemesh-leg", value: "primary" } },
      ],
    });
  });
});
