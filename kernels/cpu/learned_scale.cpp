#include "kernels/learned_scale.hpp"

#include <algorithm>
#include <array>

#include "kernels/base/route_options.hpp"
#include "kernels/cpu/elementwise_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kGrain = 4096;   // elements
constexpr std::int64_t kNumbers = 16;   // of a thread, which looks at all elements for them
constexpr std::int64_t kChunk = 4096;   // elements whose sum is one number
constexpr std::int64_t kChunks = 1024;  // whose sums are on the stack, so nothing is allocated however large the tensor is

float load(float x) { return x; }
float load(BFloat16 x) { return to_float(x); }
void store(float& y, float value) { y = value; }
void store(BFloat16& y, float value) { y = to_bfloat16(value); }

/// Calls body with an element of the tensor's type.
template <class Body>
void with_element(DType dtype, Body&& body) {
  if (dtype == DType::f32)
    body(float{});
  else
    body(BFloat16{});
}

void learned_scale(const ExecutionContext& context, const Tensor& x, const Tensor& scales, const Tensor* which, const Tensor& y) {
  context.team().for_ranges(x.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    const auto* numbers = scales.as<float>();
    if (which == nullptr) {
      if (x.dtype == DType::f32)
        pick_scale_f32()(x.as<float>(), *numbers, y.as<float>(), begin, end);
      else
        pick_scale_bf16()(x.as<BFloat16>(), *numbers, y.as<BFloat16>(), begin, end);
      return;
    }
    with_element(x.dtype, [&]<class T>(T) {
      for (std::int64_t i = begin; i < end; ++i) store(y.as<T>()[i], load(x.as<T>()[i]) * numbers[which->as<std::int32_t>()[i]]);
    });
  });
}

/// Each thread owns some of the numbers, so that the order of a sum does not depend on the number of threads.
template <class T>
void add_to_each(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& which, const Tensor& d_scales) {
  context.team().for_ranges(d_scales.elements(), kNumbers, [&](std::int64_t begin, std::int64_t end) {
    std::array<double, max_experts> sums;
    std::fill_n(sums.data(), end - begin, 0.0);
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      const std::int64_t number = which.as<std::int32_t>()[i];
      if (number >= begin && number < end)
        sums[static_cast<std::size_t>(number - begin)] +=
            static_cast<double>(load(dy.as<T>()[i])) * static_cast<double>(load(x.as<T>()[i]));
    }
    for (std::int64_t n = begin; n < end; ++n) d_scales.as<float>()[n] += static_cast<float>(sums[static_cast<std::size_t>(n - begin)]);
  });
}

/// Σ dy·x of a chunk: eight sums take turns, since each addition waits for the one before it.
template <class T>
double sum_of_products(const T* dy, const T* x, std::int64_t count) {
  constexpr std::int64_t lanes = 8;
  std::array<double, lanes> sums{};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (std::int64_t lane = 0; lane < lanes; ++lane)
      sums[static_cast<std::size_t>(lane)] += static_cast<double>(load(dy[i + lane])) * static_cast<double>(load(x[i + lane]));
  for (; i < count; ++i) sums[static_cast<std::size_t>(i % lanes)] += static_cast<double>(load(dy[i])) * static_cast<double>(load(x[i]));
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

template <class T>
void add_to_one(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& d_scale) {
  std::array<double, kChunks> sums;
  double total = 0;
  const std::int64_t elements = x.elements(), chunks = (elements + kChunk - 1) / kChunk;
  for (std::int64_t first = 0; first < chunks; first += kChunks) {
    const std::int64_t round = std::min(kChunks, chunks - first);
    context.team().for_ranges(round, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
        const std::int64_t offset = (first + chunk) * kChunk, last = std::min(offset + kChunk, elements);
        sums[static_cast<std::size_t>(chunk)] = sum_of_products(dy.as<T>() + offset, x.as<T>() + offset, last - offset);
      }
    });
    for (std::int64_t chunk = 0; chunk < round; ++chunk) total += sums[static_cast<std::size_t>(chunk)];
  }
  d_scale.as<float>()[0] += static_cast<float>(total);
}

void learned_scale_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor* which,
                                   const Tensor& d_scales) {
  with_element(x.dtype, [&]<class T>(T) {
    if (which == nullptr)
      add_to_one<T>(context, dy, x, d_scales);
    else
      add_to_each<T>(context, dy, x, *which, d_scales);
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::learned_scale, learned_scale},
    {Backend::cpu, table::learned_scale_weight_gradient, learned_scale_weight_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu
