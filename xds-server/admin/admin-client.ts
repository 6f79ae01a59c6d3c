import { type ClientOptions, credentials, status as GrpcStatus, Metadata, type ServiceError } from "@grpc/grpc-js";
import {
  AdminServiceClient,
  CreateTenantRequest,
  type CreateTenantResponse,
  type DeepPartial,
  DumpXdsRequest,
  type DumpXdsResponse,
  GetAliasRequest,
  type GetAliasResponse,
  GetModelRequest,
  type GetModelResponse,
  type GetStatusResponse,
  type ListModelsResponse,
  type ListTenantsResponse,
  type ListXdsNodesResponse,
  MoveStageRequest,
  type MoveStageResponse,
  PutGatewayRequest,
  type PutGatewayResponse,
  PutModelRequest,
  type PutModelResponse,
  RegisterVersionRequest,
  type RegisterVersionResponse,
  SetAliasRequest,
  type SetAliasResponse,
} from "@servemesh/proto/gen/mesh/servemesh/control/v1/admin.js";
import { formatAddress, parseLoopbackAddress } from "../platform/address.js";

export interface AdminClientOptions {
  /** `host:port` of the control plane's admin port; loopback, because the token travels in plain text. */
  readonly address: string;
  /** Content of its token file. */
  readonly token: string;
  /** Limit of one call in ms; 10 s by default. */
  readonly timeoutMs?: number;
}

/** A call that was refused or did not get through. The message is the control plane's, or says what is wrong with the way. */
export class AdminError extends Error {
  override readonly name = "AdminError";

  constructor(
    /** Name of the gRPC status, such as `NOT_FOUND`. */
    readonly status: string,
    message: string,
  ) {
    super(message);
  }
}

/** The methods of AdminService. Fields that a request leaves out have their proto3 default. All throw AdminError. */
export interface AdminClient {
  createTenant(request: DeepPartial<CreateTenantRequest>): Promise<CreateTenantResponse>;
  listTenants(): Promise<ListTenantsResponse>;
  putModel(request: DeepPartial<PutModelRequest>): Promise<PutModelResponse>;
  registerVersion(request: DeepPartial<RegisterVersionRequest>): Promise<RegisterVersionResponse>;
  moveStage(request: DeepPartial<MoveStageRequest>): Promise<MoveStageResponse>;
  listModels(): Promise<ListModelsResponse>;
  getModel(request: DeepPartial<GetModelRequest>): Promise<GetModelResponse>;
  setAlias(request: DeepPartial<SetAliasRequest>): Promise<SetAliasResponse>;
  getAlias(request: DeepPartial<GetAliasRequest>): Promise<GetAliasResponse>;
  putGateway(request: DeepPartial<PutGatewayRequest>): Promise<PutGatewayResponse>;
  getStatus(): Promise<GetStatusResponse>;
  listXdsNodes(): Promise<ListXdsNodesResponse>;
  dumpXds(request: DeepPartial<DumpXdsRequest>): Promise<DumpXdsResponse>;
  close(): void;
}

const DEFAULT_TIMEOUT_MS = 10_000;
/** A listing of many models is far above grpc-js's default of 4 MiB. */
const ANSWER_MAX_BYTES = 64 * 1024 * 1024;

const OPTIONS: ClientOptions = {
  "grpc.max_receive_message_length": ANSWER_MAX_BYTES,
  // A proxy of the environment must never see the token.
  "grpc.enable_http_proxy": 0,
  "grpc.use_local_subchannel_pool": 1,
};

/**
 * Connects to a control plane's admin port. Nothing is sent before the first call.
 * @throws Error with one sentence when the address is none, or is not loopback
 */
export function createAdminClient({ address, token, timeoutMs = DEFAULT_TIMEOUT_MS }: AdminClientOptions): AdminClient {
  const target = formatAddress(parseLoopbackAddress(address, "address"));
  const client = new AdminServiceClient(target, credentials.createInsecure(), OPTIONS);
  const metadata = new Metadata();
  metadata.set("authorization", `Bearer ${token}`);
  const promise = <Response>(start: (given: Given, done: Done<Response>) => unknown): Promise<Response> =>
    new Promise((resolve, reject) => {
      start({ metadata, options: { deadline: Date.now() + timeoutMs } }, (error, response) => {
        if (error === null) resolve(response);
        else reject(adminError(error, target));
      });
    });
  return {
    createTenant: (request) =>
      promise((given, done) =>
        client.createTenant(CreateTenantRequest.fromPartial(request as object), given.metadata, given.options, done),
      ),
    listTenants: () => promise((given, done) => client.listTenants({}, given.metadata, given.options, done)),
    putModel: (request) =>
      promise((given, done) =>
        client.putModel(PutModelRequest.fromPartial(request as object), given.metadata, given.options, done),
      ),
    registerVersion: (request) =>
      promise((given, done) =>
        client.registerVersion(
          RegisterVersionRequest.fromPartial(request as object),
          given.metadata,
          given.options,
          done,
        ),
      ),
    moveStage: (request) =>
      promise((given, done) =>
        client.moveStage(MoveStageRequest.fromPartial(request as object), given.metadata, given.options, done),
      ),
    listModels: () => promise((given, done) => client.listModels({}, given.metadata, given.options, done)),
    getModel: (request) =>
      promise((given, done) =>
        client.getModel(GetModelRequest.fromPartial(request as object), given.metadata, given.options, done),
      ),
    setAlias: (request) =>
      promise((given, done) =>
        client.setAlias(SetAliasRequest.fromPartial(request as object), given.metadata, given.options, done),
      ),
    getAlias: (request) =>
      promise((given, done) =>
        client.getAlias(GetAliasRequest.fromPartial(request as object), given.metadata, given.options, done),
      ),
    putGateway: (request) =>
      promise((given, done) =>
        client.putGateway(PutGatewayRequest.fromPartial(request as object), given.metadata, given.options, done),
      ),
    getStatus: () => promise((given, done) => client.getStatus({}, given.metadata, given.options, done)),
    listXdsNodes: () => promise((given, done) => client.listXdsNodes({}, given.metadata, given.options, done)),
    dumpXds: (request) =>
      promise((given, done) =>
        client.dumpXds(DumpXdsRequest.fromPartial(request as object), given.metadata, given.options, done),
      ),
    close: () => client.close(),
  };
}

interface Given {
  readonly metadata: Metadata;
  readonly options: { readonly deadline: number };
}

type Done<Response> = (error: ServiceError | null, response: Response) => void;

function adminError(error: ServiceError, target: string): AdminError {
  const status = GrpcStatus[error.code];
  if (error.code === GrpcStatus.UNAVAILABLE) {
    return new AdminError(
      status,
      `no control plane answers at ${target}; start it, or name its --admin address (${error.details.replace(/ *Resolution note:.*$/s, "")})`,
    );
  }
  if (error.code === GrpcStatus.DEADLINE_EXCEEDED) {
    return new AdminError(
      status,
      `the control plane at ${target} did not answer in time; whether a write was done is unknown, so read before trying again`,
    );
  }
  return new AdminError(status, error.details);
}
