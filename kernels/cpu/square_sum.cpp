#include "kernels/square_sum.hpp"

#include <algorithm>
#include <array>

#include "kernels/cpu/square_sum_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

double square_sum(const ExecutionContext& context, const Tensor& x) {
  constexpr std::int64_t chunk = 4096;
  constexpr std::int64_t chunks_a_round = 1024;  // their sums are on the stack, so nothing is allocated for a tensor of any size
  std::array<double, chunks_a_round> sums;
  const float* values = x.as<float>();
  const std::int64_t elements = x.elements();
  const std::int64_t chunks = (elements + chunk - 1) / chunk;
  double total = 0;
  for (std::int64_t first = 0; first < chunks; first += chunks_a_round) {
    const std::int64_t round = std::min(chunks_a_round, chunks - first);
    context.team().for_ranges(round, 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t offset = (first + i) * chunk;
        sums[static_cast<std::size_t>(i)] = pick_square_sum_chunk()(values + offset, std::min(chunk, elements - offset));
      }
    });
    for (std::int64_t i = 0; i < round; ++i) total += sums[static_cast<std::size_t>(i)];
  }
  return total;
}

void square_sums(const ExecutionContext& context, std::span<const Tensor> tensors, const Tensor& sums) {
  for (std::size_t i = 0; i < tensors.size(); ++i) sums.as<double>()[i] = square_sum(context, tensors[i]);
}

const InTable in_table[] = {
    {Backend::cpu, table::square_sums, square_sums},
};

}  // namespace
}  // namespace millrace::kernels::cpu
