#pragma once

#include <cstdint>
#include <string>

#include "kernels/base/dtype.hpp"

namespace millrace::kernels {

/// The instruction sets that our loops are compiled for; each includes the one before it. avx2 means AVX2 and FMA (x86-64-v3), avx512 means
/// F, BW, CD, DQ, VL (x86-64-v4).
enum class Isa : std::uint8_t { baseline, avx2, avx512 };

[[nodiscard]] std::string to_string(Isa isa);

/// Features of the processor that this process runs on.
struct CpuFeatures {
  Isa isa = Isa::baseline;    // level of the loops in kernels/cpu
  bool avx512_bf16 = false;   // dot products of bf16 in one instruction
  bool amx_bf16 = false;      // tile products of bf16
  bool models_tiles = false;  // … computed by a model of the tiles in C++ (kernels/cpu/gemm/tile_model.hpp), with the same bits
  bool slow_bf16 = false;     // … but their rate (dot_product_rate.hpp) is below three quarters of the fp32 multiply-add's
  std::string model;          // "Intel(R) Xeon(R) Processor @ 2.80GHz"

  /// Whether bf16 matrix products are faster in bf16 than in fp32 on this processor.
  [[nodiscard]] bool fast_bf16() const noexcept { return (avx512_bf16 && !slow_bf16) || amx_bf16; }
  /// The part of the features that a run's bits depend on: "avx512", "avx512_bf16", …
  [[nodiscard]] std::string arithmetic() const;
};

/// Features of the processor, without regard to the environment.
[[nodiscard]] const CpuFeatures& detected_cpu_features();

/// The features lowered to a level: "baseline", "avx2" or "avx512", none of which has bf16 instructions; or "amx_model", which keeps the
/// processor's loops and computes bf16 products as the tiles of AMX do, slowly, on any processor. Throws Error(config) for another name
/// or a level above the processor's own.
[[nodiscard]] CpuFeatures lowered(CpuFeatures features, const std::string& level);

/// The features in use: the processor's, lowered to the level in the environment variable MILLRACE_ISA, which reproduces the bits
/// of a lesser machine.
[[nodiscard]] const CpuFeatures& cpu_features();

/// The dtype in which this processor multiplies operands of `dtype`: bf16 is widened to fp32 unless the processor multiplies it faster.
[[nodiscard]] DType matmul_compute_dtype(DType dtype);

/// One line for `millrace doctor` and for checkpoints: "avx512 (no bf16 instructions: bf16 matmuls run in fp32), Intel(R) …".
[[nodiscard]] std::string describe(const CpuFeatures& features);

}  // namespace millrace::kernels
