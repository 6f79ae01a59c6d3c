import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ELEMENT_BYTES } from "../element-bytes.js";
import type { Datatype, Tensor } from "../request.js";
import { type MergedTensor, mergeTensors } from "./merge.js";
import { SplitError, splitTensors } from "./split.js";

const DATATYPES = [...Object.keys(ELEMENT_BYTES), "BYTES"] as Datatype[];

/** What travels: the parts behind each other. */
const joined = (merged: MergedTensor): Tensor => ({ ...merged, data: Buffer.concat(merged.parts) });

const bytesElement = (text: Uint8Array): Buffer => {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(text.length);
  return Buffer.concat([length, text]);
};

/** One tensor per member, all of one name, datatype and trailing shape. */
const column = (members: number[]): fc.Arbitrary<Tensor[]> =>
  fc
    .record({
      datatype: fc.constantFrom(...DATATYPES),
      trailing: fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 2 }),
      name: fc.string({ minLength: 1, maxLength: 8 }),
    })
    .chain(({ datatype, trailing, name }) => {
      const elements = trailing.reduce((product, size) => product * size, 1);
      return fc.tuple(
        ...members.map((rows) => {
          const count = rows * elements;
          const data: fc.Arbitrary<Uint8Array> =
            datatype === "BYTES"
              ? fc
                  .array(fc.uint8Array({ maxLength: 6 }), { minLength: count, maxLength: count })
                  .map((texts) => Buffer.concat(texts.map(bytesElement)))
              : fc.uint8Array({
                  minLength: count * ELEMENT_BYTES[datatype],
                  maxLength: count * ELEMENT_BYTES[datatype],
                });
          return data.map(
            (bytes): Tensor => ({ name, datatype, shape: [rows, ...trailing], data: Buffer.from(bytes) }),
          );
        }),
      );
    });

describe("merge and split", () => {
  it("split is the exact inverse of merge, for every datatype and for zero rows", () => {
    const batch = fc
      .array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 6 })
      .chain((rows) =>
        fc.tuple(
          fc.constant(rows),
          fc.uniqueArray(column(rows), { minLength: 1, maxLength: 3, selector: (c) => c[0]?.name }),
        ),
      );
    fc.assert(
      fc.property(batch, ([rows, columns]) => {
        const members = rows.map((_, index) => columns.map((tensors) => tensors[index] as Tensor));
        const back = splitTensors(mergeTensors(members).map(joined), rows);
        expect(back).toEqual(members);
      }),
      { numRuns: 300 },
    );
  });

  it("joins by name when members list their tensors in another order", () => {
    const a: Tensor = { name: "a", datatype: "UINT8", shape: [1], data: Buffer.from([1]) };
    const b: Tensor = { name: "b", datatype: "UINT8", shape: [1], data: Buffer.from([2]) };
    const merged = mergeTensors([
      [a, b],
      [b, a],
    ]);
    expect(merged.map((tensor) => [tensor.name, [...Buffer.concat(tensor.parts)]])).toEqual([
      ["a", [1, 1]],
      ["b", [2, 2]],
    ]);
  });

  it("refuses to merge what differs", () => {
    const one: Tensor = { name: "a", datatype: "UINT8", shape: [1, 1], data: Buffer.from([1]) };
    const other: Tensor = { name: "a", datatype: "UINT8", shape: [1, 2], data: Buffer.from([1, 2]) };
    expect(() => mergeTensors([[one], [other]])).toThrow(/different "a"/);
    expect(() => mergeTensors([[one], [one, { ...one, name: "b" }]])).toThrow();
  });
});

describe("splitTensors on wrong answers", () => {
  const scores = (rows: number, bytes = rows * 4): Tensor => ({
    name: "scores",
    datatype: "FP32",
    shape: [rows, 1],
    data: Buffer.alloc(bytes),
  });

  it("names the expected and the real number of rows (C041, C044)", () => {
    expect(() => splitTensors([scores(1)], [1, 1, 1, 1, 1])).toThrow('output "scores": expected 5 rows, got 1');
    expect(() => splitTensors([scores(7)], [4, 4])).toThrow("expected 8 rows, got 7");
  });

  it("refuses bytes that do not match the shape", () => {
    expect(() => splitTensors([scores(2, 7)], [1, 1])).toThrow(SplitError);
    const label: Tensor = { name: "label", datatype: "BYTES", shape: [2], data: bytesElement(Buffer.from("x")) };
    expect(() => splitTensors([label], [1, 1])).toThrow(/beyond the end/);
    expect(() => splitTensors([{ ...label, shape: [0] }], [0])).toThrow(/follow the last/);
    expect(() => splitTensors([{ ...label, shape: [] }], [1])).toThrow(/scalar/);
  });
});
