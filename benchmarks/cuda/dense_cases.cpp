#include "benchmarks/cuda/bench.hpp"
#include "kernels/activation.hpp"
#include "kernels/attention.hpp"
#include "kernels/linear_cross_entropy.hpp"
#include "kernels/matmul.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rope.hpp"

// The kernels of a dense decoder layer, its output head, and a copy for comparison.
namespace millrace::benchmarks::cuda {
namespace {

void matmul_case(Bench& bench, const std::string& what, std::int64_t m, std::int64_t n, std::int64_t k, DType operands, DType result,
                 MatmulOptions options) {
  const auto name = fmt::format("matmul {} {} x {} x {} {} -> {}", what, m, n, k, to_string(operands), to_string(result));
  if (!bench.wanted(name)) return;
  const Tensor a = bench.tensor(operands, options.transpose_a ? Shape{k, m} : Shape{m, k});
  const Tensor b = bench.tensor(operands, options.transpose_b ? Shape{n, k} : Shape{k, n});
  const Tensor c = bench.tensor(result, {m, n});
  const Scratch scratch = bench.scratch(matmul_scratch_bytes(a.shape, b.shape, operands, result, options, bench.context().processor()));
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  bench.products(name, operands, flops, [&] { matmul(bench.context(), a, b, c, options, scratch); });
  bench.release();
}

void matmuls(Bench& bench, const Sizes& sizes) {
  constexpr auto bf16 = DType::bf16, f32 = DType::f32;
  const std::int64_t t = sizes.tokens, d = sizes.hidden;
  struct Weight {
    const char* name;
    std::int64_t out, in;
  };
  for (const Weight& weight : {Weight{"q, o", d, d}, {"k, v", sizes.kv, d}, {"gate, up", sizes.mlp, d}, {"down", d, sizes.mlp}}) {
    matmul_case(bench, fmt::format("forward {}", weight.name), t, weight.out, weight.in, bf16, bf16, {.transpose_b = true});
    matmul_case(bench, fmt::format("dx {}", weight.name), t, weight.in, weight.out, bf16, bf16, {});
    matmul_case(bench, fmt::format("dw {}", weight.name), weight.out, weight.in, t, bf16, f32, {.transpose_a = true, .accumulate = true});
  }
  matmul_case(bench, "square", sizes.square, sizes.square, sizes.square, bf16, bf16, {.transpose_b = true});
  matmul_case(bench, "square", sizes.square / 2, sizes.square / 2, sizes.square / 2, f32, f32, {.transpose_b = true});
}

void attention(Bench& bench, const Sizes& sizes, std::int64_t width) {
  const auto name = fmt::format("attention S {} D {}", sizes.sequence, width);
  if (!bench.wanted(name)) return;
  const std::int64_t t = sizes.tokens, heads = std::max<std::int64_t>(sizes.hidden / width, 1),
                     kv_heads = std::max<std::int64_t>(heads / 4, 1);
  const AttentionOptions options{.sequence = sizes.sequence, .scale = 0.125F, .one_segment = true};
  const Shape q_shape{t, heads, width}, k_shape{t, kv_heads, width};
  constexpr auto bf16 = DType::bf16;
  const Tensor q = bench.tensor(bf16, q_shape), o = bench.tensor(bf16, q_shape), d_o = bench.tensor(bf16, q_shape),
               dq = bench.tensor(bf16, q_shape);
  const Tensor k = bench.tensor(bf16, k_shape), v = bench.tensor(bf16, k_shape), dk = bench.tensor(bf16, k_shape),
               dv = bench.tensor(bf16, k_shape);
  const Tensor segments = bench.integers(t, 1), log_sum_exp = bench.tensor(DType::f32, {t, heads});
  const Scratch scratch = bench.scratch(attention_scratch_bytes(q_shape, k_shape, bf16, options, bench.context().processor()));
  const double product =
      2.0 * attention_pairs(options) * static_cast<double>(t / sizes.sequence) * static_cast<double>(heads) * static_cast<double>(width);
  bench.products(fmt::format("{} forward, {} heads of {}", name, heads, kv_heads), bf16, 2 * product,
                 [&] { attention_forward(bench.context(), q, k, v, segments, options, o, log_sum_exp, scratch); });
  bench.products(fmt::format("{} backward, {} heads of {}", name, heads, kv_heads), bf16, 5 * product,
                 [&] { attention_input_gradient(bench.context(), d_o, q, k, v, o, log_sum_exp, segments, options, dq, dk, dv, scratch); });
  bench.release();
}

void head(Bench& bench, const Sizes& sizes) {
  if (!bench.wanted("head")) return;
  constexpr auto bf16 = DType::bf16;
  const Tensor h = bench.tensor(bf16, {sizes.tokens, sizes.hidden}), w = bench.tensor(bf16, {sizes.vocabulary, sizes.hidden});
  const Tensor dh = bench.tensor(bf16, h.shape), dw = bench.tensor(DType::f32, w.shape), g = bench.tensor(DType::f32, {1});
  const Tensor targets = bench.integers(sizes.tokens, sizes.vocabulary), log_sum_exp = bench.tensor(DType::f32, {sizes.tokens});
  const Tensor loss{bench.scratch(2 * sizeof(double)).data(), DType::f64, {2}, MemorySpace::device};
  const CrossEntropyOptions options;
  const Scratch scratch = bench.scratch(linear_cross_entropy_scratch_bytes(h.shape, w.shape, bf16, options, bench.context().processor()));
  const double product =
      2.0 * static_cast<double>(sizes.tokens) * static_cast<double>(sizes.vocabulary) * static_cast<double>(sizes.hidden);
  bench.products(fmt::format("head forward {} x {} x {}", sizes.tokens, sizes.vocabulary, sizes.hidden), bf16, product,
                 [&] { linear_cross_entropy_forward(bench.context(), h, w, targets, options, loss, log_sum_exp, scratch); });
  bench.products(fmt::format("head gradients {} x {} x {}", sizes.tokens, sizes.vocabulary, sizes.hidden), bf16, 3 * product,
                 [&] { linear_cross_entropy_gradients(bench.context(), h, w, targets, g, options, dh, loss, log_sum_exp, dw, scratch); });
  bench.release();
}

void pointwise(Bench& bench, const Sizes& sizes) {
  constexpr auto bf16 = DType::bf16, f32 = DType::f32;
  const std::int64_t t = sizes.tokens, d = sizes.hidden;
  const double narrow = 2.0 * static_cast<double>(t) * static_cast<double>(d),
               wide = 2.0 * static_cast<double>(t) * static_cast<double>(sizes.mlp);
  const ExecutionContext& context = bench.context();
  if (bench.wanted("rms_norm")) {
    const Tensor x = bench.tensor(bf16, {t, d}), y = bench.tensor(bf16, {t, d}), dx = bench.tensor(bf16, {t, d});
    const Tensor w = bench.tensor(f32, {d}), dw = bench.tensor(f32, {d}), r = bench.tensor(f32, {t});
    const RmsNormOptions options{.epsilon = 1e-5F};
    const std::string size = fmt::format("{} x {}", t, d);
    bench.traffic("rms_norm forward " + size, 2 * narrow, [&] { rms_norm_forward(context, x, w, options, y, r); });
    bench.traffic("rms_norm dx " + size, 3 * narrow, [&] { rms_norm_input_gradient(context, y, x, w, r, options, dx); });
    bench.traffic("rms_norm dw " + size, 2 * narrow, [&] { rms_norm_weight_gradient(context, y, x, r, dw); });
    bench.release();
  }
  if (bench.wanted("swiglu")) {
    const Shape shape{t, sizes.mlp};
    const Tensor gate = bench.tensor(bf16, shape), up = bench.tensor(bf16, shape), y = bench.tensor(bf16, shape);
    const Tensor d_gate = bench.tensor(bf16, shape), d_up = bench.tensor(bf16, shape);
    const std::string size = fmt::format("{} x {}", t, sizes.mlp);
    bench.traffic("swiglu forward " + size, 3 * wide, [&] { glu_forward(context, Activation::silu, gate, up, y); });
    bench.traffic("swiglu backward " + size, 5 * wide, [&] { glu_input_gradient(context, Activation::silu, y, gate, up, d_gate, d_up); });
    bench.release();
  }
  if (bench.wanted("rope")) {
    const std::int64_t width = std::min<std::int64_t>(64, d);
    const Tensor x = bench.tensor(bf16, {t, d / width, width}), frequencies = bench.tensor(f32, {width / 2});
    const Tensor positions = bench.integers(t, sizes.sequence);
    bench.traffic(fmt::format("rope {} x {} x {}", t, d / width, width), 2 * narrow,
                  [&] { rope(context, x, positions, frequencies, {}, x); });
    bench.release();
  }
}

void copies(Bench& bench, const Sizes& sizes) {
  if (!bench.wanted("copy")) return;
  const Tensor from = bench.tensor(DType::bf16, {8 * sizes.tokens, sizes.hidden}), to = bench.tensor(DType::bf16, from.shape);
  bench.traffic(fmt::format("copy of {} MiB", from.bytes() >> 20), 2.0 * static_cast<double>(from.bytes()),
                [&] { bench.context().device_context().copy(StreamKind::compute, to.data, from.data, from.bytes()); });
  bench.release();
}

}  // namespace

void measure_dense(Bench& bench, const Sizes& sizes) {
  matmuls(bench, sizes);
  for (const std::int64_t width : {64, 128}) attention(bench, sizes, std::min(width, sizes.hidden));
  head(bench, sizes);
  pointwise(bench, sizes);
  copies(bench, sizes);
}

}  // namespace millrace::benchmarks::cuda
