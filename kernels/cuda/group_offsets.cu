#include "kernels/group_offsets.hpp"

#include "kernels/cuda/launch.cuh"

namespace millrace::kernels::cuda {
namespace {

/// One thread for each count.
struct GroupCounts {
  const std::int32_t* offsets;
  std::int32_t* counts;
  std::int64_t groups;

  __device__ void operator()(std::int64_t i) const { counts[i] = offsets[i % groups + 1] - offsets[i % groups]; }
};

/// One thread for each offset adds up all counts before it: there are few groups.
struct GroupOffsets {
  const std::int32_t* counts;
  std::int32_t* offsets;

  __device__ void operator()(std::int64_t g) const {
    std::int32_t before = 0;
    for (std::int64_t other = 0; other < g; ++other) before += counts[other];
    offsets[g] = before;
  }
};

void group_counts(const ExecutionContext& context, const Tensor& offsets, const Tensor& counts) {
  for_each(context, "kernels.group_counts", counts.elements(),
           GroupCounts{offsets.as<std::int32_t>(), counts.as<std::int32_t>(), offsets.elements() - 1});
}

void group_offsets(const ExecutionContext& context, const Tensor& counts, const Tensor& offsets) {
  for_each(context, "kernels.group_offsets", offsets.elements(), GroupOffsets{counts.as<std::int32_t>(), offsets.as<std::int32_t>()});
}

const InTable in_table[] = {
    {Backend::cuda, table::group_counts, group_counts},
    {Backend::cuda, table::group_offsets, group_offsets},
};

}  // namespace
}  // namespace millrace::kernels::cuda
