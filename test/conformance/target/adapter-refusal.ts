import type { status } from "@grpc/grpc-js";

/** A request of the suite that cannot be done; becomes the status of its answer. */
export class AdapterRefusal extends Error {
  readonly code: status;

  constructor(code: status, message: string) {
    super(message);
    this.code = code;
  }
}
