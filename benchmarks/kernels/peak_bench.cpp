// peak_bench [threads, default: the cores] [fp32|bf16]: the machine's peak as runs measure it, beside large square products
// called directly in oneDNN, with fp32 sums and the same number of threads. Prints a line for each, then JSON for
// compare_peers.sh: the peak, and the best of all.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "benchmarks/kernels/filled.hpp"
#include "benchmarks/kernels/plain_matmul.hpp"
#include "benchmarks/kernels/timing.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/cpu/matmul.hpp"
#include "kernels/peak.hpp"

namespace {

using namespace millrace::kernels;
using millrace::benchmarks::seconds_of;

/// GFLOP/s of oneDNN's size x size products whose second operand is transposed, like the weights of a forward.
double plain(DType dtype, std::int64_t size) {
  const Shape shape{size, size};
  const auto bytes = static_cast<std::size_t>(size * size) * sizeof(float);
  const Buffer memory(3 * bytes);
  const Tensor a{memory.data(), dtype, shape}, b{memory.data() + bytes, dtype, shape}, c{memory.data() + 2 * bytes, dtype, shape};
  millrace::benchmarks::fill(a);
  millrace::benchmarks::fill(b);
  millrace::benchmarks::PlainMatmul product(a, b, c, {.transpose_b = true});
  const double work = 2e-9 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
  const double speed = work / seconds_of([&] { product.run(); }, 0.1, 3);
  fmt::print("{} {:>5}: plain oneDNN {:>7.1f} GFLOP/s\n", to_string(dtype), size, speed);
  return speed;
}

}  // namespace

int main(int count, char** arguments) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int threads = count > 1 ? millrace::benchmarks::threads_from(count, arguments) : cores;
  const DType dtype = count > 2 && std::strcmp(arguments[2], "bf16") == 0 ? DType::bf16 : DType::f32;
  double peak = 0;
  for (int round = 0; round < 5; ++round) peak = std::max(peak, measured_peak_flops(dtype, threads) * 1e-9);
  fmt::print("{} peak {:.1f} GFLOP/s on {} threads, by {}\n", to_string(dtype), peak, threads, cpu::matmul_path(dtype));
  millrace::benchmarks::set_openmp_threads(threads);
  double best = peak;
  for (const std::int64_t size : {1024, 2048, 4096}) best = std::max(best, plain(dtype, size));
  fmt::print("{{\"peak\": {:.1f}, \"gflops\": {:.1f}}}\n", peak, best);
}
