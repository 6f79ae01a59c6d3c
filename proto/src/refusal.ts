/** Machine-readable reason of a refusal, sent as `x-servemesh-reason`; the same words as the REASON_ constants of names.ts. */
export type Reason = keyof typeof REFUSAL_STATUS;

/** DESIGN §3: every refusal has a gRPC status with an HTTP twin. */
export const REFUSAL_STATUS = {
  unauthenticated: { grpc: 16, http: 401 },
  forbidden: { grpc: 7, http: 403 },
  model_not_found: { grpc: 5, http: 404 },
  path_not_found: { grpc: 5, http: 404 },
  method_not_allowed: { grpc: 12, http: 405 },
  unsupported_media_type: { grpc: 3, http: 415 },
  bad_input: { grpc: 3, http: 400 },
  too_large: { grpc: 8, http: 413 },
  quota: { grpc: 8, http: 429 },
  overloaded: { grpc: 8, http: 429 },
  deadline: { grpc: 4, http: 504 },
  draining: { grpc: 14, http: 503 },
  unavailable: { grpc: 14, http: 503 },
  internal: { grpc: 13, http: 500 },
} as const;
