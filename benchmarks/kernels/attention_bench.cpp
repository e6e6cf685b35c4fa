// attention_bench [threads]: GFLOP/s of attention forward and backward. A product over the lower triangle counts S·(S+1)/2·D·2
// per head: two in the forward, five in the backward. Only work that a causal model needs counts, so time spent on masked halves
// of tiles lowers the result.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "kernels/attention.hpp"
#include "kernels/base/buffer.hpp"

namespace {

using namespace millrace::kernels;

struct Case {
  std::int64_t rows, sequence, heads, kv_heads, width;
  DType dtype;
};

Tensor random_tensor(std::vector<Buffer>& buffers, DType dtype, const Shape& shape, std::uint32_t seed) {
  Tensor tensor{nullptr, dtype, shape, MemorySpace::host};
  buffers.emplace_back(tensor.bytes());
  tensor.data = buffers.back().data();
  for (std::int64_t i = 0; i < tensor.elements() && dtype != DType::i32; ++i) {
    seed = seed * 1664525U + 1013904223U;
    const float value = static_cast<float>(seed >> 8) / 8388608.0F - 1.0F;
    if (dtype == DType::bf16)
      tensor.as<BFloat16>()[i] = to_bfloat16(value);
    else
      tensor.as<float>()[i] = value;
  }
  return tensor;
}

// The best of several runs, since other work on the machine only adds time.
template <class Body>
double seconds_of(Body&& body) {
  double best = 1e30;
  double total = 0;
  for (int repeat = 0; repeat < 20 && total < 1.0; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::min(best, seconds);
    total += seconds;
  }
  return best;
}

void measure(const ExecutionContext& context, const Case& c) {
  std::vector<Buffer> buffers;
  const std::int64_t tokens = c.rows * c.sequence;
  const Shape query{tokens, c.heads, c.width};
  const Shape key{tokens, c.kv_heads, c.width};
  const auto make = [&](DType dtype, const Shape& shape, std::uint32_t seed) { return random_tensor(buffers, dtype, shape, seed); };
  const Tensor q = make(c.dtype, query, 1), k = make(c.dtype, key, 2), v = make(c.dtype, key, 3), d_o = make(c.dtype, query, 4);
  const Tensor o = make(c.dtype, query, 5), dq = make(c.dtype, query, 6), dk = make(c.dtype, key, 7), dv = make(c.dtype, key, 8);
  const Tensor segments = make(DType::i32, {tokens}, 0), sums = make(DType::f32, {tokens, c.heads}, 0);
  const AttentionOptions options{.sequence = c.sequence, .scale = 0.125F};
  const Buffer scratch(attention_scratch_bytes(query, key, c.dtype, options, context.threads()));
  const double forward = seconds_of([&] { attention_forward(context, q, k, v, segments, options, o, sums, scratch.bytes()); });
  const double backward =
      seconds_of([&] { attention_input_gradient(context, d_o, q, k, v, o, sums, segments, options, dq, dk, dv, scratch.bytes()); });
  const double product = static_cast<double>(c.rows * c.heads * c.width) * static_cast<double>(c.sequence * (c.sequence + 1));
  fmt::print("{:4} {:5} {:3} {:3} {:4}  {:4}   {:9.3f} {:8.1f}   {:9.3f} {:8.1f}\n", c.rows, c.sequence, c.heads, c.kv_heads, c.width,
             to_string(c.dtype), forward * 1e3, 2 * product / forward * 1e-9, backward * 1e3, 5 * product / backward * 1e-9);
}

}  // namespace

int main(int argc, char** argv) {
  ThreadTeam team(argc > 1 ? std::max(1, std::atoi(argv[1])) : 2);
  const ExecutionContext context(team);
  fmt::print("{} threads\n   B     S   H   K    D  type  forward ms  GFLOP/s  backward ms  GFLOP/s\n", team.size());
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t sequence : {128, 256, 512, 1024, 2048, 4096})
      measure(context, {std::max<std::int64_t>(1, 2048 / sequence), sequence, 8, 4, 64, dtype});
  for (const DType dtype : {DType::f32, DType::bf16}) {
    measure(context, {4, 512, 4, 2, 128, dtype});
    measure(context, {4, 512, 8, 4, 32, dtype});
  }
  measure(context, {1, 2048, 4, 2, 128, DType::bf16});
  measure(context, {1, 16384, 2, 1, 64, DType::bf16});
  return 0;
}
