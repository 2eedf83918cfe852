/* VECTOR_LOOP before a loop says that its arrays do not overlap (they are different columns), so
 * that gcc makes it vector instructions. VECTOR_PASS before a function keeps its loop on its own
 * (inlined into its caller gcc loses that knowledge) and makes further versions of it for
 * processors with AVX2 and AVX-512, chosen when the program starts. The build compiles this folder
 * with -O3 -fno-math-errno -fno-trapping-math for the same reason.
 *
 * Absent   nothing that changes results: no -ffast-math, no fused multiply-add; all versions give
 *          the same bits. Sanitizers get one version, as they cannot run before the choice is made.
 */
#ifndef CKPT_EVAL_VECTOR_H
#define CKPT_EVAL_VECTOR_H

#if defined(__GNUC__) && !defined(__clang__)
#define VECTOR_LOOP _Pragma("GCC ivdep")
#else
#define VECTOR_LOOP
#endif

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__OPTIMIZE__) &&    \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VECTOR_PASS __attribute__((noinline, target_clones("avx512f", "avx2", "default")))
#else
#define VECTOR_PASS __attribute__((noinline))
#endif

#endif
