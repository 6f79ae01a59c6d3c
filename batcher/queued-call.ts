import type { BatchMember } from "./batch/batch-runner.js";
import type { QueueItem } from "./queue/batch-queue.js";

/** A request as queue and batch see it. */
export type QueuedCall = QueueItem & BatchMember;
