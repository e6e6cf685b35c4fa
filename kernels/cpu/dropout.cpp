#include "kernels/dropout.hpp"

#include "kernels/base/dropout_mask.hpp"

namespace millrace::kernels::cpu {
namespace {

template <class T>
void rows(const Tensor& x, const Tensor& samples, DropoutOptions options, const Tensor& y, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = x.shape[1];
  const float factor = 1.0F / (1.0F - options.rate);
  for (std::int64_t token = begin; token < end; ++token) {
    const T* from = x.as<T>() + token * width;
    T* to = y.as<T>() + token * width;
    const std::int32_t sample = samples.as<std::int32_t>()[token];
    const std::uint64_t key = dropout_key(sample, options.site);
    for (std::int64_t i = 0; i < width; ++i)
      to[i] = sample == 0 ? from[i] : from_float<T>(dropout_keeps(key, options.rate, i) ? to_float(from[i]) * factor : 0.0F);
  }
}

void dropout(const ExecutionContext& context, const Tensor& x, const Tensor& samples, DropoutOptions options, const Tensor& y) {
  context.team().for_ranges(x.shape[0], 8, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      rows<float>(x, samples, options, y, begin, end);
    else
      rows<BFloat16>(x, samples, options, y, begin, end);
  });
}

// One loop is both the reference and the fast implementation: it has no sum whose order could differ.
const InTable in_table[] = {
    {Backend::reference, table::dropout, dropout},
    {Backend::cpu, table::dropout, dropout},
};

}  // namespace
}  // namespace millrace::kernels::cpu
