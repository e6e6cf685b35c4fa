#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops of kernels/expert_rows.hpp for one token, whose `chosen` rows of `width` elements are at `places`.
namespace millrace::kernels::cpu {

template <class T>
struct RowsOfToken {
  const T* rows;  // all of them
  const std::int32_t* places;
  std::int64_t chosen, width;
};

/// y = weight · x.
MILLRACE_CPU_KERNEL(scale_row_f32, void(const float* x, float weight, float* y, std::int64_t width));
MILLRACE_CPU_KERNEL(scale_row_bf16, void(const BFloat16* x, float weight, BFloat16* y, std::int64_t width));

/// y = the sum of the token's rows, each times its weight unless `weights` is null.
MILLRACE_CPU_KERNEL(combine_rows_f32, void(const RowsOfToken<float>& at, const float* weights, float* y));
MILLRACE_CPU_KERNEL(combine_rows_bf16, void(const RowsOfToken<BFloat16>& at, const float* weights, BFloat16* y));

/// products[k] = the product of x and the token's row k.
MILLRACE_CPU_KERNEL(row_products_f32, void(const RowsOfToken<float>& at, const float* x, float* products));
MILLRACE_CPU_KERNEL(row_products_bf16, void(const RowsOfToken<BFloat16>& at, const BFloat16* x, float* products));

}  // namespace millrace::kernels::cpu
