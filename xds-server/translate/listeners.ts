import { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import { BodySizeLimit } from "@servemesh/proto/gen/envoy/envoy/extensions/filters/http/body_size_limit/v3/body_size_limit.js";
import { GrpcJsonTranscoder } from "@servemesh/proto/gen/envoy/envoy/extensions/filters/http/grpc_json_transcoder/v3/transcoder.js";
import { Router } from "@servemesh/proto/gen/envoy/envoy/extensions/filters/http/router/v3/router.js";
import {
  HttpConnectionManager,
  HttpConnectionManager_CodecType,
  HttpConnectionManager_PathWithEscapedSlashesAction,
  HttpFilter,
} from "@servemesh/proto/gen/envoy/envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.js";
import { HeaderMutation } from "@servemesh/proto/gen/envoy/envoy/extensions/http/early_header_mutation/header_mutation/v3/header_mutation.js";
import { TlsParameters_TlsProtocol } from "@servemesh/proto/gen/envoy/envoy/extensions/transport_sockets/tls/v3/common.js";
import { DownstreamTlsContext } from "@servemesh/proto/gen/envoy/envoy/extensions/transport_sockets/tls/v3/tls.js";
import { H_ROUTE, INTERNAL_PREFIX } from "@servemesh/proto/names";
import type { GatewayPlan } from "../plan/mesh-plan.js";
import type { SecretPair } from "../secrets/secret-pair.js";
import { fileAccessLog } from "./access-log.js";
import { type PackableCodec, packAny } from "./any.js";
import { gateFilter } from "./gate-filter.js";
import { removeMutation, removePrefixMutation } from "./headers.js";
import { bufferLimitOf, MAX_RESPONSE_BYTES } from "./limits.js";
import { localReplyConfig } from "./local-replies.js";
import { certificateName, LISTENER, TLS_LISTENER } from "./names.js";
import { adsSource, duration } from "./sources.js";

/** A client that does not send its headers holds a connection for nothing. */
const REQUEST_HEADERS_TIMEOUT_MS = 10_000;
/** Bounds an upload whose model is not known yet; afterwards the call's own deadline counts. */
const REQUEST_TIMEOUT_MS = 60_000;
/** Above the longest deadline (ten minutes), so that it only ends streams that nobody bounds. */
const STREAM_IDLE_TIMEOUT_MS = 900_000;
const CONNECTION_IDLE_TIMEOUT_MS = 3_600_000;
const CONCURRENT_STREAMS_MAX = 1_000;
const HEADERS_MAX = 100;
const STREAM_WINDOW_BYTES = 1024 * 1024;
const CONNECTION_WINDOW_BYTES = 4 * 1024 * 1024;
const CONNECTION_BUFFER_BYTES = 1024 * 1024;

export interface ListenerSettings {
  /** FileDescriptorSet of `servemesh.rest.v1.RestService`, sent inline. */
  readonly transcoderDescriptor: Uint8Array;
  /** Path of a JSON-lines access log on the gateway's machine. */
  readonly accessLogPath?: string;
  /** Certificate of each gateway record, by its name. */
  readonly secrets?: ReadonlyMap<string, SecretPair>;
}

/** Whether a gateway's TLS listener can be opened at all: without a certificate it would wait for one for ever. */
export function hasCertificate(gateway: GatewayPlan | undefined, { secrets }: ListenerSettings): boolean {
  return gateway?.tls !== undefined && secrets?.has(gateway.name) === true;
}

export function translateListeners(gateway: GatewayPlan | undefined, settings: ListenerSettings): Listener[] {
  if (gateway === undefined) return [];
  const listeners: Listener[] = [];
  if (gateway.httpPort !== 0) listeners.push(listener(LISTENER, gateway, gateway.httpPort, undefined, settings));
  if (gateway.tls !== undefined && hasCertificate(gateway, settings)) {
    const certificate = certificateName(gateway.name);
    listeners.push(listener(TLS_LISTENER, gateway, gateway.tls.port, certificate, settings));
  }
  return listeners;
}

function listener(
  name: string,
  gateway: GatewayPlan,
  port: number,
  certificate: string | undefined,
  settings: ListenerSettings,
): Listener {
  const manager = connectionManager(name, gateway.maxRequestBytes, settings);
  return Listener.fromPartial({
    name,
    address: {
      address: {
        $case: "socketAddress",
        value: { address: gateway.address, portSpecifier: { $case: "portValue", value: port } },
      },
    },
    perConnectionBufferLimitBytes: CONNECTION_BUFFER_BYTES,
    filterChains: [
      {
        filters: [
          {
            name: "envoy.filters.network.http_connection_manager",
            configType: { $case: "typedConfig", value: packAny(HttpConnectionManager, manager) },
          },
        ],
        ...(certificate === undefined ? {} : { transportSocket: tlsSocket(certificate) }),
      },
    ],
  });
}

/** @param certificate name of its secret */
function tlsSocket(certificate: string) {
  const context = DownstreamTlsContext.fromPartial({
    commonTlsContext: {
      tlsParams: { tlsMinimumProtocolVersion: TlsParameters_TlsProtocol.TLSv1_2 },
      alpnProtocols: ["h2", "http/1.1"],
      tlsCertificateSdsSecretConfigs: [{ name: certificate, sdsConfig: adsSource() }],
    },
  });
  return {
    name: "envoy.transport_sockets.tls",
    configType: { $case: "typedConfig" as const, value: packAny(DownstreamTlsContext, context) },
  };
}

function connectionManager(name: string, maxRequestBytes: number, settings: ListenerSettings): HttpConnectionManager {
  return HttpConnectionManager.fromPartial({
    statPrefix: name,
    codecType: HttpConnectionManager_CodecType.AUTO,
    routeSpecifier: { $case: "scopedRoutes", value: scopedRoutes() },
    // What the outside may not say is dropped before any filter sees it.
    earlyHeaderMutationExtensions: [stripInternalHeaders()],
    useRemoteAddress: true,
    // Nobody counts as internal, or x-envoy-* and x-request-id of a client in a private network would be obeyed. An empty
    // list means Envoy's default, all private networks, so it names an address that nobody can call from.
    internalAddressConfig: { cidrRanges: [{ addressPrefix: "255.255.255.255", prefixLen: 32 }] },
    normalizePath: true,
    mergeSlashes: true,
    pathWithEscapedSlashesAction: HttpConnectionManager_PathWithEscapedSlashesAction.REJECT_REQUEST,
    generateRequestId: true,
    alwaysSetRequestIdInResponse: true,
    serverName: "servemesh",
    requestHeadersTimeout: duration(REQUEST_HEADERS_TIMEOUT_MS),
    requestTimeout: duration(REQUEST_TIMEOUT_MS),
    streamIdleTimeout: duration(STREAM_IDLE_TIMEOUT_MS),
    commonHttpProtocolOptions: { idleTimeout: duration(CONNECTION_IDLE_TIMEOUT_MS), maxHeadersCount: HEADERS_MAX },
    http2ProtocolOptions: {
      maxConcurrentStreams: CONCURRENT_STREAMS_MAX,
      initialStreamWindowSize: STREAM_WINDOW_BYTES,
      initialConnectionWindowSize: CONNECTION_WINDOW_BYTES,
    },
    httpFilters: httpFilters(maxRequestBytes, settings),
    localReplyConfig: localReplyConfig(maxRequestBytes),
    accessLog: settings.accessLogPath === undefined ? [] : [fileAccessLog(settings.accessLogPath)],
  });
}

/**
 * In this order: a body over the limit is cut off before anything buffers it; the gate judges the call as the client sent
 * it, before the transcoder renames its path; the router comes last.
 */
function httpFilters(maxRequestBytes: number, settings: ListenerSettings): HttpFilter[] {
  const bodyLimit = BodySizeLimit.fromPartial({ maxRequestBytes });
  return [
    filter("envoy.filters.http.body_size_limit", BodySizeLimit, bodyLimit),
    gateFilter(),
    filter("envoy.filters.http.grpc_json_transcoder", GrpcJsonTranscoder, transcoder(maxRequestBytes, settings)),
    filter("envoy.filters.http.router", Router, Router.fromPartial({})),
  ];
}

function filter<T>(name: string, codec: PackableCodec<T>, message: T): HttpFilter {
  return HttpFilter.fromPartial({ name, configType: { $case: "typedConfig", value: packAny(codec, message) } });
}

/** REST in, gRPC on. Bodies travel as google.api.HttpBody; only the batcher reads JSON. */
function transcoder(maxRequestBytes: number, settings: ListenerSettings): GrpcJsonTranscoder {
  return GrpcJsonTranscoder.fromPartial({
    descriptorSet: { $case: "protoDescriptorBin", value: Buffer.from(settings.transcoderDescriptor) },
    services: ["servemesh.rest.v1.RestService"],
    convertGrpcStatus: true,
    // The gate has set the route by what the client asked, so the transcoder must not match again.
    matchIncomingRequestRoute: true,
    requestValidationOptions: { rejectUnknownMethod: true },
    maxRequestBodySize: bufferLimitOf(maxRequestBytes),
    maxResponseBodySize: MAX_RESPONSE_BYTES,
  });
}

/** The first element of the gate's route key picks the model's route table, in constant time for any number of models. */
function scopedRoutes() {
  return {
    name: "models",
    scopeKeyBuilder: {
      fragments: [
        {
          type: {
            $case: "headerValueExtractor" as const,
            value: { name: H_ROUTE, elementSeparator: "/", extractType: { $case: "index" as const, value: 0 } },
          },
        },
      ],
    },
    rdsConfigSource: adsSource(),
    configSpecifier: { $case: "scopedRds" as const, value: { scopedRdsConfigSource: adsSource() } },
  };
}

function stripInternalHeaders() {
  const mutation = HeaderMutation.fromPartial({
    mutations: [
      removePrefixMutation(INTERNAL_PREFIX),
      // The transcoder's own marks, by which error replies tell REST from gRPC.
      removeMutation("x-envoy-original-method"),
      removeMutation("x-envoy-original-path"),
    ],
  });
  return { name: "envoy.http.early_header_mutation.header_mutation", typedConfig: packAny(HeaderMutation, mutation) };
}
