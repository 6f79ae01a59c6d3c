import { describe, expect, it } from "vitest";
import { ManualClock } from "../platform/manual-clock.js";
import { NodeBook, type ObservedStream } from "./csds-node-book.js";

const stream = (nodeId: string): ObservedStream => ({
  node: { nodeId, rejections: [] },
  status: () => [],
  inspect: () => [],
});

describe("NodeBook", () => {
  it("lists open streams by node id, then by time", () => {
    const clock = new ManualClock();
    const book = new NodeBook(clock);
    const [b, a1, a2] = [stream("b"), stream("a"), stream("a")];
    for (const one of [b, a1, a2]) {
      book.began(one);
      clock.advance(10);
    }
    expect(book.nodes().map((node) => node.stream)).toEqual([a1, a2, b]);
    expect(book.nodes()[0]?.connectedAtMs).toBe(clock.wallMs() - 20);
    book.ended(a1);
    expect(book.nodes().map((node) => node.stream)).toEqual([a2, b]);
  });

  it("keeps the count of refusals over streams, and the latest of them", () => {
    const clock = new ManualClock();
    const book = new NodeBook(clock);
    const first = stream("a");
    book.began(first);
    for (let index = 1; index <= 25; index += 1) {
      clock.advance(1);
      book.refused(
        first,
        "T",
        Array.from({ length: 30 }, (_, name) => `${name}`),
        `words ${index}`,
      );
    }
    book.ended(first);
    const second = stream("a");
    book.began(second);
    const [node] = book.nodes();
    expect([node?.nackCount, node?.nacks.length, node?.nacks[0]?.names.length]).toEqual([25, 20, 20]);
    expect(node?.nacks.map(({ words }) => words).slice(0, 2)).toEqual(["words 25", "words 24"]);
    expect(node?.nacks[0]?.atMs).toBe(clock.wallMs());
  });

  it("forgets the node that was heard of longest ago when there are too many", () => {
    const book = new NodeBook(new ManualClock());
    const [old, busy] = [stream("old"), stream("busy")];
    book.began(old);
    book.began(busy);
    book.refused(old, "T", ["x"], "no");
    book.refused(busy, "T", ["x"], "no");
    for (let index = 0; index < 4_095; index += 1) book.refused(stream(`made-up-${index}`), "T", ["x"], "no");
    expect(book.nodes().map(({ nodeId, nackCount }) => [nodeId, nackCount])).toEqual([
      ["busy", 1],
      ["old", 0],
    ]);
  });
});
