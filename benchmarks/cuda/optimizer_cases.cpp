#include "benchmarks/cuda/bench.hpp"
#include "kernels/adamw.hpp"
#include "kernels/muon.hpp"

// Updates of the optimizers.
namespace millrace::benchmarks::cuda {
namespace {

void adamw_case(Bench& bench, const Sizes& sizes) {
  if (!bench.wanted("adamw")) return;
  const Shape shape{sizes.mlp, sizes.hidden};
  std::vector<OptimizerTensors> tensors;
  std::int64_t parameters = 0;
  for (; parameters < sizes.parameters; parameters += shape.elements()) {
    OptimizerTensors one;
    for (Tensor* const each : {&one.parameter, &one.states[0], &one.states[1], &one.gradient}) *each = bench.tensor(DType::f32, shape);
    one.copy = bench.tensor(DType::bf16, shape);
    tensors.push_back(one);
  }
  AdamwScalars scalars;
  scalars.learning_rate = 1e-6;
  // p, m, v and the gradient are read and written, the copy is written.
  bench.traffic(fmt::format("adamw {:.3f} G parameters in {} tensors", static_cast<double>(parameters) * 1e-9, tensors.size()),
                34.0 * static_cast<double>(parameters), [&] { adamw(bench.context(), scalars, tensors); });
  bench.release();
}

/// The FLOPs are those of the iteration's products, which are fp32.
void muon_case(Bench& bench, std::int64_t rows, std::int64_t columns) {
  const auto name = fmt::format("muon {} x {}", rows, columns);
  if (!bench.wanted(name)) return;
  OptimizerTensors one;
  const Shape shape{rows, columns};
  for (Tensor* const each : {&one.parameter, &one.states[0], &one.gradient}) *each = bench.tensor(DType::f32, shape);
  one.copy = bench.tensor(DType::bf16, shape);
  one.matrices = {1, rows, columns};
  const Scratch scratch = bench.scratch(muon_scratch_bytes(one.matrices, bench.context().processor()));
  const double side = static_cast<double>(std::min(rows, columns)), other = static_cast<double>(std::max(rows, columns));
  bench.products(name, DType::f32, newton_schulz_iterations * (4 * side * side * other + 2 * side * side * side), [&] {
    muon(bench.context(), {.learning_rate = 1e-6}, {&one, 1}, scratch);
  });
  bench.release();
}

}  // namespace

void measure_optimizers(Bench& bench, const Sizes& sizes) {
  adamw_case(bench, sizes);
  muon_case(bench, sizes.hidden, sizes.hidden);
  muon_case(bench, sizes.mlp, sizes.hidden);
}

}  // namespace millrace::benchmarks::cuda
