import type { Command } from "commander";
import type { AdminClient } from "../admin/admin-client.js";

/** An answer in both forms. */
export interface Answer {
  /** proto3 JSON. */
  readonly json: unknown;
  /** For people; ends with a line break. */
  readonly text: string;
}

/** Asks the control plane that a command's flags name, and prints the answer. */
export type Ask = (
  command: Command,
  question: (client: AdminClient, address: string) => Promise<Answer>,
) => Promise<void>;
