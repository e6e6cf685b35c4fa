// adamw_bench [threads]: one optimizer pass and one sum of squares over a tensor larger than the caches, in GB/s of the bytes
// that must be read and written, beside those of a plain copy.

#include <fmt/format.h>

#include "benchmarks/kernels/plain_copy.hpp"
#include "benchmarks/kernels/timing.hpp"
#include "kernels/adamw.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/base/cpu_features.hpp"
#include "kernels/square_sum.hpp"

int main(int count, char** arguments) {
  using namespace millrace::kernels;
  const int threads = millrace::benchmarks::threads_from(count, arguments);
  ThreadTeam team(threads);
  const ExecutionContext context(team);
  constexpr std::int64_t elements = 16 << 20;
  const Buffer p(elements * 4), m(elements * 4), v(elements * 4), gradient(elements * 4), copy(elements * 2);
  const auto tensor = [](const Buffer& buffer, DType dtype) { return make_tensor(buffer.data(), dtype, {elements}); };
  const double update = millrace::benchmarks::seconds_of([&] {
    const OptimizerTensors tensors{
        tensor(p, DType::f32), tensor(gradient, DType::f32), tensor(copy, DType::bf16), {tensor(m, DType::f32), tensor(v, DType::f32)}};
    adamw(context, {.learning_rate = 1e-3, .weight_decay = 0.1}, {&tensors, 1});
  });
  double sum = 0;
  const double norm = millrace::benchmarks::seconds_of([&] {
    double one = 0;
    square_sum(context, tensor(p, DType::f32), make_tensor(&one, DType::f64, {1}));
    sum += one;
  });
  fmt::print("{}, {} threads, {} parameters\n", describe(cpu_features()), threads, elements);
  constexpr double bytes = elements * 34.0;  // of an element 16 are read, 18 written
  fmt::print("adamw      {:7.2f} ms  {:6.1f} GB/s, copy {:6.1f} GB/s\n", 1e3 * update, bytes / update * 1e-9,
             millrace::benchmarks::copy_rate(team, bytes));
  fmt::print("square sum {:7.2f} ms  {:6.1f} GB/s (sum {:g})\n", 1e3 * norm, elements * 4e-9 / norm, sum);
}
