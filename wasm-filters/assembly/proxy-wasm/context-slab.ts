/*
 * What a filter remembers of each stream: records of one fixed size, found by context id. Records come from a free list,
 * ids from an open-addressing table, so creating, finding and dropping a stream takes constant time with any number of
 * live streams, and nothing is an object of the garbage collector. Memory grows to the most streams ever live at once.
 */

const FIRST_SLOTS: u32 = 1024;
/** In front of each record: u32 id, u32 next free record. */
const HEAD_BYTES: usize = 8;

@unmanaged
export class ContextSlab {
  private recordBytes: usize = 0;
  private table: usize = 0;
  private slots: u32 = 0;
  private firstFree: usize = 0;
  /** Streams that have a record. */
  live: u32 = 0;

  /** Records of `bytes` bytes; call once, before any other method. */
  init(bytes: usize): void {
    this.recordBytes = (bytes + 7) & ~7;
    this.slots = FIRST_SLOTS;
    this.table = emptyTable(FIRST_SLOTS);
  }

  /** The stream's record, or 0: streams without one are normal, for example when Envoy answered before the filter. */
  find(id: u32): usize {
    const head = load<usize>(this.slotOf(id));
    return head === 0 ? 0 : head + HEAD_BYTES;
  }

  /** A record of zeros for the stream; a record that it already has is cleared and used again. */
  create(id: u32): usize {
    let record = this.find(id);
    if (record === 0) {
      if (this.live * 2 >= this.slots) this.grow();
      const head = this.takeFree();
      store<u32>(head, id);
      store<usize>(this.slotOf(id), head);
      this.live++;
      record = head + HEAD_BYTES;
    }
    memory.fill(record, 0, this.recordBytes);
    return record;
  }

  /** Forgets the stream; absent is fine. */
  drop(id: u32): void {
    const slot = this.slotOf(id);
    const head = load<usize>(slot);
    if (head === 0) return;
    store<usize>(head, this.firstFree, 4);
    this.firstFree = head;
    this.live--;
    this.closeGap(slot);
  }

  /** Address of the slot that holds the id, or of the empty slot where it belongs. */
  private slotOf(id: u32): usize {
    const mask = this.slots - 1;
    let index = hash(id) & mask;
    while (true) {
      const slot = this.table + (<usize>index << 2);
      const head = load<usize>(slot);
      if (head === 0 || load<u32>(head) === id) return slot;
      index = (index + 1) & mask;
    }
  }

  private takeFree(): usize {
    const head = this.firstFree;
    if (head === 0) return heap.alloc(HEAD_BYTES + this.recordBytes);
    this.firstFree = load<usize>(head, 4);
    return head;
  }

  /** Moves later entries of the same run up, so that no probe ends early at the emptied slot. */
  private closeGap(slot: usize): void {
    const mask = this.slots - 1;
    let gap = <u32>((slot - this.table) >> 2);
    store<usize>(slot, 0);
    for (let index = (gap + 1) & mask; ; index = (index + 1) & mask) {
      const head = load<usize>(this.table + (<usize>index << 2));
      if (head === 0) return;
      const home = hash(load<u32>(head)) & mask;
      // The entry may move to the gap when the gap lies between its home and where it is, going around.
      if (((index - home) & mask) >= ((index - gap) & mask)) {
        store<usize>(this.table + (<usize>gap << 2), head);
        store<usize>(this.table + (<usize>index << 2), 0);
        gap = index;
      }
    }
  }

  private grow(): void {
    const oldTable = this.table;
    const oldSlots = this.slots;
    this.slots = oldSlots * 2;
    this.table = emptyTable(this.slots);
    for (let index: u32 = 0; index < oldSlots; index++) {
      const head = load<usize>(oldTable + (<usize>index << 2));
      if (head !== 0) store<usize>(this.slotOf(load<u32>(head)), head);
    }
    heap.free(oldTable);
  }
}

function emptyTable(slots: u32): usize {
  const table = heap.alloc(<usize>slots << 2);
  memory.fill(table, 0, <usize>slots << 2);
  return table;
}

/** Context ids count up, so a multiplication by 2^32 / golden ratio spreads them. */
@inline
function hash(id: u32): u32 {
  return id * 0x9e3779b1;
}
