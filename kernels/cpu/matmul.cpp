#include "kernels/cpu/matmul.hpp"

#include <algorithm>
#include <utility>

#include "kernels/base/buffer.hpp"
#include "kernels/base/cpu_features.hpp"
#include "kernels/base/operands.hpp"
#include "kernels/cpu/aligned_scratch.hpp"
#include "kernels/cpu/elementwise_loops.hpp"
#include "kernels/cpu/matmul_part.hpp"
#include "kernels/cpu/packing.hpp"
#include "kernels/cpu/thread_range.hpp"
#include "kernels/cpu/transposed_gemm.hpp"
#include "kernels/packing.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr const char* component = "kernels.matmul";
/// Number of rows that a thread multiplies and rounds at a time, so that the product stays in its L2 cache.
constexpr std::int64_t kRoundedRows = 256;

/// The whole product, before it is divided among threads.
struct Problem {
  std::int64_t m, n, k;
  DType operands, result;  // dtypes in memory
  MatmulOptions options;

  [[nodiscard]] bool in_bf16() const { return multiplies_in_bf16(operands); }
  /// Whether the product is computed in fp32 and rounded afterwards.
  [[nodiscard]] bool narrows() const { return !in_bf16() && result != DType::f32; }
  /// Whether b is packed by all threads together.
  [[nodiscard]] bool packs_b() const { return in_bf16() && !options.packed_b; }
  /// Whether products read b in blocks of 64 columns.
  [[nodiscard]] bool reads_packed() const { return options.packed_b || in_bf16(); }
  /// Few rows (the head during generation) would leave other threads idle, so then the columns are cut. A product in fp32 copies a
  /// thread's columns of b unless they are packed, which pays off if there are more rows.
  [[nodiscard]] bool by_rows(int threads) const {
    if (!in_bf16() && !options.packed_b && n > m) return false;
    return m >= kShareGrain * threads || m >= n;
  }

  /// Whether each thread multiplies and rounds some rows at a time.
  [[nodiscard]] bool in_blocks(int threads) const { return narrows() && by_rows(threads); }
  /// Maximum number of rows that a thread processes at a time.
  [[nodiscard]] std::int64_t block_rows(int threads) const {
    if (!in_blocks(threads)) return m;
    const std::int64_t grains = (m + kShareGrain - 1) / kShareGrain;
    return std::min(kRoundedRows, (grains + threads - 1) / threads * kShareGrain);
  }
  /// The product as a weight gradient, which is computed in parts.
  [[nodiscard]] TransposedGemm turned() const { return {m, n, k, operands, options.accumulate}; }
  [[nodiscard]] bool is_turned(int threads) const {
    return options.transpose_a && !options.transpose_b && !options.packed_b && !options.addend && result == DType::f32 &&
           turned().suits(threads);
  }

  [[nodiscard]] std::pair<IndexRange, IndexRange> cut(int thread, int threads) const {
    const IndexRange all_rows{0, m}, all_columns{0, n};
    if (by_rows(threads)) return {thread_range(m, kShareGrain, thread, threads), all_columns};
    return {all_rows, thread_range(n, reads_packed() ? kPackedColumns : kShareGrain, thread, threads)};
  }

  [[nodiscard]] MatmulPart part(IndexRange rows, IndexRange columns) const {
    return {.m = rows.size(),
            .n = columns.size(),
            .k = k,
            .a_stride = options.transpose_a ? m : k,
            .b_stride = reads_packed()        ? 0
                        : options.transpose_b ? k
                                              : n,
            .c_stride = n,
            .operands = operands,
            .result = narrows() ? DType::f32 : result,
            .transpose_a = options.transpose_a,
            .transpose_b = options.transpose_b && !reads_packed(),
            .accumulate = options.accumulate,
            .packed_b = reads_packed(),
            .addend = options.addend && !options.bias && !narrows(),
            .bias = options.bias && !narrows()};
  }
};

/// Layout of the scratch: the packed b; the product before it is rounded (in block mode for each thread, one after the other); then the
/// scratch of each thread's products.
struct Layout {
  std::size_t b = 0, c = 0, threads = 0;

  Layout(const Problem& problem, int team) {
    const std::int64_t rows = problem.in_blocks(team) ? problem.block_rows(team) * team : problem.m;
    c = b + (problem.packs_b() ? align_up(packed_bytes(problem.k, problem.n, problem.operands)) : 0);
    threads = c + (problem.narrows() ? align_up(static_cast<std::size_t>(rows * problem.n) * sizeof(float)) : 0);
  }
};

/// Bytes of scratch that the products of each of `threads` threads need. In block mode for as many rows as a block may have, so that fewer
/// rows in all, which may be cut into larger blocks, need no more.
std::size_t scratch_of_thread(const Problem& problem, int threads) {
  std::size_t largest = 0;
  for (int thread = 0; thread < threads; ++thread) {
    const auto [rows, columns] = problem.cut(thread, threads);
    const IndexRange block{0, std::min(rows.size(), problem.block_rows(threads))};
    if (block.size() > 0 && columns.size() > 0)
      largest = std::max(largest, align_up(matmul_part_scratch_bytes(problem.part(block, columns))));
  }
  return largest;
}

std::size_t scratch_of(const Problem& problem, int threads) {
  if (problem.m == 0 || problem.n == 0 || problem.k == 0) return 0;
  if (problem.is_turned(threads)) return kAlignment + problem.turned().scratch_bytes(threads);
  return kAlignment + Layout(problem, threads).threads + scratch_of_thread(problem, threads) * static_cast<std::size_t>(threads);
}

Problem describe(const Shape& a, const Shape& b, DType operands, DType result, MatmulOptions options) {
  return {a[options.transpose_a ? 1 : 0], b[options.transpose_b ? 0 : 1], a[options.transpose_a ? 0 : 1], operands, result, options};
}

/// Packs b, on all threads.
void pack_b(const ExecutionContext& context, const Problem& problem, const Tensor& b, std::byte* packed) {
  const bool transpose = problem.options.transpose_b;
  const PackedMatrix matrix{.data = b.data,
                            .dtype = b.dtype,
                            .transpose = transpose,
                            .rows = problem.k,
                            .columns = problem.n,
                            .step = transpose ? problem.k : problem.n,
                            .soon = true};
  context.team().run([&](int thread, int threads) {
    const IndexRange blocks = thread_range(matrix.blocks(), 1, thread, threads);
    pack_blocks(matrix, packed, blocks.begin, blocks.end);
  });
}

/// Writes rows and columns of c from `wide`, whose first row is the first of `rows`.
void narrow_result(const Problem& problem, const float* wide, const Tensor* addend, const Tensor& c, IndexRange rows, IndexRange columns) {
  const std::int64_t first = rows.begin * problem.n;
  if (problem.options.bias) {
    for (std::int64_t row = 0; row < rows.size(); ++row)
      pick_narrow_wide_sum()(wide + row * problem.n, addend->as<float>(), c.as<BFloat16>() + first + row * problem.n, columns.begin,
                             columns.end);
    return;
  }
  const auto narrow = [&](std::int64_t begin, std::int64_t end) {
    if (addend == nullptr)
      pick_narrow()(wide, c.as<BFloat16>() + first, begin, end);
    else
      pick_narrow_sum()(wide, addend->as<BFloat16>() + first, c.as<BFloat16>() + first, begin, end);
  };
  if (columns.size() == problem.n) return narrow(0, rows.size() * problem.n);
  for (std::int64_t row = 0; row < rows.size(); ++row) narrow(row * problem.n + columns.begin, row * problem.n + columns.end);
}

/// Writes the bias to every row of c: a product over an empty depth.
void copy_bias(const Problem& problem, const Tensor& bias, const Tensor& c) {
  for (std::int64_t row = 0; row < problem.m; ++row) {
    if (problem.result == DType::bf16)
      pick_narrow()(bias.as<float>(), c.as<BFloat16>() + row * problem.n, 0, problem.n);
    else
      std::copy_n(bias.as<float>(), problem.n, c.as<float>() + row * problem.n);
  }
}

/// Offset in the left operand where the rows from `first` on begin, in elements.
std::int64_t place_of_rows(const MatmulPart& part, std::int64_t first) { return part.transpose_a ? first : first * part.a_stride; }

/// Computes some rows of c, in blocks of `block_rows` that one thread multiplies into `wide` and rounds.
void multiply_blocks(const Problem& problem, IndexRange rows, std::int64_t block_rows, float* wide, const Tensor& a, const std::byte* b,
                     const Tensor& c, const Tensor* addend, std::byte* scratch) {
  const IndexRange columns{0, problem.n};
  for_parts(rows, block_rows, [&](IndexRange block) {
    const MatmulPart part = problem.part(block, columns);
    run_matmul_part(part, a.as<BFloat16>() + place_of_rows(part, block.begin), b, wide, nullptr, scratch);
    narrow_result(problem, wide, addend, c, block, columns);
  });
}

/// Offset in the right operand where the columns from `first` on begin, in elements.
std::int64_t place_of_columns(const Problem& problem, std::int64_t first) {
  if (problem.reads_packed()) return packed_place(problem.k, 0, first, packed_dtype(problem.operands));
  return first * (problem.options.transpose_b ? problem.k : 1);
}

}  // namespace

std::size_t matmul_scratch_bytes(const Shape& a, const Shape& b, DType operands, DType result, MatmulOptions options, int threads) {
  Problem problem = describe(a, b, operands, result, options);
  std::size_t bytes = scratch_of(problem, threads);
  // A smaller count needs more where the threads share the product in another way, which Problem::by_rows() decides.
  if (a.bounded() && !options.transpose_a) {
    const std::int64_t capacity = problem.m;
    for (const std::int64_t least : {kShareGrain * threads, problem.n}) {
      problem.m = std::min(capacity, least - 1);
      bytes = std::max(bytes, scratch_of(problem, threads));
    }
  }
  return bytes;
}

const char* matmul_path(DType operands) {
  if (multiplies_in_bf16(operands)) {
    const CpuFeatures& features = cpu_features();
    return features.models_tiles ? "a model of tile registers" : features.amx_bf16 ? "tile registers (AMX)" : "dot products (AVX-512)";
  }
  return "our own loops in fp32";
}

void matmul(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& c, MatmulOptions options, Scratch scratch,
            const Tensor* addend) {
  const Problem problem = describe(a.shape, b.shape, a.dtype, c.dtype, options);
  if (problem.m == 0 || problem.n == 0) return;
  if (problem.k == 0) {
    if (options.bias)
      copy_bias(problem, *addend, c);
    else if (addend != nullptr)
      std::copy_n(addend->data, c.bytes(), c.data);
    else if (!options.accumulate)
      std::fill_n(c.data, c.bytes(), std::byte{0});
    return;
  }
  const Layout layout(problem, context.threads());
  std::byte* base = aligned_begin(scratch);
  if (problem.is_turned(context.threads())) return problem.turned().run(context, a, b, c, {base, scratch.data() + scratch.size()});
  const std::size_t own_bytes = scratch_of_thread(problem, context.threads());
  check_scratch(component, scratch, kAlignment + layout.threads + own_bytes * static_cast<std::size_t>(context.threads()));
  if (problem.packs_b()) pack_b(context, problem, b, base + layout.b);
  const std::byte* right = problem.packs_b() ? base + layout.b : b.data;
  std::byte* product = problem.narrows() ? base + layout.c : c.data;

  context.team().run([&](int thread, int threads) {
    const auto [rows, columns] = problem.cut(thread, threads);
    if (rows.size() == 0 || columns.size() == 0) return;
    std::byte* const own = base + layout.threads + static_cast<std::size_t>(thread) * own_bytes;
    if (problem.in_blocks(threads)) {
      float* const wide = reinterpret_cast<float*>(base + layout.c) + thread * problem.block_rows(threads) * problem.n;
      return multiply_blocks(problem, rows, problem.block_rows(threads), wide, a, right, c, addend, own);
    }
    const MatmulPart part = problem.part(rows, columns);
    const auto size_of_a = static_cast<std::int64_t>(size_of(part.operands)),
               size_of_b = static_cast<std::int64_t>(size_of(problem.reads_packed() ? packed_dtype(part.operands) : part.operands)),
               result_size = static_cast<std::int64_t>(size_of(part.result));
    const std::int64_t from_a = place_of_rows(part, rows.begin);
    const std::int64_t from_b = place_of_columns(problem, columns.begin);
    const std::int64_t from_c = rows.begin * problem.n + columns.begin;
    run_matmul_part(part, a.data + from_a * size_of_a, right + from_b * size_of_b, product + from_c * result_size,
                    part.bias     ? addend->data + columns.begin * static_cast<std::int64_t>(sizeof(float))
                    : part.addend ? addend->data + from_c * result_size
                                  : nullptr,
                    own);
    if (problem.narrows())
      narrow_result(problem, reinterpret_cast<const float*>(product) + rows.begin * problem.n, addend, c, rows, columns);
  });
}

namespace {

std::size_t planned_bytes(const Shape& a, const Shape& b, DType operands, DType result, MatmulOptions options, const Processor& processor) {
  return matmul_scratch_bytes(a, b, operands, result, options, processor.threads);
}

const InTable in_table[] = {
    {Backend::cpu, table::matmul, matmul},
    {Backend::cpu, table::matmul_scratch_bytes, planned_bytes},
};

}  // namespace
}  // namespace millrace::kernels::cpu
