#include "kernels/grouped_matmul.hpp"

#include <algorithm>
#include <atomic>

#include "kernels/base/buffer.hpp"
#include "kernels/base/operands.hpp"
#include "kernels/cpu/aligned_scratch.hpp"
#include "kernels/cpu/bias_loops.hpp"
#include "kernels/cpu/elementwise_loops.hpp"
#include "kernels/cpu/gemm/float_gemm_loops.hpp"
#include "kernels/cpu/gemm/tile_gemm_loops.hpp"
#include "kernels/cpu/matmul_part.hpp"
#include "kernels/cpu/thread_range.hpp"
#include "kernels/packing.hpp"

namespace millrace::kernels::cpu {
namespace {

std::size_t bytes_of(std::int64_t elements, DType dtype) { return static_cast<std::size_t>(elements) * size_of(dtype); }

/// The scratch of thread `thread`, of `bytes` for each.
std::byte* scratch_of_thread(const char* component, const ExecutionContext& context, Scratch scratch, std::size_t bytes, int thread) {
  check_scratch(component, scratch, kAlignment + bytes * static_cast<std::size_t>(context.threads()));
  return aligned_begin(scratch) + bytes * static_cast<std::size_t>(thread);
}

/// Calls body(item) for items 0, 1, … until it returns false. Threads take an item when they are done with the one before, which balances
/// groups of very different sizes. An item must have the same bits whichever thread computes it.
template <class Body>
void take_in_turn(std::atomic<std::int64_t>& next, Body&& body) {
  while (body(next.fetch_add(1, std::memory_order_relaxed))) {
  }
}

// -- c[r] = a[r] · op(b[e]) -----------------------------------------------------------------------------------------------------

/// Largest number of columns that a thread computes at a time for all rows of a group, if the product copies b[e]:
/// each column is then copied once for the whole group.
constexpr std::int64_t kGroupColumns = 128;
/// Rows of a group that a thread multiplies at a time otherwise, in fp32.
constexpr std::int64_t kGroupRows = 128;

/// A product without its number of rows, on which no bits depend: nothing is padded, and all rows of a group are multiplied at once if
/// nothing is packed or rounded.
struct Problem {
  std::int64_t n, k, tile = 0;
  DType operands, result;  // dtypes in memory
  GroupedMatmulOptions options;

  Problem(const Shape& a, const Shape& b, DType operands_, DType result_, const GroupedMatmulOptions& options_)
      : n(b[options_.transpose_b ? 1 : 2]), k(a[1]), operands(operands_), result(result_), options(options_) {
    tile = part().in_bf16() ? kTileRows : kGroupRows;
  }

  /// Whether the product is computed in fp32 and rounded afterwards.
  [[nodiscard]] bool narrows() const { return !multiplies_in_bf16(operands) && result != DType::f32; }
  [[nodiscard]] DType product() const { return narrows() ? DType::f32 : result; }
  /// Bytes from one b[e] to the next.
  [[nodiscard]] std::size_t matrix_bytes() const { return options.packed_b ? packed_bytes(k, n, operands) : bytes_of(k * n, operands); }

  [[nodiscard]] MatmulPart part() const {
    return {.m = tile,
            .n = n,
            .k = k,
            .a_stride = k,
            .b_stride = options.packed_b      ? 0
                        : options.transpose_b ? k
                                              : n,
            .c_stride = n,
            .operands = operands,
            .result = product(),
            .transpose_b = options.transpose_b && !options.packed_b,
            .packed_b = options.packed_b,
            .bias = options.bias && !narrows()};
  }
  [[nodiscard]] bool whole_groups() const { return !narrows() && !options.packed_b; }
  /// A whole group may have any number of rows, of which at most kFloatRows are copied at a time.
  [[nodiscard]] std::size_t product_scratch() const {
    MatmulPart largest = part();
    if (whole_groups()) largest.m = kFloatRows;
    return matmul_part_scratch_bytes(largest);
  }
  /// The columns of each b[e] in parts, which depend on N alone.
  [[nodiscard]] std::int64_t column_parts() const { return (n + kGroupColumns - 1) / kGroupColumns; }
  [[nodiscard]] IndexRange columns(std::int64_t index) const {
    return thread_range(n, kPackedColumns, static_cast<int>(index), static_cast<int>(column_parts()));
  }
  [[nodiscard]] MatmulPart part(std::int64_t rows, IndexRange columns) const {
    MatmulPart cut = part();
    cut.m = rows;
    cut.n = columns.size();
    return cut;
  }
};

/// A thread's scratch: a tile of c before it is rounded, and the product's own.
struct TileLayout {
  std::size_t own, bytes;  // the tile of c is at 0
  explicit TileLayout(const Problem& problem)
      : own(problem.narrows() ? align_up(bytes_of(problem.tile * problem.n, DType::f32)) : 0),
        bytes(own + align_up(problem.product_scratch())) {}
};

/// The tiles of all groups, counted from the first tile of the first group on. Moves forward only.
class TileCursor {
 public:
  TileCursor(const Tensor& offsets, std::int64_t experts, std::int64_t tile)
      : offsets_(offsets.as<std::int32_t>()), groups_(offsets.shape[0] - 1), experts_(experts), tile_(tile) {}

  /// False if there are not so many tiles.
  bool move_to(std::int64_t index) {
    for (; group_ < groups_; ++group_) {
      const std::int64_t tiles = (offsets_[group_ + 1] - offsets_[group_] + tile_ - 1) / tile_;
      if (index < before_ + tiles) break;
      before_ += tiles;
    }
    index_ = index;
    return group_ < groups_;
  }
  [[nodiscard]] std::int64_t expert() const { return group_ % experts_; }
  [[nodiscard]] IndexRange rows() const {
    const std::int64_t begin = offsets_[group_] + (index_ - before_) * tile_;
    return {begin, std::min<std::int64_t>(begin + tile_, offsets_[group_ + 1])};
  }

 private:
  const std::int32_t* offsets_;
  std::int64_t groups_, experts_, tile_;
  std::int64_t group_ = 0, before_ = 0, index_ = 0;  // before_: tiles of the groups before group_
};

/// Multiplies tiles, on one thread.
class TileMultiplier {
 public:
  TileMultiplier(const Problem& problem, const TileLayout& layout, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor* bias,
                 std::byte* scratch)
      : problem_(problem), part_(problem.part()), layout_(layout), a_(a), b_(b), c_(c), bias_(bias), scratch_(scratch) {}

  /// `next` is the expert of the tile that this thread probably takes next.
  void multiply(std::int64_t expert, IndexRange rows, std::int64_t next) {
    part_.m = rows.size();
    const std::byte* const left = a_.data + bytes_of(rows.begin * problem_.k, problem_.operands);
    std::byte* const to = c_.data + bytes_of(rows.begin * problem_.n, problem_.result);
    std::byte* const product = problem_.narrows() ? scratch_ : to;
    const float* const bias = bias_ == nullptr ? nullptr : bias_->as<float>() + expert * problem_.n;
    const bool fetches = problem_.options.packed_b && next != expert;
    run_matmul_part(part_, left, matrix(expert), product, part_.bias ? bias : nullptr, scratch_ + layout_.own,
                    fetches ? matrix(next) : nullptr);
    if (problem_.narrows()) round(rows.size(), bias, reinterpret_cast<BFloat16*>(to));
  }

 private:
  [[nodiscard]] const std::byte* matrix(std::int64_t expert) const {
    return b_.data + static_cast<std::size_t>(expert) * problem_.matrix_bytes();
  }

  /// Writes the tile in the scratch, rounded.
  void round(std::int64_t rows, const float* bias, BFloat16* to) const {
    const auto* const wide = reinterpret_cast<const float*>(scratch_);
    if (bias == nullptr) return pick_narrow()(wide, to, 0, rows * problem_.n);
    for (std::int64_t row = 0; row < rows; ++row)
      pick_narrow_wide_sum()(wide + row * problem_.n, bias, to + row * problem_.n, 0, problem_.n);
  }

  const Problem& problem_;
  MatmulPart part_;
  const TileLayout& layout_;
  const Tensor &a_, &b_, &c_;
  const Tensor* bias_;
  std::byte* scratch_;
};

/// Computes some columns of all rows of a group at a time.
void multiply_whole_groups(const ExecutionContext& context, const Problem& problem, const Tensor& a, const Tensor& b, const Tensor& offsets,
                           const Tensor& c, const Tensor* bias, Scratch scratch) {
  const std::size_t bytes = TileLayout(problem).bytes;
  const auto* offset = offsets.as<std::int32_t>();
  const std::int64_t n = problem.n, k = problem.k, parts = problem.column_parts(), items = (offsets.shape[0] - 1) * parts;
  std::atomic<std::int64_t> next{0};
  context.team().run([&](int thread, int) {
    std::byte* const own = scratch_of_thread("kernels.grouped_matmul", context, scratch, bytes, thread);
    take_in_turn(next, [&](std::int64_t item) {
      if (item >= items) return false;
      const std::int64_t group = item / parts, expert = group % b.shape[0];
      const IndexRange rows{offset[group], offset[group + 1]}, columns = problem.columns(item % parts);
      if (rows.size() == 0) return true;
      run_matmul_part(problem.part(rows.size(), columns), a.data + bytes_of(rows.begin * k, problem.operands),
                      b.data + bytes_of(expert * k * n + columns.begin * (problem.options.transpose_b ? k : 1), problem.operands),
                      c.data + bytes_of(rows.begin * n + columns.begin, problem.result),
                      bias == nullptr ? nullptr : bias->as<float>() + expert * n + columns.begin, own);
      return true;
    });
  });
}

void grouped_matmul(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& offsets, const Tensor& c,
                    const GroupedMatmulOptions& options, Scratch scratch, const Tensor* bias) {
  const Problem problem(a.shape, b.shape, a.dtype, c.dtype, options);
  if (problem.whole_groups()) return multiply_whole_groups(context, problem, a, b, offsets, c, bias, scratch);
  const TileLayout layout(problem);
  std::atomic<std::int64_t> next{0};
  context.team().run([&](int thread, int threads) {
    TileMultiplier multiplier(problem, layout, a, b, c, bias,
                              scratch_of_thread("kernels.grouped_matmul", context, scratch, layout.bytes, thread));
    TileCursor cursor(offsets, b.shape[0], problem.tile), ahead = cursor;
    take_in_turn(next, [&](std::int64_t tile) {
      if (!cursor.move_to(tile)) return false;
      multiplier.multiply(cursor.expert(), cursor.rows(), ahead.move_to(tile + threads) ? ahead.expert() : cursor.expert());
      return true;
    });
  });
}

std::size_t grouped_matmul_scratch_bytes(const Shape& a, const Shape& b, DType operands, DType result, const GroupedMatmulOptions& options,
                                         const Processor& processor) {
  return kAlignment + TileLayout(Problem(a, b, operands, result, options)).bytes * static_cast<std::size_t>(processor.threads);
}

// -- c[e] += a_eᵀ · b_e ---------------------------------------------------------------------------------------------------------

/// Rows of a group that are added at a time in fp32. Those of bf16 are summed in steps of 32 rows, in any number.
constexpr std::int64_t kRun = 128;
/// Largest number of rows of c[e] that a thread adds to at a time.
constexpr std::int64_t kGradientRows = 384;

/// A gradient without its number of rows. Each c[e] is cut into blocks of rows that depend on M alone.
struct Gradient {
  std::int64_t m, n;
  DType operands;
  std::int64_t blocks;

  Gradient(std::int64_t m_, std::int64_t n_, DType operands_)
      : m(m_), n(n_), operands(operands_), blocks((m_ + kGradientRows - 1) / kGradientRows) {}

  [[nodiscard]] IndexRange block(std::int64_t index) const {
    return thread_range(m, kShareGrain, static_cast<int>(index), static_cast<int>(blocks));
  }
  [[nodiscard]] MatmulPart part(IndexRange rows, std::int64_t length) const {
    return {.m = rows.size(),
            .n = n,
            .k = length,
            .a_stride = m,
            .b_stride = n,
            .c_stride = n,
            .operands = operands,
            .result = DType::f32,
            .transpose_a = true,
            .accumulate = true};
  }
  [[nodiscard]] std::size_t scratch_of_thread() const { return align_up(matmul_part_scratch_bytes(part(block(0), 1))); }
};

/// Adds group `rows` of a and b to a block of the rows of c[e], `to`.
void add_group(const Gradient& gradient, const Tensor& a, const Tensor& b, IndexRange rows, IndexRange block, float* to,
               std::byte* scratch) {
  if (rows.size() == 0) return;
  const std::int64_t run = multiplies_in_bf16(gradient.operands) ? rows.size() : kRun;
  for (std::int64_t first = rows.begin; first < rows.end; first += run)
    run_matmul_part(gradient.part(block, std::min(run, rows.end - first)),
                    a.data + bytes_of(first * gradient.m + block.begin, gradient.operands),
                    b.data + bytes_of(first * gradient.n, gradient.operands), to, nullptr, scratch);
}

void grouped_weight_gradient(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& offsets, const Tensor& c,
                             Scratch scratch) {
  const Gradient gradient(c.shape[1], c.shape[2], a.dtype);
  const auto* offset = offsets.as<std::int32_t>();
  const std::int64_t experts = c.shape[0], groups = offsets.shape[0] - 1, items = experts * gradient.blocks;
  std::atomic<std::int64_t> next{0};
  context.team().run([&](int thread, int) {
    std::byte* const own = scratch_of_thread("kernels.grouped_weight_gradient", context, scratch, gradient.scratch_of_thread(), thread);
    take_in_turn(next, [&](std::int64_t item) {
      if (item >= items) return false;
      const std::int64_t expert = item / gradient.blocks;
      const IndexRange block = gradient.block(item % gradient.blocks);
      float* const to = c.as<float>() + (expert * gradient.m + block.begin) * gradient.n;
      for (std::int64_t group = expert; group < groups; group += experts)  // source by source
        add_group(gradient, a, b, {offset[group], offset[group + 1]}, block, to, own);
      return true;
    });
  });
}

std::size_t grouped_weight_gradient_scratch_bytes(const Shape& a, const Shape& b, DType operands, const Processor& processor) {
  return kAlignment + Gradient(a[1], b[1], operands).scratch_of_thread() * static_cast<std::size_t>(processor.threads);
}

// -- c[e] += the sum of the rows of group e -------------------------------------------------------------------------------------

void grouped_bias_gradient(const ExecutionContext& context, const Tensor& a, const Tensor& offsets, const Tensor& c) {
  const std::int64_t groups = offsets.shape[0] - 1, n = c.shape[1];
  const auto* offset = offsets.as<std::int32_t>();
  // Each thread owns columns of all experts, so the order of a sum does not depend on the number of threads.
  context.team().for_ranges(n, kShareGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t rows = offset[group + 1] - offset[group];
      float* const sum = c.as<float>() + group % c.shape[0] * n;
      if (a.dtype == DType::f32)
        pick_bias_weight_gradient_f32()({a.as<float>() + offset[group] * n, sum, rows, n}, begin, end);
      else
        pick_bias_weight_gradient_bf16()({a.as<BFloat16>() + offset[group] * n, sum, rows, n}, begin, end);
    }
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::grouped_matmul, grouped_matmul},
    {Backend::cpu, table::grouped_matmul_scratch_bytes, grouped_matmul_scratch_bytes},
    {Backend::cpu, table::grouped_weight_gradient, grouped_weight_gradient},
    {Backend::cpu, table::grouped_weight_gradient_scratch_bytes, grouped_weight_gradient_scratch_bytes},
    {Backend::cpu, table::grouped_bias_gradient, grouped_bias_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu
