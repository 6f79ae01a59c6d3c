/** Something that keeps the mesh from running, in one sentence for people: what is wrong and what to do about it. */
export class RunError extends Error {
  override readonly name = "RunError";
}
