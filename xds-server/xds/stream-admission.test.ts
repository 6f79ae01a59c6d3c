import { status as GrpcStatus } from "@grpc/grpc-js";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../platform/manual-clock.js";
import { ADMISSION, type AdmissionSettings, StreamAdmission } from "./stream-admission.js";

/** A door for 10 streams a second, 3 at once, in front of which 5 may wait. */
class Door {
  readonly clock = new ManualClock();
  /** Names that were admitted, and reasons of those that were not, in order. */
  readonly log: string[] = [];
  readonly details: string[] = [];
  readonly codes = new Set<GrpcStatus>();
  openCount = 0;
  readonly admission: StreamAdmission;

  constructor(settings: Partial<AdmissionSettings> = {}) {
    const small = { ratePerS: 10, burst: 3, lineMax: 5, ...settings };
    this.admission = new StreamAdmission(this.clock, small, () => this.openCount);
  }

  /** @returns takes it out of the line */
  come(name: string): () => void {
    return this.admission.ask({
      admit: () => {
        this.openCount += 1;
        this.log.push(name);
      },
      refuse: ({ reason, code, details }) => {
        this.log.push(`${name} ${reason}`);
        this.codes.add(code);
        this.details.push(details);
      },
    });
  }

  comeAll(names: string): void {
    for (const name of names) this.come(name);
  }
}

describe("the door of new streams", () => {
  it("admits a burst at once, and then in order as fast as the rate", () => {
    const door = new Door();
    door.comeAll("abcdef");
    expect(door.log.join("")).toBe("abc");
    expect(door.admission.waitingCount).toBe(3);
    door.clock.advance(99);
    expect(door.log.join("")).toBe("abc");
    door.clock.advance(1);
    expect(door.log.join("")).toBe("abcd");
    door.clock.advance(100);
    expect(door.log.join("")).toBe("abcde");
    // Nobody overtakes the line, although a turn is due by now.
    door.clock.advance(99);
    door.come("g");
    door.clock.advance(101);
    expect(door.log.join("")).toBe("abcdefg");
    expect(door.admission.waitingCount).toBe(0);
    expect(door.clock.pendingTimers).toBe(0);
  });

  it("saves up turns in a quiet time, but never more than a burst", () => {
    const door = new Door();
    door.comeAll("abc");
    door.clock.advance(200);
    door.comeAll("def");
    expect(door.log.join("")).toBe("abcde");
    door.clock.advance(60_000);
    door.log.length = 0;
    door.comeAll("ghij");
    expect(door.log.join("")).toBe("ghi");
  });

  it("refuses at once who finds the line full", () => {
    const door = new Door();
    door.comeAll("abcdefghi");
    expect(door.log).toEqual(["a", "b", "c", "i storm"]);
    expect(door.details).toEqual(["too many new streams at once, 5 wait already; try again later"]);
    expect([...door.codes]).toEqual([GrpcStatus.RESOURCE_EXHAUSTED]);
  });

  it("refuses who has waited for 1 s, the longest waiting first", () => {
    const door = new Door({ ratePerS: 2, burst: 1, lineMax: 9 });
    door.comeAll("abcd");
    door.clock.advance(300);
    door.comeAll("ef");
    door.clock.advance(699);
    expect(door.log).toEqual(["a", "b"]);
    door.clock.advance(1);
    expect(door.log).toEqual(["a", "b", "c", "d storm"]);
    door.clock.advance(300);
    expect(door.log).toEqual(["a", "b", "c", "d storm", "e storm", "f storm"]);
    expect(door.details[0]).toBe("too many new streams at once, this one has waited for 1000 ms; try again later");
    expect(door.clock.pendingTimers).toBe(0);
  });

  it("gives the turn of one that left to the next, and keeps nothing of it", () => {
    const door = new Door();
    door.comeAll("abc");
    const leaveD = door.come("d");
    door.come("e");
    leaveD();
    leaveD();
    expect(door.admission.waitingCount).toBe(1);
    door.clock.advance(100);
    expect(door.log.join("")).toBe("abce");
    const leaveF = door.come("f");
    leaveF();
    expect(door.admission.waitingCount).toBe(0);
    expect(door.clock.pendingTimers).toBe(0);
    door.clock.advance(10_000);
    expect(door.log.join("")).toBe("abce");
  });

  it("refuses while as many are open as may be, also in the line", () => {
    const door = new Door({ openMax: 4 });
    door.comeAll("abcde");
    door.clock.advance(100);
    // The fourth of them leaves no room for who waits.
    expect(door.log).toEqual(["a", "b", "c", "d", "e full"]);
    door.come("f");
    expect(door.log.at(-1)).toBe("f full");
    expect(door.clock.pendingTimers).toBe(0);
    expect(new Set(door.details)).toEqual(new Set(["this control plane serves 4 streams already; try again later"]));
    door.openCount = 3;
    door.clock.advance(1_000);
    door.come("g");
    expect(door.log.at(-1)).toBe("g");
  });

  it("refuses those who wait and all others once it is closed", () => {
    const door = new Door();
    door.comeAll("abcde");
    door.admission.close();
    door.clock.advance(1_000);
    door.come("f");
    expect(door.log).toEqual(["a", "b", "c", "d closing", "e closing", "f closing"]);
    expect([...door.codes]).toEqual([GrpcStatus.UNAVAILABLE]);
    expect(door.details[0]).toBe("this control plane is stopping; keep what you have and connect again");
    expect(door.clock.pendingTimers).toBe(0);
  });

  it("takes 1,000 a second by default, and of 4,000 at once 1,000 now, 1,000 within 1 s", () => {
    const door = new Door(ADMISSION);
    for (let index = 0; index < 4_000; index += 1) door.come(String(index));
    expect(door.openCount).toBe(1_000);
    expect(door.admission.waitingCount).toBe(2_000);
    expect(door.log.filter((entry) => entry.endsWith("storm"))).toHaveLength(1_000);
    door.clock.advance(1_000);
    expect(door.openCount).toBe(2_000);
    expect(door.admission.waitingCount).toBe(0);
    expect(door.log.filter((entry) => entry.endsWith("storm"))).toHaveLength(2_000);
    const admitted = door.log.filter((entry) => !entry.endsWith("storm"));
    expect(admitted).toEqual(Array.from({ length: 2_000 }, (_, index) => String(index)));
  });

  it("cannot be made to admit nobody", () => {
    for (const wrong of [{ ratePerS: 0 }, { ratePerS: Number.NaN }, { burst: 0.5 }]) {
      expect(() => new Door(wrong)).toThrow("ratePerS must be a number above 0 and burst at least 1");
    }
  });
});
