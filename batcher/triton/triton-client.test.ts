import { status } from "@grpc/grpc-js";
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../platform/clock.js";
import type { UpstreamRequest } from "./model-server.js";
import { FakeFailure, FakeTriton, STUB_DEAD_WORDS } from "./testing/fake-triton.js";
import { TritonClient } from "./triton-client.js";
import { UpstreamError } from "./upstream-error.js";

const REQUEST: UpstreamRequest = {
  inputs: [{ name: "x", datatype: "UINT8", shape: [2, 1], parts: [Buffer.from([7]), Buffer.from([8])], byteLength: 2 }],
  outputs: ["y"],
  parameters: new Map(),
};

const open: { close(): void }[] = [];
afterEach(() => {
  for (const part of open.splice(0)) part.close();
});

async function setUp(): Promise<{ triton: FakeTriton; client: TritonClient }> {
  const triton = await new FakeTriton().start();
  const client = new TritonClient(`127.0.0.1:${triton.address.port}`, "ranker", 41n, systemClock);
  open.push(client, { close: () => triton.kill() });
  return { triton, client };
}

const inMs = (ms: number): number => systemClock.nowMs() + ms;

async function failureOf(call: Promise<unknown>): Promise<UpstreamError> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(UpstreamError);
  return error as UpstreamError;
}

describe("TritonClient", () => {
  it("sends merged raw tensors and reads slices back", async () => {
    const { triton, client } = await setUp();
    const { outputs } = await client.infer(REQUEST, inMs(2000));
    expect(outputs).toEqual([{ name: "y", datatype: "UINT8", shape: [2, 1], data: Buffer.from([7, 8]) }]);
    expect(triton.requests[0]).toMatchObject({ modelName: "ranker", modelVersion: "41" });
    expect(await client.ready(inMs(2000))).toBe(true);
    await client.load(inMs(2000));
    expect(triton.loads).toBe(1);
  });

  it("sends all batches over as many streams as are in flight at once, and opens no further one", async () => {
    const { triton, client } = await setUp();
    for (let batch = 0; batch < 3; batch++) await client.infer(REQUEST, inMs(2000));
    expect([triton.openedStreams, triton.unaryCalls]).toEqual([1, 0]);
    await Promise.all([client.infer(REQUEST, inMs(2000)), client.infer(REQUEST, inMs(2000))]);
    await client.infer(REQUEST, inMs(2000));
    expect([triton.openedStreams, triton.unaryCalls, triton.requests.length]).toEqual([2, 0, 6]);
  });

  it("refuses calls without a deadline or without time (C070, C071)", async () => {
    const { triton, client } = await setUp();
    await expect(client.infer(REQUEST, Number.POSITIVE_INFINITY)).rejects.toThrow(/without a deadline/);
    expect((await failureOf(client.infer(REQUEST, inMs(0)))).kind).toBe("deadline");
    expect(triton.requests).toHaveLength(0);
  });

  it("uses calls, with the deadline passed on, for good where the server has no streams", async () => {
    const { triton, client } = await setUp();
    triton.hasStreams = false;
    await client.infer(REQUEST, inMs(1500));
    expect(triton.lastDeadlineMs - Date.now()).toBeGreaterThan(1000);
    expect(triton.lastDeadlineMs - Date.now()).toBeLessThanOrEqual(1500);
    await client.infer(REQUEST, inMs(1500));
    expect([triton.openedStreams, triton.unaryCalls]).toEqual([1, 2]);
  });

  it("keeps the stream when one request on it is refused, and asks for the status by a call", async () => {
    const { triton, client } = await setUp();
    triton.behaviour = () => {
      throw new FakeFailure(status.INVALID_ARGUMENT, "bad shape");
    };
    expect((await failureOf(client.infer(REQUEST, inMs(2000)))).kind).toBe("rejected");
    triton.behaviour = (request) => triton.echo(request);
    await client.infer(REQUEST, inMs(2000));
    expect([triton.openedStreams, triton.unaryCalls]).toEqual([1, 1]);
  });

  it.each([
    [status.UNAVAILABLE, "down", "unreachable"],
    [status.NOT_FOUND, "unknown model", "unreachable"],
    [status.INVALID_ARGUMENT, "bad shape", "rejected"],
    [status.INTERNAL, "boom", "failed"],
    [status.INTERNAL, STUB_DEAD_WORDS, "stub_dead"],
    [status.RESOURCE_EXHAUSTED, "queue", "busy"],
  ])("sorts status %s %s", async (code, details, kind) => {
    const { triton, client } = await setUp();
    triton.behaviour = () => {
      throw new FakeFailure(code, details);
    };
    expect(await failureOf(client.infer(REQUEST, inMs(2000)))).toMatchObject({ kind, message: details });
  });

  it("gives up at the deadline when the server is silent", async () => {
    const { triton, client } = await setUp();
    triton.behaviour = () => new Promise(() => {});
    expect((await failureOf(client.infer(REQUEST, inMs(100)))).kind).toBe("deadline");
    // The late answer must never reach another request, so the next one goes over another stream.
    triton.behaviour = (request) => triton.echo(request);
    await client.infer(REQUEST, inMs(2000));
    expect(triton.openedStreams).toBe(2);
  });

  it("fails calls in flight at once when the server dies, and works again on the same address (C067)", async () => {
    const { triton, client } = await setUp();
    await client.infer(REQUEST, inMs(2000));
    triton.behaviour = () => new Promise(() => {});
    const startMs = systemClock.nowMs();
    const failing = failureOf(client.infer(REQUEST, inMs(20_000)));
    await new Promise((resolve) => setTimeout(resolve, 50));
    triton.kill();
    expect((await failing).kind).toBe("unreachable");
    expect(systemClock.nowMs() - startMs).toBeLessThan(5_000);
    triton.behaviour = (request) => triton.echo(request);
    await triton.start();
    await expect
      .poll(
        () =>
          client.infer(REQUEST, inMs(1000)).then(
            ({ outputs }) => outputs.length,
            () => 0,
          ),
        { timeout: 10_000 },
      )
      .toBe(1);
  });

  it("tells a malformed answer as a failure of the server", async () => {
    const { triton, client } = await setUp();
    triton.behaviour = (request) => ({ ...triton.echo(request), rawOutputContents: [] });
    expect(await failureOf(client.infer(REQUEST, inMs(2000)))).toMatchObject({ kind: "failed" });
  });
});
