import type { PeerCertificate } from "node:tls";
import { status as GrpcStatus } from "@grpc/grpc-js";
import type { NodeIdentity } from "./node-groups.js";

const NODE_ID_MAX_CHARS = 256;

/** What the certificate of a stream's client allows. */
export type NodeVerdict = { readonly refusal: string } | NodeGrant;

export interface NodeGrant {
  /** The only group that it may belong to; absent when its labels decide. */
  readonly group?: string;
}

/** The part of a server's call that tells who is at the other end. */
export interface AuthenticatedCall {
  getAuthContext(): { readonly sslPeerCertificate?: PeerCertificate };
}

/** Judges who opened a stream by its certificate. */
export type AuthorizeNode = (call: AuthenticatedCall, node: NodeIdentity) => NodeVerdict;

/** Ends a stream with an error of another kind than a bad request. */
class StreamRefusal extends Error {
  readonly code: GrpcStatus;

  constructor(code: GrpcStatus, message: string) {
    super(message);
    this.code = code;
  }
}

/**
 * The node of a stream's first request, which counts for the stream's life.
 * @param authorize absent where connections are plain text, so on loopback
 * @throws Error when it has no id, or is not who it says
 */
export function admitNode(
  call: AuthenticatedCall,
  node: NodeIdentity | undefined,
  authorize: AuthorizeNode | undefined,
): NodeIdentity {
  if (node === undefined || node.id === "" || node.id.length > NODE_ID_MAX_CHARS) {
    throw new Error(
      `node.id is missing or longer than ${NODE_ID_MAX_CHARS} characters; start Envoy with --service-node`,
    );
  }
  const verdict = authorize?.(call, node) ?? {};
  if ("refusal" in verdict) throw new StreamRefusal(GrpcStatus.PERMISSION_DENIED, verdict.refusal);
  return verdict.group === undefined ? node : { ...node, group: verdict.group };
}

/** The status of an error that ends a stream: all that we did not expect of a client is its bad request. */
export function refusalCode(error: unknown): GrpcStatus {
  return error instanceof StreamRefusal ? error.code : GrpcStatus.INVALID_ARGUMENT;
}
