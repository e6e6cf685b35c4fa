#include "kernels/scale_heads.hpp"

#include <algorithm>

#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

constexpr std::int64_t kHeads = 512;  // of a launch: its factors are arguments of the kernel

struct Factors {
  float of_head[kHeads];
};

__global__ void __launch_bounds__(kThreads) scale(HeadOutputs outputs, Factors factors, std::int64_t first, std::int64_t heads,
                                                  float* matrix, std::int64_t columns, std::int64_t elements) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= elements) return;
  const std::int64_t width = outputs.roots + outputs.wholes + outputs.rest;
  const std::int64_t output = outputs.rows ? i / columns : i % columns, head = output / width - first, part = output % width;
  if (head < 0 || head >= heads) return;
  const float factor = factors.of_head[head];
  if (part < outputs.roots)
    matrix[i] *= sqrtf(factor);
  else if (part < outputs.roots + outputs.wholes)
    matrix[i] *= factor;
}

void scale_heads(const ExecutionContext& context, const HeadOutputs& outputs, std::span<const float> factors, const Tensor& matrix) {
  for (std::int64_t first = 0; first < outputs.heads; first += kHeads) {
    Factors own = {};
    const std::int64_t heads = std::min(kHeads, outputs.heads - first);
    std::copy_n(factors.begin() + first, heads, own.of_head);
    launch(context, "kernels.scale_heads", scale, dim3(blocks_of(matrix.elements(), kThreads)), dim3(kThreads), 0, outputs, own, first,
           heads, matrix.as<float>(), matrix.shape[1], matrix.elements());
  }
}

const InTable in_table[] = {
    {Backend::cuda, table::scale_heads, scale_heads},
};

}  // namespace
}  // namespace millrace::kernels::cuda
