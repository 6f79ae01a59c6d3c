/** Role of an Envoy that takes calls of the mesh's clients. */
export const ROLE_GATEWAY = "gateway";
/** Role of an Envoy that stands beside one application and takes its calls on loopback. */
export const ROLE_SIDECAR = "sidecar";

/** True for an IP address that only the machine itself can reach. */
export function isLoopback(address: string): boolean {
  return address === "::1" || address.startsWith("127.");
}
