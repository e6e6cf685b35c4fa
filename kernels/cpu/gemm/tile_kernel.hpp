#pragma once

#include "kernels/base/cpu_features.hpp"

/// A source listed with millrace_tile_kernel() in CMake is compiled twice, with MILLRACE_TILES set to the namespace `amx` or `tile_model`:
/// for the processor's tile registers, and for their model in plain C++, which has the same bits and runs anywhere. In it `Tiles` is the
/// class with the registers (tiles.hpp). It keeps to the rules of simd/isa.hpp, defines its loops in
/// `namespace millrace::kernels::cpu::MILLRACE_TILES`, and its header declares them with
///
///   MILLRACE_TILE_KERNEL(tile_gemm, void(const TileGemm& product, std::byte* memory));
///
/// at namespace millrace::kernels::cpu; `pick_tile_gemm()` is the version for cpu_features(), which must have amx_bf16.
#define MILLRACE_TILE_KERNEL(name, ...)                                                       \
  using name##_signature = __VA_ARGS__;                                                       \
  namespace amx {                                                                             \
  name##_signature name;                                                                      \
  }                                                                                           \
  namespace tile_model {                                                                      \
  name##_signature name;                                                                      \
  }                                                                                           \
  [[nodiscard]] inline name##_signature* pick_##name() {                                      \
    return ::millrace::kernels::cpu_features().models_tiles ? &tile_model::name : &amx::name; \
  }                                                                                           \
  static_assert(true, "takes the semicolon")
