// grouped_bench [threads] [fp32|bf16]: the products of experts, compared with our own product of one matrix and as many rows, which has the
// same FLOPs. Both alternate, and each counts with its best round.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/kernels/filled.hpp"
#include "benchmarks/kernels/timing.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/base/cpu_features.hpp"
#include "kernels/grouped_matmul.hpp"
#include "kernels/matmul.hpp"
#include "kernels/packing.hpp"

namespace {

using namespace millrace::kernels;

constexpr std::int64_t width = 512, hidden = 768;  // an expert's matrix

struct Owned {
  Tensor tensor;
  Buffer memory;
  Owned(DType dtype, Shape shape) : tensor{nullptr, dtype, shape}, memory(tensor.bytes()) {
    tensor.data = memory.data();
    millrace::benchmarks::fill(tensor);
  }
};

/// Rows of each expert: all the same, or those of Zipf's law, in which expert i has a share of 1/i, in an order that is not sorted.
std::vector<std::int64_t> counts_of(std::int64_t experts, std::int64_t rows, bool zipf) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(experts), rows);
  if (!zipf) return counts;
  double shares = 0;
  for (std::int64_t i = 1; i <= experts; ++i) shares += 1.0 / static_cast<double>(i);
  std::int64_t left = experts * rows;
  for (std::int64_t i = experts; i > 0; --i) {
    const auto share = static_cast<double>(experts * rows) / (static_cast<double>(i) * shares);
    auto& count = counts[static_cast<std::size_t>((i * 5 + 3) % experts)];  // 5 and the powers of two have no common divisor
    count = i == 1 ? left : static_cast<std::int64_t>(share);
    left -= count;
  }
  return counts;
}

struct Times {
  double grouped = 1e30, dense = 1e30;
};
template <class Grouped, class Dense>
Times times_of(Grouped&& grouped, Dense&& dense) {
  Times best;
  for (int round = 0; round < 5; ++round) {
    best.grouped = std::min(best.grouped, millrace::benchmarks::seconds_of(grouped, 0.05, 1));
    best.dense = std::min(best.dense, millrace::benchmarks::seconds_of(dense, 0.05, 1));
  }
  return best;
}

class Comparison {
 public:
  Comparison(ThreadTeam& team, DType dtype, std::int64_t experts, std::int64_t rows, bool zipf)
      : context_(team),
        dtype_(dtype),
        experts_(experts),
        rows_(experts * rows),
        label_(fmt::format("{:>3} experts, {:>3} rows{}", experts, rows, zipf ? ", Zipf" : "      ")),
        offsets_(DType::i32, {experts + 1}),
        narrow_(dtype, {rows_, width}),
        wide_(dtype, {rows_, hidden}) {
    const auto counts = counts_of(experts, rows, zipf);
    auto* offset = offsets_.tensor.as<std::int32_t>();
    offset[0] = 0;
    for (std::size_t e = 0; e < counts.size(); ++e) offset[e + 1] = offset[e] + static_cast<std::int32_t>(counts[e]);
  }

  void measure() const {
    product("forward", narrow_.tensor, wide_.tensor, true);
    product("input gradient", wide_.tensor, narrow_.tensor, false);
    gradient();
  }

 private:
  /// a · op(b) with b [hidden, width], as a forward and an input gradient multiply it.
  void product(const char* name, const Tensor& a, const Tensor& c, bool transpose) const {
    const bool packs = packs_operands();
    const Owned stack(dtype_, {experts_, hidden, width});
    const Buffer packed(packs ? packed_bytes(stack.tensor.shape, transpose, dtype_) : 0);
    Tensor b = stack.tensor;
    if (packs) {
      pack(context_, stack.tensor, transpose, packed.data());
      b.data = packed.data();
    }
    Tensor first = b;
    first.shape = {hidden, width};
    const GroupedMatmulOptions options{.transpose_b = transpose, .packed_b = packs};
    const MatmulOptions dense{.transpose_b = transpose, .packed_b = packs};
    const Buffer scratch(grouped_matmul_scratch_bytes(a.shape, b.shape, dtype_, dtype_, options, context_.processor())),
        other(matmul_scratch_bytes(a.shape, first.shape, dtype_, dtype_, dense, context_.processor()));
    print(name, times_of([&] { grouped_matmul(context_, a, b, offsets_.tensor, c, options, scratch.bytes()); },
                         [&] { matmul(context_, a, first, c, dense, other.bytes()); }));
  }

  void gradient() const {
    const Owned sums(DType::f32, {experts_, hidden, width});
    Tensor first = sums.tensor;
    first.shape = {hidden, width};
    const Tensor &a = wide_.tensor, &b = narrow_.tensor;
    const MatmulOptions dense{.transpose_a = true, .accumulate = true};
    const Buffer scratch(grouped_weight_gradient_scratch_bytes(a.shape, b.shape, dtype_, context_.processor())),
        other(matmul_scratch_bytes(a.shape, b.shape, dtype_, DType::f32, dense, context_.processor()));
    print("weight gradient", times_of([&] { grouped_weight_gradient(context_, a, b, offsets_.tensor, sums.tensor, scratch.bytes()); },
                                      [&] { matmul(context_, a, b, first, dense, other.bytes()); }));
  }

  void print(const char* name, Times times) const {
    const double flops = 2.0 * static_cast<double>(rows_) * width * hidden;
    fmt::print("{:<4}  {:<16} {}  {:>7.1f} GFLOP/s   one matrix {:>7.1f}   ratio {:.2f}\n", to_string(dtype_), name, label_,
               flops / times.grouped * 1e-9, flops / times.dense * 1e-9, times.dense / times.grouped);
    std::fflush(stdout);
  }

  ExecutionContext context_;
  DType dtype_;
  std::int64_t experts_, rows_;
  std::string label_;
  Owned offsets_, narrow_, wide_;
};

}  // namespace

int main(int count, char** arguments) {
  const int threads = millrace::benchmarks::threads_from(count, arguments);
  ThreadTeam team(threads);
  fmt::print("{}, {} threads; {} x {}\n", describe(cpu_features()), threads, width, hidden);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    if (count > 2 && arguments[2] != std::string_view(dtype == DType::bf16 ? "bf16" : "fp32")) continue;
    for (const std::int64_t experts : {8, 32, 128})
      for (const std::int64_t rows : {128, 512})
        for (const bool zipf : {false, true}) Comparison(team, dtype, experts, rows, zipf).measure();
  }
}
