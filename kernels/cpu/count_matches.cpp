#include "kernels/count_matches.hpp"

namespace millrace::kernels::cpu {
namespace {

void count_matches(const ExecutionContext& /*context*/, const Tensor& x, const Tensor& y, const Tensor& targets, const Tensor& count) {
  std::int64_t matches = 0;
  for (std::int64_t i = 0; i < x.shape[0]; ++i)
    if (targets.as<std::int32_t>()[i] >= 0 && x.as<std::int32_t>()[i] == y.as<std::int32_t>()[i]) ++matches;
  count.as<double>()[0] = static_cast<double>(matches);
}

// One loop is both the reference and the fast implementation: it has no sum whose order could differ.
const InTable in_table[] = {
    {Backend::reference, table::count_matches, count_matches},
    {Backend::cpu, table::count_matches, count_matches},
};

}  // namespace
}  // namespace millrace::kernels::cpu
