// muon_bench [threads]: an update by Muon, matrix by matrix, beside the products of its iteration alone, in one run. The ratio is what
// momentum, norm, polynomial and step cost on top of the products.

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "benchmarks/kernels/filled.hpp"
#include "benchmarks/kernels/timing.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/base/cpu_features.hpp"
#include "kernels/matmul.hpp"
#include "kernels/muon.hpp"

namespace {

using namespace millrace::kernels;

struct Times {
  double update = 0, products = 0;
};

/// The products of one update: as many, of the same shapes, on the same memory.
void multiply(const ExecutionContext& context, const MatrixForm& form, const Buffer& x, const Buffer& next, const Buffer& gram,
              const Buffer& square, Scratch scratch) {
  const bool wide = form.rows <= form.columns;
  const std::int64_t side = std::min(form.rows, form.columns);
  const auto matrix = [&](const Buffer& buffer) { return make_tensor(buffer.data(), DType::f32, {form.rows, form.columns}); };
  const Tensor a = make_tensor(gram.data(), DType::f32, {side, side}), b = make_tensor(square.data(), DType::f32, {side, side});
  for (std::int64_t i = 0; i < form.count; ++i) {
    Tensor from = matrix(x), to = matrix(next);
    for (int iteration = 0; iteration < newton_schulz_iterations; ++iteration) {
      matmul(context, from, from, a, {.transpose_a = !wide, .transpose_b = wide}, scratch);
      matmul(context, a, a, b, {}, scratch);
      wide ? matmul(context, b, from, to, {}, scratch) : matmul(context, from, b, to, {}, scratch);
      std::swap(from, to);
    }
  }
}

Times measure(const ExecutionContext& context, const MatrixForm& form) {
  const std::int64_t elements = form.count * form.rows * form.columns, side = std::min(form.rows, form.columns);
  const auto bytes = static_cast<std::size_t>(elements) * 4, one = static_cast<std::size_t>(form.rows * form.columns) * 4;
  const auto square_bytes = static_cast<std::size_t>(side * side) * 4;
  const Buffer p(bytes), m(bytes), gradient(bytes), copy(bytes / 2), scratch(muon_scratch_bytes(form, context.processor()));
  const Buffer x(one), next(one), gram(square_bytes), square(square_bytes), product_scratch(scratch.size());
  const auto tensor = [&](const Buffer& buffer, DType dtype) {
    return make_tensor(buffer.data(), dtype, {form.count, form.rows, form.columns});
  };
  const OptimizerTensors all{
      tensor(p, DType::f32), tensor(gradient, DType::f32), tensor(copy, DType::bf16), {tensor(m, DType::f32)}, true, form};
  millrace::benchmarks::fill(make_tensor(x.data(), DType::f32, {form.rows, form.columns}));
  Times best{1e30, 1e30};
  for (int round = 0; round < 5; ++round) {  // in turn, so that a disturbance meets both
    millrace::benchmarks::fill(tensor(gradient, DType::f32));
    best.update = std::min(best.update, millrace::benchmarks::seconds_of(
                                            [&] {
                                              muon(context, {.learning_rate = 1e-3, .weight_decay = 0.1}, {&all, 1}, scratch.bytes());
                                            },
                                            0.02, 3));
    best.products = std::min(best.products, millrace::benchmarks::seconds_of(
                                                [&] { multiply(context, form, x, next, gram, square, product_scratch.bytes()); }, 0.02, 3));
  }
  return best;
}

}  // namespace

int main(int count, char** arguments) {
  const int threads = millrace::benchmarks::threads_from(count, arguments);
  ThreadTeam team(threads);
  const ExecutionContext context(team);
  fmt::print("{}, {} threads, fp32\n", describe(cpu_features()), threads);
  fmt::print("{:>5} {:>7} {:>7} {:>12} {:>12} {:>10} {:>8}\n", "count", "rows", "columns", "update ms", "products ms", "GFLOP/s", "ratio");
  for (const MatrixForm& form : std::vector<MatrixForm>{{1, 512, 512},
                                                        {1, 512, 1408},
                                                        {1, 1408, 512},
                                                        {1, 768, 3072},
                                                        {1, 1024, 1024},
                                                        {1, 1024, 4096},
                                                        {1, 4096, 1024},
                                                        {1, 2048, 2048},
                                                        {8, 512, 1024}}) {
    const Times times = measure(context, form);
    const double side = static_cast<double>(std::min(form.rows, form.columns)),
                 other = static_cast<double>(std::max(form.rows, form.columns));
    const double flops = static_cast<double>(form.count) * newton_schulz_iterations * (4 * side * side * other + 2 * side * side * side);
    fmt::print("{:>5} {:>7} {:>7} {:>12.3f} {:>12.3f} {:>10.1f} {:>8.3f}\n", form.count, form.rows, form.columns, 1e3 * times.update,
               1e3 * times.products, flops / times.products * 1e-9, times.update / times.products);
  }
}
