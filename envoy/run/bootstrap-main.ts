#!/usr/bin/env node
import { CommanderError } from "commander";
import { runBootstrapCommand } from "./bootstrap-command.js";

try {
  process.stdout.write(runBootstrapCommand(process.argv.slice(2)));
} catch (error) {
  // Commander has printed its line already; --help is no failure.
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2;
  else {
    process.stderr.write(`servemesh-bootstrap: ${(error as Error).message}\n`);
    process.exitCode = 1;
  }
}
