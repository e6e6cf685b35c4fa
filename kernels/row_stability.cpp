#include "kernels/row_stability.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/base/buffer.hpp"
#include "kernels/base/count.hpp"
#include "kernels/packing.hpp"

namespace millrace::kernels {
namespace {

constexpr std::int64_t kPool = 24;  // different rows, from which batches are made

/// A tensor with memory of its own.
class Owned {
 public:
  Owned(DType dtype, const Shape& shape) : memory_(std::max<std::size_t>(1, bytes_of(dtype, shape))) {
    tensor_ = make_tensor(memory_.data(), dtype, shape);
  }
  [[nodiscard]] const Tensor& operator*() const noexcept { return tensor_; }
  [[nodiscard]] std::byte* row(std::int64_t index) const { return tensor_.data + static_cast<std::size_t>(index) * row_bytes(); }
  [[nodiscard]] std::size_t row_bytes() const { return static_cast<std::size_t>(tensor_.shape[1]) * size_of(tensor_.dtype); }

 private:
  static std::size_t bytes_of(DType dtype, const Shape& shape) { return static_cast<std::size_t>(shape.elements()) * size_of(dtype); }
  Buffer memory_;
  Tensor tensor_;
};

void fill(const Tensor& tensor, std::mt19937& random) {
  std::uniform_real_distribution<float> numbers(-1, 1);
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const float value = numbers(random);
    if (tensor.dtype == DType::bf16)
      tensor.as<BFloat16>()[i] = to_bfloat16(value);
    else
      tensor.as<float>()[i] = value;
  }
}

/// grouped_matmul with the stack of weights packed once.
GroupedProduct own_product(const RowStabilityOptions& options, const Tensor& b) {
  GroupedMatmulOptions form{.transpose_b = true, .packed_b = packs_operands()};
  auto packed = std::make_shared<Buffer>(form.packed_b ? packed_bytes(b.shape, true, b.dtype) : 1);
  if (form.packed_b) {
    ThreadTeam team(1);
    pack(ExecutionContext(team), b, true, packed->data());
  }
  return [form, packed](const ExecutionContext& context, const Tensor& a, const Tensor& weights, const Tensor& offsets, const Tensor& c) {
    Tensor right = weights;
    if (form.packed_b) right.data = packed->data();
    const Buffer scratch(grouped_matmul_scratch_bytes(a.shape, right.shape, a.dtype, c.dtype, form, context.processor()));
    grouped_matmul(context, a, right, offsets, c, form, scratch.bytes());
  };
}

using Counts = std::vector<std::int64_t>;

/// As a router yields them: experts without rows, few rows, typically many, and now and then twice as many.
Counts random_counts(std::mt19937& random, const RowStabilityOptions& options) {
  Counts counts;
  const auto limit = static_cast<std::uint32_t>(options.rows);
  for (std::int64_t expert = 0; expert < options.experts; ++expert) {
    switch (random() % 5) {
      case 0:
        counts.push_back(0);
        break;
      case 1:
        counts.push_back(options.rows);
        break;
      case 2:
        counts.push_back(1 + random() % (2 * limit));
        break;
      default:
        counts.push_back(1 + random() % limit);
    }
  }
  return counts;
}

Owned offsets_of(const Counts& counts) {
  Owned offsets(DType::i32, {static_cast<std::int64_t>(counts.size()) + 1});
  auto* const places = (*offsets).as<std::int32_t>();
  places[0] = 0;
  for (std::size_t expert = 0; expert < counts.size(); ++expert)
    places[expert + 1] = places[expert] + static_cast<std::int32_t>(counts[expert]);
  return offsets;
}

}  // namespace

RowStability row_stability(const RowStabilityOptions& options, std::span<const int> threads, const GroupedProduct& given) {
  std::mt19937 random(options.seed);
  const Owned lines(options.dtype, {kPool, options.k}), b(options.dtype, {options.experts, options.n, options.k});
  fill(*lines, random);
  fill(*b, random);
  const GroupedProduct product = given ? given : own_product(options, *b);

  // What each expert yields for every row of the pool, when it alone has rows.
  ThreadTeam one(1);
  std::vector<Owned> alone;
  for (std::int64_t expert = 0; expert < options.experts; ++expert) {
    Counts counts(static_cast<std::size_t>(options.experts), 0);
    counts[static_cast<std::size_t>(expert)] = kPool;
    alone.emplace_back(options.dtype, Shape{kPool, options.n});
    product(ExecutionContext(one), *lines, *b, *offsets_of(counts), *alone.back());
  }

  std::vector<std::unique_ptr<ThreadTeam>> teams;
  for (const int count : threads) teams.push_back(std::make_unique<ThreadTeam>(count));
  RowStability found;
  for (int batch = 0; batch < options.batches; ++batch) {
    const Counts counts = random_counts(random, options);
    const std::int64_t rows = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const Owned a(options.dtype, {rows, options.k}), c(options.dtype, {rows, options.n}), offsets = offsets_of(counts);
    std::vector<std::int64_t> lines_of_rows;
    for (std::int64_t row = 0; row < rows; ++row) {
      lines_of_rows.push_back(random() % kPool);
      std::memcpy(a.row(row), lines.row(lines_of_rows.back()), a.row_bytes());
    }
    for (const auto& team : teams) {
      product(ExecutionContext(*team), *a, *b, *offsets, *c);
      std::int64_t row = 0;
      for (std::size_t expert = 0; expert < counts.size(); ++expert)
        for (std::int64_t place = 0; place < counts[expert]; ++place, ++row) {
          ++found.rows;
          const std::byte* const expected = alone[expert].row(lines_of_rows[static_cast<std::size_t>(row)]);
          if (std::memcmp(c.row(row), expected, c.row_bytes()) == 0) continue;
          if (found.different++ == 0)
            found.first = fmt::format("{}, {}: row {} of the {} rows of expert {}", to_string(options.dtype),
                                      counted(team->size(), "thread"), place, counts[expert], expert);
        }
    }
  }
  return found;
}

}  // namespace millrace::kernels
