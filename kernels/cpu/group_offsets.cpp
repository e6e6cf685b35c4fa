#include "kernels/group_offsets.hpp"

namespace millrace::kernels::cpu {
namespace {

void group_counts(const ExecutionContext& /*context*/, const Tensor& offsets, const Tensor& counts) {
  const auto* offset = offsets.as<std::int32_t>();
  auto* count = counts.as<std::int32_t>();
  const std::int64_t groups = offsets.elements() - 1;
  for (std::int64_t i = 0; i < counts.elements(); ++i) count[i] = offset[i % groups + 1] - offset[i % groups];
}

void group_offsets(const ExecutionContext& /*context*/, const Tensor& counts, const Tensor& offsets) {
  const auto* count = counts.as<std::int32_t>();
  auto* offset = offsets.as<std::int32_t>();
  offset[0] = 0;
  for (std::int64_t g = 0; g < counts.elements(); ++g) offset[g + 1] = offset[g] + count[g];
}

// Integers: one loop is both the reference and the fast implementation.
const InTable group_offsets_in_table[] = {
    {Backend::cpu, table::group_counts, group_counts},
    {Backend::cpu, table::group_offsets, group_offsets},
    {Backend::reference, table::group_counts, group_counts},
    {Backend::reference, table::group_offsets, group_offsets},
};

}  // namespace
}  // namespace millrace::kernels::cpu
