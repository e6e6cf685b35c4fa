#include "kernels/shift_left.hpp"

namespace millrace::kernels::cpu {
namespace {

void shift_left(const ExecutionContext& context, const Tensor& x, const Tensor& segments, ShiftOptions options, const Tensor& y) {
  context.team().for_ranges(x.shape[0], 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t token = i % options.sequence;
      const std::int32_t* row = segments.as<std::int32_t>() + (i - token);
      y.as<std::int32_t>()[i] = may_shift(row, token, options) ? x.as<std::int32_t>()[i + options.distance] : options.filling;
    }
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::shift_left, shift_left},
};

}  // namespace
}  // namespace millrace::kernels::cpu
