#pragma once

#include <cstdint>
#include <string>

#include "kernels/base/dtype.hpp"

namespace millrace::kernels {

/// The instruction sets that our loops are compiled for; each includes the one before it. avx2 means AVX2 and FMA (x86-64-v3), avx512 means
/// F, BW, CD, DQ, VL (x86-64-v4).
enum class Isa : std::uint8_t { baseline, avx2, avx512 };

[[nodiscard]] std::string to_string(Isa isa);

/// What the processor under this process can do.
struct CpuFeatures {
  Isa isa = Isa::baseline;   // what the loops in kernels/cpu use
  bool avx512_bf16 = false;  // dot products of bf16 in one instruction
  bool amx_bf16 = false;     // tiles of bf16
  bool slow_bf16 = false;    // … but its rate (dot_product_rate.hpp) is below three quarters of the fp32 multiply-add's
  std::string model;         // "Intel(R) Xeon(R) Processor @ 2.80GHz"

  /// Whether bf16 matrix products are faster as bf16 than as fp32 on this processor.
  [[nodiscard]] bool fast_bf16() const noexcept { return (avx512_bf16 && !slow_bf16) || amx_bf16; }
  /// What the bits of a run depend on, of all this: "avx512", "avx512_bf16", …
  [[nodiscard]] std::string arithmetic() const;
};

/// What the processor has, whatever the environment says.
[[nodiscard]] const CpuFeatures& detected_cpu_features();

/// The same processor used at a level: "baseline", "avx2" or "avx512", none of which has bf16 instructions. Another name, and a level above
/// the processor's own, throw Error(config).
[[nodiscard]] CpuFeatures lowered(CpuFeatures features, const std::string& level);

/// What is used: what the processor has, lowered to the level that the environment variable MILLRACE_ISA names, which reproduces a lesser
/// machine's bits.
[[nodiscard]] const CpuFeatures& cpu_features();

/// The dtype in which this processor multiplies operands of `dtype`: bf16 without bf16 instructions is widened to fp32, there three times
/// as fast (AVX-512 at 2.8 GHz, one core: oneDNN fp32 110–130 GFLOP/s, bf16 33).
[[nodiscard]] DType matmul_compute_dtype(DType dtype);

/// One line for `millrace doctor` and for checkpoints: "avx512 (no bf16 instructions: bf16 matmuls run in fp32), Intel(R) …".
[[nodiscard]] std::string describe(const CpuFeatures& features);

}  // namespace millrace::kernels
