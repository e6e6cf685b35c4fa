// latent_attention_bench [threads]: attention with the head widths of multi-head latent attention (queries and keys of 192 features, values
// of 128; 16 heads, one row of 2,048 tokens) against heads of one width that need as many FLOPs. In the forward 160 features do: 192 + 128
// = 2 · 160. In the backward three products are over D and two over Dv, 832 features instead of 800, so both are compared by their GFLOP/s.
// The ratio is that of the two widths to the one: 1 means that a second width costs nothing.

#include <fmt/format.h>

#include <algorithm>

#include "benchmarks/kernels/filled.hpp"
#include "benchmarks/kernels/owned_tensor.hpp"
#include "benchmarks/kernels/timing.hpp"
#include "kernels/attention.hpp"
#include "kernels/base/buffer.hpp"

namespace {

using namespace millrace::kernels;
using namespace millrace::benchmarks;

constexpr std::int64_t kTokens = 2048, kHeads = 16;

// The operands and results of one kind of heads, with memory of their own.
class Heads {
 public:
  Heads(const ExecutionContext& context, DType dtype, std::int64_t width, std::int64_t values)
      : context_(context),
        options_{.sequence = kTokens, .v_head_dim = values, .scale = 0.07F},
        width_(static_cast<double>(width)),
        values_(static_cast<double>(values)),
        q_(dtype, {kTokens, kHeads, width}),
        k_(dtype, q_.tensor.shape),
        v_(dtype, {kTokens, kHeads, values}),
        d_o_(dtype, v_.tensor.shape),
        o_(dtype, v_.tensor.shape),
        dq_(dtype, q_.tensor.shape),
        dk_(dtype, q_.tensor.shape),
        dv_(dtype, v_.tensor.shape),
        segments_(DType::i32, {kTokens}),
        sums_(DType::f32, {kTokens, kHeads}),
        scratch_(attention_scratch_bytes(q_.tensor.shape, k_.tensor.shape, dtype, options_, context.processor())) {
    for (const OwnedTensor* operand : {&q_, &k_, &v_, &d_o_}) fill(operand->tensor);
  }

  // GFLOP/s of one call.
  double forward() {
    const double seconds = seconds_of(
        [&] {
          attention_forward(context_, q_.tensor, k_.tensor, v_.tensor, segments_.tensor, options_, o_.tensor, sums_.tensor,
                            scratch_.bytes());
        },
        0.1, 1);
    return rate(width_ + values_, seconds);
  }
  double backward() {
    const double seconds = seconds_of(
        [&] {
          attention_input_gradient(context_, d_o_.tensor, q_.tensor, k_.tensor, v_.tensor, o_.tensor, sums_.tensor, segments_.tensor,
                                   options_, dq_.tensor, dk_.tensor, dv_.tensor, scratch_.bytes());
        },
        0.1, 1);
    return rate(3 * width_ + 2 * values_, seconds);
  }

 private:
  [[nodiscard]] double rate(double features, double seconds) const {
    return 2 * attention_pairs(options_) * static_cast<double>(kHeads) * features / seconds * 1e-9;
  }

  const ExecutionContext& context_;
  AttentionOptions options_;
  double width_, values_;
  OwnedTensor q_, k_, v_, d_o_, o_, dq_, dk_, dv_, segments_, sums_;
  Buffer scratch_;
};

void measure(const ExecutionContext& context, DType dtype) {
  Heads latent(context, dtype, 192, 128), equal(context, dtype, 160, 160);
  // In turn, so that other work on the machine disturbs both; the best of each, since it only ever slows a run down.
  double best[2][2] = {};
  for (int round = 0; round < 5; ++round)
    for (int kind = 0; kind < 2; ++kind) {
      Heads& heads = kind == 0 ? latent : equal;
      best[kind][0] = std::max(best[kind][0], heads.forward());
      best[kind][1] = std::max(best[kind][1], heads.backward());
    }
  for (int pass = 0; pass < 2; ++pass)
    fmt::print("{:4}  {:8}  192/128: {:7.1f} GFLOP/s   160/160: {:7.1f} GFLOP/s   ratio {:.3f}\n", to_string(dtype),
               pass == 0 ? "forward" : "backward", best[0][pass], best[1][pass], best[0][pass] / best[1][pass]);
}

}  // namespace

int main(int argc, char** argv) {
  ThreadTeam team(threads_from(argc, argv));
  const ExecutionContext context(team);
  fmt::print("{} threads, {} heads, {} tokens\n", team.size(), kHeads, kTokens);
  for (const DType dtype : {DType::f32, DType::bf16}) measure(context, dtype);
  return 0;
}
