#include "kernels/average.hpp"

#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

struct Move {
  float share;
  __device__ float operator()(float average, float x) const { return average + share * (x - average); }
};

__global__ void __launch_bounds__(kThreads) exchange_elements(float* a, float* b, std::int64_t elements) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= elements) return;
  const float kept = a[i];
  a[i] = b[i];
  b[i] = kept;
}

void move_average(const ExecutionContext& context, float share, const Tensor& x, const Tensor& average) {
  map<float, float, float>(context, "kernels.move_average", average, x, average, Move{share});
}

void exchange(const ExecutionContext& context, const Tensor& a, const Tensor& b) {
  launch(context, "kernels.exchange", exchange_elements, dim3(blocks_of(a.elements(), kThreads)), dim3(kThreads), 0, a.as<float>(),
         b.as<float>(), a.elements());
}

const InTable in_table[] = {
    {Backend::cuda, table::move_average, move_average},
    {Backend::cuda, table::exchange, exchange},
};

}  // namespace
}  // namespace millrace::kernels::cuda
