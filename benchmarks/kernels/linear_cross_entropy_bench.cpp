// linear_cross_entropy_bench [threads]: the output head with its loss, in the evaluation, in I (loss and dh), in W (dw) and in B
// (all three). GFLOP/s count one product in the evaluation, two each in I and W, and three in B; a fourth product that B may need
// is not counted.

#include <fmt/format.h>

#include "benchmarks/kernels/filled.hpp"
#include "benchmarks/kernels/owned_tensor.hpp"
#include "benchmarks/kernels/timing.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/base/cpu_features.hpp"
#include "kernels/linear_cross_entropy.hpp"

namespace {

using namespace millrace::kernels;

using Owned = millrace::benchmarks::OwnedTensor;

void measure(ThreadTeam& team, DType dtype, std::int64_t tokens, std::int64_t width, std::int64_t vocabulary) {
  const ExecutionContext context(team);
  Owned h(dtype, {tokens, width}), w(dtype, {vocabulary, width}), targets(DType::i32, {tokens}), loss(DType::f64, {2});
  Owned log_sum_exp(DType::f32, {tokens}), g(DType::f32, {1}), dh(dtype, {tokens, width}), dw(DType::f32, {vocabulary, width});
  millrace::benchmarks::fill(h.tensor);
  millrace::benchmarks::fill(w.tensor);
  g.tensor.as<float>()[0] = 1.0F / static_cast<float>(tokens);
  const Buffer scratch(linear_cross_entropy_scratch_bytes(h.tensor.shape, w.tensor.shape, dtype, {}, team.size()));
  const double forward = millrace::benchmarks::seconds_of([&] {
    linear_cross_entropy_forward(context, h.tensor, w.tensor, targets.tensor, {}, loss.tensor, log_sum_exp.tensor, scratch.bytes());
  });
  const double input = millrace::benchmarks::seconds_of([&] {
    linear_cross_entropy_input_gradient(context, h.tensor, w.tensor, targets.tensor, g.tensor, {}, dh.tensor, loss.tensor,
                                        log_sum_exp.tensor, scratch.bytes());
  });
  const double weight = millrace::benchmarks::seconds_of([&] {
    linear_cross_entropy_weight_gradient(context, h.tensor, w.tensor, targets.tensor, log_sum_exp.tensor, g.tensor, {}, dw.tensor,
                                         scratch.bytes());
  });
  const double both = millrace::benchmarks::seconds_of([&] {
    linear_cross_entropy_gradients(context, h.tensor, w.tensor, targets.tensor, g.tensor, {}, dh.tensor, loss.tensor, log_sum_exp.tensor,
                                   dw.tensor, scratch.bytes());
  });
  const double flops = 2.0 * static_cast<double>(tokens) * static_cast<double>(width) * static_cast<double>(vocabulary);
  const auto part = [flops](const char* name, double seconds, int products) {
    fmt::print(" {} {:.2f} ms ({:.1f} GFLOP/s)", name, 1e3 * seconds, products * flops / seconds * 1e-9);
  };
  fmt::print("{} tokens, width {}, vocabulary {}, {}, scratch {:.1f} MiB:", tokens, width, vocabulary, to_string(dtype),
             static_cast<double>(scratch.size()) / (1 << 20));
  part("forward", forward, 1);
  part("I", input, 2);
  part("W", weight, 2);
  part("B", both, 3);
  fmt::print("\n");
}

}  // namespace

int main(int count, char** arguments) {
  const int threads = millrace::benchmarks::threads_from(count, arguments);
  ThreadTeam team(threads);
  fmt::print("{}, {} threads\n", describe(cpu_features()), threads);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    measure(team, dtype, 2048, 512, 257);
    measure(team, dtype, 2048, 512, 8192);
    measure(team, dtype, 512, 512, 8192);
  }
}
