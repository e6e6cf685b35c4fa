#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

namespace millrace::kernels::cpu {

/// A matrix in memory, in fp32 or bf16. bf16 is widened where it is copied.
struct FloatOperand {
  const void* data;
  DType dtype;
  std::int64_t step;  // elements from one stored row to the next
  bool transpose;     // rows in memory are columns of the operand
};

/// c [m, n] = a [m, k] · b [k, n] + addend, multiplied and added in fp32. Sizes are positive.
struct FloatGemm {
  std::int64_t m, n, k;
  FloatOperand a;
  FloatOperand b;       // step 0: packed in fp32 (kernels/packing.hpp)
  const float* next_b;  // the packed operand of the next product, which has the same k and n: fetched meanwhile; or null
  float* c;
  std::int64_t c_step;
  bool accumulate;           // c += instead
  const float* addend;       // or null
  std::int64_t addend_step;  // 0: a row that is added to every row
};

/// Largest number of rows of a that are copied at a time, and floats of the copies of 14 of them and of a panel of b.
inline constexpr std::int64_t kFloatRows = 378, kFloatPanelOfA = 16 * 528, kFloatPanelOfB = 32 * 512;

/// Floats of the memory that a product of m rows needs, aligned to 64 bytes. They do not shrink when m grows.
[[nodiscard]] inline std::int64_t float_gemm_floats(std::int64_t m) {
  return kFloatPanelOfB + ((m < kFloatRows ? m : kFloatRows) + 13) / 14 * kFloatPanelOfA;
}

/// An element of c is summed in parts of the depth, of 512 with AVX-512 and of 256 otherwise. A part is one chain of multiply-adds from
/// zero, in order; parts are added in order, to c if accumulated, and the addend after the first. So its bits depend on its row of a, its
/// column of b, what is added to it and the instruction set: not on m and n, nor on its place.
MILLRACE_CPU_KERNEL(float_gemm, void(const FloatGemm& product, float* memory));

}  // namespace millrace::kernels::cpu
