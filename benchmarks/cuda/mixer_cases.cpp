#include <cmath>

#include "benchmarks/cuda/bench.hpp"
#include "kernels/attention.hpp"
#include "kernels/gated_delta_rule.hpp"

// Mixers of tokens for which there is no library: latent attention, windows, and the gated delta rule.
namespace millrace::benchmarks::cuda {
namespace {

/// Attention that our own kernels compute: values of another width than keys, or a window.
void attention_case(Bench& bench, const Sizes& sizes, const std::string& what, std::int64_t width, std::int64_t values,
                    AttentionOptions options) {
  const auto name = fmt::format("{} {}/{} S {}", what, width, values, sizes.sequence);
  if (!bench.wanted(name)) return;
  constexpr auto bf16 = DType::bf16;
  const std::int64_t t = sizes.sequence, heads = std::max<std::int64_t>(sizes.hidden / 128, 1);
  const Shape keys{t, heads, width}, outputs{t, heads, values};
  const Tensor q = bench.tensor(bf16, keys), k = bench.tensor(bf16, keys), v = bench.tensor(bf16, outputs), o = bench.tensor(bf16, outputs);
  const Tensor d_o = bench.tensor(bf16, outputs), dq = bench.tensor(bf16, keys), dk = bench.tensor(bf16, keys),
               dv = bench.tensor(bf16, outputs);
  const Tensor segments = bench.integers(t, 1), log_sum_exp = bench.tensor(DType::f32, {t, heads});
  const Scratch scratch = bench.scratch(attention_scratch_bytes(keys, keys, bf16, options, bench.context().processor()));
  const double pairs = 2.0 * attention_pairs(options) * static_cast<double>(heads);
  const auto k_width = static_cast<double>(width), v_width = static_cast<double>(values);
  bench.products(name + " forward", bf16, pairs * (k_width + v_width),
                 [&] { attention_forward(bench.context(), q, k, v, segments, options, o, log_sum_exp, scratch); });
  bench.products(name + " backward", bf16, pairs * (3 * k_width + 2 * v_width),
                 [&] { attention_input_gradient(bench.context(), d_o, q, k, v, o, log_sum_exp, segments, options, dq, dk, dv, scratch); });
  bench.release();
}

void delta_rule(Bench& bench, const Sizes& sizes) {
  if (!bench.wanted("delta rule")) return;
  constexpr auto bf16 = DType::bf16, f32 = DType::f32;
  const std::int64_t t = sizes.tokens, width = std::min<std::int64_t>(128, sizes.hidden),
                     value_heads = std::max<std::int64_t>(sizes.hidden / width, 2), key_heads = value_heads / 2;
  const Shape keys{t, key_heads, width}, values{t, value_heads, width}, numbers{t, value_heads};
  const Tensor q = bench.tensor(bf16, keys), k = bench.tensor(bf16, keys), v = bench.tensor(bf16, values), d_o = bench.tensor(bf16, values);
  const Tensor o = bench.tensor(bf16, values), dq = bench.tensor(bf16, keys), dk = bench.tensor(bf16, keys),
               dv = bench.tensor(bf16, values);
  const Tensor g = bench.tensor(f32, numbers), beta = bench.tensor(f32, numbers), dg = bench.tensor(f32, numbers),
               dbeta = bench.tensor(f32, numbers);
  const Tensor segments = bench.integers(t, 1);
  const GatedDeltaRuleOptions options{
      .sequence = sizes.sequence, .head_k_dim = width, .head_v_dim = width, .scale = 0.088F, .one_segment = true};
  const Processor& processor = bench.context().processor();
  const Scratch scratch = bench.scratch(std::max(gated_delta_rule_forward_scratch_bytes(keys, values, options, processor),
                                                 gated_delta_rule_gradient_scratch_bytes(keys, values, options, processor)));
  const GatedDeltaRuleFlops flops = gated_delta_rule_flops(t, key_heads, value_heads, options);
  const auto name = fmt::format("delta rule {} tokens, {} heads of {}", t, value_heads, width);
  bench.products(name + " forward", f32, flops.forward,
                 [&] { gated_delta_rule_forward(bench.context(), q, k, v, g, beta, segments, options, o, scratch); });
  bench.products(name + " backward", f32, flops.gradient, [&] {
    gated_delta_rule_input_gradient(bench.context(), d_o, q, k, v, g, beta, segments, options, dq, dk, dv, dg, dbeta, scratch);
  });
  bench.release();
}

}  // namespace

void measure_mixers(Bench& bench, const Sizes& sizes) {
  attention_case(bench, sizes, "latent attention", 192, 128,
                 {.sequence = sizes.sequence, .v_head_dim = 128, .scale = 0.07F, .one_segment = true});
  attention_case(bench, sizes, "window attention", 128, 128,
                 {.sequence = sizes.sequence, .scale = 0.088F, .window = 1024, .one_segment = true});
  delta_rule(bench, sizes);
}

}  // namespace millrace::benchmarks::cuda
