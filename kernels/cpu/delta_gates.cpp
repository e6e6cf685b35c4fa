#include "kernels/delta_gates.hpp"

#include "kernels/cpu/delta_gates_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kTokenGrain = 32;
constexpr std::int64_t kHeadGrain = 16;

template <class T>
DeltaGates<T> operands(const Tensor& a, const Tensor* b, const Tensor& a_log, const Tensor& dt_bias, DeltaGatesOptions options) {
  return {a.as<T>(),          b == nullptr ? nullptr : b->as<T>(), a_log.as<float>(), dt_bias.as<float>(), a.shape[0], a.shape[1],
          options.round_decay};
}

void delta_gates_forward(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& a_log, const Tensor& dt_bias,
                         DeltaGatesOptions options, const Tensor& g, const Tensor& beta) {
  const auto run = [&]<class T>(T, auto* loop) {
    const DeltaGatesForward<T> at{operands<T>(a, &b, a_log, dt_bias, options), g.as<float>(), beta.as<float>()};
    context.team().for_ranges(a.shape[0], kTokenGrain, [&](std::int64_t begin, std::int64_t end) { loop(at, begin, end); });
  };
  if (a.dtype == DType::f32)
    run(float{}, pick_delta_gates_forward_f32());
  else
    run(BFloat16{}, pick_delta_gates_forward_bf16());
}

void delta_gates_input_gradient(const ExecutionContext& context, const Tensor& dg, const Tensor& dbeta, const Tensor& a, const Tensor& b,
                                const Tensor& a_log, const Tensor& dt_bias, DeltaGatesOptions options, const Tensor& da, const Tensor& db) {
  const auto run = [&]<class T>(T, auto* loop) {
    const DeltaGatesInputGradient<T> at{operands<T>(a, &b, a_log, dt_bias, options), dg.as<float>(), dbeta.as<float>(), da.as<T>(),
                                        db.as<T>()};
    context.team().for_ranges(a.shape[0], kTokenGrain, [&](std::int64_t begin, std::int64_t end) { loop(at, begin, end); });
  };
  if (a.dtype == DType::f32)
    run(float{}, pick_delta_gates_input_gradient_f32());
  else
    run(BFloat16{}, pick_delta_gates_input_gradient_bf16());
}

// Each thread owns heads, so the order of a sum over tokens does not depend on the number of threads.
void delta_gates_weight_gradient(const ExecutionContext& context, const Tensor& dg, const Tensor& a, const Tensor& a_log,
                                 const Tensor& dt_bias, DeltaGatesOptions options, const Tensor& d_a_log, const Tensor& d_dt_bias) {
  const auto run = [&]<class T>(T, auto* loop) {
    const DeltaGatesWeightGradient<T> at{operands<T>(a, nullptr, a_log, dt_bias, options), dg.as<float>(), d_a_log.as<float>(),
                                         d_dt_bias.as<float>()};
    context.team().for_ranges(a.shape[1], kHeadGrain, [&](std::int64_t begin, std::int64_t end) { loop(at, begin, end); });
  };
  if (a.dtype == DType::f32)
    run(float{}, pick_delta_gates_weight_gradient_f32());
  else
    run(BFloat16{}, pick_delta_gates_weight_gradient_bf16());
}

const InTable in_table[] = {
    {Backend::cpu, table::delta_gates_forward, delta_gates_forward},
    {Backend::cpu, table::delta_gates_input_gradient, delta_gates_input_gradient},
    {Backend::cpu, table::delta_gates_weight_gradient, delta_gates_weight_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu
