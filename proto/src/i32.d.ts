/** AssemblyScript's 32-bit integer, so that `names.ts` compiles for both languages. */
declare type i32 = number;
