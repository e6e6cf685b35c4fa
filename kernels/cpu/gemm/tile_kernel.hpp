#pragma once

#include "kernels/base/cpu_features.hpp"

/// A source listed with millrace_tile_kernel() in CMake is compiled three times, with MILLRACE_TILES set to the namespace `amx`,
/// `tile_model` or `dot_products`: for the processor's tile registers; for their model in plain C++, which has the same bits and runs
/// anywhere; and for AVX-512's dot products of pairs, which have bits of their own. sum_block.hpp has what differs. The source keeps to the
/// rules of simd/isa.hpp, defines its loops in `namespace millrace::kernels::cpu::MILLRACE_TILES`, and its header declares them with
///
///   MILLRACE_TILE_KERNEL(tile_gemm, void(const TileGemm& product, std::byte* memory));
///
/// at namespace millrace::kernels::cpu; `pick_tile_gemm()` is the version for cpu_features(), which must have fast_bf16().
#define MILLRACE_TILE_KERNEL(name, ...)                                                                      \
  using name##_signature = __VA_ARGS__;                                                                      \
  namespace amx {                                                                                            \
  name##_signature name;                                                                                     \
  }                                                                                                          \
  namespace tile_model {                                                                                     \
  name##_signature name;                                                                                     \
  }                                                                                                          \
  namespace dot_products {                                                                                   \
  name##_signature name;                                                                                     \
  }                                                                                                          \
  [[nodiscard]] inline name##_signature* pick_##name() {                                                     \
    const ::millrace::kernels::CpuFeatures& features = ::millrace::kernels::cpu_features();                  \
    return features.models_tiles ? &tile_model::name : features.amx_bf16 ? &amx::name : &dot_products::name; \
  }                                                                                                          \
  static_assert(true, "takes the semicolon")
