#include "benchmarks/cuda/bench.hpp"
#include "kernels/embedding.hpp"
#include "kernels/linear_cross_entropy.hpp"

// What grows with the vocabulary, at one of 128 k tokens: the embedding's gradient, and the head with its loss.
namespace millrace::benchmarks::cuda {

void measure_vocabulary(Bench& bench, const Sizes& sizes) {
  if (!bench.wanted("vocabulary")) return;
  constexpr auto bf16 = DType::bf16, f32 = DType::f32;
  const ExecutionContext& context = bench.context();
  const std::int64_t t = sizes.tokens, d = sizes.hidden, vocabulary = 4 * sizes.vocabulary;
  const auto name = fmt::format("vocabulary of {}", vocabulary);
  const double row = 2.0 * static_cast<double>(t) * static_cast<double>(d);
  const Tensor h = bench.tensor(bf16, {t, d}), dh = bench.tensor(bf16, h.shape), w = bench.tensor(bf16, {vocabulary, d});
  const Tensor dw = bench.tensor(f32, w.shape), tokens = bench.integers(t, vocabulary), frequent = bench.integers(t, 16);
  bench.traffic(name + ", embedding", 2 * row, [&] { embedding_forward(context, tokens, w, h); });
  bench.traffic(name + ", embedding's gradient", 5 * row, [&] { embedding_weight_gradient(context, tokens, h, dw); });
  bench.traffic(name + ", its gradient, 16 tokens", row, [&] { embedding_weight_gradient(context, frequent, h, dw); });
  const Tensor g = bench.tensor(f32, {1}), log_sum_exp = bench.tensor(f32, {t});
  const Tensor loss{bench.scratch(2 * sizeof(double)).data(), DType::f64, {2}, MemorySpace::device};
  const CrossEntropyOptions options;
  const Scratch scratch = bench.scratch(linear_cross_entropy_scratch_bytes(h.shape, w.shape, bf16, options, context.processor()));
  const double product = 2.0 * static_cast<double>(t) * static_cast<double>(vocabulary) * static_cast<double>(d);
  bench.products(name + ", head forward", bf16, product,
                 [&] { linear_cross_entropy_forward(context, h, w, tokens, options, loss, log_sum_exp, scratch); });
  bench.products(name + ", head gradients", bf16, 3 * product,
                 [&] { linear_cross_entropy_gradients(context, h, w, tokens, g, options, dh, loss, log_sum_exp, dw, scratch); });
  bench.release();
}

}  // namespace millrace::benchmarks::cuda
