#include "kernels/group_offsets.hpp"

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

void group_counts(const Tensor& offsets, const Tensor& counts) {
  for (std::int64_t g = 0; g < counts.elements(); ++g)
    counts.as<std::int32_t>()[g] = offsets.as<std::int32_t>()[g + 1] - offsets.as<std::int32_t>()[g];
}

void group_offsets(const Tensor& counts, const Tensor& offsets) {
  for (std::int64_t g = 0; g <= counts.elements(); ++g) {
    std::int32_t before = 0;
    for (std::int64_t other = 0; other < g; ++other) before += counts.as<std::int32_t>()[other];
    offsets.as<std::int32_t>()[g] = before;
  }
}

const InTable group_offsets_in_table[] = {
    {Backend::reference, table::group_counts, without_context<group_counts>},
    {Backend::reference, table::group_offsets, without_context<group_offsets>},
};

}  // namespace
}  // namespace millrace::kernels::reference
