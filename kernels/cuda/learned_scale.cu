#include "kernels/learned_scale.hpp"

#include <algorithm>

#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

// All threads read the same number, which is in the device's memory.
struct TimesOne {
  const float* scale;
  __device__ float operator()(float x) const { return x * *scale; }
};

template <class T>
struct TimesEach {
  const T* x;
  const float* scales;
  const std::int32_t* which;
  T* y;
  std::int64_t numbers;
  FaultSlot* fault;
  __device__ void operator()(std::int64_t i) const {
    std::int32_t number = which[i];
    if (number < 0 || number >= numbers) {
      report(fault, FaultSlot::expert, number, i, numbers);
      number = 0;
    }
    store(y + i, load(x + i) * scales[number]);
  }
};

void learned_scale(const ExecutionContext& context, const Tensor& x, const Tensor& scales, const Tensor* which, const Tensor& y) {
  constexpr const char* component = "kernels.learned_scale";
  with_type(x.dtype, [&]<class T>(T) {
    if (which == nullptr) return map<T, T>(context, component, x, y, TimesOne{scales.as<float>()});
    for_each(context, component, x.elements(),
             TimesEach<T>{x.as<T>(), scales.as<float>(), which->as<std::int32_t>(), y.as<T>(), scales.shape[0], state_of(context).fault});
  });
}

constexpr std::int64_t kTermParts = 256;  // maximum; each is a block
constexpr std::int64_t kLeastTerms = 8 * kThreads;
static_assert(kTermParts == kThreads, "a thread for each part's sum");
static_assert(kTermParts <= kSumParts);

// The sum over the part of a block.
template <class T>
__global__ void __launch_bounds__(kThreads) scale_parts(const T* dy, const T* x, std::int64_t elements, std::int64_t part, double* parts) {
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * part, limit = begin + part, end = limit < elements ? limit : elements;
  double sum = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads)
    sum += static_cast<double>(load(dy + i)) * static_cast<double>(load(x + i));
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads) scale_total(const double* parts, std::int64_t count, float* d_scale) {
  const double sum = block_sum<kThreads>(threadIdx.x < count ? parts[threadIdx.x] : 0.0);
  if (threadIdx.x == 0) *d_scale += static_cast<float>(sum);
}

// A block for each number, which looks at all elements.
template <class T>
__global__ void __launch_bounds__(kThreads)
    scale_totals(const T* dy, const T* x, const std::int32_t* which, std::int64_t elements, float* d_scales) {
  const auto own = static_cast<std::int32_t>(blockIdx.x);
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < elements; i += kThreads)
    if (which[i] == own) sum += static_cast<double>(load(dy + i)) * static_cast<double>(load(x + i));
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) d_scales[own] += static_cast<float>(sum);
}

void learned_scale_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor* which,
                                   const Tensor& d_scales) {
  constexpr const char* component = "kernels.learned_scale_weight_gradient";
  const std::int64_t elements = x.elements();
  if (elements == 0) return;
  with_type(x.dtype, [&]<class T>(T) {
    if (which != nullptr)
      return launch(context, component, scale_totals<T>, dim3(static_cast<unsigned>(d_scales.shape[0])), dim3(kThreads), 0, dy.as<T>(),
                    x.as<T>(), which->as<std::int32_t>(), elements, d_scales.as<float>());
    // Parts depend only on the size, so bits repeat.
    double* parts = state_of(context).parts;
    const std::int64_t part = std::max((elements + kTermParts - 1) / kTermParts, kLeastTerms);
    const std::int64_t count = (elements + part - 1) / part;
    launch(context, component, scale_parts<T>, dim3(static_cast<unsigned>(count)), dim3(kThreads), 0, dy.as<T>(), x.as<T>(), elements, part,
           parts);
    launch(context, component, scale_total, dim3(1), dim3(kThreads), 0, static_cast<const double*>(parts), count, d_scales.as<float>());
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::learned_scale, learned_scale},
    {Backend::cuda, table::learned_scale_weight_gradient, learned_scale_weight_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda
