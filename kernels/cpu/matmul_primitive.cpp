#include "kernels/cpu/matmul_primitive.hpp"

#include <array>
#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "kernels/base/check.hpp"
#include "kernels/base/cpu_features.hpp"
#include "kernels/base/thread_team.hpp"
#include "kernels/cpu/gemm/float_gemm_loops.hpp"
#include "kernels/cpu/gemm/tile_gemm_loops.hpp"
#include "kernels/cpu/packing.hpp"

namespace millrace::kernels::cpu {
namespace {

using dnnl::memory;

struct Hash {
  std::size_t operator()(const MatmulPart& part) const noexcept {
    std::size_t hash = 0;
    for (const std::int64_t field : {part.m, part.n, part.k, part.a_stride, part.b_stride, part.c_stride})
      hash = hash * 0x9e3779b97f4a7c15ULL + static_cast<std::size_t>(field);
    const int flags = (part.transpose_b ? 2 : 0) | (part.accumulate ? 4 : 0) | (part.own_scratch ? 8 : 0) | (part.packed_b ? 4096 : 0) |
                      (part.addend ? 8192 : 0) | (part.bias ? 16384 : 0) | static_cast<int>(part.operands) << 4 |
                      static_cast<int>(part.result) << 8;
    return hash * 0x9e3779b97f4a7c15ULL + static_cast<std::size_t>(flags);
  }
};

/// A compiled primitive with the memory objects whose addresses change from call to call.
struct Compiled {
  dnnl::matmul primitive;
  memory a, b, c, addend, scratch;
  std::size_t scratch_bytes = 0;
};

dnnl::engine& engine() {
  static dnnl::engine engine = [] {
    // A lowered instruction set applies to oneDNN too. The call fails only if oneDNN has already compiled something.
    const CpuFeatures& features = cpu_features();
    if (features.isa == Isa::baseline) (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_sse41);
    if (features.isa == Isa::avx2) (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);
    if (features.isa == Isa::avx512 && !features.avx512_bf16 && !features.amx_bf16) (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core);
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

memory::data_type data_type(DType dtype) { return dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32; }

Compiled compile(const MatmulPart& part) {
  const auto operand = [&](std::int64_t rows, std::int64_t columns, std::int64_t stride, bool transpose) {
    return memory::desc({rows, columns}, data_type(part.operands), transpose ? memory::dims{1, stride} : memory::dims{stride, 1});
  };
  const auto a = operand(part.m, part.k, part.a_stride, false);
  const auto blocks = part.operands == DType::bf16 ? memory::format_tag::BA16a64b2a : memory::format_tag::BA16a64b;
  const auto b = part.packed_b ? memory::desc({part.k, part.n}, data_type(part.operands), blocks)
                               : operand(part.k, part.n, part.b_stride, part.transpose_b);
  const memory::desc c({part.m, part.n}, data_type(part.result), memory::dims{part.c_stride, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(part.own_scratch ? dnnl::scratchpad_mode::library : dnnl::scratchpad_mode::user);
  dnnl::post_ops after;
  if (part.accumulate) after.append_sum(1.0F);
  if (part.addend) after.append_binary(dnnl::algorithm::binary_add, c);
  attributes.set_post_ops(after);
  const memory::desc bias({1, part.n}, memory::data_type::f32, memory::format_tag::ab);
  const dnnl::matmul::primitive_desc description(part.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c), attributes,
                                                 engine());
  const auto scratch = description.scratchpad_desc();
  return {dnnl::matmul(description),
          memory(a, engine(), nullptr),
          memory(b, engine(), nullptr),
          memory(c, engine(), nullptr),
          memory(part.bias ? bias : c, engine(), nullptr),
          memory(scratch, engine(), nullptr),
          scratch.get_size()};
}

/// Primitives that a thread has compiled. Lookups take no lock; the cache is emptied before a run with ever new sizes could let
/// it grow without limit.
struct ThreadCache {
  dnnl::stream stream{engine()};
  std::unordered_map<MatmulPart, Compiled, Hash> compiled;

  Compiled& get(const MatmulPart& part) {
    if (const auto found = compiled.find(part); found != compiled.end()) return found->second;
    if (compiled.size() >= 2048) compiled.clear();
    try {
      return compiled.emplace(part, compile(part)).first->second;
    } catch (const dnnl::error& error) {
      fail(ExitCode::internal, "kernels.matmul", "oneDNN has no {} matmul {} x {} x {} (it says \"{}\")", to_string(part.operands), part.m,
           part.k, part.n, error.what());
    }
  }
};

ThreadCache& cache() {
  // The thread count is part of what oneDNN compiles, so it must be one before the first call.
  keep_openmp_to_one_thread();
  thread_local ThreadCache cache;
  return cache;
}

}  // namespace

Isa matmul_isa() {
  (void)engine();
  const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
  // oneDNN's values are bit sets, each of which includes those of the level before.
  const auto has = [isa](dnnl_cpu_isa_t level) { return (isa & level) == level; };
  return has(dnnl_cpu_isa_avx512_core) ? Isa::avx512 : has(dnnl_cpu_isa_avx2) ? Isa::avx2 : Isa::baseline;
}

bool multiplies_by_tiles(DType operands) { return operands == DType::bf16 && cpu_features().amx_bf16; }

bool multiplies_in_float(DType operands) { return matmul_compute_dtype(operands) == DType::f32; }

namespace {

/// Whether tiles pack b part by part, in the memory that they have anyway.
bool packs_parts(const MatmulPart& part) {
  return !part.packed_b && !part.transpose_b && part.result == DType::f32 && !part.addend && !part.bias;
}

void run_tiles(const MatmulPart& part, const void* a, const void* b, void* c, const void* addend, std::byte* scratch, const void* next_b) {
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

std::size_t matmul_part_scratch_bytes(const MatmulPart& part) {
  if (part.by_tiles()) return kTileGemmBytes + (part.packed_b || packs_parts(part) ? 0 : packed_bytes(part.k, part.n, DType::bf16));
  if (part.in_float()) return static_cast<std::size_t>(float_gemm_floats(part.m)) * sizeof(float);
  return cache().get(part).scratch_bytes;
}

void run_matmul_part(const MatmulPart& part, const void* a, const void* b, void* c, const void* addend, std::byte* scratch,
                     const void* next_b) {
  if (part.by_our_loops())
    MILLRACE_CHECK(!part.own_scratch, ExitCode::internal, "kernels.matmul", "a product needs more scratch than was planned");
  if (part.by_tiles()) return run_tiles(part, a, b, c, addend, scratch, next_b);
  if (part.in_float()) return run_in_float(part, a, b, c, addend, scratch, next_b);
  ThreadCache& own = cache();
  Compiled& compiled = own.get(part);
  compiled.a.set_data_handle(const_cast<void*>(a));
  compiled.b.set_data_handle(const_cast<void*>(b));
  compiled.c.set_data_handle(c);
  compiled.addend.set_data_handle(const_cast<void*>(addend));
  if (compiled.scratch_bytes > 0) compiled.scratch.set_data_handle(scratch);
  // The C interface, because its argument list needs no allocation.
  std::array<dnnl_exec_arg_t, 5> arguments{
      {{DNNL_ARG_SRC, compiled.a.get()}, {DNNL_ARG_WEIGHTS, compiled.b.get()}, {DNNL_ARG_DST, compiled.c.get()}}};
  int count = 3;
  const auto add = [&](int kind, const memory& value) { arguments[static_cast<std::size_t>(count++)] = {kind, value.get()}; };
  if (compiled.scratch_bytes > 0) add(DNNL_ARG_SCRATCHPAD, compiled.scratch);
  if (part.bias) add(DNNL_ARG_BIAS, compiled.addend);
  if (part.addend) add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, compiled.addend);
  const dnnl_status_t status = dnnl_primitive_execute(compiled.primitive.get(), own.stream.get(), count, arguments.data());
  MILLRACE_CHECK(status == dnnl_success, ExitCode::internal, "kernels.matmul", "oneDNN failed with status {}", static_cast<int>(status));
}

}  // namespace millrace::kernels::cpu
