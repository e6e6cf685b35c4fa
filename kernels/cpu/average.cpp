#include "kernels/average.hpp"

#include "kernels/cpu/average_loops.hpp"
#include "kernels/cpu/update_pointers.hpp"

namespace millrace::kernels::cpu {
namespace {

void move_average(const ExecutionContext& context, float share, const Tensor& x, const Tensor& average) {
  context.team().for_ranges(x.elements(), update_grain, [&](std::int64_t begin, std::int64_t end) {
    pick_move_average_range()(share, x.as<float>(), average.as<float>(), begin, end);
  });
}

void exchange(const ExecutionContext& context, const Tensor& a, const Tensor& b) {
  context.team().for_ranges(a.elements(), update_grain,
                            [&](std::int64_t begin, std::int64_t end) { pick_exchange_range()(a.as<float>(), b.as<float>(), begin, end); });
}

const InTable in_table[] = {
    {Backend::cpu, table::move_average, move_average},
    {Backend::cpu, table::exchange, exchange},
};

}  // namespace
}  // namespace millrace::kernels::cpu
