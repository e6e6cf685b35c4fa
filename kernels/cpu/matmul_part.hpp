#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/dtype.hpp"

namespace millrace::kernels::cpu {

/// Whether products of these operands, as they are in memory, are computed in bf16 (gemm/tile_gemm_loops.hpp): bf16 where the processor
/// multiplies it faster than fp32. All others are computed in fp32 (gemm/float_gemm_loops.hpp).
[[nodiscard]] bool multiplies_in_bf16(DType operands);

/// A thread's part of a matmul: c[m, n] (+)= op(a) · op(b) with rows and columns cut out of larger matrices. The bits of a row of c do not
/// depend on m, nor those of a column on n.
struct MatmulPart {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_stride = 0;  // elements from one stored row of a to the next; likewise for b and c
  std::int64_t b_stride = 0;
  std::int64_t c_stride = 0;
  DType operands = DType::f32, result = DType::f32;  // in memory; a product in fp32 has an f32 result
  bool transpose_a = false;                          // a is stored as [k, m]
  bool transpose_b = false, accumulate = false;
  bool packed_b = false;  // b in blocks of 64 columns (kernels/packing.hpp); b_stride and transpose_b are then ignored
  bool addend = false;    // another matrix with the layout of c is added before the result is rounded
  bool bias = false;      // f32 [n], added to every row before the result is rounded; not together with addend

  [[nodiscard]] bool in_bf16() const { return multiplies_in_bf16(operands); }
};

/// Scratch of one execution, on the calling thread. It does not shrink when m grows.
[[nodiscard]] std::size_t matmul_part_scratch_bytes(const MatmulPart& part);

/// Runs on the calling thread alone. `addend` is the other matrix or the bias. `scratch` has at least the bytes returned above. `next_b`,
/// if given, is the packed operand of this thread's next product of the same part: it is fetched into the caches meanwhile.
void run_matmul_part(const MatmulPart& part, const void* a, const void* b, void* c, const void* addend, std::byte* scratch,
                     const void* next_b = nullptr);

}  // namespace millrace::kernels::cpu
