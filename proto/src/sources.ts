import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * Folder of this package. Compiled code lies two levels deeper (dist/src) than package.json, the source one (src), so the
 * depth is not assumed but looked for.
 */
function packageDir(): string {
  let dir = dirname(fileURLToPath(import.meta.url));
  while (!hasManifest(dir)) {
    const parent = dirname(dir);
    if (parent === dir) throw new Error("the folder of @servemesh/proto was not found; is its package.json missing?");
    dir = parent;
  }
  return dir;
}

function hasManifest(dir: string): boolean {
  try {
    return JSON.parse(readFileSync(join(dir, "package.json"), "utf8")).name === "@servemesh/proto";
  } catch {
    return false;
  }
}

/** Absolute include path of our .proto sources, for `@grpc/proto-loader` (`includeDirs: [protoRoot]`). */
export const protoRoot: string = packageDir();

/** Sources by their import path, to load with `includeDirs: [protoRoot]`. */
export const PROTO_FILES = {
  inference: "inference/grpc_service.proto",
  registry: "servemesh/registry/v1/registry.proto",
  admin: "servemesh/control/v1/admin.proto",
  replica: "servemesh/control/v1/replica.proto",
  rest: "servemesh/rest/v1/rest.proto",
  journal: "servemesh/journal/v1/journal.proto",
} as const;

/** FileDescriptorSet of servemesh.rest.v1.RestService with all imports, for Envoy's transcoder. Built by the set-up. */
export const restDescriptorPath: string = join(protoRoot, "descriptors", "rest.binpb");

/** FileDescriptorSet of all our contracts with imports. Built by the set-up. */
export const meshDescriptorPath: string = join(protoRoot, "descriptors", "mesh.binpb");
