#include "kernels/shift_left.hpp"

#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

struct ShiftToken {
  const std::int32_t* x;
  const std::int32_t* segments;
  std::int32_t* y;
  ShiftOptions options;

  __device__ void operator()(std::int64_t index) const {
    const std::int64_t token = index % options.sequence;
    y[index] = may_shift(segments + (index - token), token, options) ? x[index + options.distance] : options.filling;
  }
};

void shift_left(const ExecutionContext& context, const Tensor& x, const Tensor& segments, ShiftOptions options, const Tensor& y) {
  for_each(context, "kernels.shift_left", x.shape[0],
           ShiftToken{x.as<std::int32_t>(), segments.as<std::int32_t>(), y.as<std::int32_t>(), options});
}

const InTable in_table[] = {
    {Backend::cuda, table::shift_left, shift_left},
};

}  // namespace
}  // namespace millrace::kernels::cuda
