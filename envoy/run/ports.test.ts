import { createServer, type Server } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { checkPortsFree, findBasePort, listPorts, planPorts } from "./ports.js";
import { RunError } from "./run-error.js";

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
});

function occupy(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    servers.push(server);
    server.once("error", reject);
    server.listen(port, "127.0.0.1", () => resolve());
  });
}

describe("planPorts", () => {
  it("gives the well-known ports", () => {
    const plan = planPorts(2);
    expect([plan.http, plan.https, plan.envoyAdmin]).toEqual([8080, 8443, 9901]);
    expect([plan.controlPlane, plan.admin, plan.controlPlaneHealth]).toEqual([18_000, 18_001, 18_002]);
    expect(plan.replicas[1]).toEqual({
      batcher: 19_010,
      batcherHealth: 19_011,
      tritonGrpc: 19_012,
      tritonHttp: 19_013,
      tritonMetrics: 19_014,
    });
  });

  it("moves all ports with the base port and uses none twice", () => {
    const ports = listPorts(planPorts(4, 21_000)).map(({ port }) => port);
    expect(new Set(ports).size).toBe(ports.length);
    expect(Math.min(...ports)).toBe(21_000);
    expect(Math.max(...ports)).toBeLessThan(21_050);
  });

  it.each([0, 80, 1023, 65_500, 1.5, Number.NaN])("refuses base port %s, naming the flag and the range", (base) => {
    expect(() => planPorts(4, base)).toThrow(/^--base-port: .* must be a whole number from 1024 to 65486$/);
  });

  it("takes the highest base port that has room", () => {
    expect(Math.max(...listPorts(planPorts(4, 65_486)).map(({ port }) => port))).toBeLessThanOrEqual(65_535);
  });
});

describe("checkPortsFree", () => {
  it("names the taken port, what it is for and the flag", async () => {
    const base = await findBasePort(1, 24_000, 26_000);
    await expect(checkPortsFree(planPorts(1, base))).resolves.toBeUndefined();
    await occupy(base + 4);
    const refused = checkPortsFree(planPorts(1, base));
    await expect(refused).rejects.toBeInstanceOf(RunError);
    await expect(refused).rejects.toThrow(
      `port ${base + 4} (the control plane's admin interface) is taken; end what listens there, or move all ports with --base-port N`,
    );
  });
});

describe("findBasePort", () => {
  it("passes over a block with a taken port", async () => {
    const first = await findBasePort(1, 26_000, 28_000);
    await occupy(first + 11);
    expect(await findBasePort(1, first, 30_000)).toBeGreaterThan(first);
  });
});
