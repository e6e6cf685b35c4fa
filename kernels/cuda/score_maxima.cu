#include "kernels/score_maxima.hpp"

#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

constexpr const char* component = "kernels.score_maxima";

struct Sizes {
  std::int64_t heads, kv_heads, width, rows;
};

/// A thread for each query of a row and head: its largest score. The block has the largest of them, in f64 by row and head.
template <class T>
__global__ void __launch_bounds__(kThreads)
    row_maxima(const T* q, const T* k, const std::int32_t* segments, AttentionOptions options, Sizes sizes, double* found) {
  const std::int64_t row = blockIdx.x / sizes.heads, head = blockIdx.x % sizes.heads;
  const std::int64_t kv_head = head / (sizes.heads / sizes.kv_heads), first = row * options.sequence;
  float largest = -INFINITY;
  for (std::int64_t place = threadIdx.x; place < options.sequence; place += kThreads) {
    const SeenKeys seen = seen_keys(options, place);
    const T* query = q + ((first + place) * sizes.heads + head) * sizes.width;
    const std::int64_t end = seen.end < options.sequence ? seen.end : options.sequence;
    for (std::int64_t u = seen.begin > 0 ? seen.begin : 0; u < end; ++u) {
      if (segments[first + u] != segments[first + place]) continue;
      const T* key = k + ((first + u) * sizes.kv_heads + kv_head) * sizes.width;
      float sum = 0;
      for (std::int64_t d = 0; d < sizes.width; ++d) sum += static_cast<float>(query[d]) * static_cast<float>(key[d]);
      largest = fmaxf(largest, options.scale * sum);
    }
  }
  __shared__ float all[kThreads];
  all[threadIdx.x] = largest;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) all[threadIdx.x] = fmaxf(all[threadIdx.x], all[threadIdx.x + half]);
    __syncthreads();
  }
  if (threadIdx.x == 0) found[blockIdx.x] = static_cast<double>(all[0]);
}

__global__ void __launch_bounds__(kThreads) head_maxima(const double* found, Sizes sizes, double* maxima) {
  const std::int64_t head = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (head >= sizes.heads) return;
  double largest = found[head];
  for (std::int64_t row = 1; row < sizes.rows; ++row) largest = fmax(largest, found[row * sizes.heads + head]);
  maxima[head] = largest;
}

void score_maxima(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& segments, AttentionOptions options,
                  const Tensor& maxima, Scratch scratch) {
  const Sizes sizes{q.shape[1], k.shape[1], q.shape[2], q.shape[0] / options.sequence};
  auto* const found = reinterpret_cast<double*>(scratch.data());
  with_type(q.dtype, [&]<class T>(T) {
    launch(context, component, row_maxima<T>, dim3(static_cast<unsigned>(sizes.rows * sizes.heads)), dim3(kThreads), 0, q.as<T>(),
           k.as<T>(), segments.as<std::int32_t>(), options, sizes, found);
  });
  launch(context, component, head_maxima, dim3(blocks_of(sizes.heads, kThreads)), dim3(kThreads), 0, found, sizes, maxima.as<double>());
}

std::size_t score_maxima_scratch_bytes(const Shape& q, AttentionOptions options, const Processor&) {
  return static_cast<std::size_t>(q[0] / options.sequence * q[1]) * sizeof(double);
}

const InTable in_table[] = {
    {Backend::cuda, table::score_maxima, score_maxima},
    {Backend::cuda, table::score_maxima_scratch_bytes, score_maxima_scratch_bytes},
};

}  // namespace
}  // namespace millrace::kernels::cuda
