#pragma once

#include <cstdint>

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"

/// Products by a warpgroup whose left operand is in registers, and what attention needs beside them.
namespace millrace::kernels::cuda::hopper {

/// The left operand of one product, 64 rows of 16 terms: lane 4·g + t of warp w holds terms 2·t and 2·t + 1 of row 16·w + g, of row
/// 16·w + g + 8, and the same of terms 8 further ("Register fragments" of wgmma, matrix A). A pair is one register, the first in the low
/// half.
struct LeftFragment {
  std::uint32_t pairs[4];
};

/// Columns 16·slice to 16·slice + 15 of sums [64][N], rounded, as the left operand of a product over these columns.
template <int Count>
__device__ __forceinline__ LeftFragment fragment_of(const float (&sums)[Count], int slice) {
  const int i = slice * 8;
  return {{rounded_pair(sums[i], sums[i + 1]), rounded_pair(sums[i + 2], sums[i + 3]), rounded_pair(sums[i + 4], sums[i + 5]),
           rounded_pair(sums[i + 6], sums[i + 7])}};
}

#ifdef MILLRACE_EMULATED_CUDA

template <Major Right, int Count>
void multiply(float (&sums)[Count], const LeftFragment& left, std::uint64_t right, bool accumulate) {
  const auto of_lane = left_of_lane(left.pairs);
  issue([&sums, of_lane, right, accumulate] { add_terms<Right == Major::mn, 2 * Count>(sums, of_lane.rows, right, accumulate); });
}

#else

/// Keeps the compiler from moving uses of these registers to before this place, where products have been waited for.
template <int Count>
__device__ __forceinline__ void settle(float (&sums)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

#define MILLRACE_FOUR_SUMS(i) "+f"(sums[i]), "+f"(sums[(i) + 1]), "+f"(sums[(i) + 2]), "+f"(sums[(i) + 3])
#define MILLRACE_SUMS(i) MILLRACE_FOUR_SUMS(i), MILLRACE_FOUR_SUMS((i) + 4), MILLRACE_FOUR_SUMS((i) + 8), MILLRACE_FOUR_SUMS((i) + 12)

/// sums[64][64] (+)= left · right for 16 terms.
template <Major Right>
__device__ __forceinline__ void multiply(float (&sums)[32], const LeftFragment& left, std::uint64_t right, bool accumulate) {
  asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, %36, accumulate, 1, 1, %38;\n}\n"
      : MILLRACE_SUMS(0), MILLRACE_SUMS(16)
      : "r"(left.pairs[0]), "r"(left.pairs[1]), "r"(left.pairs[2]), "r"(left.pairs[3]), "l"(right), "r"(accumulate ? 1 : 0),
        "n"(Right == Major::mn ? 1 : 0));
}

/// sums[64][128] (+)= left · right for 16 terms.
template <Major Right>
__device__ __forceinline__ void multiply(float (&sums)[64], const LeftFragment& left, std::uint64_t right, bool accumulate) {
  asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, {%64, %65, %66, %67}, %68, accumulate, 1, 1, %70;\n}\n"
      : MILLRACE_SUMS(0), MILLRACE_SUMS(16), MILLRACE_SUMS(32), MILLRACE_SUMS(48)
      : "r"(left.pairs[0]), "r"(left.pairs[1]), "r"(left.pairs[2]), "r"(left.pairs[3]), "l"(right), "r"(accumulate ? 1 : 0),
        "n"(Right == Major::mn ? 1 : 0));
}

#undef MILLRACE_SUMS
#undef MILLRACE_FOUR_SUMS

/// Starts a copy of contiguous bytes, a multiple of 16, to shared memory, both aligned to 16 bytes. 9.7.9.25, "cp.async.bulk".
__device__ __forceinline__ void copy_bytes(std::uint32_t to, const void* from, int bytes, std::uint64_t* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

/// 2 to the power x, with an error of two units in the last place.
__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#endif

}  // namespace millrace::kernels::cuda::hopper
