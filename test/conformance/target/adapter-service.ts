import { join } from "node:path";
import { type Server, type ServerUnaryCall, type ServiceDefinition, type sendUnaryData, status } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { repositoryRoot } from "@servemesh/envoy";
import type { Clock } from "@servemesh/xds-server";
import { AdapterRefusal } from "./adapter-refusal.js";
import type { Snapshot } from "./forced-snapshot.js";
import { type ResourceChange, TargetState } from "./target-state.js";

/**
 * The suite unsubscribes on a stream and at once, on another connection, updates what it unsubscribed from. Nothing orders
 * the two, so the update waits until what was sent before it must have been read.
 */
const UPDATE_DELAY_MS = 150;

export interface AdapterDeps {
  readonly clock: Pick<Clock, "schedule">;
  /** Makes a state the one that is served. */
  publish(snapshot: Snapshot): void;
}

/** Messages as proto-loader gives them, by `adapter.proto`. */
interface StateMessage {
  readonly node: string;
  readonly version: string;
  readonly resources: readonly { readonly type_url: string; readonly value: Buffer }[];
}

interface ChangeMessage {
  readonly node: string;
  readonly type_url: string;
  readonly resource_name: string;
  readonly version: string;
}

const DONE = { success: true };

/** Adds the service by which a conformance suite sets the state. A change is live when its call is answered. */
export function addAdapter(server: Server, { clock, publish }: AdapterDeps): void {
  const state = new TargetState();
  const change = <Request, Answer>(run: (request: Request) => Answer | Promise<Answer>) =>
    unary<Request, Answer>(async (request) => {
      const answer = await run(request);
      publish(state.snapshot());
      return answer;
    });
  server.addService(adapterDefinition(), {
    SetState: change(({ node, version, resources }: StateMessage) => {
      const given = resources.map(({ type_url: typeUrl, value }) => ({ typeUrl, value }));
      state.replace(node, version, given);
      return DONE;
    }),
    UpdateResource: change(async (message: ChangeMessage) => {
      await new Promise<void>((resolve) => clock.schedule(UPDATE_DELAY_MS, resolve));
      state.update(changeOf(message));
      return DONE;
    }),
    AddResource: change((message: ChangeMessage) => {
      state.add(changeOf(message));
      return DONE;
    }),
    RemoveResource: change((message: ChangeMessage) => {
      state.remove(changeOf(message));
      return DONE;
    }),
    ClearState: change(({ node }: { readonly node: string }) => ({
      response: state.clear(node) ? `cleared the state of ${node}` : `there was no state for "${node}"`,
    })),
  });
}

function changeOf({ node, type_url, resource_name, version }: ChangeMessage): ResourceChange {
  return { node, typeUrl: type_url, name: resource_name, version };
}

function unary<Request, Answer>(run: (request: Request) => Promise<Answer>) {
  return (call: ServerUnaryCall<Request, Answer>, answer: sendUnaryData<Answer>): void => {
    run(call.request).then(
      (result) => answer(null, result),
      (error: unknown) => {
        const details = error instanceof Error ? error.message : String(error);
        answer({ code: error instanceof AdapterRefusal ? error.code : status.INTERNAL, details });
      },
    );
  };
}

function adapterDefinition(): ServiceDefinition {
  const file = join(repositoryRoot, "test/conformance/target/adapter.proto");
  return loadSync(file, { keepCase: true, defaults: true })["adapter.Adapter"] as ServiceDefinition;
}
