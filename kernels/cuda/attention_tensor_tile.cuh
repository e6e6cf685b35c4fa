#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "kernels/cuda/attention_tile.cuh"

/// Tiles of bf16 for tensor cores. A block is four warps, and a warp owns 16 rows of the fixed tile while the block loops over
/// tiles of columns. Lane 4·g + t holds columns 2·t and 2·t + 1 of rows g and g + 8 of a 16 x 8 tile of sums: the layout of the
/// instruction mma.m16n8k16 (PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type"). Tiles in shared memory are
/// [tokens][P] with eight numbers of padding per row.
namespace millrace::kernels::cuda {

inline constexpr int kTensorWarps = 4;
inline constexpr int kTensorThreads = kTensorWarps * 32;
inline constexpr int kTensorRows = kTensorWarps * 16;
// Probabilities and their gradients enter a product as the sum of two bf16 numbers, which keeps 16 bits of values that the
// contract computes in fp32.
inline constexpr bool kTwoParts = true;

template <int P>
constexpr int tensor_stride = P + 8;
template <int P, int B>
constexpr int tensor_tile = (P + 8) * B;

__device__ __forceinline__ int lane_row() { return static_cast<int>(threadIdx.x) % 32 / 4; }
__device__ __forceinline__ int lane_column() { return static_cast<int>(threadIdx.x) % 4 * 2; }
__device__ __forceinline__ int warp_row() { return static_cast<int>(threadIdx.x) / 32 * 16; }

#ifdef MILLRACE_EMULATED_CUDA
struct alignas(16) EightNumbers {
  std::uint32_t x[4];
};
__device__ inline void copy_ahead(__nv_bfloat16* to, const __nv_bfloat16* from, bool there) {
  *reinterpret_cast<EightNumbers*>(to) = there ? *reinterpret_cast<const EightNumbers*>(from) : EightNumbers{{0, 0, 0, 0}};
}
__device__ inline void wait_for_copies() {}
#else
/// Starts an asynchronous copy of eight numbers, or of zeros, to shared memory.
__device__ __forceinline__ void copy_ahead(__nv_bfloat16* to, const __nv_bfloat16* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
               "l"(__cvta_generic_to_global(from)), "r"(there ? 16 : 0)
               : "memory");
}
/// Waits for the copies that this thread started; a barrier of the block must follow before it reads the others' copies.
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#endif

/// Starts to load `tokens` head vectors; the rest are zeros. `vectors`: every vector starts at a multiple of 16 bytes and has a
/// multiple of eight numbers.
template <int P, int B>
__device__ void load_tensor_tile(__nv_bfloat16* tile, const __nv_bfloat16* x, std::int64_t stride, int tokens, int width, bool vectors) {
  constexpr int parts = P / 8;
  static_assert(B * parts % kTensorThreads == 0);
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < B * parts; i += kTensorThreads) {
    const int token = i / parts, d = i % parts * 8;
    __nv_bfloat16* to = tile + token * tensor_stride<P> + d;
    if (vectors) {
      const bool there = token < tokens && d < width;
      copy_ahead(to, there ? x + token * stride + d : x, there);
    } else {
      for (int e = 0; e < 8; ++e) to[e] = token < tokens && d + e < width ? x[token * stride + d + e] : __float2bfloat16_rn(0.0F);
    }
  }
}

/// Two bf16 numbers in one register, the first in the low half.
__device__ __forceinline__ std::uint32_t packed(__nv_bfloat16 first, __nv_bfloat16 second) {
  const __nv_bfloat16 both[2] = {first, second};
  std::uint32_t bits;
  memcpy(&bits, both, sizeof(bits));
  return bits;
}

/// A 16 x 16 left operand, or a 16 x 16 right operand made of two of 16 x 8: registers 0 and 1, and 2 and 3.
struct Fragment {
  std::uint32_t x[4];
};

#ifdef MILLRACE_EMULATED_CUDA

__device__ inline std::uint32_t pair_of(const __nv_bfloat16* tile, int stride, int row, int column) {
  return packed(tile[row * stride + column], tile[row * stride + column + 1]);
}
__device__ inline std::uint32_t turned_pair_of(const __nv_bfloat16* tile, int stride, int row, int column) {
  return packed(tile[row * stride + column], tile[(row + 1) * stride + column]);
}

template <int P>
__device__ Fragment load_left(const __nv_bfloat16* tile, int row, int column) {
  constexpr int stride = tensor_stride<P>;
  const int r = row + lane_row(), c = column + lane_column();
  return {
      {pair_of(tile, stride, r, c), pair_of(tile, stride, r + 8, c), pair_of(tile, stride, r, c + 8), pair_of(tile, stride, r + 8, c + 8)}};
}
template <int P>
__device__ Fragment load_right(const __nv_bfloat16* tile, int n, int k) {
  constexpr int stride = tensor_stride<P>;
  const int r = n + lane_row(), c = k + lane_column();
  return {
      {pair_of(tile, stride, r, c), pair_of(tile, stride, r, c + 8), pair_of(tile, stride, r + 8, c), pair_of(tile, stride, r + 8, c + 8)}};
}
template <int P>
__device__ Fragment load_right_turned(const __nv_bfloat16* tile, int k, int n) {
  constexpr int stride = tensor_stride<P>;
  const int r = k + lane_column(), c = n + lane_row();
  return {{turned_pair_of(tile, stride, r, c), turned_pair_of(tile, stride, r + 8, c), turned_pair_of(tile, stride, r, c + 8),
           turned_pair_of(tile, stride, r + 8, c + 8)}};
}

__device__ inline float half_of(std::uint32_t bits, int which) {
  __nv_bfloat16 both[2];
  memcpy(both, &bits, sizeof(bits));
  return load(both + which);
}
__device__ inline std::uint64_t both_of(std::uint32_t first, std::uint32_t second) { return first | std::uint64_t{second} << 32; }
__device__ inline void add_product(float (&sums)[4], const Fragment& a, std::uint32_t b0, std::uint32_t b1) {
  const int row = lane_row() * 4, column = lane_column() * 4;
  for (int lane = 0; lane < 4; ++lane) {
    const std::uint64_t rows[2] = {__shfl_sync(0xffffffffU, both_of(a.x[0], a.x[1]), row + lane),
                                   __shfl_sync(0xffffffffU, both_of(a.x[2], a.x[3]), row + lane)};
    const std::uint64_t left = __shfl_sync(0xffffffffU, both_of(b0, b1), column + lane);
    const std::uint64_t right = __shfl_sync(0xffffffffU, both_of(b0, b1), column + 4 + lane);
    for (int half = 0; half < 2; ++half)  // halves of the 16 numbers that are summed
      for (int e = 0; e < 2; ++e) {
        const float above = half_of(static_cast<std::uint32_t>(rows[half]), e),
                    below = half_of(static_cast<std::uint32_t>(rows[half] >> 32), e);
        const float x = half_of(static_cast<std::uint32_t>(left >> (32 * half)), e);
        const float y = half_of(static_cast<std::uint32_t>(right >> (32 * half)), e);
        sums[0] += above * x;
        sums[1] += above * y;
        sums[2] += below * x;
        sums[3] += below * y;
      }
  }
}

#else

template <bool Turned>
__device__ __forceinline__ Fragment load_fragment(const __nv_bfloat16* row) {
  Fragment f;
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (Turned)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f.x[0]), "=r"(f.x[1]), "=r"(f.x[2]), "=r"(f.x[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f.x[0]), "=r"(f.x[1]), "=r"(f.x[2]), "=r"(f.x[3])
                 : "r"(address)
                 : "memory");
  return f;
}

/// Left operand: rows [row, row + 16) and columns [column, column + 16) of a tile.
template <int P>
__device__ __forceinline__ Fragment load_left(const __nv_bfloat16* tile, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return load_fragment<false>(tile + (row + lane % 16) * tensor_stride<P> + column + lane / 16 * 8);
}
/// Right operand whose columns are the tile's rows [n, n + 16).
template <int P>
__device__ __forceinline__ Fragment load_right(const __nv_bfloat16* tile, int n, int k) {
  const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8;
  return load_fragment<false>(tile + (n + matrix / 2 * 8 + lane % 8) * tensor_stride<P> + k + matrix % 2 * 8);
}
/// Right operand whose rows are the tile's rows [k, k + 16).
template <int P>
__device__ __forceinline__ Fragment load_right_turned(const __nv_bfloat16* tile, int k, int n) {
  const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8;
  return load_fragment<true>(tile + (k + matrix % 2 * 8 + lane % 8) * tensor_stride<P> + n + matrix / 2 * 8);
}

__device__ __forceinline__ void add_product(float (&sums)[4], const Fragment& a, std::uint32_t b0, std::uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b0), "r"(b1));
}

#endif

/// sums[16 rows of the warp][C] = rows · columns', both tiles of head vectors.
template <int P, int C>
__device__ __forceinline__ void tensor_dot_products(const __nv_bfloat16* rows, const __nv_bfloat16* columns, float (&sums)[C / 8][4]) {
#pragma unroll
  for (int n = 0; n < C / 8; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[n][e] = 0;
#pragma unroll
  for (int k = 0; k < P; k += 16) {
    const Fragment a = load_left<P>(rows, warp_row(), k);
#pragma unroll
    for (int n = 0; n < C; n += 16) {
      const Fragment b = load_right<P>(columns, n, k);
      add_product(sums[n / 8], a, b.x[0], b.x[1]);
      add_product(sums[n / 8 + 1], a, b.x[2], b.x[3]);
    }
  }
}

/// sums[16 rows of the warp][P] += weights[the same rows][C] · columns.
template <int P, int C>
__device__ __forceinline__ void add_tensor_products(const float (&weights)[C / 8][4], const __nv_bfloat16* columns,
                                                    float (&sums)[P / 8][4]) {
#pragma unroll
  for (int k = 0; k < C; k += 16) {
    Fragment high, low;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float first = weights[k / 8 + i / 2][i % 2 * 2], second = weights[k / 8 + i / 2][i % 2 * 2 + 1];
      high.x[i] = rounded_pair(first, second);
      if constexpr (kTwoParts) low.x[i] = rounded_pair(first - rounded<__nv_bfloat16>(first), second - rounded<__nv_bfloat16>(second));
    }
#pragma unroll
    for (int n = 0; n < P; n += 16) {
      const Fragment b = load_right_turned<P>(columns, k, n);
      add_product(sums[n / 8], high, b.x[0], b.x[1]);
      add_product(sums[n / 8 + 1], high, b.x[2], b.x[3]);
      if constexpr (kTwoParts) {
        add_product(sums[n / 8], low, b.x[0], b.x[1]);
        add_product(sums[n / 8 + 1], low, b.x[2], b.x[3]);
      }
    }
  }
}

/// Writes the warp's 16 rows of sums as head vectors to memory: those of lane_row() times `above`, those eight below times
/// `below`.
template <int P>
__device__ __forceinline__ void store_tensor_rows(__nv_bfloat16* y, std::int64_t stride, int tokens, int width,
                                                  const float (&sums)[P / 8][4], float above, float below) {
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    const int token = warp_row() + lane_row() + part * 8;
    if (token >= tokens) continue;
#pragma unroll
    for (int n = 0; n < P / 8; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int d = n * 8 + lane_column() + e;
        if (d < width) store(y + token * stride + d, sums[n][part * 2 + e] * (part == 0 ? above : below));
      }
  }
}

/// Sum over the four lanes that share a row, returned to all of them.
__device__ __forceinline__ float lanes_sum(float x) {
  x += __shfl_xor_sync(0xffffffffU, x, 1);
  return x + __shfl_xor_sync(0xffffffffU, x, 2);
}
__device__ __forceinline__ float lanes_maximum(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 2));
}

/// Host: whether load_tensor_tile may take eight numbers at a time.
inline bool eight_at_a_time(const AttentionSizes& sizes, std::initializer_list<const void*> tensors) {
  bool aligned = sizes.width % 8 == 0 && sizes.value_width % 8 == 0;
  for (const void* tensor : tensors) aligned = aligned && reinterpret_cast<std::uintptr_t>(tensor) % 16 == 0;
  return aligned;
}

}  // namespace millrace::kernels::cuda
