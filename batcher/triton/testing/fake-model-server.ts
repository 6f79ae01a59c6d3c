import type { Clock } from "../../platform/clock.js";
import type { Tensor } from "../../request.js";
import type { ModelServer, UpstreamAnswer, UpstreamRequest } from "../model-server.js";
import { UpstreamError } from "../upstream-error.js";

/** What the fake does with one call. */
export type FakeBehaviour = (request: UpstreamRequest) => UpstreamAnswer | Promise<UpstreamAnswer>;

/**
 * A model server on virtual time: every call takes `serviceMs`, then `behaviour` answers. By default all inputs come back
 * as the outputs named in `echo` (input name to output name), row by row.
 */
export class FakeModelServer implements ModelServer {
  readonly requests: UpstreamRequest[] = [];
  loads = 0;
  isReady = true;
  serviceMs = 0;
  behaviour: FakeBehaviour = (request) => this.echoInputs(request);

  constructor(
    private readonly clock: Clock,
    private readonly echo: Readonly<Record<string, string>>,
  ) {}

  async infer(request: UpstreamRequest, deadlineAtMs: number): Promise<UpstreamAnswer> {
    if (deadlineAtMs <= this.clock.nowMs()) throw new UpstreamError("deadline", "too late");
    this.requests.push(request);
    if (this.serviceMs > 0) {
      const doneAtMs = this.clock.nowMs() + this.serviceMs;
      await new Promise<void>((resolve) => this.clock.schedule(Math.min(doneAtMs, deadlineAtMs), resolve));
      if (doneAtMs > deadlineAtMs) throw new UpstreamError("deadline", "no answer");
    }
    return this.behaviour(request);
  }

  ready(): Promise<boolean> {
    return Promise.resolve(this.isReady);
  }

  load(): Promise<void> {
    this.loads += 1;
    return Promise.resolve();
  }

  close(): void {}

  echoInputs(request: UpstreamRequest): UpstreamAnswer {
    const outputs: Tensor[] = [];
    for (const input of request.inputs) {
      const name = this.echo[input.name];
      if (name === undefined || !request.outputs.includes(name)) continue;
      outputs.push({ name, datatype: input.datatype, shape: input.shape, data: Buffer.concat(input.parts) });
    }
    return { outputs, parameters: new Map() };
  }
}
