import {
  status as GrpcStatus,
  type handleUnaryCall,
  type Metadata,
  type Server,
  type ServerUnaryCall,
  type sendUnaryData,
} from "@grpc/grpc-js";
import {
  type AdminServiceServer,
  AdminServiceService,
  type NodeStatus,
} from "@servemesh/proto/gen/mesh/servemesh/control/v1/admin.js";
import type { Clock } from "../platform/clock.js";
import type { Logger } from "../platform/logger.js";
import { isSameToken } from "../platform/token-file.js";
import { SOFTWARE_VERSION } from "../platform/version.js";
import type { RandomBytes } from "../registry/api-key.js";
import type { Registry } from "../registry/registry.js";
import { RegistryError, type RegistryErrorCode } from "../registry/registry-error.js";
import type { Finding } from "../registry/state.js";
import { getAlias, setAlias } from "./aliases.js";
import { getModel, listModels, putGateway, putModel } from "./models.js";
import { createTenant, listTenants } from "./tenants.js";
import { moveStage, registerVersion } from "./versions.js";

export interface AdminServiceDeps {
  readonly registry: Registry;
  /** What every call must bring as `authorization: Bearer <token>`. */
  readonly token: string;
  /** Everything that is wrong now, in the mesh as a whole. */
  readonly findings: () => readonly Finding[];
  readonly nodes: () => readonly NodeStatus[];
  readonly random: RandomBytes;
  readonly clock: Pick<Clock, "wallMs">;
  readonly logger: Logger;
  /** Counts calls by method and gRPC status. */
  readonly called?: (method: string, status: string) => void;
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
  };
  server.addService(AdminServiceService, service);
}

/** One method: the token first, then the work, and every failure as a status with one sentence. */
function unary<Request, Response>(
  method: string,
  deps: AdminServiceDeps,
  work: (request: Request) => Response | Promise<Response>,
): handleUnaryCall<Request, Response> {
  return (call: ServerUnaryCall<Request, Response>, callback: sendUnaryData<Response>) => {
    const answer = async (): Promise<Response> => {
      checkToken(call.metadata, deps.token);
      return await work(call.request);
    };
    answer().then(
      (response) => {
        deps.called?.(method, "OK");
        callback(null, response);
      },
      (error: unknown) => {
        const { code, details } = statusOf(error);
        deps.called?.(method, GrpcStatus[code]);
        if (code === GrpcStatus.INTERNAL) deps.logger.error({ method, err: error }, "bug: an admin call failed");
        else deps.logger.info({ method, status: GrpcStatus[code], problem: details }, "admin call refused");
        callback({ code, details });
      },
    );
  };
}

class Unauthenticated extends Error {}

function checkToken(metadata: Metadata, token: string): void {
  const given = metadata.get("authorization");
  const match = /^Bearer ([^\s]+)$/i.exec(given.length === 1 ? String(given[0]) : "");
  if (match?.[1] === undefined) {
    throw new Unauthenticated(
      "authorization is missing or is no bearer token; send `authorization: Bearer <token>` with the token of the control plane's token file",
    );
  }
  if (!isSameToken(match[1], token)) {
    throw new Unauthenticated(
      "authorization: the token is not this control plane's; read it from its token file again",
    );
  }
}

function statusOf(error: unknown): { code: GrpcStatus; details: string } {
  if (error instanceof Unauthenticated) return { code: GrpcStatus.UNAUTHENTICATED, details: error.message };
  if (error instanceof RegistryError) return { code: STATUS_OF_CODE[error.code], details: error.message };
  const problem = error instanceof Error ? error.message : String(error);
  return { code: GrpcStatus.INTERNAL, details: `the control plane failed: ${problem}; its log says more` };
}

const STATUS_OF_CODE: Readonly<Record<RegistryErrorCode, GrpcStatus>> = {
  invalid: GrpcStatus.INVALID_ARGUMENT,
  not_found: GrpcStatus.NOT_FOUND,
  exists: GrpcStatus.ALREADY_EXISTS,
  conflict: GrpcStatus.ABORTED,
  precondition: GrpcStatus.FAILED_PRECONDITION,
};
