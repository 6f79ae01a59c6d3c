import { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import { Secret } from "@servemesh/proto/gen/envoy/envoy/extensions/transport_sockets/tls/v3/secret.js";
import { DownstreamTlsContext } from "@servemesh/proto/gen/envoy/envoy/extensions/transport_sockets/tls/v3/tls.js";
import { describe, expect, it } from "vitest";
import { LISTENER_TYPE, SECRET_TYPE } from "../snapshot/resource-types.js";
import { buildSnapshot, inconsistencies, type Snapshot } from "../snapshot/snapshot.js";
import { packAny } from "../translate/any.js";
import { adsSource } from "../translate/sources.js";
import { Envoy } from "./hand-driven-envoy-fixture.js";
import { SotwEnvoy } from "./hand-driven-sotw-fixture.js";

/** Secrets and the listeners that name them on one stream. */
const NOTHING = { clusters: [], endpoints: [], listeners: [], scopes: [], routes: [], extensions: [] };

function tlsListener(name: string, secret: string): Listener {
  const tlsCertificateSdsSecretConfigs = [{ name: secret, sdsConfig: adsSource() }];
  const context = DownstreamTlsContext.fromPartial({ commonTlsContext: { tlsCertificateSdsSecretConfigs } });
  const value = packAny(DownstreamTlsContext, context);
  const transportSocket = { name: "tls", configType: { $case: "typedConfig" as const, value } };
  return Listener.fromPartial({ name, filterChains: [{ transportSocket }] });
}

function secret(name: string, revision: string): Secret {
  const value = { secret: { specifier: { $case: "inlineString" as const, value: revision } } };
  return Secret.fromPartial({ name, type: { $case: "genericSecret", value } });
}

/** @param secrets revision by name @param listeners name of the secret by name of the listener */
function stateOf(secrets: Record<string, string>, listeners: Record<string, string>): Snapshot {
  return buildSnapshot({
    ...NOTHING,
    secrets: Object.entries(secrets).map(([name, revision]) => secret(name, revision)),
    listeners: Object.entries(listeners).map(([name, wanted]) => tlsListener(name, wanted)),
  });
}

describe("a listener and its secret", () => {
  it("are consistent only when the secret is there", () => {
    expect(inconsistencies(stateOf({ a: "v1" }, { tls: "a" }))).toEqual([]);
    expect(inconsistencies(stateOf({ b: "v1" }, { tls: "a" }))).toEqual(["tls names secret a, which does not exist"]);
    const before = stateOf({ a: "v1" }, { tls: "a" });
    expect(inconsistencies(before)).toEqual([]);
    const renamed = buildSnapshot(
      { ...NOTHING, secrets: [secret("a", "v1")], listeners: [tlsListener("tls", "b")] },
      before,
    );
    expect(inconsistencies(renamed)).toEqual(["tls names secret b, which does not exist"]);
  });

  it("travel with the secret before the listener when both change", () => {
    const envoy = new Envoy();
    envoy.session.setTarget(stateOf({ a: "v1", b: "v1" }, { tls: "a" }), 0);
    envoy.ask(LISTENER_TYPE);
    envoy.ask(SECRET_TYPE, ["a", "b"]);
    expect(envoy.acceptAll()).toEqual(["LDS +tls", "SDS +a +b"]);
    envoy.session.setTarget(stateOf({ a: "v1", b: "v2" }, { tls: "b" }), 0);
    expect(envoy.acceptAll()).toEqual(["SDS +b", "LDS +tls"]);
  });

  it("rotate without the listener", () => {
    const envoy = new Envoy();
    envoy.session.setTarget(stateOf({ a: "v1" }, { tls: "a" }), 0);
    envoy.ask(LISTENER_TYPE);
    envoy.ask(SECRET_TYPE, ["a"]);
    envoy.acceptAll();
    envoy.session.setTarget(stateOf({ a: "v2" }, { tls: "a" }), 0);
    expect(envoy.acceptAll()).toEqual(["SDS +a"]);
  });

  it("rule 32: leave by the listener alone, also when Envoy asks again on a new stream", () => {
    const before = stateOf({ a: "v1" }, { tls: "a" });
    const after = stateOf({}, {});
    const envoy = new Envoy();
    envoy.session.setTarget(before, 0);
    envoy.ask(LISTENER_TYPE);
    envoy.ask(SECRET_TYPE, ["a"]);
    envoy.acceptAll();
    envoy.session.setTarget(after, 0);
    expect(envoy.acceptAll()).toEqual(["LDS -tls"]);
    const held = (type: typeof LISTENER_TYPE | typeof SECRET_TYPE) =>
      Object.fromEntries([...before.byType[type]].map(([name, { version }]) => [name, version]));
    const again = new Envoy();
    again.session.setTarget(after, 0);
    // In Envoy's order.
    again.ask(LISTENER_TYPE, [], held(LISTENER_TYPE));
    again.ask(SECRET_TYPE, ["a"], held(SECRET_TYPE));
    expect(again.acceptAll()).toEqual(["LDS -tls"]);
  });

  it("rule 29: a secret that went while Envoy was told its listener is answered, so that nothing warms for ever", () => {
    const envoy = new Envoy();
    envoy.session.setTarget(stateOf({ a: "v1" }, { tls: "a" }), 0);
    envoy.ask(LISTENER_TYPE);
    const listeners = envoy.last(LISTENER_TYPE);
    envoy.session.setTarget(stateOf({}, {}), 0);
    envoy.ask(SECRET_TYPE, ["a"]);
    expect(envoy.take()).toEqual(["LDS +tls", "SDS -a"]);
    envoy.ack(listeners);
    expect(envoy.take()).toEqual(["LDS -tls"]);
  });

  it("are no full state: by state of the world an absent secret is not deleted, and a new one comes alone", () => {
    const client = new SotwEnvoy();
    client.publish(stateOf({ a: "v1", b: "v1" }, { tls: "a" }));
    client.start(SECRET_TYPE, ["a", "b"]);
    expect(client.acceptAll()).toEqual(["SDS +a +b"]);
    client.publish(stateOf({ a: "v1" }, { tls: "a" }));
    expect(client.acceptAll()).toEqual([]);
    client.publish(stateOf({ a: "v1", b: "v2" }, { tls: "a" }));
    expect(client.acceptAll()).toEqual(["SDS +b"]);
  });

  it("an empty request asks for nothing: secrets are only given by name", () => {
    const envoy = new Envoy();
    envoy.session.setTarget(stateOf({ a: "v1" }, { tls: "a" }), 0);
    envoy.ask(SECRET_TYPE);
    expect(envoy.take()).toEqual([]);
  });
});
