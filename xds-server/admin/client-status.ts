import { setImmediate as nextTurn } from "node:timers/promises";
import type { Server, ServerDuplexStream } from "@grpc/grpc-js";
import {
  ClientStatusDiscoveryServiceService,
  type ClientStatusRequest,
  type ClientStatusResponse,
} from "@servemesh/proto/gen/envoy/envoy/service/status/v3/csds.js";
import { RegistryError } from "../registry/registry-error.js";
import { ClientConfigContents, clientConfig } from "../xds/csds-client-config.js";
import type { ObservedNode } from "../xds/csds-node-book.js";
import { matchesNode } from "../xds/csds-node-match.js";
import { type AdminCallDeps, answerCall, unary } from "./admin-call.js";

/** Bytes of resources in one answer. */
export const CONTENTS_MAX_BYTES = 32 * 1024 * 1024;

export interface ClientStatusDeps extends AdminCallDeps {
  /** Connected Envoys, sorted by node id. */
  readonly xdsNodes: () => readonly ObservedNode[];
}

/**
 * Envoy's own status service (CSDS), for tools that know it. It shows configuration, so it stands behind the admin port's
 * token and not beside ADS. One ClientConfig per open stream.
 */
export function addClientStatusService(server: Server, deps: ClientStatusDeps): void {
  const work = (request: ClientStatusRequest): Promise<ClientStatusResponse> => clientStatus(deps.xdsNodes(), request);
  server.addService(ClientStatusDiscoveryServiceService, {
    fetchClientStatus: unary("FetchClientStatus", deps, work),
    streamClientStatus: (call: ServerDuplexStream<ClientStatusRequest, ClientStatusResponse>) => {
      const answer = async (request: ClientStatusRequest): Promise<void> => {
        const answered = await answerCall("StreamClientStatus", deps, call.metadata, () => work(request));
        if (answered.ok) call.write(answered.response);
        else call.emit("error", answered.refusal);
      };
      let last = Promise.resolve();
      call.on("data", (request: ClientStatusRequest) => {
        // One at a time, so that a client that asks faster than it reads waits.
        call.pause();
        last = answer(request).then(() => void call.resume());
      });
      call.on("end", () => void last.then(() => call.end()));
      // The connection broke; there is nobody to tell.
      call.on("error", () => undefined);
    },
  });
}

async function clientStatus(
  nodes: readonly ObservedNode[],
  { nodeMatchers, excludeResourceContents }: ClientStatusRequest,
): Promise<ClientStatusResponse> {
  const contents = excludeResourceContents ? undefined : new ClientConfigContents();
  const response: ClientStatusResponse = { config: [] };
  // Also without any node a bad matcher is to be told.
  for (const node of nodes.filter(({ nodeId }) => isMeant(nodeMatchers, nodeId))) {
    response.config.push(clientConfig(node, contents));
    if (contents !== undefined && contents.bytes > CONTENTS_MAX_BYTES) {
      throw new RegistryError(
        "precondition",
        "the answer has more than 32 MiB; name nodes in node_matchers, or set exclude_resource_contents",
      );
    }
    // Each node costs a step per resource; others may run in between.
    await nextTurn();
  }
  isMeant(nodeMatchers, "");
  return response;
}

function isMeant(matchers: ClientStatusRequest["nodeMatchers"], nodeId: string): boolean {
  try {
    return matchesNode(matchers, nodeId);
  } catch (error) {
    throw new RegistryError("invalid", (error as Error).message);
  }
}
