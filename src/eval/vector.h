/* VECTOR_LOOP before a loop says that its arrays do not overlap (they are different columns), so that gcc makes it
 * vector instructions. The build compiles this folder with -O3 -fno-math-errno -fno-trapping-math for the same
 * reason.
 *
 * Absent   nothing that changes results: no -ffast-math, no fused multiply-add.
 */
#ifndef CKPT_EVAL_VECTOR_H
#define CKPT_EVAL_VECTOR_H

#if defined(__GNUC__) && !defined(__clang__)
#define VECTOR_LOOP _Pragma("GCC ivdep")
#else
#define VECTOR_LOOP
#endif

#endif
