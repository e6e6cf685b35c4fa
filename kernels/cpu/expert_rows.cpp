#include "kernels/expert_rows.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/cpu/expert_rows_loops.hpp"
#include "kernels/cpu/thread_range.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kTokenGrain = 4;
constexpr std::int64_t kManyChoices = 65536;  // from here on threads share the sort
constexpr std::int64_t kCounters = 8192;      // of the experts in all threads' ranges: they are on the stack

/// A counting sort. Every range of choices has a counter for each expert: of its choices first, then the row of the next of them.
void sort_by_expert(const ExecutionContext& context, const Tensor& experts, const Tensor& places, const Tensor& offsets) {
  const auto* expert = experts.as<std::int32_t>();
  auto* place = places.as<std::int32_t>();
  auto* offset = offsets.as<std::int32_t>();
  const std::int64_t choices = experts.elements(), count = offsets.shape[0] - 1;
  const auto ranges = static_cast<int>(std::min<std::int64_t>(context.threads(), kCounters / count));
  if (choices < kManyChoices || ranges < 2) {
    // The offsets are the counters: when all choices have a place, each holds the next one's value.
    std::fill_n(offset, count + 1, 0);
    for (std::int64_t i = 0; i < choices; ++i) ++offset[expert[i] + 1];
    for (std::int64_t e = 0; e < count; ++e) offset[e + 1] += offset[e];
    for (std::int64_t i = 0; i < choices; ++i) place[i] = offset[expert[i]]++;
    std::copy_backward(offset, offset + count, offset + count + 1);
    offset[0] = 0;
    return;
  }
  std::array<std::int32_t, kCounters> counters;
  const auto for_ranges = [&](auto&& body) {
    context.team().run([&](int thread, int /*threads*/) {
      if (thread < ranges) body(thread_range(choices, kShareGrain, thread, ranges), counters.data() + thread * count);
    });
  };
  for_ranges([&](IndexRange range, std::int32_t* counter) {
    std::fill_n(counter, count, 0);
    for (std::int64_t i = range.begin; i < range.end; ++i) ++counter[expert[i]];
  });
  std::int32_t row = 0;
  for (std::int64_t e = 0; e < count; ++e) {
    offset[e] = row;
    for (int range = 0; range < ranges; ++range) {
      std::int32_t& counter = counters[static_cast<std::size_t>(range * count + e)];
      const std::int32_t chosen = counter;
      counter = row;
      row += chosen;
    }
  }
  offset[count] = row;
  for_ranges([&](IndexRange range, std::int32_t* next) {
    for (std::int64_t i = range.begin; i < range.end; ++i) place[i] = next[expert[i]]++;
  });
}

template <class T>
RowsOfToken<T> rows_of_token(const Tensor& rows, const Tensor& places, std::int64_t t) {
  const std::int64_t chosen = places.shape[1];
  return {rows.as<T>(), places.as<std::int32_t>() + t * chosen, chosen, rows.shape[1]};
}

/// The token's entries of [T, K], or null.
template <class Number>
Number* of_token(const Tensor* entries, std::int64_t t) {
  return entries == nullptr ? nullptr : entries->as<Number>() + t * entries->shape[1];
}

void gather_rows(const ExecutionContext& context, const Tensor& x, const Tensor& places, const Tensor* weights, const Tensor& rows) {
  const std::int64_t chosen = places.shape[1], width = x.shape[1];
  const std::size_t bytes = static_cast<std::size_t>(width) * size_of(x.dtype);
  context.team().for_ranges(x.shape[0], kTokenGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t)
      for (std::int64_t choice = t * chosen; choice < (t + 1) * chosen; ++choice) {
        const std::int64_t row = places.as<std::int32_t>()[choice];
        if (weights == nullptr)
          std::memcpy(rows.data + static_cast<std::size_t>(row) * bytes, x.data + static_cast<std::size_t>(t) * bytes, bytes);
        else if (x.dtype == DType::f32)
          pick_scale_row_f32()(x.as<float>() + t * width, weights->as<float>()[choice], rows.as<float>() + row * width, width);
        else
          pick_scale_row_bf16()(x.as<BFloat16>() + t * width, weights->as<float>()[choice], rows.as<BFloat16>() + row * width, width);
      }
  });
}

void combine_rows(const ExecutionContext& context, const Tensor& rows, const Tensor& places, const Tensor* weights, const Tensor& y) {
  const std::int64_t width = y.shape[1];
  context.team().for_ranges(y.shape[0], kTokenGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const float* weight = of_token<const float>(weights, t);
      if (y.dtype == DType::f32)
        pick_combine_rows_f32()(rows_of_token<float>(rows, places, t), weight, y.as<float>() + t * width);
      else
        pick_combine_rows_bf16()(rows_of_token<BFloat16>(rows, places, t), weight, y.as<BFloat16>() + t * width);
    }
  });
}

void row_products(const ExecutionContext& context, const Tensor& x, const Tensor& rows, const Tensor& places, const Tensor& products) {
  const std::int64_t width = x.shape[1];
  context.team().for_ranges(x.shape[0], kTokenGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      auto* product = of_token<float>(&products, t);
      if (x.dtype == DType::f32)
        pick_row_products_f32()(rows_of_token<float>(rows, places, t), x.as<float>() + t * width, product);
      else
        pick_row_products_bf16()(rows_of_token<BFloat16>(rows, places, t), x.as<BFloat16>() + t * width, product);
    }
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::sort_by_expert, sort_by_expert},
    {Backend::cpu, table::gather_rows, gather_rows},
    {Backend::cpu, table::combine_rows, combine_rows},
    {Backend::cpu, table::row_products, row_products},
};

}  // namespace
}  // namespace millrace::kernels::cpu
