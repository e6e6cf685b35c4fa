// linear_cross_entropy_bench [threads]: the output head with its loss: in the evaluation, in I (loss and dh) and in W (dw). GFLOP/s count
// one product in the first and two in either other.

#include <fmt/format.h>

#include "benchmarks/kernels/filled.hpp"
#include "benchmarks/kernels/timing.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/base/cpu_features.hpp"
#include "kernels/linear_cross_entropy.hpp"

namespace {

using namespace millrace::kernels;

struct Owned {
  Buffer memory;
  Tensor tensor;
  Owned(DType dtype, Shape shape)
      : memory(static_cast<std::size_t>(shape.elements()) * size_of(dtype)), tensor(make_tensor(memory.data(), dtype, shape)) {}
};

void measure(ThreadTeam& team, DType dtype, std::int64_t tokens, std::int64_t width, std::int64_t vocabulary) {
  const Stream stream(team);
  Owned h(dtype, {tokens, width}), w(dtype, {vocabulary, width}), targets(DType::i32, {tokens}), loss(DType::f64, {2});
  Owned log_sum_exp(DType::f32, {tokens}), g(DType::f32, {1}), dh(dtype, {tokens, width}), dw(DType::f32, {vocabulary, width});
  millrace::benchmarks::fill(h.tensor);
  millrace::benchmarks::fill(w.tensor);
  g.tensor.as<float>()[0] = 1.0F / static_cast<float>(tokens);
  const Buffer scratch(linear_cross_entropy_scratch_bytes(h.tensor.shape, w.tensor.shape, dtype, {}, team.size()));
  const double forward = millrace::benchmarks::seconds_of([&] {
    linear_cross_entropy_forward(stream, h.tensor, w.tensor, targets.tensor, {}, loss.tensor, log_sum_exp.tensor, scratch.bytes());
  });
  const double input = millrace::benchmarks::seconds_of([&] {
    linear_cross_entropy_input_gradient(stream, h.tensor, w.tensor, targets.tensor, g.tensor, {}, dh.tensor, loss.tensor,
                                        log_sum_exp.tensor, scratch.bytes());
  });
  const double weight = millrace::benchmarks::seconds_of([&] {
    linear_cross_entropy_weight_gradient(stream, h.tensor, w.tensor, targets.tensor, log_sum_exp.tensor, g.tensor, {}, dw.tensor,
                                         scratch.bytes());
  });
  const double flops = 2.0 * static_cast<double>(tokens) * static_cast<double>(width) * static_cast<double>(vocabulary);
  fmt::print(
      "{} tokens, width {}, vocabulary {}, {}: forward {:.2f} ms ({:.1f} GFLOP/s), I {:.2f} ms ({:.1f}), W {:.2f} ms ({:.1f}), scratch "
      "{:.1f} "
      "MiB\n",
      tokens, width, vocabulary, to_string(dtype), 1e3 * forward, flops / forward * 1e-9, 1e3 * input, 2 * flops / input * 1e-9,
      1e3 * weight, 2 * flops / weight * 1e-9, static_cast<double>(scratch.size()) / (1 << 20));
}

}  // namespace

int main(int count, char** arguments) {
  const int threads = millrace::benchmarks::threads_from(count, arguments);
  ThreadTeam team(threads);
  fmt::print("{}, {} threads\n", describe(cpu_features()), threads);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    measure(team, dtype, 2048, 512, 257);
    measure(team, dtype, 2048, 512, 8192);
  }
}
