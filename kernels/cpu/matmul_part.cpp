#include "kernels/cpu/matmul_part.hpp"

#include "kernels/base/check.hpp"
#include "kernels/base/cpu_features.hpp"
#include "kernels/cpu/gemm/float_gemm_loops.hpp"
#include "kernels/cpu/gemm/tile_gemm_loops.hpp"
#include "kernels/cpu/packing.hpp"

namespace millrace::kernels::cpu {
namespace {

/// Whether b is packed part by part, in the memory that a product in bf16 has anyway.
bool packs_parts(const MatmulPart& part) {
  return !part.packed_b && !part.transpose_b && part.result == DType::f32 && !part.addend && !part.bias;
}

void run_in_bf16(const MatmulPart& part, const void* a, const void* b, void* c, const void* addend, std::byte* scratch,
                 const void* next_b) {
  const bool narrow = part.result == DType::bf16;
  if (!part.packed_b && !packs_parts(part)) {
    const PackedMatrix matrix{.data = static_cast<const std::byte*>(b),
                              .dtype = DType::bf16,
                              .transpose = part.transpose_b,
                              .rows = part.k,
                              .columns = part.n,
                              .step = part.b_stride,
                              .soon = true};
    pack_blocks(matrix, scratch + kTileGemmBytes, 0, matrix.blocks());
    b = scratch + kTileGemmBytes;
  }
  const bool wide_addend = part.bias || (part.addend && !narrow);
  pick_tile_gemm()({.m = part.m,
                    .n = part.n,
                    .k = part.k,
                    .a = static_cast<const BFloat16*>(a),
                    .a_step = part.a_stride,
                    .transpose_a = part.transpose_a,
                    .b = static_cast<const BFloat16*>(b),
                    .b_step = packs_parts(part) ? part.b_stride : 0,
                    .next_b = static_cast<const BFloat16*>(next_b),
                    .wide = narrow ? nullptr : static_cast<float*>(c),
                    .narrow = narrow ? static_cast<BFloat16*>(c) : nullptr,
                    .c_step = part.c_stride,
                    .accumulate = part.accumulate,
                    .wide_addend = wide_addend ? static_cast<const float*>(addend) : nullptr,
                    .narrow_addend = part.addend && narrow ? static_cast<const BFloat16*>(addend) : nullptr,
                    .addend_step = part.bias ? 0 : part.c_stride},
                   scratch);
}

void run_in_float(const MatmulPart& part, const void* a, const void* b, void* c, const void* addend, std::byte* scratch,
                  const void* next_b) {
  MILLRACE_CHECK(part.result == DType::f32, ExitCode::internal, "kernels.matmul", "a product in fp32 has a result in {}",
                 to_string(part.result));
  pick_float_gemm()(
      {.m = part.m,
       .n = part.n,
       .k = part.k,
       .a = {a, part.operands, part.a_stride, part.transpose_a},
       .b = part.packed_b ? FloatOperand{b, DType::f32, 0, false} : FloatOperand{b, part.operands, part.b_stride, part.transpose_b},
       .next_b = static_cast<const float*>(next_b),
       .c = static_cast<float*>(c),
       .c_step = part.c_stride,
       .accumulate = part.accumulate,
       .addend = part.addend || part.bias ? static_cast<const float*>(addend) : nullptr,
       .addend_step = part.bias ? 0 : part.c_stride},
      reinterpret_cast<float*>(scratch));
}

}  // namespace

bool multiplies_in_bf16(DType operands) { return matmul_compute_dtype(operands) == DType::bf16; }

std::size_t matmul_part_scratch_bytes(const MatmulPart& part) {
  if (!part.in_bf16()) return static_cast<std::size_t>(float_gemm_floats(part.m)) * sizeof(float);
  return kTileGemmBytes + (part.packed_b || packs_parts(part) ? 0 : packed_bytes(part.k, part.n, DType::bf16));
}

void run_matmul_part(const MatmulPart& part, const void* a, const void* b, void* c, const void* addend, std::byte* scratch,
                     const void* next_b) {
  const auto run = part.in_bf16() ? run_in_bf16 : run_in_float;
  run(part, a, b, c, addend, scratch, next_b);
}

}  // namespace millrace::kernels::cpu
