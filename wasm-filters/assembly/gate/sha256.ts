/** SHA-256 of FIPS 180-4 without allocation. */

const ROUND_CONSTANTS: StaticArray<u32> = [
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
  0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
  0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
  0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
  0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
  0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
  0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
  0xc67178f2,
];
const BLOCK_BYTES: u32 = 64;
const LENGTH_BYTES: u32 = 8;
/** The message schedule, 64 words. */
const schedule: usize = memory.data(256);
/** The last block or two, with padding. */
const tail: usize = memory.data(128);
const state: usize = memory.data(32);

/** Writes the digest of `length` bytes to `digest` (32 bytes). */
export function sha256(message: usize, length: u32, digest: usize): void {
  store<u32>(state, 0x6a09e667);
  store<u32>(state, 0xbb67ae85, 4);
  store<u32>(state, 0x3c6ef372, 8);
  store<u32>(state, 0xa54ff53a, 12);
  store<u32>(state, 0x510e527f, 16);
  store<u32>(state, 0x9b05688c, 20);
  store<u32>(state, 0x1f83d9ab, 24);
  store<u32>(state, 0x5be0cd19, 28);
  let offset: u32 = 0;
  for (; length - offset >= BLOCK_BYTES; offset += BLOCK_BYTES) compress(message + offset);
  const rest = length - offset;
  memory.fill(tail, 0, BLOCK_BYTES * 2);
  memory.copy(tail, message + offset, rest);
  store<u8>(tail + rest, 0x80);
  const tailBytes = rest + 1 + LENGTH_BYTES <= BLOCK_BYTES ? BLOCK_BYTES : BLOCK_BYTES * 2;
  store<u64>(tail + tailBytes - LENGTH_BYTES, bswap<u64>((<u64>length) << 3));
  compress(tail);
  if (tailBytes > BLOCK_BYTES) compress(tail + BLOCK_BYTES);
  for (let word: usize = 0; word < 32; word += 4) store<u32>(digest + word, bswap<u32>(load<u32>(state + word)));
}

function compress(block: usize): void {
  const words = schedule;
  for (let index: usize = 0; index < 64; index += 4) store<u32>(words + index, bswap<u32>(load<u32>(block + index)));
  for (let index: usize = 64; index < 256; index += 4) {
    const before15 = load<u32>(words + index - 60);
    const before2 = load<u32>(words + index - 8);
    const s0 = rotr<u32>(before15, 7) ^ rotr<u32>(before15, 18) ^ (before15 >>> 3);
    const s1 = rotr<u32>(before2, 17) ^ rotr<u32>(before2, 19) ^ (before2 >>> 10);
    store<u32>(words + index, load<u32>(words + index - 64) + s0 + load<u32>(words + index - 28) + s1);
  }
  const constants = changetype<usize>(ROUND_CONSTANTS);
  let a = load<u32>(state);
  let b = load<u32>(state, 4);
  let c = load<u32>(state, 8);
  let d = load<u32>(state, 12);
  let e = load<u32>(state, 16);
  let f = load<u32>(state, 20);
  let g = load<u32>(state, 24);
  let h = load<u32>(state, 28);
  for (let index: usize = 0; index < 256; index += 4) {
    const s1 = rotr<u32>(e, 6) ^ rotr<u32>(e, 11) ^ rotr<u32>(e, 25);
    const t1 = h + s1 + ((e & f) ^ (~e & g)) + load<u32>(constants + index) + load<u32>(words + index);
    const s0 = rotr<u32>(a, 2) ^ rotr<u32>(a, 13) ^ rotr<u32>(a, 22);
    const t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  store<u32>(state, load<u32>(state) + a);
  store<u32>(state, load<u32>(state, 4) + b, 4);
  store<u32>(state, load<u32>(state, 8) + c, 8);
  store<u32>(state, load<u32>(state, 12) + d, 12);
  store<u32>(state, load<u32>(state, 16) + e, 16);
  store<u32>(state, load<u32>(state, 20) + f, 20);
  store<u32>(state, load<u32>(state, 24) + g, 24);
  store<u32>(state, load<u32>(state, 28) + h, 28);
}
