/** Environment variable that all processes of one run carry, so that they can be found and ended together. */
export const RUN_MARK = "SERVEMESH_RUN";

/** How the names of a run's shared memory begin in /dev/shm. */
export function sharedMemoryPrefix(mark: string): string {
  return `servemesh-${mark.slice(0, 13)}`;
}
