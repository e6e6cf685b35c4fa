#include "kernels/gated_delta_rule.hpp"

#include "kernels/cpu/gated_delta_rule_loops.hpp"
#include "kernels/cpu/items_in_turn.hpp"

namespace millrace::kernels::cpu {
namespace {

static_assert(kChunk == gated_delta_rule_chunk);

GatedDeltaRuleSizes sizes_of(const Shape& q, const Shape& v, GatedDeltaRuleOptions options) {
  GatedDeltaRuleSizes sizes{};
  sizes.sequence = options.sequence;
  sizes.rows = q[0] / options.sequence;
  sizes.key_heads = q[1];
  sizes.value_heads = v[1];
  sizes.group = v[1] / q[1];
  sizes.head_k_dim = q[2];
  sizes.head_v_dim = v[2];
  sizes.keys = (q[2] + 15) / 16 * 16;
  sizes.values = (v[2] + 15) / 16 * 16;
  sizes.chunks = (options.sequence + kChunk - 1) / kChunk;
  sizes.scale = options.scale;
  sizes.read_segments = !options.one_segment;
  sizes.reset_at_segments = options.reset_at_segments;
  return sizes;
}

// Calls body(row, key head, the thread's memory) for each.
template <class Body>
void for_heads(ThreadTeam& team, const GatedDeltaRuleSizes& sizes, std::int64_t floats, Scratch scratch, Body&& body) {
  for_items_in_turn(team, sizes.rows * sizes.key_heads, [&](std::int64_t item, int thread) {
    body(item / sizes.key_heads, item % sizes.key_heads, reinterpret_cast<float*>(scratch.data()) + thread * per_thread(floats));
  });
}

template <class T>
GatedDeltaRuleOperands<T> operands(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g, const Tensor& beta,
                                   const Tensor& segments, GatedDeltaRuleOptions options) {
  return {sizes_of(q.shape, v.shape, options), q.as<T>(), k.as<T>(), v.as<T>(), g.as<float>(), beta.as<float>(),
          segments.as<std::int32_t>()};
}

void gated_delta_rule_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                              const Tensor& beta, const Tensor& segments, GatedDeltaRuleOptions options, const Tensor& o, Scratch scratch) {
  const auto run = [&]<class T>(T, auto* head) {
    const GatedDeltaRuleForward<T> at{operands<T>(q, k, v, g, beta, segments, options), o.as<T>()};
    for_heads(context.team(), at.in.sizes, delta_forward_floats(at.in.sizes), scratch,
              [&](std::int64_t row, std::int64_t key_head, float* memory) { head(at, row, key_head, memory); });
  };
  if (q.dtype == DType::f32)
    run(float{}, pick_gated_delta_rule_forward_f32());
  else
    run(BFloat16{}, pick_gated_delta_rule_forward_bf16());
}

void gated_delta_rule_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& g, const Tensor& beta, const Tensor& segments, GatedDeltaRuleOptions options,
                                     const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& dg, const Tensor& dbeta,
                                     Scratch scratch) {
  const auto run = [&]<class T>(T, auto* head) {
    const GatedDeltaRuleBackward<T> at{operands<T>(q, k, v, g, beta, segments, options),
                                       d_o.as<T>(),
                                       dq.as<T>(),
                                       dk.as<T>(),
                                       dv.as<T>(),
                                       dg.as<float>(),
                                       dbeta.as<float>()};
    for_heads(context.team(), at.in.sizes, delta_backward_floats(at.in.sizes), scratch,
              [&](std::int64_t row, std::int64_t key_head, float* memory) { head(at, row, key_head, memory); });
  };
  if (q.dtype == DType::f32)
    run(float{}, pick_gated_delta_rule_backward_f32());
  else
    run(BFloat16{}, pick_gated_delta_rule_backward_bf16());
}

std::size_t gated_delta_rule_forward_scratch_bytes(const Shape& q, const Shape& v, GatedDeltaRuleOptions options,
                                                   const Processor& processor) {
  return static_cast<std::size_t>(processor.threads * per_thread(delta_forward_floats(sizes_of(q, v, options)))) * sizeof(float);
}

std::size_t gated_delta_rule_gradient_scratch_bytes(const Shape& q, const Shape& v, GatedDeltaRuleOptions options,
                                                    const Processor& processor) {
  return static_cast<std::size_t>(processor.threads * per_thread(delta_backward_floats(sizes_of(q, v, options)))) * sizeof(float);
}

const InTable in_table[] = {
    {Backend::cpu, table::gated_delta_rule_forward, gated_delta_rule_forward},
    {Backend::cpu, table::gated_delta_rule_input_gradient, gated_delta_rule_input_gradient},
    {Backend::cpu, table::gated_delta_rule_forward_scratch_bytes, gated_delta_rule_forward_scratch_bytes},
    {Backend::cpu, table::gated_delta_rule_gradient_scratch_bytes, gated_delta_rule_gradient_scratch_bytes},
};

}  // namespace
}  // namespace millrace::kernels::cpu
