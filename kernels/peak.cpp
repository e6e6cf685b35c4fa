#include "kernels/peak.hpp"

#include <algorithm>
#include <chrono>

#include "kernels/base/buffer.hpp"
#include "kernels/matmul.hpp"

namespace millrace::kernels {

double measured_peak_flops(DType dtype) {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t size = 512;
  const Shape shape{size, size};
  Buffer memory(3 * size * size * sizeof(float));
  const Tensor a{memory.data(), dtype, shape}, b{memory.data() + size * size * sizeof(float), dtype, shape};
  const Tensor c{memory.data() + 2 * size * size * sizeof(float), dtype, shape};
  ThreadTeam team(1);
  const Stream stream(team);
  const MatmulOptions options{.transpose_b = true};
  Buffer scratch(std::max<std::size_t>(1, matmul_scratch_bytes(shape, shape, dtype, dtype, options, 1)));
  double best = 1;
  matmul(stream, a, b, c, options, scratch.bytes());
  for (const auto end = Clock::now() + std::chrono::milliseconds(60); Clock::now() < end;) {
    const auto begin = Clock::now();
    matmul(stream, a, b, c, options, scratch.bytes());
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return 2.0 * size * size * size / best;
}

}  // namespace millrace::kernels
