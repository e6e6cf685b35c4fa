#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/cpu_features.hpp"
#include "kernels/base/dtype.hpp"

namespace millrace::kernels::cpu {

/// Whether products of these operands, as they are in memory, are computed by tile registers (gemm/tile_gemm_loops.hpp): in bf16 where the
/// processor has AMX.
[[nodiscard]] bool multiplies_by_tiles(DType operands);
/// Whether they are computed in fp32 (gemm/float_gemm_loops.hpp): fp32, and bf16 where the processor multiplies it no faster.
[[nodiscard]] bool multiplies_in_float(DType operands);

/// A thread's part of a matmul: c[m, n] (+)= a · op(b) with rows and columns cut out of larger matrices.
struct MatmulPart {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_stride = 0;  // elements from one stored row of a to the next; likewise for b and c
  std::int64_t b_stride = 0;
  std::int64_t c_stride = 0;
  DType operands = DType::f32, result = DType::f32;  // in memory; a product in fp32 has an f32 result
  bool transpose_a = false;                          // a is stored as [k, m]; not for oneDNN
  bool transpose_b = false, accumulate = false;
  bool packed_b = false;     // b in blocks of 64 columns (kernels/packing.hpp); b_stride and transpose_b are then ignored
  bool addend = false;       // another matrix with the layout of c is added before the result is rounded
  bool bias = false;         // f32 [n], added to every row before the result is rounded; not together with addend
  bool own_scratch = false;  // oneDNN allocates: for a runtime size that needs more scratch than its capacity
  friend bool operator==(const MatmulPart&, const MatmulPart&) = default;

  [[nodiscard]] bool by_tiles() const { return multiplies_by_tiles(operands); }
  [[nodiscard]] bool in_float() const { return multiplies_in_float(operands); }
  /// Whether loops of our own compute it. The bits of a row of c then do not depend on m, and those of a column not on n; and a may be
  /// transposed. oneDNN computes what is left: bf16 where the processor has instructions for it that are not AMX.
  [[nodiscard]] bool by_our_loops() const { return by_tiles() || in_float(); }
};

/// The instruction set that oneDNN compiles for: that of cpu_features(), unless ONEDNN_MAX_CPU_ISA lowers it further.
[[nodiscard]] Isa matmul_isa();

/// Scratch of one execution, on the calling thread.
[[nodiscard]] std::size_t matmul_part_scratch_bytes(const MatmulPart& part);

/// Runs on the calling thread alone. `addend` is the other matrix or the bias. `scratch` has at least the bytes returned above,
/// or part.own_scratch is set. `next_b`, if given, is the packed operand of this thread's next product of the same part: our loops fetch it
/// into the caches meanwhile.
void run_matmul_part(const MatmulPart& part, const void* a, const void* b, void* c, const void* addend, std::byte* scratch,
                     const void* next_b = nullptr);

}  // namespace millrace::kernels::cpu
