#include "kernels/group_offsets.hpp"

#include <limits>

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check_counts_and_offsets(const char* component, const Tensor& counts, const Tensor& offsets, std::int64_t groups) {
  check_operand(component, "counts", counts, counts.shape, {DType::i32});
  check_operand(component, "offsets", offsets, {groups + 1}, {DType::i32});
}

}  // namespace

void group_counts(const ExecutionContext& context, const Tensor& offsets, const Tensor& counts) {
  constexpr const char* component = "kernels.group_counts";
  const std::int64_t groups = offsets.elements() - 1;
  check_counts_and_offsets(component, counts, offsets, groups);
  MILLRACE_CHECK(groups >= 1 && counts.elements() % groups == 0, ExitCode::internal, component,
                 "{} counts of {} groups, expected one or more for each", counts.elements(), groups);
  table::group_counts(context, offsets, counts);
}

void group_offsets(const ExecutionContext& context, const Tensor& counts, const Tensor& offsets) {
  constexpr const char* component = "kernels.group_offsets";
  check_counts_and_offsets(component, counts, offsets, counts.elements());
  if (context.host_readable()) {
    std::int64_t rows = 0;
    for (std::int64_t g = 0; g < counts.elements(); ++g) {
      const std::int32_t count = counts.as<std::int32_t>()[g];
      MILLRACE_CHECK(count >= 0, ExitCode::internal, component, "count {} is {}, expected 0 or more", g, count);
      rows += count;
    }
    MILLRACE_CHECK(rows <= std::numeric_limits<std::int32_t>::max(), ExitCode::internal, component,
                   "the groups have {} rows, expected fewer than 2^31", rows);
  }
  table::group_offsets(context, counts, offsets);
}

}  // namespace millrace::kernels
