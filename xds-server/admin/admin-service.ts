import type { Server } from "@grpc/grpc-js";
import {
  type AdminServiceServer,
  AdminServiceService,
  type NodeStatus,
} from "@servemesh/proto/gen/mesh/servemesh/control/v1/admin.js";
import type { Clock } from "../platform/clock.js";
import { SOFTWARE_VERSION } from "../platform/version.js";
import type { RandomBytes } from "../registry/api-key.js";
import type { Registry } from "../registry/registry.js";
import type { Finding } from "../registry/state.js";
import type { ObservedNode } from "../xds/csds-node-book.js";
import { type AdminCallDeps, unary } from "./admin-call.js";
import { getAlias, setAlias } from "./aliases.js";
import { getModel, listModels, putGateway, putModel } from "./models.js";
import { createTenant, listTenants } from "./tenants.js";
import { moveStage, registerVersion } from "./versions.js";
import { dumpXds, listXdsNodes } from "./xds-nodes.js";

export interface AdminServiceDeps extends AdminCallDeps {
  readonly registry: Registry;
  /** Everything that is wrong now, in the mesh as a whole. */
  readonly findings: () => readonly Finding[];
  readonly nodes: () => readonly NodeStatus[];
  /** Connected Envoys in detail, sorted by node id. */
  readonly xdsNodes: () => readonly ObservedNode[];
  readonly random: RandomBytes;
  readonly clock: Pick<Clock, "wallMs">;
}

/** Largest request in bytes: a record of the largest size, and room for its base64 and field names. */
export const REQUEST_MAX_BYTES = 1024 * 1024;

/** The operator's interface. The caller owns the server, its port and its limits. */
export function addAdminService(server: Server, deps: AdminServiceDeps): void {
  const { registry } = deps;
  const now = (): Date => new Date(deps.clock.wallMs());
  const service: AdminServiceServer = {
    createTenant: unary("CreateTenant", deps, ({ tenant }) =>
      createTenant(registry, tenant, { random: deps.random, now: now() }),
    ),
    listTenants: unary("ListTenants", deps, () => ({ tenants: listTenants(registry) })),
    putModel: unary("PutModel", deps, async (request) => ({ revision: await putModel(registry, request) })),
    registerVersion: unary("RegisterVersion", deps, async ({ version }) => ({
      revision: await registerVersion(registry, version, now()),
    })),
    moveStage: unary("MoveStage", deps, async (request) => ({ event: await moveStage(registry, request, now()) })),
    listModels: unary("ListModels", deps, () => ({ models: listModels(registry) })),
    getModel: unary("GetModel", deps, ({ model }) => getModel(registry, model)),
    setAlias: unary("SetAlias", deps, (request) => setAlias(registry, request)),
    getAlias: unary("GetAlias", deps, ({ model, alias }) => getAlias(registry, model, alias)),
    putGateway: unary("PutGateway", deps, async ({ gateway }) => ({ revision: await putGateway(registry, gateway) })),
    getStatus: unary("GetStatus", deps, () => ({
      revision: registry.state.revision,
      findings: [...deps.findings()],
      nodes: [...deps.nodes()],
      replicas: [...registry.state.replicas.values()].map(({ value }) => value).sort((a, b) => (a.id < b.id ? -1 : 1)),
      softwareVersion: SOFTWARE_VERSION,
    })),
    listXdsNodes: unary("ListXdsNodes", deps, async () => ({ nodes: await listXdsNodes(deps.xdsNodes()) })),
    dumpXds: unary("DumpXds", deps, (request) => dumpXds(deps.xdsNodes(), request)),
  };
  server.addService(AdminServiceService, service);
}
