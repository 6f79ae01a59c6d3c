import { ClientResourceStatus } from "@servemesh/proto/gen/envoy/envoy/admin/v3/config_dump_shared.js";
import {
  ClientConfig,
  type ClientConfig_GenericXdsConfig,
  ConfigStatus,
} from "@servemesh/proto/gen/envoy/envoy/service/status/v3/csds.js";
import { Any } from "@servemesh/proto/gen/envoy/google/protobuf/any.js";
import { Struct } from "@servemesh/proto/gen/envoy/google/protobuf/struct.js";
import type { Resource } from "../snapshot/resource.js";
import type { ResourceInspection, ResourceState, TypeInspection } from "./csds-inspection.js";
import type { ObservedNode } from "./csds-node-book.js";
import { contentOf, readableContent } from "./csds-redaction.js";

/**
 * Contents for one answer, each made once. A message with secrets in it is given as `google.protobuf.Struct` of its redacted
 * JSON, because cut-out fields would make it look like another valid message.
 */
export class ClientConfigContents {
  readonly #made = new Map<Resource, Any>();
  #bytes = 0;

  /** Bytes of everything that was given out so far. */
  get bytes(): number {
    return this.#bytes;
  }

  of(resource: Resource | undefined): Any | undefined {
    if (resource === undefined) return undefined;
    const any = this.#made.get(resource) ?? visibleContent(resource);
    this.#made.set(resource, any);
    this.#bytes += any.value.length;
    return any;
  }
}

function visibleContent(resource: Resource): Any {
  const content = contentOf(resource);
  const { json, isRedacted } = readableContent(content);
  if (!isRedacted) return content;
  const value = Buffer.from(Struct.encode(Struct.wrap(json as { [key: string]: unknown })).finish());
  return Any.fromPartial({ typeUrl: `type.googleapis.com/${Struct.$type}`, value });
}

/**
 * One stream of an Envoy as envoy.service.status.v3.ClientConfig, resource by resource.
 * @param contents undefined leaves contents out
 */
export function clientConfig(node: ObservedNode, contents: ClientConfigContents | undefined): ClientConfig {
  return ClientConfig.fromPartial({
    node: { id: node.nodeId },
    genericXdsConfigs: node.stream
      .inspect()
      .flatMap((type) => type.resources.map((resource) => genericConfig(node, type, resource, contents))),
  });
}

function genericConfig(
  node: ObservedNode,
  { typeUrl, version }: TypeInspection,
  resource: ResourceInspection,
  contents: ClientConfigContents | undefined,
): ClientConfig_GenericXdsConfig {
  const isKnown = version !== "";
  const { state, underWayVersion, ackedVersion } = resource;
  const isShown = state !== "refused" || ackedVersion !== "";
  return {
    typeUrl,
    name: resource.name,
    versionInfo: underWayVersion || ackedVersion || (isShown ? resource.version : ""),
    xdsConfig: isShown ? contents?.of(resource.resource) : undefined,
    lastUpdated: undefined,
    configStatus: isKnown ? CONFIG_STATUS[state] : ConfigStatus.UNKNOWN,
    clientStatus: isKnown ? clientStatus(resource) : ClientResourceStatus.REQUESTED,
    errorState: state === "refused" ? errorState(node, typeUrl, resource, contents) : undefined,
    isStaticResource: false,
  };
}

function errorState(
  { stream, nacks }: ObservedNode,
  typeUrl: string,
  { name, version, wanted }: ResourceInspection,
  contents: ClientConfigContents | undefined,
): NonNullable<ClientConfig_GenericXdsConfig["errorState"]> {
  const refused = stream.node.rejections.find((one) => one.typeUrl === typeUrl && one.name === name);
  const nack = nacks.find((one) => one.typeUrl === typeUrl && one.names.includes(name));
  return {
    failedConfiguration: contents?.of(wanted),
    lastUpdateAttempt: nack === undefined ? undefined : new Date(nack.atMs),
    details: refused?.words ?? "",
    versionInfo: version,
  };
}

function clientStatus({ state, ackedVersion }: ResourceInspection): ClientResourceStatus {
  if (state === "refused") return ClientResourceStatus.NACKED;
  if (state === "absent") return ClientResourceStatus.DOES_NOT_EXIST;
  return ackedVersion === "" ? ClientResourceStatus.REQUESTED : ClientResourceStatus.ACKED;
}

/** A name that does not exist has no configuration whose status could be told. */
const CONFIG_STATUS: Readonly<Record<ResourceState, ConfigStatus>> = {
  acked: ConfigStatus.SYNCED,
  pending: ConfigStatus.NOT_SENT,
  under_way: ConfigStatus.STALE,
  refused: ConfigStatus.ERROR,
  absent: ConfigStatus.UNKNOWN,
};
