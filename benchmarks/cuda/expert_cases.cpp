#include "benchmarks/cuda/bench.hpp"
#include "kernels/expert_rows.hpp"
#include "kernels/grouped_matmul.hpp"
#include "kernels/matmul.hpp"
#include "kernels/route.hpp"

// Routers, rows in the order of experts, and the products of experts, each beside the dense product with the same FLOPs.
namespace millrace::benchmarks::cuda {
namespace {

/// Offsets of groups of different sizes: expert e has a share of 1 + e % 3.
Tensor ragged_offsets(Bench& bench, std::int64_t experts, std::int64_t rows) {
  std::vector<std::int32_t> offsets{0};
  std::int64_t shares = 0, sum = 0;
  for (std::int64_t e = 0; e < experts; ++e) shares += 1 + e % 3;
  for (std::int64_t e = 0; e < experts; ++e) {
    sum += 1 + e % 3;
    offsets.push_back(static_cast<std::int32_t>(rows * sum / shares));
  }
  return bench.integers(offsets);
}

void grouped(Bench& bench, std::int64_t rows, std::int64_t experts, std::int64_t in, std::int64_t out) {
  const auto name = fmt::format("grouped {} rows, {} experts, {} x {}", rows, experts, out, in);
  if (!bench.wanted(name)) return;
  constexpr auto bf16 = DType::bf16, f32 = DType::f32;
  const ExecutionContext& context = bench.context();
  const Tensor x = bench.tensor(bf16, {rows, in}), y = bench.tensor(bf16, {rows, out});
  const Tensor w = bench.tensor(bf16, {experts, out, in}), dw = bench.tensor(f32, w.shape);
  const Tensor offsets = ragged_offsets(bench, experts, rows);
  Tensor one = w, d_one = dw;
  one.shape = d_one.shape = {out, in};
  const GroupedMatmulOptions turned{.transpose_b = true}, plain{};
  const MatmulOptions forward{.transpose_b = true}, dx{}, dense_dw{.transpose_a = true, .accumulate = true};
  const Processor& processor = context.processor();
  const Scratch scratch = bench.scratch(std::max({grouped_matmul_scratch_bytes(x.shape, w.shape, bf16, bf16, turned, processor),
                                                  grouped_matmul_scratch_bytes(y.shape, w.shape, bf16, bf16, plain, processor),
                                                  grouped_weight_gradient_scratch_bytes(y.shape, x.shape, bf16, processor),
                                                  matmul_scratch_bytes(x.shape, one.shape, bf16, bf16, forward, processor),
                                                  matmul_scratch_bytes(y.shape, one.shape, bf16, bf16, dx, processor),
                                                  matmul_scratch_bytes(y.shape, x.shape, bf16, f32, dense_dw, processor)}));
  const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
  bench.products(name + " forward", bf16, flops, [&] { grouped_matmul(context, x, w, offsets, y, turned, scratch); });
  bench.products("  dense", bf16, flops, [&] { matmul(context, x, one, y, forward, scratch); });
  bench.products(name + " dx", bf16, flops, [&] { grouped_matmul(context, y, w, offsets, x, plain, scratch); });
  bench.products("  dense", bf16, flops, [&] { matmul(context, y, one, x, dx, scratch); });
  bench.products(name + " dw", bf16, flops, [&] { grouped_weight_gradient(context, y, x, offsets, dw, scratch); });
  bench.products("  dense", bf16, flops, [&] { matmul(context, y, x, d_one, dense_dw, scratch); });
  bench.release();
}

void routing(Bench& bench, const Sizes& sizes, std::int64_t experts, std::int64_t chosen) {
  const auto name = fmt::format("routing {} of {} experts", chosen, experts);
  if (!bench.wanted(name)) return;
  constexpr auto bf16 = DType::bf16, f32 = DType::f32;
  const ExecutionContext& context = bench.context();
  const std::int64_t t = sizes.tokens, d = sizes.hidden;
  const Tensor logits = bench.tensor(f32, {t, experts}), weights = bench.tensor(f32, {t, chosen});
  const Tensor x = bench.tensor(bf16, {t, d}), y = bench.tensor(bf16, {t, d}), rows = bench.tensor(bf16, {t * chosen, d});
  Tensor choices = bench.integers(t * chosen, experts), places = bench.integers(t * chosen, t * chosen);
  choices.shape = places.shape = {t, chosen};
  const Tensor offsets = bench.integers(experts + 1, 1);
  const RouteOptions options{.experts_per_token = chosen, .normalise = true};
  const double scores = 4.0 * static_cast<double>(t) * static_cast<double>(experts);
  const double row_bytes = 2.0 * static_cast<double>(t) * static_cast<double>(d), moved = row_bytes * static_cast<double>(1 + chosen);
  bench.traffic(name + ", choice", scores, [&] { route(context, logits, nullptr, options, weights, choices); });
  bench.traffic(name + ", choice's gradient", 2 * scores,
                [&] { route_input_gradient(context, weights, logits, nullptr, choices, options, logits); });
  bench.traffic(name + ", sorted", 8.0 * static_cast<double>(t * chosen), [&] { sort_by_expert(context, choices, places, offsets); });
  bench.traffic(name + ", gathered", moved, [&] { gather_rows(context, x, places, nullptr, rows); });
  bench.traffic(name + ", combined", moved, [&] { combine_rows(context, rows, places, &weights, y); });
  bench.traffic(name + ", weights' gradient", moved, [&] { row_products(context, x, rows, places, weights); });
  bench.release();
}

}  // namespace

void measure_experts(Bench& bench, const Sizes& sizes) {
  const std::int64_t rows = 2 * sizes.tokens;
  grouped(bench, rows, 8, sizes.hidden, sizes.mlp);
  grouped(bench, rows, 64, sizes.hidden, sizes.mlp * 3 / 16);
  routing(bench, sizes, 64, 8);
}

}  // namespace millrace::benchmarks::cuda
