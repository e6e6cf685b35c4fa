#include "kernels/count_matches.hpp"

#include "kernels/cuda/router_losses.cuh"

namespace millrace::kernels::cuda {
namespace {

struct Match {
  const std::int32_t* x;
  const std::int32_t* y;
  const std::int32_t* targets;

  __device__ double operator()(std::int64_t token) const { return targets[token] >= 0 && x[token] == y[token] ? 1.0 : 0.0; }
};

void count_matches(const ExecutionContext& context, const Tensor& x, const Tensor& y, const Tensor& targets, const Tensor& count) {
  sum_tokens(context, "kernels.count_matches", x.shape[0], Match{x.as<std::int32_t>(), y.as<std::int32_t>(), targets.as<std::int32_t>()},
             1.0, count.as<double>());
}

const InTable in_table[] = {
    {Backend::cuda, table::count_matches, count_matches},
};

}  // namespace
}  // namespace millrace::kernels::cuda
