// peak_bench [threads=2] [fp32|bf16]: what the machine multiplies at best: large square products of millrace and of plain oneDNN, fp32
// sums, on as many threads. A line for each, then JSON with the best of them for compare_peers.sh.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "benchmarks/kernels/filled.hpp"
#include "benchmarks/kernels/plain_matmul.hpp"
#include "benchmarks/kernels/timing.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/matmul.hpp"

namespace {

using namespace millrace::kernels;
using millrace::benchmarks::seconds_of;

/// GFLOP/s, the better of both, of size x size products whose second operand is transposed, as the weights of a forward are.
double measure(ThreadTeam& team, DType dtype, std::int64_t size) {
  const Shape shape{size, size};
  const auto bytes = static_cast<std::size_t>(size * size) * sizeof(float);
  const Buffer memory(3 * bytes);
  const Tensor a{memory.data(), dtype, shape}, b{memory.data() + bytes, dtype, shape}, c{memory.data() + 2 * bytes, dtype, shape};
  millrace::benchmarks::fill(a);
  millrace::benchmarks::fill(b);
  const MatmulOptions options{.transpose_b = true};
  const Buffer scratch(std::max<std::size_t>(1, matmul_scratch_bytes(shape, shape, dtype, dtype, options, team.size())));
  const Stream stream(team);
  const double work = 2e-9 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
  millrace::benchmarks::set_openmp_threads(1);
  const double ours = work / seconds_of([&] { matmul(stream, a, b, c, options, scratch.bytes()); }, 0.1, 3);
  millrace::benchmarks::set_openmp_threads(team.size());
  millrace::benchmarks::PlainMatmul plain(a, b, c, options);
  const double theirs = work / seconds_of([&] { plain.run(); }, 0.1, 3);
  fmt::print("{} {:>5}: millrace {:>7.1f}, plain oneDNN {:>7.1f} GFLOP/s\n", to_string(dtype), size, ours, theirs);
  return std::max(ours, theirs);
}

}  // namespace

int main(int count, char** arguments) {
  ThreadTeam team(millrace::benchmarks::threads_from(count, arguments));
  const DType dtype = count > 2 && std::strcmp(arguments[2], "bf16") == 0 ? DType::bf16 : DType::f32;
  double best = 0;
  for (const std::int64_t size : {1024, 2048, 4096}) best = std::max(best, measure(team, dtype, size));
  fmt::print("{{\"gflops\": {:.1f}}}\n", best);
}
