import { spawn } from "node:child_process";
import { createWriteStream, mkdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { SetupFailure } from "./failure.mjs";
import { root, workDir } from "./paths.mjs";

const TAIL_LINES = 25;
/** Process groups that run now, so that Ctrl-C takes them along. */
const running = new Set();

/** Ends every command that is still running, with its children. */
export function killRunning() {
  for (const child of running) {
    try {
      process.kill(-child.pid, "SIGTERM");
    } catch {
      // It ended in the meantime.
    }
  }
}

/**
 * Runs a command with its output in .setup/logs/<step>.log.
 * @param {string} step names the log
 * @param {string[]} command
 * @param {{ remedy: string, env?: Record<string, string>, cwd?: string, timeoutMs?: number, append?: boolean }} options
 * @throws {SetupFailure} with the end of the log when it fails or takes too long
 */
export async function runLogged(step, command, { remedy, env = {}, cwd = root, timeoutMs = 900_000, append = false }) {
  const logs = join(workDir, "logs");
  mkdirSync(logs, { recursive: true });
  const logPath = join(logs, `${step.replaceAll(" ", "-")}.log`);
  const log = createWriteStream(logPath, { flags: append ? "a" : "w" });
  log.write(`$ ${command.join(" ")}\n`);
  const outcome = await new Promise((resolve) => {
    // A group of its own, so that its children can be ended with it.
    const child = spawn(command[0], command.slice(1), {
      cwd,
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    running.add(child);
    child.stdout.pipe(log, { end: false });
    child.stderr.pipe(log, { end: false });
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      process.kill(-child.pid, "SIGKILL");
    }, timeoutMs);
    const settle = (result) => {
      clearTimeout(timer);
      running.delete(child);
      resolve(result);
    };
    child.on("error", (error) => settle(`cannot be started (${error.message})`));
    child.on("close", (code, signal) => {
      if (timedOut) settle(`took longer than ${timeoutMs / 1000} s`);
      else settle(code === 0 ? undefined : `failed (${signal ?? `exit code ${code}`})`);
    });
  });
  await new Promise((resolve) => log.end(resolve));
  if (outcome === undefined) return;
  const lines = readFileSync(logPath, "utf8").trimEnd().split("\n");
  throw new SetupFailure(`${command.slice(0, 3).map(shortened).join(" ")} ${outcome}`, remedy, {
    logPath: relative(root, logPath),
    logTail: lines.slice(-TAIL_LINES).join("\n"),
  });
}

function shortened(word) {
  return word.startsWith(root) ? relative(root, word) : word;
}
