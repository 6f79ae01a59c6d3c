import type { Clock } from "../platform/clock.js";
import type { Finding } from "../registry/state.js";
import type { ResourceType } from "../snapshot/resource-types.js";
import type { Snapshot } from "../snapshot/snapshot.js";
import { GroupDelivery } from "./group-delivery.js";
import { groupOf, type NodeGroup, type NodeIdentity } from "./node-groups.js";

/** A group of Envoys and what they shall hold. */
export interface GroupState {
  readonly group: NodeGroup;
  readonly snapshot: Snapshot;
}

/** One open stream, as the groups see it. */
export interface Member {
  /** Undefined until the stream's first request. */
  readonly identity: NodeIdentity | undefined;
  /** Undefined for an Envoy that fits no group. */
  delivery: GroupDelivery | undefined;
  /** Whether the Envoy asked for a type on this stream; true once it took all that it was given of it. */
  progressOf(typeUrl: ResourceType): "unasked" | "open" | "taken";
}

/**
 * Which Envoy belongs to which group, and when what one of them tried goes to the rest. Envoys that fit no group get
 * nothing, and one whose group is gone keeps what it has.
 */
export class GroupDeliveries<M extends Member> {
  readonly #clock: Pick<Clock, "nowMs" | "schedule">;
  readonly #members: ReadonlySet<M>;
  readonly #retarget: (members: Iterable<M>) => void;
  #groups: readonly NodeGroup[] = [];
  #deliveries: ReadonlyMap<string, GroupDelivery> = new Map();
  /** The one group of a mesh that has no others. */
  #everybody: GroupDelivery | undefined;
  #cancelTimer: () => void = () => undefined;

  /**
   * @param members all open streams
   * @param retarget called for streams whose target may be another one now
   */
  constructor(
    clock: Pick<Clock, "nowMs" | "schedule">,
    members: ReadonlySet<M>,
    retarget: (members: Iterable<M>) => void,
  ) {
    this.#clock = clock;
    this.#members = members;
    this.#retarget = retarget;
  }

  /** All groups in force. */
  get all(): readonly GroupDelivery[] {
    return this.#everybody === undefined ? [...this.#deliveries.values()] : [this.#everybody];
  }

  /** One state for all Envoys, whoever they are, and for all at once. */
  publishToAll(snapshot: Snapshot): void {
    this.#everybody ??= new GroupDelivery("", () => undefined);
    this.#everybody.publish(snapshot, this.#clock.nowMs());
    for (const member of this.#members) this.assign(member);
    this.#retarget(this.#members);
  }

  publish(states: readonly GroupState[]): void {
    const before = this.#deliveries;
    this.#everybody = undefined;
    this.#groups = states.map(({ group }) => group);
    this.#deliveries = new Map(
      states.map(({ group: { name } }) => [name, before.get(name) ?? this.#deliveryNamed(name)]),
    );
    for (const member of this.#members) this.assign(member);
    const nowMs = this.#clock.nowMs();
    for (const { group, snapshot } of states) {
      const delivery = this.#deliveries.get(group.name);
      if (delivery === undefined || delivery.latest === snapshot) continue;
      delivery.publish(snapshot, nowMs);
    }
    this.#retarget(this.#members);
    this.#rearm();
  }

  /** Puts a stream into its group. */
  assign(member: M): void {
    const { identity } = member;
    if (identity === undefined) return;
    const name = groupOf(identity, this.#groups);
    member.delivery = this.#everybody ?? (name === undefined ? undefined : this.#deliveries.get(name));
  }

  /** An Envoy that holds nothing yet opened a stream. */
  started(member: M): void {
    this.#tell(member, (delivery, nodeId) => delivery.started(nodeId, this.#clock.nowMs()));
  }

  /** Something was heard on a stream: what its Envoy tries for others may be accepted now. */
  heard(member: M): void {
    const { delivery, identity } = member;
    if (delivery?.deadlineMs === undefined || identity === undefined) return;
    for (const type of delivery.triedBy(identity.id)) {
      if (this.#hasTaken(delivery, identity.id, type)) {
        this.#tell(member, (group, nodeId) => group.accepted(nodeId, type));
      }
    }
  }

  refused(member: M, typeUrl: string, names: readonly string[], words: string): void {
    this.#tell(member, (delivery, nodeId) => delivery.refused(nodeId, typeUrl, names, words));
  }

  /** A stream ended and is no member any more. */
  ended(member: M): void {
    if (member.identity === undefined || member.delivery?.involves(member.identity.id) !== true) return;
    const isThere = [...this.#members].some((other) => isOf(other, member.delivery, member.identity?.id));
    if (!isThere) this.#tell(member, (delivery, nodeId) => delivery.left(nodeId, this.#clock.nowMs()));
  }

  /** What groups hold back, and Envoys that belong to none. */
  findings(): Finding[] {
    if (this.#everybody !== undefined) return [];
    const strangers = new Map(
      [...this.#members].flatMap(({ identity, delivery }) =>
        identity === undefined || delivery !== undefined ? [] : [[identity.id, identity] as const],
      ),
    );
    return [...this.all.flatMap((delivery) => delivery.findings()), ...[...strangers.values()].map(strangerFinding)];
  }

  #deliveryNamed(name: string): GroupDelivery {
    return new GroupDelivery(name, (typeUrl) => {
      for (const member of this.#members) {
        if (member.delivery?.name === name && member.progressOf(typeUrl) !== "unasked") return member.identity?.id;
      }
      return undefined;
    });
  }

  #hasTaken(delivery: GroupDelivery, nodeId: string, type: ResourceType): boolean {
    const progress = [...this.#members]
      .filter((member) => isOf(member, delivery, nodeId))
      .map((member) => member.progressOf(type));
    return progress.includes("taken") && !progress.includes("open");
  }

  #tell(member: M, event: (delivery: GroupDelivery, nodeId: string) => void): void {
    const { delivery, identity } = member;
    if (delivery === undefined || identity === undefined) return;
    const before = delivery.revision;
    event(delivery, identity.id);
    if (delivery.revision !== before) this.#announce(delivery);
  }

  #announce(delivery: GroupDelivery): void {
    this.#retarget([...this.#members].filter((member) => member.delivery === delivery));
    this.#rearm();
  }

  #rearm(): void {
    this.#cancelTimer();
    const deadlines = this.all.flatMap(({ deadlineMs }) => deadlineMs ?? []);
    if (deadlines.length === 0) return;
    const nowMs = this.#clock.nowMs();
    this.#cancelTimer = this.#clock.schedule(Math.max(1, Math.min(...deadlines) - nowMs), () => this.#expire());
  }

  #expire(): void {
    const nowMs = this.#clock.nowMs();
    for (const delivery of this.all) {
      if (delivery.deadlineMs === undefined || delivery.deadlineMs > nowMs) continue;
      delivery.expire(nowMs);
      this.#announce(delivery);
    }
    this.#rearm();
  }
}

function isOf(member: Member, delivery: GroupDelivery | undefined, nodeId: string | undefined): boolean {
  return member.delivery === delivery && member.identity?.id === nodeId;
}

function strangerFinding({ id, role, labels }: NodeIdentity): Finding {
  const said = [...labels].map(([key, value]) => `${key}=${value}`).join(", ");
  return {
    severity: "warning",
    subject: id,
    message: `this Envoy (role "${role}"${said === "" ? "" : `, labels ${said}`}) fits no gateway record, so it is told nothing; start it with --service-cluster gateway or sidecar, and put a record with labels that it carries`,
  };
}
